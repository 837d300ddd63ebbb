"""All arms of a study in one figure: scores by column, gains over another arm, averages; the paper's beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.figures.style import Look, canvas, folded, legend_of, name_ticks, plain, shortened
from headstart.statistics import Estimate, estimate
from headstart.study.language.papers import AVERAGE
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY_ROWS = 3
"""Rows from which on a figure says more than the table, and columns from which on arms are points over columns."""
FEW_ARMS = 8
"""Arms up to which points at one position can be told apart."""
LINED_ROWS = 40
"""Rows of dots up to which each has its line of text in a figure of `HIGHEST` inches."""
HIGHEST, FRAME = 9.0, 1.1
"""Inches of the highest figure of rows of dots, and those of its axis and legend."""
LISTED_VALUES = 8
"""Numbers up to which a caption lists them."""


@dataclass(frozen=True)
class Mark:
    """One number of an arm: where it stands, and what stands beside it. paper: (value, size of its mark)."""

    arm: str
    label: str
    value: Estimate
    paper: tuple[tuple[float, float], ...] = ()


def compared(results: Results, dark: bool = False) -> Figure | None:
    """Test score of every arm on every column, mean and one standard error; the paper's cell is hollow.

    Points over columns where there are three or more, else a row of dots per arm. None while no run is finished, or
    where columns have different scores.
    """
    rows = [row for row in results.table if row.test is not None]
    if not rows or len({row.metric for row in rows}) > 1 or len(rows) < MANY_ROWS:
        return None
    wide = len(results.columns) >= MANY_ROWS and (len(results.arms) <= FEW_ARMS or len(rows) > LINED_ROWS)
    marks = _scores(results)
    score = f"test {words.metric(rows[0].metric)}"
    with canvas(dark, 7.2, 3.6 if wide else FRAME) as (figure, look):
        axes = figure.add_subplot()
        if wide:
            _over_columns(axes, results, marks, look)
            axes.set_ylabel(score)
        else:
            names = [mark.arm if len(results.columns) == 1 else f"{mark.label}: {mark.arm}" for mark in marks]
            _dots(axes, results, marks, names, look)
            axes.set_xlabel(score)
        legend_of(figure, axes)
    return figure


def compared_caption(results: Results) -> str:
    """What the figure shows, in words: only of marks that are drawn."""
    marks = _scores(results)
    paper = "; a hollow mark is the paper's number, of its own data and sizes"
    paper = paper if any(mark.paper for mark in marks) else ""
    return f"Test score of each arm, mean and one standard error over seeds{paper}."


def gains(results: Results, dark: bool = False) -> Figure | None:
    """Relative gain of each arm over the one that it is compared with, by column, in percent of that one's score.

    None where there is none: nothing to compare with, or a score of which less is better.
    """
    marks = _gains(results)
    if not marks:
        return None
    with canvas(dark, 7.2, 3.6) as (figure, look):
        axes = figure.add_subplot()
        axes.axhline(0.0, color=look.quiet, linewidth=0.8)
        _over_columns(axes, results, marks, look)
        metric = words.listed(list(dict.fromkeys(words.metric(row.metric) for row in results.table)))
        axes.set_ylabel(folded(plain(f"gain in test {metric} over {results.against} (%)"), 2.6, 9.0))
        legend_of(figure, axes)
    return figure


def gains_caption(results: Results) -> str:
    """What the figure of gains shows, in words, with its numbers where they are few."""
    marks = _gains(results)
    each = [
        f"{arm} {words.listed([f'{_percent(mark.value)} on {mark.label}' for mark in marks if mark.arm == arm])}"
        for arm in dict.fromkeys(mark.arm for mark in marks)
    ]
    numbers = f": {'; '.join(each)}" if len(marks) <= LISTED_VALUES else ""
    seeds = sorted({mark.value.n for mark in marks}) or [0]
    n = " to ".join(dict.fromkeys((str(seeds[0]), str(seeds[-1]))))
    return (
        f"Gain in test score over {results.against}, in percent of its score at the same seed: mean and one "
        f"standard error over n = {n} paired seeds{numbers}."
    )


def averages(results: Results, dark: bool = False) -> Figure | None:
    """Average over columns of each arm, mean and one standard error over seeds; the paper's is hollow.

    None where fewer than two arms have one.
    """
    marks = _averages(results)
    if len(marks) < 2:
        return None
    with canvas(dark, 7.2, FRAME) as (figure, look):
        axes = figure.add_subplot()
        _dots(axes, results, marks, [f"{mark.label}: {mark.arm}" if mark.label else mark.arm for mark in marks], look)
        axes.set_xlabel(f"average test {words.metric(results.table[0].metric)}")
        legend_of(figure, axes)
    return figure


def averages_caption(results: Results) -> str:
    """What the figure of averages shows, in words."""
    numbers = sorted({average.columns for average in results.averages if average.value is not None})
    over = f"{numbers[0]} to {numbers[-1]} columns" if len(numbers) > 1 else words.many(numbers[0], "column")
    paper = "; a hollow mark is the paper's average, over its own columns, data and sizes"
    paper = paper if any(mark.paper for mark in _averages(results)) else ""
    return f"Test score of each arm, averaged over {over}: mean and one standard error over seeds{paper}."


def _scores(results: Results) -> list[Mark]:
    return [
        Mark(row.arm, row.column, row.test, tuple(_cells(results, row)))
        for row in results.table
        if row.test is not None
    ]


def _cells(results: Results, row: Row) -> Iterable[tuple[float, float]]:
    """The paper's cells of test of an arm on a column; none where its score is another than ours."""
    paper = results.paper
    if paper is None or paper.metric_of(row.column) != row.metric:
        return
    for line in paper.rows:
        cell = line.cells.get(row.column)
        if (line.arm, line.quantity) == (row.arm, "test") and cell is not None and cell.value is not None:
            yield cell.value, 7.0


