"""From the results of stages to a table that can be defended: choosing on validation, pairing by seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headstart.statistics import estimate, mean
from headstart.study.language.papers import claims_written, read_paper
from headstart.study.language.scales import stand_in_told
from headstart.study.results.answers import ReadAnswers
from headstart.study.results.collect import (
    Find,
    ReadRecords,
    State,
    all_tried,
    amounts,
    averaged,
    but_for_init,
    is_guess,
    monitored,
    paced,
    parameters,
    read_run,
    score_of,
    task_key,
    undamaged,
    with_all_scores,
)
from headstart.study.results.columns import averages, side_by_side
from headstart.study.results.results import Results, TaskFacts
from headstart.study.results.rows import Point, Row, RowStatus, Run, test_gap, trial_scores

if TYPE_CHECKING:
    from headstart.study.language.plan import Cell, Plan


TIED = 1e-12
"""Relative difference up to which two means are equal: those of equal shares of examples differ in their last bit."""


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
    return next(i for i in sound if math.isclose(means[i], best, rel_tol=TIED))


def select(
    plan: Plan,
    find: Find,
    state: State | None = None,
    facts: Mapping[str, TaskFacts] | None = None,
    records: ReadRecords | None = None,
    answers: ReadAnswers | None = None,
) -> Results:
    """What a study found, from what is finished; rows of unfinished runs are there and marked so.

    `facts` (see `collect.gather`) brings sizes and chance levels, by `task_key`. `records` (as
    `Store.records`) brings what a run scored on the way: without it no row has a pace. `answers` brings which test
    examples a run answered rightly: without it intervals are over seeds alone.
    """
    known_facts, study, report = dict(facts or {}), plan.study, plan.study.report
    groups, axes = side_by_side(plan)
    columns = tuple(dict.fromkeys(column for column, _ in groups))
    arms = tuple(dict.fromkeys(cell.arm for cell in plan.cells))
    lookup, on_the_way = functools.cache(find), undamaged(records)
    reads, axes_of_choice = _Reads(lookup, state or (lambda _: "absent"), on_the_way, answers), tuple(plan.choose)
    rows = [
        _row(groups[column, arm], column, axes_of_choice, reads, known_facts, plan)
        for column in columns
        for arm in arms
        if (column, arm) in groups
    ]
    rows = [_compared(_marked(row, plan, groups[row.column, row.arm]), rows, report.against) for row in rows]
    rows = paced(rows, report.match, on_the_way)
    results = Results(
        *(study.name, study.title, arms, columns, report.against, axes_of_choice),
        tuple(replace(row, base=reference(row, rows, report.against)) for row in rows),
        facts=known_facts,
        match=report.match,
        scale=study.scale,
        scale_note=study.scale_note,
        paper=read_paper(study.paper) if study.paper else None,
        claims=study.claims,
        written=claims_written(study.name),
        written_paper=claims_written(f"papers/{study.paper}") if study.paper else None,
        baselines=tuple(_baseline(cell, lookup) for cell in plan.baselines),
        axes=axes,
        pretrained=any(planned.spec.model.kind == "checkpoint" for cell in plan.cells for planned in cell.chain),
        records=None if records is None else on_the_way,
        folds=_folds(plan),
        one_machine=report.one_machine,
    )
    return replace(results, averages=averages(results, report.average, tuple(study.columns)))


def _folds(plan: Plan) -> int:
    """Folds of which the runs of a setting validate on different ones; 1 where all of its runs share their fold."""
    dealt: dict[str, set[tuple[int, int]]] = {}
    for cell in plan.cells:
        task = cell.chain[-1].spec.task
        if task.folds is not None and task.fold is not None:
            setting = repr((cell.arm, cell.column, dict(cell.settings)))
            dealt.setdefault(setting, set()).add((task.folds, task.fold))
    return max((folds for several in dealt.values() if len(several) > 1 for folds, _ in several), default=1)


class _Reads(NamedTuple):
    """What is read of stages."""

    find: Find
    state: State
    records: ReadRecords
    answers: ReadAnswers | None


def _row(
    cells: Sequence[Cell],
    column: str,
    axes: Sequence[str],
    reads: _Reads,
    facts: Mapping[str, TaskFacts],
    plan: Plan,
) -> Row:
    find, state, records, answers = reads
    metric, greater = monitored(cells, find)
    by_setting: dict[str, list[Cell]] = {}
    for cell in cells:
        by_setting.setdefault(repr(_chosen_over(cell, axes)), []).append(cell)
    settings = list(by_setting.values())
    # Validation is read and the choice made before any test score is looked at.
    runs = [[read_run(cell, find, state, metric) for cell in members] for members in settings]
    scores = [{run.seed: run.val for run in members if run.val is not None} for members in runs]
    candidates = [Candidate(x, any(r.status == "diverged" for r in own)) for x, own in zip(scores, runs, strict=True)]
    trials = [cell for cell in plan.trials if (cell.arm, cell.column) == (cells[0].arm, column)]
    drawn = trial_scores([read_run(cell, find, state, metric) for cell in trials], plan.study.search)
    # Where validation trains too nothing can be chosen, and a single setting stands.
    unchosen = not cells[0].chain[-1].spec.task.validation and len(settings) == 1
    picked = 0 if unchosen else choose(candidates, greater)
    points = [
        _point(_chosen_over(members[0], axes), [with_all_scores(run, find, metric, records, answers) for run in done])
        for members, done in zip(settings, runs, strict=True)
    ]
    task = task_key(cells[0].chain[-1].spec)
    chosen = points[picked] if picked is not None else None
    scored = [run for run in chosen.runs if (run.test if unchosen else run.val) is not None] if chosen else []
    last = find(scored[0].stages[-1][1]) if scored else None
    row = Row(
        arm=cells[0].arm,
        column=column,
        chosen=chosen.settings if chosen else {},
        status="measured",
        metric=metric,
        greater=greater,
        n=len(scored),
        expected=len({cell.seed for cell in cells}),
        val=chosen.val if chosen else None,
        test=chosen.test if chosen else None,
        difference=None,
        budget=averaged([run.budget for run in scored]),
        last=averaged([run.last for run in scored]),
        tried=all_tried([*trials, *cells], find),
        points=tuple(points),
        runs=tuple(chosen.runs if chosen else ()),
        task=task,
        hardly_mixes=cells[0].chain[-1].spec.hardly_mixes,
        but_for_init=but_for_init(cells[0]),
        parameters=parameters(last),
        trained=parameters(last, "trainable"),
        trials=drawn[0],
        random_trials=drawn[1],
    )
    return replace(row, status=_status(row, chosen, facts.get(task)))


def _baseline(cell: Cell, find: Find) -> Row:
    """A baseline by its one stage, called what it is now that it has seen its data; nothing of it is chosen."""
    planned = cell.chain[-1]
    result = find(planned.identity)
    metric, greater = monitored([cell], find)
    val, test = (score_of(result, split, metric) for split in ("val", "test"))
    budget = amounts(result)
    return Row(
        arm=str((result or {}).get("title", cell.arm)),
        column=cell.column,
        chosen={},
        status="absent" if result is None else "measured",
        metric=metric,
        greater=greater,
        n=1,
        expected=1,
        val=None if val is None else estimate([val]),
        test=None if test is None else estimate([test]),
        difference=None,
        budget=budget,
        last=budget,
        tried=budget,
        points=(),
        runs=(Run(0, "complete", ((planned.name, planned.identity),), val, test, budget, budget),),
        task=task_key(planned.spec),
        parameters=parameters(result),
        trained=parameters(result, "trainable"),
        source=str((result or {}).get("model", {}).get("source", "")),
        guess=is_guess(planned.spec),
    )


def _chosen_over(cell: Cell, axes: Sequence[str]) -> dict[str, Any]:
    return {name: cell.settings[name] for name in axes if name in cell.settings}


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
        dict(settings),
        status,
        estimate(r.val for r in runs if r.val is not None),
        estimate(r.test for r in runs if r.test is not None),
        tuple(runs),
    )


def _status(row: Row, chosen: Point | None, facts: TaskFacts | None) -> RowStatus:
    states = {run.status for point in row.points for run in point.runs}
    if states <= {"complete", "diverged"}:
        if chosen is None or chosen.status == "diverged":
            return "diverged"
        return "at chance" if at_chance(row, facts) else "measured"
    if "complete" in states or states & {"partial", "running", "cut"}:
        return "partial"
    return "failed" if "failed" in states else ("absent" if states == {"absent"} else "partial")


def at_chance(row: Row, facts: TaskFacts | None) -> bool:
    """The test score is no better than chance by two standard errors (of training, or of the test set)."""
    level = facts.chance.get(row.metric) if facts is not None else None
    if level is None or row.test is None or not row.greater:
        return False
    units = facts.tested if facts else 0
    share = row.metric == "accuracy" and units > 0
    error = max(row.test.sem or 0.0, (level * (1 - level) / units) ** 0.5 if share else 0.0)
    return row.test.mean <= level + 2 * error


def _marked(row: Row, plan: Plan, cells: Sequence[Cell]) -> Row:
    """The row with what stands in for absent data of the stages that it rests on."""
    study, column = plan.study, cells[0].column
    chain = {planned.name for cell in cells for planned in cell.chain}
    return replace(row, stand_in=stand_in_told(column, study.stood_in.get(column, {}), chain, study.reported))


def _compared(row: Row, rows: Sequence[Row], against: str | None) -> Row:
    other = reference(row, rows, against)
    if other is None or other.metric != row.metric:
        return row
    return replace(row, difference=test_gap(row, other))


def reference(row: Row, rows: Iterable[Row], against: str | None) -> Row | None:
    """The row that a row is compared with: the arm `against` on the same column."""
    if row.arm == against:
        return None
    return next((r for r in rows if (r.arm, r.column) == (against, row.column)), None)
