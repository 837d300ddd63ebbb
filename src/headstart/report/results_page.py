"""A study as one Markdown page: the table, the paper's numbers beside it, what it cost and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headstart.report.content import Content, command
from headstart.report.figures.style import Drawing
from headstart.report.tables.model import markdown, to_markdown
from headstart.study import words


def results_page(content: Content, figures: Sequence[Drawing] = (), undrawn: Sequence[str] = ()) -> str:
    """The page. Nothing foreign in it is read as markup.

    figures: those that stand as PNG beside the page. undrawn: which are missing, and why.
    """
    results = content.results
    parts = [f"# {markdown(results.title or results.name)}", markdown(content.answer), *_setting(content)]
    parts += ["## Results", to_markdown(content.table).rstrip()]
    if content.beside is not None:
        parts += ["## Beside the paper", to_markdown(content.beside).rstrip()]
    parts += _claims(content)
    for table in content.more.values():
        titled = replace(table, title=words.sentences(results.setting))
        parts += [f"## {markdown(table.title)}", to_markdown(titled).rstrip()]
    for figure in figures:
        caption = markdown(figure.caption)
        parts += [f"## {markdown(figure.title)}", f"![{caption}]({figure.file})", caption]
    parts += [markdown(reason) for reason in undrawn]
    if results.caveats:
        parts += ["## What to keep in mind", _bullets(results.caveats)]
    parts += ["## Methods", markdown(content.methods)]
    parts += ["## Cost and provenance", _cost(content), *_provenance(content)]
    return "\n\n".join(parts) + "\n"


def _setting(content: Content) -> Iterator[str]:
    """The command, the data that it read, the scale with what it changes, and what stood in for absent data."""
    results = content.results
    yield f"```\n{command(content.plan)}\n```"
    texts = [_data(content)]
    if results.scale:
        note = f": {results.scale_note.rstrip('.')}" if results.scale_note else ""
        texts.append(f"Scale {results.scale}{note}.")
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
            if not task.generated:
                read[task.kind] = None
            elif planned.name not in stand_ins:
                generated[task.kind] = None
    rest = f"; generated or bundled: {words.listed(list(generated))}" if generated else ""
    return f"Data read: {words.listed(list(read)) or 'none'}{rest}."


def _claims(content: Content) -> Iterator[str]:
    if not content.verdicts:
        return
    yield f"## {content.claims_heading}"
    if content.claims_source:
        yield markdown(content.claims_source)
    yield markdown(
        "Differences are paired by seed, each with its own 95 % t-interval; nothing is corrected for "
        f"their number. {content.stand_ins}".rstrip()
    )
    yield _bullets(content.verdicts)


def _bullets(items: Iterable[object]) -> str:
    return "\n".join(f"- {markdown(str(item))}" for item in items)


def _cost(content: Content) -> str:
    """By stage: how many are distinct, how many are finished, and what these cost; then all together."""
    names: dict[str, list[str]] = {}
    for identity, planned in content.plan.stages.items():
        names.setdefault(markdown(planned.name), []).append(identity)
    names = {name: names[name] for name in map(markdown, content.plan.study.stages) if name in names}
    lines = ["| stage | distinct | finished | training FLOP | time |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, identities in [*names.items(), ("all", list(content.plan.stages))]:
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
    for name in ("machine", "device", "threads", "precision"):
        values = dict.fromkeys(words.plain(run[name]) for run in runs if name in run)
        lines += [f"{name.capitalize()}: {words.listed(list(values))}"] if values else []
    versions = dict.fromkeys(f"{name} {version}" for run in runs for name, version in run.get("versions", {}).items())
    lines += [f"Versions: {', '.join(versions)}"] if versions else []
    yield _bullets(lines)
