"""All arms of a study on all its columns in one figure, with what the paper has beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headstart.report.plots import MARKS, Look, plain, style
from headstart.study import words
from headstart.study.results import Results, Row
from headstart.study.statistics import Estimate

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
    wide = len(results.columns) >= MANY and len(results.arms) <= FEW_ARMS
    with style(dark) as look:
        figure = Figure(figsize=(7.2, 3.6) if wide else (7.2, 1.1 + 0.27 * len(rows)))
        axes = figure.add_subplot()
        (_lines if wide else _dots)(axes, results, rows, look)
        label = f"test {words.metric(rows[0].metric)}"
        (axes.set_ylabel if wide else axes.set_xlabel)(label)
        legend(figure, axes)
    return figure


def told(results: Results) -> str:
    """What the figure says, in words: only of marks that are drawn."""
    rows = [row for row in results.table if row.test is not None]
    train = "; small marks are train scores" if any(row.estimate("train") for row in rows) else ""
    paper = "; a hollow mark is the paper's number, of its own data and sizes"
    paper = paper if any(True for row in rows for _ in _cells(results, row)) else ""
    return f"Test score of each arm, mean and one standard error over seeds{train}{paper}."


def legend(figure: Figure, axes: Axes) -> None:
    """What is drawn, each label once, over the figure."""
    handles, labels = axes.get_legend_handles_labels()
    first = {label: handle for handle, label in reversed(list(zip(handles, labels, strict=True)))}
    kept = list(dict.fromkeys(labels))
    figure.legend([first[label] for label in kept], kept, loc="outside upper left", ncols=3, fontsize=8.5)


def _cells(results: Results, row: Row) -> Iterator[tuple[str, float]]:
    """(quantity, value) of the paper's cells of an arm on a column; none where its score is another than ours."""
    paper = results.paper
    if paper is None or paper.metric_of(row.column) != row.metric:
        return
    for line in paper.rows:
        cell = line.cells.get(row.column)
        if line.arm == row.arm and line.quantity in SHOWN and cell is not None and cell.value is not None:
            yield line.quantity, cell.value


def _lines(axes: Axes, results: Results, rows: list[Row], look: Look) -> None:
    found: dict[str, dict[str, Estimate]] = {arm: {} for arm in results.arms}
    for row in rows:
        if row.test is not None:
            found[row.arm][row.column] = row.test
    over_columns(axes, results, found, look)
    for row in rows:
        number = results.arms.index(row.arm)
        _beside(
            axes,
            results,
            row,
            _place(results, row.arm, row.column),
            False,
            look.colour(number),
            MARKS[number % len(MARKS)],
        )


def over_columns(axes: Axes, results: Results, found: Mapping[str, Mapping[str, Estimate]], look: Look) -> None:
    """Points of each arm over columns with their standard errors; one task at several sizes is one line."""
    for arm, of in found.items():
        number = results.arms.index(arm)
        marked: dict[str, Any] = {"color": look.colour(number), "marker": MARKS[number % len(MARKS)]}
        for stem in dict.fromkeys(stem_of(column) for column in of):
            line = {column: value for column, value in of.items() if stem_of(column) == stem}
            axes.errorbar(
                [_place(results, arm, column) for column in line],
                [value.mean for value in line.values()],
                [value.sem or 0.0 for value in line.values()],
                markersize=5,
                capsize=2.5,
                label=plain(arm),
                linewidth=1.3,
                **marked,
            )
    axes.set_xticks(
        range(len(results.columns)),
        [plain(column) for column in results.columns],
        rotation=20 if len(results.columns) > 4 else 0,
    )


def _place(results: Results, arm: str, column: str) -> float:
    """Where an arm stands on a column: arms a little apart, so that their errors do not hide each other."""
    return results.columns.index(column) + 0.06 * (results.arms.index(arm) - (len(results.arms) - 1) / 2)


def _dots(axes: Axes, results: Results, rows: list[Row], look: Look) -> None:
    labels = []
    for place, row in enumerate(rows):
        number = results.arms.index(row.arm)
        mark = MARKS[number % len(MARKS)]
        axes.errorbar(
            [row.test.mean if row.test else 0.0],
            [place],
            xerr=[_error(row)],
            color=look.colour(number),
            marker=mark,
            markersize=5.5,
            capsize=2.5,
            linestyle="none",
            label="test",
        )
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
        axes.plot(
            *point,
            color=colour,
            marker=mark,
            markersize=7 if quantity == "test" else 4,
            linestyle="none",
            markerfacecolor="none",
            label="the paper's",
        )
