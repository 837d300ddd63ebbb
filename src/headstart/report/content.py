"""What a report shows, computed once for the terminal, the page and its Markdown form."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.errors import BadInput
from headstart.report.answer import answer
from headstart.report.claims import Verdict, claims_heading, claims_note, unprinted, verdicts
from headstart.report.methods import methods, tried
from headstart.report.tables.paper import ABSENT, beside
from headstart.report.tables.report_table import ReportTable
from headstart.report.tables.scores import make_table, more_tables, pivot_table
from headstart.study.language.files import PLUGIN_SOURCES
from headstart.study.paper.snapshot import Snapshot
from headstart.study.results.results import Results
from headstart.tasks import data_folder

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.study.language.plan import Plan
    from headstart.study.language.spec import StudySpec

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """Tables, claims and texts of a report. `finished`: result.json of every distinct stage that has one, by identity.

    `beside`: the paper's cells with ours beside them, None where it has none. `more`: further tables by name. `pivot`:
    arms by columns, where that was asked for. challenges: what came of a claim on fresh seeds.
    """

    plan: Plan
    results: Results
    finished: Mapping[str, Result]
    table: ReportTable
    beside: ReportTable | None
    more: Mapping[str, ReportTable]
    verdicts: list[Verdict]
    pivot: ReportTable | None = None
    challenges: tuple[Mapping[str, Any], ...] = ()

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
    def claims_note(self) -> str:
        """How verdicts were reached, and what stood in for absent data."""
        return f"{claims_note(self.verdicts, self.results.run_noun)} {self.stand_ins}".rstrip()

    @property
    def methods(self) -> str:
        """A paragraph for a paper, and how many configurations were tried."""
        return f"{methods(self.plan, self.results, self.finished.values())} {tried(self.results)}"

    @property
    def stand_ins(self) -> str:
        """The scale and what stood in for absent data, where something did."""
        return f"{words.sentences(self.results.setting)}." if self.results.stood_in else ""

    def files(self) -> dict[str, ReportTable]:
        """The tables that are written beside the page, by the names of their files."""
        tables = {"table": self.table, "pivot": self.pivot, "beside": self.beside, "sweep": self.more.get("sweep")}
        return {name: table for name, table in tables.items() if table is not None}


def read_content(plan: Plan, results: Results, store: Store | Snapshot, pivot: bool = False) -> Content:
    """The content of a report, from what is in the store, or in files of results: these show only what was run.

    pivot: with a table of arms by columns. Raises: BadInput where that has one column.
    """
    stored = {identity: store.entry(identity).result for identity in plan.every_stage}
    every, checked = not isinstance(store, Snapshot), verdicts(results, results.paper)
    return Content(
        plan,
        results,
        {identity: result for identity, result in stored.items() if result is not None},
        make_table(results),
        beside(results, every),
        more_tables(plan, results),
        checked if every else _run_here(checked),
        pivot_table(results) if pivot else None,
        store.challenges if isinstance(store, Snapshot) else (),
    )


def _run_here(checked: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts without columns and arms that were not run, and those that are only told."""
    parts = [(verdict, tuple(part for part in verdict.parts if part.why != ABSENT)) for verdict in checked]
    return [replace(verdict, parts=left) for verdict, left in parts if left or not verdict.parts]


def command(plan: Plan) -> str:
    """What makes the results again: the built-in study by its name where seeds, columns and axes alone were overridden,
    else the file beside the page, with the plugins whose sources lie beside it."""
    from headstart.study.language.files import built_in_studies, short_name
    from headstart.study.language.spec import read_study

    study = plan.study
    elsewhere = plan.data != data_folder(None) and any(
        p.spec.task is not None and not p.spec.task.generated for p in plan.stages.values()
    )
    data_option = f" --data {shlex.quote(str(plan.data))}" if elsewhere else ""
    seeds = [f"seed={study.axes['seed']}"] if "seed" in study.axes else []
    scale = f" --scale {study.scale}" if study.scale else ""
    # Without a folder of data nothing is stood in for, as where all data were at hand.
    some = [f"columns={json.dumps(list(study.columns))}"]
    some += [f"{axis}={json.dumps(values)}" for axis, values in study.axes.items()]
    ways = itertools.product(([], seeds, some), (plan.data, None)) if study.name in built_in_studies() else ()
    for overrides, data in ways:
        try:
            if _bare(read_study(study.name, overrides, scale=study.scale, data=data)) == _bare(study):
                return " ".join(["headstart run", short_name(study.name), *map(repr, overrides)]) + scale + data_option
        except BadInput:
            # The name is that of a built-in study of another kind: it has no such scale, or no such stage.
            continue
    cells = [plugin.name for plugin in plan.plugins if plugin.top is None]
    if cells:
        return f'headstart.run("study.toml")  # in the notebook or script that defines {", ".join(cells)}'
    plugins = "".join(f" --plugin {PLUGIN_SOURCES}/{plugin.word}" for plugin in plan.plugins)
    return f"headstart run study.toml{plugins}{data_option}"


def _bare(study: StudySpec) -> StudySpec:
    """The study without title and note, and without tables that hold nothing, which words on the command line leave in
    its arms."""
    arms = {name: {key: value for key, value in arm.items() if value != {}} for name, arm in study.arms.items()}
    return study.model_copy(update={"arms": arms, "title": "", "scale_note": ""})
