"""Rows that belong with others: neighbours that overlap, go on or are alike, and pieces that overlap in any order."""

from __future__ import annotations

import numpy as np

from headstart.data.profile import features_of
from headstart.data.sequences import FEW_LEVELS, Sequences, shared_with_neighbours
from headstart.data.splits import ACROSS, TELLS, about_neighbours
from headstart.sequence import IGNORE
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
STRETCHES, ORDERED_VALUES = 10, 2**20
"""Stretches of rows of which one says that neighbours are alike, and values of all of them."""
ONE_COURSE, FEWEST_SHARED, LONGEST_SHARED, OTHER_PAIRS = 1 - 1e-4, 16, 2_000, 0.1
"""Correlation from which on two stretches are one but for scale and level, positions of such a stretch, and of a row,
and share of the pairs of other rows that have one at most: waves have."""
LEAST_RANK, RANK_ERRORS, FEWEST_ALIKE, FEWEST_OF_CLASS, NEAR_TARGETS = 0.5, 5.0, 40, 8, 0.02
"""Rank correlation of rows that follow each other from which on they are alike, by how many standard errors it is
beyond 0, rows and rows of a class in which it is looked for, and share of the rows whose targets are near a target."""


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
    elif overlap_in_form(s):
        what, shared = (
            "neighbouring rows overlap but for their scale and level, as windows that were standardised do",
            "values",
        )
    elif goes_on(s):
        what, shared = "rows begin where the row before them ends, as pieces of one recording do", "recordings"
    else:
        return []
    return [
        f"{what}: without a group that keeps them together {shared} of test {ACROSS} train, and every score is "
        f"optimistic; name the recording with {option('group')}"
    ]


def beginning_inside(s: Sequences, of: np.ndarray | None = None) -> int:
    """How many rows of numbers begin with values that stand inside of another row, whatever the order of the rows; 0
    with groups, and of values of few levels, which come again by chance. of: rows of a file, whose beginnings alone are
    looked for in those of other files, and the other way round."""
    grouped = s.groups is not None and of is None
    if s.kind != "numbers" or grouped or len(s) < 2 or s.values.size > MOST_HASHED:
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
    ends, inside, at = s.offsets[1:], list[np.ndarray](), list[np.ndarray]()
    for first_mark in range(0, count, MARKED_AT_ONCE):  # in blocks: all marks take many times the memory of the values
        last = min(first_mark + MARKED_AT_ONCE, count)
        mark = _marks(x[None, first_mark : last + STRETCH - 1], odd)[0]
        whole = np.ones(last - first_mark, dtype=bool)
        for before in range(1, STRETCH):  # none across the end of a row
            cut = ends[(ends >= first_mark + before) & (ends < last + before)] - before - first_mark
            whole[cut] = False
        whole[begins[(begins >= first_mark) & (begins < last)] - first_mark] = False
        inner = np.flatnonzero(whole & wanted[mark >> shift])
        inside.append(mark[inner])
        at.append(first_mark + inner)
    of_inner = np.concatenate(inside)
    if of is None:
        return int(np.isin(of_begins, of_inner).sum())
    first_side, side = (
        np.isin(np.searchsorted(s.offsets, positions, side="right") - 1, of)
        for positions in (begins, np.concatenate(at))
    )
    return sum(int(np.isin(of_begins[first_side == own], of_inner[side != own]).sum()) for own in (True, False))


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


