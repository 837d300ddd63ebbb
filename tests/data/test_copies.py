"""Which sequences are copies, found without Python at each of them."""

import numpy as np
import pytest

from headstart.data import copies
from headstart.data.copies import first_copies, groups, marks
from headstart.data.splits import joined
from headstart.sequence import Examples


def drawn(seed: int, kind: str, channels: int = 1) -> Examples:
    """Short sequences of few values, so that many are copies; some with gaps, zeros of both signs, several lengths."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 4, 200)
    size = (int(lengths.sum()), channels)
    values = draw.integers(0, 2, size).astype(np.float32) * draw.choice([-1, 1], size).astype(np.float32)
    if kind == "symbols":
        return Examples(draw.integers(0, 3, size[0]), np.r_[0, lengths.cumsum()], None, np.arange(200))
    gaps = None
    if kind == "gaps":
        gaps = draw.random(size) < 0.7
        values[~gaps] = 0
    return Examples(values, np.r_[0, lengths.cumsum()], None, np.arange(200), gaps)


@pytest.mark.parametrize("kind", ["numbers", "gaps", "symbols"])
@pytest.mark.parametrize("at_once", [1, 7, 2**20])
def test_copies_are_those_whose_bytes_are_equal(monkeypatch: pytest.MonkeyPatch, kind: str, at_once: int) -> None:
    monkeypatch.setattr(copies, "MIXED_AT_ONCE", at_once)
    for seed in range(3):
        examples = drawn(seed, kind, 1 if kind == "symbols" else 1 + seed)
        assert np.array_equal(first_copies(examples), groups(marks(examples)))


def test_sequences_whose_sums_are_equal_by_chance_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = drawn(0, "numbers")
    monkeypatch.setattr(copies, "_sums", lambda _, first, last: np.zeros(last - first, dtype=np.uint64))
    assert np.array_equal(first_copies(examples), groups(marks(examples)))


def test_empty_sequences_are_copies_of_each_other() -> None:
    examples = Examples(np.ones((2, 1), np.float32), np.array([0, 0, 1, 1, 2]), None, np.arange(4))
    assert first_copies(examples).tolist() == [0, 1, 0, 1]


def test_rows_of_one_number_are_joined_to_the_first_of_them() -> None:
    kind = np.array([5, 2, 5, 7, 2])
    assert joined(kind).tolist() == [0, 1, 0, 3, 1] == joined(kind, kind).tolist()


def test_sequences_that_differ_between_the_places_that_are_looked_at_first_are_no_copies() -> None:
    values = np.tile(np.random.default_rng(0).normal(size=(1, 40)), (6, 1))
    values[[2, 5], 7] = 9, 9  # between two of the eight places
    values[3] += np.arange(40)
    examples = Examples(values.reshape(-1, 1), np.arange(0, 241, 40), None, np.arange(6))
    assert first_copies(examples).tolist() == [0, 0, 2, 3, 0, 2] == groups(marks(examples)).tolist()
