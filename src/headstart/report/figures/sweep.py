"""The sweep of a study: scores by setting, as a figure with one sentence on what it shows; and test scores along an
axis that nothing is chosen over: accuracy against width, or against the share of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.figures.style import (
    DASHES,
    DOTS,
    Look,
    across,
    beside,
    canvas,
    dashed,
    entry,
    legend,
    name_ticks,
    plain,
)
from headstart.report.figures.trained import file_name
from headstart.report.tables.scores import ON_VALIDATION
from headstart.statistics import Estimate
from headstart.study.results.results import Results
from headstart.study.results.rows import Point, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.study.language.spec import MarkSpec


def swept(results: Results, column: str) -> list[str]:
    """Settings with at least two numeric values in some arm of a column, in the study's order."""
    points = [[point.settings for point in row.points] for row in results.in_column(column)]
    names = dict.fromkeys([*results.choose, *(name for row in points for settings in row for name in settings)])
    out = []
    for name in names:
        values = [[settings[name] for settings in row if name in settings] for row in points]
        # Tables and lists can be axes too; they have no place on a scale.
        numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for row in values for x in row)
        if numeric and any(len(set(row)) > 1 for row in values):
            out.append(name)
    return out


def best_points(row: Row, name: str) -> dict[float, Point]:
    """Value of a setting -> the point with the best mean validation score at it (other settings at their
    best), diverged ones only where nothing else is there."""
    sign = 1 if row.greater else -1

    def rank(point: Point) -> tuple[bool, float]:
        return point.status != "diverged", sign * point.val.mean if point.val else float("-inf")

    out: dict[float, Point] = {}
    for point in row.points:
        if name in point.settings:
            value = float(point.settings[name])
            if value not in out or rank(point) > rank(out[value]):
                out[value] = point
    return dict(sorted(out.items()))


def sweep(
    results: Results, column: str, dark: bool = False, test: bool = False, mark: MarkSpec | None = None
) -> Figure | None:
    """Validation score by each swept setting, with standard errors; the chosen value is ringed.

    `test` adds a panel of the same points on test, `mark` a line at a value. None where nothing was swept.
    """
    rows = results.in_column(column)
    names = [n for n in swept(results, column) if any(p.val for row in rows for p in best_points(row, n).values())]
    if not names:
        return None
    panels = [(name, split) for name in names for split in (("val", "test") if test else ("val",))]
    with canvas(dark, max(5.2, 3.9 * len(panels)), 3.5) as (figure, look):
        columns = across(figure, len(panels), 2.4)
        for number, (name, split) in enumerate(panels, start=1):
            rows_of = math.ceil(len(panels) / columns)
            axes = figure.add_subplot(rows_of, columns, number, sharey=figure.axes[-1] if split == "test" else None)
            _panel(axes, results, column, name, split, look)
            if mark is not None and mark.setting == name and marked(results, column, mark):
                axes.axvline(mark.value, color=look.quiet, linestyle=DOTS, linewidth=1.2, zorder=0)
        handles = _handles(results, rows, names, look)
        if mark is not None and marked(results, column, mark):
            handles.append(dashed(look, mark.says, DOTS))
        legend(figure, handles, loc="outside lower left")
    return figure


def marked(results: Results, column: str, mark: MarkSpec) -> bool:
    """The marked value lies within what was swept on a column."""
    if mark.setting not in swept(results, column):
        return False
    values = [v for row in results.in_column(column) for v in best_points(row, mark.setting)]
    return min(values) <= mark.value <= max(values)


def sweep_caption(results: Results, column: str, test: bool, mark: MarkSpec | None) -> str:
    """What the figure shows, in words."""
    parts = [
        sweep_sentence(results, column),
        "Points are means over seeds with one standard error; the chosen value is ringed.",
        ON_VALIDATION if test else "",
    ]
    if mark is not None and marked(results, column, mark):
        label = results.names.get(mark.setting, mark.setting)
        parts.append(f"The dotted line, at {label} {words.plain(mark.value)}, is {mark.says.rstrip('.')}.")
    return " ".join(filter(None, parts))


