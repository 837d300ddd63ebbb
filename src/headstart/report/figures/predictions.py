"""What the predictions of one model look like: confusion, reliability, errors, and where it looks.

Figures can be drawn for a light or a dark page. Nothing in them is foreign text.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.analysis.occlusion import Occlusion
from headstart.baselines.measures import Reliability, confusion
from headstart.report.figures.style import DOTS, across, canvas, legend_of
from headstart.report.tables.report_table import ReportTable, text_table
from headstart.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW_CLASSES = 20
"""Classes whose whole matrix can be read."""
NAMED_CLASSES, NAME_LETTERS, BRIEF_LETTERS = 8, 12, 3
"""Classes of which the columns can carry names, characters of such a name, and those of a name that any number of
columns can carry; other columns have letters, which are no names of classes then."""
WHOLE_NAME = 80
"""Characters of the name of a class that a page shows; longer ones are cut."""
LISTED_MISTAKES = 15
"""Mistakes that are listed."""
POINTS = 2_000
"""Points of a scatter at most."""


@dataclass(frozen=True)
class Confusion:
    """Which classes a model takes for which, rows true and columns predicted: of few classes the matrix, else tables.

    rows: (letter, name, cells, recall), a cell being (count, share of the row, whether it is right), recall and
    precision (of each column) being pairs of texts. heads: of the columns. tables: the commonest mistakes, each class.
    """

    caption: str
    rows: tuple[tuple[str, str, tuple[tuple[int, float, bool], ...], tuple[str, str]], ...] = ()
    heads: tuple[str, ...] = ()
    precision: tuple[tuple[str, str], ...] = ()
    lettered: bool = False
    tables: tuple[ReportTable, ...] = ()


def confusion_of(target: np.ndarray, predicted: np.ndarray, labels: tuple[str, ...], split: str = "test") -> Confusion:
    """Of true and predicted classes (n,), n at least 1. split: what they are of, in words."""
    counts = confusion(target, predicted, len(labels))
    right, shares = np.diagonal(counts), counts / np.maximum(counts.sum(1), 1)[:, None]
    names = [short(name, WHOLE_NAME) for name in labels]
    recall, precision = (
        [(f"{a} of {b}", words.percent(a / b) if b else words.NONE) for a, b in zip(right, of, strict=True)]
        for of in (counts.sum(1), counts.sum(0))
    )
    if len(labels) > FEW_CLASSES:
        text = (
            f"There are {len(labels)} classes, too many for a matrix: the commonest mistakes on {split}, each with its "
            "share of the sequences of the true class."
        )
        each = [
            [name, f"{counts[i].sum()}", *(f"{of} ({share})" for of, share in (recall[i], precision[i]))]
            for i, name in enumerate(names)
        ]
        classes = text_table(("class", f"{split} sequences", "recall", "precision"), each, "Each class by itself")
        return Confusion(text, tables=(_mistakes(counts, shares, names), classes))
    longest = max(map(len, labels))
    lettered = longest > (BRIEF_LETTERS if len(labels) > NAMED_CLASSES else NAME_LETTERS)
    rows = tuple(
        (
            ascii_uppercase[i],
            name,
            tuple((int(counts[i, j]), float(shares[i, j]), i == j) for j in range(len(labels))),
            recall[i],
        )
        for i, name in enumerate(names)
    )
    text = (
        f"Each row counts the {split} sequences of a class by the class that was predicted, with the share of the row."
        f"{' Columns have the letters of the rows.' if lettered else ''} Correct predictions are on the diagonal. "
        "Recall: the share of a class that was predicted correctly. Precision: the share of the predictions of a class "
        "that are correct."
    )
    heads = tuple(ascii_uppercase[i] if lettered else name for i, name in enumerate(names))
    return Confusion(text, rows, heads, tuple(precision), lettered)


def _mistakes(counts: np.ndarray, shares: np.ndarray, names: list[str]) -> ReportTable:
    """The commonest, ties in the order of the classes."""
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:LISTED_MISTAKES]
    pairs = [(i, j) for i, j in zip(*(index.tolist() for index in np.unravel_index(order, wrong.shape)), strict=True)]
    lines = [[names[i], names[j], str(wrong[i, j]), words.percent(shares[i, j])] for i, j in pairs if wrong[i, j]]
    return text_table(("true class", "predicted class", "sequences", "share of the class"), lines, names=2)


def reliability_figure(after: Reliability, before: Reliability | None, dark: bool = False) -> Figure:
    """How often the model is right, by how sure it is; below, how many sequences it is that sure of."""
    with canvas(dark, 5.2, 4.6) as (figure, look):
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        upper.plot([0, 1], [0, 1], color=look.quiet, linestyle=DOTS, linewidth=1.2, label="ideal")
        if before is not None:
            _confidence(upper, before, look.colour(1), "s", "before calibration")
        _confidence(upper, after, look.colour(0), "o", "predicted" if before is None else "after calibration")
        upper.set(ylabel="share that was correct", xlim=(0, 1.02), ylim=(-0.04, 1.05))
        bars: dict[str, Any] = {"color": look.colour(0), "alpha": 0.55, "edgecolor": look.paper, "linewidth": 0.6}
        lower.bar(after.edges[:-1], after.count, width=np.diff(after.edges), align="edge", **bars)
        lower.set(xlabel="probability of the predicted class", ylabel="sequences")
        legend_of(figure, upper)
    return figure


def _confidence(axes: Axes, curve: Reliability, colour: str, mark: str, label: str) -> None:
    """A point per bin with examples, its area by how many there are."""
    filled = curve.count > 0
    sizes = 14 + 110 * curve.count[filled] / curve.count.max()
    how: dict[str, Any] = {"color": colour, "marker": mark, "alpha": 0.85, "linewidths": 0, "zorder": 3}
    axes.scatter(curve.confidence[filled], curve.accuracy[filled], s=sizes, label=label, **how)


def errors_figure(target: np.ndarray, predicted: np.ndarray, dark: bool = False) -> Figure:
    """Predicted numbers against true ones, and how the errors are distributed."""
    # Evenly through the order of the rows: no draw, and the same points every time.
    keep = np.unique(np.linspace(0, len(target) - 1, min(POINTS, len(target))).round().astype(int))
    with canvas(dark, 8.4, 3.7) as (figure, look):
        columns = across(figure, 2, 2.6)
        left, right = figure.subplots(2 // columns, columns)
        ends = [float(min(target.min(), predicted.min())), float(max(target.max(), predicted.max()))]
        left.plot(ends, ends, color=look.quiet, linestyle=DOTS, linewidth=1.2)
        left.scatter(target[keep], predicted[keep], s=16, color=look.colour(0), alpha=0.55, linewidths=0)
        left.set(title="predicted against true", xlabel="true number", ylabel="predicted number")
        bars: dict[str, Any] = {"color": look.colour(0), "alpha": 0.7, "edgecolor": look.paper, "linewidth": 0.6}
        right.hist(predicted - target, bins=min(40, max(8, round(len(target) ** 0.5))), **bars)
        right.axvline(0, color=look.quiet, linestyle=DOTS, linewidth=1.2)
        right.set(title="errors", xlabel="predicted number minus true number", ylabel="sequences")
    return figure


def occlusion_figure(occlusion: Occlusion, classes: bool, dark: bool = False) -> Figure:
    """What each window of a sequence is worth to the model."""
    windows = len(occlusion.drop)
    edges, measured = np.linspace(0, 100, windows + 1), np.isfinite(occlusion.error)
    with canvas(dark, 7.6, 2.9) as (figure, look):
        axes = figure.add_subplot()
        bars: dict[str, Any] = {"color": look.colour(0), "alpha": 0.7, "edgecolor": look.paper, "linewidth": 0.8}
        axes.bar(edges[:-1], occlusion.drop, width=100 / windows, align="edge", **bars)
        middle = (edges[:-1] + edges[1:])[measured] / 2
        lines: dict[str, Any] = {"fmt": "none", "elinewidth": 1.0, "capsize": 2}
        axes.errorbar(middle, occlusion.drop[measured], yerr=occlusion.error[measured], ecolor=look.ink, **lines)
        axes.axhline(0, color=look.quiet, linewidth=0.8)
        axes.set(xlabel="place in the sequence (0 % its start, 100 % its end)", xlim=(0, 100))
        axes.set_ylabel(fill(f"{'fall' if classes else 'growth'} of the {occlusion.what}", 24))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f} %")
    return figure
