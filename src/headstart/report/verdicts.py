"""What a paper says of a direction, or a study asks, and whether the numbers show it: in words, with the interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from headstart.study import words
from headstart.study.claims import AVERAGE, SCORES, STEPS, Claim, Term
from headstart.study.results import QUANTITIES, Results, Row
from headstart.study.rows import scores_by_seed
from headstart.study.statistics import Difference, paired_difference

if TYPE_CHECKING:
    from headstart.study.papers import Paper

Outcome = Literal["holds", "the other way round", "does not hold", "not seen", "not measured"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "the other way round", "does not hold", "not seen", "not measured")
"""In the order in which they are told. `does not hold`: of a claim that two are as good, where they are clearly not."""


@dataclass(frozen=True)
class Part:
    """A claim on one column (or on one less another): the difference of its two sides, paired by seed.

    `why` says why there is no verdict, or what there is to know of it.
    """

    column: str
    outcome: Outcome
    difference: Difference | None
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim and what is seen of it here, by column. No parts: it names no two sides, and is only told."""

    claim: Claim
    parts: tuple[Part, ...]

    def document(self) -> dict[str, Any]:
        """What `--json` says of it: the claim, and its difference, interval, n and outcome on each column."""
        parts = [
            {
                "column": part.column,
                "outcome": part.outcome,
                "why": part.why,
                "n": gap.n if gap else 0,
                "difference": gap.mean if gap else None,
                "interval": gap.interval if gap else None,
            }
            for part in self.parts
            for gap in (part.difference,)
        ]
        return {**self.claim.model_dump(mode="json"), "columns": parts}

    def __str__(self) -> str:
        """One sentence: what is claimed, where it holds, where it is not seen, with differences and intervals."""
        says = self.claim.says.rstrip(".")
        if not self.parts:
            return f"{says}: not checked here."
        told = []
        for outcome in OUTCOMES:
            held: dict[str, list[str]] = {}
            for part in self.parts:
                if part.outcome == outcome:
                    held.setdefault(_told(self.claim, part), []).append(part.column)
            if held:
                told.append(f"{outcome} on " + words.listed([f"{words.listed(c)} ({t})" for t, c in held.items()]))
        margin = f"within ±{self.claim.within:g}" if self.claim.within else ""
        compared = ", ".join(
            filter(None, [self.claim.compares, QUANTITIES[self.claim.quantity], _at(self.claim), margin])
        )
        return f"{says} ({compared}): {'; '.join(told)}."


def _told(claim: Claim, part: Part) -> str:
    """The difference with its interval and number of seeds, or why there is none."""
    gap = part.difference
    if gap is None:
        return part.why
    found = (words.whole_difference if claim.quantity in STEPS else words.difference)(gap)
    seeds = words.many(gap.n, "paired seed" if claim.than is None else "seed")
    return _and(f"{found}, {seeds}", part.why)


def _at(claim: Claim) -> str:
    return f"at {words.settings(claim.at, words.short_names(claim.at))}" if claim.at else ""


def asked(results: Results) -> str:
    """The heading over the verdicts."""
    return f"What {'the paper says' if results.paper else 'is asked'}, and what is seen here"


def unprinted(results: Results) -> str:
    """Source and note of a figure whose numbers the paper did not print: no table beside it brings them."""
    paper = results.paper
    return words.sentences([paper.source, paper.note]) if paper is not None and not paper.rows else ""


def verdicts(results: Results, paper: Paper | None) -> list[Verdict]:
    """Each claim of the paper and of the study, checked on its columns (all that there are, where it names none)."""
    claims = [*(paper.claims if paper else ()), *results.claims]
    return [Verdict(claim, tuple(_parts(results, paper, claim))) for claim in claims]


def _parts(results: Results, paper: Paper | None, claim: Claim) -> Iterator[Part]:
    if claim.higher is None:
        return
    compared = [(f"{one} less {other}", list(claim.terms(one, other))) for one, other in claim.pairs]
    compared = compared or [(column, list(claim.terms(column))) for column in _columns(results, paper, claim)]
    for label, terms in compared:
        try:
            yield _judged(claim, label, *_difference(results, paper, claim, terms))
        except _Unknown as why:
            yield Part(label, "not measured", None, str(why))


def _columns(results: Results, paper: Paper | None, claim: Claim) -> list[str]:
    """The claim's columns as they are called in these results; those that were not run keep the claim's name."""
    known = paper.columns if paper and claim in paper.claims else ()
    asked: Sequence[str] = claim.columns or known or results.columns
    out: list[str] = []
    for column in asked:
        out += results.columns_of(column) or [column]
    return out


class _Unknown(Exception):
    """There is no difference to be had: why."""


@dataclass(frozen=True)
class _Open:
    """The difference would be greater (`above`) or smaller (`below`) if every seed had had the steps that it needs."""

    above: bool = False
    below: bool = False


