"""What a plan is made from: what is known of the data, and how much is trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.fit import defaults
from headstart.sequence import Signature

if TYPE_CHECKING:
    from headstart.fit.reading import Backbone, SeriesModel, Start

EVALUATIONS = (2, 10)
"""Looks at validation in each training, at least and at most."""


@dataclass(frozen=True)
class Basis:
    """What a plan is made from: the task's table (without `places`) and signature (patch 1), its sizes, all lengths.

    labelled, rows: of train. weights: of the classes. split: how rows were dealt out, in words. backbone: a checkpoint,
    series: or a model of series.
    """

    task: Mapping[str, Any]
    kind: str
    signature: Signature
    labelled: int
    rows: int
    val: int
    test: int
    lengths: Any
    weights: tuple[float, ...]
    data: Path
    places: Mapping[str, str] = field(default_factory=dict)
    split: str = ""
    backbone: Backbone | None = None
    series: SeriesModel | None = None
    start: Start | None = None


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
