"""What is masked, what is asked of the head, the loss and the scores: masked, causal, classify, regress, retrieve.

An objective measures a batch as sums (`Sums`), never as means, so that an epoch's score weighs every target
alike however ragged its batches are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.seeds import uniform
from headstart.sequence import IGNORE, Batch, Signature
from headstart.spec import Entry, Spec, kind_field, neutral
from headstart.text import LOWER, percent

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


def _full(output: torch.Tensor) -> torch.Tensor:
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
    full: dict[str, Any] = {"dtype": _full(logits).dtype, "device": logits.device}  # filled there: nothing is copied
    weights = torch.cat([torch.full((1,), weight, **full) for weight in class_weights]) if class_weights else None
    loss = F.cross_entropy(
        _full(logits), target, weights, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    if weights is None:
        return {"loss": loss, "count": there.sum(), "hits": right.sum()}
    each = torch.where(there, weights[target.clamp_min(0)], 0.0)
    weighted = torch.where(right, each, 0.0).sum()
    return {"loss": loss, "count": each.sum(), "seen": there.sum(), "hits": right.sum(), "weighted_hits": weighted}


def _accuracy(totals: dict[str, Any]) -> float:
    return float(totals["hits"] / max(totals.get("seen", totals["count"]), 1.0))


def _moments(error: torch.Tensor, value: torch.Tensor, there: torch.Tensor) -> Sums:
    """What R2 needs, per target: error and value (M, T), there (M, T) bool."""
    value = torch.where(there, value, 0.0).double()
    squared = torch.where(there, error, 0.0).double().square()
    return {"squared": squared.sum(0), "sum": value.sum(0), "square": value.square().sum(0), "seen": there.sum(0)}


def _r2(totals: dict[str, Any]) -> float:
    """Coefficient of determination, averaged over targets that vary; 0 where none does."""
    seen = torch.as_tensor(totals["seen"]).double().clamp_min(1.0)
    square = torch.as_tensor(totals["square"])
    total = square - torch.as_tensor(totals["sum"]).square() / seen
    # Against the size of the target, of which rounding leaves something; float32 holds no spread much below this share.
    varies = total > 1e-13 * square
    if not bool(varies.any()):
        return 0.0
    return float((1.0 - torch.as_tensor(totals["squared"])[varies] / total[varies]).mean())


LOSSES = {
    "l1": " (absolute error)",
    "l2": " (squared error)",
    "levels": " (cross-entropy over input levels)",
    "tokens": " (cross-entropy over tokens)",
    None: "",
}
"""Losses in words."""


class _Reconstruction(ObjectiveSpec):
    """What masked and causal share: the loss over asked positions, in the input's own form."""

    loss: Literal["l1", "l2", "levels", "tokens"] | None = None
    """`tokens` (cross-entropy over ids), `levels` (cross-entropy over the input's levels), `l1` or `l2` (over values
    that are observed); default tokens for token input and l1 for float input."""
    head: Literal["linear", "none"] = neutral("linear")
    """`linear`, or, for tokens, `none`: cross-entropy over the model's D numbers themselves, as the released code of
    Amos et al. pretrains on Text and Retrieval by mistake."""
    monitor: str | None = None
    """The validation score by which the best weights are chosen."""
    uses_target: ClassVar[bool] = False
    described: ClassVar[tuple[str, ...]] = ("kind", "loss")

    def resolved_loss(self, signature: Signature) -> str:
        """The loss in force for this signature. Raises: BadInput where it does not fit the input."""
        loss = self.loss or ("tokens" if signature.input == "tokens" else "l1")
        if (loss == "tokens") != (signature.input == "tokens"):
            fitting = "'tokens'" if signature.input == "tokens" else "'l1', 'l2' or 'levels'"
            raise BadInput(f"objective.loss: {loss!r} does not fit {signature.input} input; use {fitting}")
        if loss == "levels" and not signature.levels:
            raise BadInput("objective.loss: 'levels' needs an input of known levels; use 'l1' or 'l2'")
        return loss

    def output(self, signature: Signature) -> Output:
        loss = self.resolved_loss(signature)
        size = {"tokens": signature.width, "levels": signature.width * signature.levels}
        if self.head == "none" and loss != "tokens":
            raise BadInput(f"objective.head: 'none' is for the loss 'tokens', this one is {loss!r}; leave it out")
        return Output("position", size.get(loss, signature.width), self.head == "none")

    def monitored(self, signature: Signature) -> Monitor:
        score = "accuracy" if self.resolved_loss(signature) in ("tokens", "levels") else "r2"
        chosen = self.monitor or score
        if chosen not in (score, "loss"):
            raise BadInput(f"objective.monitor: no {chosen!r} here; there are: {score}, loss")
        return Monitor(chosen, greater=chosen not in LOWER)

    def compare(
        self,
        output: torch.Tensor,
        truth: torch.Tensor,
        asked: torch.Tensor,
        observed: torch.Tensor | None,
        signature: Signature,
    ) -> Sums:
        """Sums over asked positions. output (B, L, size), truth (B, L[, F]), asked (B, L)."""
        loss = self.resolved_loss(signature)
        if loss == "tokens":
            return cross_entropy_sums(output.flatten(0, 1), truth.masked_fill(~asked, IGNORE).flatten())
        there = asked.unsqueeze(-1).expand(truth.shape)
        there = there if observed is None else there & observed
        if loss == "levels":
            levels = signature.levels_of(truth).masked_fill(~there, IGNORE)
            return cross_entropy_sums(output.reshape(-1, signature.levels), levels.flatten())
        error = _full(output) - truth
        # Zero before the sum: 0 * inf would carry a padded position's overflow into the loss.
        residual = torch.where(there, error, 0.0)
        size = residual.abs().sum() if loss == "l1" else residual.square().sum()
        flat = there.flatten(0, 1)
        with torch.no_grad():
            moments = _moments(error.detach().flatten(0, 1), truth.flatten(0, 1), flat)
        return {"loss": size, "count": there.sum(), **moments}

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        named = super().scores(totals)
        named.update({"accuracy": _accuracy(totals)} if "hits" in totals else {"r2": _r2(totals)})
        return named


