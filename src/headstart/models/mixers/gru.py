"""GRU as a mixer (Cho et al. 2014), by torch's own kernel: its steps follow one another in C++, not in Python."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.recurrent import RecurrentSpec


class GRUSpec(RecurrentSpec):
    """One GRU layer of `state` numbers (None: the model's width); a linear output follows where they differ."""

    kind: Literal["gru"] = "gru"
    state: int | None = Field(default=None, ge=1)
    """Size of the state (of each channel, where channels have their own)."""

    def layer(self, width: int, length: int) -> nn.Module:
        return GRU(width, self.state or width)

    def layer_flops(self, width: int, length: int) -> float:
        state = self.state or width
        return 2.0 * length * (3 * state * (width + state) + (0 if state == width else state * width))


class GRU(nn.Module):
    """h <- (1 - z) n + z h, n = tanh(W x + b + r (U h + c)), r and z sigmoids of sums like W x + b + U h + c.

    Shapes: x (B, L, D) -> (B, L, D). Weights as in torch.nn.GRU, in the order r, z, n, uniform in +-1 / sqrt(N).
    Cost O(L N (D + N)), L steps one after another. Source: Cho et al. 2014, with torch's reset after the product.
    """

    per_position = ("input", "recurrent")

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(state)
        self.input = nn.Parameter(torch.empty(3 * state, width).uniform_(-bound, bound))
        self.recurrent = nn.Parameter(torch.empty(3 * state, state).uniform_(-bound, bound))
        self.input_bias = nn.Parameter(torch.empty(3 * state).uniform_(-bound, bound))
        self.recurrent_bias = nn.Parameter(torch.empty(3 * state).uniform_(-bound, bound))
        self.output = None if state == width else nn.Linear(state, width)

    def forward(self, x: Tensor) -> Tensor:
        weights: list[Tensor] = [self.input, self.recurrent, self.input_bias, self.recurrent_bias]
        start = x.new_zeros(1, x.shape[0], self.recurrent.shape[1])
        # A stack of models has no rule for `gru`, but one for each of the operations that it is made of.
        stacked = torch._C._functorch.is_batchedtensor(self.recurrent)
        gru = torch.ops.aten.gru.input.decompose if stacked else torch.gru
        hidden: Tensor = gru(x, start, weights, True, 1, 0.0, False, False, True)[0]
        return hidden if self.output is None else self.output(hidden)