def _handles(results: Results, rows: list[Row], names: list[str], look: Look) -> list[Any]:
    """Arms by colour and mark; dashes, where an arm has no such setting."""
    rows = [row for row in rows if row.val is not None]
    out = [entry(row.arm, **{**look.marked(results.arms.index(row.arm)), "markersize": 5.5}) for row in rows]
    if any(not best_points(row, name) for row in rows for name in names):
        out.append(dashed(look, "without this setting"))
    if any(p.status == "diverged" for row in rows for name in names for p in best_points(row, name).values()):
        cross = {"linestyle": "none", "marker": "x", "markersize": 7, "markeredgewidth": 2}
        out.append(entry("diverged", color=look.quiet, **cross))
    return out


def _panel(axes: Axes, results: Results, column: str, name: str, split: str, look: Look) -> None:
    rows = results.in_column(column)
    values = sorted({v for row in rows for v in best_points(row, name)})
    log = values[0] > 0 and values[-1] / values[0] >= 4
    axes.set_xlabel(plain(results.names.get(name, name)))
    axes.set_ylabel(f"{split} {words.metric(rows[0].metric)}")
    for row in rows:
        arm = results.arms.index(row.arm)
        _line(axes, row, name, split, beside(values, arm, len(results.arms), log), look.marked(arm))
    if log:
        axes.set_xscale("log")
    name_ticks(axes, values, [words.plain(v) for v in values])
    axes.minorticks_off()


def _line(axes: Axes, row: Row, name: str, split: str, at: Mapping[float, float], how: dict[str, Any]) -> None:
    def score(item: Point | Row) -> Estimate | None:
        return item.test if split == "test" else item.val

    points, single = best_points(row, name), score(row)
    if not points:
        if single is not None:
            axes.axhline(single.mean, color=how["color"], linestyle=DASHES, linewidth=1.2)
        return
    sound = {v: e for v, p in points.items() if (e := score(p)) is not None and p.status != "diverged"}
    means, errors = [e.mean for e in sound.values()], [e.sem or 0.0 for e in sound.values()]
    axes.errorbar([at[v] for v in sound], means, yerr=errors, markersize=5.5, capsize=2.5, elinewidth=1.2, **how)
    chosen = row.chosen.get(name)
    if chosen is not None and float(chosen) in sound:
        ring: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "markeredgewidth": 1.4}
        axes.plot([at[float(chosen)]], [sound[float(chosen)].mean], markeredgecolor=how["color"], **ring)
    lost = [at[v] for v in points if v not in sound and points[v].status == "diverged"]
    if lost:
        cross = {"color": how["color"], "linestyle": "none", "marker": "x", "markersize": 7, "markeredgewidth": 2}
        axes.plot(lost, [0.04] * len(lost), transform=axes.get_xaxis_transform(), **cross)


def sweep_sentence(results: Results, column: str) -> str:
    """What the sweep shows, in one sentence computed from its numbers."""
    names = swept(results, column)
    if not names:
        return ""
    name = names[0]
    rows = {row.arm: row for row in results.in_column(column)}
    first = next(iter(rows.values()))
    label, metric = results.names.get(name, name), words.metric(first.metric)
    base = rows.get(results.against or "")
    gaps: dict[str, list[str]] = {}
    for row in rows.values():
        if base is not None and row is not base and (gap := _against(row, base, name)) is not None:
            gaps.setdefault(gap[0], []).append(gap[1])
    if gaps and base is not None:
        texts = [f"{words.listed(arms)} {'is' if len(arms) == 1 else 'are'} {share}" for share, arms in gaps.items()]
        span = _span(base, name)
        moved = f"; the choice of {label} alone moves {base.arm} by {words.score(span)}" if span else ""
        return f"On validation {metric}, against {base.arm} at the same {label}: {'; '.join(texts)}{moved}."
    parts = [
        f"{row.arm} is best at {words.plain(row.chosen[name])} ({words.score(row.val.mean)})"
        for row in rows.values()
        if row.val is not None and name in row.chosen
    ]
    return f"Of the values of {label}, {words.listed(parts)} on validation {metric}." if parts else ""


