"""What results and records of stages say of one run: its state, scores, cost and pace. Nothing is chosen here.

A number of steps is known as finely as the stage was evaluated, and is that of the reported stage alone. Rothermel et
al. (table 2) count steps until the mean test accuracy is that of an arm at its best; here it is the mean validation
score, so that nothing is read off test.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from headstart.errors import Damaged
from headstart.spec import digest
from headstart.statistics import mean
from headstart.study.results.answers import ReadAnswers
from headstart.study.results.results import TaskFacts
from headstart.study.results.rows import BUDGET_AMOUNTS, Match, Pace, Row, Run
from headstart.text import LOWER

if TYPE_CHECKING:
    from headstart.stage import StageSpec
    from headstart.study.language.plan import Cell, Plan
    from headstart.tasks.task import Task

_LOG = logging.getLogger("headstart.records")
RunRecord = Mapping[str, Any]
ReadRecords = Callable[[str], Sequence[RunRecord]]
"""Identity -> the records of a stage, earliest first."""
Curves = Mapping[int, Mapping[int, float]]
"""Seed -> step -> score."""

CONVERGED_SHARE = 0.01
"""A run has converged at its first evaluation whose score is within this share of its best."""


def curve(records: Sequence[RunRecord], metric: str, split: str = "val") -> dict[int, float]:
    """Step -> score, of the evaluations that gave a number."""
    values = {int(record["step"]): record.get(split, {}).get(metric) for record in records}
    return {step: float(value) for step, value in values.items() if value is not None and isfinite(value)}


def mean_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean over runs, at the steps at which every one of them was evaluated."""
    shared = [step for step in curves[0] if all(step in other for other in curves)] if curves else []
    return {step: mean([scores[step] for scores in curves]) for step in sorted(shared)}


def converged_at(scores: Mapping[int, float], greater: bool, within: float = CONVERGED_SHARE) -> int:
    """The first step of a curve that is within a share of its best score. Raises: ValueError if it has none.

    The share is of the size of the best score: 0.01 of a best accuracy of 0.8 is 0.008.
    """
    best = best_of(scores, greater)
    step = first_at(scores, best - (1 if greater else -1) * within * abs(best), greater)
    assert step is not None, "the best score is within any share of itself"
    return step


def best_of(scores: Mapping[int, float], greater: bool) -> float:
    """The best score of a curve. Raises: ValueError if it has none."""
    return max(scores.values()) if greater else min(scores.values())


def first_at(scores: Mapping[int, float], target: float, greater: bool) -> int | None:
    """The first step of a curve whose score is the target or better."""
    sign = 1 if greater else -1
    return min((step for step, value in scores.items() if sign * value >= sign * target), default=None)


def paced(rows: Sequence[Row], match: str | None, records: ReadRecords) -> list[Row]:
    """The rows with their pace at the chosen settings.

    `match` names the arm whose best mean score (the best point of its mean curve over seeds) the arms of the same
    column are to reach, on validation and on train.
    """
    records_of = {
        row.key: {run.seed: records(run.stages[-1][1]) for run in row.runs if run.val is not None} for row in rows
    }
    val, train = (
        {row.key: _curves(records_of[row.key], row.metric, split) for row in rows} for split in ("val", "train")
    )
    reach, fit = (_matches(rows, match, curves) for curves in (val, train))
    return [replace(row, pace=_pace(val[row.key], row.greater, reach.get(row.key), fit.get(row.key))) for row in rows]


def _curves(records: Mapping[int, Sequence[RunRecord]], metric: str, split: str) -> Curves:
    """Seed -> curve of a row's runs, those without a score left out."""
    return {seed: scores for seed, of_seed in records.items() if (scores := curve(of_seed, metric, split))}


def _matches(rows: Sequence[Row], match: str | None, curves: Mapping[str, Curves]) -> dict[str, Match]:
    """Key of a row -> how soon it is as good as the arm to be matched; those without a curve, or target, left out."""
    means = {row.key: mean_curve(list(curves[row.key].values())) for row in rows}
    targets = {row.column: best_of(means[row.key], row.greater) for row in rows if row.arm == match and means[row.key]}
    out = {}
    for row in rows:
        if row.column in targets and curves[row.key]:
            target = targets[row.column]
            steps = {seed: first_at(scores, target, row.greater) for seed, scores in curves[row.key].items()}
            reached = {seed: step for seed, step in steps.items() if step is not None}
            out[row.key] = Match(target, reached, first_at(means[row.key], target, row.greater))
    return out


