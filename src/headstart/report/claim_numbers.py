"""The number that a claim asks for: the difference of its two sides by seed, with what is open or to know about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.statistics import Difference, difference, examples_error, mean, paired_difference, with_examples
from headstart.study.language.papers import AVERAGE, QUANTITIES, SCORE_QUANTITIES, Claim, Term
from headstart.study.results.answers import Draws, over_examples
from headstart.study.results.results import Average, Results
from headstart.study.results.rows import OTHER_MACHINES, Row, Run, drawn, draws_of, on_other_machines, scores_by_seed

if TYPE_CHECKING:
    from headstart.study.language.papers import Paper

OF_TEST = ("test", "last_test", "last_gap")
"""Quantities that another draw of the test examples would change."""
UNCOUNTED = "what another draw of the test examples changes is not counted"
"""Said of an interval of a score whose error is not that of a share."""


class Unmeasured(Exception):
    """There is no difference to be had: why."""


@dataclass(frozen=True)
class Open:
    """The difference would be greater (`above`) or smaller (`below`) if every seed had had the steps that it needs."""

    above: bool = False
    below: bool = False


def claimed_difference(
    results: Results, paper: Paper | None, claim: Claim, terms: Sequence[Term]
) -> tuple[Difference | None, str, Open]:
    """The sum of the terms by seed, what there is to know of it, and what it leaves open. Raises: Unmeasured."""
    if any(column.partition(" ")[0] == AVERAGE for _, _, column in terms) and not claim.relative:
        remark = UNCOUNTED if claim.fixed and claim.quantity in OF_TEST else ""
        averages = _averages(results, terms)
        draws = [average.draws if claim.quantity == "test" else {} for average in averages]
        return _summed(claim, terms, [average.seeds for average in averages], draws), remark, Open()
    rows = [row for _, arm, column in terms if (row := results.row(arm, column)) is not None]
    if len(rows) < len(terms):
        raise Unmeasured("not run here")
    if results.one_machine and on_other_machines(rows):
        raise Unmeasured(f"{OTHER_MACHINES}, and the study asks for one")
    for row in rows if claim.quantity in SCORE_QUANTITIES else ():
        if row.metric != (paper.metric_of(row.column) if paper else rows[0].metric):
            raise Unmeasured(f"the score here is {words.metric(row.metric)}")
        if claim.fixed and row.stand_in:
            raise Unmeasured("a score on stand-in data says nothing of a number that is meant for others")
    numbers = [numbers_of(row, claim) for row in rows]
    lost = [row.arm for row, scores in zip(rows, numbers, strict=True) if not scores]
    if lost:
        raise Unmeasured(f"no {QUANTITIES[claim.quantity]} of {words.listed(list(dict.fromkeys(lost)))}")
    short = {sign for (sign, _, _), row in zip(terms, rows, strict=True) if _never(row, claim.quantity)}
    left, draws = Open(above=1 in short, below=-1 in short), [_draws(row, claim) for row in rows]
    gap = _summed(claim, terms, drawn(numbers, rows), draws)
    remarks = list(_remarks(rows, claim))
    # Seeds that all agree say nothing of chance: the test examples do.
    level = gap is not None and gap.constant and gap.mean != 0 and claim.within is None
    if gap is not None and gap.sem is not None and (claim.fixed or level) and claim.quantity in OF_TEST:
        error = _examples_error(results, claim, rows, numbers)
        gap = gap if error is None else with_examples(gap, error)
        remarks += [UNCOUNTED] if error is None else []
    return gap, "; ".join(dict.fromkeys(remarks)), left


def _examples_error(
    results: Results, claim: Claim, rows: Sequence[Row], numbers: Sequence[Mapping[int, float]]
) -> float | None:
    """Standard error of a score, or of the terms of a claim, from the draw of the test examples; None where scores or
    sizes do not tell it.

    Positions of one example are not independent: there are as many draws as examples, whatever is scored in each.
    """
    total, means = 0.0, [mean(list(scores.values())) for scores in numbers]
    at = {(row.arm, row.column): score for row, score in zip(rows, means, strict=True)}
    for row, score in zip(rows, means, strict=True):
        facts, weight = results.facts.get(row.task), 1.0
        examples = facts.sizes.get("test", 0) if facts else 0
        if row.metric != "accuracy" or not examples:
            return None
        if claim.relative:  # how much of `higher / lower` a change of this score changes
            higher, lower = (at[str(side), row.column] for side in (claim.higher, claim.lower))
            if not lower:
                return None
            weight = 1 / lower if row.arm == claim.higher else higher / lower**2
        total += (weight * examples_error(min(max(score, 0.0), 1.0), examples)) ** 2
    return math.sqrt(total)


def numbers_of(row: Row, claim: Claim) -> dict[int, float]:
    """Seed -> number of a row, at the chosen settings or at those of the claim."""
    if claim.quantity not in SCORE_QUANTITIES:
        never = _never(row, claim.quantity)
        whole = dict.fromkeys(never, row.last["steps"]) if never else {}
        return whole | row.by_seed(claim.quantity)
    return scores_by_seed(_runs(row, claim), claim.quantity)


def _draws(row: Row, claim: Claim) -> Draws:
    """Seed -> the number on draws of the test examples, where it is a score on these."""
    return draws_of(_runs(row, claim)) if claim.quantity == "test" else {}


def _runs(row: Row, claim: Claim) -> Sequence[Run]:
    """The runs of a row at the chosen settings, or at those of the claim."""
    points = [p for p in row.points if claim.at.items() <= p.settings.items()] if claim.at else []
    return (points[0].runs if len(points) == 1 else ()) if claim.at else row.runs


def _never(row: Row, quantity: str) -> list[int]:
    """Seeds that finished and never reach the score of the arm that is to be matched, where there is such a score."""
    match = row.match(quantity)
    return [run.seed for run in row.runs if run.val is not None and run.seed not in match.reached] if match else []


def _remarks(rows: Sequence[Row], claim: Claim) -> Iterator[str]:
    """Which arms diverged, and which never got there."""
    diverged = list(dict.fromkeys(row.arm for row in rows if row.status == "diverged"))
    if diverged:
        yield f"{words.listed(diverged)} diverged"
    if len({row.arm for row in rows}) > 1 and on_other_machines(rows):
        yield OTHER_MACHINES
    for row in rows:
        if never := len(_never(row, claim.quantity)):
            seeds, steps = words.many(never, "seed"), row.last["steps"]
            yield f"{seeds} of {row.n} of {row.arm} never got there within {steps:,.0f} steps"


def _averages(results: Results, terms: Sequence[Term]) -> list[Average]:
    """The average over columns of each term's arm. Raises: Unmeasured."""
    averages = [
        next((a for a in results.averages if a.arm == arm and column == f"{AVERAGE} {a.over}".strip()), None)
        for _, arm, column in terms
    ]
    if any(average is None or not average.seeds for average in averages):
        raise Unmeasured("no average of both arms is measured")
    if len({(a.missing, a.columns, a.over) for a in averages if a}) > 1:
        raise Unmeasured("the averages are not over the same columns")
    return [average for average in averages if average]


