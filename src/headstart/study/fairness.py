"""From the results of stages to a table that can be defended: choosing on validation, pairing by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from headstart.files import Damaged
from headstart.spec import digest
from headstart.study.averages import averages
from headstart.study.caveats import caveats
from headstart.study.columns import side_by_side
from headstart.study.pace import Record, Records, curve, paced
from headstart.study.papers import read_paper
from headstart.study.results import AMOUNTS, Facts, Point, Results, Row, Run, Status
from headstart.study.statistics import estimate, mean, paired_difference

if TYPE_CHECKING:
    from headstart.study.plan import Cell, Plan

Find = Callable[[str], Mapping[str, Any] | None]
"""Identity -> the stage's result.json, or None where there is none yet."""
State = Callable[[str], str]
"""Identity -> what the store says of a stage without a result: absent, partial, running, failed."""


@dataclass(frozen=True)
class Candidate:
    """What a choice may look at: the validation scores of one setting by seed. There is no test in it."""

    val: Mapping[int, float]
    diverged: bool = False


def choose(candidates: Sequence[Candidate], greater: bool = True) -> int | None:
    """Place of the setting with the best mean validation score, ties to the earlier; None without any score.

    A setting at which a seed diverged is out, unless that leaves none. While seeds are missing, means are
    over the seeds that all remaining settings have, so that no setting wins by an easier seed.
    """
    scored = [i for i, c in enumerate(candidates) if c.val]
    sound = [i for i in scored if not candidates[i].diverged] or scored
    if not sound:
        return None
    shared = set.intersection(*(set(candidates[i].val) for i in sound))
    means = {i: mean([v for s, v in candidates[i].val.items() if s in shared or not shared]) for i in sound}
    best = max(means.values()) if greater else min(means.values())
    return next(i for i in sound if means[i] == best)


def task_key(spec: Any) -> str:
    """Key of what is known of a stage's task: the digest of the task's spec, and whether its target is used.

    Reconstruction of a labelled task has no majority class to be compared with.
    """
    return digest({"task": spec.task.document(), "scored": spec.objective.uses_target})


def summarise(
    plan: Plan, find: Find, state: State | None = None, facts: Mapping[str, Facts] | None = None,
    records: Records | None = None,
) -> Results:
    """Everything a report says, from what is finished; rows of unfinished runs are there and marked so.

    `facts` (see `baselines.gather`) brings sizes, chance levels and trivial scores, by `task_key`. `records` (as
    `Store.records`) brings what a run scored on the way: without it no row has a pace.
    """
    found = dict(facts or {})
    groups = side_by_side(plan)
    columns = tuple(dict.fromkeys(column for column, _ in groups))
    arms = tuple(dict.fromkeys(cell.arm for cell in plan.cells))
    lookup, on_the_way = _remembered(find), _undamaged(records)
    rows = [
        _row(groups[column, arm], column, tuple(plan.choose), lookup, state or (lambda _: "absent"), found, on_the_way)
        for column in columns for arm in arms if (column, arm) in groups
    ]
    study, report = plan.study, plan.study.report
    rows = [_compared(row, rows, report.against) for row in rows]
    results = Results(
        study.name, study.title, arms, columns, report.against, tuple(plan.choose),
        tuple(paced(rows, report.match, on_the_way)), facts=found, match=report.match, scale=study.scale,
        scale_note=study.scale_note, stand_ins=dict(study.stood_in),
        paper=read_paper(study.paper) if study.paper else None,
    )
    results = replace(results, averages=averages(results, report.average, tuple(study.columns)))
    return replace(results, caveats=tuple(caveats(results, plan, lookup)))


def _undamaged(records: Records | None) -> Records:
    """The records of a stage: none of one whose file is damaged, which the next run sets aside and does again."""

    def read(identity: str) -> Sequence[Record]:
        try:
            return records(identity) if records is not None else ()
        except Damaged:
            return ()

    return read


def _remembered(find: Find) -> Find:
    """Each result.json is read once."""
    seen: dict[str, Mapping[str, Any] | None] = {}

    def lookup(identity: str) -> Mapping[str, Any] | None:
        if identity not in seen:
            seen[identity] = find(identity)
        return seen[identity]

    return lookup


def score_of(
    result: Mapping[str, Any] | None, split: str, metric: str, weights: str = "best"
) -> float | None:
    """A finite score at the best (or last) weights, or None."""
    if result is None:
        return None
    value = result.get("scores", {}).get(weights, {}).get(split, {}).get(metric)
    return float(value) if value is not None and isfinite(value) else None


def _row(
    cells: Sequence[Cell], column: str, axes: Sequence[str], find: Find, state: State, facts: Mapping[str, Facts],
    records: Records,
) -> Row:
    metric, greater = _monitor(cells, find)
    by_setting: dict[str, list[Cell]] = {}
    for cell in cells:
        by_setting.setdefault(repr(_chosen_over(cell, axes)), []).append(cell)
    settings = list(by_setting.values())
    # Validation is read and the choice made before any test score is looked at.
    runs = [[_run(cell, find, state, metric) for cell in members] for members in settings]
    picked = choose([_candidate(members) for members in runs], greater)
    points = [
        _point(_chosen_over(members[0], axes), [_with_test(run, find, metric, records) for run in done])
        for members, done in zip(settings, runs, strict=True)
    ]
    task = task_key(cells[0].chain[-1].spec)
    chosen = points[picked] if picked is not None else None
    scored = [run for run in chosen.runs if run.val is not None] if chosen else []
    row = Row(
        arm=cells[0].arm, column=column, chosen=chosen.settings if chosen else {},
        status="measured", metric=metric, greater=greater, n=len(scored),
        expected=len({cell.seed for cell in cells}), val=chosen.val if chosen else None,
        test=chosen.test if chosen else None, difference=None,
        budget=_mean_amounts([run.budget for run in scored]),
        last=_mean_amounts([run.last for run in scored]),
        tried=_sum_amounts(cells, find), points=tuple(points), runs=tuple(chosen.runs if chosen else ()),
        task=task,
    )
    return replace(row, status=_status(row, chosen, facts.get(task)))


