"""A stage: one phase of work with an identity. It is trained, fitted, or comes to its weights in a way of its own.

WAYS has one line per way. What runs, stores, compares and reports stages asks none of them which it is: it goes by
`StageSpec`, `StageRun` and `StageOutcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.models.norms import Tensors
from headstart.spec import Entry
from headstart.stage.spec import (
    FitStage,
    ReadStage,
    Size,
    StageOutcome,
    StageRun,
    StageSpec,
    TrainStage,
    content_digest,
    identity,
    identity_document,
    look_again,
    read_stage,
    settings_of_class,
    stage_class,
)
from headstart.tasks import Task

__all__ = [
    "WAYS",
    "FitStage",
    "ReadStage",
    "Size",
    "StageOutcome",
    "StageRun",
    "StageSpec",
    "TrainStage",
    "begin",
    "content_digest",
    "identity",
    "identity_document",
    "load_model",
    "look_again",
    "read_stage",
    "settings_of_class",
    "stack_key",
    "stage_class",
]

WAYS: dict[str, Entry] = {
    "trained": Entry("headstart.stage.trained:TrainedRun", "a network, by steps of an optimiser"),
    "fitted": Entry("headstart.stage.fitted:FittedRun", "a model without gradients, in one go"),
    "counted": Entry("headstart.stage.counted:CountedRun", "counts of the tokens, in one go"),
    "read": Entry("headstart.stage.read:ReadRun", "the weights of a checkpoint, copied in"),
    "known": Entry("headstart.stage.fitted:KnownRun", "a rule of the task, whose scores the task knows"),
}
"""The `way` of a kind of model -> its `StageRun`."""


def begin(
    spec: StageSpec,
    task: Task | None,
    parent: Tensors | None,
    device: str = "cpu",
    resume: tuple[Tensors, dict[str, Any]] | None = None,
    like: StageRun | None = None,
) -> StageRun:
    """A stage ready to run, as `StageRun` says; its parent's way has a word in whether it can start from there.

    task: None where a stage has none. like: for a plan, a run that differs in start, budget, rate and seed alone.
    """
    if isinstance(spec, TrainStage) and spec.parent is not None:
        WAYS[spec.parent.model.way].load().check_child(spec.parent, spec, task)
    if like is not None and (other := like.planned(spec, parent)) is not None:
        return other
    run: StageRun = WAYS[spec.model.way].load()(spec, task, parent, device, resume)
    return run


def stack_key(spec: StageSpec) -> tuple[str, str]:
    """As `StageRun` says: what stages of one stack have in common, or why there is none."""
    key: tuple[str, str] = WAYS[spec.model.way].load().stack_key(spec)
    return key


def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
    """The model of a finished stage, ready to predict, from its weights and its `result.json`."""
    return WAYS[spec.model.way].load().load_model(spec, task, weights, result)