class MaskedSpec(_Reconstruction):
    """Reconstruct masked positions; each valid position is masked with probability `mask_rate` (default: the task's
    own), redrawn per epoch.

    At least one position of every sequence is masked, so that no sequence is without a loss: of spans, the first
    position of the run that comes nearest, which in a sequence of few positions is most often its first. A position
    where nothing was observed is never masked. Validation masks are those of epoch 0.
    Source: Amos et al. 2023, section 2 (Devlin et al. 2019 without kept or replaced tokens).
    """

    kind: Literal["masked"] = "masked"
    mask_rate: float | None = Field(default=None, gt=0, lt=1)
    """Share of the positions that are hidden; the task's own where it is not given."""
    span: int = neutral(1, ge=1)
    """Positions are hidden in runs of that many, which may overlap, so that each position is hidden as often (Baevski
    et al. 2020, section 3.1)."""
    described: ClassVar[tuple[str, ...]] = ("kind", "loss", "mask_rate", "span")

    def resolved(self, task: Any) -> Self:
        """With the task's mask rate and loss, where none is set."""
        own = {"mask_rate": self.mask_rate, "loss": self.loss}
        return self.model_copy(update={name: getattr(task, name) for name, value in own.items() if value is None})

    def describe(self) -> str:
        share = "masked positions" if self.mask_rate is None else f"{percent(self.mask_rate)} of the positions"
        spans = f" in spans of {self.span}" if self.span > 1 else ""
        return f"reconstructed {share}, hidden at random{spans}{LOSSES[self.loss]}, without labels,"

    def prepare(self, batch: Batch, signature: Signature, seed: Any, epoch: Any) -> Batch:
        del signature
        position = torch.arange(batch.valid.shape[1] + self.span - 1, device=batch.valid.device)
        noise = uniform(seed, "mask", epoch, batch.index.unsqueeze(1), position)
        position = position[: batch.valid.shape[1]]
        # A number covers its position and the span - 1 before it: the smallest of a position's numbers decides.
        noise = noise if self.span == 1 else noise.unfold(1, self.span, 1).amin(-1)
        may = batch.valid if batch.observed is None else batch.valid & batch.observed.any(-1)
        noise = torch.where(may, noise, 2.0)
        assert self.mask_rate is not None, "a stage's spec fills in the task's own rate"
        least = noise.argmin(1, keepdim=True) == position
        rate = 1 - (1 - self.mask_rate) ** (1 / self.span) if self.span > 1 else self.mask_rate
        return replace(batch, masked=((noise < rate) | least) & may)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        assert batch.masked is not None
        return self.compare(output, batch.inputs, batch.masked, batch.observed, signature)


class CausalSpec(_Reconstruction):
    """Predict each next position from those before it; no begin-of-sequence symbol. Needs a causal model.

    Of tokens there are the scores `bits_per_token` and `perplexity` besides, which can be monitored.
    Source: Amos et al. 2023, section 2.
    """

    kind: Literal["causal"] = "causal"
    needs_causal: ClassVar[bool] = True

    def resolved(self, task: Any) -> Self:
        """With the score that the task has monitored, where none is set."""
        if self.monitor is not None or task.monitor is None:
            return self
        return self.model_copy(update={"monitor": task.monitor})

    def describe(self) -> str:
        return f"predicted each next position{LOSSES[self.loss]}, without labels,"

    def asked(self, batch: Batch) -> torch.Tensor:
        there = batch.valid if batch.observed is None else batch.valid & batch.observed.any(-1)
        return there[:, 1:]

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        observed = None if batch.observed is None else batch.observed[:, 1:]
        return self.compare(output[:, :-1], batch.inputs[:, 1:], batch.valid[:, 1:], observed, signature)

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        named = super().scores(totals)
        if "hits" not in totals or self.loss == "levels":
            return named
        bits = named["loss"] / math.log(2)
        return {**named, "bits_per_token": bits, "perplexity": 2.0 ** min(bits, 1000.0)}

    def monitored(self, signature: Signature) -> Monitor:
        if self.resolved_loss(signature) == "tokens" and self.monitor in LOWER:
            return Monitor(self.monitor, greater=False)
        return super().monitored(signature)


