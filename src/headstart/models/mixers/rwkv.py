"""RWKV-6's time mixing: a matrix state per head that fades as the input says (Peng et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad, silu

from headstart.models.mixers.mixer import LAYER_PARTS, head_width, joined, split
from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.scan import KEYED_CHUNK, gated_sums, gated_sums_flops, precise

SHIFT_RANK, FADE_RANK = 32, 64
"""Ranks of the layers that make the shares of the shift, and the fades, as published."""
HEAD_EPSILON = 64e-5
"""Of the norm of each head, as published for heads of any width."""


class RWKVSpec(RecurrentSpec):
    """`heads` heads of width D / H (64 as published). Raises: BadInput where `heads` does not divide the width.

    First values are those of the first of many layers in the released code.
    """

    kind: Literal["rwkv6"] = "rwkv6"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    uncounted: ClassVar[str] = "the products of queries and keys of one chunk, which are sums of element-wise products"

    def layer(self, width: int, length: int) -> nn.Module:
        head_width(self.heads, width)
        return TimeMixing(width, self.heads)

    def layer_flops(self, width: int, length: int) -> float:
        """Five layers of 2 L D^2, those of low rank, and per head the sums."""
        each = width // self.heads
        layers = 2.0 * length * width * (5 * width + 10 * SHIFT_RANK + 2 * FADE_RANK)
        return layers + self.heads * gated_sums_flops(length, KEYED_CHUNK, each, each)


class TimeMixing(nn.Module):
    """S <- diag(w) S + k^T v, o = r (S before + diag(u) k^T v) per head, w = exp(-exp(...)); o is normed and gated.

    Receptance r, key, value, gate and fade each read their own mixture of x and of x one position before, whose shares
    depend on x too. Shapes: x (B, L, D) -> (B, L, D). Cost O(L D (D + c + D / H)) for chunks of c positions.
    Source: Peng et al. 2024, "Eagle and Finch", section 4.1 (Finch).
    """

    parts: Mapping[str, str] = {**LAYER_PARTS, "norm": "norm", "norm_bias": "norm"}
    per_position = ("shares_into", "shares_back", "fade_into", "fade_back")

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        channel = torch.arange(width) / width
        # Of fade, key, value, receptance and gate.
        shares = torch.stack([1 - channel, 1 - channel, 1 - channel, 1 - channel**0.5, 1 - channel**0.5])
        self.share, self.shares = nn.Parameter(1 - channel), nn.Parameter(shares)
        self.shares_into = nn.Parameter(torch.zeros(width, 5 * SHIFT_RANK))
        self.shares_back = nn.Parameter(torch.empty(5, SHIFT_RANK, width).uniform_(-0.01, 0.01))
        self.fade = nn.Parameter(-6 + 5 * (torch.arange(width) / max(width - 1, 1)) ** 0.7)
        self.fade_into = nn.Parameter(torch.zeros(width, FADE_RANK))
        self.fade_back = nn.Parameter(torch.empty(FADE_RANK, width).uniform_(-0.01, 0.01))
        self.bonus = nn.Parameter(0.1 * ((torch.arange(width) + 1) % 3 - 1.0))
        layers = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.query, self.key, self.value, self.gate, self.output = layers
        self.norm, self.norm_bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        faded, key, value, query, gate = self._shifted(x)
        fade = -torch.exp(precise(self.fade + torch.tanh(faded @ self.fade_into) @ self.fade_back))
        layers = (self.query(query), self.key(key), self.value(value), fade)
        query, key, value, fade = (split(part, self.heads) for part in layers)
        bonus = split(self.bonus[None, None], self.heads)[0]
        mixed = precise(gated_sums(query, key, value, fade, KEYED_CHUNK, bonus))
        normed = joined(layer_norm(mixed, mixed.shape[-1:], eps=HEAD_EPSILON)) * self.norm + self.norm_bias
        return self.output(normed * silu(self.gate(gate)))

    def _shifted(self, x: Tensor) -> tuple[Tensor, ...]:
        """Five mixtures (B, L, D) of x and of x one position before."""
        before = pad(x[:, :-1], (0, 0, 1, 0)) - x
        ranks = torch.unflatten(torch.tanh((x + before * self.share) @ self.shares_into), -1, (5, SHIFT_RANK))
        shares = torch.einsum("blsr,srd->sbld", ranks, self.shares_back) + self.shares[:, None, None]
        return (x + before * shares).unbind()
