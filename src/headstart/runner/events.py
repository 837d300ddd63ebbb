"""What a run reports while it goes: small values, for a progress display, a log or a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

StopReason = Literal["interrupted", "limit"]


@dataclass(frozen=True)
class Event:
    """Something about the stage `identity`, which the study calls `name`."""

    identity: str
    name: str
    begins: ClassVar[bool] = False
    """Whether the stage has begun."""


@dataclass(frozen=True)
class Started(Event):
    """Training begins, or goes on: `step` steps are done already; `attempt` counts from 1."""

    begins = True

    attempt: int
    step: int = 0


@dataclass(frozen=True)
class StageProgress(Event):
    """`step` of `steps` steps are done. Comes with every record, and a few times a second without one."""

    step: int
    steps: int
    record: dict[str, Any] | None = None


@dataclass(frozen=True)
class Finished(Event):
    """The stage is complete or diverged, and published; `result` is its `result.json`."""

    result: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Skipped(Event):
    """The stage was complete or diverged before: `result` is its `result.json`."""

    result: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Failed(Event):
    """The stage failed (`failure.txt` says more), or was not `tried` because of its parent."""

    message: str
    tried: bool = True


@dataclass(frozen=True)
class Stopped(Event):
    """The stage saved its state and stopped before its end; the same command goes on from there."""

    reason: StopReason


@dataclass(frozen=True)
class Waiting(Event):
    """Another process is at this stage; it is waited for and its result used."""


@dataclass(frozen=True)
class Notice(Event):
    """Something that a person should hear: damage, a lost worker."""

    text: str


@dataclass(frozen=True)
class StepTime:
    """Seconds of a training step, and of scoring one unit (a sequence or a pair)."""

    step: float
    unit: float

    LEAST: ClassVar = 0.0125
    """Of a step whatever its size: least squares over the times of 22 studies of scale tiny (2-core AMD EPYC, two
    stages at a time), which this and 22.6 GFLOP/s hit within a factor of 1.7, but for one of 2.2."""


@dataclass(frozen=True)
class TooLarge(Event):
    """The stack of so many models of which the stage is one does not fit into the memory of the device."""

    models: int


@dataclass(frozen=True)
class Timed(Event):
    """A probe has timed steps; `identity` is its kind."""

    time: StepTime


ENDS = (Finished, Skipped, Failed, Stopped, Waiting)
"""Events after which a stage is no longer its worker's."""