class _Classes(ObjectiveSpec):
    """What classify and retrieve share: cross-entropy and accuracy over the targets that are there."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target's probability that is spread over all classes."""
    class_weights: tuple[Annotated[float, Field(ge=0)], ...] = neutral((), strict=False)
    """Of the loss, one per class. With them there is the score `weighted_accuracy` besides: with weights that make all
    classes weigh the same, accuracy averaged over classes."""
    monitor: Literal["accuracy", "weighted_accuracy", "loss"] = "accuracy"
    """The validation score by which the best weights are chosen."""

    @model_validator(mode="after")
    def _weighted(self) -> _Classes:
        if self.class_weights and not any(self.class_weights):
            raise ValueError("class_weights: all are 0; give at least one above 0")
        if self.monitor == "weighted_accuracy" and not self.class_weights:
            raise ValueError("monitor: 'weighted_accuracy' needs class_weights; give them, or monitor 'accuracy'")
        return self

    def _output(self, where: Literal["position", "sequence", "pair"], size: int, signature: Signature) -> Output:
        if signature.target != "class":
            raise BadInput(f"objective.kind: {self.kind!r} needs a class target, the task has {signature.target!r}")
        if self.class_weights and len(self.class_weights) != signature.classes:
            raise BadInput(
                f"objective.class_weights: {len(self.class_weights)} weights for {signature.classes} "
                "classes; give one per class"
            )
        return Output(where, size)

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        out = {**super().scores(totals), "accuracy": _accuracy(totals)}
        if "weighted_hits" in totals:
            out["weighted_accuracy"] = float(totals["weighted_hits"] / max(totals["count"], 1e-12))
        return out

    def monitored(self, signature: Signature) -> Monitor:
        del signature
        return Monitor(self.monitor, greater=self.monitor != "loss")


class ClassifySpec(_Classes):
    """Cross-entropy over classes, of a sequence or of each position (as the target is)."""

    kind: Literal["classify"] = "classify"

    def describe(self) -> str:
        return "classified sequences"

    def output(self, signature: Signature) -> Output:
        if signature.paired:
            raise BadInput("objective.kind: 'classify' needs single sequences, the task has pairs; use 'retrieve'")
        where: Literal["position", "sequence"] = "position" if signature.per_position else "sequence"
        return self._output(where, signature.targets * signature.classes, signature)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        assert batch.target is not None
        rows = output.reshape(-1, signature.classes)
        return cross_entropy_sums(rows, batch.target.flatten(), self.label_smoothing, self.class_weights)


class RetrieveSpec(_Classes):
    """Cross-entropy over classes of a pair of sequences (rows 2i and 2i + 1). Source: Tay et al. 2020."""

    kind: Literal["retrieve"] = "retrieve"

    def describe(self) -> str:
        return "classified pairs of sequences"

    def output(self, signature: Signature) -> Output:
        if not signature.paired:
            raise BadInput("objective.kind: 'retrieve' needs pairs, the task has single sequences; use 'classify'")
        return self._output("pair", signature.classes, signature)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        del signature
        assert batch.target is not None
        return cross_entropy_sums(output, batch.target[::2], self.label_smoothing, self.class_weights)


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
        error = torch.where(there, _full(output).reshape(-1, signature.targets) - truth, 0.0)
        size = error.abs().sum() if self.loss == "l1" else error.square().sum()
        with torch.no_grad():
            moments = _moments(error.detach(), truth, there)
        return {"loss": size, "count": there.sum(), **moments}

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        return {**super().scores(totals), "r2": _r2(totals)}

    def monitored(self, signature: Signature) -> Monitor:
        del signature
        return Monitor(self.monitor, greater=self.monitor != "loss")


OBJECTIVES: dict[str, Entry] = {
    "masked": Entry("headstart.objectives:MaskedSpec", "reconstruct masked positions"),
    "causal": Entry("headstart.objectives:CausalSpec", "predict the next position"),
    "classify": Entry("headstart.objectives:ClassifySpec", "classes of sequences or positions"),
    "regress": Entry("headstart.objectives:RegressSpec", "numbers of sequences or positions"),
    "retrieve": Entry("headstart.objectives:RetrieveSpec", "classes of pairs of sequences"),
}

ObjectiveField: Any = kind_field(ObjectiveSpec, OBJECTIVES)
