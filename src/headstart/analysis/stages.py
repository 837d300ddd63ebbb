"""A finished stage as two models: as it was trained, and as it was started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from headstart.errors import BadInput
from headstart.models.model import SequenceModel
from headstart.models.norms import Tensors
from headstart.sequence import Batch, collate
from headstart.stage import TrainStage
from headstart.stage.finished import open_stage
from headstart.stage.trained import TrainedRun
from headstart.store import Store, store_folder
from headstart.tasks import Task, data_folder

LOOKED_EXAMPLES = 16
"""Examples (pairs, where a task has them) of a batch to look at."""


@dataclass(frozen=True)
class Opened:
    """A finished stage: its spec, its task, and two models on the CPU in the precision of its weights.

    `model` has the trained weights and `start` those that training began with; of a stage of 0 steps both are
    the same. `identity` and `name` are the store's.
    """

    identity: str
    name: str
    spec: TrainStage
    task: Task
    model: SequenceModel
    start: SequenceModel


def started(spec: TrainStage, task: Task, parent: Tensors | None = None) -> SequenceModel:
    """The model of a stage before its first step: fresh, then what `start` takes, matches and draws.

    `parent`: weights of the parent stage, where the spec has one.
    Raises: BadInput where the start needs a parent that is not given, or does not fit.
    """
    model = TrainedRun(spec, task, parent).model
    if not isinstance(model, SequenceModel):
        raise BadInput(f"model.kind: {spec.model.kind!r} is a model of your own, whose blocks are not known")
    model.eval()
    return model


def opened(
    identity: str,
    store: Store | str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    weights: Literal["best", "last"] = "best",
    task: Task | None = None,
) -> Opened:
    """A finished stage by its id or the start of it. `task`: the stage's task, where it is open already.

    Raises: BadInput for an unknown id, a stage that is not finished, a parent that is gone, or data that are
    not there; Damaged where a file of the store is not what was written.
    """
    runs = store if isinstance(store, Store) else Store(store_folder(store))
    stage = open_stage(runs, identity, data_folder(data), task)
    model = stage.model(weights)  # first: what has no network says so
    assert isinstance(stage.spec, TrainStage), "a network comes of a stage that is trained"
    start = started(stage.spec, stage.task, stage.parent_weights())
    return Opened(stage.identity, stage.name, stage.spec, stage.task, model, start)


def first_batch(stage: Opened, examples: int = LOOKED_EXAMPLES) -> Batch:
    """The first val examples as the stage's objective shows them to the model (masks are those of epoch 0).

    Raises: BadInput where there is no val example.
    """
    val = stage.task.val
    if not val.units:
        raise BadInput(f"stage {stage.identity}: its task has no val example to look at")
    dtype = next(stage.model.parameters()).dtype
    batch = collate(val, np.arange(min(examples, val.units))).to(torch.device("cpu"), dtype)
    prepared: Batch = stage.spec.objective.prepare(batch, stage.task.signature, stage.spec.seed, 0)
    return prepared
