"""What tells the label of a sequence beside what was measured in it: its length, its clock, its gaps, a setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headstart.data.findings.finding import Finding
from headstart.data.findings.traits import Trait, traits
from headstart.data.sequences import Sequences
from headstart.data.splits import TELLS
from headstart.text import many

FEWEST_LABELLED = 20
"""Labelled sequences from which on it is looked for."""
TRAIT_LEVELS, ROWS_OF_TRAIT = 20, 5
"""Levels at most into which a trait is cut, and sequences of each."""
MENDED, BEYOND_CHANCE = 0.3, 5.0
"""Share of the mistakes of one answer for all that a trait alone mends, from which on it tells the label, and by how
many standard errors it must be ahead."""
TOLD_TOO = 0.9
"""How well, beside a trait itself, that must tell the label without which it does not count."""
RANKED = 0.6
"""Rank correlation with a target that is a number from which on a trait tells it."""


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
        judged = [
            item
            for item in judged
            if item[2].also is None or judge(item[2].also[rows], target)[0] >= TOLD_TOO * item[0]
        ]
        size, text, trait = max(judged, key=lambda item: item[0], default=(0.0, "", Trait("", rows)))
        if size:
            way = f"; where it is no part of the question, {trait.way}" if trait.way else ""
            out.append(f"{trait.name} alone {text}: {TELLS}, and not what is in them{way}")
    return out


def leaks(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Traits that tell the label alone."""
    for text in about_leaks(s):
        yield Finding.everywhere(text)


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