def _chosen_over(cell: Cell, axes: Sequence[str]) -> dict[str, Any]:
    return {name: cell.settings[name] for name in axes if name in cell.settings}


def _monitor(cells: Sequence[Cell], find: Find) -> tuple[str, bool]:
    """The score that chooses, from the first result there is, else what the objective would monitor."""
    for cell in cells:
        result = find(cell.chain[-1].identity)
        if result is not None:
            return str(result["monitor"]["name"]), bool(result["monitor"]["greater"])
    objective = cells[0].chain[-1].spec.objective
    default = "accuracy" if objective.kind in ("classify", "retrieve") else "r2"
    name = str(getattr(objective, "monitor", None) or default)
    return name, name != "loss"


def _run(cell: Cell, find: Find, state: State, metric: str) -> Run:
    last = find(cell.chain[-1].identity)
    stages = tuple((planned.name, planned.identity) for planned in cell.chain)
    results = [find(identity) for _, identity in stages]
    lost = [r for r in results if r is not None and r.get("status") == "diverged"]
    val = score_of(last, "val", metric)
    status = str(last["status"]) if last is not None else state(cell.chain[-1].identity)
    if lost or (last is not None and val is None):
        # A chain is as sound as its worst stage; a score that is no number is a divergence too.
        status = "diverged"
    elif last is None and status == "absent" and any(state(i) == "failed" for _, i in stages[:-1]):
        status = "failed"
    budgets = [_amounts(r) for r in results if r is not None]
    return Run(cell.seed, status, stages, val, None, _add(budgets), _amounts(last))


def _with_test(run: Run, find: Find, metric: str, records: Records) -> Run:
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
    held = {name: value for name, value in more.items() if value is not None}
    return replace(run, test=score_of(result, "test", metric), more=held)


def _candidate(runs: Sequence[Run]) -> Candidate:
    return Candidate(
        {run.seed: run.val for run in runs if run.val is not None},
        any(run.status == "diverged" for run in runs),
    )


def _point(settings: Mapping[str, Any], runs: Sequence[Run]) -> Point:
    states = {run.status for run in runs}
    if "diverged" in states:
        status = "diverged"
    elif states == {"complete"}:
        status = "complete"
    elif "complete" in states or states & {"partial", "running", "cut"}:
        status = "partial"
    else:
        status = "failed" if "failed" in states else "absent"
    return Point(
        dict(settings), status, estimate(r.val for r in runs if r.val is not None),
        estimate(r.test for r in runs if r.test is not None), tuple(runs),
    )


def _status(row: Row, chosen: Point | None, facts: Facts | None) -> Status:
    states = {run.status for point in row.points for run in point.runs}
    if states <= {"complete", "diverged"}:
        if chosen is None or chosen.status == "diverged":
            return "diverged"
        return "at chance" if at_chance(row, facts) else "measured"
    if "complete" in states or states & {"partial", "running", "cut"}:
        return "partial"
    return "failed" if "failed" in states else ("absent" if states == {"absent"} else "partial")


def at_chance(row: Row, facts: Facts | None) -> bool:
    """The test score is no better than chance by two standard errors (of training, or of the test set)."""
    level = chance(facts, row.metric)
    if level is None or row.test is None or not row.greater:
        return False
    units = facts.sizes.get("test", 0) if facts else 0
    share = row.metric == "accuracy" and units > 0
    error = max(row.test.sem or 0.0, (level * (1 - level) / units) ** 0.5 if share else 0.0)
    return row.test.mean <= level + 2 * error


def chance(facts: Facts | None, metric: str) -> float | None:
    """The score of answering without looking, or None where it is not known."""
    return facts.chance.get(metric) if facts is not None else None


def _compared(row: Row, rows: Sequence[Row], against: str | None) -> Row:
    other = reference(row, rows, against)
    if other is None or other.metric != row.metric:
        return row
    return replace(row, difference=paired_difference(by_seed(row), by_seed(other)))


def by_seed(row: Row) -> dict[int, float]:
    """Test score of each seed of the chosen setting."""
    return row.by_seed("test")


def reference(row: Row, rows: Iterable[Row], against: str | None) -> Row | None:
    """The row that a row is compared with: the arm `against` on the same column."""
    if row.arm == against:
        return None
    return next((r for r in rows if (r.arm, r.column) == (against, row.column)), None)


def _amounts(result: Mapping[str, Any] | None) -> dict[str, float]:
    given = result.get("budget", {}) if result is not None else {}
    return {name: float(given[name]) for name in AMOUNTS if given.get(name) is not None}


def _add(amounts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {n: sum(a[n] for a in amounts if n in a) for n in AMOUNTS if any(n in a for a in amounts)}


def _mean_amounts(amounts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    kept = {n: [a[n] for a in amounts if n in a] for n in AMOUNTS}
    return {n: mean(values) for n, values in kept.items() if values}


def _sum_amounts(cells: Sequence[Cell], find: Find) -> dict[str, float]:
    """Over all stages behind these cells, each once: what the arm's tuning cost, shared parents included."""
    distinct = dict.fromkeys(planned.identity for cell in cells for planned in cell.chain)
    return _add([_amounts(find(identity)) for identity in distinct])
