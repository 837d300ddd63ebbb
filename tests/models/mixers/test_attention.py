"""Attention against loops over positions; starts, turns and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.mixers import attention
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.positions import rotary_table, turned

B, L, D, H = 2, 7, 8, 2
LENGTHS = (7, 4)


def slow(module: Any, x: torch.Tensor, theta: float | None) -> torch.Tensor:
    """One sequence after another, one head after another, one position after another."""
    out = torch.zeros_like(x)
    each = D // H
    for row, length in enumerate(LENGTHS):
        q, k, v = (layer(x[row, :length]) for layer in (module.query, module.key, module.value))
        mixed = torch.zeros(length, D, dtype=x.dtype)
        for head in range(H):
            here = slice(head * each, (head + 1) * each)
            a, b = q[:, here], k[:, here]
            if theta is not None:
                a, b = (turned(t, rotary_table(length, each, theta)) for t in (a, b))
            for i in range(length):
                sees = range(i + 1) if module.causal else range(length)
                scores = torch.tensor([float(a[i] @ b[j]) / math.sqrt(each) for j in sees], dtype=x.dtype)
                weights = scores.exp() / scores.exp().sum()
                mixed[i, here] = sum((w * v[j, here] for w, j in zip(weights, sees, strict=True)), torch.zeros(each))
        out[row, :length] = module.output(mixed)
    return out


@pytest.mark.parametrize("theta", [None, 100.0])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("short", [0, 128])
def test_attention_is_a_softmax_weighted_mean_of_the_values_it_sees(
    causal: bool, theta: float | None, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SHORT", short)
    module = AttentionSpec(heads=H).build(D, L, causal, theta=theta).double()
    x = torch.randn(B, L, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    valid = torch.arange(L)[None] < torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        answer, expected = module(x, valid), slow(module, x, theta)
    # The table of turns was rounded to float32 when the module was built.
    close = 1e-12 if theta is None else 1e-6
    torch.testing.assert_close(answer[valid], expected[valid], rtol=0, atol=close)


def test_tied_layers_start_equal_in_tensors_of_their_own() -> None:
    module: Any = AttentionSpec(init="tied").build(D, L, False)
    layers = (module.query, module.key, module.value, module.output)
    for layer in layers[1:]:
        assert torch.equal(layer.weight, module.query.weight)
        assert torch.equal(layer.bias, module.query.bias)
    assert len({layer.weight.data_ptr() for layer in layers}) == 4
    apart: Any = AttentionSpec().build(D, L, False)
    assert not torch.equal(apart.query.weight, apart.key.weight)


def test_without_bias_there_is_none() -> None:
    names = [name for name, _ in AttentionSpec(bias=False).build(D, L, False).named_parameters()]
    assert names == ["query.weight", "key.weight", "value.weight", "output.weight"]


def test_turns_go_on_beyond_the_length_they_were_built_for() -> None:
    short, long = (AttentionSpec(heads=H).build(D, length, False, theta=100.0) for length in (3, L))
    long.load_state_dict(short.state_dict())
    x = torch.randn(B, L, D)
    torch.testing.assert_close(short(x, None), long(x, None), rtol=0, atol=1e-6)


def test_heads_that_do_not_fit_the_width_are_refused_with_a_way_out() -> None:
    with pytest.raises(BadInput, match=r"model\.mixer\.heads: 3 heads do not divide a model width of 8; 2 do, or.* 9"):
        AttentionSpec(heads=3).build(8, L, False)
    with pytest.raises(BadInput, match=r"model\.mixer\.heads: rotary positions need heads of even width, 12 / 4 is 3"):
        AttentionSpec(heads=4).build(12, L, False, theta=10.0)