def _gains(results: Results) -> list[Mark]:
    """Gain of each row over the arm that it is compared with, in percent; over seeds that both have."""
    marks = []
    for arm in results.arms:
        for row in (row for row in results.table if row.arm == arm):
            base = results.row(results.against, row.column) if results.against else None
            if base is None or base is row or not row.greater or base.metric != row.metric:
                continue
            ours, theirs = row.by_seed(), base.by_seed()
            gain = estimate(100 * (ours[s] - theirs[s]) / theirs[s] for s in ours if theirs.get(s, 0.0) > 0)
            marks += [Mark(arm, row.column, gain)] if gain is not None else []
    return marks


def _percent(value: Estimate) -> str:
    sem = f" ± {value.sem:.1f}" if value.sem is not None else ""
    return f"{value.mean:+.1f}{sem} %".replace("-", words.MINUS)


def _averages(results: Results) -> list[Mark]:
    """The paper's average stands beside ours where it is of the same score and over all columns."""
    paper, marks = results.paper, []
    for average in results.averages:
        fits = paper is not None and not average.over and paper.metric_of(AVERAGE) == results.table[0].metric
        cell = paper.cell(average.arm, AVERAGE) if paper is not None and fits else None
        beside = ((cell.value, 7.0),) if cell is not None and cell.value is not None else ()
        marks += [Mark(average.arm, average.over, average.value, beside)] if average.value is not None else []
    return marks


def _over_columns(axes: Axes, results: Results, marks: Sequence[Mark], look: Look) -> None:
    """Points of each arm over columns with their standard errors; one task at several sizes is one line."""
    for index, arm in enumerate(results.arms):
        # Arms stand a little apart, so that their errors do not hide each other.
        shift = min(0.06, 0.8 / len(results.arms)) * (index - (len(results.arms) - 1) / 2)
        at = {column: x + shift for x, column in enumerate(results.columns)}
        points = [mark for mark in marks if mark.arm == arm]
        for stem in dict.fromkeys(stem_of(mark.label) for mark in points):
            line = [mark for mark in points if stem_of(mark.label) == stem]
            axes.errorbar(
                [at[mark.label] for mark in line],
                [mark.value.mean for mark in line],
                [mark.value.sem or 0.0 for mark in line],
                markersize=5,
                capsize=2.5,
                label=plain(arm),
                linewidth=1.3,
                **look.marked(index),
            )
        for mark in points:
            _beside(axes, mark, lambda value, x=at[mark.label]: ([x], [value]), look.marked(index))
    name_ticks(axes, range(len(results.columns)), results.columns)


def _dots(axes: Axes, results: Results, marks: Sequence[Mark], names: Sequence[str], look: Look) -> None:
    """One row per mark, from top to bottom; names are shortened to one line where the figure would be too high."""
    from matplotlib import rcParams

    for y, mark in enumerate(marks):
        how = look.marked(results.arms.index(mark.arm))
        axes.errorbar(
            [mark.value.mean],
            [y],
            xerr=[mark.value.sem or 0.0],
            markersize=5.5,
            capsize=2.5,
            linestyle="none",
            label="test",
            **how,
        )
        _beside(axes, mark, lambda value, y=y: ([value], [y]), how)
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes are drawn in a figure"
    width, points = 0.42 * figure.get_figwidth(), rcParams["font.size"]
    lines = [folded(plain(name), width, points) for name in names]
    row = 0.3 + 0.16 * max(line.count("\n") for line in lines)
    if row * len(lines) > HIGHEST - FRAME:
        lines = shortened([plain(name) for name in names], width, points)
        row = max(1.3 * points / 72, min(0.2, (HIGHEST - FRAME) / len(lines)))
    figure.set_figheight(figure.get_figheight() + row * len(lines))
    axes.set_yticks(range(len(marks)), lines)
    axes.set_ylim(len(marks) - 0.4, -0.6)
    axes.grid(axis="x")


def _beside(axes: Axes, mark: Mark, point: Any, how: dict[str, Any]) -> None:
    """The paper's cells as hollow marks."""
    for value, size in mark.paper:
        axes.plot(*point(value), markersize=size, linestyle="none", markerfacecolor="none", label="the paper's", **how)


def stem_of(column: str) -> str:
    """`image` of `image_5` and `image_50`: columns of one stem are one task at several sizes, and joined by a line."""
    match = re.fullmatch(r"(.*?)_?\d.*", column)
    return match[1] if match else column
