"""What a report shows, computed once for the terminal, the page and its Markdown form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.errors import BadInput
from headstart.report.answer import answer
from headstart.report.claims import Verdict, claims_heading, unprinted, verdicts
from headstart.report.methods import methods
from headstart.report.tables.model import Table
from headstart.report.tables.paper import beside
from headstart.report.tables.scores import make_table
from headstart.report.tables.secondary import more_tables, tried
from headstart.study import words
from headstart.study.results import Results

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.study.plan import Plan

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """Tables, claims and texts of a report. `finished`: result.json of every distinct stage that has one, by identity.

    `beside`: the paper's cells with ours beside them, None where it has none. `more`: further tables by name.
    """

    plan: Plan
    results: Results
    finished: Mapping[str, Result]
    table: Table
    beside: Table | None
    more: Mapping[str, Table]
    verdicts: list[Verdict]

    @property
    def answer(self) -> str:
        """The answer in a sentence or two."""
        return answer(self.results)

    @property
    def claims_heading(self) -> str:
        """The heading over the verdicts."""
        return claims_heading(self.results)

    @property
    def claims_source(self) -> str:
        """Where claims come from, of which no table is printed beside ours."""
        return unprinted(self.results)

    @property
    def methods(self) -> str:
        """A paragraph for a paper, and how many configurations were tried."""
        return f"{methods(self.plan, self.results, self.finished.values())} {tried(self.results)}"

    @property
    def stand_ins(self) -> str:
        """The scale and what stood in for absent data, where something did."""
        return f"{words.sentences(self.results.setting)}." if self.results.stood_in else ""

    def files(self) -> dict[str, Table]:
        """The tables that are written beside the page, by the names of their files."""
        tables = {"table": self.table, "beside": self.beside, "sweep": self.more.get("sweep")}
        return {name: table for name, table in tables.items() if table is not None}


def read_content(plan: Plan, results: Results, store: Store) -> Content:
    """The content of a report, from what is in the store."""
    stored = {identity: store.result(identity) for identity in plan.stages}
    return Content(
        plan,
        results,
        {identity: result for identity, result in stored.items() if result is not None},
        make_table(results),
        beside(results),
        more_tables(plan, results),
        verdicts(results, results.paper),
    )


def command(plan: Plan) -> str:
    """What makes the results again: the built-in study by its name where nothing was overridden, else the file
    beside the page."""
    from headstart.study.files import built_in_studies, short_name
    from headstart.study.spec import read_study

    study = plan.study
    if study.name in built_in_studies():
        scale = f" --scale {study.scale}" if study.scale else ""
        try:
            if read_study(study.name, scale=study.scale, data=plan.data) == study:
                return f"headstart run {short_name(study.name)}{scale}"
        except BadInput:
            # The name is that of a built-in study of another kind: it has no such scale.
            pass
    return "headstart run study.toml"
