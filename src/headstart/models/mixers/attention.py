"""Scaled dot-product attention, bidirectional or causal, with or without rotary positions."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.attend import attend
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.projections import PARTS, Init, Rotary, check_heads, joined, layers, split
from headstart.seeds import Draw

SHORT = 128
"""Up to this length plain matrix products are used on a CPU: forward and backward of the digits model (D 32,
4 heads, L 64, batch 32, 1 thread) took 9.3 ms with them and 10.3 ms with the fused kernel, which wins from
L 256 on (measured; at L 1,024 it is 1.3 to 3 times as fast)."""


class AttentionSpec(MixerSpec):
    """softmax(Q K^T / sqrt(E)) V in each of `heads` heads of width E = D / heads, then an output layer.

    init: `independent` draws query, key, value and output apart; `tied` starts the four with equal values, as
    the code of Amos et al. does (they train apart). bias: whether the four layers have one.
    """

    kind: Literal["attention"] = "attention"
    heads: int = Field(default=4, ge=1)
    bias: bool = True
    init: Init = "independent"

    rotary: ClassVar[bool] = True

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; with `theta` its queries and keys turn with their place.

        Raises: BadInput where the width does not divide into heads, or into planes for rotary positions.
        """
        check_heads(width, self.heads, theta)
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
        self.query, self.key, self.value, self.output = layers(4, width, spec.init, spec.bias)
        self.turn = Rotary(length, width // spec.heads, theta)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        mixed = self._attend(self.turn(q), self.turn(k), v, valid)
        answer: Tensor = self.output(joined(mixed))
        return answer

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        """(B, H, L, E) each -> (B, H, L, E). Padding stands at the end: causal positions never see it."""
        length = query.shape[2]
        seen = None if valid is None or self.causal else valid[:, None, None, :]
        if length > SHORT or query.device.type != "cpu":
            return attend(query, key, value, seen, self.causal)
        scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
        if self.causal:
            seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        if seen is not None:
            scores = scores.masked_fill(~seen, float("-inf"))
        return torch.matmul(scores.softmax(-1), value)
