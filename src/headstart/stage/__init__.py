"""A stage: one phase of work with an identity. It is trained, fitted, or comes to its weights in a way of its own.

WAYS has one line per way. What runs, stores, compares and reports stages asks none of them which it is: it goes by
`StageSpec`, `StageRun` and `Outcome`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from headstart.models.norms import Tensors
from headstart.stage.spec import (
    Outcome,
    Size,
    StageRun,
    StageSpec,
    identity,
    look_again,
    stage_from_json,
)
from headstart.tasks import Task

__all__ = [
    "WAYS",
    "Outcome",
    "Size",
    "StageRun",
    "StageSpec",
    "begin",
    "identity",
    "load_model",
    "look_again",
    "stage_from_json",
]

WAYS: dict[str, str] = {
    "trained": "headstart.stage.trained",
    "fitted": "headstart.stage.fitted",
    "known": "headstart.stage.known",
}
"""The `way` of a kind of model -> the module that has `begin` and `load_model` for it."""


def begin(
    spec: StageSpec,
    task: Task,
    parent: Tensors | None,
    device: str = "cpu",
    resume: tuple[Tensors, dict[str, Any]] | None = None,
) -> StageRun:
    """A stage ready to run: started as its spec says, and gone on from a state where one is given.

    Raises: BadInput where model, objective, start, parts or batch do not fit the task.
    """
    run: StageRun = _way(spec).begin(spec, task, parent, device, resume)
    return run


def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
    """The model of a finished stage, ready to predict, from its weights and its `result.json`."""
    return _way(spec).load_model(spec, task, weights, result)


def _way(spec: StageSpec) -> Any:
    return importlib.import_module(WAYS[spec.model.way])
