"""Rows that are far nearer to a few others than to the rest: copies with noise, or several recordings of one thing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headstart.data.neighbours import beginning_inside
from headstart.data.sequences import FEW_LEVELS, Sequences
from headstart.data.splits import ACROSS
from headstart.text import many

FEWEST_SKETCHED, FEWEST_IN_ROW = 60, 8
"""Rows, and values of each, from which on it is looked for."""
MOST_SKETCHED, MOST_READ, ASKED, ASKED_AT_ONCE = 50_000, 2**21, 200, 20
"""Rows among which others are looked for, values of all of them that are read, and rows of which one asks, so many of
them at a time."""
SKETCH, LETTER_SKETCH, WORD = 64, 256, 6
"""Numbers that stand for a row of numbers, and one of symbols; symbols in a row that are looked at together."""
AROUND, FEW_NEAR = 16, 8
"""Rows around each that are looked at, and how many of these may be copies."""
NEARER, BEYOND_NEAR, OWN_SIZE = 2.5, 4.0, 0.75
"""How much nearer copies are than the next row, how far beyond chance, as the logarithm of its odds, and how far apart
at most, as a share of what sets a row apart from the median of all."""
FEWEST_DIMENSIONS = 3.0
"""Dimensions below which points lie near each other by chance."""
COPIED_SHARE = 0.08
"""Share of rows with near copies from which on it is said."""
COPY_GAP, IN_GAP = 2.0, 0.2
"""Copies are nearer than other rows are to anything: so many times their distance is a gap, in which a few others lie
at most, as a share of the copies."""
CUT_ENDS = 0.005
"""Share of the values of a channel at each end that is cut off: rows that share one value far outside are no copies."""


@dataclass(frozen=True)
class Alike:
    """asked: rows that were looked at; near: those of them that have a near copy; pair: the nearest two."""

    asked: int
    near: int
    pair: tuple[int, int]

    @property
    def frequent(self) -> bool:
        """Whether so many have one that it is said."""
        return self.near >= COPIED_SHARE * self.asked


def among(s: Sequences) -> str:
    """Said behind how many rows were looked at: of how many rows the others are a sample."""
    return f", among {MOST_SKETCHED:,} of {len(s):,}," if len(s) > MOST_SKETCHED else ""


def near_copies(s: Sequences, of: np.ndarray | None = None) -> Alike | None:
    """Rows, of these where some are named, that have near copies in other groups, as they are or each less its own mean
    and over its own deviation; None where rows are too few, or too short."""
    alike = _near_copies(s, of, own_scale=False)
    if s.kind != "numbers" or (alike is not None and alike.frequent) or len(np.unique(s.values[:10_000])) < FEW_LEVELS:
        return alike
    scaled = _near_copies(s, of, own_scale=True)
    return scaled if alike is None or (scaled is not None and scaled.frequent) else alike


def _near_copies(s: Sequences, of: np.ndarray | None, own_scale: bool) -> Alike | None:
    """The same in one of both ways.

    Where points lie in D dimensions, the distance to the neighbour j + 1 is at least r times that to the neighbour j
    by chance in r^(-jD) of them; D is that of the farther neighbours (the estimate of Levina and Bickel 2004). Rows of
    which half of a class are so near are how the class is, and where nearest rows are at every distance, as on a curve
    with gaps, the nearest of them are no copies. Exact copies count once.
    """
    rows, x = _sketches(s, own_scale)
    first = s.copies()[rows] == rows
    rows, x = rows[first], x[first]
    if len(rows) < FEWEST_SKETCHED:
        return None
    asked = np.arange(len(rows)) if of is None else np.flatnonzero(np.isin(rows, of))
    asked = np.sort(np.random.default_rng(1).permutation(asked)[:ASKED])
    square, around = (x**2).sum(1), min(AROUND, len(rows) // 2)
    of_group = None if s.groups is None else np.unique(np.array(s.groups), return_inverse=True)[1][rows]
    nearest, near = np.zeros(len(asked), dtype=np.int64), np.zeros((len(asked), around))
    for at in np.array_split(np.arange(len(asked)), math.ceil(len(asked) / ASKED_AT_ONCE)):
        each = asked[at]
        apart = np.maximum(square[each][:, None] + square - 2 * x[each] @ x.T, 0)
        apart[np.arange(len(each)), each] = np.inf
        if of_group is not None:
            apart[of_group[each][:, None] == of_group] = np.inf
        nearest[at] = apart.argmin(1)
        near[at] = np.sort(np.partition(apart, around - 1, axis=1)[:, :around], axis=1)
    there = np.isfinite(near).all(1)
    if not there.any():
        return None
    log = np.log(np.maximum(near[there], 1e-12)) / 2
    count = min(FEW_NEAR, around // 2)
    expected = np.array([sum(1 / i for i in range(j, around)) for j in range(count + 1, around)])
    dimension = float(expected.mean()) / max(float((log[:, -1:] - log[:, count:-1]).mean()), 1e-3)
    if dimension < FEWEST_DIMENSIONS:
        return None
    steps, which = np.diff(log[:, : count + 1], axis=1), np.arange(1, count + 1)
    odds = np.where(steps > np.log(NEARER), steps * dimension * which, 0)
    odds[near[there][:, :count] ** 0.5 > OWN_SIZE * square[asked[there]][:, None] ** 0.5] = 0
    odds[2 * (which + 1) > _class_sizes(s)[rows[asked[there]]][:, None]] = 0
    best = odds.max(1)
    row, copies = int(best.argmax()), best > BEYOND_NEAR
    pair = rows[asked[there][row]], rows[nearest[there][row]]
    count = int(copies.sum())
    if count:
        first, last = np.quantile(log[copies, 0], [0.5, 0.9])
        between = (
            ~copies & (log[:, 0] > first) & (log[:, 0] < last + np.log(COPY_GAP)) & (steps[:, 0] < np.log(COPY_GAP))
        )
        count = count if between.sum() <= IN_GAP * count else 0
    return Alike(int(there.sum()), count, (int(min(pair)), int(max(pair))))


def about_files(whole: Sequences, files: Mapping[str, np.ndarray]) -> list[str]:
    """What is said of sequences of a val or test file (their rows, by its name) that have near copies in other files;
    exact ones are counted elsewhere."""
    notes = []
    for name, rows in files.items():
        sides = np.full(len(whole), "other")
        sides[rows] = name
        alike = near_copies(replace(whole, groups=tuple(sides.tolist())), rows)
        if alike is not None and alike.frequent:
            notes.append(
                f"{alike.near:,} of {many(alike.asked, f'{name} sequence')} looked at{among(whole)} {ACROSS} train but "
                "for some noise: they are far nearer to a few there than to the rest, as copies with noise are, or "
                "several recordings of one thing, so that every score is optimistic; leave them out of one file"
            )
        elif (inside := beginning_inside(whole, rows)) >= COPIED_SHARE * len(rows):
            notes.append(
                f"the beginnings of {many(inside, 'sequence')} of the {name} file or of others {ACROSS} the other, "
                "inside of a sequence, as windows of one recording do that overlap, so that every score is optimistic; "
                "keep each recording in one file"
            )
    return notes


def _class_sizes(s: Sequences) -> np.ndarray:
    """(n,) sequences of the class of each, all where there are no classes."""
    if s.target != "class" or s.per_position:
        return np.full(len(s), len(s))
    _, number, count = np.unique(s.codes(), return_inverse=True, return_counts=True)
    return np.asarray(count[number])


def _sketches(s: Sequences, own_scale: bool) -> tuple[np.ndarray, np.ndarray]:
    """(rows, sketches (rows, k)): distances of sketches are about those of the sequences' beginnings."""
    rows = np.arange(len(s))
    if len(s) > MOST_SKETCHED:
        rows = np.sort(np.random.default_rng(2).permutation(len(s))[:MOST_SKETCHED])
    width = s.values[:1].size
    length = max(1, min(int(np.quantile(s.lengths, 0.1)), MOST_READ // (len(rows) * width)))
    if s.kind == "numbers":
        rows = rows[s.lengths[rows] >= length]
        if length * width < FEWEST_IN_ROW:
            return rows[:0], np.zeros((0, 1))
        x = _of_numbers(s, rows, length, own_scale)
    else:
        x = _of_symbols(s, rows, max(length, MOST_READ // len(rows)))
    return rows[x.any(1)], x[x.any(1)]


def _levels(values: np.ndarray) -> np.ndarray:
    """(n,) different values in the richest channel of each row of values (n, L, F)."""
    ordered = np.sort(values, axis=1)
    return np.asarray(1 + (ordered[:, 1:] != ordered[:, :-1]).sum(1).max(1))


def _of_numbers(s: Sequences, rows: np.ndarray, length: int, own_scale: bool) -> np.ndarray:
    """Random sums of the first values of each row, standardised by channel; own_scale: in each row by itself, and 0 of
    rows of a few levels, such as pulses, which are alike by chance."""
    index = s.offsets[:-1][rows][:, None] + np.arange(length)
    values = s.values[index].astype(np.float32)
    values = np.clip(values, *np.quantile(values, [CUT_ENDS, 1 - CUT_ENDS], axis=(0, 1)))
    spread = values.std((0, 1))
    values = (values - np.median(values, 0)) / np.where(spread > 0, spread, 1)
    if own_scale:
        levels, own = _levels(values), values.std(1, keepdims=True)
        values = (values - values.mean(1, keepdims=True)) / np.where(own > 0, own, 1)
        values[levels < FEWEST_IN_ROW] = 0
    if s.observed is not None:
        values[~s.observed[index]] = 0
    x = values.reshape(len(rows), -1)
    sparse = 2 * (x == 0).sum(1) > x.shape[1]  # rows of a few values each are near by where these stand
    if x.shape[1] > SKETCH:
        x = x @ (np.random.default_rng(3).normal(size=(x.shape[1], SKETCH)).astype(np.float32) / SKETCH**0.5)
    x[sparse] = 0
    return np.asarray(x, dtype=np.float64)


def _of_symbols(s: Sequences, rows: np.ndarray, length: int) -> np.ndarray:
    """Counts of words of a few symbols, each of which has a cell and a sign by chance; all of one size."""
    lengths = np.maximum(np.minimum(s.lengths[rows], length) - WORD + 1, 0)
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    at = np.repeat(s.offsets[:-1][rows] - begins, lengths) + np.arange(lengths.sum())
    odd = np.random.default_rng(3).integers(2**63, size=WORD, dtype=np.uint64) * 2 + 1
    mark = np.zeros(len(at), dtype=np.uint64)
    for step in range(WORD):
        mark += (s.values[at + step].astype(np.uint64) + np.uint64(1)) * odd[step]
    mark = (mark ^ mark >> np.uint64(29)) * odd[0]
    cell = (mark >> np.uint64(33)) % np.uint64(LETTER_SKETCH)
    sign = np.where(mark >> np.uint64(63), 1.0, -1.0)
    cells = np.repeat(np.arange(len(rows)), lengths) * LETTER_SKETCH + cell.astype(np.int64)
    x = np.bincount(cells, sign, len(rows) * LETTER_SKETCH).reshape(len(rows), LETTER_SKETCH)
    size = np.sqrt((x**2).sum(1, keepdims=True))
    return np.asarray(x / np.where(size > 0, size, 1))
