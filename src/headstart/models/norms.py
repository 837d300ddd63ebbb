"""Norms over width or over valid positions, with one way to be called: (x, valid, statistics) -> x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Tensors = dict[str, Tensor]
NormKind = Literal["layer", "batch", "rms", "none"]

HALF_TYPES = (torch.bfloat16, torch.float16)
NORM_EPSILON = 1e-5
"""Added to the variance unless a model says otherwise (torch's default)."""
MOMENTUM = 0.1
"""Weight of the newest batch in running statistics (torch's default)."""


class LayerNorm(nn.Module):
    """Zero mean and unit variance over D, then gain and shift.

    Shapes: x (B, L, D) -> (B, L, D). Source: Ba et al. 2016.
    """

    def __init__(self, width: int, epsilon: float = NORM_EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, valid: Tensor | None, statistics: Tensors | None) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """x divided by the root of its mean square over D (in float32 at least), then a gain; neither mean nor shift.

    Shapes: x (B, L, D) -> (B, L, D). Source: Zhang and Sennrich 2019.
    """

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, valid: Tensor | None, statistics: Tensors | None) -> Tensor:
        wide = x.float() if x.dtype in HALF_TYPES else x
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * self.weight


class BatchNorm(nn.Module):
    """Zero mean and unit variance per feature over all valid positions of the batch, then gain and shift.

    `name` is the module's full name in its model. With `statistics` (training) the batch's own mean and
    variance are used, and the new running values are written to `statistics[name + ".running_mean"]` and
    `[... + ".running_variance"]`; the module itself is never changed. With None the running values are used.
    `still` norms (part `norm` does not learn) always use their running values and write nothing.
    `total` sums over the processes that share the batch, where there are several.
    Shapes: x (B, L, D), valid (B, L) bool or None (all valid) -> (B, L, D).
    Source: Ioffe and Szegedy 2015.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, width: int, name: str, epsilon: float = NORM_EPSILON) -> None:
        super().__init__()
        self.name, self.still, self.epsilon = name, False, epsilon
        self.total: Callable[[Tensor], Tensor] | None = None
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(self, x: Tensor, valid: Tensor | None, statistics: Tensors | None) -> Tensor:
        if statistics is None or self.still:
            mean, variance = self.running_mean, self.running_variance
        else:
            mean, variance = self._of_batch(x, valid, statistics)
        gain = self.weight * torch.rsqrt(variance + self.epsilon)
        return torch.addcmul(self.bias - mean * gain, x, gain.to(x.dtype))

    def _of_batch(self, x: Tensor, valid: Tensor | None, statistics: Tensors) -> tuple[Tensor, Tensor]:
        """Mean and variance (both (D,)) over valid positions; notes the new running values."""
        x = x.float() if x.dtype in HALF_TYPES else x
        if valid is None and self.total is None:
            count: Tensor | float = float(x.shape[0] * x.shape[1])
            variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
            correction: Tensor | float = count / max(count - 1.0, 1.0)
        else:
            keep = x.new_ones((*x.shape[:2], 1), dtype=torch.bool) if valid is None else valid[:, :, None]
            total = self.total or _itself
            # Padding is cut out, not multiplied by 0: it may hold anything.
            sums = x.masked_fill(~keep, 0.0).sum((0, 1))
            sums = total(torch.cat([sums, keep.to(x.dtype).sum()[None]]))
            count = sums[-1]
            mean = sums[:-1] / count
            variance = total((x - mean).masked_fill(~keep, 0.0).square().sum((0, 1))) / count
            correction = count / (count - 1.0).clamp_min(1.0)
        for part, new in (("running_mean", mean), ("running_variance", variance * correction)):
            old = getattr(self, part)
            statistics[f"{self.name}.{part}"] = torch.lerp(old, new.detach().to(old.dtype), MOMENTUM)
        return mean, variance


def _itself(x: Tensor) -> Tensor:
    return x


class NoNorm(nn.Module):
    """Leaves x as it is."""

    def forward(self, x: Tensor, valid: Tensor | None, statistics: Tensors | None) -> Tensor:
        return x


def build_norm(kind: NormKind, width: int, name: str, epsilon: float = NORM_EPSILON) -> nn.Module:
    """The norm of a kind; `name` is its full name in the model."""
    if kind == "none":
        return NoNorm()
    if kind == "batch":
        return BatchNorm(width, name, epsilon)
    return RMSNorm(width, epsilon) if kind == "rms" else LayerNorm(width, epsilon)
