"""How far weights moved, by hand; and activations over valid positions alone."""

import copy
import math

import numpy as np
import pytest
import torch
from support.small_models import batch, each, small

from headstart import BadInput
from headstart.analysis.weights import activations, deviations, moved
from headstart.parameters import leaves as leaves_of
from headstart.parameters import select

HEADS = {"kind": "attention", "heads": 2}


def test_each_block_and_leaf_says_how_far_it_moved() -> None:
    start = small(HEADS)
    model = copy.deepcopy(start)
    with torch.no_grad():
        model.blocks[1].mixer.key.weight += 0.5
        model.head.output.bias *= 3.0
    by_leaf = {(d.block, d.leaf): d for d in deviations(model, start)}
    within = ("norm", "query_key", "value_output", "feed_forward")
    assert list(by_leaf) == [
        *((b, leaf) for b in (0, 1) for leaf in within),
        (None, "encoder"),
        (None, "norm"),
        (None, "head"),
    ]
    names = select("query_key[1]", leaves_of(model))
    now, old = (np.concatenate([m.state_dict()[name].numpy().ravel() for name in names]) for m in (model, start))
    deviation = by_leaf[1, "query_key"]
    assert deviation.numbers == now.size == 2 * (64 + 8)
    assert deviation.size == pytest.approx(math.sqrt((now**2).mean()))
    assert deviation.start == pytest.approx(math.sqrt((old**2).mean()))
    assert deviation.moved == pytest.approx(np.linalg.norm(now - old) / np.linalg.norm(old))
    assert {key for key, d in by_leaf.items() if d.moved > 0} == {(1, "query_key"), (None, "head")}


def test_the_whole_is_the_distance_of_all_numbers_together() -> None:
    start, model = small(HEADS, seed=0), small(HEADS, seed=1)
    now, old = (torch.cat([p.detach().ravel() for p in m.parameters()]) for m in (model, start))
    assert moved(deviations(model, start)) == pytest.approx(float((now - old).norm() / old.norm()))


def test_a_model_that_did_not_move_is_at_0_and_one_that_left_0_is_infinitely_far() -> None:
    start = small(HEADS)
    assert all(d.moved == 0 for d in deviations(copy.deepcopy(start), start))
    assert moved(deviations(start, start)) == 0
    model = copy.deepcopy(start)
    with torch.no_grad():
        start.head.output.weight.zero_()
        start.head.output.bias.zero_()
    assert next(d for d in deviations(model, start) if d.leaf == "head").moved == math.inf


def test_kernels_and_rests_are_leaves_of_their_own() -> None:
    model = small({"kind": "s4d", "state": 4})
    names = [d.leaf for d in deviations(model, model) if d.block == 0]
    assert names == ["norm", "kernel", "mixer_rest", "feed_forward"]


def test_running_statistics_are_no_weights() -> None:
    start = small(HEADS, norm="batch")
    model = copy.deepcopy(start)
    model.blocks[0].norm_mixer.running_mean += 5.0
    assert all(d.moved == 0 for d in deviations(model, start))
    assert sum(d.numbers for d in deviations(model, start)) == sum(p.numel() for p in model.parameters())


def test_another_model_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no tensor 'blocks\.0\.mixer\.query\.weight'"):
        deviations(small(HEADS), small({"kind": "s4d", "state": 4}))


@pytest.mark.parametrize("mixer", [HEADS, {"kind": "s4d", "state": 4}])
def test_activations_spread_over_valid_positions(mixer: dict[str, object]) -> None:
    model, many = small(mixer), batch()
    by_hand: list[list[np.ndarray]] = [[], []]
    for example in each(many):
        with torch.no_grad():
            x = model.position(model.encoder(example))
            for number, block in enumerate(model.blocks):
                x = block(x, None, None, None)
                by_hand[number].append(x.numpy().ravel())
    expected = [float(np.concatenate(values).std()) for values in by_hand]
    assert activations(model, many) == pytest.approx(expected, rel=1e-9)
    many.inputs[~many.valid] = 99.0
    assert activations(model, many) == pytest.approx(expected, rel=1e-9)
    assert not any(module._forward_hooks for module in model.modules())
