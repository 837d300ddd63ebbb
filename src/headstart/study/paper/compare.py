"""Two stages, or two studies, side by side: settings, scores and curves; and gains pooled over many studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.errors import BadInput
from headstart.spec import flat
from headstart.statistics import LEVEL, Difference, corrected, mean
from headstart.study.results.answers import stratified
from headstart.study.results.collect import ReadRecords, curve, mean_curve, undamaged
from headstart.study.results.rows import BUDGET_AMOUNTS, Row, test_gap

if TYPE_CHECKING:
    from headstart.stage import StageSpec, TrainStage
    from headstart.store import Store
    from headstart.study.language.plan import Plan
    from headstart.study.results.results import Results

MOST_CURVE_STEPS = 10
"""Steps of two curves that are shown, at most; of studies as few as FEW_CURVE_STEPS."""
FEW_CURVE_STEPS = 3


@dataclass(frozen=True)
class SnapshotSection:
    """A part of a comparison: a table, what it is of, and what there is to say where it has no rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str


def compare_stages(store: Store, first: str, second: str) -> list[SnapshotSection]:
    """Sections on settings, scores and the validation curve of two stages, by identity.

    Raises: BadInput where a stage is not in the store.
    """
    pair = [store.entry(identity) for identity in (first, second)]
    for stage in pair:
        if stage.stage is None:
            state = f"stage {stage.identity} is {stage.status} in store {store.root}"
            raise BadInput(f"compare: {state}; see `headstart ls`")
    specs = [{"name": (stage.stage or {}).get("name"), **(stage.stage or {}).get("spec", {})} for stage in pair]
    results = [stage.result or {} for stage in pair]
    names = (first[:8], second[:8])
    monitored = [result["monitor"]["name"] for result in results if "monitor" in result]
    curves = [curve(undamaged(store.records)(name), monitored[0] if monitored else "loss") for name in (first, second)]
    heads = ("step", *names, "difference")
    return [
        _settings(specs, names),
        SnapshotSection(
            "Scores and cost", ("number", *names, "difference"), tuple(_scores(results)), "Neither is finished."
        ),
        SnapshotSection(
            f"Validation {words.metric(monitored[0] if monitored else 'loss')}",
            heads,
            tuple(_marks(curves[0], curves[1], MOST_CURVE_STEPS)),
            "Their records have no step in common.",
        ),
    ]


def compare_studies(
    plans: Sequence[Plan], results: Sequence[Results], records: Sequence[ReadRecords], names: tuple[str, str]
) -> list[SnapshotSection]:
    """Sections on the settings with the machines, the scores and the validation curves of two studies.

    Scores of an arm on a column that both have are compared by the rule of `statistics.difference`: the second
    less the first.
    """
    rows = [{(row.arm, row.column): row for row in each.table} for each in results]
    keys = list(dict.fromkeys([*rows[0], *rows[1]]))
    both = [key for key in keys if key in rows[0] and key in rows[1]]
    scores = [(*key, *_pair(rows[0].get(key), rows[1].get(key))) for key in keys]
    curves = []
    for key in both:
        means = [_mean_curve(rows[i][key], records[i]) for i in range(2)]
        same = rows[0][key].metric == rows[1][key].metric
        curves += [(*key, *marks) for marks in (_marks(means[0], means[1], FEW_CURVE_STEPS) if same else ())]
    return [
        _settings(
            [
                plan.study.model_dump(mode="json") | {"machines": each.machines}
                for plan, each in zip(plans, results, strict=True)
            ],
            names,
        ),
        SnapshotSection(
            "Test scores", ("arm", "column", *names, "difference"), tuple(scores), "Neither has a finished run."
        ),
        SnapshotSection(
            "Validation curves, means over seeds",
            ("arm", "column", "step", *names, "difference"),
            tuple(curves),
            "No arm and column of both has records at a common step.",
        ),
    ]


