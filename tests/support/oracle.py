"""A kind of model that is neither trained nor fitted: it knows a share of the answers, and gives a child a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch

from headstart.models.kind import ModelKind
from headstart.models.norms import Tensors
from headstart.stage import Size, StageOutcome, StageRun, StageSpec
from headstart.tasks import Task


class OracleSpec(ModelKind):
    """`right`: the share of answers that it knows."""

    kind: Literal["oracle"] = "oracle"
    right: float = 1.0
    way: ClassVar[str] = "read"
    seeded: ClassVar[bool] = False


class OracleRun(StageRun):
    """Nothing to do but to say so."""

    def size(self) -> Size:
        return Size(parameters=90)

    def weights(self) -> Tensors:
        return {"head.output.weight": torch.ones(10, 8), "head.output.bias": torch.zeros(10)}

    def finish(self) -> StageOutcome:
        scores = {split: {"loss": 0.1, "accuracy": self.spec.model.right} for split in ("train", "val", "test")}
        whole: dict[str, Any] = {which: {"step": 0, "epoch": 0.0, **scores} for which in ("best", "last")}
        budget = {"epochs": 0.0, "steps": 0, "examples": 0, "tokens": 0, "flops": 0.0, "seconds": 0.0, "peak_memory": 0}
        account = {"total": 90, "trainable": 0, "account": []}
        monitor = {"name": "accuracy", "greater": True}
        return StageOutcome("complete", self.weights(), self.weights(), [], {}, whole, budget, account, monitor)

    @staticmethod
    def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> float:
        """What it knows."""
        del task, weights, result
        return float(spec.model.right)