def _pace(curves: Curves, greater: bool, reach: Match | None, fit: Match | None) -> Pace | None:
    if not curves:
        return None
    return Pace(len(curves), {seed: converged_at(scores, greater) for seed, scores in curves.items()}, reach, fit)


Find = Callable[[str], Mapping[str, Any] | None]
"""Identity -> the stage's result.json, or None where there is none yet."""
State = Callable[[str], str]
"""Identity -> what the store says of a stage without a result: absent, partial, running, failed."""


def undamaged(records: ReadRecords | None) -> ReadRecords:
    """The records of a stage: none of one whose file is damaged, which the next run sets aside and does again."""
    return partial(_undamaged, records)


def _undamaged(records: ReadRecords | None, identity: str) -> Sequence[RunRecord]:
    try:
        return records(identity) if records is not None else ()
    except Damaged as damage:
        _say_lost(str(damage))
        return ()


@cache
def _say_lost(damage: str) -> None:
    """Say once that a curve is lost."""
    _LOG.warning("%s; its stage is in no curve and in no number of steps. `headstart run` does it again.", damage)


def score_of(result: Mapping[str, Any] | None, split: str, metric: str, weights: str = "best") -> float | None:
    """A finite score at the best (or last) weights, or None."""
    if result is None:
        return None
    value = result.get("scores", {}).get(weights, {}).get(split, {}).get(metric)
    return float(value) if value is not None and isfinite(value) else None


def monitored(cells: Sequence[Cell], find: Find) -> tuple[str, bool]:
    """The score that chooses, from the first result there is, else what the objective would monitor."""
    for cell in cells:
        result = find(cell.chain[-1].identity)
        if result is not None and "monitor" in result:
            return str(result["monitor"]["name"]), bool(result["monitor"]["greater"])
    objective = cells[0].chain[-1].spec.objective
    default = "accuracy" if objective.kind in ("classify", "retrieve") else "r2"
    name = str(getattr(objective, "monitor", None) or default)
    return name, name not in LOWER


def read_run(cell: Cell, find: Find, state: State, metric: str) -> Run:
    """A run as far as validation goes: its test score is not read yet."""
    last = find(cell.chain[-1].identity)
    stages = tuple((planned.name, planned.identity) for planned in cell.chain)
    results = [find(identity) for _, identity in stages]
    lost = [r for r in results if r is not None and r.get("status") == "diverged"]
    val = score_of(last, "val", metric)
    status = str(last["status"]) if last is not None else state(cell.chain[-1].identity)
    if lost or (last is not None and val is None and last.get("scores", {}).get("best", {}).get("val")):
        # A chain is as sound as its worst stage; a score that is not finite is a divergence too. Without validation
        # there is none.
        status = "diverged"
    elif last is None and status == "absent" and any(state(i) == "failed" for _, i in stages[:-1]):
        status = "failed"
    budgets = [amounts(r) for r in results if r is not None]
    provenance = (last or {}).get("provenance", {})
    machine, way = str(provenance.get("machine", "")), str(provenance.get("way", "alone"))
    started = str(provenance.get("started") or "")
    budget, own = added(budgets), amounts(last)
    return Run(cell.seed, status, stages, val, None, budget, own, machine=machine, way=way, started=started)


def with_all_scores(
    run: Run, find: Find, metric: str, records: ReadRecords, read_answers: ReadAnswers | None = None
) -> Run:
    """The run with its scores besides validation, which may be read once the choice is made."""
    identity = run.stages[-1][1]
    result = find(identity)
    more = {"train": score_of(result, "train", metric)}
    for split in ("train", "val", "test"):
        more[f"last_{split}"] = score_of(result, split, metric, "last")
        if run.status == "diverged" and more[f"last_{split}"] is None:
            more[f"last_{split}"] = score_of(result, split, metric)
    if run.status == "diverged" and (on_the_way := curve(records(identity), metric)):
        more["last_val"] = on_the_way[max(on_the_way)]
    more |= {f"test{name}": score_of(result, "test", metric + name) for name in _slices(result, metric)}
    scores = {name: value for name, value in more.items() if value is not None}
    test = score_of(result, "test", metric)
    answers = read_answers(identity) if read_answers is not None and metric == "accuracy" and result else None
    answers = answers if answers is not None and answers.are_of(test) else None
    return replace(run, test=test, more=scores, answers=answers)


def _slices(result: Mapping[str, Any] | None, metric: str) -> list[str]:
    """`[length=64]` and so on: of what parts of test a stage has the score."""
    scores = ((result or {}).get("scores", {}).get("best") or {}).get("test") or {}
    return [name.removeprefix(metric) for name in scores if name.startswith(f"{metric}[")]


