"""`run`, `demo`, `report` and `--dry-run`: a study from the command line to its table and page."""

from __future__ import annotations

import json as json_module
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from headstart.api import Study, default_workers
from headstart.errors import BadInput
from headstart.report.content import read_content
from headstart.report.tables.model import to_rich
from headstart.report.tables.scores import make_table
from headstart.runner.machine import choose_device, keep_freed_memory
from headstart.runner.perform import Event, Failed, Finished, Held, Notice, Progress, Skipped, Started, Stopped
from headstart.spec import digest
from headstart.store.files import publish
from headstart.study.estimate import Cost, survey
from headstart.study.plan import PlannedStage
from headstart.study.scales import stand_in_told, stand_ins_told
from headstart.study.words import count, duration
from headstart.verbs.checks import prepared_with_bar
from headstart.verbs.display import Display
from headstart.verbs.places import writable_folder
from headstart.verbs.terminal import console, table


def run_study(
    study: Study,
    *,
    workers: int | None = None,
    threads: int = 1,
    device: str = "auto",
    json: str | None = None,
) -> int:
    """Perform a study with a progress display, print its table, write its page. Returns the exit code."""
    target = _writable_file(json)
    choose_device(device)
    keep_freed_memory()
    out = console()
    out.print(f"store {study.store.root}")
    print_scale(study)
    costs = _fitted(study)
    steps = {cost.planned.identity: cost.steps for cost in costs}
    done = {identity for identity in steps if study.store.status(identity) in ("complete", "diverged")}
    out.print(f"study {study.spec.name}: {len(study.plan.cells)} runs of {len(steps)} stages, {len(done)} done before")

    writable_folder("--store", study.store.root)

    def partial() -> Any:
        return to_rich(make_table(study.results(baselines=False)))

    with Display(steps, done, partial) as display:
        for event in study.perform(workers=workers, threads=threads, device=device):
            show_event(display, event)
    _answer(study, target)
    if display.failed:
        out.print(f"{len(display.failed)} of {len(steps)} stages failed; the same command tries them again")
    return 1 if display.failed else 0


def _fitted(study: Study, *, timed: bool = False, device: str = "cpu") -> list[Cost]:
    """Every stage fitted to its task; data that must be made first are made with a bar."""
    tasks = {digest(p.spec.task.document()): p.spec.task for p in study.plan.stages.values() if not p.open}
    for spec in tasks.values():
        prepared_with_bar(spec, study.data)
    return survey(study.plan, timed=timed, device=device)


def print_scale(study: Study) -> None:
    """The scale, what it leaves out, and what stands in for absent data."""
    spec, out = study.spec, console()
    if spec.scale is None:
        return
    out.print(Text(f"scale {spec.scale}" + (f": {spec.scale_note}" if spec.scale_note else "")))
    chains: dict[str, set[str]] = {}
    for cell in study.plan.cells:
        chains.setdefault(cell.column, set()).update(planned.name for planned in cell.chain)
    said = [
        stand_in_told(column, spec.stood_in.get(column, {}), chain, spec.reported) for column, chain in chains.items()
    ]
    if any(said):
        out.print(Text(f"stand-in data: {stand_ins_told(said)} (not in {study.data})"))


def show_event(display: Display, event: Event) -> None:
    if isinstance(event, Started):
        display.started(event.identity, event.name)
    elif isinstance(event, Progress):
        display.progress(event.identity, event.step, event.record)
    elif isinstance(event, Finished):
        if event.result["status"] == "diverged":
            display.say(f"diverged {event.name} {event.identity}: its loss is no number; the study goes on")
        display.finished(event.identity)
    elif isinstance(event, Skipped):
        display.finished(event.identity)
    elif isinstance(event, Failed):
        display.failure(event.identity, event.name, event.message)
    elif isinstance(event, Held):
        display.say(f"waiting  {event.name} {event.identity}: another process is at it; its result will be used")
    elif isinstance(event, Stopped):
        display.say(f"saved    {event.name} {event.identity}: the same command goes on from there")
    elif isinstance(event, Notice):
        display.say(f"note     {event.name} {event.identity}: {event.text}")


