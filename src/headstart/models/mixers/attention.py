"""Scaled dot-product attention, bidirectional or causal, with or without rotary positions."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from headstart.models.mixers.attend import AttentionView, attend, visible_pairs
from headstart.models.mixers.projections import PARTS, HeadsSpec, Rotary, joined, split
from headstart.seeds import Draw

SHORT = 128
"""Up to this length plain matrix products are used on a CPU: forward and backward of the digits model (D 32,
4 heads, L 64, batch 32, 1 thread) took 9.3 ms with them and 10.3 ms with the fused kernel, which wins from
L 256 on (measured; at L 1,024 it is 1.3 to 3 times as fast)."""


class AttentionSpec(HeadsSpec):
    """softmax(Q K^T / sqrt(E)) V in each of `heads` heads of width E = D / heads, then an output layer.

    init: `independent` draws query, key, value and output apart; `tied` starts the four with equal values, as
    the code of Amos et al. does (they train apart). bias: whether the four layers have one.
    """

    kind: Literal["attention"] = "attention"

    rotary: ClassVar[bool] = True

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; with `theta` its queries and keys turn with their position.

        Raises: BadInput where the width does not divide into heads, or into planes for rotary positions.
        """
        return Attention(self, width, length, causal, theta)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2 and two products of 2 L^2 D (causal ones compute the whole square too)."""
        del causal
        return 8.0 * length * width**2 + 4.0 * length**2 * width


class Attention(nn.Module):
    """Scaled dot-product attention.

    Shapes: x (B, L, D), valid (B, L) bool or None (all valid) -> (B, L, D). Cost O(L^2 D + L D^2).
    Source: Vaswani et al. 2017; rotary positions: Su et al. 2021, over the whole head width.
    """

    parts = PARTS

    def __init__(self, spec: AttentionSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__()
        self.heads, self.causal = spec.heads, causal
        each = spec.head_width(width, theta)
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        self.turn = Rotary(length, each, theta)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        # Padding stands at the end: causal positions never see it.
        seen = None if valid is None or self.causal else valid[:, None, None, :]
        out: Tensor = self.output(joined(attend(self.turn(q), self.turn(k), v, seen, self.causal, short=SHORT)))
        return out

    def attention(self, x: Tensor, valid: Tensor) -> AttentionView:
        """What the heads attend with."""
        query, key = (self.turn(split(layer(x), self.heads)) for layer in (self.query, self.key))
        return AttentionView(query, key, visible_pairs(valid, self.causal))

    def exportable(self, length: int) -> nn.Module:
        """Itself, at any length."""
        del length
        return self