def _settings(documents: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> SnapshotSection:
    first, second = (filled(document) for document in documents)
    apart = [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]
    texts = tuple((key, *(words.plain(d[key]) if key in d else words.NONE for d in (first, second))) for key in apart)
    return SnapshotSection("Settings that differ", ("setting", *names), texts, "All settings are equal.")


def filled(table: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    """Every value under its full name; what is None or empty counts as not set."""
    return {name: value for name, value in flat(table, head).items() if value not in (None, "", [], ())}


def _scores(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    numbers: list[dict[str, float]] = []
    for result in results:
        values = {}
        for weights in ("best", "last"):
            for split in ("train", "val", "test"):
                for metric, value in result.get("scores", {}).get(weights, {}).get(split, {}).items():
                    values[f"{split} {words.metric(metric)}, {weights} weights"] = value
        values |= {name: result.get("budget", {}).get(name) for name in BUDGET_AMOUNTS}
        values["parameters"] = result.get("parameters", {}).get("total")
        numbers.append({name: value for name, value in values.items() if value is not None})
    out: list[tuple[str, ...]] = []
    for name in dict.fromkeys([*numbers[0], *numbers[1]]):
        text = words.score if "," in name else words.duration if name == "seconds" else words.count
        first, second = (each.get(name) for each in numbers)
        gap = words.signed(second - first) if "," in name and first is not None and second is not None else ""
        out.append((name, text(first), text(second), gap))
    return out


def _marks(first: Mapping[int, float], second: Mapping[int, float], number: int) -> list[tuple[str, ...]]:
    """The two curves at steps that both have, evenly taken, the last one among them."""
    steps = sorted(first.keys() & second.keys())
    count = min(number, len(steps))
    marks = [steps[-1 - (i * len(steps)) // count] for i in range(count)]
    return [
        (f"{step:,}", words.score(first[step]), words.score(second[step]), words.signed(second[step] - first[step]))
        for step in reversed(marks)
    ]


def _mean_curve(row: Row, read: ReadRecords) -> dict[int, float]:
    records = undamaged(read)
    curves = [curve(records(run.stages[-1][1]), row.metric) for run in row.runs]
    return mean_curve([scores for scores in curves if scores])


def _pair(first: Row | None, second: Row | None) -> tuple[str, str, str]:
    """Both scores with their numbers of seeds, and the difference with its interval."""
    texts = [
        f"{words.plus_minus(row.test)} ({words.many(row.n, 'seed')})" if row is not None and row.test else words.NONE
        for row in (first, second)
    ]
    gap = None
    if first is not None and second is not None and first.metric == second.metric:
        gap = test_gap(second, first)
    return texts[0], texts[1], words.difference(gap)


@dataclass(frozen=True)
class Gain:
    """What self-pretraining gained on test over training from scratch: one arm on one column of a study.

    data: kind of task, and of a person's own data its file. batch, per_epoch, steps: of training from scratch, steps
    per epoch and in all. difference: over seeds, above 0 where pretraining is better. pairs: the reported stages of
    both arms at each seed, by which a gain that several studies print counts once (of arms without a common seed,
    those of the first). by_seed: the gain at each seed that both arms have.
    """

    study: str
    arm: str
    column: str
    data: str
    metric: str
    batch: int
    per_epoch: int
    steps: int
    difference: Difference
    pairs: frozenset[tuple[str, str]]
    by_seed: Mapping[int, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The gain as JSON has it."""
        gap = self.difference
        numbers = {"gain": gap.mean, "interval": list(gap.interval or ()) or None, "n": gap.n}
        names = ("study", "arm", "column", "data", "metric", "batch", "per_epoch", "steps")
        return {**{name: getattr(self, name) for name in names}, **numbers}


def gains(plan: Plan, results: Results) -> Iterator[Gain]:
    """The gains of a study: of arms that take all but the head from a stage without targets on the same kind of task,
    over training the same model from scratch in the same batches."""
    from headstart.stage import TrainStage

    last = {row.key: plan.every_stage[row.runs[0].stages[-1][1]].spec for row in results.table if row.runs}
    for row in results.table:
        own = last.get(row.key)
        parent = getattr(own, "parent", None)
        if not isinstance(own, TrainStage) or not isinstance(parent, TrainStage):
            continue
        if parent.objective.uses_target or parent.parent is not None:
            continue
        if own.task.kind != parent.task.kind or own.start not in (("take(all)",), ("take(all-head)",)):
            continue
        first = results.row(results.against or "", row.column)
        rest = [item for item in results.table if item.column == row.column and item is not first]
        alike = (item for item in (first, *rest) if item and _from_scratch(own, last.get(item.key), item is first))
        base = next((item for item in alike if item.last.get("epochs")), None)
        gap = None if base is None else test_gap(row, base)
        if base is None or gap is None:
            continue
        steps = base.last["steps"]
        if not row.greater:
            low, high = (None if end is None else -end for end in (gap.high, gap.low))
            gap = replace(gap, mean=-gap.mean, low=low, high=high)
        others = {run.seed: run.stages[-1][1] for run in base.runs}
        stages = {run.seed: run.stages[-1][1] for run in row.runs}
        pairs = frozenset((stages[seed], others[seed]) for seed in stages if seed in others)
        per_epoch = round(steps / base.last["epochs"])
        own_scores, base_scores, sign = row.by_seed(), base.by_seed(), 1 if row.greater else -1
        yield Gain(
            results.name,
            row.arm,
            row.column,
            _data(own.task),
            row.metric,
            own.optim.batch_size,
            per_epoch,
            round(steps),
            gap,
            pairs or frozenset((stage, "") for stage in stages.values()),
            {seed: sign * (own_scores[seed] - base_scores[seed]) for seed in own_scores if seed in base_scores},
        )


def _data(task: Any) -> str:
    """`mnist`; of a file `own: dna/uci_splice`, its name and folder, so that several sets are not one."""
    file = getattr(task, "file", None) if task.kind == "own" else None
    return f"own: {'/'.join(PurePath(file).with_suffix('').parts[-2:])}" if file else str(task.kind)


def _from_scratch(own: TrainStage, other: StageSpec | None, compared: bool) -> bool:
    """The other stage trains the same model in the same batches without a parent, and as long.

    compared: the study compares with its arm, which may train for longer.
    """
    from headstart.stage import TrainStage

    if not isinstance(other, TrainStage) or other.parent is not None:
        return False
    same = ("task", "model", "trainable", *(() if compared else ("budget",)))
    return own.optim.batch_size == other.optim.batch_size and all(getattr(own, n) == getattr(other, n) for n in same)


POOLED = (
    *("data", "score", "batch", "steps per epoch", "steps from scratch", "comparisons", "above 0"),
    *("mean gain", "lowest", "highest", "clear", "clear (Holm)"),
)
POOLED_NOTE = (
    "Gains in test score of self-pretraining over training from scratch. A comparison is an arm on a column of a "
    "study, its gain the mean over seeds; comparisons share data and baselines, so that their mean has no interval. "
    "Clear: the 95 % interval lies above 0, alone and after Holm's correction for all comparisons."
)


def distinct_gains(every: Iterable[Gain]) -> dict[frozenset[tuple[str, str]], Gain]:
    """The gains, each once, by their pairs of stages: of files that share seeds that of the one with more."""
    distinct: dict[frozenset[tuple[str, str]], Gain] = {}
    for gain in sorted(every, key=lambda gain: -gain.difference.n):
        if not any(gain.pairs & pairs for pairs in distinct):
            distinct[gain.pairs] = gain
    return distinct


def over_sets(every: Iterable[Gain]) -> Difference | None:
    """The mean gain in accuracy over sets of data, each counted once, with a bootstrap interval stratified by set.

    None where no comparison has two seeds that both of its arms share.
    """
    sets: dict[str, dict[tuple[str, tuple[int, ...]], list[list[float]]]] = {}
    for gain in distinct_gains(every).values():
        seeds = tuple(sorted(gain.by_seed))
        if gain.metric == "accuracy" and len(seeds) > 1:
            tables = sets.setdefault(gain.data, {})
            tables.setdefault((gain.study, seeds), []).append([gain.by_seed[seed] for seed in seeds])
    strata = {data: [np.array(table) for table in tables.values()] for data, tables in sets.items()}
    return stratified(strata) if strata else None


def over_sets_line(gap: Difference | None) -> str:
    """What `over_sets` comes to, in a sentence; empty where it is None."""
    if gap is None:
        return ""
    return (
        f"Over {words.many(gap.n, 'set')} of data, each counted once, the gain in accuracy is {words.difference(gap)} "
        f"({words.percent(LEVEL)} interval of a bootstrap of the seeds, stratified by set; other sets are not in it)."
    )


def pooled(every: Iterable[Gain]) -> SnapshotSection:
    """The gains by data, score, batch size and steps per epoch, with a line for all of a batch size."""
    distinct = distinct_gains(every)
    standing = corrected({key: gain.difference for key, gain in distinct.items()})
    groups: dict[tuple[str, str, int], dict[int, list[Gain]]] = {}
    for gain in distinct.values():
        group = groups.setdefault((gain.data, gain.metric, gain.batch), {})
        group.setdefault(gain.per_epoch, []).append(gain)
    rows = []
    for head, by_steps in sorted(groups.items()):
        whole = [gain for members in by_steps.values() for gain in members]
        parts = [(f"{steps:,}", members) for steps, members in sorted(by_steps.items())]
        for name, members in [*parts, *([("all", whole)] if len(parts) > 1 else [])]:
            rows.append((head[0], words.metric(head[1]), str(head[2]), name, *_pooled_cells(members, standing)))
    empty = "no study holds a self-pretrained arm against one from scratch, finished and in the same batches"
    return SnapshotSection("Gains of self-pretraining", POOLED, tuple(rows), empty)


def _pooled_cells(members: Sequence[Gain], standing: Mapping[frozenset[tuple[str, str]], float]) -> tuple[str, ...]:
    values = [gain.difference.mean for gain in members]
    clear = [x for x in members if x.difference.clear and not x.difference.constant and x.difference.mean > 0]
    after = [gain for gain in clear if standing.get(gain.pairs, 1.0) < 1 - LEVEL]
    steps = sorted({gain.steps for gain in members})
    return (
        " to ".join(dict.fromkeys((f"{steps[0]:,}", f"{steps[-1]:,}"))),
        str(len(members)),
        f"{sum(value > 0 for value in values)} of {len(values)}",
        *(words.signed(value) for value in (mean(values), min(values), max(values))),
        str(len(clear)),
        str(len(after)),
    )
