"""Positions: sinusoids, learned rows and turns against their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.models.positions import PositionSpec, build_position, rotary_table, sinusoids, turned
from headstart.sequence import Signature
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
