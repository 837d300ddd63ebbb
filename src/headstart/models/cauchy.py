"""Cauchy sums of a diagonal-plus-low-rank state space on the unit circle, and its kernel from them.

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
from typing import Any

import torch
from torch import Tensor

from headstart.models.scan import Pair, multiply

TABLE = 2**18
"""Numbers of one table at a time: 1 MB in float32, so that the handful in use stays in the cache."""


def half_circle(length: int, like: Tensor) -> Pair:
    """(sin, cos) of half the angles of the first length / 2 + 1 roots of unity, for an even length.

    Both as sines of exact multiples of pi / (2 length), so that small cosines are right too.
    """
    places = torch.arange(length // 2 + 1, device=like.device, dtype=like.dtype)
    step = math.pi / (2 * length)
    return torch.sin(2 * places * step), torch.sin((length - 2 * places) * step)


def _tables(square: Tensor, damping: Tensor, sine: Tensor, cosine: Tensor) -> Pair:
    """Real and imaginary part of 1 / (square c^2 - s^2 + i damping s c): (d, n) -> (d, n, F)."""
    real = torch.addcmul(-sine * sine, square.unsqueeze(-1), cosine * cosine)
    imaginary = damping.unsqueeze(-1) * (sine * cosine)
    inverse = torch.addcmul(real * real, imaginary, imaginary).reciprocal()
    return real * inverse, -imaginary * inverse


def _chunks(square: Tensor, sine: Tensor) -> list[slice]:
    channels, states = square.shape
    size = max(1, TABLE // (states * sine.shape[0]))
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
        found: list[tuple[Tensor, Tensor, Tensor]] = []
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
            found.append((for_weights, -(t[0] @ (cosine * cosine)), t[1] @ (sine * cosine)))
        return (*(torch.cat([one[i] for one in found]) for i in range(3)), None, None)


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
    products = [multiply(one, other) for other in (column, low) for one in left]
    vectors = torch.stack([p[0] for p in products], 1), torch.stack([p[1] for p in products], 1)
    sums = pair_sums(vectors, (half * states[0], half * states[1]), circle)
    by_row = sums.movedim(1, 0)
    through_column, through_low = by_row[: len(left)], by_row[len(left) :]
    cosine = circle[1]
    share = cosine * through_column[-1] / (1 + cosine * through_low[-1])
    turn = torch.complex(cosine, circle[0]) * half
    spectrum = turn * (through_column[:-1] - through_low[:-1] * share)
    kernel: Tensor = torch.fft.irfft(spectrum, n=length)
    return kernel
