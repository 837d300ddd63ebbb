"""DLR: a diagonal linear RNN (Gupta, Mehta and Berant 2022; Amos et al. 2023, eq. 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.state_space import (
    Gate,
    StateSpace,
    after_kernel_flops,
    check_range,
    directions_of,
    log_uniform,
)
from headstart.models.scan import diagonal_kernel, stride_of


class DLRSpec(MixerSpec):
    """Linear recurrence with a diagonal state of `state` complex numbers that all channels share.

    Nothing is discretised. Decays start at half of a log-uniform number in [decay_min, decay_max], angles at
    2 pi n / N, weights normal with deviation 1 / N. `kernel_rate` is the learning rate of the kernel's
    parameters (None: the optimiser's). `directions` None means two, or one where causal.
    """

    kind: Literal["dlr"] = "dlr"
    state: int = Field(default=1024, ge=1)
    directions: Literal[1, 2] | None = None
    decay_min: float = 1e-4
    decay_max: float = 0.1
    gate: Gate = "linear"
    kernel_rate: float | None = Field(default=1e-4, gt=0)

    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        check_range("decay", self.decay_min, self.decay_max)
        kernel = DLRKernel(self, width, length, directions_of(self.directions, causal))
        return StateSpace(kernel, width, self.gate, self.kernel_rate)

    def flops(self, width: int, length: int, causal: bool) -> float:
        directions = directions_of(self.directions, causal)
        stride = stride_of(length, directions * width)
        padded = -(-length // stride) * stride
        kernel = 4.0 * directions * width * padded * self.state
        return kernel + after_kernel_flops(width, length, self.gate)


class DLRKernel(nn.Module):
    """K[c, d, l] = Re sum_n W[c, d, n] exp((-r_n^2 + i angle_n) l): no real part can become positive.

    forward(L) -> (C, D, L). Cost O(C D N L), memory O(N sqrt(C D L) + C D L).
    """

    def __init__(self, spec: DLRSpec, width: int, length: int, directions: int) -> None:
        super().__init__()
        self.stride = stride_of(length, directions * width)
        decay = 0.5 * torch.exp(log_uniform(spec.state, spec.decay_min, spec.decay_max))
        self.root_decay = nn.Parameter(torch.sqrt(decay))
        self.angle = nn.Parameter(2 * math.pi * torch.arange(spec.state) / spec.state)
        self.weight = nn.Parameter(torch.randn(directions, width, spec.state, 2) / spec.state)

    def forward(self, length: int) -> Tensor:
        weight = (self.weight[..., 0], self.weight[..., 1])
        return diagonal_kernel(weight, (-(self.root_decay**2), self.angle), length, self.stride)
