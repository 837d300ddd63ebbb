"""Mean and deviation of channels and of whole-number levels, to the same bit on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def moments(counts: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of levels 0..len(counts) - 1 that occur `counts` times; the deviation may be 0.

    The sums are whole numbers of any size, so no order of summation, and no processor, can change them.
    """
    total = sum(int(count) for count in counts)
    first = sum(level * int(count) for level, count in enumerate(counts))
    second = sum(level * level * int(count) for level, count in enumerate(counts))
    return first / total, math.sqrt((total * second - first * first) / (total * total))


def channel_moments(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (F,) of what is there, in float32; the deviation of a constant channel is 1.

    Rounded to 6 digits, so that no processor's order of summation shows in the examples.
    """
    width = values[0].shape[1]
    count, total, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for one in values:  # one at a time: all of them in float64 would take four times their memory
        count += (~np.isnan(one)).sum(0)
        total += np.nansum(one, 0, dtype=np.float64)
    mean = total / np.maximum(count, 1)
    for one in values:
        square += np.nansum((one.astype(np.float64) - mean) ** 2, 0)
    spread = np.sqrt(square / np.maximum(count, 1))
    deviation = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-30), spread, 1.0)
    return _rounded(mean), _rounded(deviation)


def _rounded(x: np.ndarray) -> np.ndarray:
    return np.array([float(f"{value:.6g}") for value in x], dtype=np.float32)


def to_range(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers of any shape as float32, on the scale on which `low` is -1 and `high` is 1."""
    return np.asarray((2 * (x.astype(np.float64) - low) / (high - low) - 1).astype(np.float32))


def standardised(
    values: np.ndarray, observed: np.ndarray | None, mean: np.ndarray, deviation: np.ndarray
) -> np.ndarray:
    """(S, F) float32 values less the mean, over the deviation, of each channel (F,); 0 where nothing was observed."""
    found = ((values - mean) / deviation).astype(np.float32)
    return found if observed is None else np.where(observed, found, np.float32(0))
