"""Linear attention: softmax replaced by a product of positive features, elu + 1."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.projections import (
    PARTS,
    Init,
    check_heads,
    everywhere,
    joined,
    layers,
    precise,
    split,
)
from headstart.models.mixers.weighted_sums import flops, weighted_sums
from headstart.seeds import Draw


class LinearAttentionSpec(MixerSpec):
    """Attention of `heads` heads without a softmax, at the cost of L D^2 / H.

    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    heads: int = Field(default=4, ge=1)
    bias: bool = True
    init: Init = "independent"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module, for any length."""
        del length
        check_heads(width, self.heads)
        return LinearAttention(self, width, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, and per head the sums of E x (E + 1) products."""
        each = width // self.heads
        return 8.0 * length * width**2 + self.heads * flops(length, each, each, causal)


class LinearAttention(nn.Module):
    """Attention with weights phi(q_i) . phi(k_j), phi(x) = elu(x) + 1, divided by their sum.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Cost O(L D^2 / H); causal by prefix
    sums of chunks.
    Source: Katharopoulos et al. 2020, "Transformers are RNNs", eq. 5 to 10; there is no factor 1 / sqrt(E).
    """

    parts = PARTS

    def __init__(self, spec: LinearAttentionSpec, width: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = spec.heads, causal
        self.query, self.key, self.value, self.output = layers(4, width, spec.init, spec.bias)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        with torch.autocast(x.device.type, enabled=False):
            keys = positive(precise(k)) * everywhere(x, valid)[:, None, :, None]
            mixed = weighted_sums(positive(precise(q)), keys, precise(v), self.causal)
        out: Tensor = self.output(joined(mixed).to(v.dtype))
        return out


def positive(x: Tensor) -> Tensor:
    """elu(x) + 1, written so that it never rounds to 0: expm1(x) + 1 is 0 in float32 below -17."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())
