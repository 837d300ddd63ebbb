"""Learning curves: the monitored score and the losses by epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.figures.style import DASHES, across, canvas, dashed, entry, legend, plain, shortened
from headstart.statistics import estimate
from headstart.study.results.collect import ReadRecords
from headstart.study.results.results import Results
from headstart.study.results.rows import Row, sharing_stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAIN = (
    "train, where it was recorded, is dashed: the running mean over the batches since the last evaluation, of the "
    "model as it trains (dropout on)"
)
"""What learning curves show of train, in a caption."""
BANDS = 6
"""Arms up to which they share a panel, each with a band: those of more would cover each other."""
MOST_APART = 24
"""Arms up to which each has a panel of its own, where they are more than that: those of more fill no page."""
TOGETHER = 8
"""Columns up to which each has a figure of its own; more of them stand in one, each with its reported score alone."""
RIMS = 4
"""Curves that may cover another at one stretch and leave a rim of it: broader ones would hide the panel."""


def curves_told(results: Results, *columns: str) -> str:
    """What the lines of learning curves are, in a caption."""
    rows = [_with_runs(results, column) for column in columns]
    together = len(columns) > TOGETHER
    panelled = not together and any(map(_apart, rows))
    panels = "the reported score, a panel for each arm with the others in grey, " if panelled else ""
    band = ", band of one standard error" if any(_banded(some) or (panelled and _apart(some)) for some in rows) else ""
    return f"{panels}mean over {results.run_noun}s on validation{band}; {TRAIN}"


def _with_runs(results: Results, column: str) -> list[Row]:
    return [row for row in results.in_column(column) if row.runs]


def _banded(rows: Sequence[Row]) -> bool:
    return len(rows) <= BANDS


def apart(results: Results, column: str) -> bool:
    """Whether each arm of a column has a panel of its own."""
    return _apart(_with_runs(results, column))


def _apart(rows: Sequence[Row]) -> bool:
    return BANDS < len(rows) <= MOST_APART


def curves(results: Results, column: str, records: ReadRecords, dark: bool = False) -> Figure | None:
    """Learning curves of one column at the chosen settings: of up to `BANDS` arms all scores, of more the reported
    one, a panel for each arm (see `losses` for the rest).

    Lines are means over seeds, bands one standard error; train is dashed (see `TRAIN`), and there where records have
    it: older ones have its loss alone. What later curves cover is broader than they are, so that arms that tie are all
    seen. None where no record is there.
    """
    rows = _with_runs(results, column)
    return (
        _multiples(results, rows, records, dark) if _apart(rows) else _all(results, rows, _panels(rows), records, dark)
    )


def losses(results: Results, column: str, records: ReadRecords, dark: bool = False) -> Figure | None:
    """What `curves` leaves out where each arm has a panel: the loss of each stage, all arms in one panel."""
    rows = _with_runs(results, column)
    return _all(results, rows, _panels(rows)[1:], records, dark) if _apart(rows) else None


def _all(
    results: Results, rows: Sequence[Row], panels: Sequence[tuple[str, str]], records: ReadRecords, dark: bool
) -> Figure | None:
    """A panel for each of these (stage, score), with all arms in it."""
    if not panels:
        return None
    stages = {stage for stage, _ in panels}
    titles = [
        f"{stage}: {words.metric(metric)}" if len(stages) > 1 else words.metric(metric) for stage, metric in panels
    ]
    return _figure(results, records, [(title, rows, *panel) for title, panel in zip(titles, panels, strict=True)], dark)


def _multiples(results: Results, rows: Sequence[Row], records: ReadRecords, dark: bool) -> Figure | None:
    """A panel for each arm: its reported score in its colour, that of the others in grey behind it."""
    stage, metric = _panels(rows)[0]
    lines = [[records(name) for run in row.runs for own, name in run.stages if own == stage] for row in rows]
    means = [_band(some, "val", metric)[:2] for some in lines]
    with canvas(dark, 9.6, 0.4) as (figure, look):
        from matplotlib import rcParams
        from matplotlib.patches import Patch

        number = max(3, int(figure.get_figwidth() / 1.6))
        stacked = math.ceil(len(rows) / number)
        figure.set_figheight(0.5 + stacked * min(1.5, figure.get_figwidth() / number))
        points = rcParams["font.size"] - 1.0
        room = ((figure.get_figwidth() - 0.6) / number - 0.15) / 1.2  # bold letters are wider than those measured
        names = shortened([row.arm for row in rows], room, points)
        first: Axes | None = None
        for i, row in enumerate(rows):
            axes = figure.add_subplot(stacked, number, i + 1, sharex=first, sharey=first)
            first = first or axes
            axes.set_title(plain(names[i]), fontsize=points)
            axes.tick_params(labelsize=points, labelleft=i % number == 0, labelbottom=i + number >= len(rows))
            axes.locator_params(nbins=3)
            for other, (x, y) in enumerate(means):
                if other != i:
                    axes.plot(x, y, color=look.quiet, alpha=0.35, linewidth=0.7)
            _curve(axes, lines[i], metric, {"color": look.colour(results.arms.index(row.arm))}, banded=True)
        if not any(x for x, _ in means):
            return None
        figure.supxlabel("epoch", fontsize=points, color=look.quiet)
        figure.supylabel(words.metric(metric), fontsize=points, color=look.quiet)
        others = entry("other arms, validation", color=look.quiet, alpha=0.5, linewidth=0.8)
        band = Patch(color=look.quiet, alpha=0.3, linewidth=0, label="± 1 standard error")
        legend(figure, [dashed(look, "validation", "solid"), dashed(look, "train"), others, band])
    return figure


def curves_together(results: Results, records: ReadRecords, dark: bool = False) -> Figure | None:
    """Learning curves of all columns, a panel each: the reported score at the chosen settings, as of `curves`."""
    rows = {column: _with_runs(results, column) for column in results.columns}
    return _figure(results, records, [(column, some, *_panels(some)[0]) for column, some in rows.items() if some], dark)


def _figure(
    results: Results, records: ReadRecords, panels: Sequence[tuple[str, Sequence[Row], str, str]], dark: bool
) -> Figure | None:
    """panels: title, rows, stage and score of each."""
    with canvas(dark, min(3.1 * len(panels), 9.3) + 0.3, 2.9) as (figure, look):
        from matplotlib.patches import Patch

        empty, shared, columns = True, False, across(figure, len(panels), 2.2)
        stacked = math.ceil(len(panels) / columns)
        figure.set_figheight(figure.get_figheight() * (1.0 if stacked < 3 else 0.75))
        for number, (title, rows, stage, metric) in enumerate(panels, start=1):
            axes = figure.add_subplot(stacked, columns, number)
            axes.set_title(plain(title))
            axes.set_xlabel("epoch")
            if words.metric(metric) not in title and number % columns == 1 % columns:
                axes.set_ylabel(words.metric(metric))
            sharing = sharing_stage(rows, stage)
            shared |= any(len(arms) > 1 for arms in sharing.values())
            for identities, arms in sharing.items():
                # A stage that several arms rest on is drawn once, in ink.
                arm = results.arms.index(arms[0])
                how: dict[str, Any] = look.marked(arm) if len(arms) == 1 else {"color": look.ink}
                how["markevery"] = (0.03 * (arm % 5), 0.15)
                empty &= not _curve(axes, [records(i) for i in identities], metric, how, _banded(rows))
            _broaden_covered(axes)
        if empty:
            return None
        drawn = dict.fromkeys(row.arm for _, rows, *_ in panels for row in rows)
        handles = [entry(name, **look.marked(results.arms.index(name))) for name in drawn]
        band = Patch(color=look.quiet, alpha=0.3, linewidth=0, label="± 1 standard error")
        several = [entry("a stage of several arms", color=look.ink)] if shared else []
        splits = [dashed(look, "validation", "solid"), dashed(look, "train")]
        banded = any(_banded(rows) for _, rows, *_ in panels)
        legend(figure, [*handles, *several, *splits, *([band] if banded else [])])
    return figure


def _panels(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(stage, score) of each panel: the reported score, its loss, then the loss of each earlier stage."""
    if not rows:
        return [("", "loss")]
    names = dict.fromkeys(name for row in rows for name, _ in reversed(row.runs[0].stages))
    first = (rows[0].runs[0].stages[-1][0], rows[0].metric)
    return list(dict.fromkeys([first, *((name, "loss") for name in names)]))


