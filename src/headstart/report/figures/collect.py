"""The figures of a report: what is drawn of which column, how each is called, and what its caption says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headstart.errors import BadInput, Damaged, nearest
from headstart.report.answer import leader
from headstart.report.figures.arms import (
    MANY_ROWS,
    averages,
    averages_caption,
    compared,
    compared_caption,
    gains,
    gains_caption,
)
from headstart.report.figures.attention import attention_drawings
from headstart.report.figures.curves import TOGETHER, TRAIN, apart, curves, curves_together, curves_told, losses
from headstart.report.figures.deviations import deviation_drawings, spread_drawings
from headstart.report.figures.forest import FOREST_LINES, gain_lines, gains_over, gains_over_caption
from headstart.report.figures.kernels import kernel_drawings
from headstart.report.figures.reconstruction import Filled, caption, read_predictions, reconstruction
from headstart.report.figures.search import search_caption, search_figure
from headstart.report.figures.style import Drawing
from headstart.report.figures.sweep import along_axis, numeric_axes, sweep, sweep_caption, sweep_sentence
from headstart.report.figures.trained import TrainedColumn, file_name, of_column, stand_in_of
from headstart.store import Store
from headstart.study.results.collect import ReadRecords, undamaged
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan
    from headstart.study.paper.snapshot import Snapshot
    from headstart.tasks import Task

TRAINED = {
    "kernels": kernel_drawings,
    "attention": attention_drawings,
    "deviations": deviation_drawings,
    "spreads": spread_drawings,
}
"""What `report.figures` of a study may name (kernels are those of the pretraining, where there is one)."""


FEWEST_ROWS = 5
"""Rows of one column from which on a figure shows more at a glance than their table."""
WITHOUT_WEIGHTS = (
    "This page was made from a file of results. Figures that need weights or predictions, such as what pretraining "
    "fills in, are not in it; `headstart run` draws them."
)
MOST_DRAWN = {"arms": 100, "columns": 150}
"""Arms and columns that figures show; a person tells no more apart, and each column takes a fifth of a second."""


def drawings(plan: Plan, results: Results, store: Store | Snapshot) -> tuple[list[Drawing], list[str]]:
    """All figures of a report, and a sentence for each that the study asks for and cannot be drawn."""
    for noun, names in {"arms": results.arms, "columns": results.columns}.items():
        if len(names) > MOST_DRAWN[noun]:
            some = f"{noun}=[{', '.join(map(repr, names[:2]))}, ...] draws those that are named"
            way = some if names[0] in getattr(plan.study, noun) else "axes of fewer values make fewer"
            why = f"{len(names):,} {noun} are more than a figure shows ({MOST_DRAWN[noun]})"
            return [], [why + f"; {way}" * isinstance(store, Store)]
    if not isinstance(store, Store):
        lacking = plan.study.report.figures or any(len(chain) > 1 for chain in plan.chains)
        return [*_together(plan, results), *_by_column(plan, results, store)], [WITHOUT_WEIGHTS] * bool(lacking)
    of_trained, reasons = trained_drawings(plan, results, store, plan.study.report.figures)
    return [*_together(plan, results), *_by_column(plan, results, store), *of_trained], reasons


def _together(plan: Plan, results: Results) -> list[Drawing]:
    """All arms and columns in one figure, where there are enough, or a paper's cells ask for it; averages and gains."""
    stand_in, out = stand_in_of(results.stood_in), []
    finished = sum(row.test is not None for row in results.table)
    if 0 < len(gain_lines(results)) <= FOREST_LINES:
        title = f"Differences from {results.printed(str(results.against))}"
        out.append(("forest", title, gains_over_caption, gains_over))
    if finished >= (MANY_ROWS if results.paper is not None or len(results.columns) > 1 else FEWEST_ROWS):
        out.append(("compared", "All arms and columns", compared_caption, compared))
    if any(average.value for average in results.averages):
        out.append(("averages", "Averages over columns", averages_caption, averages))
    if plan.study.report.gain:
        out.append(("gains", f"Relative gain over {results.against}", gains_caption, gains))
    along = [
        Drawing(line.file, line.title, line.caption(results), partial(along_axis, results, line), stand_in=stand_in)
        for line in numeric_axes(results)
    ]
    together = [
        Drawing(name, title, text(results), partial(draw, results), stand_in=stand_in)
        for name, title, text, draw in out
    ]
    return sorted([*along, *together], key=lambda drawing: drawing.name != "forest")


