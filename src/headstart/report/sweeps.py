"""The sweep of a study: scores by setting, as a figure with one sentence on what it shows, and as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headstart.report.lines import Cell, Line, Table
from headstart.report.plots import MARKS, Look, fitting, plain, style
from headstart.study import words
from headstart.study.results import Point, Results, Row
from headstart.study.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.study.spec import MarkSpec

ON_VALIDATION = "Every choice was made on validation; test is only shown."


def swept(results: Results, column: str) -> list[str]:
    """Settings with at least two numeric values in some arm of a column, in the study's order."""
    out = []
    for name in dict.fromkeys([*results.choose, *_settings(results, column)]):
        values = [[p.settings[name] for p in row.points if name in p.settings] for row in results.in_column(column)]
        # Tables and lists can be axes too; they have no place on a scale.
        if all(_number(x) for v in values for x in v) and any(len(set(v)) > 1 for v in values):
            out.append(name)
    return out


def _settings(results: Results, column: str) -> list[str]:
    return [name for row in results.in_column(column) for p in row.points for name in p.settings]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def best_points(row: Row, name: str) -> dict[float, Point]:
    """Value of a setting -> the point with the best mean validation score at it (other settings at their
    best), diverged ones only where nothing else is there."""
    sign = 1 if row.greater else -1
    out: dict[float, Point] = {}
    for point in row.points:
        if name not in point.settings:
            continue
        value = float(point.settings[name])
        old = out.get(value)
        if old is None or _rank(point, sign) > _rank(old, sign):
            out[value] = point
    return dict(sorted(out.items()))


def _rank(point: Point, sign: int) -> tuple[bool, float]:
    return (point.status != "diverged", sign * point.val.mean if point.val else float("-inf"))


def sweep(
    results: Results,
    column: str,
    dark: bool = False,
    titled: bool = True,
    test: bool = False,
    mark: MarkSpec | None = None,
) -> Figure | None:
    """Validation score by each swept setting, with standard errors; the chosen value is ringed.

    `titled` writes the sentence of `sweep_sentence` above it. `test` adds a panel of the same points on test, `mark` a
    line at a value. None where nothing was swept.
    """
    from matplotlib.figure import Figure

    names = [n for n in swept(results, column) if _finite_points(results, column, n)]
    if not names:
        return None
    panels = [(name, split) for name in names for split in (("val", "test") if test else ("val",))]
    with style(dark) as look:
        figure = Figure(figsize=(max(5.2, 3.9 * len(panels)), 3.5))
        for place, (name, split) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), place, sharey=figure.axes[-1] if split == "test" else None)
            _sweep_panel(axes, results, column, name, split, look)
            if mark is not None and mark.setting == name and marked(results, column, mark):
                axes.axvline(mark.value, color=look.quiet, linestyle=(0, (1, 2)), linewidth=1.2, zorder=0)
        handles = _handles(results, column, names, look)
        if mark is not None and marked(results, column, mark):
            handles.append(_line(look, (0, (1, 2)), mark.says))
        figure.legend(
            handles=handles, loc="outside lower left", ncols=fitting(handles, figure.get_figwidth()), fontsize=9
        )
        sentence = plain(sweep_sentence(results, column))
        sentence = f"{sentence} {ON_VALIDATION}" if test and sentence else sentence
        if titled and sentence:
            wide = int(13.5 * figure.get_figwidth())
            figure.suptitle("\n".join(textwrap.wrap(sentence, wide)), x=0.012, ha="left", fontsize=9.5)
    return figure


