"""What is performed and how: the job of one stage, a probe of its speed, the runtime, and the engine that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Runtime:
    """How stages are performed. Never part of an identity.

    device: `auto` (CUDA where there is one, else CPU), `cpu`, `cuda` (each worker takes a
    GPU of its own) or `cuda:N`. workers: processes (0: in this one).
    threads: of each stage. save_every: seconds between states, at most 60. limit: seconds for the whole run.
    """

    data: Path = Path("data")
    device: str = "auto"
    workers: int = 0
    threads: int = 1
    save_every: float = 20.0
    limit: float | None = None


@dataclass(frozen=True)
class Engine:
    """What training is done with; a test may put small stand-ins here. All are functions of a module."""

    begin: Callable[..., Any]
    identity: Callable[[Any, Path], str]
    open_task: Callable[[Any, Path], Any]
    probe_task: Callable[[Any, Path, int, int], Any] | None = None


@dataclass(frozen=True)
class Job:
    """One stage to be done. parent: the identity of the stage whose weights it starts from, or None."""

    name: str
    identity: str
    spec: Any
    parent: str | None

    @property
    def document(self) -> dict[str, Any]:
        """What `stage.json` says of it."""
        return {"name": self.name, "spec": self.spec.model_dump(mode="json"), "parent": self.parent}


@dataclass(frozen=True)
class Probe:
    """A stage of which a few steps are timed; nothing of it is kept. kind: equal for stages of equal steps."""

    kind: str
    spec: Any


def training() -> Engine:
    """The engine of every real run."""
    from headstart.stage import begin, identity
    from headstart.tasks import open_task
    from headstart.tasks.outline import probe_task

    return Engine(begin, identity, open_task, probe_task)
