"""Attention against loops over positions; starts, turns and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.contract import MIXER_CHECKS
from headstart.models.mixers import attention
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.positions import rotary_table, turned

B, L, D, H = 2, 7, 8, 2
LENGTHS = (7, 4)


def slow(
    module: Any, x: torch.Tensor, theta: float | None, share: float = 1.0, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """One sequence after another, one head after another, one position after another."""
    out = torch.zeros_like(x)
    each = D // H
    for row, length in enumerate(LENGTHS):
        q, k, v = (layer(x[row, :length]) for layer in (module.query, module.key, module.value))
        mixed = torch.zeros(length, D, dtype=x.dtype)
        for head in range(H):
            group = head // module.groups
            here, there = slice(head * each, (head + 1) * each), slice(group * each, (group + 1) * each)
            a, b = q[:, here], k[:, there]
            if module.query_norm is not None:
                a = a / (a.square().mean(1, keepdim=True) + 1e-6).sqrt() * module.query_norm.weight
                b = b / (b.square().mean(1, keepdim=True) + 1e-6).sqrt() * module.key_norm.weight
            if theta is not None:
                few = int(share * each)
                table = rotary_table(length, few, theta)
                a, b = (torch.cat([turned(t[:, :few], table), t[:, few:]], 1) for t in (a, b))
            for i in range(length):
                sees = range(i + 1) if module.causal else range(length)
                products = [float(a[i] @ b[j]) / (math.sqrt(each) if module.scale else 1.0) for j in sees]
                added = [0.0 if bias is None else float(bias[head, i, j]) for j in sees]
                scores = torch.tensor([p + q for p, q in zip(products, added, strict=True)], dtype=x.dtype)
                weights = scores.exp() / scores.exp().sum()
                mixed[i, here] = sum((w * v[j, there] for w, j in zip(weights, sees, strict=True)), torch.zeros(each))
        out[row, :length] = module.output(mixed)
    return out


def check_answers(module: Any, x: torch.Tensor, theta: float | None, *more: Any) -> None:
    """The answers at valid positions are those of `slow`. more: its share and bias."""
    valid = torch.arange(L)[None] < torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        answer, expected = module(x, valid, None, *more[1:]), slow(module, x, theta, *more)
    # The table of turns was rounded to float32 when the module was built.
    close = 1e-12 if theta is None else 1e-6
    torch.testing.assert_close(answer[valid], expected[valid], rtol=0, atol=close)


@pytest.mark.parametrize("theta", [None, 100.0])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("short", [0, 128])
def test_attention_is_a_softmax_weighted_mean_of_the_values_it_sees(
    causal: bool, theta: float | None, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SHORT_LENGTH", short)
    module = AttentionSpec(heads=H).build(D, L, causal, theta=theta).double()
    x = torch.randn(B, L, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    check_answers(module, x, theta)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", ["share", "bias", "bias without scale", "scale"])
@pytest.mark.parametrize("short", [0, 128])
def test_a_part_of_a_head_turns_a_bias_is_added_and_the_scale_may_be_left_out(
    causal: bool, form: str, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SHORT_LENGTH", short)
    theta, share = (100.0, 0.5) if form == "share" else (None, 1.0)
    spec = AttentionSpec(heads=H, scale="scale" not in form)
    module = spec.build(D, L, causal, theta=theta, share=share).double()
    made = torch.Generator().manual_seed(0)
    x = torch.randn(B, L, D, dtype=torch.float64, generator=made)
    bias = torch.randn(H, L, L, dtype=torch.float64, generator=made) if "bias" in form else None
    check_answers(module, x, theta, share, bias)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("theta", [None, 100.0])
@pytest.mark.parametrize("fields", [{"key_heads": 1}, {"query_key_norm": True}, {"key_heads": 1, "head_width": 4}])
def test_heads_may_share_keys_and_values_and_queries_and_keys_may_be_normed(
    causal: bool, theta: float | None, fields: dict[str, Any]
) -> None:
    torch.manual_seed(0)  # some weights are so large that the rounded table of turns is seen
    module = AttentionSpec(heads=H, **fields).build(D, L, causal, theta=theta).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(B, L, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    check_answers(module, x, theta)


@pytest.mark.parametrize("check", ["padding", "gradients", "names", "flops"])
def test_attention_with_grouped_keys_and_norms_holds_to_the_contract(check: str) -> None:
    MIXER_CHECKS[check](AttentionSpec(heads=4, key_heads=2, query_key_norm=True))


def test_key_heads_that_do_not_divide_the_heads_or_are_tied_are_refused() -> None:
    with pytest.raises(ValueError, match=r"key_heads 3 do not divide 4 heads; take one of 1, 2 or 4"):
        AttentionSpec(heads=4, key_heads=3)
    with pytest.raises(ValueError, match=r"key_heads makes layers of two shapes, which cannot start equal"):
        AttentionSpec(heads=4, key_heads=2, init="tied")


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
    with pytest.raises(BadInput, match=r"model\.mixer\.heads: 3 heads do not divide model.width = 8; 2 do, or.* 9"):
        AttentionSpec(heads=3).build(8, L, False)
    with pytest.raises(BadInput, match=r"model\.mixer\.heads: rotary positions need heads of even width, 12 / 4 is 3"):
        AttentionSpec(heads=4).build(12, L, False, theta=10.0)