def overlap_in_form(s: Sequences) -> bool:
    """Whether the end of most rows is the beginning of the next but for scale and level, and not that of other rows; of
    the first channel, in rows of one length, without groups."""
    length = int(s.lengths[0]) if len(s) else 0
    if (
        s.kind != "numbers"
        or s.groups is not None
        or s.windows is not None
        or len(s) < 2 * FEWEST_NEIGHBOURS
        or not FEWEST_SHARED < length <= LONGEST_SHARED
        or not (s.lengths == length).all()
    ):
        return False
    x = s.values[:, 0].reshape(len(s), length).astype(np.float64)
    rows = np.linspace(0, len(s) - 2, min(len(s) - 1, max(FEWEST_NEIGHBOURS, 50_000 // length))).astype(int)
    near = _shares_its_end(x[rows], x[rows + 1])
    return bool(near > 0.5 and _shares_its_end(x[rows], x[(rows + len(s) // 2) % len(s)]) < OTHER_PAIRS)


def _shares_its_end(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the pairs of rows (n, L) of which the end of one has the course of the beginning of the other."""
    length = first.shape[1]
    shared = np.zeros(len(first), dtype=bool)
    for count in range(FEWEST_SHARED, length):
        end, begin = first[:, length - count :], second[:, :count]
        end, begin = end - end.mean(1, keepdims=True), begin - begin.mean(1, keepdims=True)
        size = (end**2).sum(1) * (begin**2).sum(1)
        shared |= (size > 0) & ((end * begin).sum(1) > ONE_COURSE * np.sqrt(size))
    return float(shared.mean())


def about_order(s: Sequences) -> list[str]:
    """What is said of rows without groups that are like the rows beside them, among those of their class or target."""
    most = max(FEWEST_ALIKE, STRETCHES * (ORDERED_VALUES // STRETCHES * len(s) // max(s.values.size, 1)))
    if len(s) > most:
        begins = np.linspace(0, len(s) - most // STRETCHES, STRETCHES).astype(int)
        s = s.take((begins[:, None] + np.arange(most // STRETCHES)).reshape(-1))
    rows = np.flatnonzero(s.labelled)
    if (
        s.target == "none"
        or s.per_position
        or s.groups is not None
        or s.windows is not None
        or len(rows) < FEWEST_ALIKE
    ):
        return []
    order = _other_ranks_by_number if s.target == "number" else _other_ranks_by_class
    target = s.numbers()[rows] if s.target == "number" else s.codes()[rows]
    best, named = 0.0, ""
    kinds = target if s.target == "class" else np.zeros(len(rows))
    features = {name: x[rows] for name, x in features_of(s).items() if np.ptp(x[rows]) > 0}
    if any(_in_order(x, kinds) for x in features.values()) or (s.target == "number" and _in_order(target, kinds)):
        return []
    for name, x in features.items():
        ranks = order(x, target)
        square = float((ranks**2).mean())
        size = float((ranks[1:] * ranks[:-1]).mean()) / square if square else 0.0
        best, named = max((best, named), (size, name))
    if best < max(LEAST_RANK, RANK_ERRORS / len(rows) ** 0.5):
        return []
    what = "class" if s.target == "class" else "target"
    return [
        f"rows that follow each other are alike beside their {what} (rank correlation of {named}: {best:.2f}), as "
        f"rows of one subject, session or day are, or of a sensor that drifts: {TELLS}, and not what is in them; name "
        f"subject, session or day with {option('group')}"
    ]


def _in_order(x: np.ndarray, target: np.ndarray) -> bool:
    """Whether rows (of each class) were sorted by x (n,), which has more than a few levels: one step is another device
    or a last row that is short."""
    by_class = np.argsort(target, kind="stable")
    steps = np.diff(x[by_class])[np.diff(target[by_class]) == 0]
    up, down = int((steps > 0).sum()), int((steps < 0).sum())
    return min(up, down) == 0 and max(up, down) >= FEWEST_OF_CLASS


def _other_ranks_by_class(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(n,) the rank of each value among those of its class, from -1 to 1; 0 in classes of a few rows."""
    out = np.zeros(len(x))
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if code != IGNORE and len(rows) >= FEWEST_OF_CLASS:
            out[rows] = _ranks(x[rows])
    return out


def _other_ranks_by_number(x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(n,) how far the rank of each value lies above those of rows of a near target."""
    order, reach = np.argsort(target, kind="stable"), max(FEWEST_OF_CLASS // 2, int(NEAR_TARGETS * len(x)))
    ranks = _ranks(x)[order]
    total = np.concatenate([[0], np.cumsum(ranks)])
    at = np.arange(len(x))
    low, high = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(x))
    out = np.zeros(len(x))
    out[order] = ranks - (total[high] - total[low]) / (high - low)
    return out


def _ranks(x: np.ndarray) -> np.ndarray:
    """(n,) ranks from -1 to 1, equal ones of equal values."""
    _, number, count = np.unique(x, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return np.asarray(2 * middle[number] / max(len(x) - 1, 1) - 1)
