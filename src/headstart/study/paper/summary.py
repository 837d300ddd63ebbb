"""Everything a report says: what validation chose, and what must be said beside it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headstart.study.paper.caveats import caveats
from headstart.study.results.collect import Find, ReadRecords, State
from headstart.study.results.results import Results, TaskFacts
from headstart.study.results.selection import select

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan


def summarise(
    plan: Plan,
    find: Find,
    state: State | None = None,
    facts: Mapping[str, TaskFacts] | None = None,
    records: ReadRecords | None = None,
) -> Results:
    """The results of a plan with their caveats. Arguments as of `selection.select`."""
    lookup = functools.cache(find)
    results = select(plan, lookup, state, facts, records)
    return replace(results, caveats=tuple(caveats(results, plan, lookup)))
