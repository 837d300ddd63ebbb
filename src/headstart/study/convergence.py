"""How soon a run gets there: steps to a score, and steps after which it hardly gains any more.

Read from the records of a stage: its scores at the steps at which it was evaluated. A number of steps is therefore
known as finely as the stage was evaluated. Scores are those of validation, and for the steps to fit the training data
those of the batches since the evaluation before. The steps are those of the reported stage alone. Rothermel et al.
(table 2) count steps until the mean test accuracy is that of an arm at its best; here it is the mean validation score,
so that nothing is read off test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from headstart.study.rows import Match, Pace, Row
from headstart.study.statistics import mean

Record = Mapping[str, Any]
Records = Callable[[str], Sequence[Record]]
"""Identity -> the records of a stage, earliest first."""
Curves = Mapping[int, Mapping[int, float]]
"""Seed -> step -> score."""

WITHIN = 0.01
"""A run has converged at its first evaluation whose score is within this share of its best."""


def curve(records: Sequence[Record], metric: str, split: str = "val") -> dict[int, float]:
    """Step -> score, of the evaluations that gave a number."""
    values = {int(record["step"]): record.get(split, {}).get(metric) for record in records}
    return {step: float(value) for step, value in values.items() if value is not None and isfinite(value)}


def mean_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean over runs, at the steps at which every one of them was evaluated."""
    shared = [step for step in curves[0] if all(step in other for other in curves)] if curves else []
    return {step: mean([scores[step] for scores in curves]) for step in sorted(shared)}


def converged_at(scores: Mapping[int, float], greater: bool, within: float = WITHIN) -> int:
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


def paced(rows: Sequence[Row], match: str | None, records: Records) -> list[Row]:
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


def _curves(records: Mapping[int, Sequence[Record]], metric: str, split: str) -> Curves:
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