def amounts(result: Mapping[str, Any] | None) -> dict[str, float]:
    """What a stage's budget counted; nothing of one without a result."""
    budget = result.get("budget", {}) if result is not None else {}
    return {name: float(budget[name]) for name in BUDGET_AMOUNTS if budget.get(name) is not None}


def parameters(result: Mapping[str, Any] | None, which: Literal["total", "trainable"] = "total") -> int | None:
    """How many numbers a stage's model has, or how many of them learn, where its result says so."""
    count = result.get("parameters", {}).get(which) if result is not None else None
    return None if count is None else int(count)


def added(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The sum of each amount."""
    return {n: sum(a[n] for a in parts if n in a) for n in BUDGET_AMOUNTS if any(n in a for a in parts)}


def averaged(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each amount over those that have it."""
    lists = {n: [a[n] for a in parts if n in a] for n in BUDGET_AMOUNTS}
    return {n: mean(values) for n, values in lists.items() if values}


def all_tried(cells: Sequence[Cell], find: Find) -> dict[str, float]:
    """Over all stages behind these cells, each once: what the arm's tuning cost, shared parents included."""
    distinct = dict.fromkeys(planned.identity for cell in cells for planned in cell.chain)
    return added([amounts(find(identity)) for identity in distinct])


def task_key(spec: Any) -> str:
    """Key of what is known of a stage's task: the digest of the task's spec, and whether its target is used.

    Reconstruction of a labelled task has no majority class to be compared with, and each objective that reconstructs
    scores other positions.
    """
    scored = spec.objective.uses_target
    objective = {} if scored else {"objective": spec.objective.document()}
    return digest({"task": spec.task.document(), "scored": scored} | objective)


def gather(plan: Plan) -> dict[str, TaskFacts]:
    """Facts of every task that a plan reports on, by `task_key`.

    Raises: BadInput where a task's data cannot be read.
    """
    from headstart.tasks.task import open_task

    reported = {task_key(cell.chain[-1].spec): cell.chain[-1].spec for cell in plan.cells}
    out = {}
    for key, spec in reported.items():
        task = open_task(spec.task, plan.data)
        asked = 0 if spec.objective.uses_target else positions_asked(spec, task)
        out[key] = of_task(spec.task.kind, task, spec.objective.uses_target, asked)
    return out


def positions_asked(spec: StageSpec, task: Task) -> int:
    """How many positions of the test set an accuracy without targets counts, with the masks of the stage's seed.

    0 where the objective is scored otherwise, or does not say which positions it asks for.
    """
    import numpy as np
    import torch

    from headstart.training.batches import Batches

    total = 0
    if spec.objective.monitored(task.signature).name != "accuracy":
        return total
    for batch in Batches(task.test, np.arange(task.test.units), torch.device("cpu"), torch.float32).in_order():
        asked = spec.objective.asked(spec.objective.prepare(batch, task.signature, spec.seed, 0))
        total += 0 if asked is None else int(asked.sum())
    return total


def of_task(kind: str, task: Task, scored: bool = True, asked: int = 0) -> TaskFacts:
    """Facts of an open task: sizes in units (pairs where there are pairs), chance, notes.

    `scored` False leaves out chance and targets: an objective without a target has none; it scores `asked` positions.
    """
    from headstart.sequence import has_target
    from headstart.tasks.remarks import remarks

    sizes = {name: task.split(name).units for name in ("train", "val", "test")}
    sizes["labelled"] = len(task.train.labelled_units())
    chance = {}
    if scored and task.signature.target != "none":
        classed = task.signature.target == "class"
        chance = {"accuracy": 1 / task.signature.classes} if classed else {"r2": 0.0}
    target = task.test.target if task.test.per_position and scored else None
    positions = 0 if target is None else int(has_target(target).sum())
    notes = (*task.notes, *remarks(task))
    return TaskFacts(kind, sizes, chance, notes, task.labels, positions, None if scored else asked)


def but_for_init(cell: Cell) -> str:
    """What stands for the last stage of a run without how it draws fresh weights."""
    document = cell.chain[-1].spec.model_dump(mode="json")
    return digest({**document, "model": {k: v for k, v in (document.get("model") or {}).items() if k != "init"}})


def is_guess(spec: StageSpec) -> bool:
    """A baseline that answers without doing what is asked: the commonest class, or the first rule that a task knows of
    itself (any one of the values, the root operator). What comes after that rule, or learns from train, is a rival."""
    if spec.model.kind == "task":
        rules = [line["name"] for line in spec.task.baselines if line["kind"] == "task"]
        return spec.model.name in ("", *rules[:1])
    return spec.model.kind in ("majority", "unigram")
