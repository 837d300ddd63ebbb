"""What arms gain over another, and their averages over columns, as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headstart.report.compared import legend, over_columns
from headstart.report.plots import MARKS, plain, style
from headstart.study import words
from headstart.study.claims import AVERAGE
from headstart.study.results import Average, Results
from headstart.study.statistics import Estimate, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 8
"""Numbers up to which a caption tells them."""


def gains(results: Results, dark: bool = False) -> Figure | None:
    """Relative gain of each arm over the one that it is compared with, by column, in percent of that one's score.

    None where there is none: nothing to compare with, or a score of which less is better.
    """
    from matplotlib.figure import Figure

    found = _gains(results)
    if not found:
        return None
    with style(dark) as look:
        figure = Figure(figsize=(7.2, 3.6))
        axes = figure.add_subplot()
        axes.axhline(0.0, color=look.quiet, linewidth=0.8)
        over_columns(axes, results, found, look)
        metric = words.listed(list(dict.fromkeys(words.metric(row.metric) for row in results.table)))
        axes.set_ylabel(plain(f"gain in test {metric} over {results.against} (%)"))
        legend(figure, axes)
    return figure


def gains_told(results: Results) -> str:
    """What the figure of gains says, in words, with its numbers where they are few."""
    found = _gains(results)
    each = [
        f"{arm} {words.listed([f'{_percent(value)} on {column}' for column, value in of.items()])}"
        for arm, of in found.items()
    ]
    numbers = f": {'; '.join(each)}" if sum(map(len, found.values())) <= FEW else ""
    seeds = sorted({value.n for of in found.values() for value in of.values()})
    n = " to ".join(dict.fromkeys((str(seeds[0]), str(seeds[-1])))) if seeds else "0"
    return (
        f"Gain in test score over {results.against}, in percent of its score at the same seed: mean and one "
        f"standard error over n = {n} paired seeds{numbers}."
    )


def _percent(value: Estimate) -> str:
    sem = f" ± {value.sem:.1f}" if value.sem is not None else ""
    return f"{value.mean:+.1f}{sem} %".replace("-", words.MINUS)


def _gains(results: Results) -> dict[str, dict[str, Estimate]]:
    """Arm -> column -> its gain over the arm that it is compared with, in percent; over seeds that both have."""
    out: dict[str, dict[str, Estimate]] = {}
    for row in results.table:
        base = results.row(results.against, row.column) if results.against else None
        if base is None or base is row or not row.greater or base.metric != row.metric:
            continue
        mine, theirs = row.by_seed(), base.by_seed()
        found = estimate(100 * (mine[s] - theirs[s]) / theirs[s] for s in mine if theirs.get(s, 0.0) > 0)
        if found is not None:
            out.setdefault(row.arm, {})[row.column] = found
    return out


def averaged(results: Results, dark: bool = False) -> Figure | None:
    """Average over columns of each arm, mean and one standard error over seeds; the paper's is hollow.

    None where fewer than two arms have one.
    """
    from matplotlib.figure import Figure

    found = _averages(results)
    if len(found) < 2:
        return None
    with style(dark) as look:
        figure = Figure(figsize=(7.2, 1.1 + 0.27 * len(found)))
        axes = figure.add_subplot()
        for place, (one, value) in enumerate(found):
            number = results.arms.index(one.arm)
            marked: dict[str, Any] = {"color": look.colour(number), "marker": MARKS[number % len(MARKS)]}
            axes.errorbar(
                [value.mean],
                [place],
                xerr=[value.sem or 0.0],
                markersize=5.5,
                capsize=2.5,
                linestyle="none",
                label="test",
                **marked,
            )
            cell = _average_cell(results, one)
            if cell is not None:
                axes.plot(
                    [cell],
                    [place],
                    markersize=7,
                    linestyle="none",
                    markerfacecolor="none",
                    label="the paper's",
                    **marked,
                )
        axes.set_yticks(
            range(len(found)), [plain(f"{one.over}: {one.arm}" if one.over else one.arm) for one, _ in found]
        )
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.set_xlabel(f"average test {words.metric(results.table[0].metric)}")
        legend(figure, axes)
    return figure


def averaged_told(results: Results) -> str:
    """What the figure of averages says, in words."""
    found = _averages(results)
    numbers = sorted({one.columns for one, _ in found})
    over = f"{numbers[0]} to {numbers[-1]} columns" if len(numbers) > 1 else words.many(numbers[0], "column")
    paper = (
        "; a hollow mark is the paper's average, over its own columns, data and sizes"
        if any(_average_cell(results, one) is not None for one, _ in found)
        else ""
    )
    return f"Test score of each arm, averaged over {over}: mean and one standard error over seeds{paper}."


def _averages(results: Results) -> list[tuple[Average, Estimate]]:
    return [(one, one.value) for one in results.averages if one.value is not None]


def _average_cell(results: Results, one: Average) -> float | None:
    """The paper's average of an arm, where ours is of the same score and over all columns."""
    paper = results.paper
    if paper is None or one.over or paper.metric_of(AVERAGE) != results.table[0].metric:
        return None
    cell = paper.cell(one.arm, AVERAGE)
    return cell.value if cell is not None else None
