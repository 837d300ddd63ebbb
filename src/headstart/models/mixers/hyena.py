"""Hyena: gates around a long convolution whose kernel a small network writes (Poli et al. 2023)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.mixer import directions_of
from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.mixers.state_space import transform_flops
from headstart.models.scan import convolve, precise, short_convolution

FILTER_POSITIONS = 3
"""Positions that the short convolution of the gates and values sees, as published."""
FADED_FIRST, FADED_LAST, FADED = 0.3, 1.5, 1e-2
"""Kernels fade to `FADED` after these shares of the length, from the last channel to the first."""


class HyenaSpec(RecurrentSpec):
    """Order 2, with a kernel from a network of three hidden layers of `hidden` sines.

    `kernel_rate` is the learning rate of that network, a hundredth of it that of its positions (None: the optimiser's).
    """

    kind: Literal["hyena"] = "hyena"
    hidden: int = Field(default=64, ge=1)
    """Width of the hidden layer."""
    kernel_rate: float | None = Field(default=1e-3, gt=0)
    """Learning rate of the kernel's parameters; not given: that of the optimiser."""

    def layer(self, width: int, length: int) -> nn.Module:
        return Hyena(self, width, length)

    def layer_flops(self, width: int, length: int) -> float:
        """The layers and the short filters, the network of the kernel, and three real FFTs per channel."""
        layers = 2.0 * length * (4 * width**2 + 3 * width * FILTER_POSITIONS)
        return layers + self._network(width, length) + 3 * transform_flops(width, length)

    def kernel_flops(self, width: int, length: int, causal: bool) -> float:
        return directions_of(self.directions, causal) * (self._network(width, length) + transform_flops(width, length))

    def _network(self, width: int, length: int) -> float:
        return 2.0 * length * self.hidden * (3 + 2 * self.hidden + width)


class Hyena(nn.Module):
    """b (kernel * (a v) + skip a v), a, b and v from one layer and a short convolution, then an output layer.

    Shapes: x (B, L, D) -> (B, L, D). Cost O(L D (D + log L)). Raises: BadInput for a sequence longer than the kernel.
    Source: Poli et al. 2023, "Hyena hierarchy", definition 3.1 and section 3.3; sizes as in Arora et al. 2023.
    """

    parts = {"kernel": "kernel"}  # noqa: RUF012
    undecayed = frozenset({"kernel"})

    def __init__(self, spec: HyenaSpec, width: int, length: int) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        bound = FILTER_POSITIONS**-0.5
        self.filter = nn.Parameter(torch.empty(3 * width, FILTER_POSITIONS).uniform_(-bound, bound))
        self.filter_bias = nn.Parameter(torch.empty(3 * width).uniform_(-bound, bound))
        self.kernel = HyenaKernel(spec.hidden, width, length)
        self.skip = nn.Parameter(torch.randn(width))
        rate = spec.kernel_rate
        self.rates = {} if rate is None else {"kernel": rate, "kernel.positions": rate / 100}

    def forward(self, x: Tensor) -> Tensor:
        mixed = short_convolution(self.input(x), self.filter, self.filter_bias)
        before, after, value = mixed.chunk(3, -1)
        inputs = (before * value).transpose(1, 2)
        return self.output(convolve(inputs, self.kernel(x.shape[1]), self.skip).transpose(1, 2).contiguous() * after)


class HyenaKernel(nn.Module):
    """K[d, l] = network(positions[l])[d] exp(-t |delta_d|), t = l / (length - 1): forward(L) -> (1, D, L)."""

    deltas: Tensor
    time: Tensor

    def __init__(self, hidden: int, width: int, length: int) -> None:
        super().__init__()
        time = torch.linspace(0, 1, length)
        angle = 1e-4 * 2 * math.pi * torch.arange(length) / length
        self.positions = nn.Parameter(torch.stack([time, torch.cos(angle), -torch.sin(angle)], -1))
        self.frequency = nn.Parameter(torch.ones(hidden))
        self.hidden = nn.ModuleList(nn.Linear(size, hidden) for size in (3, hidden, hidden))
        self.last = nn.Linear(hidden, width, bias=False)
        deltas = -math.log(FADED) * torch.linspace(1 / FADED_LAST, 1 / FADED_FIRST, width)
        self.register_buffer("deltas", deltas, persistent=False)
        self.register_buffer("time", time, persistent=False)

    def forward(self, length: int) -> Tensor:
        if length > self.positions.shape[0]:
            raise BadInput(
                f"model.mixer: 'hyena' is built for {self.positions.shape[0]} positions, a sequence has {length}; "
                f"set model.position.length = {length}"
            )
        with torch.autocast(self.positions.device.type, enabled=False):
            x = self.positions[:length]
            for layer in self.hidden:
                x = torch.sin(self.frequency * layer(x))
            fading = torch.exp(-self.time[:length, None] * self.deltas)
            kernel: Tensor = precise(self.last(x)) * fading
        return kernel.T.unsqueeze(0)
