"""Models without gradients in pieces: a first of few rows, then as many more as time and memory have room for.

What a piece takes is reckoned (`FittedSpec.seconds`) and held against what those before it took here and now, so that a
slow or busy machine is a machine on which everything takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

FIRST = 0.1
"""Of the time, until there is a model that could serve."""
SOON = 2.0
"""Seconds that a first model may take, a quarter of those left at most, so that a small set is whole at once."""
PART = 0.6
"""Of the time left, so much at most is for a piece: what it takes is a forecast, and others come after it."""
LARGEST = 0.9
"""And so much for the largest piece, after which none comes."""
LOADING = 1.2
"""Seconds of a first piece that load libraries, half of it at most."""
LEAST_ROWS = 40
"""Rows of train from which on a part of them is a piece."""
TRAIN_SCORED = 5_000
"""Rows of train that a stage scores at most, beside validation and test."""
GROWTH = 8.0
"""Times as long as those before a piece takes at most: a forecast over more is a guess."""
UNTIMED = 2.0
"""The same where those before are of an earlier command, so that nothing says how fast this machine is."""


@dataclass
class Pieces:
    """Which numbers of rows may be learnt from, in descending order, and what they are reckoned to take.

    seconds: of so many rows, on a machine that takes as long as reckoned. pace: how much longer this one takes, as
    measured of the last piece. timed: one was fitted here.
    """

    sizes: Sequence[int]
    seconds: Callable[[int], float]
    pace: float = 1.0
    done: int = 0
    timed: bool = False

    def first(self, seconds: float, stored: Callable[[int], bool] = lambda _: False) -> int:
        """The most rows that take so many seconds, or the fewest; where an earlier command has `stored` these, the most
        that are."""
        size = next((size for size in self.sizes if self.forecast(size) <= seconds), self.sizes[-1])
        return next(filter(stored, self.sizes)) if stored(size) else size

    def more(self, left: float) -> int | None:
        """The most rows that fit into their part of the time left; None where these are no more than are learnt."""
        growth = (GROWTH if self.timed else UNTIMED) * self.forecast(self.done)
        parts = {size: LARGEST if size == self.sizes[0] else PART for size in self.sizes if size > self.done}
        return next((size for size, part in parts.items() if self.forecast(size) <= min(part * left, growth)), None)

    def forecast(self, size: int) -> float:
        """Seconds of a piece here."""
        return self.pace * self.seconds(size)

    def took(self, size: int, seconds: float, stored: bool = False) -> None:
        """A piece is done. stored: by an earlier command, so that its seconds say nothing."""
        self.done = size
        if not stored:
            loading = 0.0 if self.timed else min(LOADING, seconds / 2)
            self.timed, self.pace = True, max((seconds - loading) / self.seconds(size), 0.1)


def sizes_of(rows: int, least: int, fits: Callable[[int], bool]) -> list[int]:
    """Numbers of rows that may be learnt from, in descending order, each as large as the next by the root of 2.

    least: what none is below, unless there are fewer. fits: whether so many fit into memory; the smallest is there
    whatever it says.
    """
    sizes, step = [rows], 1
    while (size := round(rows / 2 ** (step / 2))) >= max(least, LEAST_ROWS):
        sizes.append(size)
        step += 1
    return [size for size in sizes if fits(size)] or sizes[-1:]