def _curve(
    axes: Axes, lines: Sequence[Sequence[Mapping[str, Any]]], metric: str, how: dict[str, Any], banded: bool
) -> bool:
    """Val, and train where records have it, of one stage, over its seeds. Says whether there was anything."""
    before = len(axes.lines)
    train = {"linestyle": DASHES, "alpha": 0.75, "linewidth": 1.2, "markersize": 3.5, "markerfacecolor": "none"}
    val = {"linestyle": "solid", "linewidth": 1.9, "markersize": 4.5}
    for split, line in (("train", train), ("val", val)):
        x, middle, low, high = _band(lines, split, metric)
        if x:
            # A single record would not be seen as a line.
            alone = {"marker": "o"} if len(x) == 1 else {}
            axes.plot(x, middle, **{**alone, **how, **line})
            if banded:
                axes.fill_between(x, low, high, color=how["color"], alpha=0.16, linewidth=0)
    return len(axes.lines) > before


def _broaden_covered(axes: Axes) -> None:
    """Each line gets a rim for every later one of its kind that runs along it, so that it is seen below them."""
    drawn: list[Any] = list(axes.lines)
    lines = [(line, line.get_linestyle(), dict(line.get_xydata().tolist())) for line in drawn]
    heights = [y for *_, points in lines for y in points.values()]
    near = 0.01 * (max(heights) - min(heights)) if heights else 0.0
    for i, (line, dashes, points) in enumerate(lines):
        later = [other for _, others_dashes, other in lines[i + 1 :] if others_dashes == dashes]
        rim = 1.6 * min(sum(_run_together(points, other, near) for other in later), RIMS)
        line.set(linewidth=line.get_linewidth() + rim, markersize=line.get_markersize() + rim)


def _run_together(points: Mapping[float, float], other: Mapping[float, float], near: float) -> bool:
    """Whether two curves agree at two epochs in a row, or at the only one that there is."""
    equal = [abs(y - other[x]) <= near for x, y in points.items() if x in other]
    return any(map(all, itertools.pairwise(equal))) or equal == [True]


def _band(lines: Sequence[Sequence[Mapping[str, Any]]], split: str, metric: str) -> Sequence[list[float]]:
    """Epochs, means and means -/+ one standard error, over the seeds that have a record at each epoch."""
    by_epoch: dict[float, list[float]] = {}
    for record in (record for line in lines for record in line):
        value = record.get(split, {}).get(metric)
        if value is not None and record.get("epoch") is not None:
            by_epoch.setdefault(float(record["epoch"]), []).append(float(value))
    points = [
        (epoch, at.mean, at.mean - (at.sem or 0.0), at.mean + (at.sem or 0.0))
        for epoch, values in sorted(by_epoch.items())
        if (at := estimate(values)) is not None
    ]
    return [list(values) for values in zip(*points, strict=True)] or [[], [], [], []]
