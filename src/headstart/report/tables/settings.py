"""Settings in which an arm differs from the one that it is compared with, and a parent from what starts from it.

Two arms are compared fairly in so far as they differ in what their names say and in nothing else. The table is made of
the specs of the stages that were run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headstart import words
from headstart.report.tables.report_table import PRINTED_LINES, ReportTable, TableCell, TableLine, table_of
from headstart.spec import flat
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan, PlannedStage

UNLIKE = ("seed", "parent")
"""Settings that differ wherever stages do: of parents, each one's own are compared."""


class Gap(NamedTuple):
    """A setting of a stage and its value; the arm or stage that it is compared with, and the value there."""

    stage: str
    setting: str
    value: str
    against: str
    other: str


COLUMN_HEADS = {"arms": "arm", "columns": "column", "stage": "stage", "setting": "setting", "value": "value"}
COLUMN_HEADS |= {"against": "compared with", "other": "value there"}


def settings_table(plan: Plan, results: Results) -> ReportTable | None:
    """A line for each difference, with the arms and columns that have it; None where there is none.

    A stage is compared with that of the same name of the arm that others are compared with, at chosen settings; the
    model of a parent, also with that of the stage that starts from it.
    """
    if len(results.table) > PRINTED_LINES:
        return None
    where: dict[Gap, dict[str, list[str]]] = {}
    for column in results.columns:
        rows = [row for row in results.in_column(column) if row.runs]
        base = next((row for row in rows if row.arm == results.against), next(iter(rows), None))
        for row in rows:
            for gap in dict.fromkeys(_gaps(plan, row, base)):
                where.setdefault(gap, {}).setdefault(column, []).append(row.arm)
    differing = [(arms, columns, gap) for gap, of in where.items() for arms, columns in _columns_of(of).items()]
    differing.sort(key=lambda line: results.arms.index(line[0][0]))
    if not differing:
        return None
    heads = {key: (text, False) for key, text in COLUMN_HEADS.items() if key != "columns" or len(results.columns) > 1}
    lines = []
    for arms, columns, gap in differing:
        places = "all" if len(columns) == len(results.columns) else words.listed(columns)
        texts = {"arms": words.listed(arms), "columns": places, **gap._asdict()}
        lines.append(TableLine("arm", {key: TableCell(text) for key, text in texts.items()}, "measured"))
    note = (
        "At chosen settings. Where two parts are of different kinds, such as two mixers, their other settings are not "
        "listed. Any of these settings may be the reason for a difference in score."
    )
    return table_of("Settings in which arms differ", heads, lines, note)


def _columns_of(by_column: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], list[str]]:
    """Arms -> the columns on which these have a difference."""
    columns_of: dict[tuple[str, ...], list[str]] = {}
    for column, arms in by_column.items():
        columns_of.setdefault(tuple(arms), []).append(column)
    return columns_of


def chain_of(plan: Plan, row: Row) -> list[PlannedStage]:
    """The stages behind a row, at its chosen settings where a choice is made."""
    runs = row.runs or row.points[0].runs
    return [plan.stages[identity] for _, identity in runs[0].stages]


def _gaps(plan: Plan, row: Row, base: Row | None) -> Iterator[Gap]:
    chain = {planned.name: planned for planned in chain_of(plan, row)}
    *parents, last = chain.values()
    if base is not None and base is not row:
        others = {planned.name: planned for planned in chain_of(plan, base)}
        for name in {**chain, **others}:
            if name in chain and name in others:
                yield from _differences(chain[name], others[name], base.arm)
            else:
                here, there = ("yes", "no") if name in chain else ("no", "yes")
                yield Gap(name, "the stage itself", here, base.arm, there)
    for parent in parents:
        yield from (gap for gap in _differences(parent, last, last.name) if gap.setting.startswith("model."))


def _differences(planned: PlannedStage, other: PlannedStage, against: str) -> Iterator[Gap]:
    """Settings that differ, or that one alone has; of tables of different kinds the kind alone."""
    here, there = (flat(stage.spec.model_dump(mode="json"), whole=UNLIKE) for stage in (planned, other))
    kinds = [setting for setting in here if setting.endswith(".kind") and here[setting] != there.get(setting)]
    tables = tuple(setting.removesuffix("kind") for setting in kinds)
    for setting in {**here, **there}:
        value, beside = (words.plain(of[setting]) if setting in of else words.NONE for of in (here, there))
        if value != beside and setting not in UNLIKE and (setting in kinds or not setting.startswith(tables)):
            yield Gap(planned.name, setting, value, against, beside)
