"""Ragged examples and their batches, against loops over lists."""

import numpy as np
import pytest
import torch

from headstart.sequence import IGNORE, Batch, Examples, collate, epoch_batches, has_target, ragged

LENGTHS = (3, 1, 4, 2, 6, 5)


def sequences(width=2):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(length, width)).astype(np.float32) for length in LENGTHS]


def examples(**changes):
    values, offsets = ragged(sequences())
    value = {"target": np.array([0, 1, 2, 0, IGNORE, 1]), "index": np.array([10, 11, 12, 13, 14, 15])}
    return Examples(**{"values": values, "offsets": offsets, **value, **changes})


def test_ragged_sequences_lie_one_after_another():
    values, offsets = ragged(sequences())
    assert offsets.tolist() == [0, 3, 4, 8, 10, 16, 21]
    assert all(np.array_equal(values[a:b], s) for a, b, s in zip(offsets[:-1], offsets[1:], sequences(), strict=True))


def test_taking_units_keeps_their_values_targets_and_numbers():
    whole, places = examples(), [4, 0, 0, 3]
    some = whole.take(np.array(places))
    assert some.lengths.tolist() == [LENGTHS[p] for p in places]
    assert some.index.tolist() == [14, 10, 10, 13]
    assert some.target.tolist() == [IGNORE, 0, 0, 0]
    assert np.array_equal(some.values, np.concatenate([sequences()[p] for p in places]))


def test_taking_units_does_not_share_memory():
    whole = examples()
    some = whole.take(np.arange(6))
    some.values[:] = 0
    assert whole.values.any()


def test_taking_units_takes_targets_and_observations_of_positions():
    total = sum(LENGTHS)
    seen = np.arange(2 * total).reshape(-1, 2) % 3 > 0
    whole = examples(target=np.arange(total), per_position=True, observed=seen)
    some = whole.take(np.array([2, 1]))
    assert some.target.tolist() == [4, 5, 6, 7, 3]
    assert np.array_equal(some.observed, whole.observed[[4, 5, 6, 7, 3]])


def test_a_pair_is_one_unit():
    paired = examples(paired=True, target=np.array([0, 0, 1, 1, IGNORE, IGNORE]))
    assert paired.units == 3
    assert paired.unit_lengths.tolist() == [3, 4, 6]
    assert paired.take(np.array([2, 0])).index.tolist() == [14, 15, 10, 11]
    assert paired.labelled_units().tolist() == [0, 1]
    assert collate(paired, np.array([1])).index.tolist() == [12, 13]


def test_labelled_units_have_at_least_one_target():
    assert examples().labelled_units().tolist() == [0, 1, 2, 3, 5]
    assert examples(target=None).labelled_units().tolist() == []
    several = np.array([[np.nan, 1.0], [np.nan, np.nan], [0.0, 1.0], [np.nan] * 2, [2.0, np.nan], [0.0, 0.0]])
    assert examples(target=several).labelled_units().tolist() == [0, 2, 4, 5]
    positions = np.full(sum(LENGTHS), IGNORE)
    positions[[3, 20]] = 1
    assert examples(target=positions, per_position=True).labelled_units().tolist() == [1, 5]


def test_a_target_is_there_unless_it_is_the_ignored_one_or_not_a_number():
    assert has_target(np.array([0, IGNORE, 5])).tolist() == [True, False, True]
    assert has_target(np.array([0.0, np.nan])).tolist() == [True, False]


def test_a_batch_is_padded_with_zeros_behind_its_sequences():
    batch = collate(examples(), np.array([0, 2, 1]))
    assert batch.inputs.shape == (3, 4, 2)
    assert batch.inputs.dtype == torch.float32
    assert batch.valid.tolist() == [[True, True, True, False], [True] * 4, [True, False, False, False]]
    for row, path in enumerate((0, 2, 1)):
        there = torch.from_numpy(sequences()[path])
        assert torch.equal(batch.inputs[row, : len(there)], there)
        assert not batch.inputs[row, len(there) :].any()
    assert batch.index.tolist() == [10, 12, 11]
    assert batch.target.tolist() == [0, 2, 1]
    assert batch.tokens == 8
    assert len(batch) == 3


