"""Everything a report says: what validation chose, and what must be said beside it."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headstart.study.paper.caveats import caveats
from headstart.study.results.answers import ReadAnswers
from headstart.study.results.collect import Find, ReadRecords, State, of_task, task_key
from headstart.study.results.results import Results, TaskFacts
from headstart.study.results.selection import select

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.study.language.plan import Plan
    from headstart.tasks.task import Task


def summarise(
    plan: Plan,
    find: Find,
    state: State | None = None,
    facts: Mapping[str, TaskFacts] | None = None,
    records: ReadRecords | None = None,
    answers: ReadAnswers | None = None,
) -> Results:
    """The results of a plan with their caveats. Arguments as of `selection.select`."""
    lookup = functools.cache(find)
    results = select(plan, lookup, state, facts, records, answers)
    return replace(results, caveats=tuple(caveats(results, plan, lookup)))


def results_on_task(plan: Plan, store: Store, task: Task, guesses: Collection[str] = ()) -> Results:
    """The results so far of a plan all of whose runs read this one task. Networks may read patches or a cut of a
    sequence: another task by its key, of the same rows.

    guesses: arms that answer all alike, which the others are held against. A model that draws no random numbers is one
    stage for all seeds, and has no spread.
    """
    keys = {task_key(cell.last.spec) for cell in plan.cells}
    facts = dict.fromkeys(keys, of_task("own", task))
    results = select(plan, store.result, store.status, facts, store.records)
    floors = [row for row in results.table if row.arm in guesses and row.test is not None]
    results = replace(results, baselines=tuple(replace(row, task=key) for row in floors for key in sorted(keys)))
    results = replace(results, caveats=tuple(caveats(results, plan, store.result)))
    return replace(results, table=tuple(row.distinct() for row in results.table))