def _answer(study: Study, json: Path | None) -> None:
    """Table, caveats, page and, where asked, JSON."""
    from headstart.report.page import write_report  # matplotlib is slow to import

    results = study.results()
    content = read_content(study.plan, results, study.store)
    out = console()
    for shown in (content.table, *content.more.values(), *filter(None, [content.beside])):
        out.print(to_rich(shown))
    _list(content.claims_heading, content.verdicts, content.claims_source)
    _list("What to keep in mind", results.caveats)
    page = write_report(study.plan, results, study.store, study.report_folder)
    out.print(f"\npage {page}")
    if json is not None:
        document = {
            "study": study.spec.name,
            "rows": results.rows(),
            "claims": [verdict.document() for verdict in content.verdicts],
            "caveats": [str(c) for c in results.caveats],
        }
        publish(json, (json_module.dumps(document, indent=2) + "\n").encode())
        out.print(f"rows {json}")


def _list(head: str, items: Sequence[object], note: str = "") -> None:
    """A heading, a note and a line for each, where there are any."""
    out = console()
    if items:
        out.print(f"\n{head}:")
    if items and note:
        out.print(Text(f"  {note}"))
    for item in items:
        out.print(Text(f"  - {item}"))


def _writable_file(given: str | None) -> Path | None:
    """`--json FILE`, refused before anything is trained where it cannot be written."""
    if given is None:
        return None
    path = Path(given)
    if not given or os.path.isdir(path) or not os.path.isdir(path.absolute().parent):
        raise BadInput(f"--json: {given!r} is no file in an existing folder")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BadInput(f"--json: {str(path.absolute().parent)!r} cannot be written; name another folder")
    return path


def report_study(study: Study, *, json: str | None) -> None:
    """The same table and page from what is in the store."""
    target = _writable_file(json)
    console().print(f"store {study.store.root}")
    print_scale(study)
    if not any(study.store.result(identity) for identity in study.plan.stages):
        raise BadInput(
            f"report: no stage of {study.spec.name!r} is finished in store {study.store.root}; "
            f"`headstart run {study.given}{f' --scale {study.spec.scale}' if study.spec.scale else ''}` trains them"
        )
    _answer(study, target)


def dry_run_study(study: Study, *, workers: int | None, device: str) -> None:
    """The distinct stages, their parameters and what they would cost here."""
    costs = _fitted(study, timed=True, device=choose_device(device))
    uses = Counter(p.identity for cell in study.plan.cells for p in cell.chain)
    states = {cost.planned.identity: study.store.status(cost.planned.identity) for cost in costs}
    out = console()
    out.print(f"store {study.store.root}")
    print_scale(study)
    lost = [planned for planned in study.plan.stages.values() if planned.open]
    rows = [_open_row(planned, uses[planned.identity]) for planned in lost]
    rows += [_cost_row(cost, uses[cost.planned.identity], states[cost.planned.identity]) for cost in costs]
    out.print(
        table(
            [
                "stage",
                "id",
                "state",
                "runs",
                "task",
                "seed",
                "rate",
                "parameters",
                "trained",
                "steps",
                "examples",
                "FLOP",
                "seconds",
            ],
            rows,
            right=(3, 5, 6, 7, 8, 9, 10, 11, 12),
        )
    )
    todo = [c for c in costs if states[c.planned.identity] not in ("complete", "diverged")]
    slots = max(default_workers(study.plan) if workers is None else workers, 1)
    seconds = sum(c.seconds or 0.0 for c in todo) / slots
    out.print(
        f"{len(study.plan.cells)} runs, {len(study.plan.stages)} distinct stages, {len(costs) - len(todo)} finished; "
        f"{count(sum(c.flops for c in todo))}FLOP to do, about {duration(seconds)} with {slots} worker(s) "
        "(steps timed here just now; evaluation not counted)"
        + (f"; {len(lost)} stages are open, their data are not in {study.data}" if lost else "")
    )


def _open_row(planned: PlannedStage, uses: int) -> list[str]:
    """A stage whose data are absent: its identity is open, and what it costs too."""
    spec = planned.spec
    return [
        planned.name,
        "open",
        "absent",
        str(uses),
        spec.task.kind,
        str(spec.seed),
        f"{spec.optim.lr:g}",
        *("" for _ in range(6)),
    ]


def _cost_row(cost: Cost, uses: int, state: str) -> list[str]:
    spec = cost.planned.spec
    seconds = "" if cost.seconds is None else f"{cost.seconds:.1f}"
    return [
        cost.planned.name,
        cost.planned.identity,
        state,
        str(uses),
        spec.task.kind,
        str(spec.seed),
        f"{spec.optim.lr:g}",
        f"{cost.parameters:,}",
        f"{cost.trainable:,}",
        f"{cost.steps:,}",
        count(cost.examples),
        count(cost.flops),
        seconds,
    ]
