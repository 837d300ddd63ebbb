"""Mamba's whole block: a short convolution, a state space that selects by its input, and a gate (Gu and Dao 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.mixers.state_space import check_range, log_uniform
from headstart.models.scan import precise, recurrence, short_convolution

STATE_NUMBERS = 2**20
"""Numbers of one table of states at a time: 4 MB in float32 (measured: 1 and 16 MB take a third longer)."""


class MambaSpec(RecurrentSpec):
    """`expand` D channels of `state` real numbers each, after a convolution over `filter` positions.

    Step sizes start log-uniform in [dt_min, dt_max], decays at 1, 2, ... `state`; steps pass a rank of D / 16.
    """

    kind: Literal["mamba"] = "mamba"
    state: int = Field(default=16, ge=1)
    """Size of the state (of each channel, where channels have their own)."""
    expand: int = Field(default=2, ge=1)
    """Inner width as a multiple of the model's."""
    filter: int = Field(default=4, ge=1)
    """Positions of the short convolution."""
    dt_min: float = 1e-3
    """Smallest step size that a state starts with."""
    dt_max: float = 0.1
    """Largest step size that a state starts with."""

    example: ClassVar[Mapping[str, Any]] = {"state": 4}
    uncounted: ClassVar[str] = "the scan: decays, inputs and three operations for each number of the state"

    def layer(self, width: int, length: int) -> nn.Module:
        check_range("dt", self.dt_min, self.dt_max)
        return Mamba(self, width)

    def layer_flops(self, width: int, length: int) -> float:
        """The layers and the filter, the readout of the state, and 7 operations for each of its numbers."""
        inner, rank = self.expand * width, rank_of(width)
        layers = inner * (3 * width + self.filter + 2 * rank + 2 * self.state)
        return 2.0 * length * (layers + inner * self.state) + 7.0 * length * inner * self.state


def rank_of(width: int) -> int:
    """Rank of the layer that makes the steps."""
    return math.ceil(width / 16)


def step_bias(size: int, least: float, most: float) -> Tensor:
    """(size,) numbers whose softplus is log-uniform in [least, most], and at least 1e-4."""
    step = torch.exp(log_uniform(size, least, most)).clamp(min=1e-4)
    return step + torch.log(-torch.expm1(-step))


class Mamba(nn.Module):
    """h <- exp(dt A) h + dt B u, y = C h + skip u per channel; then y silu(z) through the output layer.

    u is silu of the convolution of half of the input layer, z the other half; dt, B and C are linear in u.
    Shapes: x (B, L, D) -> (B, L, D). Cost O(L D (D + N)), memory O(L D N).
    Source: Gu and Dao 2023, "Mamba", algorithm 2 and section 3.6, with the first values of its released code.
    """

    parts: Mapping[str, str] = {"log_decay": "kernel"}
    undecayed = frozenset({"log_decay", "skip"})

    def __init__(self, spec: MambaSpec, width: int) -> None:
        super().__init__()
        inner, rank = spec.expand * width, rank_of(width)
        self.state = spec.state
        self.input, self.output = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        bound = spec.filter**-0.5
        self.filter = nn.Parameter(torch.empty(inner, spec.filter).uniform_(-bound, bound))
        self.filter_bias = nn.Parameter(torch.empty(inner).uniform_(-bound, bound))
        self.select = nn.Linear(inner, rank + 2 * spec.state, bias=False)
        self.step = nn.Linear(rank, inner)
        nn.init.uniform_(self.step.weight, -(rank**-0.5), rank**-0.5)
        self.step.bias.data.copy_(step_bias(inner, spec.dt_min, spec.dt_max))
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, spec.state + 1)).repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: Tensor) -> Tensor:
        u, z = self.input(x).chunk(2, -1)
        u = silu(short_convolution(u, self.filter, self.filter_bias))
        rank = self.step.in_features
        step, enter, leave = self.select(u).split((rank, self.state, self.state), -1)
        step = softplus(precise(self.step(step)))
        with torch.autocast(x.device.type, enabled=False):
            y = self._scan(precise(u), step, precise(enter), precise(leave))
        return self.output(y.to(u.dtype) * silu(z))

    def _scan(self, u: Tensor, step: Tensor, enter: Tensor, leave: Tensor) -> Tensor:
        """u and step (B, L, inner), enter and leave (B, L, N) -> (B, L, inner), some channels at a time."""
        size = max(1, STATE_NUMBERS // (u.shape[0] * u.shape[1] * self.state))
        parts = zip(
            torch.split(u, size, -1), torch.split(step, size, -1), torch.split(self.log_decay, size), strict=True
        )
        return torch.cat([selected(*part, enter, leave) for part in parts], -1) + self.skip * u


def selected(u: Tensor, step: Tensor, log_decay: Tensor, enter: Tensor, leave: Tensor) -> Tensor:
    """C h of h <- exp(-dt exp(log_decay)) h + dt B u from 0; u, dt (B, L, D), log_decay (D, N), B and C (B, L, N)."""
    decay = torch.exp(-step.unsqueeze(-1) * torch.exp(log_decay))
    inputs = (step * u).unsqueeze(-1) @ enter.unsqueeze(-2)
    hidden = torch.unflatten(recurrence(decay.flatten(-2), inputs.flatten(-2)), -1, log_decay.shape)
    return (hidden @ leave.unsqueeze(-1)).squeeze(-1)
