"""The next position, predicted from those before it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

import torch

from headstart.objectives.objective import Monitor, Sums
from headstart.objectives.reconstruction import LOSSES, Reconstruction
from headstart.sequence import Batch, Signature
from headstart.text import LOWER


class CausalSpec(Reconstruction):
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


def per_byte(bits: float, size: float) -> dict[str, float]:
    """Scores by byte of `bits` a token, of which one has `size` bytes on average."""
    return {"bits_per_byte": bits / size, "perplexity_per_byte": 2.0 ** min(bits / size, 1000.0)}
