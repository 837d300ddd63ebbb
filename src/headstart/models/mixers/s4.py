"""S4: a state space that starts from HiPPO-LegS, diagonal plus low rank (Gu, Goel and Ré 2022).

A state space of state matrix A = diag(a) - P P^*, discretised by the bilinear transform with step dt, has the
truncated generating function (Gu, Goel and Ré 2022, appendix C.3), at z = exp(-i phi),
    K(z) = sum_l C A_bar^l B_bar z^l = dt/2 exp(i phi/2) C~ (i s - c dt/2 A)^-1 B,    C~ = C (1 - A_bar^L),
with s = sin(phi/2), c = cos(phi/2): written so that nothing becomes infinite at z = -1. The inverse is that
of a diagonal matrix and a correction of rank one (Woodbury). A conjugate pair of states is one real quadratic
denominator, so that each sum over states is a real matrix product with two tables, the real and the imaginary
part of 1 / denominator. The tables are made channel by channel, and made again for gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.state_space import (
    Gate,
    KernelSpec,
    check_range,
    even_state,
    legs,
    log_uniform,
    normal_basis,
)
from headstart.models.scan import Pair, fast_length, multiply

TABLE_NUMBERS = 2**18
"""Numbers of one table at a time: 1 MB in float32, so that the handful in use stays in the cache."""
LARGE_TABLE = 2**24
"""The same on a GPU, which small pieces leave idle."""


class S4Spec(KernelSpec):
    """HiPPO-LegS state space of `state` numbers per channel, discretised by the bilinear transform.

    Step sizes start log-uniform in [dt_min, dt_max]. `kernel_rate` is the learning rate of the kernel's
    parameters (None: the optimiser's). `directions` None means two, or one where causal.
    """

    kind: Literal["s4"] = "s4"
    state: int = Field(default=64, ge=2)
    """Size of the state (of each channel, where channels have their own)."""
    directions: Literal[1, 2] | None = None
    """1: from left to right; 2: both. Not given: 2, or 1 in a causal model."""
    dt_min: float = 1e-3
    """Smallest step size that a state starts with."""
    dt_max: float = 0.1
    """Largest step size that a state starts with."""
    gate: Gate = "glu"
    """What follows the recurrence: a gated linear unit, a linear layer or nothing."""
    kernel_rate: float | None = Field(default=1e-3, gt=0)
    """Learning rate of the kernel's parameters; not given: that of the optimiser."""

    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def kernel(self, width: int, length: int, directions: int) -> nn.Module:
        even_state(self.state)
        check_range("dt", self.dt_min, self.dt_max)
        return S4Kernel(self, width, length, directions)

    def sums(self, width: int, length: int, directions: int) -> float:
        size = fast_length(length)
        return width * (
            8.0 * (directions + 1) * self.state * (size // 2 + 1) + 2.5 * directions * size * math.log2(size)
        )


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
        if not row.is_meta:  # of a model without numbers it is the shape alone, and the powers import torch's compiler
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
    identity = torch.eye(vectors.shape[0], dtype=torch.float64)
    power = torch.linalg.matrix_power(torch.linalg.solve(identity - half, identity + half), length)
    real = 2 * (torch.view_as_complex(row.double()) @ vectors.conj().T).real
    difference = real - torch.einsum("cdn,dnm->cdm", real, power)
    return torch.view_as_real(difference.to(vectors.dtype) @ vectors)


def half_circle(length: int, like: Tensor) -> Pair:
    """(sin, cos) of half the angles of the first length / 2 + 1 roots of unity, for an even length.

    Both as sines of exact multiples of pi / (2 length), so that small cosines are right too.
    """
    index = torch.arange(length // 2 + 1, device=like.device, dtype=like.dtype)
    step = math.pi / (2 * length)
    return torch.sin(2 * index * step), torch.sin((length - 2 * index) * step)


def _tables(square: Tensor, damping: Tensor, sine: Tensor, cosine: Tensor) -> Pair:
    """Real and imaginary part of 1 / (square c^2 - s^2 + i damping s c): (d, n) -> (d, n, F)."""
    real = torch.addcmul(-sine * sine, square.unsqueeze(-1), cosine * cosine)
    imaginary = damping.unsqueeze(-1) * (sine * cosine)
    inverse = torch.addcmul(real * real, imaginary, imaginary).reciprocal()
    return real * inverse, -imaginary * inverse


def _chunks(square: Tensor, sine: Tensor) -> list[slice]:
    channels, states = square.shape
    table = LARGE_TABLE if square.is_cuda else TABLE_NUMBERS
    size = max(1, table // (states * sine.shape[0]))
    return [slice(first, first + size) for first in range(0, channels, size)]


class _Resolvent(torch.autograd.Function):
    """X[d, j, f] = sum_n (i s odd[d, j, n] + c even[d, j, n]) / (square c^2 - s^2 + i damping s c).

    Keeps its arguments only: O(D J (N + F)) memory in both passes.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(weights: Tensor, square: Tensor, damping: Tensor, sine: Tensor, cosine: Tensor) -> Pair:
        half = weights.shape[1] // 2
        out: list[Pair] = []
        for part in _chunks(square, sine):
            real, imaginary = _tables(square[part], damping[part], sine, cosine)
            by_real, by_imaginary = weights[part] @ real, weights[part] @ imaginary
            out.append(
                (
                    cosine * by_real[:, half:] - sine * by_imaginary[:, :half],
                    sine * by_real[:, :half] + cosine * by_imaginary[:, half:],
                )
            )
        return torch.cat([pair[0] for pair in out]), torch.cat([pair[1] for pair in out])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Pair) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, square, damping, sine, cosine = ctx.saved_tensors
        grads_by_chunk: list[tuple[Tensor, Tensor, Tensor]] = []
        for part in _chunks(square, sine):
            real, imaginary = _tables(square[part], damping[part], sine, cosine)
            toward_real = torch.cat([sine * grads[1][part], cosine * grads[0][part]], 1)
            toward_imaginary = torch.cat([-sine * grads[0][part], cosine * grads[1][part]], 1)
            for_weights = toward_real @ real.mT + toward_imaginary @ imaginary.mT
            # With r = 1 / denominator: dr = -r^2 d(denominator), and t = conj(toward r) r below.
            through_real = weights[part].mT @ toward_real
            through_imaginary = weights[part].mT @ toward_imaginary
            t = (
                torch.addcmul(through_real * real, through_imaginary, imaginary),
                torch.addcmul(through_real * imaginary, through_imaginary, real, value=-1),
            )
            t = (torch.addcmul(t[0] * real, t[1], imaginary, value=-1), torch.addcmul(t[0] * imaginary, t[1], real))
            grads_by_chunk.append((for_weights, -(t[0] @ (cosine * cosine)), t[1] @ (sine * cosine)))
        return (*(torch.cat([chunk[i] for chunk in grads_by_chunk]) for i in range(3)), None, None)


def pair_sums(vectors: Pair, states: Pair, circle: Pair) -> Tensor:
    """sum_n v_n / (i s - c a_n) and the same of the conjugates.

    Shapes: vectors v (D, J, N/2), states a (D, N/2), circle s and c (F,) -> (D, J, F) complex.
    """
    odd = 2 * vectors[0]
    even = -2 * (vectors[0] * states[0].unsqueeze(1) + vectors[1] * states[1].unsqueeze(1))
    square, damping = states[0] ** 2 + states[1] ** 2, -2 * states[0]
    real, imaginary = _Resolvent.apply(  # type: ignore[no-untyped-call]
        torch.cat([odd, even], 1), square, damping, *circle
    )
    return torch.complex(real, imaginary)


def low_rank_kernel(states: Pair, low: Pair, column: Pair, rows: Pair, dt: Tensor, length: int) -> Tensor:
    """K[c, d, l], l below the even `length`, of the state space that this module's docstring writes down.

    Shapes: states a, low P and column B (D, N/2), one of each conjugate pair, Re a < 0; rows C~ (C, D, N/2);
    dt (D,) -> (C, D, length). Cost O(C D N L) and an FFT.
    """
    half = dt.unsqueeze(-1) / 2
    root = torch.sqrt(half)
    circle = half_circle(length, dt)
    low = (root * low[0], root * low[1])
    left = [(rows[0][i], rows[1][i]) for i in range(rows[0].shape[0])] + [(low[0], -low[1])]
    products = [multiply(row, other) for other in (column, low) for row in left]
    vectors = torch.stack([p[0] for p in products], 1), torch.stack([p[1] for p in products], 1)
    sums = pair_sums(vectors, (half * states[0], half * states[1]), circle)
    by_row = sums.movedim(1, 0)
    through_column, through_low = by_row[: len(left)], by_row[len(left) :]
    cosine = circle[1]
    share = cosine * through_column[-1] / (1 + cosine * through_low[-1])
    turn = torch.complex(cosine, circle[0]) * half
    spectrum = turn * (through_column[:-1] - through_low[:-1] * share)
    return torch.fft.irfft(spectrum, n=length)
