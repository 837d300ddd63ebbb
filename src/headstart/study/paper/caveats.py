"""What must be said aloud beside a table: everything here is computed from the results themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headstart import words
from headstart.statistics import LEVEL, binomial_error, estimate, smallest_p
from headstart.study.language.papers import made_of
from headstart.study.paper.learnt import learnt, learnt_nothing
from headstart.study.results.collect import Find
from headstart.study.results.results import Caveat, Results
from headstart.study.results.rows import Row
from headstart.words import Texts, merged, once

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan, PlannedStage

Key = TypeVar("Key", bound=Hashable)

FEW_SEEDS, AS_WRITTEN = 3, ("stand-in", "scale", "parents", "benchmark", "data")
"""Seeds below which a row has few; kinds of caveats whose numbers belong to their words."""

REGULARISERS = {"dropout": ("model", "dropout"), "weight decay": ("optim", "weight_decay")}
"""What may differ between arms -> its part of a stage, and its field there."""

UNSEEN = "its own code was trained by a version that did not look for leaks, and may have some."


def caveats(results: Results, plan: Plan, find: Find) -> list[Caveat]:
    """All caveats, the gravest first; what holds for several columns is said once."""
    parts = {
        "stand-in": _stand_ins(results),
        "scale": _scale(results),
        "diverged": _diverged(results),
        "failed": _failed(results),
        "start": _starts(results, plan),
        "regularisation": _regularisation(results, plan),
        "output layer": _output_layers(results, plan),
        "own code": _own_code(results, find),
        "partial": _partial(results),
        "search": _searching(results, plan),
        "at chance": _chance(results),
        "baseline": _baselines(results),
        "interval": _undecided(results),
        "comparisons": _comparisons(results),
        "seeds": _seeds(results),
        "edge": _edges(results),
        "configurations": _tried(results),
        "budget": _budgets(results),
        "average": _averages(results),
        "steps": _steps(results),
        "pretraining": learnt_nothing(results, find),
        "parents": learnt(results, plan, find),
        "machines": _machines(results),
        "mixed": _mixed(results, find),
        "test set": _test_error(results),
        "error": _training_error(results),
        "benchmark": _limits(results, plan),
        "data": _notes(results),
    }
    whole = len(results.columns)
    return [
        Caveat(kind, text, () if whole in (1, len(columns)) else columns)
        for kind, texts in parts.items()
        for text, columns in (once if kind in AS_WRITTEN else merged)(texts)
    ]


def _grouped(results: Results, keys_of: Callable[[Row], Iterable[Key]]) -> Iterator[tuple[str, Key, list[Row]]]:
    """(column, key, the rows of the column that have it): what holds for several arms is said once."""
    for column in results.columns:
        groups: dict[Key, list[Row]] = {}
        for row in results.in_column(column):
            for key in keys_of(row):
                groups.setdefault(key, []).append(row)
        yield from ((column, key, rows) for key, rows in groups.items())


def _arms(results: Results, rows: Sequence[Row]) -> str:
    """The arms of these rows of a column by name; of more than three, all or all but one of them in short."""
    return words.arms([row.arm for row in rows], [row.arm for row in results.in_column(rows[0].column)])


def _are(rows: Sequence[Row]) -> str:
    return "is" if len(rows) == 1 else "are"


def _stand_ins(results: Results) -> Texts:
    for row in results.table:
        if row.stand_in:
            who, whose = (f"{row.arm}: stand-in", "of it") if results.apart(row) else ("Stand-in", "here")
            yield (
                row.column,
                f"{who} data ({row.stand_in}): no score {whose} can be held against one on "
                "the data meant; a difference may still show its direction.",
            )


def _scale(results: Results) -> Texts:
    if results.scale and results.scale_note:
        yield "", f"{results.scale_text}: {results.scale_note.rstrip('.')}."


def _diverged(results: Results) -> Texts:
    for row in results.table:
        lost = {
            i: runs
            for i, point in enumerate(row.points)
            if (runs := [run for run in point.runs if run.status == "diverged"])
        }
        if not lost:
            continue
        number = words.many(sum(map(len, lost.values())), "run")
        where = ""
        if results.names:
            settings = [words.settings(row.points[i].settings, results.names) for i in lost]
            where = f" at {settings[0]}" if len(lost) == 1 else f" at {len(lost)} of {len(row.points)} settings"
        outcome = "which were not chosen"
        if row.status == "diverged":
            remark = "; its numbers are those at the best weights before" if row.val else ""
            outcome = f"all its settings have such a run{remark}"
        last = [run.more["last_val"] for runs in lost.values() for run in runs if "last_val" in run.more]
        span = " to ".join(dict.fromkeys(words.score(value) for value in (min(last), max(last)))) if last else ""
        finite = f" The last finite validation {words.metric(row.metric)} was {span}." if last else ""
        yield row.column, f"{row.arm}: {number} diverged{where}, {outcome}.{finite}"


def _failed(results: Results) -> Texts:
    for row in results.table:
        states = [run.status for point in row.points for run in point.runs]
        if failed := states.count("failed"):
            yield row.column, f"{row.arm}: {failed} of {words.many(len(states), 'run')} failed."


def _own_code(results: Results, find: Find) -> Texts:
    """What was seen of a person's own code before it was trained, or that nobody looked."""

    def remarks(row: Row) -> list[str]:
        texts: dict[str, None] = {}
        for _, identity in (stage for run in row.runs for stage in run.stages):
            result = find(identity) or {}
            own = result.get("provenance", {}).get("plugins") and result.get("budget", {}).get("steps")
            texts |= dict.fromkeys(result.get("remarks", [UNSEEN] if own else []))
        return list(texts)

    for column, text, rows in _grouped(results, remarks):
        yield column, f"{_arms(results, rows)}: {text}"


