"""What fills sequences of unequal length up to one: zeros, or the last value over and over."""

from __future__ import annotations

import numpy as np


def filled(values: np.ndarray, offsets: np.ndarray, padding: str) -> np.ndarray:
    """(n,) positions of each sequence of values (S, F) that are filling, NaN being none: `zeros` and `last` at its end,
    `front`, zeros at its beginning. The first of equal last values is none; a sequence keeps one position."""
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
