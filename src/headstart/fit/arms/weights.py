"""Weights that a person names for the arms of a fit, found: a checkpoint, a model of series, a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headstart.baselines.embedding import are_images
from headstart.core import Store, Task, find_checkpoint, find_network
from headstart.data import SOUNDS
from headstart.errors import BadInput
from headstart.fit.arms.backbone import Backbone
from headstart.fit.arms.embedding import FrozenModel
from headstart.fit.arms.started import Start
from headstart.fit.basis import WeightsRead
from headstart.request.settings import FitSettings


def read_weights(settings: FitSettings, task: Task, kind: str, store: Store, data: Path) -> tuple[WeightsRead, ...]:
    """Those that the settings of a fit name. kind: of the sequences.

    Raises: BadInput where some are not here, or cannot be read.
    """
    read = [] if settings.backbone is None else _backbones(settings.backbone, task, kind, settings.time)
    read += [] if settings.start is None else [find_start(settings.start, store, data)]
    return tuple(read)


def _backbones(source: str, task: Task, kind: str, time: float | None) -> list[WeightsRead]:
    """The checkpoint, and which symbols it meets; or its frozen features, and what they take; or both."""
    splits = [task.split(name) for name in ("train", "val", "test")]
    there = np.unique(np.concatenate([np.unique(x.values) for x in splits])).tolist() if task.symbols else []
    backbone = find_backbone(source, kind, [task.symbols[token] for token in there])
    read: list[WeightsRead] = [backbone]
    if isinstance(backbone, Backbone) and are_images(backbone.fields.family, splits):
        read.append(FrozenModel.of(find_checkpoint(source, "backbone", whole=True), kind))
    elif isinstance(backbone, Backbone) and kind == "protein" and set(backbone.symbols) & set(backbone.fields.symbols):
        read.append(FrozenModel.of(backbone, kind))
    return [x.timed(task.train, sum(map(len, splits)), time) if isinstance(x, FrozenModel) else x for x in read]


def find_backbone(source: str, kind: str, symbols: Sequence[str] = ()) -> Backbone | FrozenModel:
    """The checkpoint of this name or in this folder. Raises: BadInput where it is not here or cannot be read, or is a
    model of series and the sequences are of symbols."""
    weights = find_checkpoint(source, "backbone", whole=kind == "text")
    if not (weights.of_series or weights.of_texts):
        return Backbone(**vars(weights), kind=kind, symbols=tuple(symbols))
    if weights.of_series and kind != "numbers":
        raise BadInput(
            f"backbone: {weights.name!r} reads series of numbers, and the sequences are {SOUNDS[kind]}; leave it out, "
            "or take a checkpoint that has vectors of such symbols"
        )
    return FrozenModel.of(weights, kind)


def find_start(source: str, store: Store, data: Path) -> Start:
    """The model in this folder, or the stage of this id in the store.

    Raises: BadInput where there is neither, or it has no network of built-in mixers.
    """
    weights = find_network(source, store, data, "start")
    if not weights.of_headstart:
        family = weights.fields.family
        raise BadInput(f"start: {source!r} is a checkpoint of family {family!r}; give it as --backbone {source}")
    return Start(**vars(weights))
