"""Bit memory and bit XOR against what their docstrings say, example by example."""

from pathlib import Path

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.sequence import IGNORE, collate
from headstart.tasks.bit_strings import BitMemorySpec, BitXorSpec
from headstart.tasks.task import SPLITS, fingerprint, open_task

NOWHERE = Path("nowhere")
SMALL = {"train": 200, "val": 40, "test": 40}


def inputs(examples):
    return collate(examples, np.arange(len(examples))).inputs.numpy()


def test_bit_memory_shows_five_strings_and_asks_for_one_of_them():
    task = BitMemorySpec(**SMALL).load(NOWHERE)
    for name in SPLITS:
        x = inputs(task.split(name)).reshape(-1, 6, 1000)
        target = task.split(name).target.reshape(-1, 6, 1000)
        assert set(np.unique(x[:, :5])) == {-1, 1}
        assert set(np.unique(x[:, 5])) == {-1, 0, 1}
        assert (target[:, :5] == IGNORE).all()
        answer = 2 * target[:, 5].astype(float) - 1
        assert (x[:, :5] == answer[:, None]).all(2).any(1).all()
        visible = x[:, 5] != 0
        assert np.array_equal(x[:, 5][visible], answer[visible])


def test_bit_memory_reads_fifty_bits_at_a_time():
    s = BitMemorySpec(**SMALL).load(NOWHERE).signature
    assert (s.length, s.shortest, s.width, s.targets, s.classes, s.per_position) == (120, 120, 50, 50, 2, True)


def test_half_of_the_query_is_hidden_every_string_is_asked_for_and_bits_are_fair():
    task = BitMemorySpec(**SMALL).load(NOWHERE)
    x = inputs(task.train).reshape(-1, 6, 1000)
    answer = 2.0 * task.train.target.reshape(-1, 6, 1000)[:, 5] - 1
    assert abs((x[:, 5] == 0).mean() - 0.5) < 4 * (0.25 / 200_000) ** 0.5
    assert abs((x[:, :5] == 1).mean() - 0.5) < 4 * (0.25 / 1_000_000) ** 0.5
    asked = (x[:, :5] == answer[:, None]).all(2).argmax(1)
    assert np.bincount(asked, minlength=5).min() > 20


def test_the_share_that_is_shown_is_a_setting():
    x = inputs(BitMemorySpec(keep=0.9, **SMALL).load(NOWHERE).train).reshape(-1, 6, 1000)
    assert abs((x[:, 5] != 0).mean() - 0.9) < 0.004
    assert (inputs(BitMemorySpec(keep=0.0, **SMALL).load(NOWHERE).val).reshape(-1, 6, 1000)[:, 5] == 0).all()


def test_copying_what_is_visible_scores_75_percent():
    (baseline,) = BitMemorySpec(**SMALL).load(NOWHERE).baselines
    for score in (baseline.val, baseline.test):
        assert abs(score - 0.75) < 4 * (0.25 * 0.75 / 40_000) ** 0.5


def test_chunks_must_fill_a_string():
    with pytest.raises(BadInput, match=r"task\.chunk: 33 does not divide task\.bits 1000; take one that does"):
        BitMemorySpec(chunk=33).load(NOWHERE)


def test_strings_of_any_length_and_number_are_whole():
    task = BitMemorySpec(strings=3, bits=7, chunk=7, **SMALL).load(NOWHERE)
    assert task.signature.length == 4
    assert "?" in " ".join(task.text(x) for x in inputs(task.train))
    assert len(task.text(inputs(task.train)[0]).split()) == 4


@pytest.mark.parametrize("bits", [1, 5, 40])
def test_bit_xor_asks_for_the_difference_of_two_strings(bits):
    task = BitXorSpec(bits=bits, **SMALL).load(NOWHERE)
    for name in SPLITS:
        x = inputs(task.split(name))
        target = task.split(name).target.reshape(-1, 2 * bits)
        assert x.shape[1:] == (2 * bits, 1)
        assert set(np.unique(x)) <= {-1, 1}
        assert (target[:, :bits] == IGNORE).all()
        assert np.array_equal(target[:, bits:], (x[:, :bits, 0] != x[:, bits:, 0]).astype(int))


def test_a_space_that_is_too_small_for_disjoint_splits_is_said():
    notes = BitXorSpec().load(NOWHERE).notes
    assert notes[0] == ("there are only 1024 different sequences: 1000 of the 1000 val sequences stand in train too")
    assert BitXorSpec(bits=40, **SMALL).load(NOWHERE).notes == ()


@pytest.mark.parametrize("spec", [BitMemorySpec(bits=20, chunk=10, **SMALL), BitXorSpec(bits=30, **SMALL)])
def test_the_stream_is_a_function_of_the_epoch(spec):
    task = spec.load(NOWHERE)
    first, second = task.fresh(0), task.fresh(1)
    assert np.array_equal(first.values, task.train.values)
    assert np.array_equal(first.index, task.train.index)
    assert np.array_equal(second.values, spec.load(NOWHERE).fresh(1).values)
    assert second.units == first.units
    assert not np.array_equal(first.values, second.values)
    assert not set(first.index) & set(second.index)
    numbers = [set(x.index) for x in (first, second, task.val, task.test)]
    assert len(set.union(*numbers)) == sum(map(len, numbers))


def test_a_larger_epoch_begins_with_the_smaller_one():
    small, large = (BitXorSpec(**{**SMALL, "train": n}).load(NOWHERE) for n in (50, 200))
    assert np.array_equal(small.train.values, large.train.values[: len(small.train.values)])
    assert np.array_equal(small.val.values, large.val.values)


def test_a_chosen_part_of_a_stream_is_a_fixed_set():
    assert open_task(BitXorSpec(**SMALL), NOWHERE).fresh is not None
    assert open_task(BitXorSpec(fraction=0.5, **SMALL), NOWHERE).fresh is None
    assert open_task(BitXorSpec(labelled=20, **SMALL), NOWHERE).fresh is None
    assert open_task(BitXorSpec(endless=False, **SMALL), NOWHERE).fresh is None


def test_another_seed_gives_other_strings():
    assert fingerprint(BitXorSpec(**SMALL).load(NOWHERE)) != fingerprint(BitXorSpec(data_seed=1, **SMALL).load(NOWHERE))


def test_the_strings_never_change():
    """Frozen: results hang on these bits."""
    assert BitXorSpec().load(NOWHERE).text(inputs(BitXorSpec(**SMALL).load(NOWHERE).train)[0]) == "1 1 0 1 0 1 1 0 0 0"
    assert fingerprint(BitMemorySpec(**SMALL).load(NOWHERE))[:16] == "a02a5c109eb28ddd"
