"""Attention maps are the softmaxes of the definition, over what a position may see."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from support.small_models import batch, each, small

from headstart.analysis.attention import attention_maps, first_layer_map
from headstart.models.mixers.mixer import joined, split

HEADS = {"kind": "attention", "heads": 2}
LOCAL = {"kind": "local_attention", "heads": 2, "window": 3}


def turned(x: np.ndarray, theta: float) -> np.ndarray:
    """(L, E): the pair (k, k + E / 2) at place i as a complex number, turned by i theta^(-2k / E)."""
    half = x.shape[1] // 2
    pairs = x[:, :half] + 1j * x[:, half:]
    rate = theta ** (-2 * np.arange(half) / x.shape[1])
    pairs = pairs * np.exp(1j * np.arange(len(x))[:, None] * rate)
    return np.concatenate([pairs.real, pairs.imag], 1)


def by_definition(
    module: Any, x: np.ndarray, head: int, theta: float | None, sees: Any, bias: np.ndarray | None = None
) -> np.ndarray:
    """(L, L) weights of one head on one example x (L, D) without padding: loops and exponentials."""
    width = x.shape[1] // module.heads
    q, k = (
        (x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())[:, head * width : (head + 1) * width]
        for layer in (module.query, module.key)
    )
    if theta is not None:
        q, k = turned(q, theta), turned(k, theta)
    out = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            if sees(i, j):
                scale = math.sqrt(width) if getattr(module, "scale", True) else 1.0
                out[i, j] = math.exp(float(q[i] @ k[j]) / scale + (0.0 if bias is None else bias[head, i, j]))
        out[i] /= out[i].sum()
    return out


def given_to(model: Any, example: Any, block: int) -> np.ndarray:
    """(L, D) what the mixer of a block gets from one example, by walking the model."""
    with torch.no_grad():
        x = model.position(model.encoder(example))
        bias = model.position.bias(x.shape[1]) if hasattr(model.position, "bias") else None
        for before in model.blocks[:block]:
            x = before(x, None, None, None, bias)
        return np.asarray(model.blocks[block].norm_mixer(x, None, None)[0])


def all_of_them(i: int, j: int) -> bool:
    return True


CASES = [
    (HEADS, False, "sinusoidal", all_of_them),
    (HEADS, True, "sinusoidal", lambda i, j: j <= i),
    (HEADS | {"scale": False}, False, "relative", all_of_them),
    (HEADS, True, "relative", lambda i, j: j <= i),
    (HEADS, False, "rotary", all_of_them),
    (LOCAL, False, "rotary", lambda i, j: abs(i // 3 - j // 3) <= 1),
    (LOCAL, True, "none", lambda i, j: j <= i and i // 3 - j // 3 <= 1),
]


@pytest.mark.parametrize(("mixer", "causal", "position", "sees"), CASES)
def test_maps_are_softmaxes_averaged_over_the_examples_that_reach(
    mixer: Any, causal: bool, position: str, sees: Any
) -> None:
    model = small(mixer, causal=causal, position={"kind": position})
    if position == "relative":
        torch.nn.init.normal_(model.get_parameter("position.table"), generator=torch.Generator().manual_seed(3))
    many = batch()
    maps = list(attention_maps(model, many))
    assert [(m.block, m.mixer, m.head) for m in maps] == [(b, "mixer", h) for b in (0, 1) for h in (0, 1)]
    theta = 10_000.0 if position == "rotary" else None
    longest = many.inputs.shape[1]
    for one_map in maps:
        total, count = np.zeros((longest, longest)), np.zeros(longest)
        far, alike, queries = 0.0, 0.0, 0
        mass, pairs = np.zeros(longest), np.zeros(longest)
        for example in each(many):
            x = given_to(model, example, one_map.block)
            n = len(x)
            bias = model.position.bias(n).detach().numpy() if position == "relative" else None
            weights = by_definition(model.blocks[one_map.block].mixer, x, one_map.head, theta, sees, bias)
            total[:n, :n] += weights
            count[:n] += 1
            queries += n
            for i in range(n):
                there = [j for j in range(n) if sees(i, j)]
                alike += sum(abs(i - j) for j in there) / len(there)
                for j in there:
                    far += weights[i, j] * abs(i - j)
                    mass[abs(i - j)] += weights[i, j]
                    pairs[abs(i - j)] += 1
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(one_map.weights, total / count[:, None], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(one_map.by_distance, mass / pairs, rtol=1e-9, atol=1e-12)
        assert one_map.distance == pytest.approx(far / queries, rel=1e-10)
        assert one_map.level == pytest.approx(alike / queries, rel=1e-10)


@pytest.mark.parametrize("mixer", [HEADS, LOCAL])
def test_weights_times_values_are_what_the_mixer_answers(mixer: Any) -> None:
    model = small(mixer, position={"kind": "rotary"})
    example = each(batch())[0]
    maps = list(attention_maps(model, example))
    for number, block in enumerate(model.blocks):
        x = torch.from_numpy(given_to(model, example, number))[None]
        weights = torch.stack([torch.from_numpy(m.weights) for m in maps if m.block == number])[None]
        with torch.no_grad():
            again = block.mixer.output(joined(weights @ split(block.mixer.value(x), 2)))
            assert torch.allclose(again, block.mixer(x, None), atol=1e-12)


def test_padding_takes_no_weight_and_changes_nothing() -> None:
    model = small(HEADS)
    many = batch()
    maps = list(attention_maps(model, many))
    many.inputs[~many.valid] = 77.0
    for before, after in zip(maps, list(attention_maps(model, many)), strict=True):
        np.testing.assert_allclose(before.weights, after.weights, atol=1e-12)
    shortest = int(many.valid.sum(1).min())
    for single in maps:
        rows = single.weights.sum(1)
        assert rows == pytest.approx(np.ones(len(rows)))
    alone = list(attention_maps(model, each(many)[0]))
    assert alone[0].weights.shape[0] == int(many.valid[0].sum()) >= shortest


def test_the_first_layers_map_is_the_mean_over_heads_of_the_first_example_without_its_padding() -> None:
    model, many = small(HEADS), batch()
    block, heads, weights = first_layer_map(model, many)
    alone = [head.weights for head in attention_maps(model, each(many)[0]) if head.block == 0]
    assert (block, heads) == (0, 2)
    np.testing.assert_allclose(weights, np.mean(alone, 0), atol=1e-12)


def test_a_row_that_no_example_reaches_is_no_number() -> None:
    model, many = small(HEADS), batch(2)
    longer = torch.nn.functional.pad(many.inputs, (0, 0, 0, 3)), torch.nn.functional.pad(many.valid, (0, 3))
    wide = list(attention_maps(model, type(many)(longer[0], longer[1], many.index)))
    n = int(many.valid.sum(1).max())
    assert np.isnan(wide[0].weights[n:]).all()
    assert np.isfinite(wide[0].weights[:n]).all()
    assert np.isnan(wide[0].by_distance[n:]).all()
    np.testing.assert_allclose(
        wide[0].weights[:n, :n], next(iter(attention_maps(model, many))).weights[:n, :n], atol=1e-12
    )


def test_level_heads_look_as_far_as_weighing_all_alike() -> None:
    model = small(HEADS)
    with torch.no_grad():
        for block in model.blocks:
            block.mixer.query.weight.zero_()
            block.mixer.query.bias.zero_()
    for head_map in list(attention_maps(model, batch())):
        assert head_map.distance == pytest.approx(head_map.level)


def test_attention_is_found_side_by_side_and_other_mixers_are_passed_over() -> None:
    both = {"kind": "parallel", "mixers": [{"kind": "s4d", "state": 4}, LOCAL]}
    model = small([both, {"kind": "s4d", "state": 4}])
    assert [(m.block, m.mixer, m.head) for m in list(attention_maps(model, batch()))] == [
        (0, "mixer.mixers.1", 0),
        (0, "mixer.mixers.1", 1),
    ]


def test_looking_leaves_the_model_as_it_was() -> None:
    model, many = small(HEADS), batch()
    with torch.no_grad():
        before = model(many)
    list(attention_maps(model, many))
    with torch.no_grad():
        assert torch.equal(model(many), before)
    assert not any(module._forward_pre_hooks for module in model.modules())
