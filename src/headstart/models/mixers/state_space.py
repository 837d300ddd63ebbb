"""What s4, s4d and dlr share: a kernel per channel, its convolution, the skip and what comes after."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import FixedKernel, replaced
from headstart.models.scan import convolve, fast_length

Gate = Literal["glu", "linear", "none"]


def directions_of(directions: int | None, causal: bool) -> int:
    """One direction where causal, else two, unless the spec says.

    Raises: BadInput where two directions are asked of a causal model.
    """
    if causal and directions == 2:
        raise BadInput("model.mixer.directions: 2 cannot be causal; leave it out or set 1")
    return directions or (1 if causal else 2)


def log_uniform(size: int, least: float, most: float) -> Tensor:
    """(size,) logarithms of numbers that are log-uniform in [least, most]."""
    return math.log(least) + torch.rand(size) * (math.log(most) - math.log(least))


def check_range(name: str, least: float, most: float) -> None:
    """Raises: BadInput unless 0 < least <= most."""
    if not 0 < least <= most:
        raise BadInput(
            f"model.mixer.{name}_min: {least} is not in (0, {name}_max = {most}]; lower it or raise {name}_max"
        )


def even_state(state: int) -> None:
    """Raises: BadInput where the state is no whole number of conjugate pairs."""
    if state % 2:
        raise BadInput(f"model.mixer.state: {state} is odd, but states are conjugate pairs; set {state + 1}")


def legs(state: int) -> tuple[Tensor, Tensor, Tensor]:
    """HiPPO-LegS: the state matrix A (N, N), its input column B (N,), and P (N,) with A + P P^T normal.

    float64. Source: Gu, Goel and Ré 2022, eq. 2 and theorem 1.
    """
    n = torch.arange(state, dtype=torch.float64)
    scale = torch.sqrt(2 * n + 1)
    matrix = -torch.tril(scale[:, None] * scale[None, :], -1) - torch.diag(n + 1)
    return matrix, scale, torch.sqrt(n + 0.5)


def normal_basis(state: int) -> tuple[Tensor, Tensor]:
    """Angles (N/2,) > 0 and eigenvectors (N, N/2), complex128, of LegS' normal part A + P P^T.

    Its eigenvalues are -1/2 +- i angle: the part is a skew-symmetric matrix less one half of the identity,
    so that an exact Hermitian solver finds them. Each kept vector stands for its conjugate too, and is turned so
    that its part of B is positive: solvers differ in the phase, and a seed should mean one kernel on all machines.
    """
    matrix, column, low = legs(state)
    normal = matrix + low[:, None] * low[None, :]
    skew = (normal - normal.T) / 2
    angles, vectors = torch.linalg.eigh(-1j * skew)
    angles, vectors = angles[state // 2 :], vectors[:, state // 2 :]
    share = vectors.conj().T @ column.to(vectors.dtype)
    return angles, vectors * (share / share.abs())


class StateSpace(nn.Module):
    """y = kernel * x + skip x per channel, then GELU and an output that mixes channels.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D); `kernel(L)` gives (C, D, L), C directions.
    Padding is zeroed before the convolution, so that neither direction sees it. Cost O(B D L log L), and the
    kernel's. `gate`: "glu" is GELU, D -> 2D and a gated linear unit; "linear" GELU and D -> D; "none" the bare sum.
    """

    parts: dict[str, str]

    def __init__(self, kernel: nn.Module, width: int, gate: Gate, kernel_rate: float | None) -> None:
        super().__init__()
        self.kernel = kernel
        self.skip = nn.Parameter(torch.randn(width))
        self.gate = gate
        self.output = None if gate == "none" else nn.Linear(width, 2 * width if gate == "glu" else width)
        self.parts = {"kernel": "kernel"}
        self.undecayed = {"kernel"}
        self.rates = {} if kernel_rate is None else {"kernel": kernel_rate}

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        del draw
        inputs = x if valid is None else x.masked_fill(~valid.unsqueeze(-1), 0.0)
        y = convolve(inputs.transpose(1, 2), self.kernel(x.shape[1]), self.skip).transpose(1, 2)
        if self.output is None:
            return y
        y = self.output(nn.functional.gelu(y))
        return nn.functional.glu(y, -1) if self.gate == "glu" else y

    def exportable(self, length: int) -> nn.Module:
        """Itself with its kernel made beforehand, at any length up to this one."""
        return replaced(self, kernel=FixedKernel(self.kernel(length)))


def after_kernel_flops(width: int, length: int, gate: Gate) -> float:
    """FLOPs of convolution and output: three real FFTs of 2.5 n log2 n per channel, and the matrix."""
    size = fast_length(2 * length - 1)
    transforms = 7.5 * width * size * math.log2(size)
    matrix = {"glu": 4.0, "linear": 2.0, "none": 0.0}[gate] * length * width * width
    return transforms + matrix
