"""Sequences as fixed rows of numbers, for methods that know no order: flattened, counted or summarised."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headstart.sequence import Examples, Signature

WIDEST = 8_192
"""Numbers of a flattened example at most; longer ones are summarised."""
KINDS = 4_096
"""Distinct tokens that are counted each; ids beyond share a place."""
CHUNK = 2_000
"""Examples that are summarised at once, which bounds memory."""


def describe(sets: Mapping[str, Examples], signature: Signature) -> tuple[str, dict[str, np.ndarray]]:
    """(what the features are, in words; split -> (units, features) float64).

    Tokens are counted (as shares of the length). Floats are flattened where every example has one length,
    else summarised per feature. A missing value counts as 0 when flattened. Of a pair [a, b] the features are
    [a, b, |a - b|, a b].
    """
    lengths = np.concatenate([x.lengths for x in sets.values()])
    size = int(lengths.max()) * signature.width
    if signature.input == "tokens":
        what, rows = "token counts", {k: _counts(x, signature.width) for k, x in sets.items()}
    elif (lengths == lengths[0]).all() and size <= WIDEST:
        what, rows = "flat inputs", {k: _flat(x) for k, x in sets.items()}
    else:
        what, rows = "summaries", {k: summaries(x) for k, x in sets.items()}
    if signature.paired:
        rows = {k: pairs(x) for k, x in rows.items()}
    return what, rows


def pairs(x: np.ndarray) -> np.ndarray:
    """(n, 4 P) of the rows (2 n, P) of pairs [a, b]: a, b, |a - b|, a b."""
    first, second = x[::2], x[1::2]
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def _counts(x: Examples, width: int) -> np.ndarray:
    """(n, V) share of each token."""
    places = min(width, KINDS)
    row = np.repeat(np.arange(len(x)), x.lengths)
    flat = np.bincount(row * places + x.values.astype(np.int64) % places, minlength=len(x) * places)
    return np.asarray(flat.reshape(len(x), places) / x.lengths[:, None])


def _flat(x: Examples) -> np.ndarray:
    """(n, L F) values, 0 where nothing was observed."""
    values = x.values if x.observed is None else np.where(x.observed, x.values, 0.0)
    return np.nan_to_num(values.reshape(len(x), -1).astype(np.float64))


def summaries(x: Examples) -> np.ndarray:
    """(n, 7 F + 1) mean, deviation, least, greatest, first, last and mean step of each feature; length."""
    return np.concatenate([_summary(x, i, min(i + CHUNK, len(x))) for i in range(0, len(x), CHUNK)])


def _summary(x: Examples, first: int, last: int) -> np.ndarray:
    begin, end = x.offsets[first:last], x.offsets[first + 1 : last + 1]
    start = int(begin[0])
    values = x.values[start : int(end[-1])].astype(np.float64)
    seen = np.isfinite(values)
    if x.observed is not None:
        seen &= x.observed[start : int(end[-1])]
    at = begin - start
    count = np.maximum(np.add.reduceat(seen, at, axis=0, dtype=np.int64), 1)
    zeroed = np.where(seen, values, 0.0)
    mean = np.add.reduceat(zeroed, at, axis=0) / count
    row = np.repeat(np.arange(last - first), end - begin)
    spread = np.sqrt(np.add.reduceat(np.where(seen, values - mean[row], 0.0) ** 2, at, axis=0) / count)
    least = np.minimum.reduceat(np.where(seen, values, np.inf), at, axis=0)
    most = np.maximum.reduceat(np.where(seen, values, -np.inf), at, axis=0)
    step = np.abs(np.diff(zeroed, axis=0, prepend=zeroed[:1]))
    step[at] = 0.0
    steps = np.add.reduceat(step, at, axis=0) / count
    ends = [zeroed[at], zeroed[end - start - 1]]
    length = (end - begin)[:, None].astype(np.float64)
    out = np.concatenate([mean, spread, least, most, *ends, steps, length], axis=1)
    # A feature that was never observed has no least and no greatest value.
    return np.asarray(np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0))
