"""Masked positions, reconstructed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field

from headstart.objectives.objective import Sums
from headstart.objectives.reconstruction import LOSSES, Reconstruction
from headstart.seeds import uniform
from headstart.sequence import Batch, Signature
from headstart.spec import neutral
from headstart.text import percent


class MaskedSpec(Reconstruction):
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