def curve_drawings(results: Results, column: str, records: ReadRecords, settings: str) -> list[Drawing]:
    """The learning curves of a column, and its losses where each arm has a panel. settings: of the arms, in words."""
    name, of, stand_in = file_name(column), of_column(results, column), stand_in_of(results.stand_in(column))
    text = f"{settings}: {curves_told(results, column)}."
    out = [Drawing(f"curves-{name}", f"Learning curves{of}", text, partial(curves, results, column, records), stand_in)]
    if apart(results, column):
        text = f"The loss of each stage on validation, the mean over {results.run_noun}s; {TRAIN}."
        out.append(Drawing(f"losses-{name}", f"Losses{of}", text, partial(losses, results, column, records), stand_in))
    return out


def _by_column(plan: Plan, results: Results, store: Store | Snapshot) -> list[Drawing]:
    """Per column: the sweep or the search, the learning curves, and a picture of what a masked stage fills in."""
    out, report, records = [], plan.study.report, undamaged(store.records)
    test, mark = report.sweep == "test", report.mark
    if len(results.columns) > TOGETHER:
        text = f"The reported score of each arm at its chosen settings: {curves_told(results, *results.columns)}."
        draw = partial(curves_together, results, records)
        stand_in = stand_in_of(results.stood_in)
        out.append(Drawing("curves", "Learning curves of all columns", text, draw, stand_in=stand_in))
    for column in results.columns:
        name, of = file_name(column), of_column(results, column)
        stand_in = stand_in_of(results.stand_in(column))
        if sweep_sentence(results, column):
            text = sweep_caption(results, column, test, mark)
            draw = partial(sweep, results, column, test=test, mark=mark)
            out.append(Drawing(f"sweep-{name}", f"The sweep{of}", text, draw, stand_in))
        if plan.study.search is not None:
            draw = partial(search_figure, results, column, plan.study.search)
            out.append(Drawing(f"search-{name}", f"The search{of}", search_caption(plan.study.search), draw, stand_in))
        if len(results.columns) <= TOGETHER:
            out += curve_drawings(results, column, records, "Each arm at its chosen settings")
        picture = _picture(plan, results, store, column)
        if picture is not None:
            row, examples, task, elsewhere = picture
            pixels = task.picture if task is not None else None
            as_text = task.text if task is not None else None
            source = f" on {elsewhere}" if elsewhere else of
            out.append(
                Drawing(
                    f"reconstruction-{name}",
                    f"What pretraining learnt to fill in{source}",
                    caption(examples, pixels is not None) + (f" The parent of {row.arm}{of}." if elsewhere else ""),
                    partial(reconstruction, examples, pixels, text=as_text),
                    stand_in=stand_in_of(row.stand_in),
                )
            )
    return out


def _picture(
    plan: Plan, results: Results, store: Store | Snapshot, column: str
) -> tuple[Row, Filled, Task | None, str] | None:
    """Masked examples of a parent that has them: of the column's own task before those of others, whose kind is named;
    in the row that leads on validation before the rest."""
    rows = [row for row in results.in_column(column) if row.val is not None]
    rows = [leader(rows), *rows] if rows else []
    chains = [(row, [identity for _, identity in run.stages]) for row in rows for run in row.runs]
    for own in (True, False):
        for row, chain in chains:
            reported = plan.stages[chain[-1]].spec.task
            for identity in chain[:-1]:
                task = plan.stages[identity].spec.task
                if task is None:
                    continue
                filled = _filled(plan, store, identity) if (task.kind == reported.kind) == own else None
                if filled is not None:
                    return row, *filled, "" if own else task.kind
    return None


def _filled(plan: Plan, store: Store | Snapshot, identity: str) -> tuple[Filled, Task | None] | None:
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
    examples = read_predictions(arrays, task.signature if task is not None else None)
    return None if examples is None else (examples, task)


def trained_drawings(
    plan: Plan, results: Results, store: Store, wanted: Sequence[str]
) -> tuple[list[Drawing], list[str]]:
    """Figures of trained weights, column by column, and a sentence for each that cannot be drawn.

    wanted: names of `TRAINED`. Raises: BadInput for another name.
    """
    for name in wanted:
        if name not in TRAINED:
            raise BadInput(f"report.figures: {nearest(name, TRAINED)}")
    figures: list[Drawing] = []
    reasons: list[str] = []
    for name in results.columns:
        column = TrainedColumn(plan, results, store, name)
        for figure in dict.fromkeys(wanted):
            figures += TRAINED[figure](column)
        reasons += column.reasons
    return figures, list(dict.fromkeys(reasons))
