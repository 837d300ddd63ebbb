"""Values that were never observed, filled for methods that know no gaps."""

from __future__ import annotations

import numpy as np

from headstart.sequence import Examples


def observed(examples: Examples, values: np.ndarray) -> np.ndarray:
    """(S, F) bool: values that were observed and are numbers."""
    there: np.ndarray = np.isfinite(values)
    return there if examples.observed is None else there & examples.observed


def moments(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """(F,) float64 mean and deviation of each channel over all that was observed.

    A channel that was never observed has mean 0; one that does not vary has deviation 1.
    """
    values = examples.as_seen(examples.values).astype(np.float64)
    there = observed(examples, values)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, values, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(there, values - mean, 0.0) ** 2).sum(axis=0) / count)
    # Rounding leaves a constant channel a deviation near 1e-16 of its size.
    return mean, np.where(spread > 1e-7 * np.maximum(np.abs(mean), 1e-30), spread, 1.0)


def filled(examples: Examples, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """(S, F) float32 standardised values without gaps.

    A gap is crossed in a straight line between its neighbours of the same sequence and channel; before the first and
    after the last observed value that value stands; a channel of which a sequence shows nothing is at the mean.
    """
    values = examples.as_seen(examples.values)
    there = observed(examples, values)
    out: np.ndarray = ((np.where(there, values, 0.0) - mean) / spread).astype(np.float32)
    for channel in np.flatnonzero(~there.all(axis=0)):
        out[:, channel] = _crossed(out[:, channel], there[:, channel], examples.offsets)
    return out


def _crossed(values: np.ndarray, there: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """One channel (S,) with its gaps crossed within each sequence."""
    place = np.arange(len(values))
    begin = np.repeat(offsets[:-1], np.diff(offsets))
    end = np.repeat(offsets[1:], np.diff(offsets))
    before = np.maximum.accumulate(np.where(there, place, -1))
    after = np.minimum.accumulate(np.where(there, place, len(values))[::-1])[::-1]
    left, right = before >= begin, after < end
    first = np.where(left, before, np.where(right, after, 0))
    last = np.where(right, after, first)
    share = (place - first) / np.maximum(last - first, 1)
    line = values[first] + share * (values[last] - values[first])
    # Left of the first observed value both ends are that value, and `share` multiplies 0.
    return np.asarray(np.where(there, values, np.where(left | right, line, 0.0)), dtype=np.float32)
