"""What tells the label of a sequence beside what was measured in it: its length, its clock, its gaps, a setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.data.findings.channels import without
from headstart.data.findings.finding import Finding
from headstart.data.padding import filled
from headstart.data.sequences import Sequences
from headstart.data.splits import TELLS
from headstart.text import many
from headstart.ways import option

FEWEST_LABELLED = 20
"""Labelled sequences from which on it is looked for."""
TRAIT_LEVELS, ROWS_OF_TRAIT = 20, 5
"""Levels at most into which a trait is cut, and sequences of each."""
MENDED, BEYOND_CHANCE = 0.3, 5.0
"""Share of the mistakes of one answer for all that a trait alone mends, from which on it tells the label, and by how
many standard errors it must be ahead."""
RANKED = 0.6
"""Rank correlation with a target that is a number from which on a trait tells it."""


@dataclass(frozen=True)
class Trait:
    """Something of each sequence that was not measured: its name with the article, values (n,), and what makes all
    sequences alike in it, empty where no option does."""

    name: str
    values: np.ndarray
    way: str = ""


def about_leaks(s: Sequences) -> list[str]:
    """What is said of traits that tell the label alone, of each sort the one that tells it best."""
    rows = np.flatnonzero(s.labelled)
    if s.target == "none" or s.per_position or len(rows) < FEWEST_LABELLED:
        return []
    target = s.numbers()[rows] if s.target == "number" else s.codes()[rows]
    judge = _by_rank if s.target == "number" else _by_class
    out = []
    for sort in traits(s):
        judged = [(*judge(trait.values[rows], target), trait) for trait in sort]
        size, text, trait = max(judged, key=lambda item: item[0], default=(0.0, "", Trait("", rows)))
        if size:
            way = f"; where it is no part of the question, {trait.way}" if trait.way else ""
            out.append(f"{trait.name} alone {text}: {TELLS}, and not what is in them{way}")
    return out


def leaks(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Traits that tell the label alone."""
    for text in about_leaks(s):
        yield Finding.everywhere(text)


def traits(s: Sequences) -> Iterator[list[Trait]]:
    """Traits of these sequences, those of one sort together; the simplest stands first."""
    numbers, shortest = s.kind == "numbers", int(s.lengths.min())
    cut = f"{option('window', str(shortest))} cuts pieces of one length" if numbers and s.windows is None else ""
    sort = [Trait("the length", s.lengths.astype(np.float64), cut)]
    if numbers:
        values = s.values if s.observed is None else np.where(s.observed, s.values, np.nan)
        filling = filled(values, s.offsets, "last").astype(np.float64)
        sort.append(
            Trait("the number of equal values at the end", filling, f"{option('padding', 'last')} cuts them off")
        )
    yield sort
    if s.steps is not None:
        steps = np.array([float(f"{step:.3g}") for step in s.steps])  # clocks, and decimals, jitter
        yield [Trait("the step of time", steps, f"{option('rate')} brings all onto one clock")]
    if s.observed is not None:
        yield list(_gaps(s))
    if numbers:
        yield list(_settings(s))


def _gaps(s: Sequences) -> Iterator[Trait]:
    """How much is missing in all and in each channel, and how long the longest gap is."""
    assert s.observed is not None
    gone, first, way = ~s.observed, s.offsets[:-1], "give all sequences the same gaps, or fill them before"
    yield Trait("the share of missing values", np.add.reduceat(gone.mean(1), first) / s.lengths, way)
    none = np.asarray(gone.any(1))
    begins = np.flatnonzero(none & ~np.concatenate([[False], none[:-1]]))
    count = np.zeros(len(gone))
    count[begins] = 1
    yield Trait("the number of gaps", np.add.reduceat(count, first), way)
    if gone.shape[1] > 1:
        for f, channel in enumerate(s.channels):
            share = np.add.reduceat(gone[:, f].astype(np.float64), first) / s.lengths
            yield Trait(f"the share of missing values of {channel!r}", share, way)


def _settings(s: Sequences) -> Iterator[Trait]:
    """Channels that do not change within any sequence."""
    inside = np.delete(np.arange(len(s.values) - 1), s.offsets[1:-1] - 1)
    rest = []
    for f, channel in enumerate(s.channels):
        x = s.values[:, f] if s.observed is None else np.where(s.observed[:, f], s.values[:, f], np.nan)
        if len(inside) and (x[inside] == x[inside + 1]).all():
            rest.append((f, channel, x[s.offsets[:-1]].astype(np.float64)))
    still = [f for f, *_ in rest]
    for _, channel, x in rest:
        yield Trait(
            f"the channel {channel!r}, which does not change within any sequence,",
            x,
            without(s, still).removeprefix("; "),
        )


def _by_class(x: np.ndarray, codes: np.ndarray) -> tuple[float, str]:
    """How far values (n,) tell classes (n,), 0 where they do not, and that in words. Each sequence gets the commonest
    class of the others of its level, so that values that tell nothing do no better than one answer for all."""
    count = len(codes)
    level = _levels(x)
    table = np.zeros((int(level.max()) + 1, int(codes.max()) + 1), dtype=np.int64)
    np.add.at(table, (level, codes), 1)
    plain = int(table.sum(0).max())
    others = table[level] - np.eye(table.shape[1], dtype=np.int64)[codes]
    others = np.where(others.sum(1, keepdims=True), others, table.sum(0))
    right = int((others.argmax(1) == codes).sum())
    error = (plain * (count - plain) / count) ** 0.5
    if right - plain < max(MENDED * (count - plain), BEYOND_CHANCE * error) or plain == count:
        return 0.0, ""
    return right / count, f"tells the class of {right:,} of {many(count, 'sequence')} (the commonest class: {plain:,})"


def _by_rank(x: np.ndarray, target: np.ndarray) -> tuple[float, str]:
    """As `_by_class`, of targets that are numbers."""
    if not np.ptp(x) > 0 or not np.ptp(target) > 0:
        return 0.0, ""
    from scipy.stats import spearmanr

    size = abs(float(spearmanr(x, target).statistic))
    if not size >= max(RANKED, BEYOND_CHANCE / len(target) ** 0.5):
        return 0.0, ""
    return size, f"goes with the target (rank correlation {size:.2f})"


def _levels(x: np.ndarray) -> np.ndarray:
    """(n,) the level of each value: values themselves where there are few, else stretches of their order; what is
    missing is one more."""
    kinds, level = np.unique(x, return_inverse=True)
    most = max(min(TRAIT_LEVELS, len(x) // ROWS_OF_TRAIT), 2)
    if len(kinds) <= most:
        return np.asarray(level)
    edges = np.unique(np.nanquantile(x, np.linspace(0, 1, most + 1)[1:-1]))
    return np.asarray(np.searchsorted(edges, x, side="right"))