def _summed(
    claim: Claim, terms: Sequence[Term], numbers: Sequence[Mapping[int, float]], draws: Sequence[Draws]
) -> Difference | None:
    """Sum of the terms at the seeds that all of them have, against the number that the claim names, or 0.

    Two terms are compared by the rule of `statistics.difference`, shares in pairs. draws: the numbers of each term on
    draws of the test examples, empty where these are not there.
    """
    if not claim.relative and [sign for sign, _, _ in terms] == [1, -1]:
        margin = claim.than or 0.0
        gap = difference(numbers[0], {seed: score + margin for seed, score in numbers[1].items()})
        return over_examples(gap, draws[0], {seed: scores + margin for seed, scores in draws[1].items()})
    # What rounding leaves of equal scores is no difference.
    sums = {seed: 0.0 if abs(total) < words.ROUNDING else total for seed, total in _sums(claim, terms, numbers).items()}
    gap = paired_difference(sums, dict.fromkeys(sums, claim.than or 0.0))
    return gap if claim.fixed else over_examples(gap, _sums(claim, terms, draws))


def _sums(claim: Claim, terms: Sequence[Term], numbers: Sequence[Mapping[int, Any]]) -> dict[int, Any]:
    """Seed -> the signed sum of the terms, of seeds that all have; of a claim in shares their signed sum.

    Numbers are scores, or scores on each draw of the test examples.
    """
    shared = [seed for seed in numbers[0] if all(seed in scores for scores in numbers)]
    signs = [sign for sign, _, _ in terms]
    if claim.relative:
        return {seed: _relative(claim, terms, numbers, seed) for seed in shared}
    total = math.fsum if all(isinstance(scores[seed], float) for scores in numbers for seed in shared) else sum
    return {seed: total(sign * scores[seed] for sign, scores in zip(signs, numbers, strict=True)) for seed in shared}


def _relative(claim: Claim, terms: Sequence[Term], numbers: Sequence[Mapping[int, Any]], seed: int) -> Any:
    """What `higher` gains over `lower` in shares of it, on one column or on one less the other."""
    scores = {(arm, column): values[seed] for (_, arm, column), values in zip(terms, numbers, strict=True)}
    return sum(
        sign * (scores[arm, column] / scores[str(claim.lower), column] - 1.0)
        for sign, arm, column in terms
        if arm == claim.higher and np.all(scores[str(claim.lower), column])
    )
