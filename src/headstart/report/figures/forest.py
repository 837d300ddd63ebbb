"""A forest plot: differences with their intervals, one to a line, beside the effect that a paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headstart import words
from headstart.report.figures.style import Look, canvas, entry, folded, legend, plain
from headstart.statistics import Difference
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE, FOREST_FRAME = 0.27, 0.75
"""Inches of a line, and of the axis with its title."""
MOST_LINES = 40
"""Lines that a page has room for."""
ABOVE, BELOW, OPEN, GONE = "above 0", "below 0", "open", "withdrawn"
COLOURS = {
    False: {ABOVE: "#1a7f37", BELOW: "#cf222e", OPEN: "#6e7781", GONE: "#9a6700"},
    True: {ABOVE: "#3fb950", BELOW: "#ff7b72", OPEN: "#9aa7b1", GONE: "#d29922"},
}
"""By light and dark page."""


@dataclass(frozen=True)
class ForestLine:
    """One difference: its group (a heading where it changes), name, numbers, and a word on what it is worth.

    paper: the effect that the paper prints, in the same unit. hollow: it is no headline. state: one of the colours'.
    """

    group: str
    name: str
    mean: float
    low: float | None
    high: float | None
    note: str = ""
    paper: float | None = None
    hollow: bool = False
    state: str = ""

    @property
    def side(self) -> str:
        """Which of the colours it has."""
        if self.state:
            return self.state
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return OPEN
        return ABOVE if self.mean > 0 else BELOW


def forest(lines: Sequence[ForestLine], axis: str, dark: bool = False, width: float = 7.2) -> Figure | None:
    """The lines from top to bottom; None without any. axis: what is drawn along it."""
    if not lines:
        return None
    with canvas(dark, width, FOREST_FRAME) as (figure, look):
        axes, colours, points = figure.add_subplot(), COLOURS[dark], 8.5
        y, places = 0.0, []
        heads: list[tuple[float, str]] = []
        for before, line in zip([None, *lines], lines, strict=False):
            if line.group and (before is None or before.group != line.group):
                heads.append((y, line.group))
                y += 1
            places.append(y)
            y += 1
        for place, line in zip(places, lines, strict=True):
            colour = colours[line.side]
            if line.low is not None and line.high is not None:
                axes.plot([line.low, line.high], [place, place], color=colour, linewidth=1.8, solid_capstyle="butt")
            fill = look.paper if line.hollow else colour
            axes.plot(
                [line.mean], [place], "o", color=colour, markerfacecolor=fill, markeredgewidth=1.4, markersize=5.5
            )
            if line.paper is not None:
                axes.plot([line.paper], [place], "|", color=look.ink, markersize=10, markeredgewidth=1.8)
        axes.axvline(0.0, color=look.quiet, linewidth=0.8, zorder=0)
        room = 0.34 * figure.get_figwidth()
        names = [folded(plain(line.name), room, points).replace("\n", " ") for line in lines]
        axes.set_yticks(places, names, fontsize=points)
        axes.set_ylim(y - 0.4, -0.6)
        left = axes.get_yaxis_transform()
        for place, group in heads:
            axes.text(
                -0.012, place, plain(group), transform=left, fontsize=points, fontweight="bold", ha="right", va="center"
            )
        for place, line in zip(places, lines, strict=True):
            axes.text(1.015, place, _numbers(line), transform=left, fontsize=points - 1, va="center", color=look.ink)
        axes.set_xlabel(plain(axis), fontsize=points)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        figure.set_figheight(FOREST_FRAME + LINE * y)
        _legend(figure, lines, look, colours)
    return figure


def _legend(figure: Figure, lines: Iterable[ForestLine], look: Look, colours: dict[str, str]) -> None:
    """What a tick and a hollow mark mean, where there are any."""
    lines = list(lines)
    marks = []
    if any(line.paper is not None for line in lines):
        marks.append(
            entry("the paper's", marker="|", color=look.ink, linestyle="none", markersize=9, markeredgewidth=1.8)
        )
    if any(line.hollow for line in lines):
        marks.append(
            entry("preliminary", marker="o", color=colours[OPEN], markerfacecolor=look.paper, linestyle="none")
        )
    if marks:
        legend(figure, marks)


def _numbers(line: ForestLine) -> str:
    """`+0.070 [0.055, 0.084]`, then the note."""
    gap = words.signed(line.mean)
    if line.low is not None and line.high is not None:
        ends = ", ".join(words.score(end).replace("-", words.MINUS) for end in (line.low, line.high))
        gap = f"{gap} [{ends}]"
    return "  ".join(filter(None, [gap, line.note]))


def gains_over(results: Results, dark: bool = False) -> Figure | None:
    """What each arm has more than the one that it is compared with, on test; None where nothing is compared."""
    lines = gain_lines(results)
    if not lines or len(lines) > MOST_LINES:
        return None
    return forest(lines, f"difference in test {_metric(results)} from {words.printed_arm(str(results.against))}", dark)


def gain_lines(results: Results) -> list[ForestLine]:
    """A line for each arm and column with a difference, by column."""
    lines = []
    for column in results.columns:
        for row in results.in_column(column):
            gap = row.difference
            if gap is not None and row.greater:
                group = results.label(column) if len(results.columns) > 1 else ""
                lines.append(_line(results, row, gap, group))
    return lines


def _line(results: Results, row: Row, gap: Difference, group: str) -> ForestLine:
    return ForestLine(
        group,
        words.printed_arm(row.arm),
        gap.mean,
        gap.low,
        gap.high,
        f"n {gap.n}",
        effect_of_paper(results, row.arm, str(results.against), row.column),
        state=GONE if row.hardly_mixes or (row.base is not None and row.base.hardly_mixes) else "",
    )


def effect_of_paper(results: Results, arm: str, other: str, column: str) -> float | None:
    """What the paper prints of one arm less the other on test; None where it prints one of them not, or other scores."""
    paper, row = results.paper, results.row(arm, column)
    if paper is None or row is None or row.stand_in or paper.metric_of(column) != row.metric:
        return None
    base = results.axes.get(column, (column, {}))[0]
    values = [cell.value if (cell := paper.cell(name, base)) is not None else None for name in (arm, other)]
    return None if values[0] is None or values[1] is None else values[0] - values[1]


def gains_over_caption(results: Results) -> str:
    """What the figure shows, in words."""
    lines = gain_lines(results)
    paper = (
        "; ticks are the paper's, of its own data and sizes" if any(line.paper is not None for line in lines) else ""
    )
    gone = "; brown is withdrawn" if any(line.state == GONE for line in lines) else ""
    return (
        f"Test {_metric(results)} of each arm less that of {words.printed_arm(str(results.against))}, with 95 % intervals over "
        f"seeds{paper}{gone}."
    )


def _metric(results: Results) -> str:
    return words.listed(list(dict.fromkeys(words.metric(row.metric) for row in results.table)))
