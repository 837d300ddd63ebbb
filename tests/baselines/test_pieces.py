"""Models without gradients are fitted in pieces, on a clock that is made here."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.pieces import FIRST, LOADING, Pieces, sizes_of
from headstart.baselines.summary import SummarySpec
from headstart.baselines.trivial import MajoritySpec
from headstart.sequence import Signature


def fitted(
    limit: float, rows: int, seconds: Callable[[int], float], slow: float = 1.0
) -> tuple[list[int], list[float]]:
    """(rows of each piece, when each was done) of a machine that takes `slow` times as long as reckoned."""
    pieces, now = Pieces(sizes_of(rows, 2, lambda _: True), seconds), 0.0
    done, times = [], []
    size: int | None = pieces.first(FIRST * limit)
    while size is not None:
        now += slow * seconds(size)
        pieces.took(size, slow * seconds(size))
        done.append(size)
        times.append(now)
        size = pieces.more(limit - now)
    return done, times


@pytest.mark.parametrize("rows", [20, 200, 5_000, 50_000, 1_000_000])
@pytest.mark.parametrize("slow", [1.0, 4.0])
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_pieces_end_in_time_however_many_rows_there_are_and_however_slow_the_machine_is(
    rows: int, slow: float, power: float
) -> None:
    done, times = fitted(60.0, rows, lambda n: 0.1 + 3e-4 * n**power / 200 ** (power - 1), slow)
    assert times[-1] <= 60.0
    assert times[0] <= FIRST * 60.0 * slow, "a first usable model after a tenth of the time"
    assert done == sorted(set(done))


def test_what_fits_is_fitted_whole_and_at_once() -> None:
    assert fitted(60.0, 5_000, lambda n: 1e-3 * n)[0] == [5_000]
    assert fitted(10.0, 20, lambda _: 8.0)[0] == [20], "few rows are never cut"


def test_a_sample_grows_to_all_rows_where_the_time_suffices() -> None:
    done, _ = fitted(60.0, 20_000, lambda n: 1e-3 * n)
    assert done[-1] == 20_000
    assert done[0] <= 6_000


def test_a_piece_takes_at_most_so_many_times_as_long_as_the_one_before() -> None:
    done, _ = fitted(10_000.0, 1_000_000, lambda n: 0.1 * n)
    assert all(later <= 8.1 * before for before, later in pairwise(done))


def test_only_numbers_of_rows_that_fit_into_memory_are_tried() -> None:
    assert max(sizes_of(100_000, 2, lambda n: n < 30_000)) < 30_000
    assert len(sizes_of(100_000, 2, lambda _: False)) == 1, "the smallest is there, for the message"
    assert min(sizes_of(100_000, 3_000, lambda _: True)) >= 3_000, "each class twice"


def test_what_a_text_takes_does_not_grow_with_the_symbols_that_there_may_be() -> None:
    lengths = np.full(800, 1_300)
    for spec in (SummarySpec(), MajoritySpec()):
        few, many = (
            spec.seconds(800, 1_000, Signature("tokens", width, 1_300, 1_300, "class", classes=2), lengths)
            for width in (4, 256)
        )
        assert few == many < 5.0


@pytest.mark.parametrize(
    ("what", "rows", "length", "symbols", "classes", "took"),
    [
        ("DNA of one length", 150, 200, 4, 2, 0.29),
        ("DNA of one length", 750, 200, 4, 2, 0.76),
        ("DNA", 150, 191, 4, 2, 0.14),
        ("proteins", 100, 330, 20, 3, 0.30),
        ("proteins", 300, 308, 21, 8, 2.50),
        ("nested lists", 150, 154, 23, 10, 0.25),
        ("texts", 100, 1349, 256, 2, 0.17),
        ("texts", 403, 1351, 256, 2, 0.52),
        ("words", 2000, 40, 500, 2, 0.21),
    ],
)
def test_what_models_of_symbols_take_is_reckoned_by_columns_classes_and_lengths(
    what: str, rows: int, length: int, symbols: int, classes: int, took: float
) -> None:
    """Processor seconds of so many rows of train and as many of validation, measured; by positions alone proteins took
    2.5 times what was reckoned, texts a ninth."""
    lengths = np.full(rows, length) + (np.arange(rows) % 2) * (what != "DNA of one length")
    signature = Signature("tokens", symbols, length + 1, length, "class", classes=classes)
    assert took / 1.5 < KernelsSpec().seconds(rows, rows, signature, lengths) < 3.0 * took


def test_loading_libraries_is_no_sign_of_a_slow_machine_and_the_largest_piece_may_take_most_of_the_time_left() -> None:
    pieces = Pieces(sizes_of(800, 2, lambda _: True), lambda rows: 0.01 * rows)
    pieces.took(283, 2.83 + LOADING)
    assert pieces.forecast(800) == pytest.approx(8.0)
    assert (pieces.more(9.0), pieces.more(8.0)) == (800, 400)


@pytest.mark.parametrize("slow", [1.0, 4.0])
def test_a_piece_that_an_earlier_command_has_stored_says_nothing_of_how_fast_the_machine_is(slow: float) -> None:
    """A fit that was interrupted goes on with the most rows that it had learnt from, and is not late for it."""
    pieces, now, there = Pieces(sizes_of(1_000_000, 2, lambda _: True), lambda rows: 1e-3 * rows), 0.1, {5_524, 7_812}
    assert pieces.first(6.0, there.__contains__) == 7_812
    pieces.took(7_812, now, stored=True)
    grown = 0
    while (size := pieces.more(60.0 - now)) is not None:
        now, grown = now + slow * 1e-3 * size, size
        pieces.took(size, slow * 1e-3 * size)
    assert now <= 77.0
    assert grown > 7_812
