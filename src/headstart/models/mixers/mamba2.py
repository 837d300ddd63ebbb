"""Mamba-2's whole block: a state space whose heads fade by one number each, as matrix products (Dao and Gu 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from headstart.models.mixers.mamba import step_bias
from headstart.models.mixers.mixer import head_width, joined, split
from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.mixers.state_space import check_range
from headstart.models.scan import gated_sums, precise, short_convolution

MAMBA2_CHUNK = 64
"""Positions of a chunk whose weights are written out (256 as published, for GPUs)."""


class Mamba2Spec(RecurrentSpec):
    """`heads` heads that share `expand` D channels, each with a state of `state` numbers a channel.

    Heads are 64 channels wide as published. Steps start log-uniform in [dt_min, dt_max], decays uniform in [1, 16]. All
    heads share what enters the state and what is read of it, as published (one group).
    Raises: BadInput where `heads` does not divide `expand` D.
    """

    kind: Literal["mamba2"] = "mamba2"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the inner width."""
    state: int = Field(default=128, ge=1)
    """Size of the state (of each channel, where channels have their own)."""
    expand: int = Field(default=2, ge=1)
    """Inner width as a multiple of the model's."""
    filter: int = Field(default=4, ge=1)
    """Positions of the short convolution."""
    dt_min: float = 1e-3
    """Smallest step size that a state starts with."""
    dt_max: float = 0.1
    """Largest step size that a state starts with."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2, "state": 4}

    def layer(self, width: int, length: int) -> nn.Module:
        check_range("dt", self.dt_min, self.dt_max)
        head_width(self.heads, self.expand * width)
        return Mamba2(self, width)

    def layer_flops(self, width: int, length: int) -> float:
        """The layers and the filter; of the chunks what is read of what enters, once for all heads, and their sums."""
        inner, chunk = self.expand * width, min(MAMBA2_CHUNK, length)
        padded = -(-length // chunk) * chunk
        layers = 3 * inner + 2 * self.state + self.heads
        sums = 2.0 * padded * chunk * (self.state + inner) + 4.0 * (padded - chunk) * self.state * inner
        return 2.0 * length * (width * layers + (inner + 2 * self.state) * self.filter) + sums


class Mamba2(nn.Module):
    """S <- exp(-dt a) S + dt B^T u, y = C S + skip u in each head; then a norm of y silu(z), and the output layer.

    u, B and C are silu of the convolution of parts of the input layer, z and the steps dt of the heads its other ones.
    Shapes: x (B, L, D) -> (B, L, D). Cost O(L D (D + N + c)) for chunks of c positions.
    Source: Dao and Gu 2024, "Transformers are SSMs", sections 6 and 7, with the first values of its released code.
    """

    parts: Mapping[str, str] = {"log_decay": "kernel", "norm": "norm"}
    undecayed = frozenset({"log_decay", "skip", "step_bias"})

    def __init__(self, spec: Mamba2Spec, width: int) -> None:
        super().__init__()
        inner = spec.expand * width
        self.heads, self.sizes = spec.heads, [inner, inner + 2 * spec.state, spec.heads]
        self.state, bound = spec.state, spec.filter**-0.5
        self.input, self.output = nn.Linear(width, sum(self.sizes), bias=False), nn.Linear(inner, width, bias=False)
        self.filter = nn.Parameter(torch.empty(self.sizes[1], spec.filter).uniform_(-bound, bound))
        self.filter_bias = nn.Parameter(torch.empty(self.sizes[1]).uniform_(-bound, bound))
        self.step_bias = nn.Parameter(step_bias(spec.heads, spec.dt_min, spec.dt_max))
        self.log_decay = nn.Parameter(torch.empty(spec.heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(spec.heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        z, u, step = torch.split(self.input(x), self.sizes, -1)
        u = silu(short_convolution(u, self.filter, self.filter_bias))
        step = softplus(precise(step) + self.step_bias).transpose(1, 2).unsqueeze(-1)
        with torch.autocast(x.device.type, enabled=False):
            u, enter, leave = torch.split(precise(u), [self.sizes[0], self.state, self.state], -1)
            values = split(u, self.heads)
            fade = -step * torch.exp(self.log_decay).view(-1, 1, 1)
            y = gated_sums(leave.unsqueeze(1), enter.unsqueeze(1), step * values, fade, MAMBA2_CHUNK)
            y = self.norm(joined(y + self.skip.view(-1, 1, 1) * values) * silu(precise(z)))
        return self.output(y)
