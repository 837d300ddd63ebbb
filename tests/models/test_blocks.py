"""Blocks: the places of norms and residuals, feed-forward layers and dropout."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from headstart.errors import BadInput
from headstart.models.blocks import FeedForwardSpec, build_feed_forward, dropout, feed_forward_flops
from headstart.models.contract import counted_flops
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.seeds import Draw
from headstart.sequence import Signature
from headstart.spec import read

FEEDS = [
    FeedForwardSpec(),
    FeedForwardSpec(width=5),
    FeedForwardSpec(kind="glu"),
    FeedForwardSpec(kind="glu", width=5),
    FeedForwardSpec(kind="none"),
    FeedForwardSpec(activation="relu"),
    FeedForwardSpec(kind="glu", width=5, bias=False),
]


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("gelu", lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5))),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))),
        ("relu", lambda x: torch.where(x > 0, x, 0 * x)),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_an_mlp_has_the_activation_that_its_spec_names(activation: Any, formula: Any) -> None:
    layer: Any = build_feed_forward(FeedForwardSpec(width=7, activation=activation), 5)
    layer = layer.double()
    x = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(layer(x), layer.back(formula(layer.into(x))), atol=1e-12, rtol=0)


def test_an_activation_is_for_an_mlp() -> None:
    with pytest.raises(ValueError, match=r"activation 'relu' is for kind 'mlp', not 'glu'; leave it out"):
        FeedForwardSpec(kind="glu", activation="relu")
    with pytest.raises(ValueError, match=r"bias is of the layers of kind 'mlp' or 'glu', not of 'none'; leave it out"):
        FeedForwardSpec(kind="none", bias=False)


@pytest.mark.parametrize("kind", ["mlp", "glu"])
def test_feed_forward_layers_have_biases_unless_the_spec_says_no(kind: Any) -> None:
    for bias in (True, False):
        layer: Any = build_feed_forward(FeedForwardSpec(kind=kind, width=5, bias=bias), 4)
        names = {name for name, _ in layer.named_parameters()}
        assert names == {"into.weight", "back.weight"} | ({"into.bias", "back.bias"} if bias else set())
        assert bool(layer(torch.zeros(1, 1, 4)).any()) == bias


def test_a_parallel_block_adds_both_layers_to_what_enters_it() -> None:
    spec = ModelSpec(width=8, blocks=1, parallel=True)
    model = build_model(spec, Signature("floats", 1, 6, 6, "class", classes=2), Output("sequence", 2), 0)
    block: Any = model.blocks[0]
    for number, norm in enumerate((block.norm_mixer, block.norm_feed_forward)):
        norm.weight.data += 0.1 * (number + 1)
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    expected = (
        x
        + block.mixer(block.norm_mixer(x, None, None), None)
        + block.feed_forward(block.norm_feed_forward(x, None, None))
    )
    torch.testing.assert_close(block(x, None, None, None), expected)
    assert model.norm.weight.shape == (8,)


@pytest.mark.parametrize(
    "more", [{"residual": False}, {"norm_place": "after"}, {"feed_forward": {"kind": "none"}}], ids=str
)
def test_parallel_layers_need_a_residual_a_norm_before_and_two_layers(more: Any) -> None:
    with pytest.raises(
        BadInput, match=r"model: parallel adds a feed-forward layer and a mixer to their common input; it"
    ):
        read(ModelSpec, {"parallel": True, **more}, "model")


@pytest.mark.parametrize(("order", "residual"), list(product(["before", "after"], [True, False])))
def test_norms_and_residuals_stand_where_the_spec_says(order: Any, residual: bool) -> None:
    spec = ModelSpec(width=8, blocks=1, norm_place=order, residual=residual)
    model = build_model(spec, Signature("floats", 1, 6, 6, "class", classes=2), Output("sequence", 2), 0)
    block: Any = model.blocks[0]
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    expected = x
    for norm, layer in (
        (block.norm_mixer, lambda y: block.mixer(y, None)),
        (block.norm_feed_forward, block.feed_forward),
    ):
        residue = expected if residual else 0.0
        if order == "before":
            expected = residue + layer(norm(expected, None, None))
        else:
            expected = norm(residue + layer(expected), None, None)
    assert torch.equal(block(x, None, None, None), expected)
    assert (len(list(model.norm.parameters())) == 0) == (order == "after")


def test_feed_forward_layers_are_their_formulas() -> None:
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    mlp: Any = build_feed_forward(FeedForwardSpec(), 4)
    assert mlp.into.weight.shape == (16, 4)
    assert torch.equal(mlp(x), mlp.back(F.gelu(mlp.into(x))))
    glu: Any = build_feed_forward(FeedForwardSpec(kind="glu"), 4)
    a, b = glu.into(x).split(4, -1)
    torch.testing.assert_close(glu(x), a * torch.sigmoid(b))
    wide: Any = build_feed_forward(FeedForwardSpec(kind="glu", width=5), 4)
    a, b = wide.into(x).split(5, -1)
    torch.testing.assert_close(wide(x), wide.back(a * torch.sigmoid(b)))
    assert build_feed_forward(FeedForwardSpec(kind="none"), 4) is None


@pytest.mark.parametrize("spec", FEEDS)
def test_feed_forward_flops_are_those_of_a_count(spec: FeedForwardSpec) -> None:
    layer = build_feed_forward(spec, 4)
    x = torch.randn(1, 3, 4)
    counted = 0.0 if layer is None else counted_flops(lambda: layer(x))
    assert feed_forward_flops(spec, 4, 3) == counted


def test_dropout_zeroes_its_share_scales_the_rest_and_rests_in_evaluation() -> None:
    x = torch.ones(50, 40, 10)
    draw = Draw(0, 0, torch.arange(50))
    answer = dropout(x, 0.25, draw, "here")
    assert answer.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert float((answer == 0).double().mean()) == pytest.approx(0.25, abs=0.01)
    assert torch.equal(answer, dropout(x, 0.25, draw, "here"))
    assert not torch.equal(answer, dropout(x, 0.25, draw, "there"))
    assert dropout(x, 0.25, None, "here") is x
    assert dropout(x, 0.0, draw, "here") is x


def test_dropout_is_keyed_by_example_and_place_not_by_batch() -> None:
    x = torch.ones(4, 9, 3)
    whole = dropout(x, 0.5, Draw(0, 0, torch.tensor([5, 6, 7, 8])), "here")
    part = dropout(x[:2, :4], 0.5, Draw(0, 0, torch.tensor([8, 6])), "here")
    assert torch.equal(part, whole[[3, 1], :4])
