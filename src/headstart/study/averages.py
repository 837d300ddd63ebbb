"""Averages over columns, paired by seed, with chance where a column has no number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headstart.study.claims import base_of
from headstart.study.results import Average, Results, Row
from headstart.study.statistics import Difference, Estimate, estimate, mean, mean_ranks, paired_difference

if TYPE_CHECKING:
    from headstart.study.spec import AverageSpec


def averages(results: Results, spec: AverageSpec | None, bases: Sequence[str]) -> tuple[Average, ...]:
    """One average per arm and group of columns; nothing unless the study asks for it.

    Columns are grouped by the axis values in their names, so that a size is never averaged with another.
    `bases` are the study's own names of columns.
    """
    if spec is None:
        return ()
    groups: dict[str, list[str]] = {}
    for column in results.columns:
        base = base_of(column, bases)
        if not spec.columns or base in spec.columns:
            groups.setdefault(column[len(base) :].strip(), []).append(column)
    out: list[Average] = []
    for rest, columns in groups.items():
        if len(columns) > 1:
            out += _group(results, spec.missing == "chance", rest, columns)
    return tuple(out)


def _group(results: Results, chance: bool, rest: str, columns: Sequence[str]) -> list[Average]:
    rows = {arm: {c: results.row(arm, c) for c in columns} for arm in results.arms}
    rows = {arm: found for arm, found in rows.items() if any(found.values())}
    metrics = {r.metric for found in rows.values() for r in found.values() if r is not None}
    if len(metrics) != 1:
        # An accuracy and an R2 have no common mean; their ranks have.
        return []
    filled = {arm: _filled(results, found, chance) for arm, found in rows.items()}
    means = {arm: {c: mean(list(v.values())) for c, v in found.items()} for arm, found in filled.items()}
    rank = mean_ranks(means, {c: all(r.greater for r in results.in_column(c)) for c in columns})
    seeds = {arm: _per_seed(found) for arm, found in filled.items()}
    base = seeds.get(results.against or "", {})
    out = []
    for arm, found in filled.items():
        same = results.against is not None and set(found) == set(filled.get(results.against, {}))
        gap: Difference | None = None
        if same and arm != results.against:
            gap = paired_difference(seeds[arm], base)
        lost = [c for c, row in rows[arm].items() if not _measured(row)]
        out.append(
            Average(
                arm,
                rest,
                _value(found, seeds[arm]),
                gap,
                rank.get(arm),
                len(found),
                tuple(c for c in lost if c in found),
                tuple(c for c in lost if c not in found),
                seeds[arm],
            )
        )
    return out


def _measured(row: Row | None) -> bool:
    return row is not None and row.test is not None and row.status != "diverged"


def _filled(results: Results, found: dict[str, Row | None], chance: bool) -> dict[str, dict[int, float]]:
    """Column -> seed -> test score; chance, for one without a number, stands at seed -1 and fits any."""
    out: dict[str, dict[int, float]] = {}
    for column, row in found.items():
        if row is not None and _measured(row):
            out[column] = {run.seed: run.test for run in row.runs if run.test is not None}
        elif chance:
            facts = results.facts_of(column)
            metric = row.metric if row is not None else results.in_column(column)[0].metric
            if facts and metric in facts[0].chance:
                out[column] = {-1: facts[0].chance[metric]}
    return out


def _per_seed(found: dict[str, dict[int, float]]) -> dict[int, float]:
    """Mean over columns of each seed that every measured column has."""
    measured = [scores for scores in found.values() if -1 not in scores]
    if not measured:
        return {}
    shared = [s for s in measured[0] if all(s in scores for scores in measured)]
    return {s: mean([scores.get(-1, scores.get(s, 0.0)) for scores in found.values()]) for s in shared}


def _value(found: dict[str, dict[int, float]], seeds: dict[int, float]) -> Estimate | None:
    if seeds:
        return estimate(seeds.values())
    if not found:
        return None
    # No seed is common to the columns: a mean of means, whose error over seeds is not known.
    value = mean([mean(list(scores.values())) for scores in found.values()])
    return Estimate(value, None, min(len(scores) for scores in found.values()))
