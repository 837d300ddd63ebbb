"""A finished stage of a store: its spec, its task and its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headstart.errors import BadInput
from headstart.models.norms import Tensors
from headstart.plugins import require_plugins
from headstart.stage import StageSpec, TrainStage, load_model, read_stage
from headstart.stage.trained import outputs_of
from headstart.store import Store
from headstart.tasks import Task, open_task


@dataclass(frozen=True)
class FinishedStage:
    """`identity`, `name` and `parent` (an identity) are the store's; `result` is the `result.json`."""

    store: Store
    identity: str
    name: str
    parent: str | None
    spec: StageSpec
    task: Any
    """Its `Task`; None of a stage that is read."""
    result: Mapping[str, Any]

    @staticmethod
    def opened(store: Store, identity: str, data: Path) -> FinishedStage:
        """As `open_stage`."""
        return open_stage(store, identity, data)

    def outputs_at_last(self, device: str) -> dict[str, np.ndarray] | None:
        """What its last weights answer on validation and test, as `Store.predictions` has it of the best ones; None
        where these are the last, or validation ended the training."""
        scores, spec = self.result["scores"], self.spec
        if not isinstance(spec, TrainStage) or spec.budget.patience is not None:
            return None
        if scores["best"]["step"] == scores["last"]["step"]:
            return None
        tensors = outputs_of(self.model("last"), spec, self.task, device)
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def model(self, weights: Literal["best", "last"] = "best") -> Any:
        """The model, ready to predict: a network in evaluation, or a fitted model."""
        return load_model(self.spec, self.task, self.store.weights(self.identity, weights), self.result)

    def parent_weights(self) -> Tensors | None:
        """The weights that the stage started from, where it has a parent."""
        if self.parent is None or not isinstance(self.spec, TrainStage):
            return None
        return self.store.weights(self.parent, self.spec.weights)


def open_stage(store: Store, identity: str, data: Path, task: Task | None = None) -> FinishedStage:
    """A finished stage by its id or the start of it. `task`: the stage's task, where it is open already.

    Raises: BadInput for an unknown id, a stage that is not finished, data that are not there, or a plugin that is not
    loaded as it was.
    """
    identity = store.find(identity)
    document, result = store.stage(identity), store.result(identity)
    if document is None or result is None:
        raise BadInput(f"stage {identity} is {store.status(identity)} and has no weights yet; run its study again")
    if lost := [key for key in ("spec", "name", "parent") if key not in document]:  # a copy of weights has none
        raise BadInput(f"stage {identity}: its stage.json has no {lost[0]!r}; name a stage that `headstart run` made")
    require_plugins(document.get("plugins", {}), f"stage {identity}", document["spec"])
    spec = read_stage(document["spec"])
    task = open_task(spec.task, data) if task is None and spec.task is not None else task
    parent = None if spec.parent is None else str(document["parent"])
    return FinishedStage(store, identity, str(document["name"]), parent, spec, task, result)
