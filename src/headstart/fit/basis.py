"""What a plan is made from: what is known of the data, and how much is trained on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headstart import words
from headstart.fit import defaults
from headstart.sequence import Signature

EVALUATIONS = (2, 10)
"""Looks at validation in each training, at least and at most."""


@dataclass(frozen=True)
class WeightsRead:
    """Weights that were made elsewhere.

    source: where they are. name: as a person named them, without their place. content: their digest. fields: of the
    model that holds them.
    """

    source: str
    name: str
    content: str
    licence: str
    fields: Any

    def summary(self) -> str:
        """What they are, as a line of the plan."""
        spec = self.fields.spec
        return (
            f"checkpoint {self.name}: {self.fields.summary}, {words.many(spec.blocks, 'block')}, width {spec.width}; "
            f"content {self.content[:16]}, licence {self.licence or 'not declared'}"
        )

    def check(self, basis: Basis, vocabulary: Collection[str]) -> None:
        """Raises: BadInput where they cannot read such sequences. vocabulary: of these, where they hold symbols."""


W = TypeVar("W", bound=WeightsRead)


@dataclass(frozen=True)
class Basis:
    """What a plan is made from: the task's table (without `places`) and signature (patch 1), its sizes, all lengths.

    labelled, rows: of train. class_weights: empty where all classes weigh the same. split: how rows were dealt
    out, in words. read: weights made elsewhere. learnt: rows of train that models without gradients are fitted on
    (None: all). side: pixels of the side of images, 0 where sequences are none.
    """

    task: Mapping[str, Any]
    kind: str
    signature: Signature
    labelled: int
    rows: int
    val: int
    test: int
    lengths: Any
    class_weights: tuple[float, ...]
    data: Path
    places: Mapping[str, str] = field(default_factory=dict)
    split: str = ""
    read: tuple[WeightsRead, ...] = ()
    learnt: int | None = None
    side: int = 0

    def holds(self, kind: type[WeightsRead]) -> bool:
        """Whether weights of this kind were read."""
        return any(isinstance(weights, kind) for weights in self.read)

    def weights(self, kind: type[W]) -> W:
        """Those of this kind, which are at hand."""
        return next(weights for weights in self.read if isinstance(weights, kind))


@dataclass(frozen=True)
class Amount:
    """How much is trained, of the arms that take part (`arms.ARMS`), each of their networks at each of these rates.

    steps: of the networks of headstart, pretrain_steps: of self-pretraining. apart: of models with a number of their
    own.
    """

    rates: tuple[float, ...]
    steps: int = 0
    pretrain_steps: int = 0
    apart: Mapping[str, int] = field(default_factory=dict)
    arms: tuple[str, ...] = ()

    def short(self, steps: int, pretrain_steps: int) -> Amount:
        """All of it at one rate, and each training of so many steps."""
        before = pretrain_steps if self.pretrain_steps else 0
        return Amount(self.rates[:1], steps, before, dict.fromkeys(self.apart, steps), self.arms)


def looks(basis: Basis, steps: int) -> int:
    """How often a training of so many steps looks at validation: it scores no more sequences than it trains on."""
    seen = steps * defaults.batch_size(basis.labelled, basis.rows)
    return round(min(max(seen / max(basis.val, 1), EVALUATIONS[0]), EVALUATIONS[1]))
