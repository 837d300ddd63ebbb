"""The figures of a report: what is drawn of which column, how each is called, and what it says."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headstart.errors import BadInput
from headstart.report.answer import leader
from headstart.report.compared import MANY, compared, told
from headstart.report.gains import averaged, averaged_told, gains, gains_told
from headstart.report.pictures import Filled, caption, read_predictions, reconstruction
from headstart.report.plots import LOOKS, TRAIN, curves, plain
from headstart.report.sweeps import ON_VALIDATION, marked, sweep, sweep_sentence
from headstart.spec import digest
from headstart.store.files import Damaged
from headstart.study import words
from headstart.study.results import Results, Row
from headstart.study.runs import undamaged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.store.stages import Store
    from headstart.study.plan import Plan
    from headstart.tasks import Task


@dataclass(frozen=True)
class Drawn:
    """A figure of the page: `draw(dark, titled)` makes it; `said` is its caption and its alternative text.

    `titled`: the PNG, which stands alone, carries its sentence; on the page the caption has it. `mark` heads the
    figure wherever it is shown: what stood in for data that were absent.
    """

    name: str
    title: str
    said: str
    draw: Callable[[bool, bool], Figure | None]
    titled: bool = False
    mark: str = ""

    @property
    def caption(self) -> str:
        """What it shows, and of which data."""
        return f"{self.mark}. {self.said}" if self.mark else self.said

    def figure(self, dark: bool, titled: bool) -> Figure | None:
        """The figure for a light or dark page, or None where there is nothing to draw."""
        made = self.draw(dark, titled)
        if made is not None and self.mark:
            _head(made, plain(self.mark), LOOKS[dark].ink)
        return made


def _head(figure: Figure, text: str, colour: str) -> None:
    """Write a line over a figure: over its sentence, or else over its legend, which stands where a title would."""
    before, text = figure.get_suptitle(), "\n".join(textwrap.wrap(text, int(13.5 * figure.get_figwidth())))
    if figure.legends and not before:
        figure.legends[0].set_title(text)
        figure.legends[0].get_title().set_color(colour)
        figure.legends[0].set_alignment("left")
        return
    figure.suptitle("\n".join(filter(None, [text, before])), x=0.012, ha="left", fontsize=9.5, color=colour)


def drawings(plan: Plan, results: Results, store: Store) -> tuple[list[Drawn], list[str]]:
    """All figures of a report, and a sentence for each that the study asks for and cannot be drawn."""
    figures, undrawn = _insights(plan, results, store)
    return [*_together(plan, results), *_of_scores(plan, results, store), *figures], undrawn


def _together(plan: Plan, results: Results) -> list[Drawn]:
    """All arms and columns in one figure, where a paper's cells or several columns ask for it; averages and gains."""
    mark, out = _headed(results.stood_in), []
    finished = sum(row.test is not None for row in results.table)
    if finished >= MANY and (results.paper is not None or len(results.columns) > 1):
        out.append(
            Drawn(
                "compared", "All arms and columns", told(results), lambda dark, _: compared(results, dark), False, mark
            )
        )
    if any(one.value for one in results.averages):
        out.append(
            Drawn(
                "averages",
                "Averages over columns",
                averaged_told(results),
                lambda dark, _: averaged(results, dark),
                False,
                mark,
            )
        )
    if plan.study.report.gain:
        out.append(
            Drawn(
                "gains",
                f"Relative gain over {results.against}",
                gains_told(results),
                lambda dark, _: gains(results, dark),
                False,
                mark,
            )
        )
    return out


def _insights(plan: Plan, results: Results, store: Store) -> tuple[list[Drawn], list[str]]:
    """What training made of the models: what `report.figures` names."""
    if not plan.study.report.figures:
        return [], []
    from headstart.report.insight import insight_figures

    found, undrawn = insight_figures(plan, results, store, plan.study.report.figures)
    return [
        Drawn(
            one.name,
            one.title,
            one.said,
            lambda dark, _, draw=one.draw: draw(dark),  # type: ignore[misc]
            False,
            _mark(results, one.column),
        )
        for one in found
    ], undrawn


def _mark(results: Results, column: str) -> str:
    return _headed(results.stand_in(column))


def _headed(stand_in: str) -> str:
    return f"Stand-in data: {stand_in}" if stand_in else ""


def _of_scores(plan: Plan, results: Results, store: Store) -> list[Drawn]:
    """Per column: the sweep, the learning curves, and a picture of what a masked stage fills in."""
    out, report = [], plan.study.report
    for column in results.columns:
        name, of = _file_name(column), f" on {column}" if len(results.columns) > 1 else ""
        mark = _mark(results, column)
        sentence = sweep_sentence(results, column)
        if sentence:
            said = [sentence, "Points are means over seeds with one standard error; the chosen value is ringed."]
            said += [ON_VALIDATION] if report.sweep == "test" else []
            if report.mark is not None and marked(results, column, report.mark):
                label = results.names.get(report.mark.setting, report.mark.setting)
                at, what = words.plain(report.mark.value), report.mark.says.rstrip(".")
                said.append(f"The dotted line, at {label} {at}, is {what}.")
            out.append(
                Drawn(
                    f"sweep-{name}",
                    f"The sweep{of}",
                    " ".join(said),
                    lambda dark, titled, c=column: sweep(  # type: ignore[misc]
                        results, c, dark, titled, report.sweep == "test", report.mark
                    ),
                    True,
                    mark,
                )
            )
        out.append(
            Drawn(
                f"curves-{name}",
                f"Learning curves{of}",
                f"Each arm at its chosen settings: mean over seeds, band of one standard error; {TRAIN}.",
                lambda dark, _, c=column: curves(results, c, undamaged(store.records), dark),  # type: ignore[misc]
                False,
                mark,
            )
        )
        picture = _picture(plan, results, store, column)
        if picture is not None:
            row, found, task = picture
            draw = task.picture if task is not None else None
            out.append(
                Drawn(
                    f"reconstruction-{name}",
                    f"What pretraining learnt to fill in{of}",
                    caption(found, draw is not None),
                    lambda dark, _, f=found, d=draw: reconstruction(f, d, dark),  # type: ignore[misc]
                    False,
                    _headed(row.stand_in),
                )
            )
    return out


def _file_name(column: str) -> str:
    """A column's name as a file's: one that had to be changed is told apart by a few digits of its hash."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in column)
    return plain if plain == column and plain else f"{plain}-{digest(column)[:6]}"


def _picture(plan: Plan, results: Results, store: Store, column: str) -> tuple[Row, Filled, Task | None] | None:
    """Masked examples of the first parent that has them, in the row that leads on validation (else in another)."""
    rows = [row for row in results.in_column(column) if row.val is not None]
    rows = [leader(rows), *rows] if rows else []
    for row in rows:
        for run in row.runs:
            for _, identity in run.stages[:-1]:
                found = _filled(plan, store, identity)
                if found is not None:
                    return row, *found
    return None


def _filled(plan: Plan, store: Store, identity: str) -> tuple[Filled, Task | None] | None:
    from headstart.tasks import open_task

    if store.result(identity) is None:
        return None
    try:
        arrays = {name: tensor.numpy() for name, tensor in store.predictions(identity).items()}
    except Damaged:
        return None
    if "val/masked" not in arrays:
        return None
    try:
        task: Task | None = open_task(plan.stages[identity].spec.task, plan.data)
    except (BadInput, OSError):
        # A report is made from the store alone where the data are not at hand: curves instead of images.
        task = None
    found = read_predictions(arrays, task.signature if task is not None else None)
    return None if found is None else (found, task)
