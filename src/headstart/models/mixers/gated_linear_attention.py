"""Gated linear attention: a matrix state per head whose rows fade as the input says (Yang et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from headstart.models.mixers.mixer import head_width, split
from headstart.models.mixers.recurrent import RecurrentHeads, RecurrentSpec
from headstart.models.scan import KEYED_CHUNK, gated_sums, gated_sums_flops

RANK, NORMALISER = 16, 16
"""Rank of the layers that make the gates, and what their log sigmoids are divided by, as published."""


class GatedLinearAttentionSpec(RecurrentSpec):
    """`heads` heads with keys of width D / 2H and values of width D / H.

    Raises: BadInput where `heads` does not divide half of the width.
    """

    kind: Literal["gated_linear_attention"] = "gated_linear_attention"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    mixed_version: ClassVar[int] = 2
    uncounted: ClassVar[str] = "the products of queries and keys of one chunk, which are sums of element-wise products"

    def layer(self, width: int, length: int) -> nn.Module:
        head_width(2 * self.heads, width)
        return GatedLinearAttention(width, self.heads)

    def layer_flops(self, width: int, length: int) -> float:
        """Layers of 8 L D^2 and the gates', and per head the sums."""
        key, value = width // 2 // self.heads, width // self.heads
        gates = 2.0 * length * RANK * (width + width // 2)
        return 8.0 * length * width**2 + gates + self.heads * gated_sums_flops(length, KEYED_CHUNK, key, value)


class GatedLinearAttention(RecurrentHeads):
    """S <- diag(a) S + k^T v, o = q S / sqrt(K) per head, a = sigmoid(gates)^(1/16); o is normed and gated.

    Cost O(L D (D + c + D / H)) for chunks of c positions.
    Source: Yang et al. 2023, "Gated linear attention transformers with hardware-efficient training", section 4.4.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, width // 2, width, gated=True)
        self.fade = nn.Sequential(nn.Linear(width, RANK, bias=False), nn.Linear(RANK, width // 2))

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        fade = split(logsigmoid(self.fade(x)) / NORMALISER, self.heads)
        return gated_sums(query * query.shape[-1] ** -0.5, key, value, fade, KEYED_CHUNK)
