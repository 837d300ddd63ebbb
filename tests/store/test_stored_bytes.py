"""Examples whose numbers are kept as small integers."""

from __future__ import annotations

import numpy as np
import pytest

from headstart.sequence import Examples, collate


def _examples(lengths: list[int], **how: float) -> Examples:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = (np.arange(offsets[-1] * 2) % 256).astype(np.uint8).reshape(-1, 2)
    return Examples(values, offsets, np.arange(len(lengths)), np.arange(len(lengths)), **how)


@pytest.mark.parametrize("lengths", [[4, 4, 4, 4], [4, 2, 3, 4]])
def test_bytes_with_a_scale_reach_a_model_as_scaled_floats_and_padding_stays_zero(lengths: list[int]) -> None:
    examples = _examples(lengths, scale=0.5, shift=-3.0)
    batch = collate(examples, np.array([3, 1]))
    assert batch.inputs.dtype.is_floating_point
    for path, row in enumerate((3, 1)):
        first, last = examples.offsets[row], examples.offsets[row + 1]
        plain = examples.values[first:last].astype(np.float32) * np.float32(0.5) - np.float32(3)
        assert np.array_equal(batch.inputs[path, : lengths[row]].numpy(), plain)
        assert np.array_equal(examples.inputs(row), plain)
        assert not batch.inputs[path, lengths[row] :].any()


def test_integers_without_a_scale_stay_tokens() -> None:
    examples = Examples(np.arange(6, dtype=np.uint8), np.array([0, 3, 6]), None, np.arange(2))
    assert collate(examples, np.array([1])).inputs.tolist() == [[3, 4, 5]]
    assert examples.inputs(0).dtype == np.int64


def test_a_table_and_the_same_rows_among_others_give_one_batch() -> None:
    table = _examples([3, 3, 3, 3], scale=1.0)
    ragged = Examples(
        np.concatenate([np.zeros((1, 2), np.uint8), table.values]),
        np.concatenate([[0], table.offsets + 1]),
        None,
        np.arange(5),
        scale=1.0,
    )
    chosen = np.array([2, 0, 3])
    assert collate(table, chosen).inputs.equal(collate(ragged, chosen + 1).inputs)


def test_taken_examples_keep_their_scale() -> None:
    taken = _examples([2, 2], scale=2.0, shift=1.0).take(np.array([1]))
    assert taken.values.dtype == np.uint8
    assert taken.inputs(0).tolist() == [[9.0, 11.0], [13.0, 15.0]]


def test_units_taken_from_a_table_are_the_same_as_from_ragged_examples() -> None:
    table = _examples([3, 3, 3, 3], scale=1.0)
    ragged = Examples(
        np.concatenate([np.zeros((1, 2), np.uint8), table.values]),
        np.concatenate([[0], table.offsets + 1]),
        None,
        np.arange(5),
        scale=1.0,
    )
    chosen = np.array([2, 0, 3])
    assert np.array_equal(table.take(chosen).values, ragged.take(chosen + 1).values)
    assert table.take(chosen[:0]).values.shape == (0, 2)
