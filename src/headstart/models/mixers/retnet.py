"""Retention: linear attention whose heads forget at fixed rates (RetNet, Sun et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.mixer import head_width
from headstart.models.mixers.recurrent import RecurrentHeads, RecurrentSpec
from headstart.models.positions import Rotary
from headstart.models.scan import gated_sums, gated_sums_flops, precise

RETNET_CHUNK = 64
"""Positions of a chunk whose weights are written out."""


class RetNetSpec(RecurrentSpec):
    """`heads` heads with keys of width D / H and values of width 2 D / H; queries and keys turn with their position.

    Raises: BadInput where `heads` does not divide the width, or into heads of odd width.
    """

    kind: Literal["retnet"] = "retnet"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    mixed_version: ClassVar[int] = 2

    def layer(self, width: int, length: int) -> nn.Module:
        return Retention(width, self.heads, length)

    def layer_flops(self, width: int, length: int) -> float:
        """Layers of 16 L D^2, and per head the sums."""
        each = width // self.heads
        return 16.0 * length * width**2 + self.heads * gated_sums_flops(length, RETNET_CHUNK, each, 2 * each)


class Retention(RecurrentHeads):
    """S <- gamma S + k^T v, o = q S / sqrt(K) with gamma = 1 - 2^(-5 - h) in head h; o is normed and gated.

    Cost O(L D (D + c + D / H)) for chunks of c positions.
    Source: Sun et al. 2023, "Retentive network", eq. 5 to 8; its normed scores are left to the norm of each head.
    """

    def __init__(self, width: int, heads: int, length: int) -> None:
        each = head_width(heads, width, theta=10_000.0)
        super().__init__(width, heads, width, 2 * width, gated=True)
        self.turn = Rotary(length, each, 10_000.0)

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        head = torch.arange(self.heads, device=x.device, dtype=torch.float64)
        fade = (
            torch.log1p(-torch.exp2(-5.0 - head)).to(precise(value).dtype).view(-1, 1, 1).expand(*query.shape[:-1], 1)
        )
        return gated_sums(self.turn(query) * query.shape[-1] ** -0.5, self.turn(key), value, fade, RETNET_CHUNK)
