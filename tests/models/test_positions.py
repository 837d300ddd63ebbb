"""Positions: sinusoids, learned rows and turns against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.models.positions import PositionSpec, build_position, rotary_table, sinusoids, turned
from headstart.parameters import leaves
from headstart.sequence import Batch, Signature
from headstart.spec import read


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_follow_their_formula_at_any_width(width: int) -> None:
    table = sinusoids(5, width, 100.0)
    for position in range(5):
        for column in range(width):
            angle = position / 100.0 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[position, column]) == pytest.approx(expected, abs=1e-12)


def test_sinusoids_go_on_beyond_the_length_they_were_built_for() -> None:
    short, long = (build_position(PositionSpec(), length, 8) for length in (4, 9))
    x = torch.zeros(2, 9, 8)
    torch.testing.assert_close(short(x), long(x), rtol=0, atol=1e-6)
    assert "table" not in short.state_dict()


def test_learned_positions_refuse_a_longer_sequence_and_say_what_to_set() -> None:
    learned = build_position(PositionSpec(kind="learned"), 4, 8)
    assert learned(torch.zeros(1, 3, 8)).shape == (1, 3, 8)
    with pytest.raises(BadInput, match=r"model\.position\.length: a sequence of 5 positions.*for 4; set.*length = 5"):
        learned(torch.zeros(1, 5, 8))


def test_turning_is_multiplication_with_a_complex_number_of_the_place() -> None:
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = rotary_table(7, 6, 100.0)
    rates = 100.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    turn = torch.polar(torch.ones(5, 3, dtype=torch.float64), torch.arange(5)[:, None] * rates)
    expected = torch.complex(x[..., :3], x[..., 3:]) * turn
    torch.testing.assert_close(turned(x, table), torch.cat([expected.real, expected.imag], -1))


def test_products_of_turned_vectors_depend_on_their_distance_alone() -> None:
    made = torch.Generator().manual_seed(0)
    query, key = (torch.randn(6, dtype=torch.float64, generator=made).expand(8, 6) for _ in range(2))
    table = rotary_table(8, 6, 10_000.0)
    products = turned(query, table) @ turned(key, table).T
    for away in range(-7, 8):
        diagonal = products.diagonal(away)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


def test_fewer_places_than_the_task_needs_are_refused() -> None:
    spec = ModelSpec(position=PositionSpec(kind="learned", length=8))
    with pytest.raises(BadInput, match=r"model\.position\.length: 8 is less than .* 9; give at least that"):
        build_model(spec, Signature("floats", 1, 9, 9, "class", classes=2), Output("sequence", 2), 0)


def test_rotary_positions_need_a_mixer_that_turns() -> None:
    table = {"position": {"kind": "rotary"}, "mixer": {"kind": "lstm"}, "blocks": 1}
    with pytest.raises(BadInput, match=r"no mixer here has them \(lstm\); use 'sinusoidal', 'learned' or 'none'"):
        read(ModelSpec, table, "model")
    both = {**table, "blocks": 2, "mixer": [{"kind": "lstm"}, {"kind": "attention"}]}
    assert read(ModelSpec, both, "model").mixers[1].rotary


def t5_bucket(distance: int, ahead: bool, buckets: int, far: int, causal: bool) -> int:
    """The released code's rule, in floats."""
    offset = 0
    if not causal:
        buckets //= 2
        offset = buckets if ahead else 0
    elif ahead:
        distance = 0
    single = buckets // 2
    if distance < single:
        return offset + distance
    share = math.log(distance / single) / math.log(far / single)
    return offset + min(single + int(share * (buckets - single) + 1e-9), buckets - 1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (8, 16), (7, 9), (4, 3)])
def test_relative_positions_give_each_pair_the_number_of_its_bucket(buckets: int, far: int, causal: bool) -> None:
    spec = PositionSpec(kind="relative", buckets=buckets, far=far)
    module: Any = build_position(spec, 5, 8, heads=3, causal=causal)
    x = torch.randn(1, 5, 8)
    assert module(x) is x, "nothing is added to the vectors"
    length = 3 * far
    bias = module.bias(length)
    assert bias.shape == (3, length, length)
    for query in range(0, length, 5):
        for key in range(length):
            row = t5_bucket(abs(key - query), key > query, buckets, far, causal)
            assert torch.equal(bias[:, query, key], module.table[row]), (query, key)
    bias.sum().backward()
    assert bool(module.table.grad.any())


def test_relative_positions_are_one_table_of_part_position_for_all_blocks() -> None:
    table = {"width": 16, "blocks": 3, "position": {"kind": "relative", "buckets": 8, "far": 9}}
    model = build_model(read(ModelSpec, table), Signature("floats", 1, 9, 9, "class", 2), Output("sequence", 2), 0)
    names = {name: leaf for name, leaf in leaves(model).items() if leaf == "position"}
    assert names == {"position.table": "position"}
    assert model.get_parameter("position.table").shape == (8, 4)
    batch = Batch(torch.randn(2, 9, 1), torch.ones(2, 9, dtype=torch.bool), torch.arange(2), full=True)
    answer = model(batch)
    answer.sum().backward()
    with torch.no_grad():
        model.get_parameter("position.table").normal_()
    assert float((model(batch) - answer).detach().abs().max()) > 1e-4
    mixers = [{"kind": "attention"}, {"kind": "s4d"}, {"kind": "attention"}]
    mixed = build_model(
        read(ModelSpec, {**table, "mixer": mixers}), Signature("floats", 1, 9, 9, "class", 2), Output("sequence", 2), 0
    )
    assert mixed(batch).shape == (2, 2), "a mixer without scores gets no bias"


def test_settings_of_other_positions_are_refused() -> None:
    for settings, message in (
        ({"kind": "learned", "share": 0.5}, r"share is of kind 'rotary', not 'learned'; leave it out"),
        ({"kind": "rotary", "far": 64}, r"far is of kind 'relative', not 'rotary'; leave it out"),
        ({"kind": "relative", "buckets": 64, "far": 32}, r"far 32 is too near for 64 buckets; take 64 or more"),
    ):
        with pytest.raises(BadInput, match=r"position: " + message):
            read(PositionSpec, settings, "position")
    relative = {"position": {"kind": "relative"}}
    for mixer, problem in (
        ({"kind": "local_attention"}, "no mixer here adds it"),
        ([{"kind": "attention", "heads": 2}, {"kind": "attention", "heads": 4}], "mixers here have 2 and 4 heads"),
    ):
        with pytest.raises(
            BadInput, match=rf"'relative' is one table of numbers per head.* and {problem}; use mixers of"
        ):
            read(ModelSpec, {**relative, "mixer": mixer, "blocks": 2}, "model")
    part = {"position": {"kind": "rotary", "share": 0.25}, "mixer": {"kind": "local_attention"}}
    with pytest.raises(
        BadInput, match=r"position\.share 0\.25: mixer 'local_attention' turns whole heads; use 'attention'"
    ):
        read(ModelSpec, part, "model")
    odd = read(ModelSpec, {"width": 64, "position": {"kind": "rotary", "share": 0.2}})
    with pytest.raises(BadInput, match=r"model\.position\.share: 0\.2 of heads of width 16 are 3 numbers, and rotary"):
        build_model(odd, Signature("floats", 1, 9, 9, "class", 2), Output("sequence", 2), 0)
