"""The reproducibility checklist that conferences ask for, filled in from a study and its store, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headstart import words
from headstart.report.content import Content, command
from headstart.report.tables.report_table import markdown, text_table, to_markdown

Item = tuple[str, str]
"""A question of the checklist, and its answer."""


def checklist(content: Content) -> str:
    """Questions and answers, section by section: data, model, hyperparameters, runs, results, compute, code.

    What is not known is said to be not recorded. The questions follow the machine learning reproducibility checklist
    (Pineau et al. 2021) and the paper checklist of NeurIPS.
    """
    results = content.results
    sections: dict[str, Iterable[Item]] = {
        "Data": _data(content),
        "Models": _models(content),
        "Hyperparameters": _hyperparameters(content),
        "Runs": _runs(content),
        "Compute": _compute([*content.finished.values()]),
        "Code": _code(content),
    }
    lines = [f"# Reproducibility checklist: {markdown(results.title or results.name)}", ""]
    for title, items in sections.items():
        lines += [f"## {title}", ""]
        lines += [f"- **{question}** {markdown(answer or 'Not recorded.')}" for question, answer in items]
        lines.append("")
    heads = ["arm", "column", "runs", "validation", "test", f"difference to {results.against}"]
    rows = [
        [
            row.arm,
            row.column,
            f"{row.n} of {row.expected}",
            words.plus_minus(row.val),
            words.plus_minus(row.test),
            words.difference(row.difference),
        ]
        for row in results.table
    ]
    if results.against is None:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    table = to_markdown(text_table(heads, rows, names=2)).rstrip()
    return "\n".join([*lines, "## Validation beside test", "", table, ""])


def _data(content: Content) -> Iterator[Item]:
    results = content.results
    sizes, notes = [], []
    for column in results.columns:
        for facts in results.facts_of(column):
            few = facts.sizes.get("labelled") if facts.sizes.get("labelled") != facts.sizes.get("train") else None
            labelled = {} if few is None else {"train": f" ({few:,} labelled)"}
            parts = [
                f"{n:,} {split}{labelled.get(split, '')}" for split, n in facts.sizes.items() if split != "labelled"
            ]
            sizes.append(f"{column} ({facts.kind}): {words.listed(parts)}")
            notes += [f"{column}: {note}" for note in facts.notes]
    yield "How many examples has each split?", _sentence(sizes)
    seeds = {cell.chain[-1].spec.task.split_seed for cell in content.plan.cells}
    text = f"By a seed of the task ({words.listed([str(seed) for seed in sorted(seeds)])}), never by the seed of a run."
    yield "How were splits drawn?", text
    yield "What is excluded, changed or known of the data?", _sentence(notes) or "Nothing is noted."
    if results.stood_in:
        yield "Are these the data that are meant?", f"No: {results.stood_in} stood in for absent data."


def _models(content: Content) -> Iterator[Item]:
    results = content.results
    sizes = [f"{row.arm} on {row.column} {row.parameters:,}" for row in results.table if row.parameters is not None]
    yield "How many parameters has each model?", _sentence(sizes)
    yield "How is the model described?", content.methods


def _hyperparameters(content: Content) -> Iterator[Item]:
    results, study = content.results, content.plan.study
    bounds = [f"{path}: {', '.join(words.plain(value) for value in values)}" for path, values in study.axes.items()]
    yield "Which values were considered?", _sentence(bounds) or "Nothing was varied."
    numbers = [f"{row.arm} on {row.column} {row.settings_tried}" for row in results.table]
    yield "How many configurations did each arm try?", _sentence(numbers)
    rule = (
        f"{words.listed(results.choose)}: the best mean validation score over seeds, per arm and column; settings at "
        "which a seed diverged are out unless all did. Test scores are read once the choice is made."
    )
    yield "How were hyperparameters selected?", rule if results.choose else "None was selected: each had one value."
    chosen = {
        f"{row.arm} on {row.column}": ", ".join(f"{name} {words.plain(value)}" for name, value in row.chosen.items())
        for row in results.table
        if row.chosen
    }
    yield "Which were selected?", _sentence(f"{name}: {text}" for name, text in chosen.items()) or "None."


def _runs(content: Content) -> Iterator[Item]:
    results, cells = content.results, content.plan.cells
    seeds = sorted({cell.seed for cell in cells})
    states = [run.status for row in results.table for point in row.points for run in point.runs]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    several = f"{len(cells)} ({words.listed(counts)}), seeds {words.listed([str(seed) for seed in seeds])}."
    yield "How many runs are there?", several
    gaps = [row.difference for row in results.table]
    yield (
        "What do numbers and error bars mean?",
        f"Mean and standard error over the {results.run_noun}s of a run; differences are "
        f"{words.pairing(gaps, results.run_noun)}, each with a {words.interval_kind(gaps, results.run_noun)}. "
        f"{words.covered(results.folds, gaps)}",
    )
    baselines = [row.arm for column in results.columns for row in results.column_baselines(column)]
    yield "Which baselines stand beside?", _sentence(dict.fromkeys(baselines)) or "None."
    yield "What must a reader keep in mind?", " ".join(str(caveat) for caveat in results.caveats) or "Nothing is noted."


def _compute(finished: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    provenance = [result.get("provenance", {}) for result in finished]
    budgets = [result.get("budget", {}) for result in finished]
    machines = {
        f"{p.get('machine')}, {p.get('device')}, {words.many(int(p.get('threads', 1)), 'thread')}, {p.get('precision')}"
        for p in provenance
        if p.get("machine")
    }
    yield "On which hardware?", _sentence(sorted(machines))
    seconds, flops = (sum(float(budget.get(name) or 0.0) for budget in budgets) for name in ("seconds", "flops"))
    total = f"{words.many(len(finished), 'stage')} took {words.duration(seconds)} and {words.measure(flops, 'FLOP')}."
    yield "How much compute?", total if finished else ""
    memory = max((float(budget.get("peak_memory") or 0.0) for budget in budgets), default=0.0)
    yield "How much memory, at most?", f"{words.measure(memory, 'B')} in one process." if memory else ""
    versions = {f"{name} {version}" for p in provenance for name, version in p.get("versions", {}).items()}
    yield "With which software?", _sentence(sorted(versions))


def _code(content: Content) -> Iterator[Item]:
    again = command(content.plan)
    beside = ", in the folder of the page, whose study.toml holds the study with its overrides"
    yield "Which command repeats this?", again + beside * ("study.toml" in again)
    plugins = [f"{plugin.name} ({plugin.digest})" for plugin in content.plan.plugins]
    yield "Which code of one's own is used?", _sentence(plugins) or "None."


def _sentence(parts: Iterable[str]) -> str:
    texts = list(parts)
    return f"{'; '.join(texts)}." if texts else ""
