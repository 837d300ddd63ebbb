"""Rows that are pieces of one recording: neighbours that overlap or go on, and pieces that overlap in any order."""

from __future__ import annotations

import numpy as np

from headstart.data.sequences import FEW_LEVELS, Sequences, shared_with_neighbours
from headstart.data.splits import ACROSS, about_neighbours
from headstart.text import many
from headstart.ways import option

STRETCH, STRETCH_KINDS, MOST_HASHED = 8, 6, 2**24
"""Values at the beginning of a row that are looked for in others, how many of them must differ, and values of all rows
among which they are looked for."""
LOOKED_BITS, MARKED_AT_ONCE = 22, 2**20
"""Of a mark of a stretch, so many are looked at first; positions whose marks are made at a time."""
PIECES_SHARE = 0.2
"""Share of the rows that begin inside of others, or whose values go on, from which on it is said."""
FEWEST_NEIGHBOURS, ROWS_AHEAD, NEAREST, GOES_ON, USUAL_STEPS = 20, (2, 3, 4, 5), 0.5, 0.4, 3.0
"""Pairs of neighbours of which one says that they go on; rows further on with which the next is compared; share of the
pairs in which it begins nearest, how much nearer it usually is, and within how many of the steps that rows take."""


def about_pieces(s: Sequences) -> list[str]:
    """What is said of rows without groups that are pieces of one recording."""
    share = shared_with_neighbours(s)
    if texts := about_neighbours(share):
        return texts
    if (inside := beginning_inside(s)) > PIECES_SHARE * len(s):
        what, shared = (
            f"{inside:,} of {many(len(s), 'row')} begin with values that stand inside of another row",
            "values",
        )
        what += ", as windows of one recording do that overlap"
    elif goes_on(s):
        what, shared = "rows begin where the row before them ends, as pieces of one recording do", "recordings"
    else:
        return []
    return [
        f"{what}: without a group that keeps them together {shared} of test {ACROSS} train, and every score is "
        f"optimistic; name the recording with {option('group')}"
    ]


def beginning_inside(s: Sequences) -> int:
    """How many rows of numbers begin with values that stand inside of another row, whatever the order of the rows; 0
    with groups, and of values of few levels, which come again by chance."""
    if s.kind != "numbers" or s.groups is not None or len(s) < 2 or s.values.size > MOST_HASHED:
        return 0
    x, count = s.values, len(s.values) - STRETCH + 1
    if count < 1 or len(np.unique(x[:10_000])) < FEW_LEVELS:
        return 0
    # Sums of products with odd numbers, modulo 2^64: stretches that differ hardly ever agree.
    odd = np.random.default_rng(1).integers(2**63, size=(STRETCH, x.shape[1]), dtype=np.uint64) * 2 + 1
    begins = s.offsets[:-1][s.lengths >= STRETCH]
    first = np.sort(x[begins[:, None] + np.arange(STRETCH), 0], axis=1)
    other = (first[:, 1:] != first[:, :-1]) & ~np.isnan(first[:, :-1])  # all that are missing are alike
    begins = begins[1 + other.sum(1) >= STRETCH_KINDS]
    if not len(begins):
        return 0
    of_begins = _marks(x[begins[:, None] + np.arange(STRETCH)], odd)[:, 0]
    wanted, shift = np.zeros(1 << LOOKED_BITS, dtype=bool), np.uint64(64 - LOOKED_BITS)
    wanted[of_begins >> shift] = True  # few of all marks agree with one of the first in their first bits
    ends, inside = s.offsets[1:], list[np.ndarray]()
    for first_mark in range(0, count, MARKED_AT_ONCE):  # in blocks: all marks take many times the memory of the values
        last = min(first_mark + MARKED_AT_ONCE, count)
        mark = _marks(x[None, first_mark : last + STRETCH - 1], odd)[0]
        whole = np.ones(last - first_mark, dtype=bool)
        for before in range(1, STRETCH):  # none across the end of a row
            cut = ends[(ends >= first_mark + before) & (ends < last + before)] - before - first_mark
            whole[cut] = False
        whole[begins[(begins >= first_mark) & (begins < last)] - first_mark] = False
        inside.append(mark[whole & wanted[mark >> shift]])
    return int(np.isin(of_begins, np.concatenate(inside)).sum())


def _marks(x: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """(n, L - 7) uint64 marks of the stretches of rows (n, L, F)."""
    bits = np.ascontiguousarray(x).view(np.uint32 if x.dtype == np.float32 else np.uint64).astype(np.uint64)
    count = x.shape[1] - STRETCH + 1
    mark = np.zeros((len(x), count), dtype=np.uint64)
    for step in range(STRETCH):
        mark += (bits[:, step : step + count] * odd[step]).sum(2, dtype=np.uint64)
    return mark


def goes_on(s: Sequences) -> bool:
    """Whether each row of numbers begins where the one before it ends: far nearer than where the rows after the next
    begin, and no further than a few of its own steps; not with groups."""
    if (
        s.kind != "numbers"
        or s.groups is not None
        or len(s) < FEWEST_NEIGHBOURS + max(ROWS_AHEAD)
        or s.observed is not None
    ):
        return False
    starts, ends = s.offsets[:-1], s.offsets[1:] - 1
    count = len(s) - max(ROWS_AHEAD)
    first, last = (s.values[at].astype(np.float64) for at in (starts, ends[:count]))
    near = np.abs(first[1 : count + 1] - last)
    far = np.array([np.abs(first[k : count + k] - last) for k in ROWS_AHEAD])
    nearest = (near < far.min(0)).mean(0) > NEAREST
    on = nearest & (np.median(near, axis=0) < GOES_ON * np.median(far, axis=(0, 1)))
    if 2 * on.sum() <= len(on):  # of most data: the steps of all need not be looked at
        return False
    steps = np.delete(np.abs(np.diff(s.values.astype(np.float64), axis=0)), ends[:-1], axis=0)
    usual = np.median(steps, axis=0) if len(steps) else np.zeros(len(on))
    on &= np.median(near, axis=0) <= USUAL_STEPS * usual
    return bool(2 * on.sum() > len(on))
