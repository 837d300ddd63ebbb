"""Mean and deviation of whole-number levels, to the same bit on every machine."""

from __future__ import annotations

import math

import numpy as np


def moments(counts: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of levels 0..len(counts) - 1 that occur `counts` times; the deviation may be 0.

    The sums are whole numbers of any size, so no order of summation, and no processor, can change them.
    """
    total = sum(int(count) for count in counts)
    first = sum(level * int(count) for level, count in enumerate(counts))
    second = sum(level * level * int(count) for level, count in enumerate(counts))
    return first / total, math.sqrt((total * second - first * first) / (total * total))
