"""Which classes a model takes for which: a matrix of few classes, the commonest mistakes of many, each by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headstart.baselines.measures import confusion
from headstart.fit.wording import short

FEW = 20
"""Classes whose whole matrix can be read."""
NAMED = 8
"""Classes of which the columns can carry names; the columns of more have numbers."""
LONG = 12
"""Characters of a name that a column can carry."""
PAIRS = 15


@dataclass(frozen=True)
class ClassCounts:
    """How one class fared: `true` sequences of it, `predicted` as it in all, `right` ones among both."""

    number: int
    name: str
    true: int
    predicted: int
    right: int

    @property
    def recall(self) -> float | None:
        """Share of its sequences that were predicted as it."""
        return self.right / self.true if self.true else None

    @property
    def precision(self) -> float | None:
        """Share of the sequences predicted as it that are of it."""
        return self.right / self.predicted if self.predicted else None


@dataclass(frozen=True)
class MatrixCell:
    """A cell of the matrix: sequences, as a count and as a share of their true class."""

    count: int
    share: float
    right: bool


@dataclass(frozen=True)
class Mistake:
    """`count` sequences of class `true` were predicted as class `predicted`."""

    true: str
    predicted: str
    count: int
    share: float


@dataclass(frozen=True)
class ConfusionMatrix:
    """Heads and lines (rows are true classes, columns predicted ones) are empty for more than FEW classes."""

    classes: tuple[ClassCounts, ...]
    heads: tuple[str, ...]
    lines: tuple[tuple[MatrixCell, ...], ...]
    mistakes: tuple[Mistake, ...]
    numbered: bool


def confusion_matrix(target: np.ndarray, predicted_class: np.ndarray, labels: tuple[str, ...]) -> ConfusionMatrix:
    """Of true classes (n,) and predicted classes (n,), n at least 1."""
    counts = confusion(target, predicted_class, len(labels))
    true, predicted = counts.sum(1), counts.sum(0)
    classes = tuple(
        ClassCounts(i + 1, short(name), int(true[i]), int(predicted[i]), int(counts[i, i]))
        for i, name in enumerate(labels)
    )
    few = len(labels) <= FEW
    numbered = len(labels) > NAMED or any(len(name) > LONG for name in labels)
    heads = tuple(str(i + 1) if numbered else short(name) for i, name in enumerate(labels)) if few else ()
    shares = counts / np.maximum(true, 1)[:, None]
    lines = tuple(
        tuple(MatrixCell(int(counts[i, j]), float(shares[i, j]), i == j) for j in range(len(labels)))
        for i in range(len(labels) if few else 0)
    )
    return ConfusionMatrix(classes, heads, lines, () if few else _mistakes(counts, shares, classes), numbered)


def _mistakes(counts: np.ndarray, shares: np.ndarray, classes: tuple[ClassCounts, ...]) -> tuple[Mistake, ...]:
    """The commonest, ties in the order of the classes."""
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    rows, columns = np.unravel_index(order, wrong.shape)
    return tuple(
        Mistake(classes[i].name, classes[j].name, int(wrong[i, j]), float(shares[i, j]))
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        if wrong[i, j]
    )
