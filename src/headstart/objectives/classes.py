"""What objectives of classes share: cross-entropy and accuracy over the targets that are there."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.objectives.objective import Monitor, ObjectiveSpec, accuracy
from headstart.sequence import Signature
from headstart.spec import neutral


class Classes(ObjectiveSpec):
    """What classify and retrieve share: cross-entropy and accuracy over the targets that are there."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target's probability that is spread over all classes."""
    class_weights: tuple[Annotated[float, Field(ge=0)], ...] = neutral((), strict=False)
    """Of the loss, one per class. With them there is the score `weighted_accuracy` besides: with weights that make all
    classes weigh the same, accuracy averaged over classes."""
    monitor: Literal["accuracy", "weighted_accuracy", "loss"] = "accuracy"
    """The validation score by which the best weights are chosen."""

    @model_validator(mode="after")
    def _weighted(self) -> Self:
        if self.class_weights and not any(self.class_weights):
            raise ValueError("class_weights: all are 0; give at least one above 0")
        if self.monitor == "weighted_accuracy" and not self.class_weights:
            raise ValueError("monitor: 'weighted_accuracy' needs class_weights; give them, or monitor 'accuracy'")
        return self

    def output_of(self, where: Literal["position", "sequence", "pair"], size: int, signature: Signature) -> Output:
        if signature.target != "class":
            raise BadInput(f"objective.kind: {self.kind!r} needs a class target, the task has {signature.target!r}")
        if self.class_weights and len(self.class_weights) != signature.classes:
            raise BadInput(
                f"objective.class_weights: {len(self.class_weights)} weights for {signature.classes} "
                "classes; give one per class"
            )
        return Output(where, size)

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        out = {**super().scores(totals), "accuracy": accuracy(totals)}
        if "weighted_hits" in totals:
            out["weighted_accuracy"] = float(totals["weighted_hits"] / max(totals["count"], 1e-12))
        return out

    def monitored(self, signature: Signature) -> Monitor:
        del signature
        return Monitor(self.monitor, greater=self.monitor != "loss")
