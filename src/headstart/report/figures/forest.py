"""A forest plot: differences with their intervals, one to a line, beside the effect that a paper prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headstart import words
from headstart.report.figures.style import Look, canvas, entry, legend, plain
from headstart.statistics import Difference
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_HEIGHT, FOREST_FRAME = 0.27, 0.75
"""Inches of a line, and of the axis with its title."""
FOREST_LINES = 40
"""Lines that a page has room for."""
BRIEF_NAME = 24
"""Characters of an arm's name that a line has room for."""
LineSide = Literal["above", "below", "open", "withdrawn"]
"""Where a line lies of 0, what is open, and what says nothing: each has its colour."""
SIDE_COLOURS: dict[bool, dict[LineSide, str]] = {
    False: {"above": "#1a7f37", "below": "#cf222e", "open": "#6e7781", "withdrawn": "#9a6700"},
    True: {"above": "#3fb950", "below": "#ff7b72", "open": "#9aa7b1", "withdrawn": "#d29922"},
}
"""By light and dark page."""
STATE_NAMES: dict[LineSide, str] = {
    "above": "holds",
    "below": "contradicts",
    "open": "undecided",
    "withdrawn": "withdrawn",
}
"""What a colour means where it is that of a verdict."""


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
    state: LineSide | None = None

    @property
    def side(self) -> LineSide:
        """Which of the colours it has."""
        if self.state:
            return self.state
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "open"
        return "above" if self.mean > 0 else "below"


def forest(
    lines: Sequence[ForestLine],
    axis: str,
    dark: bool = False,
    width: float = 7.2,
    line: float = LINE_HEIGHT,
    numbers: bool = True,
) -> Figure | None:
    """The lines from top to bottom; None without any.

    axis: what is drawn along it. width: of the figure, in inches. line: height of a line, in inches; letters are not
    larger than it allows. numbers: whether they stand beside the lines, for which a narrow figure has no room.
    """
    if not lines:
        return None
    with canvas(dark, width, FOREST_FRAME) as (figure, look):
        axes, colours, points = figure.add_subplot(), SIDE_COLOURS[dark], min(8.5, 50 * line)
        size = (0.65 if numbers else 0.5) * points
        places, heads = _places(lines)
        for y, each in zip(places, lines, strict=True):
            colour = colours[each.side]
            if each.low is not None and each.high is not None:
                axes.plot([each.low, each.high], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt")
            point: dict[str, Any] = {"color": colour, "markerfacecolor": look.paper if each.hollow else colour}
            axes.plot([each.mean], [y], "o", markeredgewidth=1.4, markersize=size, **point)
            if each.paper is not None:
                axes.plot([each.paper], [y], "|", color=look.ink, markersize=1.2 * points, markeredgewidth=1.8)
        axes.axvline(0.0, color=look.quiet, linewidth=0.8, zorder=0)
        axes.set_yticks(places, [plain(each.name) for each in lines], fontsize=points)
        axes.set_ylim(places[-1] + 0.6, -0.6)
        left = axes.get_yaxis_transform()
        for y, group in heads:
            bold: dict[str, Any] = {"fontsize": points, "fontweight": "bold", "ha": "right", "va": "center"}
            axes.text(-0.012, y, plain(group), transform=left, **bold)
        for y, each in zip(places, lines if numbers else (), strict=numbers):
            axes.text(1.015, y, _numbers(each), transform=left, fontsize=points - 1, va="center", color=look.ink)
        axes.set_xlabel(plain(axis), fontsize=points)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=points)
        figure.set_figheight(FOREST_FRAME + line * (places[-1] + 1))
        _legend(figure, lines, look, colours)
    return figure


def _places(lines: Sequence[ForestLine]) -> tuple[list[float], list[tuple[float, str]]]:
    """Where each line stands, counted in lines from the top, and each group's heading."""
    y, places, heads, before = 0.0, [], [], ""
    for line in lines:
        if line.group and line.group != before:
            heads.append((y, line.group))
            y += 1
        places.append(y)
        y += 1
        before = line.group
    return places, heads


def _legend(figure: Figure, lines: Iterable[ForestLine], look: Look, colours: Mapping[LineSide, str]) -> None:
    """What the colours of verdicts, a tick and a hollow mark mean, where there are any."""
    lines = list(lines)
    states = [state for state in STATE_NAMES if any(line.state == state for line in lines)]
    marks = [entry(STATE_NAMES[state], marker="o", color=colours[state], linestyle="none") for state in states]
    if any(line.paper is not None for line in lines):
        marks.append(
            entry("the paper's", marker="|", color=look.ink, linestyle="none", markersize=9, markeredgewidth=1.8)
        )
    if any(line.hollow for line in lines):
        marks.append(
            entry("preliminary", marker="o", color=colours["open"], markerfacecolor=look.paper, linestyle="none")
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
    if not lines or len(lines) > FOREST_LINES:
        return None
    base = brief_names(results)[str(results.against)]
    return forest(lines, f"difference in test {_metric(results)} from {base}", dark)


def brief_names(results: Results) -> dict[str, str]:
    """The arms as the paper prints them; a long name without what it ends with in brackets, where that tells no arms
    apart."""
    names = {arm: results.printed(arm) for arm in results.arms}
    brief = {arm: re.sub(r" *\([^()]*\)$", "", name) if len(name) > BRIEF_NAME else name for arm, name in names.items()}
    return brief if len(set(brief.values())) == len(set(names.values())) else names


def gain_lines(results: Results) -> list[ForestLine]:
    """A line for each arm and column with a difference, by column."""
    lines, names = [], brief_names(results)
    for column in results.columns:
        for row in results.in_column(column):
            gap = row.difference
            if gap is not None and row.greater:
                group = results.label(column) if len(results.columns) > 1 else ""
                lines.append(_line(results, row, gap, group, names[row.arm]))
    return lines


def _line(results: Results, row: Row, gap: Difference, group: str, name: str) -> ForestLine:
    low, high = (None, None) if gap.constant else (gap.low, gap.high)
    return ForestLine(
        group,
        name,
        gap.mean,
        low,
        high,
        f"on {gap.n} of {gap.n}" if gap.constant else f"n {gap.n}",
        effect_of_paper(results, row.arm, str(results.against), row.column),
        state="withdrawn" if row.withdrawn else None,
    )


def effect_of_paper(results: Results, arm: str, other: str, column: str) -> float | None:
    """What the paper prints of one arm less the other on test; None where it prints not both, or other scores."""
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
    gone = "; brown is withdrawn" if any(line.state == "withdrawn" for line in lines) else ""
    base = results.printed(str(results.against))
    every = [row.difference for row in results.table if row.difference is not None]
    over = "seeds and test examples" if any(gap.both for gap in every) else "seeds alone"
    return f"Test {_metric(results)} of each arm less that of {base}, with 95 % intervals over {over}{paper}{gone}."


def _metric(results: Results) -> str:
    return words.listed(list(dict.fromkeys(words.metric(row.metric) for row in results.table)))
