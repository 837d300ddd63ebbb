"""What objectives without a target share: the loss over asked positions, in the input's own form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.objectives.objective import Monitor, ObjectiveSpec, Sums, accuracy, cross_entropy_sums, full, moments, r2
from headstart.sequence import IGNORE, Signature
from headstart.spec import neutral
from headstart.text import LOWER

LOSSES = {
    "l1": " (absolute error)",
    "l2": " (squared error)",
    "levels": " (cross-entropy over input levels)",
    "tokens": " (cross-entropy over tokens)",
    None: "",
}
"""Losses in words."""


class Reconstruction(ObjectiveSpec):
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

    def baseline_models(self, task: Any) -> tuple[Mapping[str, str], ...]:
        """Where tokens are predicted, what their counts alone give; none of an objective of a plugin."""
        if (self.loss or task.loss) != "tokens" or self.head == "none" or self.source_digest:
            return ()
        return ({"kind": "unigram"}, {"kind": "bigram"}, {"kind": "copy"})

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
        error = full(output) - truth
        # Zero before the sum: 0 * inf would carry a padded position's overflow into the loss.
        residual = torch.where(there, error, 0.0)
        size = residual.abs().sum() if loss == "l1" else residual.square().sum()
        flat = there.flatten(0, 1)
        with torch.no_grad():
            sums = moments(error.detach().flatten(0, 1), truth.flatten(0, 1), flat)
        return {"loss": size, "count": there.sum(), **sums}

    def scores(self, totals: dict[str, Any]) -> dict[str, float]:
        named = super().scores(totals)
        named.update({"accuracy": accuracy(totals)} if "hits" in totals else {"r2": r2(totals)})
        return named