def _handles(results: Results, column: str, names: list[str], look: Look) -> list[Any]:
    """Arms by colour and mark; dashes, where an arm has no such setting."""
    from matplotlib.lines import Line2D

    rows = [row for row in results.in_column(column) if row.val is not None]
    out = []
    for row in rows:
        place = results.arms.index(row.arm)
        out.append(
            Line2D(
                [], [], color=look.colour(place), marker=MARKS[place % len(MARKS)], markersize=5.5, label=plain(row.arm)
            )
        )
    if any(not best_points(row, name) for row in rows for name in names):
        out.append(_line(look, (0, (3, 2)), "without this setting"))
    if any(p.status == "diverged" for row in rows for name in names for p in best_points(row, name).values()):
        out.append(
            Line2D(
                [],
                [],
                color=look.quiet,
                linestyle="none",
                marker="x",
                markersize=7,
                markeredgewidth=2,
                label="diverged",
            )
        )
    return out


def _line(look: Look, dash: Any, label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.quiet, linestyle=dash, linewidth=1.2, label=plain(label))


def marked(results: Results, column: str, mark: MarkSpec) -> bool:
    """The marked value lies within what was swept on a column."""
    if mark.setting not in swept(results, column):
        return False
    values = [v for row in results.in_column(column) for v in best_points(row, mark.setting)]
    return min(values) <= mark.value <= max(values)


def _finite_points(results: Results, column: str, name: str) -> bool:
    return any(p.val for row in results.in_column(column) for p in best_points(row, name).values())


def _sweep_panel(axes: Axes, results: Results, column: str, name: str, split: str, look: Look) -> None:
    rows = results.in_column(column)
    values = sorted({v for row in rows for v in best_points(row, name)})
    log = values[0] > 0 and values[-1] / values[0] >= 4
    axes.set_xlabel(plain(results.names.get(name, name)))
    axes.set_ylabel(f"{split} {words.metric(rows[0].metric)}")
    step = (values[-1] / values[0]) ** (0.012) if log else (values[-1] - values[0]) * 0.01
    for row in rows:
        place = results.arms.index(row.arm)
        # Arms stand a little apart, so that their error bars do not hide each other.
        shift = place - (len(results.arms) - 1) / 2
        at = {v: v * step**shift if log else v + step * shift for v in values}
        _sweep_line(axes, row, name, split, at, look.colour(place), MARKS[place % len(MARKS)])
    if log:
        axes.set_xscale("log")
    axes.set_xticks(values, [words.plain(v) for v in values])
    axes.minorticks_off()


def _sweep_line(axes: Axes, row: Row, name: str, split: str, at: Mapping[float, float], colour: str, mark: str) -> None:
    points = best_points(row, name)
    sound = {v: e for v, p in points.items() if (e := _score(p, split)) is not None and p.status != "diverged"}
    if not points:
        only = _score(row, split)
        if only is not None:
            axes.axhline(only.mean, color=colour, linestyle=(0, (3, 2)), linewidth=1.2)
        return
    axes.errorbar(
        [at[v] for v in sound],
        [e.mean for e in sound.values()],
        yerr=[e.sem or 0.0 for e in sound.values()],
        color=colour,
        marker=mark,
        markersize=5.5,
        capsize=2.5,
        elinewidth=1.2,
    )
    chosen = row.chosen.get(name)
    if chosen is not None and float(chosen) in sound:
        axes.plot(
            [at[float(chosen)]],
            [sound[float(chosen)].mean],
            marker="o",
            markersize=13,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=1.4,
        )
    lost = [at[v] for v in points if v not in sound and points[v].status == "diverged"]
    if lost:
        axes.plot(
            lost,
            [0.04] * len(lost),
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="x",
            color=colour,
            markersize=7,
            markeredgewidth=2,
        )


def _score(of: Point | Row, split: str) -> Estimate | None:
    return of.test if split == "test" else of.val


