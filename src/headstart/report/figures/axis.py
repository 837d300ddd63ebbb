"""Test scores along an axis that nothing is chosen over: accuracy against width, or against the share of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.report.figures.style import beside, canvas, entry, legend, plain
from headstart.report.figures.trained import file_name
from headstart.study import words
from headstart.study.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
                handles.append(entry(arm, **style))
        if log:
            axes.set_xscale("log")
        axes.set_xticks(values, [words.plain(value) for value in values])
        axes.minorticks_off()
        axes.set_xlabel(plain(line.name))
        axes.set_ylabel(f"test {words.metric(rows[0][1].metric)}")
        legend(figure, handles, loc="outside lower left")
    return figure
