"""What the arrays of a task show that a reader of scores must know: longer tests, channels of unlike scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headstart.tasks.task import Task
from headstart.text import first_few, many

LONGER, MOST_BEYOND = 1.25, 0.05
"""How much longer than any of train a sequence is, or which share of a split is longer at all, before that is said."""
UNLIKE_SPREADS = 1e4
"""How many times the spread of one channel is that of another before that is said."""
POSITIONS_TOGETHER = 2**20
"""Positions that are looked at together."""


def remarks(task: Task) -> tuple[str, ...]:
    """Sentences for the reader of a page, none where there is nothing to say."""
    return (*_lengths(task), *_scales(task))


def hints(task: Task) -> tuple[str, ...]:
    """The same for who checks a task, with what is harmless: constant channels."""
    return (*remarks(task), *_constants(task))


def _lengths(task: Task) -> Iterator[str]:
    longest = int(task.train.lengths.max(initial=0))
    beyond = {}
    for name in ("val", "test"):
        lengths = task.split(name).lengths
        longer = lengths > longest
        if longer.any() and (lengths.max() > LONGER * longest or longer.mean() > MOST_BEYOND):
            beyond[name] = int(longer.sum()), len(lengths), int(lengths.max())
    if not beyond:
        return
    counts = " and ".join(f"{count:,} of {whole:,} {name} sequences" for name, (count, whole, _) in beyond.items())
    most = max(length for _, _, length in beyond.values())
    yield (
        f"{counts} are longer than any of train ({longest:,} positions), the longest {most / longest:.2g} times as "
        f"long: what a model does at positions {longest + 1:,} to {most:,}, learned positions above all, is untrained."
    )


def _scales(task: Task) -> Iterator[str]:
    spread = _spread(task)
    alive = np.flatnonzero(spread > 0)
    if len(alive) and spread[alive].max() > UNLIKE_SPREADS * spread[alive].min():
        large, small = alive[np.argmax(spread[alive])], alive[np.argmin(spread[alive])]
        yield (
            f"The channels of train differ in scale: the standard deviation of channel {large + 1} is "
            f"{spread[large]:.2g}, that of channel {small + 1} {spread[small]:.2g}; a network sees the large ones "
            "alone, unless they are standardised."
        )


def _constants(task: Task) -> Iterator[str]:
    still = np.flatnonzero(_spread(task) == 0)
    if len(still):
        names = first_few([str(channel + 1) for channel in still])
        yield f"{many(len(still), 'channel')} of train {'is' if len(still) == 1 else 'are'} constant ({names})."


def _spread(task: Task) -> np.ndarray:
    """(F,) standard deviation of what train has of each channel, as a model sees it; empty of one channel or tokens."""
    x = task.train
    if task.signature.input != "floats" or task.signature.width < 2:
        return np.zeros(0)
    count, mean, squares = (np.zeros(x.values.shape[1]) for _ in range(3))
    for first in range(0, len(x.values), POSITIONS_TOGETHER):
        values = x.as_seen(x.values[first : first + POSITIONS_TOGETHER]).astype(np.float64)
        there = np.ones(values.shape, bool) if x.observed is None else x.observed[first : first + POSITIONS_TOGETHER]
        more = there.sum(0)
        own = np.where(there, values, 0.0).sum(0) / np.maximum(more, 1)
        off = np.where(there, values - own, 0.0)
        gap, whole = own - mean, count + more
        # Chan et al. 1983: sums of squares of two parts, without the loss of digits that E[x^2] - E[x]^2 has.
        squares += (off**2).sum(0) + gap**2 * count * more / np.maximum(whole, 1)
        mean += gap * more / np.maximum(whole, 1)
        count = whole
    spread: np.ndarray = np.sqrt(squares / np.maximum(count, 1))
    spread[spread <= 1e-7 * np.abs(mean)] = 0.0  # what rounding to float32 leaves of a constant
    return spread
