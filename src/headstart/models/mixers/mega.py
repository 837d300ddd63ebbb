"""Mega: gated attention after an exponential moving average (Ma et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad, silu

from headstart.models.exporting import AtLength, FixedKernel, replaced
from headstart.models.mixers.mixer import MixerSpec, directions_of
from headstart.models.mixers.state_space import transform_flops
from headstart.models.scan import convolve, diagonal_kernel, stride_of

Weighing = Literal["softmax", "laplace"]


class MegaSpec(MixerSpec):
    """Single-head gated attention whose queries, keys and gates read a damped moving average of the input.

    `state` is the averages per channel; `shared` the width of queries and keys (None: half the model's), `hidden`
    that of values (None: twice the model's). `attention` "laplace" is the paper's for LRA but for text. `chunk`
    cuts attention into pieces of that many positions (None: all of them at once). `directions` of the average:
    None means two, or one where causal. `kernel_rate` is the learning rate of the average's parameters (None,
    as published: the optimiser's).
    """

    kind: Literal["mega"] = "mega"
    state: int = Field(default=16, ge=1)
    """Size of the state (of each channel, where channels have their own)."""
    shared: int | None = Field(default=None, ge=1)
    """Width of queries and keys; not given: half the model's."""
    hidden: int | None = Field(default=None, ge=1)
    """Width of values; not given: twice the model's."""
    attention: Weighing = "softmax"
    """`laplace` is the paper's for the Long Range Arena but for its texts."""
    chunk: int | None = Field(default=None, ge=1)
    """Positions of a piece that attention sees, into which the sequence is cut; not given: no pieces."""
    directions: Literal[1, 2] | None = None
    """1: from left to right; 2: both. Not given: 2, or 1 in a causal model."""
    kernel_rate: float | None = Field(default=None, gt=0)
    """Learning rate of the kernel's parameters; not given: that of the optimiser."""

    example: ClassVar[Mapping[str, Any]] = {"state": 4}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Mega(self, width, length, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        shared, hidden = self.sizes(width)
        piece = min(self.chunk or length, length)
        pieces = -(-length // piece)
        average = self._sums(width, length, causal) + 3 * transform_flops(width, length)
        layers = 2.0 * length * width * (shared + 3 * hidden + 2 * width)
        return average + layers + 2.0 * pieces * piece**2 * (shared + hidden)

    def kernel_flops(self, width: int, length: int, causal: bool) -> float:
        return self._sums(width, length, causal) + transform_flops(width, length)

    def _sums(self, width: int, length: int, causal: bool) -> float:
        stride = stride_of(length)
        return 4.0 * directions_of(self.directions, causal) * width * -(-length // stride) * stride * self.state

    def sizes(self, width: int) -> tuple[int, int]:
        """Widths of queries and keys, and of values."""
        return self.shared or max(1, width // 2), self.hidden or 2 * width


class MovingAverage(nn.Module):
    """Multi-dimensional damped average, as a kernel: forward(L) -> (C, D, L).

    K[l] = sum_n eta_n alpha_n beta_n (1 - alpha_n delta_n)^l / sqrt(N), alpha and delta in (0, 1) by sigmoids.
    """

    def __init__(self, spec: MegaSpec, width: int, length: int, directions: int) -> None:
        super().__init__()
        shape = (directions, width, spec.state)
        self.stride = stride_of(length)
        self.alpha = nn.Parameter(0.2 * torch.randn(shape))
        self.delta = nn.Parameter(0.2 * torch.randn(shape))
        # Signs alternate, so that the averages start as differences too.
        self.beta = nn.Parameter(0.02 * torch.randn(shape) + 1 - 2 * (torch.arange(spec.state) % 2))
        self.eta = nn.Parameter(torch.randn(shape))

    def forward(self, length: int) -> Tensor:
        # log(1 - sigmoid(a) sigmoid(d)) without a difference, so that no rate becomes infinite.
        ends = torch.stack([-self.alpha, -self.delta, -self.alpha - self.delta])
        rate = torch.logsumexp(ends, 0) + logsigmoid(self.alpha) + logsigmoid(self.delta)
        weight = torch.sigmoid(self.alpha) * self.beta * self.eta / math.sqrt(self.beta.shape[-1])
        kernels = [
            diagonal_kernel((w[None], torch.zeros_like(w)[None]), (r, torch.zeros_like(r)), length, self.stride)
            for w, r in zip(weight.unbind(), rate.unbind(), strict=True)
        ]
        return torch.cat(kernels)


class Mega(nn.Module):
    """update * (candidate - x): the block's residual adds x, which makes Ma et al.'s eq. 15.

    That is so where the norm stands after (`norm_place = "after"`), as in that paper; with a norm before, x is normed
    here and the block adds it as it was.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Cost O(B L^2 D), with chunks O(B L chunk D).
    Two directions of the average meet behind the present, which counts once. Positions enter attention as one
    learned number per distance.
    """

    parts: ClassVar[dict[str, str]] = {
        "average": "kernel",
        "query_key": "query_key",
        "scale": "query_key",
        "shift": "query_key",
        "value": "value_output",
        "output": "value_output",
    }
    undecayed: ClassVar[set[str]] = {"average"}

    def __init__(self, spec: MegaSpec, width: int, length: int, causal: bool) -> None:
        super().__init__()
        shared, hidden = spec.sizes(width)
        self.causal, self.weighing = causal, spec.attention
        self.piece = min(spec.chunk or length, length)
        self.average = MovingAverage(spec, width, length, directions_of(spec.directions, causal))
        self.skip = nn.Parameter(torch.randn(width))
        self.query_key, self.value = nn.Linear(width, shared), nn.Linear(width, hidden)
        self.gates, self.output = nn.Linear(width, hidden + 2 * width), nn.Linear(hidden, width, bias=False)
        self.scale, self.shift = nn.Parameter(0.02 * torch.randn(2, shared)), nn.Parameter(torch.zeros(2, shared))
        self.distance = nn.Parameter(0.02 * torch.randn(2 * self.piece - 1))
        for layer in (self.query_key, self.value, self.gates, self.output):
            nn.init.normal_(layer.weight, 0.0, 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        self.rates = {} if spec.kernel_rate is None else {"average": spec.kernel_rate}

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        inputs = x if valid is None else x.masked_fill(~valid.unsqueeze(-1), 0.0)
        moved = silu(convolve(inputs.transpose(1, 2), self.average(x.shape[1]), self.skip).transpose(1, 2).contiguous())
        width = x.shape[-1]
        reset, candidate, update = self.gates(moved).split([self.output.in_features, width, width], -1)
        both = silu(self.query_key(moved)).unsqueeze(-2) * self.scale + self.shift
        attended = self.attend(both[..., 0, :], both[..., 1, :], silu(self.value(x)), valid)
        candidate = silu(candidate + self.output(attended * silu(reset)))
        return torch.sigmoid(update) * (candidate - x)

    def kernel(self, length: int) -> Tensor:
        """(C, D, L) of the moving average."""
        return self.average(length)

    def exportable(self, length: int) -> nn.Module:
        """Itself at that length, with its kernel made beforehand."""
        return AtLength(replaced(self, average=FixedKernel(self.kernel(length))), length)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        """Attention within each piece of the sequence: (B, L, Z), (B, L, Z), (B, L, H) -> (B, L, H)."""
        length, piece = query.shape[1], min(self.piece, query.shape[1])
        more = -length % piece
        if valid is None and more:
            valid = torch.ones(query.shape[:2], dtype=torch.bool, device=query.device)
        if more:
            query, key, value = (pad(part, (0, 0, 0, more)) for part in (query, key, value))
        cut = (query.shape[0], -1, piece)
        query, key, value = (part.reshape(*cut, part.shape[-1]) for part in (query, key, value))
        seen = None if valid is None else pad(valid, (0, more)).reshape(cut).unsqueeze(-2)
        if self.causal:
            earlier = torch.ones(piece, piece, dtype=torch.bool, device=query.device).tril()
            seen = earlier if seen is None else seen & earlier
        weights = self.weigh(query @ key.mT, seen, piece)
        return (weights @ value).flatten(1, 2)[:, :length]

    def weigh(self, scores: Tensor, seen: Tensor | None, piece: int) -> Tensor:
        """Weights of products (B, pieces, piece, piece), 0 where not `seen`."""
        middle = self.distance.shape[0] // 2
        near = self.distance[middle - piece + 1 : middle + piece]
        bias = by_distance(near)
        if self.weighing == "softmax":
            scores = scores / math.sqrt(self.scale.shape[-1]) + bias
            if seen is not None:
                # The least finite number: a piece of padding alone becomes an average, not NaN.
                scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
            return torch.softmax(scores, -1)
        count = piece if seen is None else seen.sum(-1, keepdim=True).clamp_min(1)
        # The normal distribution function of mean sqrt(1/2) and deviation sqrt(1 / (4 pi)): squared ReLU, bounded.
        weights = 0.5 * (1 + torch.erf((scores / count + bias - math.sqrt(0.5)) * math.sqrt(2 * math.pi)))
        return weights if seen is None else weights.masked_fill(~seen, 0.0)


def by_distance(values: Tensor) -> Tensor:
    """(p, p) table of values[p - 1 + j - i] from (2 p - 1,): rows of a line whose period is one place longer.

    Whole copies and one cut, because gathers of p^2 places are slow to differentiate.
    """
    piece = (values.shape[0] + 1) // 2
    line = pad(values, (0, 1)).repeat(piece)
    return line[: piece * (2 * piece - 1)].reshape(piece, 2 * piece - 1)[:, piece - 1 :]
