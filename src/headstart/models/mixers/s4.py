"""S4: a state space that starts from HiPPO-LegS, diagonal plus low rank (Gu, Goel and Ré 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.cauchy import low_rank_kernel
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.state_space import (
    Gate,
    StateSpace,
    after_kernel_flops,
    check_range,
    directions_of,
    even_state,
    legs,
    log_uniform,
    normal_basis,
)
from headstart.models.scan import fast_length


class S4Spec(MixerSpec):
    """HiPPO-LegS state space of `state` numbers per channel, discretised by the bilinear transform.

    Step sizes start log-uniform in [dt_min, dt_max]. `kernel_rate` is the learning rate of the kernel's
    parameters (None: the optimiser's). `directions` None means two, or one where causal.
    """

    kind: Literal["s4"] = "s4"
    state: int = Field(default=64, ge=2)
    directions: Literal[1, 2] | None = None
    dt_min: float = 1e-3
    dt_max: float = 0.1
    gate: Gate = "glu"
    kernel_rate: float | None = Field(default=1e-3, gt=0)

    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        even_state(self.state)
        check_range("dt", self.dt_min, self.dt_max)
        kernel = S4Kernel(self, width, length, directions_of(self.directions, causal))
        return StateSpace(kernel, width, self.gate, self.kernel_rate)

    def flops(self, width: int, length: int, causal: bool) -> float:
        directions, size = directions_of(self.directions, causal), fast_length(length)
        sums = 8.0 * width * (directions + 1) * self.state * (size // 2 + 1)
        transform = 2.5 * directions * width * size * math.log2(size)
        return sums + transform + after_kernel_flops(width, length, self.gate)


class S4Kernel(nn.Module):
    """K[l] = C A_bar^l B_bar of A = diag(a) - P P^*, Re a = -exp(log_decay): stable whatever is drawn.

    `row` is C (1 - A_bar^M), which is what the truncated generating function needs and what is learned, M the
    fast length at or above the longest input. A shorter input takes the kernel's first L numbers; a row taken
    from a model built for another length stands for another C.
    forward(L) -> (C, D, L). Cost O(C D N M), memory O(C D M).
    Raises: BadInput for an input longer than the module was built for.
    """

    def __init__(self, spec: S4Spec, width: int, length: int, directions: int) -> None:
        super().__init__()
        pairs, dtype = spec.state // 2, torch.get_default_dtype()
        self.length = fast_length(length)
        angles, vectors = normal_basis(spec.state)
        _, column, low = legs(spec.state)
        self.log_dt = nn.Parameter(log_uniform(width, spec.dt_min, spec.dt_max))
        self.log_decay = nn.Parameter(torch.full((width, pairs), math.log(0.5)))
        self.angle = nn.Parameter(angles.to(dtype).repeat(width, 1))
        self.low = nn.Parameter(_in_basis(low, vectors).to(dtype).repeat(width, 1, 1))
        self.column = nn.Parameter(_in_basis(column, vectors).to(dtype).repeat(width, 1, 1))
        row = torch.randn(directions, width, pairs, 2) * math.sqrt(0.5)
        row = _truncated(row, vectors, torch.exp(self.log_dt.detach()), self.length)
        self.row = nn.Parameter(row.to(dtype))

    def forward(self, length: int) -> Tensor:
        if length > self.length:
            raise BadInput(
                f"s4: an input of {length} positions, but the model was built for {self.length}; "
                "build it with a longer task"
            )
        with torch.autocast(self.angle.device.type, enabled=False):
            kernel = low_rank_kernel(
                (-torch.exp(self.log_decay), self.angle),
                (self.low[..., 0], self.low[..., 1]),
                (self.column[..., 0], self.column[..., 1]),
                (self.row[..., 0], self.row[..., 1]),
                torch.exp(self.log_dt),
                self.length,
            )
        return kernel[..., :length]


def _in_basis(vector: Tensor, vectors: Tensor) -> Tensor:
    """A real vector (N,) in LegS' eigenvectors, one of each conjugate pair: (N/2, 2)."""
    return torch.view_as_real(vectors.conj().T @ vector.to(vectors.dtype))


def _truncated(row: Tensor, vectors: Tensor, dt: Tensor, length: int) -> Tensor:
    """C (1 - A_bar^length) for rows C (C, D, N/2, 2) in the eigenvectors, and steps dt (D,).

    In real coordinates, where A is LegS itself: N x N matrices, one per channel, at building time only.
    """
    matrix, _, _ = legs(vectors.shape[0])
    half = dt.double()[:, None, None] / 2 * matrix
    one = torch.eye(vectors.shape[0], dtype=torch.float64)
    power = torch.linalg.matrix_power(torch.linalg.solve(one - half, one + half), length)
    real = 2 * (torch.view_as_complex(row.double()) @ vectors.conj().T).real
    kept = real - torch.einsum("cdn,dnm->cdm", real, power)
    return torch.view_as_real(kept.to(vectors.dtype) @ vectors)