def _difference(
    results: Results, paper: Paper | None, claim: Claim, terms: Sequence[Term]
) -> tuple[Difference | None, str, _Open]:
    """The sum of the terms, paired by seed, what there is to know of it, and what it leaves open. Raises: _Unknown."""
    if any(column == AVERAGE for _, _, column in terms):
        return _compared(claim, terms, _averages(results, terms)), "", _Open()
    rows = [results.row(arm, column) for _, arm, column in terms]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows):
        raise _Unknown("not run here")
    for row in found:
        metric = paper.metric_of(row.column) if paper else found[0].metric
        if claim.quantity in SCORES and row.metric != metric:
            raise _Unknown(f"the score here is {words.metric(row.metric)}")
        if claim.quantity in SCORES and claim.than is not None and row.stand_in:
            raise _Unknown("a score on stand-in data says nothing of a number that is meant for others")
    numbers = [_numbers(row, claim) for row in found]
    lost = [row.arm for row, scores in zip(found, numbers, strict=True) if not scores]
    if lost:
        raise _Unknown(f"no {QUANTITIES[claim.quantity]} of {words.listed(list(dict.fromkeys(lost)))}")
    short = {sign for (sign, _, _), row in zip(terms, found, strict=True) if _never(row, claim.quantity)}
    return (
        _compared(claim, terms, numbers),
        "; ".join(dict.fromkeys(_remarks(found, claim))),
        _Open(above=1 in short, below=-1 in short),
    )


def _numbers(row: Row, claim: Claim) -> dict[int, float]:
    """Seed -> number of a row, at the chosen settings or at those of the claim."""
    runs = row.runs
    if claim.at:
        points = [p for p in row.points if claim.at.items() <= p.settings.items()]
        runs = points[0].runs if len(points) == 1 else ()
    if claim.quantity not in SCORES:
        return {**dict.fromkeys(_never(row, claim.quantity), row.last["steps"]), **row.by_seed(claim.quantity)}
    return scores_by_seed(runs, claim.quantity)


def _never(row: Row, quantity: str) -> list[int]:
    """Seeds that finished and never reach the score of the arm that is to be matched, where there is such a score."""
    found = row.match(quantity)
    return [run.seed for run in row.runs if run.val is not None and run.seed not in found.reached] if found else []


def _remarks(rows: Sequence[Row], claim: Claim) -> Iterator[str]:
    """Which arms diverged, and which never got there."""
    diverged = list(dict.fromkeys(row.arm for row in rows if row.status == "diverged"))
    if diverged:
        yield f"{words.listed(diverged)} diverged"
    for row in rows:
        if never := len(_never(row, claim.quantity)):
            seeds, steps = words.many(never, "seed"), row.last["steps"]
            yield f"{seeds} of {row.n} of {row.arm} never got there within {steps:,.0f} steps"


def _averages(results: Results, terms: Sequence[Term]) -> list[Mapping[int, float]]:
    """Seed -> average over columns, of each term's arm. Raises: _Unknown."""
    found = [next((a for a in results.averages if a.arm == arm), None) for _, arm, _ in terms]
    if any(average is None or not average.seeds for average in found):
        raise _Unknown("no average of both arms is measured")
    if len({(a.missing, a.columns, a.over) for a in found if a}) > 1:
        raise _Unknown("the averages are not over the same columns")
    return [average.seeds for average in found if average]


def _compared(claim: Claim, terms: Sequence[Term], numbers: Sequence[Mapping[int, float]]) -> Difference | None:
    """The sum of the terms. Raises: _Unknown where what the claim takes for granted is not seen."""
    if claim.presumed:
        given = _summed(claim, terms[:2], numbers[:2])
        if given is None or not given.clear or given.mean < 0:
            gap = " less ".join(claim.higher or ())
            raise _Unknown(f"{gap}, which it takes to be above 0, is {words.difference(given)} here")
    return _summed(claim, terms, numbers)


def _summed(claim: Claim, terms: Sequence[Term], numbers: Sequence[Mapping[int, float]]) -> Difference | None:
    """Sum of the terms at the seeds that all of them have, against the number that the claim names, or 0."""
    shared = [seed for seed in numbers[0] if all(seed in scores for scores in numbers)]
    sums = {
        seed: sum(sign * scores[seed] for (sign, _, _), scores in zip(terms, numbers, strict=True)) for seed in shared
    }
    return paired_difference(sums, dict.fromkeys(sums, claim.than or 0.0))


def _judged(claim: Claim, label: str, gap: Difference | None, why: str, left: _Open) -> Part:
    """What the interval of the difference says of the claim, if nothing that is left open could turn it."""
    found = _by_interval(claim, label, gap, why)
    either = (left.above or left.below) if claim.within is not None else (left.above and left.below)
    if either or (found.outcome == "holds" and left.below) or (found.outcome == "the other way round" and left.above):
        return Part(label, "not measured", None, _and(why, "how many more they need is not known"))
    if left.above or left.below:
        return replace(found, why=_and(found.why, "such a seed counts with the steps that it took"))
    return found


def _by_interval(claim: Claim, label: str, gap: Difference | None, why: str) -> Part:
    if gap is None:
        return Part(label, "not measured", None, "no seed is finished in all")
    if gap.low is None or gap.high is None:
        return Part(label, "not measured", gap, _and("one seed has no interval", why))
    if claim.within is not None:
        if max(-gap.low, gap.high) <= claim.within:
            return Part(label, "holds", gap, why)
        if gap.low > claim.within or gap.high < -claim.within:
            return Part(label, "does not hold", gap, why)
        return Part(label, "not seen", gap, _and("the interval reaches beyond the margin", why))
    if not gap.clear:
        return Part(label, "not seen", gap, _and("the interval holds 0", why))
    return Part(label, "holds" if gap.mean > 0 else "the other way round", gap, why)


def _and(*texts: str) -> str:
    return "; ".join(filter(None, texts))
