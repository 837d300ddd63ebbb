"""A study as one Markdown page: the table, the paper's numbers beside it, what it cost and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headstart.errors import BadInput
from headstart.report.answer import answer
from headstart.report.beside import beside
from headstart.report.methods import methods
from headstart.report.quantities import quantities, sweep_table, tried
from headstart.report.tables import make_table, markdown, to_markdown
from headstart.report.verdicts import asked, unprinted, verdicts
from headstart.study import words
from headstart.study.results import Results

if TYPE_CHECKING:
    from headstart.report.lines import Table
    from headstart.store.stages import Store
    from headstart.study.plan import Plan

Result = Mapping[str, Any]


def results_page(
    plan: Plan,
    results: Results,
    store: Store,
    figures: Sequence[tuple[str, str, str]] = (),
    undrawn: Sequence[str] = (),
) -> str:
    """The page. Nothing foreign in it is read as markup.

    figures: file name beside the page, title and caption of each. undrawn: which are missing, and why.
    """
    parts = [f"# {markdown(results.title or results.name)}", markdown(answer(results)), *_setting(plan, results)]
    parts += ["## Results", to_markdown(make_table(results)).rstrip()]
    parts += _beside(results)
    setting = words.sentences(results.setting)
    for more in more_tables(plan, results):
        parts += [f"## {markdown(more.title)}", to_markdown(replace(more, title=setting)).rstrip()]
    for name, title, said in figures:
        parts += [f"## {markdown(title)}", f"![{markdown(said)}]({name})", markdown(said)]
    parts += [markdown(reason) for reason in undrawn]
    if results.caveats:
        parts += ["## What to keep in mind", _bullets(results.caveats)]
    parts += ["## Methods", markdown(f"{methods(plan, results, _finished(plan, store))} {tried(results)}")]
    parts += ["## Cost and provenance", _cost(plan, store), *_provenance(_finished(plan, store))]
    return "\n\n".join(parts) + "\n"


def more_tables(plan: Plan, results: Results) -> list[Table]:
    """Tables besides the first: other scores and steps, and test at every setting where the study asks for it."""
    return [table for table in (quantities(results), asked_sweep(plan, results)) if table is not None]


def asked_sweep(plan: Plan, results: Results) -> Table | None:
    """Test at every setting, where the study asks for it."""
    return sweep_table(results) if plan.study.report.sweep == "test" else None


def command(plan: Plan) -> str:
    """What makes the results again: the built-in study by its name where nothing was overridden, else the file
    beside the page."""
    from headstart.study.files import built_in_studies, short_name
    from headstart.study.spec import read_study

    study = plan.study
    if study.name not in built_in_studies():
        return "headstart run study.toml"
    try:
        plain = read_study(study.name, scale=study.scale, data=plan.data)
    except BadInput:
        # The name is that of a built-in study of another kind: it has no such scale.
        return "headstart run study.toml"
    scale = f" --scale {study.scale}" if study.scale else ""
    return f"headstart run {short_name(study.name)}{scale}" if plain == study else "headstart run study.toml"


def _setting(plan: Plan, results: Results) -> Iterator[str]:
    """The command, the data that it read, the scale with what it changes, and what stood in for absent data."""
    yield f"```\n{command(plan)}\n```"
    told = [_data(plan)]
    if results.scale:
        note = f": {results.scale_note.rstrip('.')}" if results.scale_note else ""
        told.append(f"Scale {results.scale}{note}.")
    if results.stood_in:
        told.append(
            f"Stand-in data: {results.stood_in}. No score that rests on them can be held against one on the data meant."
        )
    yield markdown(" ".join(told))


def _data(plan: Plan) -> str:
    """`Data read: mnist; generated or bundled: pairs.`: what the data folder held, without which numbers are others."""
    read: dict[str, None] = {}
    made: dict[str, None] = {}
    for cell in plan.cells:
        stand_ins = plan.study.stood_in.get(cell.column, {})
        for planned in cell.chain:
            task = planned.spec.task
            if not task.generated:
                read[task.kind] = None
            elif planned.name not in stand_ins:
                made[task.kind] = None
    rest = f"; generated or bundled: {words.listed(list(made))}" if made else ""
    return f"Data read: {words.listed(list(read)) or 'none'}{rest}."


def _beside(results: Results) -> Iterator[str]:
    table = beside(results, results.paper) if results.paper else None
    if table is not None and table.lines:
        yield "## Beside the paper"
        yield to_markdown(table).rstrip()
    found = verdicts(results, results.paper)
    if found:
        yield f"## {asked(results)}"
        if unprinted(results):
            yield markdown(unprinted(results))
        here = f" {words.sentences(results.setting)}." if results.stood_in else ""
        yield markdown(
            "Differences are paired by seed, each with its own 95 % t-interval; nothing is corrected for "
            f"their number.{here}"
        )
        yield _bullets(found)


def _bullets(items: Sequence[object]) -> str:
    return "\n".join(f"- {markdown(str(item))}" for item in items)


def _finished(plan: Plan, store: Store) -> list[Result]:
    """The result of every distinct stage that has one."""
    return [found for identity in plan.stages if (found := store.result(identity)) is not None]


def _cost(plan: Plan, store: Store) -> str:
    """Stages, FLOPs and seconds by name of the stage, each distinct stage once."""
    names: dict[str, list[Result | None]] = {name: [] for name in plan.study.stages}
    for identity, planned in plan.stages.items():
        names.setdefault(planned.name, []).append(store.result(identity))
    lines = ["| stage | distinct | finished | training FLOP | time |", "| --- | ---: | ---: | ---: | ---: |"]
    every = [one for found in names.values() for one in found]
    for name, found in [*((markdown(name), found) for name, found in names.items() if found), ("all", every)]:
        done = [one.get("budget", {}) for one in found if one is not None]
        flops, seconds = (sum(float(b.get(key) or 0) for b in done) for key in ("flops", "seconds"))
        lines.append(
            f"| {name} | {len(found)} | {len(done)} | {words.measure(flops, 'FLOP')} | {words.duration(seconds)} |"
        )
    lines += ["", "Time covers training and its evaluations, summed over stages, which may have run side by side."]
    return "\n".join(lines)


def _provenance(done: Sequence[Result]) -> Iterator[str]:
    """When and on what the stages ran: every value that occurs."""
    held = [one.get("provenance", {}) for one in done]
    if not held:
        return
    days = sorted({str(one["started"])[:10] for one in held if one.get("started")})
    lines = [f"Begun: {days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}"] if days else []
    for name in ("machine", "device", "threads", "precision"):
        found = dict.fromkeys(words.plain(one[name]) for one in held if name in one)
        if found:
            lines.append(f"{name.capitalize()}: {words.listed(list(found))}")
    versions = dict.fromkeys(f"{k} {v}" for one in held for k, v in one.get("versions", {}).items())
    lines += [f"Versions: {', '.join(versions)}"] if versions else []
    yield _bullets(lines)
