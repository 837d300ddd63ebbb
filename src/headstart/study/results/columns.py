"""The columns of a table: the study's, times the axis values that nothing is chosen over; and averages over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.statistics import Difference, Estimate, difference, estimate, mean, mean_ranks
from headstart.study.language.papers import base_of
from headstart.study.results.answers import Draws, over_examples
from headstart.study.results.results import Average, Results
from headstart.study.results.rows import Row, drawn, draws_of, on_other_machines
from headstart.words import plain, short_names

if TYPE_CHECKING:
    from headstart.study.language.plan import Cell, Plan
    from headstart.study.language.spec import AverageSpec


Axes = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Column of a table -> the study's column that it is, and the values of axes that it is at."""


def side_by_side(plan: Plan) -> tuple[dict[tuple[str, str], list[Cell]], Axes]:
    """(column, arm) -> runs, and the axes of each column.

    An axis that is not chosen over makes a column of each of its values, named so: `digits fraction=0.1`. An arm
    without that axis stands, the same, in each of them.
    """
    wide = _wide_axes(plan)
    names = short_names(wide)
    labels: dict[tuple[str, str], list[Cell]] = {}
    axes: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for column in dict.fromkeys(cell.column for cell in plan.cells):
        # Arm -> text of its values of those axes -> the values, and its runs at them.
        groups: dict[str, dict[str, tuple[dict[str, Any], list[Cell]]]] = {}
        for cell in (cell for cell in plan.cells if cell.column == column):
            values = {name: value for name, value in cell.settings.items() if name in wide}
            groups.setdefault(cell.arm, {}).setdefault(repr(values), (values, []))[1].append(cell)
        every = {key: values for group in groups.values() for key, (values, _) in group.items()}
        for key, values in every.items():
            part = any(values.items() < other.items() for other in every.values())
            if part and not any(key in group and len(group) > 1 for group in groups.values()):
                continue
            label = " ".join([column, *(f"{names[k]}={plain(v)}".replace(" ", "") for k, v in values.items())])
            axes[label] = column, values
            for arm, group in groups.items():
                # The arm's runs at these values; without such an axis, its only ones.
                fitting = [(own, cells) for own, cells in group.values() if own.items() <= values.items()]
                if fitting:
                    labels[label, arm] = max(fitting, key=lambda pair: len(pair[0]))[1]
    return labels, axes


def _wide_axes(plan: Plan) -> list[str]:
    """Axes that nothing is chosen over and that make a difference: several values, or a value at which an arm
    loses the stage (a pretraining of 0 epochs)."""
    out = []
    for name in dict.fromkeys(name for cell in plan.cells for name in cell.settings):
        values = {repr(cell.settings[name]) for cell in plan.cells if name in cell.settings}
        having = {cell.arm for cell in plan.cells if name in cell.settings}
        lost = any(cell.arm in having and name not in cell.settings for cell in plan.cells)
        if name not in plan.choose and (len(values) > 1 or lost):
            out.append(name)
    return out


CHANCE = -(2**64)
"""Seed of a column that chance stands in for: it fits any, and no run has it."""

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
    draws = {arm: _draws_per_seed(rows[arm], of_arm, seeds[arm]) for arm, of_arm in scores.items()}
    base = scores.get(results.against or "")
    for arm, of_arm in scores.items():
        compared = base is not None and arm != results.against and set(of_arm) == set(base)
        lost = [column for column, row in rows[arm].items() if not _measured(row)]
        yield Average(
            arm=arm,
            over=over,
            value=_value(of_arm, seeds[arm]),
            difference=_gap(seeds, draws, rows, arm, results.against or "") if compared else None,
            rank=rank.get(arm),
            columns=len(of_arm),
            chance=tuple(column for column in lost if column in of_arm),
            missing=tuple(column for column in lost if column not in of_arm),
            seeds=seeds[arm],
            draws=draws[arm],
            elsewhere=compared and _elsewhere(rows[arm], rows[results.against or ""]),
        )


def _elsewhere(own: Mapping[str, Row | None], base: Mapping[str, Row | None]) -> bool:
    """Whether an arm and the one that it is compared with ran on different kinds of machines on some column."""
    pairs = ((row, base[column]) for column, row in own.items())
    return any(row is not None and other is not None and on_other_machines([row, other]) for row, other in pairs)


def _gap(
    seeds: Mapping[str, Mapping[int, float]],
    draws: Mapping[str, Draws],
    rows: Mapping[str, Mapping[str, Row | None]],
    arm: str,
    base: str,
) -> Difference | None:
    every = [row for name in (arm, base) for row in rows[name].values() if row is not None]
    return over_examples(difference(*drawn([seeds[arm], seeds[base]], every)), draws[arm], draws[base])


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


def _draws_per_seed(rows: Mapping[str, Row | None], scores: Scores, seeds: Mapping[int, float]) -> Draws:
    """The same on draws of the test examples; empty unless each measured column has them."""
    out: dict[int, Any] = dict.fromkeys(seeds, 0.0)
    for column, by_seed in scores.items():
        row = rows[column]
        draws = draws_of(row.runs) if row is not None and CHANCE not in by_seed else {}
        if CHANCE not in by_seed and not draws:
            return {}
        out = {seed: total + by_seed.get(CHANCE, draws.get(seed, 0.0)) for seed, total in out.items()}
    return {seed: total / len(scores) for seed, total in out.items() if len(scores) and np.ndim(total)}


def _value(scores: Scores, seeds: Mapping[int, float]) -> Estimate | None:
    if seeds or not scores:
        return estimate(seeds.values())
    # No seed is common to the columns: a mean of means, whose error over seeds is not known.
    value = mean([mean(list(by_seed.values())) for by_seed in scores.values()])
    return Estimate(value, None, min(map(len, scores.values())))
