"""Tables besides the first: train, the last weights and steps by arm, and test at every setting of a sweep."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headstart.report.figures.sweep import ON_VALIDATION
from headstart.report.tables.model import Cell, Draft, Table, score_name, table_of
from headstart.study import words
from headstart.study.results import QUANTITIES, Point, Results, Row

if TYPE_CHECKING:
    from headstart.study.plan import Plan

SCORES = ("train", "test", "last_train", "last_test")
NO_LAST = "A diverged run has no last weights: those at its best stand for them."


def more_tables(plan: Plan, results: Results) -> dict[str, Table]:
    """By name: other scores and steps, and test at every setting where the study asks for it (`sweep`)."""
    swept = sweep_table(results) if plan.study.report.sweep == "test" else None
    tables = {"quantities": quantities(results), "sweep": swept}
    return {name: table for name, table in tables.items() if table is not None}


def quantities(results: Results) -> Table | None:
    """Scores of train and test at the best and at the last weights, and steps where records were read, by arm.

    None while no run is finished.
    """
    rows = [row for row in results.table if row.val is not None]
    if not rows:
        return None
    heads = {"column": ("column", False)} if len(results.columns) > 1 else {}
    heads |= {"arm": ("arm", False), **{name: (QUANTITIES[name], True) for name in SCORES}}
    paced = any(row.pace for row in rows)
    heads |= {"converge": (QUANTITIES["converge"], True)} if paced else {}
    match_heads = {"reach": f"steps to match {results.match}", "fit": f"steps to fit as well as {results.match}"}
    matched = [name for name in match_heads if any(row.match(name) for row in rows)]
    heads |= {name: (match_heads[name], True) for name in matched}
    drafts = []
    for row in rows:
        name = row.arm if row.status == "measured" else f"{row.arm} ({row.status})"
        cells = {"column": Cell(row.column, {"column": row.column}), "arm": Cell(name, {"arm": row.arm})}
        for score in SCORES:
            value = row.estimate(score)
            cells[score] = Cell(words.plus_minus(value), {score: value.mean if value else None})
        cells["converge"] = Cell(converged(row), {"converge": row.converge.mean if row.converge else None})
        for step in matched:
            match = row.match(step)
            cells[step] = Cell(matching(row, step), {step: match.together if match else None})
        drafts.append(Draft("arm", cells, row.status, row.key))
    title = "Train, the last weights and steps" if paced else "Train and the last weights"
    return table_of(title, heads, drafts, _note(results, paced, matched))


def _note(results: Results, paced: bool, matched: Collection[str]) -> str:
    parts = {
        "Mean ± standard error over seeds, at the best weights by validation or at the last step.": True,
        NO_LAST: any(row.status == "diverged" for row in results.table),
        "Steps are those of the last stage alone, read on validation. Converged: the first evaluation within 1 % of "
        "the run's best.": paced,
        f"To match: until the mean over seeds is as good as that of {results.match} ever is; in brackets, how many "
        "seeds are by themselves.": bool(matched),
        "To fit: the same of train, the running mean over the batches since the evaluation before.": "fit" in matched,
    }
    return " ".join(text for text, holds in parts.items() if holds)


def converged(row: Row) -> str:
    """`1,200 ± 80`: steps to the first evaluation within 1 % of the best."""
    value = row.converge
    if value is None:
        return words.NONE
    return f"{value.mean:,.0f}" + (f" ± {value.sem:,.0f}" if value.sem is not None else "")


def matching(row: Row, quantity: str = "reach") -> str:
    """`12,400 (3 of 3)`: steps until the mean curve matches, and how many seeds do by themselves."""
    match = row.match(quantity)
    if match is None or row.pace is None:
        return words.NONE
    steps = f"{match.together:,}" if match.together is not None else "not reached"
    return f"{steps} ({len(match.reached)} of {row.pace.seeds})"


def tried(results: Results) -> str:
    """How many configurations each arm tried, in one sentence."""
    counts: dict[str, list[int]] = {}
    for row in results.table:
        counts.setdefault(row.arm, []).append(len(row.points))
    every = {count for arm in counts.values() for count in arm}
    if len(every) == 1:
        each = " in every arm and column" if len(counts) > 1 or len(results.columns) > 1 else ""
        return f"Configurations tried: {every.pop()}{each}."
    spans = [
        f"{arm} {min(count)}" + (f" to {max(count)} by column" if len(set(count)) > 1 else "")
        for arm, count in counts.items()
    ]
    return f"Configurations tried: {words.listed(spans)}."


def sweep_table(results: Results) -> Table | None:
    """Test at every setting that was tried, by arm: mean ± standard error and n; None where nothing was swept.

    Which of them was chosen, on validation, is marked.
    """

    def label(point: Point) -> str:
        return words.settings(point.settings, results.names)

    labels = dict.fromkeys(label(p) for row in results.table for p in row.points if p.test is not None)
    if len(labels) < 2:
        return None
    heads = {"column": ("column", False)} if len(results.columns) > 1 else {}
    heads |= {"arm": ("arm", False), **{f"test {name}": (name, True) for name in labels}}
    drafts = []
    for row in results.table:
        chosen = words.settings(row.chosen, results.names)
        cells = {
            "column": Cell(row.column, {"column": row.column}),
            "arm": Cell(row.arm, {"arm": row.arm, "chosen_setting": chosen}),
        }
        for point in row.points:
            cells[f"test {label(point)}"] = _point_cell(label(point), point, label(point) == chosen)
        drafts.append(Draft("arm", cells, row.status, row.key))
    note = (
        "Mean ± standard error over seeds, n in brackets, at the best weights by validation. * is the setting that "
        f"was chosen. {ON_VALIDATION}"
    )
    score = score_name(row.metric for row in results.table)
    return table_of(f"Test {score} at every {words.listed(list(results.names.values()))}", heads, drafts, note)


def _point_cell(label: str, point: Point, chosen: bool) -> Cell:
    test = point.test
    if test is None:
        return Cell("diverged" if point.status == "diverged" else words.NONE)
    lost = " diverged" if point.status == "diverged" else ""
    return Cell(
        f"{words.plus_minus(test)} ({test.n}){lost}{'*' if chosen else ''}",
        {f"test {label}": test.mean, f"test_sem {label}": test.sem, f"n {label}": test.n},
    )
