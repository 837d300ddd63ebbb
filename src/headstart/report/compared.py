"""All arms of a study on all its columns in one figure, with what the paper has beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headstart.report.plots import MARKS, Look, plain, style
from headstart.report.verdicts import metric_of
from headstart.study import words
from headstart.study.results import Results, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 3
"""Rows from which on a figure says more than the table, and columns from which on arms are points over columns."""
FEW_ARMS = 8
"""Arms up to which points at one place can be told apart."""
SHOWN = ("test", "train")


def compared(results: Results, dark: bool = False) -> Figure | None:
    """Test score of every arm on every column, mean and one standard error; train is small, the paper's cell hollow.

    Points over columns where there are three or more, else a row of dots per arm. None while no run is finished, or
    where columns have different scores.
    """
    from matplotlib.figure import Figure

    rows = [row for row in results.table if row.test is not None]
    if not rows or len({row.metric for row in rows}) > 1 or len(rows) < MANY:
        return None
    over_columns = len(results.columns) >= MANY and len(results.arms) <= FEW_ARMS
    with style(dark) as look:
        figure = Figure(figsize=(7.2, 3.6) if over_columns else (7.2, 1.1 + 0.27 * len(rows)))
        axes = figure.add_subplot()
        (_lines if over_columns else _dots)(axes, results, rows, look)
        label = f"test {words.metric(rows[0].metric)}"
        (axes.set_ylabel if over_columns else axes.set_xlabel)(label)
        handles, labels = _legend(axes)
        figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=8.5)
    return figure


def told(results: Results) -> str:
    """What the figure says, in words."""
    paper = "; a hollow mark is the paper's number, of its own data and sizes" if results.paper is not None else ""
    return f"Test score of each arm, mean and one standard error over seeds; small marks are train scores{paper}."


def _legend(axes: Axes) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    first = {label: handle for handle, label in reversed(list(zip(handles, labels, strict=True)))}
    kept = list(dict.fromkeys(labels))
    return [first[label] for label in kept], kept


def _cells(results: Results, row: Row) -> Iterator[tuple[str, float]]:
    """(quantity, value) of the paper's cells of an arm on a column; none where its score is another than ours."""
    paper = results.paper
    if paper is None or metric_of(paper, row.column) != row.metric:
        return
    for line in paper.rows:
        cell = line.cells.get(row.column)
        if line.arm == row.arm and line.quantity in SHOWN and cell is not None and cell.value is not None:
            yield line.quantity, cell.value


def _lines(axes: Axes, results: Results, rows: list[Row], look: Look) -> None:
    places = {column: place for place, column in enumerate(results.columns)}
    for number, arm in enumerate(results.arms):
        own = [row for row in rows if row.arm == arm]
        shift = 0.06 * (number - (len(results.arms) - 1) / 2)
        x = [places[row.column] + shift for row in own]
        style_of = {"color": look.colour(number), "marker": MARKS[number % len(MARKS)]}
        for stem in dict.fromkeys(stem_of(row.column) for row in own):
            of = [(at, row) for at, row in zip(x, own, strict=True) if stem_of(row.column) == stem]
            axes.errorbar([at for at, _ in of], [row.test.mean for _, row in of if row.test],
                          [_error(row) for _, row in of], markersize=5, capsize=2.5, label=plain(arm), linewidth=1.3,
                          **style_of)  # type: ignore[arg-type]
        for at, row in zip(x, own, strict=True):
            _beside(axes, results, row, at, False, look.colour(number), MARKS[number % len(MARKS)])
    axes.set_xticks(range(len(places)), [plain(c) for c in places], rotation=20 if len(places) > 4 else 0)


def _dots(axes: Axes, results: Results, rows: list[Row], look: Look) -> None:
    labels = []
    for place, row in enumerate(rows):
        number = results.arms.index(row.arm)
        mark = MARKS[number % len(MARKS)]
        axes.errorbar([row.test.mean if row.test else 0.0], [place], xerr=[_error(row)], color=look.colour(number),
                      marker=mark, markersize=5.5, capsize=2.5, linestyle="none", label="test")
        _beside(axes, results, row, place, True, look.colour(number), mark)
        labels.append(plain(row.arm if len(results.columns) == 1 else f"{row.column}: {row.arm}"))
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x")


def stem_of(column: str) -> str:
    """`image` of `image_5` and `image_50`: columns of one stem are one task at several sizes, and joined by a line."""
    found = re.fullmatch(r"(.*?)_?\d.*", column)
    return found[1] if found else column


def _error(row: Row) -> float:
    return (row.test.sem if row.test else None) or 0.0


def _beside(axes: Axes, results: Results, row: Row, at: float, level: bool, colour: str, mark: str) -> None:
    """Train as a small mark, the paper's cells as hollow ones."""
    train = row.estimate("train")
    if train is not None:
        point = ([train.mean], [at]) if level else ([at], [train.mean])
        axes.plot(*point, color=colour, marker=mark, markersize=2.5, linestyle="none", label="train")
    for quantity, value in _cells(results, row):
        point = ([value], [at]) if level else ([at], [value])
        axes.plot(*point, color=colour, marker=mark, markersize=7 if quantity == "test" else 4, linestyle="none",
                  markerfacecolor="none", label="the paper's")
