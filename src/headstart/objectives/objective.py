"""What an objective is: sums over a batch, their scores, and the one that chooses the best weights.

An objective measures a batch as sums (`Sums`), never as means, so that an epoch's score weighs every target
alike however ragged its batches are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.sequence import IGNORE, Batch, Signature
from headstart.spec import Spec

Sums = dict[str, torch.Tensor]
"""Sums over a batch. `loss` and `count` always; an objective's `scores` turns the totals into numbers."""


class ObjectiveSpec(Spec):
    """Base of objectives. `monitor` names the validation score by which the best weights are chosen."""

    kind: str
    uses_target: ClassVar[bool] = True
    needs_causal: ClassVar[bool] = False
    """Whether a model that sees later positions would be told what is asked."""
    described: ClassVar[tuple[str, ...]] = ("kind",)
    """Settings that `describe` puts in words; a methods text names the others where they differ."""

    def resolved(self, task: Any) -> Self:
        """The objective with what it takes from a `TaskSpec` written out."""
        del task
        return self

    def baseline_models(self, task: Any) -> tuple[Mapping[str, str], ...]:
        """The models without gradients that a study reports beside its arms: those of the `TaskSpec`."""
        models: tuple[Mapping[str, str], ...] = task.baseline_models() if self.uses_target else ()
        return models

    def describe(self) -> str:
        """What a stage did, in words: `stage pretrain ...`."""
        return f"learned the objective {self.kind!r}"

    def output(self, signature: Signature) -> Output:
        """What the head must give. Raises: BadInput where the task does not fit."""
        raise BadInput(f"objective.kind: {self.kind!r} has no method `output`; write it, or start from MaskedSpec")

    def prepare(self, batch: Batch, signature: Signature, seed: Any, epoch: Any) -> Batch:
        """The batch with what the objective hides (the same for the same seed, epoch and example)."""
        del signature, seed, epoch
        return batch

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        """Sums of loss and scores. output as `output()` asked."""
        raise BadInput(f"objective.kind: {self.kind!r} has no method `measure`; write it, or start from MaskedSpec")

    def asked(self, batch: Batch) -> torch.Tensor | None:
        """(B, L) bool: the positions of a prepared batch that a score counts, where it is not the targets that it
        counts; None where that is not known."""
        return batch.masked

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        """Scores from totals of Sums over a split (floats, or arrays per target): `loss` and more."""
        return {"loss": float(totals["loss"] / (totals["count"] or 1.0))}

    def monitored(self, signature: Signature) -> Monitor:
        """The score that chooses, and whether greater is better."""
        raise BadInput(f"objective.kind: {self.kind!r} has no method `monitored`; write it, or start from MaskedSpec")


@dataclass(frozen=True)
class Monitor:
    """A score's name and direction."""

    name: str
    greater: bool

    def better(self, new: float, old: float | None) -> bool:
        """Strictly better (ties keep the earlier); not a number is never better."""
        if new != new:
            return False
        return old is None or (new > old if self.greater else new < old)


def full(output: torch.Tensor) -> torch.Tensor:
    """An output in single precision at least: half precision is for the forward pass, never for sums."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


def cross_entropy_sums(
    logits: torch.Tensor, target: torch.Tensor, smoothing: float = 0.0, class_weights: tuple[float, ...] = ()
) -> Sums:
    """Sums over rows whose target is there. logits (M, K), target (M,) with IGNORE.

    class_weights (K,): `loss`, `count` and `weighted_hits` are sums of weights then, `seen` and `hits` counts of rows.
    """
    there = target != IGNORE
    right = (logits.argmax(-1) == target) & there
    like: dict[str, Any] = {"dtype": full(logits).dtype, "device": logits.device}  # filled there: nothing is copied
    weights = torch.cat([torch.full((1,), weight, **like) for weight in class_weights]) if class_weights else None
    loss = F.cross_entropy(
        full(logits), target, weights, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    if weights is None:
        return {"loss": loss, "count": there.sum(), "hits": right.sum()}
    each = torch.where(there, weights[target.clamp_min(0)], 0.0)
    weighted = torch.where(right, each, 0.0).sum()
    return {"loss": loss, "count": each.sum(), "seen": there.sum(), "hits": right.sum(), "weighted_hits": weighted}


def accuracy(totals: dict[str, Any]) -> float:
    return float(totals["hits"] / max(totals.get("seen", totals["count"]), 1.0))


def moments(error: torch.Tensor, value: torch.Tensor, there: torch.Tensor) -> Sums:
    """What R2 needs, per target: error and value (M, T), there (M, T) bool."""
    value = torch.where(there, value, 0.0).double()
    squared = torch.where(there, error, 0.0).double().square()
    return {"squared": squared.sum(0), "sum": value.sum(0), "square": value.square().sum(0), "seen": there.sum(0)}


def r2(totals: dict[str, Any]) -> float:
    """Coefficient of determination, averaged over targets that vary; 0 where none does."""
    seen = torch.as_tensor(totals["seen"]).double().clamp_min(1.0)
    square = torch.as_tensor(totals["square"])
    total = square - torch.as_tensor(totals["sum"]).square() / seen
    # Against the size of the target, of which rounding leaves something; float32 holds no spread much below this share.
    varies = total > 1e-13 * square
    if not bool(varies.any()):
        return 0.0
    return float((1.0 - torch.as_tensor(totals["squared"])[varies] / total[varies]).mean())
