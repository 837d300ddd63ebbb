"""S4D: a state space with a diagonal state matrix (Gu, Gupta, Goel and Ré 2022)."""

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
    even_state,
    log_uniform,
    normal_basis,
)
from headstart.models.scan import Pair, diagonal_kernel, multiply, stride_of


class S4DSpec(MixerSpec):
    """Diagonal state space, discretised by a zero-order hold; `state` counts both of a conjugate pair.

    `init`: "legs" takes the eigenvalues of HiPPO-LegS' normal part, "lin" -1/2 + i pi n. Step sizes start
    log-uniform in [dt_min, dt_max]. `kernel_rate` is the learning rate of the kernel's parameters (None: the
    optimiser's). `directions` None means two, or one where causal.
    """

    kind: Literal["s4d"] = "s4d"
    state: int = Field(default=64, ge=2)
    directions: Literal[1, 2] | None = None
    init: Literal["legs", "lin"] = "legs"
    dt_min: float = 1e-3
    dt_max: float = 0.1
    gate: Gate = "glu"
    kernel_rate: float | None = Field(default=1e-3, gt=0)

    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        even_state(self.state)
        check_range("dt", self.dt_min, self.dt_max)
        kernel = S4DKernel(self, width, length, directions_of(self.directions, causal))
        return StateSpace(kernel, width, self.gate, self.kernel_rate)

    def flops(self, width: int, length: int, causal: bool) -> float:
        stride = stride_of(length)
        padded = -(-length // stride) * stride
        kernel = 2.0 * directions_of(self.directions, causal) * width * padded * self.state
        return kernel + after_kernel_flops(width, length, self.gate)


class S4DKernel(nn.Module):
    """K[l] = 2 Re sum_n C_n (exp(dt a_n) - 1) / a_n exp(dt a_n l), with Re a = -exp(log_decay).

    forward(L) -> (C, D, L). Cost O(C D N L), memory O(D N sqrt(L) + C D L).
    """

    def __init__(self, spec: S4DSpec, width: int, length: int, directions: int) -> None:
        super().__init__()
        pairs = spec.state // 2
        angle = math.pi * torch.arange(pairs) if spec.init == "lin" else normal_basis(spec.state)[0]
        self.stride = stride_of(length)
        self.log_dt = nn.Parameter(log_uniform(width, spec.dt_min, spec.dt_max))
        self.log_decay = nn.Parameter(torch.full((width, pairs), math.log(0.5)))
        self.angle = nn.Parameter(angle.to(torch.get_default_dtype()).repeat(width, 1))
        # Complex normal numbers of variance 1.
        self.weight = nn.Parameter(torch.randn(directions, width, pairs, 2) * math.sqrt(0.5))

    def forward(self, length: int) -> Tensor:
        decay, dt = torch.exp(self.log_decay), torch.exp(self.log_dt).unsqueeze(-1)
        rate = (-decay * dt, self.angle * dt)
        weight = multiply((self.weight[..., 0], self.weight[..., 1]), self._integral(decay, rate))
        return diagonal_kernel((2 * weight[0], 2 * weight[1]), rate, length, self.stride)

    def _integral(self, decay: Tensor, rate: Pair) -> Pair:
        """(exp(dt a) - 1) / a without cancellation for small steps."""
        grown = torch.exp(rate[0])
        above = torch.expm1(rate[0]) * torch.cos(rate[1]) - 2 * torch.sin(rate[1] / 2) ** 2
        size = decay**2 + self.angle**2
        return multiply((above, grown * torch.sin(rate[1])), (-decay / size, -self.angle / size))
