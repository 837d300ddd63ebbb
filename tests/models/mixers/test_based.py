"""Based against weights written out one pair of positions at a time, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.stepping import check_against
from torch import Tensor

from headstart.models.mixers.based import BasedSpec, taylor


def linear(layer: Any, x: Tensor) -> Tensor:
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def attended(x: Tensor, layers: Any, heads: int, causal: bool, window: int, weight: Any) -> Tensor:
    """Means of values by `weight` of a score, of keys at most `window` away: one row x (L, D) -> (L, D)."""
    query, key, value = (linear(layer, x).reshape(len(x), heads, -1) for layer in layers[:3])
    rows = []
    for i in range(len(x)):
        seen = [j for j in range(len(x)) if abs(i - j) <= window and (j <= i or not causal)]
        mixed = []
        for head in range(heads):
            scores = [weight(query[i, head] @ key[j, head] / math.sqrt(key.shape[2])) for j in seen]
            mixed.append(sum(s * value[j, head] for s, j in zip(scores, seen, strict=True)) / sum(scores))
        rows.append(torch.cat(mixed))
    return linear(layers[3], torch.stack(rows))


def based(module: Any, x: Tensor, lengths: list[int]) -> Tensor:
    out = torch.zeros_like(x)
    for row, length in enumerate(lengths):
        own = x[row, :length]
        layers = (module.query, module.key, module.value, module.output)
        total = attended(own, layers, module.heads, module.causal, length, lambda s: 1 + s + s**2 / 2)
        for near in module.near:
            layers = (near.query, near.key, near.value, near.output)
            total = total + attended(own, layers, module.heads, module.causal, near.window, torch.exp)
        out[row, :length] = total
    return out


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [0, 3])
def test_based_equals_its_weights_written_out(causal: bool, window: int) -> None:
    torch.manual_seed(0)
    module = BasedSpec(heads=2, features=3, window=window).build(8, 50, causal).double()
    check_against(module, based, [19, 7], seed=1, width=8)


def test_products_of_taylor_features_are_the_first_terms_of_the_exponential() -> None:
    query, key = torch.randn(2, 5, 4, dtype=torch.float64)
    score = (query * key).sum(-1) / 2
    assert torch.allclose((taylor(query) * taylor(key)).sum(-1), 1 + score + score**2 / 2)
    assert taylor(query).shape[-1] == 15
