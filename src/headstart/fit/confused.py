"""Which classes a model takes for which: a matrix of few classes, the commonest mistakes of many, each by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headstart.baselines.measures import confusion
from headstart.fit.shown import short

FEW = 20
"""Classes whose whole matrix can be read."""
NAMED = 8
"""Classes of which the columns can carry names; the columns of more have numbers."""
LONG = 12
"""Characters of a name that a column can carry."""
PAIRS = 15


@dataclass(frozen=True)
class Kept:
    """How one class fared: `there` sequences of it, `said` of them in all, `right` ones among both."""

    number: int
    name: str
    there: int
    said: int
    right: int

    @property
    def found(self) -> float | None:
        """Share of its sequences that were found."""
        return self.right / self.there if self.there else None

    @property
    def precise(self) -> float | None:
        """Share of those said to be of it that are."""
        return self.right / self.said if self.said else None


@dataclass(frozen=True)
class Square:
    """A cell of the matrix: sequences, as a count and as a share of their true class."""

    count: int
    share: float
    right: bool


@dataclass(frozen=True)
class Mistake:
    """So many sequences of class `true` were said to be of class `said`."""

    true: str
    said: str
    count: int
    share: float


@dataclass(frozen=True)
class Confused:
    """heads and lines (row the true class, column the class said) are empty where there are more than FEW classes."""

    classes: tuple[Kept, ...]
    heads: tuple[str, ...]
    lines: tuple[tuple[Square, ...], ...]
    mistakes: tuple[Mistake, ...]
    numbered: bool


def confused(target: np.ndarray, chosen: np.ndarray, labels: tuple[str, ...]) -> Confused:
    """Of true classes (n,) and the classes said (n,), n at least 1."""
    counts = confusion(target, chosen, len(labels))
    there, said = counts.sum(1), counts.sum(0)
    classes = tuple(
        Kept(i + 1, short(name), int(there[i]), int(said[i]), int(counts[i, i])) for i, name in enumerate(labels)
    )
    few = len(labels) <= FEW
    numbered = len(labels) > NAMED or any(len(name) > LONG for name in labels)
    heads = tuple(str(i + 1) if numbered else short(name) for i, name in enumerate(labels)) if few else ()
    shares = counts / np.maximum(there, 1)[:, None]
    lines = tuple(
        tuple(Square(int(counts[i, j]), float(shares[i, j]), i == j) for j in range(len(labels)))
        for i in range(len(labels) if few else 0)
    )
    return Confused(classes, heads, lines, () if few else _mistakes(counts, shares, classes), numbered)


def _mistakes(counts: np.ndarray, shares: np.ndarray, classes: tuple[Kept, ...]) -> tuple[Mistake, ...]:
    """The commonest, ties in the order of the classes."""
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    rows, columns = np.unravel_index(order, wrong.shape)
    return tuple(
        Mistake(classes[i].name, classes[j].name, int(wrong[i, j]), float(shares[i, j]))
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        if wrong[i, j]
    )