def _partial(results: Results) -> Texts:
    for row in results.table:
        if row.unfinished:
            yield row.column, f"{row.arm}: {row.unfinished} not finished; the choice may change."


def _chance(results: Results) -> Texts:
    trivial = {baseline.stages for baseline in results.baselines}

    def levels(row: Row) -> list[tuple[str, float]]:
        at_chance = row.status == "at chance" and row.test is not None and row.stages not in trivial
        return [(words.metric(row.metric), results.facts[row.task].chance[row.metric])] if at_chance else []

    for column, (metric, level), rows in _grouped(results, levels):
        arms = words.listed([f"{row.arm} ({words.plus_minus(row.test)})" for row in rows])
        above = f"a test {metric} of {words.score(level)} by two standard errors"
        yield column, f"{arms} {_are(rows)} at chance: not above {above}."


def _baselines(results: Results) -> Texts:
    def better(row: Row) -> list[tuple[str, float]]:
        baseline = results.better_baseline(row)
        return [] if baseline is None else [baseline]

    for column, (name, value), rows in _grouped(results, better):
        arms = words.listed([f"{row.arm} ({words.score(row.test.mean)})" for row in rows if row.test])
        yield column, f"{arms} {_are(rows)} no better on test than a trivial baseline: {name} ({words.score(value)})."


def _undecided(results: Results) -> Texts:
    for column in results.columns:
        gaps = {row.arm: row.difference for row in results.in_column(column) if row.difference is not None}
        unclear = [
            f"{arm} ({words.interval(gap)})" for arm, gap in gaps.items() if gap.interval is not None and not gap.clear
        ]
        if unclear:
            noun = "interval of the difference contains"
            if len(unclear) > 1:
                noun = "intervals of the differences contain"
            arms = words.listed(unclear, "or")
            yield column, f"Whether {results.against} differs from {arms} is undecided: the {noun} 0."


def _comparisons(results: Results) -> Texts:
    """Which differences are still clear once Holm's correction counts how many are looked at."""
    corrected = results.corrected
    clear = [row for row in results.table if row.key in corrected and row.difference and row.difference.clear]
    lost = [row for row in clear if corrected[row.key] >= 1 - LEVEL]
    several = len(results.columns) > 1
    if len(corrected) > 1 and lost:
        least = max(smallest_p(row.difference) for row in lost if row.difference is not None)
        names = [f"{row.arm}{f' on {row.column}' if several else ''} (p = {corrected[row.key]:.2g})" for row in lost]
        yield (
            "",
            f"After Holm's correction for {len(corrected)} comparisons with {results.against}, "
            f"{len(clear) - len(lost)} of the {len(clear)} intervals without 0 still count as clear; "
            f"undecided then: {words.listed(names)}. No permutation test over so few runs reaches p below {least:.2g}.",
        )