def sweep_table(results: Results) -> Table | None:
    """Test at every setting that was tried, by arm: mean ± standard error and n; None where nothing was swept.

    Which of them was chosen, on validation, is marked.
    """
    names = results.names
    labels = list(dict.fromkeys(_label(p, names) for row in results.table for p in row.points if p.test is not None))
    if len(labels) < 2:
        return None
    wide = len(results.columns) > 1
    lines = []
    for row in results.table:
        tried = {_label(point, names): point for point in row.points}
        chosen = words.settings(row.chosen, names)
        cells = [Cell(row.column, {"column": row.column})] if wide else []
        cells.append(Cell(row.arm, {"arm": row.arm, "chosen_setting": chosen}))
        cells += [_cell(label, tried.get(label), label == chosen) for label in labels]
        lines.append(Line("arm", tuple(cells), row.status, row.key))
    metrics = list(dict.fromkeys(words.metric(row.metric) for row in results.table))
    score = metrics[0] if len(metrics) == 1 else "score"
    heads = ["column"] * wide + ["arm", *labels]
    note = (
        "Mean ± standard error over seeds, n in brackets, at the best weights by validation. * is the setting that "
        f"was chosen. {ON_VALIDATION}"
    )
    return Table(
        f"Test {score} at every {words.listed(list(names.values()))}",
        tuple(heads),
        (*[False] * (1 + wide), *[True] * len(labels)),
        tuple(lines),
        note,
    )


def _label(point: Point, names: Mapping[str, str]) -> str:
    return words.settings(point.settings, names)


def _cell(label: str, point: Point | None, chosen: bool) -> Cell:
    test = point.test if point is not None else None
    if point is None or test is None:
        return Cell("diverged" if point is not None and point.status == "diverged" else words.NONE)
    lost = " diverged" if point.status == "diverged" else ""
    return Cell(
        f"{words.plus_minus(test)} ({test.n}){lost}{'*' if chosen else ''}",
        {f"test {label}": test.mean, f"test_sem {label}": test.sem, f"n {label}": test.n},
    )


def sweep_sentence(results: Results, column: str) -> str:
    """What the sweep shows, in one sentence computed from its numbers."""
    names = swept(results, column)
    if not names:
        return ""
    name = names[0]
    rows = {row.arm: row for row in results.in_column(column)}
    label = results.names.get(name, name)
    base = rows.get(results.against or "")
    metric = words.metric(next(iter(rows.values())).metric)
    told = [_told(row, base, name) for row in rows.values() if base is not None and row is not base]
    told = [t for t in told if t]
    span = _span(base or next(iter(rows.values())), name)
    if told and base is not None:
        moved = f"; the choice of {label} alone moves {base.arm} by {words.score(span)}" if span else ""
        return f"On validation {metric}, against {base.arm} at the same {label}: {'; '.join(told)}{moved}."
    parts = [
        f"{row.arm} is best at {words.plain(row.chosen[name])} ({words.score(row.val.mean)})"
        for row in rows.values()
        if row.val is not None and name in row.chosen
    ]
    return f"Of the values of {label}, {words.listed(parts)} on validation {metric}." if parts else ""


def _told(row: Row, base: Row, name: str) -> str:
    """`self_pretrained is better at all 3 values (by 0.10 to 0.14)`."""
    mine, theirs = best_points(row, name), best_points(base, name)
    sign = 1 if row.greater else -1
    gaps = []
    for value, point in mine.items():
        other = theirs.get(value)
        sound = other is not None and "diverged" not in (point.status, other.status)
        if sound and other is not None and point.val is not None and other.val is not None:
            gaps.append(sign * (point.val.mean - other.val.mean))
    if not gaps:
        return ""
    above = sum(g > 0 for g in gaps)
    if len(gaps) == 1:
        return f"{row.arm} is {'better' if above else 'no better'} at the one value ({words.signed(gaps[0])})"
    every = "both" if len(gaps) == 2 else f"all {len(gaps)}"
    share = every if above == len(gaps) else (f"{above} of {len(gaps)}" if above else "none of the")
    return f"{row.arm} is better at {share} values ({words.signed(min(gaps))} to {words.signed(max(gaps))})"


def _span(row: Row, name: str) -> float | None:
    values = [p.val.mean for p in best_points(row, name).values() if p.val and p.status != "diverged"]
    return max(values) - min(values) if len(values) > 1 else None
