"""Averages over columns, paired by seed, with chance where a column has no number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headstart.study.claims import base_of
from headstart.study.results import Average, Results, Row
from headstart.study.statistics import Estimate, estimate, mean, mean_ranks, paired_difference

if TYPE_CHECKING:
    from headstart.study.spec import AverageSpec

CHANCE = -1
"""Seed of a column that chance stands in for: it fits any."""

Scores = Mapping[str, Mapping[int, float]]
"""Column -> seed -> test score."""


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
    chance = spec.missing == "chance"
    return tuple(
        average
        for over, columns in groups.items()
        if len(columns) > 1
        for average in _group(results, chance, over, columns)
    )


def _group(results: Results, chance: bool, over: str, columns: Sequence[str]) -> Iterator[Average]:
    rows = {arm: {column: results.row(arm, column) for column in columns} for arm in results.arms}
    rows = {arm: by_column for arm, by_column in rows.items() if any(by_column.values())}
    if len({row.metric for by_column in rows.values() for row in by_column.values() if row is not None}) != 1:
        # An accuracy and an R2 have no common mean; their ranks have.
        return
    scores = {arm: _scores(results, by_column, chance) for arm, by_column in rows.items()}
    means = {arm: {c: mean(list(v.values())) for c, v in of_arm.items()} for arm, of_arm in scores.items()}
    rank = mean_ranks(means, {c: all(row.greater for row in results.in_column(c)) for c in columns})
    seeds = {arm: _per_seed(of_arm) for arm, of_arm in scores.items()}
    base = scores.get(results.against or "")
    for arm, of_arm in scores.items():
        compared = base is not None and arm != results.against and set(of_arm) == set(base)
        lost = [column for column, row in rows[arm].items() if not _measured(row)]
        yield Average(
            arm=arm,
            over=over,
            value=_value(of_arm, seeds[arm]),
            difference=paired_difference(seeds[arm], seeds[results.against or ""]) if compared else None,
            rank=rank.get(arm),
            columns=len(of_arm),
            chance=tuple(column for column in lost if column in of_arm),
            missing=tuple(column for column in lost if column not in of_arm),
            seeds=seeds[arm],
        )


def _measured(row: Row | None) -> bool:
    return row is not None and row.test is not None and row.status != "diverged"


def _scores(results: Results, rows: Mapping[str, Row | None], chance: bool) -> Scores:
    """The scores of an arm, with chance for a column without a number, where it is known."""
    out: dict[str, Mapping[int, float]] = {}
    for column, row in rows.items():
        if row is not None and _measured(row):
            out[column] = row.by_seed()
        elif chance:
            facts = results.facts_of(column)
            metric = row.metric if row is not None else results.in_column(column)[0].metric
            if facts and metric in facts[0].chance:
                out[column] = {CHANCE: facts[0].chance[metric]}
    return out


def _per_seed(scores: Scores) -> dict[int, float]:
    """Mean over columns of each seed that every measured column has."""
    measured = [by_seed for by_seed in scores.values() if CHANCE not in by_seed]
    shared = [seed for seed in measured[0] if all(seed in by_seed for by_seed in measured)] if measured else []
    return {seed: mean([by_seed.get(CHANCE, by_seed.get(seed, 0.0)) for by_seed in scores.values()]) for seed in shared}


def _value(scores: Scores, seeds: Mapping[int, float]) -> Estimate | None:
    if seeds or not scores:
        return estimate(seeds.values())
    # No seed is common to the columns: a mean of means, whose error over seeds is not known.
    value = mean([mean(list(by_seed.values())) for by_seed in scores.values()])
    return Estimate(value, None, min(map(len, scores.values())))
