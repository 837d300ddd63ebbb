"""What must be said aloud beside a table: everything here is computed from the results themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headstart.study import words
from headstart.study.collect import Find, score_of
from headstart.study.results import Caveat, Results, Row, sharing_stage
from headstart.study.statistics import binomial_error, mean

if TYPE_CHECKING:
    from headstart.study.plan import Plan

Said = Iterator[tuple[str, str, str]]
"""(kind, column, text)."""

FEW_SEEDS = 3
EXPLAINED = 0.01
"""R2 below which a stage has explained nothing, whatever its loss: of black images, black is the median."""


def caveats(results: Results, plan: Plan, find: Find) -> list[Caveat]:
    """All caveats, the gravest first; what holds for several columns is said once."""
    said: list[tuple[str, str, str]] = []
    for part in (
        _stand_ins,
        _scale,
        _diverged,
        _unfinished,
        _chance,
        _baselines,
        _zero,
        _seeds,
        _edges,
        _tried,
        _budgets,
    ):
        said += part(results)
    said += _averages(results)
    said += _steps(results)
    said += _learnt_nothing(results, find)
    said += _mixed(results, find)
    said += _test_error(results)
    said += _limits(results, plan)
    where: dict[tuple[str, str], list[str]] = {}
    for kind, column, text in said:
        held = where.setdefault((kind, text), [])
        if column and column not in held:
            held.append(column)
    single = len(results.columns) == 1
    return [
        Caveat(kind, text, () if single or len(columns) == len(results.columns) else tuple(columns))
        for (kind, text), columns in where.items()
    ]


def _stand_ins(results: Results) -> Said:
    for row in results.table:
        if row.stand_in:
            who, whose = (f"{row.arm}: stand-in", "of it") if results.apart(row) else ("Stand-in", "here")
            yield (
                "stand-in",
                row.column,
                f"{who} data ({row.stand_in}): no score {whose} can be held against one on "
                "the data meant; a difference may still show its direction.",
            )


def _scale(results: Results) -> Said:
    if results.scale and results.scale_note:
        yield "scale", "", f"Scale {results.scale}: {results.scale_note.rstrip('.')}."


def _diverged(results: Results) -> Said:
    for row in results.table:
        lost = [(p, [r for r in p.runs if r.status == "diverged"]) for p in row.points]
        lost = [(p, runs) for p, runs in lost if runs]
        if not lost:
            continue
        number = words.many(sum(len(runs) for _, runs in lost), "run")
        places = [words.settings(p.settings, results.names) for p, _ in lost if results.names]
        where = f" at {places[0]}" if len(places) == 1 else f" at {len(lost)} of {len(row.points)} settings"
        out = "which were not chosen"
        if row.status == "diverged":
            kept = "; its numbers are those at the best weights before" if row.val else ""
            out = f"all its settings have such a run{kept}"
        last = [run.more["last_val"] for _, runs in lost for run in runs if "last_val" in run.more]
        span = " to ".join(dict.fromkeys(words.score(value) for value in (min(last), max(last)))) if last else ""
        told = f" The last finite validation {words.metric(row.metric)} was {span}." if last else ""
        yield "diverged", row.column, f"{row.arm}: {number} diverged{where if places else ''}, {out}.{told}"


def _unfinished(results: Results) -> Said:
    for row in results.table:
        runs = [run for point in row.points for run in point.runs]
        failed = sum(run.status == "failed" for run in runs)
        left = sum(run.status not in ("complete", "diverged", "failed") for run in runs)
        if failed:
            yield "failed", row.column, f"{row.arm}: {failed} of {words.many(len(runs), 'run')} failed."
        if left:
            runs_left = f"{left} of {words.many(len(runs), 'run')}"
            yield "partial", row.column, f"{row.arm}: {runs_left} not finished; the choice may change."


def _chance(results: Results) -> Said:
    for row in results.table:
        if row.status == "at chance" and row.test is not None:
            level = results.facts[row.task].chance[row.metric]
            yield (
                "at chance",
                row.column,
                f"{row.arm} is at chance: test {words.metric(row.metric)} {words.plus_minus(row.test)}, "
                f"chance {words.score(level)}.",
            )


def _baselines(results: Results) -> Said:
    for column in results.columns:
        beaten: dict[tuple[str, float], list[Row]] = {}
        for row in results.in_column(column):
            base = results.better_baseline(row)
            if base is not None:
                beaten.setdefault(base, []).append(row)
        for (name, value), rows in beaten.items():
            arms = words.listed([f"{row.arm} ({words.score(row.test.mean)})" for row in rows if row.test])
            verb = "is" if len(rows) == 1 else "are"
            yield (
                "baseline",
                column,
                f"{arms} {verb} no better on test than a trivial baseline: {name} ({words.score(value)}).",
            )


def _zero(results: Results) -> Said:
    for column in results.columns:
        gaps = {row.arm: row.difference for row in results.in_column(column) if row.difference is not None}
        unclear = [
            f"{arm} ({words.interval(gap)})" for arm, gap in gaps.items() if gap.interval is not None and not gap.clear
        ]
        if unclear:
            noun = (
                "interval of the difference contains" if len(unclear) == 1 else "intervals of the differences contain"
            )
            arms = words.listed(unclear, "or")
            yield "interval", column, f"Whether {results.against} differs from {arms} is undecided: the {noun} 0."


def _seeds(results: Results) -> Said:
    for column in results.columns:
        few: dict[int, list[str]] = {}
        for row in results.in_column(column):
            if row.test is not None and row.n < FEW_SEEDS:
                few.setdefault(row.n, []).append(row.arm)
        for number, arms in few.items():
            text = "one seed has no standard error" if number == 1 else "too few for an error to be trusted"
            verb = "has" if len(arms) == 1 else "have"
            yield "seeds", column, f"{words.listed(arms)} {verb} {words.many(number, 'seed')}: {text}."


def _edges(results: Results) -> Said:
    names = results.names
    for column in results.columns:
        edges: dict[str, list[str]] = {}
        for row in results.in_column(column):
            for name, value in row.chosen.items():
                swept = [p.settings[name] for p in row.points if name in p.settings]
                if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in swept):
                    continue
                values = sorted(set(swept))
                if len(values) > 1 and value in (values[0], values[-1]):
                    side = "lowest" if value == values[0] else "highest"
                    text = (
                        f"the chosen {names.get(name, name)} {words.plain(value)} is the {side} of its sweep "
                        f"({', '.join(words.plain(v) for v in values)})"
                    )
                    edges.setdefault(text, []).append(row.arm)
        for text, arms in edges.items():
            yield "edge", column, f"{words.listed(arms)}: {text}; a wider sweep may do better."


def _tried(results: Results) -> Said:
    for column in results.columns:
        numbers = {row.arm: len(row.points) for row in results.in_column(column)}
        if len(set(numbers.values())) > 1:
            told = words.listed([f"{arm} {number}" for arm, number in numbers.items()])
            yield "configurations", column, f"Arms tried different numbers of settings: {told}."


def _budgets(results: Results) -> Said:
    for column in results.columns:
        rows = [row for row in results.in_column(column) if row.budget.get("examples")]
        base = next((row for row in rows if row.arm == results.against), rows[0] if rows else None)
        told: dict[str, list[str]] = {}
        for row in rows:
            if base is not None and row is not base:
                told.setdefault(_budget_gap(row, base), []).append(row.arm)
        for text, arms in told.items():
            if text:
                yield "budget", column, f"{words.listed(arms)} read {text}"


def _budget_gap(row: Row, base: Row) -> str:
    """How a row's training differs from another's, or nothing where it does not (within 1 %)."""
    whole = row.budget["examples"] / base.budget["examples"]
    last = (row.last["examples"] / base.last["examples"]) if base.last.get("examples") else 1.0
    if abs(whole - 1) <= 0.01 and abs(last - 1) <= 0.01:
        return ""
    more = f"{words.times(whole)} as many training examples as {base.arm}"
    if all(len(run.stages) == 1 for run in (*row.runs, *base.runs)):
        return f"{more}."
    alone = (
        "in the last stage alone as many"
        if abs(last - 1) <= 0.01
        else (f"in the last stage alone {words.times(last)} as many")
    )
    return f"{more}, pretraining included; {alone}."


def _averages(results: Results) -> Said:
    for found in results.averages:
        for columns, text in ((found.chance, "chance stands in for it"), (found.missing, "it is left out")):
            if columns:
                yield ("average", "", f"The average of {found.arm} lacks a number for {words.listed(columns)}: {text}.")


def _steps(results: Results) -> Said:
    if results.match and any(row.match() for row in results.table):
        yield (
            "steps",
            "",
            f"Steps to match {results.match} are those of the last stage alone, until the mean "
            f"validation curve of an arm, at its chosen settings, is as good as the best point of that "
            f"of {results.match}; test is not read, and steps are known as finely as validation was "
            "scored.",
        )


def _learnt_nothing(results: Results, find: Find) -> Said:
    """Stages to start from that explain nothing of what they were to predict: there is nothing to take over."""
    for column in results.columns:
        rows = results.in_column(column)
        parents = dict.fromkeys(name for row in rows for run in row.runs for name, _ in run.stages[:-1])
        for name in parents:
            for identities, arms in sharing_stage(rows, name).items():
                found = [value for one in identities if (value := score_of(find(one), "val", "r2")) is not None]
                if found and mean(found) < EXPLAINED:
                    yield (
                        "pretraining",
                        column,
                        f"{words.listed(arms)}: stage {name} learnt next to nothing. On validation it predicts no "
                        f"better than a constant (R² {words.score(mean(found))}; the mean has 0), so that what is "
                        "seen here says little of a start that learnt.",
                    )


def _mixed(results: Results, find: Find) -> Said:
    names = ("machine", "device", "threads", "precision", "torch")
    kinds: dict[str, dict[str, None]] = {name: {} for name in names}
    for identity in dict.fromkeys(i for row in results.table for i in row.stages):
        provenance = (find(identity) or {}).get("provenance", {})
        for name in kinds:
            held = provenance if name != "torch" else provenance.get("versions", {})
            if name in held:
                kinds[name][words.plain(held[name])] = None
    for name, values in kinds.items():
        if len(values) > 1:
            noun = {"threads": "thread counts", "torch": "versions of torch"}.get(name, f"{name}s")
            yield (
                "mixed",
                "",
                f"The table mixes {noun}: {words.listed(sorted(values))}. Results agree "
                "between them within their intervals, not bit for bit.",
            )


def _test_error(results: Results) -> Said:
    spread = False
    for column in results.columns:
        for row in results.in_column(column):
            facts = results.facts.get(row.task)
            spread = spread or (row.test is not None and row.test.sem is not None)
            units = facts.sizes.get("test", 0) if facts else 0
            if row.metric == "accuracy" and row.test is not None and units:
                best = _best(results.in_column(column))
                error = binomial_error(min(max(best, 0.0), 1.0), units)
                yield (
                    "test set",
                    column,
                    f"The test set has {units:,} examples: its own binomial standard error is "
                    f"{words.score(error)} at the best arm's score, from one draw that all arms share.",
                )
                break
    if spread:
        yield (
            "error",
            "",
            "Standard errors and intervals cover training only (seeds of initial weights, "
            "order and masks), not the draw of the data or of the split.",
        )


def _best(rows: Sequence[Row]) -> float:
    values = [row.test.mean for row in rows if row.test is not None]
    return max(values, default=0.0)


def _limits(results: Results, plan: Plan) -> Said:
    limits: dict[str, list[str]] = {}
    for cell in plan.cells:
        limits.setdefault(cell.chain[-1].spec.task.shows_not, []).append(cell.column)
    for text, columns in limits.items():
        for column in results.columns if text else ():
            if column in columns or column.startswith(tuple(f"{name} " for name in columns)):
                yield "benchmark", column, f"What this does not show: {text}"
    for column in results.columns:
        for facts in results.facts_of(column):
            for note in facts.notes:
                yield "data", column, note
