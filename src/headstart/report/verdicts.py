"""What a paper says of a direction, and whether the numbers here show it: in words, with the interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from headstart.study import words
from headstart.study.papers import AVERAGE, STEPS
from headstart.study.results import QUANTITIES, Results
from headstart.study.statistics import Difference, paired_difference

if TYPE_CHECKING:
    from headstart.study.papers import Claim, Paper

Outcome = Literal["holds", "not seen", "the other way round", "not measured"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "the other way round", "not seen", "not measured")
"""In the order in which they are told."""


@dataclass(frozen=True)
class Part:
    """One column of a claim: the difference of the arm that should be higher, less the other, paired by seed.

    `why` says why there is no verdict, where it is not measured. `diverged`: arms whose scores are those at the best
    weights before their loss was no number.
    """

    column: str
    outcome: Outcome
    difference: Difference | None
    why: str = ""
    diverged: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The difference with its interval and number of seeds, or why there is none."""
        if self.difference is None:
            return self.why
        more = {"not seen": "the interval holds 0", "not measured": self.why}.get(self.outcome, "")
        lost = f"{words.listed(list(self.diverged))} diverged" if self.diverged else ""
        seeds = words.many(self.difference.n, "paired seed")
        return "; ".join(filter(None, [f"{words.difference(self.difference)}, {seeds}", more, lost]))


@dataclass(frozen=True)
class Verdict:
    """A claim of a paper and what is seen of it here, by column. No parts: it names no two arms, and is only told."""

    says: str
    higher: str
    lower: str
    quantity: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        """One sentence: what is claimed, where it holds, where it is not seen, with differences and intervals."""
        says = self.says.rstrip(".")
        if not self.parts:
            return f"{says}: not checked here."
        told = []
        for outcome in OUTCOMES:
            held: dict[str, list[str]] = {}
            for part in self.parts:
                if part.outcome == outcome:
                    held.setdefault(part.told, []).append(part.column)
            if held:
                told.append(f"{outcome} on " + words.listed([f"{words.listed(c)} ({t})" for t, c in held.items()]))
        return f"{says} ({self.higher} less {self.lower}, {QUANTITIES[self.quantity]}): {'; '.join(told)}."


def verdicts(results: Results, paper: Paper) -> list[Verdict]:
    """Each claim of the paper, checked on its columns (all that the paper has, where it names none)."""
    out = []
    for claim in paper.claims:
        higher, lower = claim.higher, claim.lower
        if higher is None or lower is None:
            out.append(Verdict(claim.says, "", "", claim.quantity, ()))
            continue
        parts = [_part(results, paper, claim, higher, lower, column) for column in _columns(results, paper, claim)]
        out.append(Verdict(claim.says, higher, lower, claim.quantity, tuple(parts)))
    return out


def _columns(results: Results, paper: Paper, claim: Claim) -> list[str]:
    """The claim's columns as they are called in these results; those that were not run keep the paper's name."""
    asked: Sequence[str] = claim.columns or [c for c in paper.heads if c != AVERAGE] or results.columns
    out: list[str] = []
    for column in asked:
        out += columns_of(results, column) or [column]
    return out


def columns_of(results: Results, column: str) -> list[str]:
    """The columns of these results that are the study's column: one, or one per value of an axis."""
    return [c for c in results.columns if c == column or c.startswith(f"{column} ")]


def _part(results: Results, paper: Paper, claim: Claim, higher: str, lower: str, column: str) -> Part:
    if column == AVERAGE:
        return _judged(column, _of_averages(results, higher, lower), "no average of both arms is measured")
    first, second = results.row(higher, column), results.row(lower, column)
    if first is None or second is None:
        return Part(column, "not measured", None, "not run here")
    metric = metric_of(paper, column)
    for row in (first, second):
        if claim.quantity not in STEPS and row.metric != metric:
            return Part(column, "not measured", None, f"the score here is {words.metric(row.metric)}")
    gap = paired_difference(first.by_seed(claim.quantity), second.by_seed(claim.quantity))
    lost = [row.arm for row in (first, second) if not row.by_seed(claim.quantity)]
    why = f"no {QUANTITIES[claim.quantity]} of {words.listed(lost)}" if lost else "no seed is finished in both"
    diverged = tuple(row.arm for row in (first, second) if row.status == "diverged")
    return replace(_judged(column, gap, why), diverged=diverged)


def metric_of(paper: Paper, column: str) -> str:
    """The score that the paper gives of a column (of these results, or of the study)."""
    known = [name for name in paper.metrics if column == name or column.startswith(f"{name} ")]
    return paper.metrics[max(known, key=len)] if known else paper.metric


def _judged(column: str, gap: Difference | None, why: str) -> Part:
    if gap is None:
        return Part(column, "not measured", None, why)
    if gap.interval is None:
        return Part(column, "not measured", gap, "one seed has no interval")
    if not gap.clear:
        return Part(column, "not seen", gap)
    return Part(column, "holds" if gap.mean > 0 else "the other way round", gap)


def _of_averages(results: Results, higher: str, lower: str) -> Difference | None:
    """The paired difference of two averages, of which one is that of the arm that all are compared with."""
    for arm, other, sign in ((higher, lower, 1), (lower, higher, -1)):
        found = next((a.difference for a in results.averages if a.arm == arm and a.difference), None)
        if other == results.against and found is not None:
            low, high = (found.low, found.high) if sign > 0 else (found.high, found.low)
            return Difference(sign * found.mean, found.sem, None if low is None else sign * low,
                              None if high is None else sign * high, found.n)
    return None
