"""What an arm of a fit is: one or several models more that are planned, trained, compared and served, in one file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from headstart.fit import defaults
from headstart.fit.known import Amount, Known, looks
from headstart.fit.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.sequence import Signature

if TYPE_CHECKING:
    from headstart.stage import TrainStage
    from headstart.study.language.plan import PlannedStage

Networks: TypeAlias = "Sequence[tuple[PlannedStage, TrainStage]]"
"""Stages of a plan that train, each with its spec."""
LAST = 99
"""The rank of an arm that is taken after all others."""


class Weights(Protocol):
    """What an arm reads: made elsewhere, known by its content."""

    @property
    def source(self) -> str:
        """Where it is."""

    @property
    def content(self) -> str:
        """Digest of what is in it."""


@dataclass(frozen=True)
class Frame:
    """What the lines of an arm in the study are made from. why: self-pretraining is left out, in words."""

    known: Known
    shape: defaults.Shape
    settings: FitSettings
    amount: Amount
    why: str = ""

    @property
    def task(self) -> dict[str, Any]:
        """What of the task a network of headstart reads."""
        return self.shape.task(self.shape.longest)

    @property
    def alone(self) -> dict[str, Any]:
        """The same of a network that joins no positions."""
        return self.shape.task(self.shape.alone)

    @property
    def model(self) -> dict[str, Any]:
        """The model of a network of headstart: said in its arm, since that of a checkpoint has its own norm and input
        layer."""
        kind = defaults.KINDS[self.known.kind]
        norm: dict[str, Any] = {"norm": kind.norm} if kind.norm != "layer" else {}
        return norm | ({"encoder": {"patch": self.shape.join}} if self.shape.join > 1 else {})

    @property
    def usual(self) -> dict[str, Any]:
        """The arm of the network from random weights."""
        return {**self.task, "model": self.model} if self.model else self.task

    @property
    def signature(self) -> Signature:
        """Of what networks read: patches where positions are joined, of which the last may have room left."""
        from headstart.tasks.task import patched_signature

        known, patch = self.known, self.shape.patch
        if patch == 1:
            return known.signature
        lengths = np.minimum(known.lengths, self.shape.longest or sys.maxsize)
        room = bool((lengths % patch).any())
        return replace(patched_signature(known.signature, patch), missing=known.signature.missing or room)

    def budget(self, steps: int, scored: str = "held_out") -> dict[str, Any]:
        """Of a training of so many steps."""
        return {"steps": steps, "evaluate_every": max(1, steps / looks(self.known, steps)), "scored": scored}


@dataclass(frozen=True)
class Spent:
    """Seconds of trainings. times: stage, or arm of weights from elsewhere, -> those of a step and of a score."""

    known: Known
    settings: FitSettings
    amount: Amount
    times: Mapping[str, StepTime]

    def time(self, *names: str) -> StepTime:
        """Of the first of these that was timed."""
        return next((self.times[name] for name in names if name in self.times), StepTime(0.0, 0.0))

    def of(self, time: StepTime, steps: int, scored: int | None = None) -> float:
        """Steps, looks at validation, and scores of validation and test at the end, at two weights."""
        rest = self.known.val + self.known.test if scored is None else scored
        return time.step * steps + time.unit * (looks(self.known, steps) * self.known.val + 2 * rest)

    def training(self) -> float:
        """Of a network from random weights."""
        return self.of(self.time("finetune"), self.amount.steps)

    def pretraining(self) -> float:
        """Of a self-pretraining."""
        return self.of(self.time("pretrain"), self.amount.pretrain_steps, self.known.val)


class Arm(Protocol):
    """Models of a fit that are wanted together.

    Arms say: names: those of the study, the simplest first. network: whether they are networks, which train in what is
    left of the time. slow: without gradients, but fitted after the others. servable: by name; option: the setting that
    asks for them. foreign: their blocks may be of any size. rank: of models with equal validation scores the lowest is
    served. helps: name -> what may have helped it, in words, over a network from random weights; missed: said where it
    was not planned.
    """

    names: tuple[str, ...] = ()
    network: bool = True
    slow: bool = False
    servable: bool = False
    option: str = ""
    foreign: bool = False
    rank: int = LAST
    helps: Mapping[str, str] = {}
    missed: str = ""

    def weights(self, known: Known) -> Weights | None:
        """What it reads, where that is at hand."""
        return None

    def stages(self, known: Known) -> dict[str, Any]:
        """Stages of the study before all others: what is read."""
        weights = self.weights(known)
        return (
            {} if weights is None or not self.network else {self.names[0]: {"checkpoint": {"content": weights.content}}}
        )

    def title(self, known: Known) -> str:
        """What the study's title says of it."""
        return ""

    def tables(self, frame: Frame) -> dict[str, Any]:
        """Its arms as the study has them; none where it is not wanted."""
        return {}

    def seconds(self, spent: Spent) -> float:
        """Of its trainings, in one run at one rate."""
        return 0.0

    def seconds_before(self, spent: Spent) -> float:
        """Of what it trains first, in one run, for all rates."""
        return 0.0

    def beside(self, frame: Frame, networks: Networks) -> list[str]:
        """What the plan says where it says what the network is."""
        return []

    def singly(self, frame: Frame) -> list[str]:
        """Models of it that join no positions."""
        return []

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        """What the plan says of it. networks: the stages that train."""
        return []

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        """Each of its models in words. arms: of the study."""
        return {}