def _seeds(results: Results) -> Texts:
    few = _grouped(results, lambda row: [row.n] if row.test is not None and row.n < FEW_SEEDS else [])
    for column, number, rows in few:
        text = f"one {results.run_noun} has no standard error" if number == 1 else "too few for an error to be trusted"
        arms = _arms(results, rows)
        verb = "has" if len(rows) == 1 or arms.startswith("every arm") else "have"
        yield column, f"{arms} {verb} {words.many(number, results.run_noun)}: {text}."


def _edges(results: Results) -> Texts:
    """Values at the edge of their sweeps; one that other arms have on other columns is said once."""
    where: dict[str, dict[str, list[str]]] = {}
    for column, text, rows in _grouped(results, lambda row: _edges_of(row, results.names)):
        whole = len(rows) == len(results.in_column(column)) > 1
        where.setdefault(text, {}).setdefault("every arm" if whole else _arms(results, rows), []).append(column)
    for text, by_arms in where.items():
        several = "; ".join(f"{arms} on {words.listed(columns)}" for arms, columns in by_arms.items())
        arms = several if len(by_arms) > 1 else next(iter(by_arms))
        for column in [""] if len(by_arms) > 1 else next(iter(by_arms.values())):
            yield column, f"{arms}: {text}; a wider sweep may do better."


def _edges_of(row: Row, names: Mapping[str, str]) -> Iterator[str]:
    """The chosen values of a row that are the lowest or highest of their sweeps."""
    for name, value in row.chosen.items():
        swept = [point.settings[name] for point in row.points if name in point.settings]
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in swept):
            continue
        values = sorted(set(swept))
        if len(values) > 1 and value in (values[0], values[-1]):
            side = "lowest" if value == values[0] else "highest"
            sweep = ", ".join(words.plain(v) for v in values)
            yield f"the chosen {names.get(name, name)} {words.plain(value)} is the {side} of its sweep ({sweep})"


def _searching(results: Results, plan: Plan) -> Texts:
    for column in dict.fromkeys(cell.column for cell in plan.trials):
        arms = dict.fromkeys(cell.arm for cell in plan.trials if cell.column == column)
        if left := [arm for arm in arms if results.row(arm, column) is None]:
            have, whose = ("has", "its") if len(left) == 1 else ("have", "their")
            yield (
                column,
                f"{words.listed(left)} {have} no row: {whose} search is not finished, so that nothing is chosen.",
            )


def _tried(results: Results) -> Texts:
    for column in results.columns:
        numbers = {row.arm: row.settings_tried for row in results.in_column(column)}
        if len(set(numbers.values())) > 1:
            by_arm = words.listed([f"{arm} {number}" for arm, number in numbers.items()])
            yield column, f"Arms tried different numbers of settings: {by_arm}."


def _budgets(results: Results) -> Texts:
    bases = {}
    for column in results.columns:
        rows = [row for row in results.in_column(column) if row.budget.get("examples")]
        base = bases[column] = next((row for row in rows if row.arm == results.against), rows[0] if rows else None)
        alike = [row for row in rows if base and row is not base and abs(row.share("examples", base) - 1) <= 0.01]
        flops = {row.arm: row.share("flops", base) for row in alike if base}
        if base and any(abs(share - 1) > 0.1 for share in flops.values()):
            shares = [f"{words.times(share).removesuffix(' times')} ({arm})" for arm, share in flops.items()]
            yield (
                column,
                f"FLOPs differ at as many training examples: {words.listed(shares)} times those of {base.arm}.",
            )

    def gaps(row: Row) -> list[str]:
        base = bases[row.column]
        text = _budget_gap(row, base) if base is not None and row is not base and row.budget.get("examples") else ""
        return [text] if text else []

    for column, text, rows in _grouped(results, gaps):
        yield column, f"{_arms(results, rows)} read {text}"


