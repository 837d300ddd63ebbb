"""Numbers of sequences or of positions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.objectives.objective import Monitor, ObjectiveSpec, Sums, full, moments, r2
from headstart.objectives.reconstruction import LOSSES
from headstart.sequence import Batch, Signature


class RegressSpec(ObjectiveSpec):
    """Numbers of a sequence or of each position; squared (`l2`) or absolute (`l1`) error, scored by R2.

    A target that is NaN is not there. Targets are taken as the task gives them (scaled, where it scales).
    """

    kind: Literal["regress"] = "regress"
    loss: Literal["l1", "l2"] = "l2"
    """`l1` or `l2` between outputs and targets."""
    monitor: Literal["r2", "loss"] = "r2"
    """The validation score by which the best weights are chosen."""
    described: ClassVar[tuple[str, ...]] = ("kind", "loss")

    def describe(self) -> str:
        return f"predicted numbers{LOSSES[self.loss]}"

    def output(self, signature: Signature) -> Output:
        if signature.target != "number":
            raise BadInput(f"objective.kind: 'regress' needs number targets, the task has {signature.target!r}")
        return Output("position" if signature.per_position else "sequence", signature.targets)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        assert batch.target is not None
        truth = batch.target.reshape(-1, signature.targets)
        there = ~torch.isnan(truth)
        truth = torch.where(there, truth, 0.0)
        error = torch.where(there, full(output).reshape(-1, signature.targets) - truth, 0.0)
        size = error.abs().sum() if self.loss == "l1" else error.square().sum()
        with torch.no_grad():
            sums = moments(error.detach(), truth, there)
        return {"loss": size, "count": there.sum(), **sums}

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        return {**super().scores(totals), "r2": r2(totals)}

    def monitored(self, signature: Signature) -> Monitor:
        del signature
        return Monitor(self.monitor, greater=self.monitor != "loss")
