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
class Known:
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
    """How much is trained: rates tried, steps of training and of self-pretraining, and those of a checkpoint's arms.

    second: whether a second network, of another mixer, is trained for as many steps.
    """

    rates: tuple[float, ...]
    steps: int
    pretrain_steps: int
    backbone_steps: int = 0
    tuned_steps: int = 0
    second: bool = False


def looks(known: Known, steps: int) -> int:
    """How often a training of so many steps looks at validation: it scores no more sequences than it trains on."""
    seen = steps * defaults.batch_size(known.labelled, known.rows)
    return round(min(max(seen / max(known.val, 1), EVALUATIONS[0]), EVALUATIONS[1]))
