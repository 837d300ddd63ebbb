"""What claims ask of a store that results do not hold: where a parent had converged, what training made of kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headstart.errors import BadInput, Damaged
from headstart.study.results.collect import converged_at, curve
from headstart.study.results.results import Results
from headstart.study.results.rows import Row, Run

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.study.language.plan import Plan

Measure = Callable[["Plan", "Store", Run], float | None]


def measured(plan: Plan, results: Results, store: Store) -> Results:
    """The results with what their claims ask for, of the runs of chosen settings whose files hold it.

    What a damaged file, or data that are not at hand, keep from being read is not there.
    """
    wanted: dict[str, set[str]] = {}
    for claim in results.every_claim:
        if claim.quantity in MEASURES:
            wanted.setdefault(claim.quantity, set()).update(claim.arms)
    if not wanted:
        return results
    return replace(results, table=tuple(_with(plan, row, store, wanted) for row in results.table))


def _with(plan: Plan, row: Row, store: Store, wanted: Mapping[str, Collection[str]]) -> Row:
    measures: dict[str, dict[int, float]] = {}
    for quantity, arms in wanted.items():
        for run in row.runs if row.arm in arms else ():
            try:
                value = MEASURES[quantity](plan, store, run) if run.val is not None else None
            except (BadInput, Damaged, OSError):
                continue
            if value is not None:
                measures.setdefault(quantity, {})[run.seed] = value
    return replace(row, measures=measures)


def _looked_at(run: Run) -> str:
    """Identity of the stage whose weights are looked at: the parent of the reported one, where it has one."""
    return run.stages[-2 if len(run.stages) > 1 else -1][1]


def _parent_left(plan: Plan, store: Store, run: Run) -> float | None:
    """Share of the parent's steps that follow the first evaluation within 1 % of its best.

    None where that is the last one: the parent was still gaining, and how much longer it would have is not known.
    """
    del plan
    result = store.entry(_looked_at(run)).result if len(run.stages) > 1 else None
    if result is None or "monitor" not in result:
        return None
    monitor = result["monitor"]
    scores = curve(store.records(result["identity"]), monitor["name"])
    if not scores:
        return None
    steps, last = converged_at(scores, monitor["greater"]), max(scores)
    return 1 - steps / last if steps < last else None


def _of_kernels(change: str) -> Measure:
    def read(plan: Plan, store: Store, run: Run) -> float | None:
        from headstart.analysis.stages import opened
        from headstart.analysis.weights import changes, kernels
        from headstart.tasks.images import positions_of_a_row

        stage = opened(_looked_at(run), store, plan.data)
        learnt, start = (kernels(model, stage.task.signature.length) for model in (stage.model, stage.start))
        return changes(learnt, start, positions_of_a_row(stage.task)).get(change)

    return read


MEASURES: Mapping[str, Measure] = {
    "parent_left": _parent_left,
    "kernel_narrowing": _of_kernels("narrowing"),
    "kernel_spread": _of_kernels("spread"),
    "kernel_rows": _of_kernels("rows"),
}
