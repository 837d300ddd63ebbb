"""What a report shows, computed once for the terminal, the page and its Markdown form, which is written here."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.errors import BadInput
from headstart.report.answer import answer
from headstart.report.claims import Verdict, claims_heading, claims_note, unprinted, verdicts
from headstart.report.figures.style import Drawing
from headstart.report.methods import methods, tried
from headstart.report.tables.paper import ABSENT, beside
from headstart.report.tables.report_table import ReportTable, markdown, to_markdown
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
    arms by columns, where that was asked for.
    """

    plan: Plan
    results: Results
    finished: Mapping[str, Result]
    table: ReportTable
    beside: ReportTable | None
    more: Mapping[str, ReportTable]
    verdicts: list[Verdict]
    pivot: ReportTable | None = None

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
        return f"{claims_note(self.verdicts)} {self.stand_ins}".rstrip()

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


def results_page(
    content: Content,
    figures: Sequence[Drawing] = (),
    undrawn: Sequence[str] = (),
    folder: str = "",
    numbers: str = "",
) -> str:
    """The page. Nothing foreign in it is read as markup.

    figures: those that stand as PNG beside the page, or where `folder` begins their links. undrawn: which are missing,
    and why. numbers: file of results beside the page, in place of study.toml.
    """
    results = content.results
    parts = [f"# {markdown(results.title or results.name)}", markdown(content.answer), *_setting(content, numbers)]
    parts += ["## Results", *([to_markdown(content.pivot).rstrip()] if content.pivot else [])]
    parts += [to_markdown(content.table).rstrip()]
    if content.beside is not None:
        parts += ["## Beside the paper", to_markdown(content.beside).rstrip()]
    parts += _claims(content)
    for table in content.more.values():
        titled = replace(table, title=words.sentences(results.setting))
        parts += [f"## {markdown(table.title)}", to_markdown(titled).rstrip()]
    for figure in figures:
        caption = markdown(figure.caption)
        parts += [f"## {markdown(figure.title)}", f"![{caption}]({folder}{figure.file})", caption]
    parts += [markdown(reason) for reason in undrawn]
    if results.caveats:
        parts += ["## What to keep in mind", _bullets(results.caveats)]
    parts += ["## Methods", markdown(content.methods)]
    parts += ["## Cost and provenance", _cost(content), *_provenance(content)]
    return "\n\n".join(parts) + "\n"


def _setting(content: Content, numbers: str) -> Iterator[str]:
    """The command (that of the page alone, where none of a built-in study makes the results again), the data that it
    read, the scale with what it changes, and what stood in for absent data."""
    results = content.results
    again = command(content.plan)
    if numbers and "study.toml" in again:
        yield markdown(
            f"These settings are not those of a built-in study. They stand in {numbers} beside this page, and this "
            "command makes the page again:"
        )
        again = f"headstart report --from {numbers} -o {numbers.removesuffix('.json')}.md"
    yield f"```\n{again}\n```"
    texts = [_data(content)]
    if results.scale:
        note = f": {results.scale_note.rstrip('.')}" if results.scale_note else ""
        texts.append(f"{results.scale_text}{note}.")
    if results.stood_in:
        texts.append(
            f"Stand-in data: {results.stood_in}. No score that rests on them can be held against one on the data meant."
        )
    yield markdown(" ".join(texts))


def _data(content: Content) -> str:
    """`Data read: mnist; generated or bundled: pairs.`: what the data folder held, without which numbers are others."""
    read: dict[str, None] = {}
    generated: dict[str, None] = {}
    for cell in content.plan.cells:
        stand_ins = content.plan.study.stood_in.get(cell.column, {})
        for planned in cell.chain:
            task = planned.spec.task
            if task is not None and not task.generated:
                read[task.kind] = None
            elif task is not None and planned.name not in stand_ins:
                generated[task.kind] = None
    rest = f"; generated or bundled: {words.listed(list(generated))}" if generated else ""
    return f"Data read: {words.listed(list(read)) or 'none'}{rest}."


def _claims(content: Content) -> Iterator[str]:
    if not content.verdicts:
        return
    yield f"## {content.claims_heading}"
    if content.claims_source:
        yield markdown(content.claims_source)
    yield markdown(content.claims_note)
    yield _bullets(content.verdicts)


def _bullets(items: Iterable[object]) -> str:
    return "\n".join(f"- {markdown(str(item))}" for item in items)


def _cost(content: Content) -> str:
    """By stage: how many are distinct, how many are finished, and what these cost; then all together."""
    names: dict[str, list[str]] = {}
    for identity, planned in content.plan.every_stage.items():
        names.setdefault(markdown(planned.name), []).append(identity)
    order = [*map(markdown, content.plan.study.stages), *names]
    names = {name: names[name] for name in order if name in names}
    lines = ["| stage | distinct | finished | training FLOP | time |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, identities in [*names.items(), ("all", list(content.plan.every_stage))]:
        budgets = [content.finished[i].get("budget", {}) for i in identities if i in content.finished]
        flops, seconds = (sum(float(budget.get(key) or 0) for budget in budgets) for key in ("flops", "seconds"))
        cost = f"{words.measure(flops, 'FLOP')} | {words.duration(seconds)}"
        lines.append(f"| {name} | {len(identities)} | {len(budgets)} | {cost} |")
    lines += ["", "Time covers training and its evaluations, summed over stages, which may have run side by side."]
    return "\n".join(lines)


def _provenance(content: Content) -> Iterator[str]:
    """When and on what the stages ran: every value that occurs."""
    runs = [result.get("provenance", {}) for result in content.finished.values()]
    if not runs:
        return
    days = sorted({str(run["started"])[:10] for run in runs if run.get("started")})
    lines = [f"Begun: {' to '.join(dict.fromkeys((days[0], days[-1])))}"] if days else []
    for name in ("machine", "device", "threads", "way", "precision"):
        values = dict.fromkeys(words.plain(run[name]) for run in runs if name in run)
        lines += [f"{name.capitalize()}: {words.listed(list(values))}"] if values else []
    versions = dict.fromkeys(f"{name} {version}" for run in runs for name, version in run.get("versions", {}).items())
    lines += [f"Versions: {', '.join(versions)}"] if versions else []
    yield _bullets([*lines, *_parts(content)])


def _parts(content: Content) -> list[str]:
    """Which seeds, and of which arms, ran on which machine and when, where that is not the same of all."""
    ran: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for cell in content.plan.cells:
        provenance = content.finished.get(cell.chain[-1].identity, {}).get("provenance", {})
        torch = provenance.get("versions", {}).get("torch")
        names = [str(provenance[name]) for name in ("machine", "device") if name in provenance]
        machine = ", ".join([*names, *([f"torch {torch}"] if torch else [])])
        if machine:
            ran.setdefault((machine, cell.seed), []).append((cell.arm, str(provenance.get("started", ""))[:10]))
    groups: dict[tuple[str, str], list[str]] = {}
    for (machine, seed), runs in ran.items():
        arms, days = ({run[i] for run in runs} for i in (0, 1))
        who = "" if arms == {*content.results.arms} else f" of {words.listed(sorted(arms))}"
        when = " to ".join(dict.fromkeys((min(days), max(days))))
        groups.setdefault((who, f"{machine}, begun {when}"), []).append(str(seed))
    lines = [
        f"Seed{'s' * (len(seeds) > 1)} {words.listed(seeds)}{who}: {where}" for (who, where), seeds in groups.items()
    ]
    return lines if len(lines) > 1 else []
