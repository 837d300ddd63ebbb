"""What an arm of a fit is: one or several models more that are planned, trained, compared and served, in one file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from headstart.core import StepTime
from headstart.fit import defaults
from headstart.fit.basis import Amount, Basis, WeightsRead, looks
from headstart.request.settings import FitSettings
from headstart.sequence import Signature

if TYPE_CHECKING:
    from headstart.core import PlannedStage

NO_ARMS = Amount(())
"""No arm takes part."""
Networks: TypeAlias = "Sequence[tuple[PlannedStage, Any]]"
"""Stages of a plan that train, each with its spec."""


@dataclass(frozen=True)
class Frame:
    """What the lines of an arm in the study are made from."""

    basis: Basis
    shape: defaults.ModelShape
    settings: FitSettings
    amount: Amount

    @property
    def task(self) -> dict[str, Any]:
        """What of the task a network of headstart reads."""
        return self.shape.task(self.shape.longest)

    @property
    def alone(self) -> dict[str, Any]:
        """The same of a network that joins no positions."""
        return self.shape.task(self.shape.alone)

    def alone_text(self, name: str) -> list[str]:
        """What the plan says of such a network, where it reads other positions than those of headstart."""
        if self.shape.alone in (None, self.shape.longest):
            return []
        return [f"{name}: no positions are joined, and the first {self.shape.alone:,} are read"]

    @property
    def model(self) -> dict[str, Any]:
        """The model of a network of headstart: said in its arm, since that of a checkpoint has its own norm and input
        layer."""
        kind = defaults.INPUT_KINDS[self.basis.kind]
        norm: dict[str, Any] = {"norm": kind.norm} if kind.norm != "layer" else {}
        return norm | ({"encoder": {"patch": self.shape.join}} if self.shape.join > 1 else {})

    @property
    def usual(self) -> dict[str, Any]:
        """The arm of the network from random weights."""
        return {**self.task, "model": self.model} if self.model else self.task

    @property
    def signature(self) -> Signature:
        """Of what networks read: patches where positions are joined, of which the last may have room left."""
        basis, patch = self.basis, self.shape.patch
        if patch == 1:
            return basis.signature
        lengths = np.minimum(basis.lengths, self.shape.longest or sys.maxsize)
        room = bool((lengths % patch).any())
        return replace(basis.signature.patched(patch), missing=basis.signature.missing or room)

    def budget(self, steps: int, scored: str = "held_out") -> dict[str, Any]:
        """Of a training of so many steps."""
        return {"steps": steps, "evaluate_every": max(1, steps / looks(self.basis, steps)), "scored": scored}


@dataclass(frozen=True)
class Spent:
    """Seconds of trainings. times: stage, or arm of weights from elsewhere, -> those of a step and of a score."""

    basis: Basis
    amount: Amount
    times: Mapping[str, StepTime]
    settings: FitSettings = field(default_factory=FitSettings)

    def time(self, *names: str) -> StepTime:
        """Of the first of these that was timed."""
        return next((self.times[name] for name in names if name in self.times), StepTime(0.0, 0.0))

    def of(self, time: StepTime, steps: int, scored: int | None = None) -> float:
        """Steps, looks at validation, and scores of validation and test at the end, at two weights."""
        if not steps:
            return 0.0
        rest = self.basis.val + self.basis.test if scored is None else scored
        return time.step * steps + time.unit * (looks(self.basis, steps) * self.basis.val + 2 * rest)

    def training(self) -> float:
        """Of a network from random weights."""
        return self.of(self.time("finetune"), self.amount.steps)

    def pretraining(self) -> float:
        """Of a self-pretraining; 0 where there is none."""
        return self.of(self.time("pretrain"), self.amount.pretrain_steps, self.basis.val)


@dataclass(frozen=True)
class Offer:
    """What the time leaves for an arm beside all that are worth more."""

    basis: Basis
    settings: FitSettings
    amount: Amount = NO_ARMS
    """With it."""
    whole: Amount = NO_ARMS
    """With any time."""
    fits: bool = True
    """All of it ends in time."""
    network: bool = False
    """A network takes part without this arm."""
    time_for: Callable[[Amount], float] = lambda _: 0.0
    """Seconds that a fit of such an amount takes, all of it."""


class Arm(Protocol):
    """Models of a fit that are wanted together."""

    names: tuple[str, ...] = ()
    """Those of the study, the simplest first."""
    network: bool = True
    """They are networks, which train in what is left of the time."""
    slow: bool = False
    """Without gradients, but fitted after the others."""
    servable: bool = False
    """By name."""
    option: str = ""
    """The setting that asks for them."""
    reads: type[WeightsRead] | None = None
    """Weights made elsewhere; where none are at hand, the arm is not wanted."""
    foreign: bool = False
    """Their blocks are from elsewhere, and may be of any size."""
    base: bool = False
    """The other networks are held against it."""
    constant: str = ""
    """The model among them that answers every sequence alike."""
    rank: int | None = None
    """Of models with equal validation scores the one of the lowest rank is served; without a rank, the last."""
    helps: Mapping[str, str] = {}
    """Name -> what may have helped it over the base, in words."""
    missed: str = ""
    """What is said where it was not planned."""
    pretrained: bool = False
    """A self-pretraining goes before."""
    apart: str = ""
    """The model with a number of steps of its own."""
    share: float = 1.0
    """Of the time left, so much at most is for that model."""
    spare: bool = False
    """It has what all others leave, and changes nothing of theirs."""

    def names_for(self, settings: FitSettings) -> tuple[str, ...]:
        """Its names, where settings may bring more."""
        return self.names

    def check(self, settings: FitSettings) -> None:
        """Raises: BadInput for settings of it that are none."""

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        """Whether it takes part, where the time suffices."""
        return self.reads is None or basis.holds(self.reads)

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        """The time goes to the arm of the greatest worth first."""
        return 5.0

    def lacks(self, offer: Offer) -> bool:
        """Whether the offer is below its smallest useful budget."""
        return False

    def left_out(self, offer: Offer) -> list[str]:
        """Why it does not take part, as lines of the plan."""
        return []

    def seconds(self, spent: Spent) -> float:
        """Of its trainings, in one run at one rate."""
        return 0.0

    def seconds_before(self, spent: Spent) -> float:
        """Of what it trains first, in one run, for all rates."""
        return 0.0

    def weights(self, basis: Basis) -> WeightsRead | None:
        """What it reads, where that is at hand."""
        return basis.weights(self.reads) if self.reads is not None and basis.holds(self.reads) else None

    def stages(self, basis: Basis) -> dict[str, Any]:
        """Stages of the study before all others: what its networks read, under its first name."""
        weights = self.weights(basis)
        if weights is None or not self.network:
            return {}
        return {self.names[0]: {"checkpoint": {"content": weights.content}}}

    def title(self, basis: Basis) -> str:
        """What the study's title says of it."""
        return ""

    def tables(self, frame: Frame) -> dict[str, Any]:
        """Its arms as the study has them."""
        return {}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        """What the plan says of it. networks: the stages that train."""
        return []

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        """Each of its models in words. arms: of the study."""
        return {}