def _budget_gap(row: Row, base: Row) -> str:
    """How a row's training differs from another's, or nothing where it does not (within 1 %)."""
    whole = row.share("examples", base)
    last = (row.last["examples"] / base.last["examples"]) if base.last.get("examples") else 1.0
    equal = abs(last - 1) <= 0.01
    if abs(whole - 1) <= 0.01 and equal:
        return ""
    more = f"{words.times(whole)} as many training examples as {base.arm}"
    if all(len(run.stages) == 1 for run in (*row.runs, *base.runs)):
        return f"{more}."
    return f"{more}, pretraining included; in the last stage alone {'' if equal else f'{words.times(last)} '}as many."


def _averages(results: Results) -> Texts:
    lacking: dict[tuple[str, str], dict[str, None]] = {}
    for average in results.averages:
        for columns, text in ((average.chance, "chance stands in for it"), (average.missing, "it is left out")):
            if columns:
                lacking.setdefault((average.arm, text), {}).update(dict.fromkeys(columns))
    for (arm, text), names in lacking.items():
        yield "", f"The average of {arm} lacks a number for {words.listed(list(names))}: {text}."


def _steps(results: Results) -> Texts:
    if results.match and any(row.match() for row in results.table):
        text = f"Steps to match {results.match} are those of the last stage alone, until the mean validation curve of"
        text += f" an arm, at its chosen settings, is as good as the best point of that of {results.match}; test is not"
        yield "", f"{text} read, and steps are known as finely as validation was scored."


def _mixed(results: Results, find: Find) -> Texts:
    names = ("device", "threads", "precision", "way", "torch", "instructions")
    kinds: dict[str, set[str]] = {name: set() for name in names}
    for identity in dict.fromkeys(i for row in results.table for i in row.stages):
        result = find(identity) or {}
        provenance = result.get("provenance", {})
        values = {**provenance, "torch": provenance.get("versions", {}).get("torch")}
        if result.get("budget", {}).get("steps"):
            values["way"] = provenance.get("way", "alone")
        for name in kinds:
            if values.get(name) is not None:
                kinds[name].add(words.plain(values[name]))
    nouns = {
        "threads": "thread counts",
        "way": "ways of training",
        "torch": "versions of torch",
        "instructions": "instruction sets of processors, or preloaded libraries",
    }
    for name, texts in kinds.items():
        if len(texts) > 1:
            noun = nouns.get(name, f"{name}s")
            text = f"The table mixes {noun}: {words.listed(sorted(texts))}"
            yield "", f"{text}. Intervals do not cover what these change."


def _machines(results: Results) -> Texts:
    """What ran on several kinds of machines, with the scores of a row that did on each of them."""
    kinds = results.machines
    if len(kinds) < 2:
        return
    by_row = []
    for row in results.table:
        scores = {
            kind: estimate(run.test for run in row.runs if run.machine == kind and run.test is not None)
            for kind in kinds
        }
        each = [
            f"{words.plus_minus(x)} on {kind} ({words.many(x.n, results.run_noun)})" for kind, x in scores.items() if x
        ]
        name = f"{row.arm} on {row.column}" if len(results.columns) > 1 else row.arm
        by_row += [f"{name} {words.listed(each)}"] if len(each) > 1 else []
    text = f"The table mixes machines: {words.listed(kinds)}. Seeds do not cover what another processor changes"
    yield "", f"{text}; test by machine: {'; '.join(by_row)}." if by_row else f"{text}."


def _test_error(results: Results) -> Texts:
    for column in results.columns:
        rows = [row for row in results.in_column(column) if row.test is not None]
        for row in rows:
            facts = results.facts.get(row.task)
            units = facts.tested if facts else 0
            if row.metric == "accuracy" and facts and units:
                noun = "scored positions" if facts.asked else "targets of positions" if facts.positions else "examples"
                examples = facts.sizes.get("test", units)
                best = max(other.test.mean for other in rows if other.test is not None)
                error = binomial_error(min(max(best, 0.0), 1.0), units)
                text = f"its own binomial standard error is {words.score(error)} at the best arm's score"
                if best >= 1:  # that error would be 0: what so few right answers exclude at 95 %
                    most = 1 - (1 - LEVEL) ** (1 / units)
                    text = f"the best arm has all of them right, so that its error rate is below {most:.2g} (95 %)"
                if examples < units:
                    least = binomial_error(min(max(best, 0.0), 1.0), examples)
                    least = least if best < 1 else 1 - (1 - LEVEL) ** (1 / examples)
                    text += f" were they independent, and {words.score(least)} were each of the {examples:,} examples"
                    text += " that they stand in but one draw (positions of one example are something between)"
                yield column, f"The test set has {units:,} {noun}: {text}, from one draw that all arms share."
                break


