"""What fills sequences of unequal length up to one: zeros at their ends, or the last value over and over."""

from __future__ import annotations

import math

import numpy as np

FILLED_AT_ONCE = 2**20
"""Positions that are looked through at a time, or a sequence."""


def filled(values: np.ndarray, offsets: np.ndarray, padding: str) -> np.ndarray:
    """(n,) positions of each sequence of values (S, F) that are filling, NaN being none: `zeros` and `last` at its end,
    `front`, zeros at its beginning. The first of equal last values is none; a sequence keeps one position."""
    if len(values) > FILLED_AT_ONCE and len(offsets) > 2:  # numbers of positions take twice the memory of the values
        rows = np.array_split(
            np.arange(len(offsets) - 1), min(math.ceil(len(values) / FILLED_AT_ONCE), len(offsets) - 1)
        )
        some = [offsets[part[0] : part[-1] + 2] for part in rows]
        return np.concatenate([filled(values[each[0] : each[-1]], each - each[0], padding) for each in some])
    starts, ends = offsets[:-1], offsets[1:]
    level = values[ends - 1] if padding == "last" else np.zeros((len(starts), 1), values.dtype)
    differs = (values != np.repeat(level, ends - starts, axis=0)).any(1)
    position = np.arange(len(differs))
    if padding == "front":
        first = np.minimum.reduceat(np.where(differs, position, len(differs)), starts)
        return np.asarray(np.minimum(first, ends - 1) - starts)
    last = np.maximum.reduceat(np.where(differs, position, -1), starts)
    stays = np.maximum(last, starts - 1) + (2 if padding == "last" else 1)
    return np.asarray(ends - np.clip(stays, starts + 1, ends))


def fillings(values: np.ndarray, offsets: np.ndarray, padding: str) -> tuple[np.ndarray, np.ndarray]:
    """(n,) positions that are filling at the beginning of each sequence, and those at its end; `both` are zeros."""
    none = np.zeros(len(offsets) - 1, dtype=np.int64)
    first = filled(values, offsets, "front") if padding in ("front", "both") else none
    last = none if padding == "front" else filled(values, offsets, "zeros" if padding == "both" else padding)
    return first, np.minimum(last, np.diff(offsets) - 1 - first)


def equal_tails(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n,) how often the last value of each sequence stands again before its end; 0 of one that never changes."""
    tails = filled(values, offsets, "last")
    tails[tails >= np.diff(offsets) - 1] = 0
    return tails


def equal_heads(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n,) how often the first value of each sequence stands again behind it; 0 of one that never changes."""
    return equal_tails(values[::-1], offsets[-1] - offsets[::-1])[::-1]


def equal_neighbours(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(S - 1,) whether a position of values (S, F) and the next one, of the same sequence, are equal."""
    same = np.array((values[1:] == values[:-1]).all(1), dtype=bool)
    same[offsets[1:-1] - 1] = False
    return same
