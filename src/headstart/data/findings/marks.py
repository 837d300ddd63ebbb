"""Numbers that stand for a missing one."""

from __future__ import annotations

import numpy as np

LIMITS = frozenset((32_767.0, 32_768.0, 65_535.0, 2_147_483_647.0, 2_147_483_648.0, 1e20, 1e30, 1e35))
"""Ends of the ranges of integers, and other numbers that programs write where there is none; with either sign."""
REPEATED, DIFFERENT = 3, 20
"""Times that a number stands which no program is known to write, and different others beside it."""

ALONE_TIMES = 4
"""Times its distance to the others that these may span where it is the only number below 0."""


def sentinels(values: np.ndarray) -> dict[float, int]:
    """Values at an end of all that look like marks of missing ones, and how often each is there.

    They lie further from the others than half of these span and are known marks (999, -9999, -32768 ...), or further
    than all that these span (a quarter of it, where no other is below 0) and are repeated.
    """
    out: dict[float, int] = {}
    x = values
    while len(x):
        odd = next((value for value in (float(x.min()), float(x.max())) if _is_sentinel(x, value)), None)
        if odd is None:
            return out
        out[odd] = int((x == odd).sum())
        x = x[x != odd]
    return out


def _is_sentinel(x: np.ndarray, value: float) -> bool:
    mark = _is_mark(value)
    # Most data end here: an end that nothing marks stands once or twice.
    if not mark and (x == value).sum() < REPEATED:
        return False
    rest = x[x != value]
    if not len(rest):
        return False
    apart, reach = float(np.abs(rest - value).min()), float(np.ptp(rest))
    if mark:
        return 0 < reach < 2 * apart
    alone = value < 0 <= float(rest.min())
    return 0 < reach < apart * (ALONE_TIMES if alone else 1) and len(np.unique(rest[:10_000])) >= DIFFERENT


def _is_mark(value: float) -> bool:
    size = abs(value)
    digits = f"{size:.6g}".replace(".", "")
    return (size >= 99 and set(digits) == {"9"}) or f"{size:.6g}" == "999.25" or size in LIMITS