def _against(row: Row, base: Row, name: str) -> tuple[str, str] | None:
    """(`better at all 3 values`, `self_pretrained (+0.10 to +0.14)`)."""
    theirs = best_points(base, name)
    sign = 1 if row.greater else -1
    gaps = [
        sign * (point.val.mean - other.val.mean)
        for value, point in best_points(row, name).items()
        if (other := theirs.get(value)) is not None and "diverged" not in (point.status, other.status)
        if point.val is not None and other.val is not None
    ]
    if not gaps:
        return None
    above = sum(gap > 0 for gap in gaps)
    if len(gaps) == 1:
        return f"{'better' if above else 'no better'} at the one value", f"{row.arm} ({words.signed(gaps[0])})"
    every = "both" if len(gaps) == 2 else f"all {len(gaps)}"
    share = every if above == len(gaps) else (f"{above} of {len(gaps)}" if above else "none of the")
    return f"better at {share} values", f"{row.arm} ({words.signed(min(gaps))} to {words.signed(max(gaps))})"


def _span(row: Row, name: str) -> float | None:
    values = [p.val.mean for p in best_points(row, name).values() if p.val and p.status != "diverged"]
    return max(values) - min(values) if len(values) > 1 else None


@dataclass(frozen=True)
class AxisLine:
    """The columns of a table that differ in the value of one axis alone. name: the axis in short."""

    axis: str
    name: str
    column: str
    columns: Mapping[float, str]

    @property
    def title(self) -> str:
        """The heading over the figure."""
        return f"Scores by {plain(self.name)}{f' on {self.column}' if self.column else ''}"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"axis-{file_name(f'{self.axis} {self.column}'.strip())}"

    def caption(self, results: Results) -> str:
        """What the figure shows, in words."""
        values = words.listed([words.plain(value) for value in self.columns])
        metric = words.metric(results.in_column(next(iter(self.columns.values())))[0].metric)
        return f"Test {metric} of each arm at {self.name} {values}: mean over seeds with one standard error."


def numeric_axes(results: Results) -> list[AxisLine]:
    """One line for each axis with several numbers, and each setting of the other axes."""
    names = words.short_names(dict.fromkeys(axis for _, values in results.axes.values() for axis in values))
    lines: dict[tuple[str, str], dict[float, str]] = {}
    for label, (column, values) in results.axes.items():
        for axis, value in values.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                others = [f"{names[k]}={words.plain(v)}" for k, v in values.items() if k != axis]
                lines.setdefault((axis, " ".join([column, *others])), {})[float(value)] = label
    single = len({column for column, _ in results.axes.values()}) == 1 and len(names) == 1
    return [
        AxisLine(axis, names[axis], "" if single else column, dict(sorted(columns.items())))
        for (axis, column), columns in lines.items()
        if len([label for label in columns.values() if any(row.test for row in results.in_column(label))]) > 1
    ]


def along_axis(results: Results, line: AxisLine, dark: bool = False) -> Figure | None:
    """Test score of each arm by the value of an axis, mean and one standard error; None without a score."""
    rows = [(value, row) for value, column in line.columns.items() for row in results.in_column(column) if row.test]
    if not rows:
        return None
    values = list(line.columns)
    with canvas(dark, 5.2, 3.5) as (figure, look):
        axes, handles = figure.add_subplot(), []
        log = values[0] > 0 and values[-1] / values[0] >= 4
        for number, arm in enumerate(results.arms):
            scores = {value: row.test for value, row in rows if row.arm == arm and row.test is not None}
            if scores:
                style: dict[str, Any] = {**look.marked(number), "markersize": 5.5}
                errors = [score.sem or 0.0 for score in scores.values()]
                means = [score.mean for score in scores.values()]
                at = beside(values, number, len(results.arms), log)
                axes.errorbar([at[value] for value in scores], means, yerr=errors, capsize=2.5, elinewidth=1.2, **style)
                handles.append(entry(results.printed(arm), **style))
        if log:
            axes.set_xscale("log")
        axes.set_xticks(values, [words.plain(value) for value in values])
        axes.minorticks_off()
        axes.set_xlabel(plain(line.name))
        axes.set_ylabel(f"test {words.metric(rows[0][1].metric)}")
        axes.set_title(plain(line.column))
        legend(figure, handles, loc="outside lower left")
    return figure
