"""Where a model looks: only what it reads costs it anything, and nobody lends to itself."""

from __future__ import annotations

import numpy as np
import pytest

from headstart.analysis.occlusion import exchanged, explained, looked
from headstart.sequence import IGNORE, Examples, ragged


def sequences(lengths: list[int], channels: int = 1, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    values, offsets = ragged([rng.normal(size=(n, channels)).astype(np.float32) for n in lengths])
    return Examples(values, offsets, None, np.arange(len(lengths)))


def first_quarter(x: Examples) -> np.ndarray:
    """Probabilities of two classes from the sign of the mean of the first quarter."""
    high = np.array([x.inputs(row)[: len(x.inputs(row)) // 4].mean() > 0 for row in range(len(x))])
    return np.stack([1.0 - high, high], 1)


def test_only_the_windows_that_a_model_reads_cost_it_anything() -> None:
    x = sequences([40] * 60)
    result = looked(first_quarter, x, first_quarter(x).argmax(1), True)
    assert result is not None
    assert result.what == "probability of the true class"
    assert len(result.drop) == 20
    assert (result.drop[:5] > 0).all()
    assert (result.drop[5:] == 0).all()
    assert (result.error[:5] > 0).all()


def test_windows_follow_the_length_of_each_sequence() -> None:
    x = sequences([20, 40, 80, 160] * 10)
    result = looked(first_quarter, x, first_quarter(x).argmax(1), True, windows=4)
    assert result is not None
    assert result.drop[0] > 0.2
    assert (result.drop[1:] == 0).all()


def test_for_numbers_the_loss_is_what_the_absolute_error_grows_by() -> None:
    x = sequences([10] * 30)
    last = np.array([x.inputs(row)[-1, 0] for row in range(len(x))]).astype(np.float64)

    def answer(some: Examples) -> np.ndarray:
        return np.array([some.inputs(row)[-1, 0] for row in range(len(some))]).astype(np.float64)

    result = looked(answer, x, last, False, windows=10)
    assert result is not None
    assert result.what == "absolute error"
    assert (result.drop[:9] == 0).all()
    assert result.drop[9] > 0.5


def test_values_come_from_the_same_place_of_the_partner_with_their_gaps() -> None:
    values, offsets = ragged([np.arange(4.0)[:, None], 10 + np.arange(8.0)[:, None]])
    seen = np.ones((12, 1), dtype=bool)
    seen[4 + 7] = False
    x = Examples(values, offsets, None, np.arange(2), seen)
    where = np.zeros(12, dtype=bool)
    where[[2, 3, 4, 5]] = True
    path = exchanged(x, where, np.array([1, 0]))
    assert path.values[:, 0].tolist() == [0, 1, 15, 17, 0, 0, 12, 13, 14, 15, 16, 17]
    assert path.observed is not None
    assert path.observed[:, 0].tolist() == [True] * 3 + [False] + [True] * 7 + [False]
    assert x.values[2, 0] == 2


def test_no_sequence_lends_to_itself_and_each_lends_once_per_window() -> None:
    asked: list[np.ndarray] = []

    def note(some: Examples) -> np.ndarray:
        asked.append(some.values[:, 0].copy())
        return np.full((len(some), 2), 0.5)

    x = sequences([1] * 7)
    looked(note, x, np.zeros(7, dtype=np.int64), True)
    before, after = asked
    assert sorted(before) == sorted(after)
    assert (before != after).all()


def test_sequences_without_a_target_are_left_out() -> None:
    x = sequences([12] * 6)
    target = np.array([0, IGNORE, 1, 0, IGNORE, 1])
    result = looked(lambda some: np.full((len(some), 2), 0.5), x, target, True)
    assert result is not None
    assert result.rows == 4
    assert len(result.drop) == 12
    few = looked(lambda some: np.full((len(some), 2), 0.5), x, np.where(np.arange(6) == 0, 0, IGNORE), True)
    assert few is None
    assert looked(lambda some: np.zeros(len(some)), x, np.full(6, np.nan), False) is None


def test_many_sequences_are_sampled_and_the_same_seed_gives_the_same_answer() -> None:
    x = sequences([16] * 50)
    target = first_quarter(x).argmax(1)
    first, again, other = (looked(first_quarter, x, target, True, seed=s, most=30) for s in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.rows == 30
    assert (first.drop == again.drop).all()
    assert (first.drop != other.drop).any()


@pytest.mark.parametrize(("seconds", "seen"), [(None, 40), (41.0, 40), (20.0, 20), (9.0, None)])
def test_no_more_sequences_are_looked_at_than_the_time_allows(
    seconds: float | None, seen: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    x = sequences([8] * 40)

    def answer(some: Examples) -> np.ndarray:
        now[0] += 0.25 * len(some)  # four windows of a sequence take a second
        return np.tile([0.5, 0.5], (len(some), 1))

    monkeypatch.setattr("headstart.analysis.occlusion.time.monotonic", lambda: now[0])
    occlusion = looked(answer, x, np.zeros(40, dtype=np.int64), True, windows=4, seconds=seconds)
    assert (None if occlusion is None else occlusion.rows) == seen


def test_one_of_two_sequences_too_short_for_a_window_is_not_counted_there() -> None:
    x = sequences([1, 1, 9, 9])

    def middle(some: Examples) -> np.ndarray:
        return np.array([some.inputs(row)[len(some.inputs(row)) // 2, 0] for row in range(len(some))])

    result = looked(middle, x, middle(x).astype(np.float64), False, windows=9)
    assert result is not None
    assert result.drop[4] > 0
    assert np.delete(result.drop, 4) == pytest.approx(0)


def test_each_sequence_is_explained_by_the_windows_that_move_its_own_answer() -> None:
    x = sequences([20, 40, 80, 7] * 10)
    result = explained(first_quarter, x, first_quarter(x), True)
    assert result.drop.shape == (40, 20)
    assert np.nanmax(result.drop[:, 6:]) == 0
    assert (np.nanmax(result.drop[:, :5], axis=1) > 0).mean() > 0.5
    short, long = 3, 2
    assert np.isnan(result.drop[short]).sum() == 13, "seven positions lie in seven of the windows"
    assert result.first[long, :2].tolist() == [1, 5]
    assert result.last[long, [0, -1]].tolist() == [4, 80]


def test_a_number_is_explained_by_how_far_it_moves() -> None:
    x = sequences([10] * 30)

    def answer(some: Examples) -> np.ndarray:
        return np.array([some.inputs(row)[-1, 0] for row in range(len(some))]).astype(np.float64)

    result = explained(answer, x, answer(x), False)
    assert (result.drop[:, :9] == 0).all()
    assert (result.drop[:, 9] > 0).all()
    assert (result.first == np.arange(1, 11)).all()
