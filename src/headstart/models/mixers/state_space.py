"""State spaces: what s4, s4d and dlr share, a kernel per channel, its convolution and what comes after; s4d and dlr."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import FixedKernel, replaced
from headstart.models.mixers.mixer import MixerSpec, directions_of
from headstart.models.scan import Pair, convolve, diagonal_kernel, fast_length, multiply, precise, stride_of
from headstart.spec import neutral

Gate = Literal["glu", "linear", "none"]


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
    """Raises: BadInput where the state is not a whole number of conjugate pairs."""
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
    before: a layer D -> D of the input. norm: of y over its channels.
    """

    parts: dict[str, str]

    def __init__(
        self,
        kernel: nn.Module,
        width: int,
        gate: Gate,
        kernel_rate: float | None,
        before: nn.Module | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.before, self.norm = kernel, before, norm
        self.skip = nn.Parameter(torch.randn(width))
        self.gate = gate
        self.output = None if gate == "none" else nn.Linear(width, 2 * width if gate == "glu" else width)
        self.parts = {"kernel": "kernel"} if norm is None else {"kernel": "kernel", "norm": "norm"}
        self.undecayed = {"kernel"}
        self.rates = {} if kernel_rate is None else {"kernel": kernel_rate}

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        x = x if self.before is None else self.before(x)
        inputs = x if valid is None else x.masked_fill(~valid.unsqueeze(-1), 0.0)
        y = convolve(inputs.transpose(1, 2), self.kernel(x.shape[1]), self.skip).transpose(1, 2).contiguous()
        y = y if self.norm is None else self.norm(precise(y)).to(y)
        if self.output is None:
            return y
        y = self.output(nn.functional.gelu(y))
        return nn.functional.glu(y, -1) if self.gate == "glu" else y

    def exportable(self, length: int) -> nn.Module:
        """Itself with its kernel made beforehand, at any length up to this one."""
        return replaced(self, kernel=FixedKernel(self.kernel(length)))


def transform_flops(width: int, length: int) -> float:
    """FLOPs of one real FFT per channel that a convolution over `length` needs: 2.5 n log2 n each."""
    size = fast_length(2 * length - 1)
    return 2.5 * width * size * math.log2(size)


class KernelSpec(MixerSpec):
    """Base of the mixers that are a convolution with one kernel per channel: a class makes and counts it."""

    if TYPE_CHECKING:  # each class has these fields, with defaults of its own
        directions: Literal[1, 2] | None
        gate: Gate
        kernel_rate: float | None

    def kernel(self, width: int, length: int, directions: int) -> nn.Module:
        """The module that makes the kernel: forward(L) -> (C, D, L)."""
        raise NotImplementedError

    def sums(self, width: int, length: int, directions: int) -> float:
        """FLOPs of making the kernel of `length`."""
        raise NotImplementedError

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        kernel = self.kernel(width, length, directions_of(self.directions, causal))
        return StateSpace(kernel, width, self.gate, self.kernel_rate)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """The kernel, three FFTs, and the matrix after the convolution."""
        matrix = {"glu": 4.0, "linear": 2.0, "none": 0.0}[self.gate] * length * width**2
        sums = self.sums(width, length, directions_of(self.directions, causal))
        return sums + 3 * transform_flops(width, length) + matrix

    def kernel_flops(self, width: int, length: int, causal: bool) -> float:
        """The kernel and its FFT."""
        return self.sums(width, length, directions_of(self.directions, causal)) + transform_flops(width, length)


class S4DSpec(KernelSpec):
    """S4D: a diagonal state space, discretised by a zero-order hold; `state` counts both of a conjugate pair.

    With `input = "linear"` it is MS4, with `norm = "layer"` too MS4N (Saadatmand et al. 2026, arXiv 2605.27406, by its
    abstract: a linear input projection, a simple mixing of channels, here that of `gate`, and one norm, which stands
    behind the recurrence here).
    Source: Gu, Gupta, Goel and Ré 2022.
    """

    kind: Literal["s4d"] = "s4d"
    state: int = Field(default=64, ge=2)
    """Size of the state (of each channel, where channels have their own)."""
    directions: Literal[1, 2] | None = None
    """1: from left to right; 2: both. Not given: 2, or 1 in a causal model."""
    init: Literal["legs", "lin"] = "legs"
    """`legs`: the eigenvalues of HiPPO-LegS' normal part; `lin`: -1/2 + i pi n."""
    dt_min: float = 1e-3
    """Smallest step size that a state starts with."""
    dt_max: float = 0.1
    """Largest step size that a state starts with."""
    gate: Gate = "glu"
    """What follows the recurrence: a gated linear unit, a linear layer or nothing."""
    kernel_rate: float | None = Field(default=1e-3, gt=0)
    """Learning rate of the kernel's parameters; not given: that of the optimiser."""

    input: Literal["none", "linear"] = neutral("none")
    """What stands before the recurrence: a linear layer or nothing."""
    norm: Literal["none", "layer"] = neutral("none")
    """What the recurrence gives is normed over its channels by, before the gate: a layer norm or nothing."""

    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        kernel = self.kernel(width, length, directions_of(self.directions, causal))
        before = nn.Linear(width, width) if self.input == "linear" else None
        norm = nn.LayerNorm(width) if self.norm == "layer" else None
        return StateSpace(kernel, width, self.gate, self.kernel_rate, before, norm)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """As of every kernel, and the layer before it."""
        return super().flops(width, length, causal) + (self.input == "linear") * 2.0 * length * width**2

    def kernel(self, width: int, length: int, directions: int) -> nn.Module:
        even_state(self.state)
        check_range("dt", self.dt_min, self.dt_max)
        return S4DKernel(self, width, length, directions)

    def sums(self, width: int, length: int, directions: int) -> float:
        stride = stride_of(length)
        padded = -(-length // stride) * stride
        return 2.0 * directions * width * padded * self.state


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


DECAYS = {"decay_min": 1e-4, "decay_max": 0.1}
"""Smallest and largest decay that a state of DLR starts with."""


class DLRSpec(KernelSpec):
    """DLR: a linear recurrence with a diagonal state of `state` complex numbers that all channels share.

    Nothing is discretised. Decays start at half of a log-uniform number in [1e-4, 0.1], angles at
    2 pi n / N, weights normal with deviation 1 / N. `kernel_rate` is the learning rate of the kernel's
    parameters (None: the optimiser's). `directions` None means two, or one where causal.
    Source: Gupta, Mehta and Berant 2022; Amos et al. 2023, eq. 3.
    """

    kind: Literal["dlr"] = "dlr"
    state: int = Field(default=1024, ge=1)
    """Size of the state (of each channel, where channels have their own)."""
    directions: Literal[1, 2] | None = None
    """1: from left to right; 2: both. Not given: 2, or 1 in a causal model."""
    gate: Gate = "linear"
    """What follows the recurrence: a gated linear unit, a linear layer or nothing."""
    kernel_rate: float | None = Field(default=1e-4, gt=0)
    """Learning rate of the kernel's parameters; not given: that of the optimiser."""

    former: ClassVar[Mapping[str, Any]] = DECAYS
    example: ClassVar[Mapping[str, Any]] = {"state": 8}

    def kernel(self, width: int, length: int, directions: int) -> nn.Module:
        return DLRKernel(self, width, length, directions)

    def sums(self, width: int, length: int, directions: int) -> float:
        stride = stride_of(length, directions * width)
        padded = -(-length // stride) * stride
        return 4.0 * directions * width * padded * self.state


class DLRKernel(nn.Module):
    """K[c, d, l] = Re sum_n W[c, d, n] exp((-r_n^2 + i angle_n) l): no real part can become positive.

    forward(L) -> (C, D, L). Cost O(C D N L), memory O(N sqrt(C D L) + C D L).
    """

    def __init__(self, spec: DLRSpec, width: int, length: int, directions: int) -> None:
        super().__init__()
        self.stride = stride_of(length, directions * width)
        decay = 0.5 * torch.exp(log_uniform(spec.state, *DECAYS.values()))
        self.root_decay = nn.Parameter(torch.sqrt(decay))
        self.angle = nn.Parameter(2 * math.pi * torch.arange(spec.state) / spec.state)
        self.weight = nn.Parameter(torch.randn(directions, width, spec.state, 2) / spec.state)

    def forward(self, length: int) -> Tensor:
        weight = (self.weight[..., 0], self.weight[..., 1])
        return diagonal_kernel(weight, (-(self.root_decay**2), self.angle), length, self.stride)
