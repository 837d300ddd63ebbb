"""Attention as one dense matrix with its mask written out, in float64: the slow, obvious reference."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headstart.models.mixers.mixer import MixerSpec

Mask = Callable[[int, int, int], bool]
"""(query's place, key's place, valid length of the row) -> whether the query sees the key."""


@dataclass
class Sizes:
    """Random sizes of one comparison."""

    heads: int
    width: int
    lengths: list[int]
    seed: int


def sizes(seed: int, longest: int = 30) -> Sizes:
    """Heads, width, and the lengths of one to three rows."""
    random_numbers = random.Random(seed)
    heads = random_numbers.choice([1, 2, 3])
    lengths = [random_numbers.randint(1, longest) for _ in range(random_numbers.randint(1, 3))]
    return Sizes(heads, heads * random_numbers.choice([2, 4, 6]), lengths, seed)


def inputs(of: Sizes) -> tuple[Tensor, Tensor]:
    """x (B, L, D), noise at padding too, and valid (B, L); padded up to 3 positions beyond the longest row."""
    generator = torch.Generator().manual_seed(of.seed)
    longest = max(of.lengths) + of.seed % 4
    x = torch.randn(len(of.lengths), longest, of.width, generator=generator, dtype=torch.float64)
    return x, torch.arange(longest) < torch.tensor(of.lengths)[:, None]


def built(spec: MixerSpec, of: Sizes, causal: bool = False, length: int = 40, **more: Any) -> nn.Module:
    """The mixer with weights large enough for attention to be far from even."""
    torch.manual_seed(of.seed)
    module = spec.build(of.width, length, causal, **more).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.0)
    return module


def heads_of(layer: nn.Linear, row: Tensor, heads: int) -> Tensor:
    """(L, D) -> (H, L, E)."""
    return (row @ layer.weight.T + layer.bias).view(len(row), heads, -1).transpose(0, 1)


def softmaxed(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """(H, Q, E), (H, K, E), seen (Q, K) or (H, Q, K) -> (H, Q, E), by the formula."""
    weights = torch.exp(query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])) * seen
    return weights @ value / weights.sum(-1, keepdim=True)


def mask_of(rule: Mask, length: int) -> Tensor:
    """(L, L) float64 of 0 and 1."""
    return torch.tensor(
        [[float(rule(i, j, length)) for j in range(length)] for i in range(length)], dtype=torch.float64
    )


def by_rows(module: Any, x: Tensor, lengths: list[int], row: Callable[..., Tensor]) -> Tensor:
    """`row(module, x, number)` (H, l, E) on each row without its padding, joined and through the output layer."""
    out = []
    for number, length in enumerate(lengths):
        mixed = row(module, x[number, :length], number).transpose(0, 1).reshape(length, -1)
        mixed = mixed @ module.output.weight.T + module.output.bias
        out.append(torch.cat([mixed, torch.zeros(x.shape[1] - length, x.shape[2], dtype=x.dtype)]))
    return torch.stack(out)


def masked_attention(rule: Mask) -> Callable[..., Tensor]:
    """The reference of a mixer that is softmax attention under a mask."""

    def row(module: Any, x: Tensor, number: int) -> Tensor:
        q, k, v = (heads_of(layer, x, module.heads) for layer in (module.query, module.key, module.value))
        return softmaxed(q, k, v, mask_of(rule, len(x)))

    return row


def check(module: nn.Module, of: Sizes, row: Callable[..., Tensor], draw: Any = None, tolerance: float = 1e-10) -> None:
    """Valid outputs, and gradients of the input and of every parameter, equal the reference's."""
    x, valid = inputs(of)
    x.requires_grad_()
    cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(of.seed + 1), dtype=x.dtype)
    cotangent = cotangent * valid[..., None]
    outputs, expected = module(x, valid, draw), by_rows(module, x, of.lengths, row)
    close(outputs[valid], expected[valid], tolerance)
    leaves = [x, *module.parameters()]
    ours, theirs = (
        torch.autograd.grad((y * cotangent).sum(), leaves, allow_unused=True, materialize_grads=True)
        for y in (outputs, expected)
    )
    scale = max(float(g.abs().max()) for g in theirs)
    for actual, gradient in zip(ours, theirs, strict=True):
        close(actual, gradient, tolerance, scale)


def close(actual: Tensor, expected: Tensor, tolerance: float, scale: float | None = None) -> None:
    assert torch.isfinite(expected).all()
    size = float(expected.detach().abs().max()) if scale is None else scale
    error = float((actual - expected).detach().abs().max()) / max(size, 1e-30)
    assert error < tolerance, f"off by {error:.1e} of scale"