def _training_error(results: Results) -> Texts:
    if any(row.test is not None and row.test.sem is not None for row in results.table):
        yield "", words.covered(results.folds, [row.difference for row in results.table])


def _starts(results: Results, plan: Plan) -> Texts:
    """What scores that rest on a stage do not show, by the kind of its model."""

    def limits(row: Row) -> Iterator[str]:
        chain = [planned for run in row.runs for _, i in run.stages if (planned := plan.every_stage.get(i)) is not None]
        yield from dict.fromkeys(filter(None, (planned.spec.shows_not for planned in chain)))

    for column, text, rows in _grouped(results, limits):
        yield column, f"{_arms(results, rows)}: {text}"


def _last_stage(row: Row, plan: Plan) -> PlannedStage | None:
    """The stage that a row's score is of, where it was trained; None where there is no run, or it was not."""
    _, identity = next((run.stages[-1] for run in row.runs if run.stages), ("", ""))
    last = plan.stages.get(identity)
    return None if last is None or getattr(last.spec, "optim", None) is None else last


def _tried_values(row: Row, setting: str) -> set[Any]:
    """The values of a setting that the row's points have; None alone where it is no axis."""
    return {point.settings.get(setting) for point in row.points}


def _regularisation(results: Results, plan: Plan) -> Texts:
    """Which arms have dropout and weight decay where others have none, or less: a lead may be that of these."""

    def kinds(row: Row) -> list[str]:
        last = _last_stage(row, plan)
        if last is None:
            return []
        each = []
        for name, (part, field) in REGULARISERS.items():
            tried = _tried_values(row, f"{last.name}.{part}.{field}")
            value = getattr(getattr(last.spec, part, None), field, 0.0)
            each += [f"tuned {name}"] if len(tried) > 1 else [f"{name} {words.plain(value)}"] if value else []
        return [words.listed(each) or "none"]

    by_column: dict[str, dict[str, list[Row]]] = {}
    for column, kind, rows in _grouped(results, kinds):
        by_column.setdefault(column, {})[kind] = rows
    for column, of in by_column.items():
        if len(of) > 1:
            each = [f"{kind} in {words.listed([row.arm for row in rows])}" for kind, rows in of.items()]
            yield column, f"Regularisation differs, and a lead may be due to it: {'; '.join(each)}."


def _output_layers(results: Results, plan: Plan) -> Texts:
    """Arms of which the output layer alone trains, at one rate: what it reads may differ in scale."""

    def rates(row: Row) -> list[bool]:
        last = _last_stage(row, plan)
        if last is None or getattr(last.spec, "trainable", "") != "head":
            return []
        return [True] if len(_tried_values(row, f"{last.name}.optim.lr")) == 1 else []

    for column, _, rows in _grouped(results, rates):
        if len(rows) > 1:
            text = (
                "the output layer alone trains, at one learning rate. What it reads may differ in scale between these "
            )
            yield (
                column,
                f"{_arms(results, rows)}: {text}arms, so that a lead may come from the rate alone: try several rates.",
            )


def _limits(results: Results, plan: Plan) -> Texts:
    limits: dict[str, list[str]] = {}
    for cell in plan.cells:
        limits.setdefault(cell.chain[-1].spec.task.shows_not, []).append(cell.column)
    for text, columns in limits.items():
        for column in results.columns if text else ():
            if any(made_of(column, name) for name in columns):
                yield column, f"What this does not show: {text}"


def _notes(results: Results) -> Texts:
    for column in results.columns:
        for facts in results.facts_of(column):
            yield from ((column, note) for note in facts.notes)