def test_a_batch_can_be_padded_further():
    batch = collate(examples(), np.array([0, 2]), length=9)
    assert batch.inputs.shape == (2, 9, 2)
    assert batch.valid.sum(1).tolist() == [3, 4]


def test_a_batch_of_equal_lengths_is_full_and_equal_to_a_padded_one():
    values, offsets = ragged([s[:1] for s in sequences()])
    whole = examples(values=values, offsets=offsets)
    batch, longer = collate(whole, np.array([3, 1])), collate(whole, np.array([3, 1]), length=4)
    assert batch.valid.all()
    assert torch.equal(batch.inputs, longer.inputs[:, :1])


def test_tokens_become_int64_and_padding_never_a_target():
    values, offsets = ragged([np.arange(length, dtype=np.uint8) for length in LENGTHS])
    whole = examples(values=values, offsets=offsets, target=values.astype(np.int64), per_position=True)
    batch = collate(whole, np.array([1, 3]))
    assert batch.inputs.dtype == torch.int64
    assert batch.target.tolist() == [[0, IGNORE], [0, 1]]


def test_targets_of_positions_that_are_numbers_are_padded_with_nan():
    numbers = np.arange(sum(LENGTHS), dtype=np.float32)
    batch = collate(examples(target=numbers, per_position=True), np.array([1, 3]))
    assert batch.target[0, 0] == 3
    assert torch.isnan(batch.target[0, 1])


def test_what_was_not_observed_is_told_and_padding_is_not_observed():
    seen = np.ones((sum(LENGTHS), 2), dtype=bool)
    seen[3] = False
    batch = collate(examples(observed=seen), np.array([1, 3]))
    assert batch.observed.tolist() == [[[False, False], [False, False]], [[True, True], [True, True]]]


def test_a_batch_moves_whole():
    batch = collate(examples(), np.array([0])).to(torch.device("cpu"), torch.float64)
    assert isinstance(batch, Batch)
    assert batch.inputs.dtype == torch.float64
    assert batch.target.dtype == torch.int64


@pytest.mark.parametrize("pool", [0, 2])
def test_an_epoch_holds_every_unit_once_and_follows_seed_and_epoch(pool):
    lengths = np.arange(23) % 7 + 1

    def order(seed, epoch):
        return [b.tolist() for b in epoch_batches(lengths, 4, seed, epoch, pool)]

    batches = order(0, 3)
    assert sorted(unit for batch in batches for unit in batch) == list(range(23))
    assert sorted(map(len, batches)) == [3, 4, 4, 4, 4, 4]
    assert batches == order(0, 3)
    assert batches != order(0, 4)
    assert batches != order(1, 3)


def test_pools_bring_like_lengths_together():
    lengths = np.random.default_rng(0).integers(10, 500, 2000)

    def padding(pool):
        batches = epoch_batches(lengths, 20, 0, 0, pool)
        return 1 - lengths.sum() / sum(len(b) * lengths[b].max() for b in batches)

    assert padding(0) > 0.4
    assert padding(50) < 0.1


def test_positions_of_whole_patches_are_joined_as_they_stand() -> None:
    values = np.arange(24, dtype=np.float32).reshape(12, 2)
    whole = Examples(values, np.array([0, 4, 12]), None, np.arange(2))
    joined = whole.patched(4, missing=False)
    assert np.shares_memory(joined.values, values)
    assert joined.values.tolist() == values.reshape(3, 8).tolist()
    assert joined.offsets.tolist() == [0, 1, 3]
    ragged = Examples(values, np.array([0, 3, 12]), None, np.arange(2)).patched(4, missing=False)
    assert ragged.values[0].tolist() == [*range(6), 0, 0]
