"""Claims of a paper or a study: the numbers that they ask for, and how each holds, with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from headstart import words
from headstart.report.claim_numbers import OF_TEST, Open, Unmeasured, claimed_difference, numbers_of
from headstart.statistics import LEVEL, Difference, corrected, paired_difference, smallest_p
from headstart.study.language.papers import (
    AVERAGE,
    QUANTITIES,
    SCORE_QUANTITIES,
    STEP_QUANTITIES,
    Claim,
    Term,
    Written,
    claim_key,
)
from headstart.study.results.results import Results
from headstart.study.results.rows import difference_document, drawn, no_evidence

if TYPE_CHECKING:
    from headstart.study.language.papers import Paper

ClaimOutcome = Literal["holds", "the other way round", "does not hold", "undecided", "withdrawn", "not measured"]
OUTCOMES: tuple[ClaimOutcome, ...] = (
    *("holds", "the other way round", "does not hold", "undecided", "withdrawn", "not measured"),
)
"""In the order in which they are listed. `does not hold`: two are claimed to be as good, or one to be better by a
margin, and clearly are not. `withdrawn`: an arm of the comparison could not do what it stands for."""

TOO_SMALL = "the random start was too small for its width, so that frozen blocks hardly mix positions"
"""Why a verdict is withdrawn."""

SAYS_NOTHING = "which does not show how much it varies by chance"
"""Said of a difference that is the same at every seed, as that of copies of one run is."""

Standing = Literal["", "preliminary", "exploratory"]
HEADLINE_SEEDS = 8
"""Seeds from which on an outcome is more than preliminary, where none of them chose a setting."""
STANDINGS = (
    f"Preliminary: fewer than {HEADLINE_SEEDS} seeds, or seeds that chose a setting too. Exploratory: the claim was "
    "written after the first runs that answer it had begun."
)
"""What is said of them once."""
UNDATED = "A claim that is not among the dated ones of its study counts as written after them."
"""What is said where one of them was changed, or added, since the dates were taken."""

OWN_QUESTION = "Our question: "
"""What stands before a claim that is not the paper's, where others are."""


@dataclass(frozen=True)
class Part:
    """A claim on one column (or on one less another): the difference of its two sides, paired by seed.

    `why` says why there is no verdict, or what there is to know of it. uncorrected: the outcome before Holm's
    correction, where this changed it. p: corrected. standing: what keeps the outcome from being a headline.
    """

    column: str
    outcome: ClaimOutcome
    difference: Difference | None
    why: str = ""
    uncorrected: ClaimOutcome | None = None
    p: float | None = None
    standing: Standing = ""


@dataclass(frozen=True)
class Verdict:
    """A claim and its outcome here, by column. No parts: it names no two sides, and is only quoted.

    own: what the study asks beside the claims of a paper. written: when the claim was, where that is known; first: when
    the runs that answer it had begun, in ISO 8601.
    """

    claim: Claim
    parts: tuple[Part, ...]
    own: bool = False
    written: Written | None = None
    first: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` says of it: the claim, and its difference, interval, n and outcome on each column."""
        parts = [
            {
                "column": part.column,
                "outcome": part.outcome,
                "uncorrected": part.uncorrected or part.outcome,
                "standing": part.standing,
                "why": part.why,
                "n": part.difference.n if part.difference else 0,
                **difference_document(part.difference),
                "p_holm": part.p,
            }
            for part in self.parts
        ]
        written = self.written and {"commit": self.written.commit, "time": self.written.time.isoformat()}
        dates = {"written": written, "first_run": self.first or None}
        return {**self.claim.model_dump(mode="json"), "columns": parts, **dates}

    def __str__(self) -> str:
        """One sentence: what is claimed, and its outcome on each column with differences and intervals."""
        claim, says = self.claim, f"{OWN_QUESTION * self.own}{self.claim.says.rstrip('.')}"
        if not self.parts:
            return f"{says}: not checked here."
        outcomes = []
        for outcome in OUTCOMES:
            columns: dict[str, list[str]] = {}
            for part in (part for part in self.parts if part.outcome == outcome):
                columns.setdefault(_evidence(claim, part), []).append(part.column)
            if columns:
                each = [f"{words.listed(names)} ({evidence})" for evidence, names in columns.items()]
                outcomes.append(f"{outcome} on {words.listed(each)}")
        at = f"at {words.settings(claim.at, words.short_names(claim.at))}" if claim.at else ""
        margin = f"within ±{claim.within:g}" if claim.within else ""
        compared = ", ".join(filter(None, [claim.compares, QUANTITIES[claim.quantity], at, margin]))
        return f"{says} ({compared}): {'; '.join(outcomes)}."


def _evidence(claim: Claim, part: Part) -> str:
    """The difference with its interval and number of seeds, or why there is none."""
    gap = part.difference
    if gap is None:
        return part.why
    text = difference_text(claim, gap)
    seeds = words.many(gap.n, "seed") if claim.fixed else words.seeds(gap)
    z = ""
    if claim.fixed and gap.sem and gap.examples and not gap.level:
        z = f"z {gap.mean / gap.sem:.1f} over seeds and test examples".replace("-", words.MINUS)
    return _joined(", ".join(filter(None, [text, z, seeds, part.standing])), part.why)


def difference_text(claim: Claim, gap: Difference) -> str:
    """The difference with its interval; of a score that is the same at all seeds that score."""
    text = (words.whole_difference if claim.quantity in STEP_QUANTITIES else words.difference)(gap)
    level = claim.fixed and gap.level and not gap.constant
    return f"{words.score(gap.mean + (claim.than or 0.0))} on {gap.n} of {gap.n}" if level else text


def claims_heading(results: Results) -> str:
    """The heading over the verdicts."""
    ours = results.paper is not None and bool(results.claims)
    both = "Claims of the paper, and questions of our own, checked here"
    return both if ours else f"Claims of the {'paper' if results.paper else 'study'}, checked here"


def claims_note(verdicts: Sequence[Verdict], noun: str = "seed") -> str:
    """How the differences of the verdicts were taken, and what their outcomes stand. noun: what runs differ in."""
    parts = [part for verdict in verdicts for part in verdict.parts]
    gaps = [p.difference for v in verdicts for p in v.parts if not v.claim.fixed]
    than, level = (
        any(v.claim.fixed is fixed and p.difference and p.difference.examples for v in verdicts for p in v.parts)
        for fixed in (True, False)
    )
    undated = any(v.written is None and any(part.standing == "exploratory" for part in v.parts) for v in verdicts)
    drawn_anew = (
        " An interval of a difference from a fixed number counts the draw of the test examples too; z is the "
        "difference over the standard error of both."
    )
    agreed = " An interval of a difference that is the same at every seed is over the test examples." if level else ""
    several = "; an outcome other than undecided stands Holm's correction for the number of verdicts on this page"
    return (
        f"Differences are {words.pairing(gaps, noun)}, each with its own {words.interval_kind(gaps, noun)}"
        f"{several if len(parts) > 1 else ''}.{drawn_anew if than else ''}{agreed}"
        f"{f' {STANDINGS}' if any(part.standing for part in parts) else ''}{f' {UNDATED}' if undated else ''}"
    )


def unprinted(results: Results) -> str:
    """Where a paper's claims come from, of which no table is printed beside ours: its source and its note."""
    paper = results.paper
    return words.sentences([paper.source, paper.note]) if paper is not None and not paper.rows else ""


def verdicts(results: Results, paper: Paper | None) -> list[Verdict]:
    """Each claim of the paper and of the study, checked on its columns (all that there are, where it names none)."""
    theirs = paper.claims if paper else ()
    sided = [*((claim, False) for claim in theirs), *((claim, paper is not None) for claim in results.claims)]
    checked = _corrected([Verdict(claim, tuple(_parts(results, paper, claim)), own) for claim, own in sided])
    return [_dated(results, verdict) for verdict in checked]


def _dated(results: Results, verdict: Verdict) -> Verdict:
    """The verdict with its dates, and with what keeps each outcome, after the correction, from being a headline."""
    claim = verdict.claim
    ours = verdict.own or results.paper is None
    dates = results.written if ours else results.written_paper
    written = (dates or {}).get(claim_key(claim.model_dump(mode="json", exclude_defaults=True)))
    rows = {arm: [row for row in results.table if row.arm == arm] for arm in claim.arms}
    began = [min((run.started for row in of for run in row.runs if run.started), default="") for of in rows.values()]
    first = max(began, default="")
    # A file whose claims have dates does not know one that was changed since: that is no claim from before the runs.
    late = bool(first) and (dates is not None if written is None else written.time > _moment(first))

    def standing(part: Part) -> Standing:
        if part.outcome in ("withdrawn", "not measured") or part.difference is None:
            return ""
        chosen = any(len(row.points) > 1 for of in rows.values() for row in of if part.column.startswith(row.column))
        few = part.difference.n < HEADLINE_SEEDS or (chosen and not claim.at)
        return "exploratory" if late else "preliminary" if few and part.outcome != "undecided" else ""

    parts = tuple(replace(part, standing=standing(part)) for part in verdict.parts)
    return replace(verdict, parts=parts, written=written, first=first)


def _moment(text: str) -> datetime:
    """A time in ISO 8601; one without a zone is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _corrected(every: list[Verdict]) -> list[Verdict]:
    """The verdicts of one page, of which those that rest on an interval without 0 must stand Holm's correction."""
    tested = corrected(
        {
            (i, j): part.difference
            for i, verdict in enumerate(every)
            for j, part in enumerate(verdict.parts)
            if verdict.claim.within is None and part.outcome not in ("withdrawn", "not measured")
        }
    )

    def judged(part: Part, p: float | None) -> Part:
        part = replace(part, p=p)
        if part.outcome in ("undecided", "withdrawn") or p is None or p < 1 - LEVEL or part.difference is None:
            return part
        why = (
            f"clear alone, but not among {len(tested)} verdicts (Holm's correction, p = {p:.2g}; no permutation test "
            f"over so few runs reaches p below {smallest_p(part.difference):.2g})"
        )
        return replace(part, outcome="undecided", uncorrected=part.outcome, why=_joined(why, part.why))

    return [
        replace(verdict, parts=tuple(judged(part, tested.get((i, j))) for j, part in enumerate(verdict.parts)))
        for i, verdict in enumerate(every)
    ]


def _parts(results: Results, paper: Paper | None, claim: Claim) -> Iterator[Part]:
    if claim.higher is None:
        return
    compared = [(f"{first} less {second}", list(claim.terms(first, second))) for first, second in claim.pairs]
    compared = compared or [(column, list(claim.terms(column))) for column in _columns(results, paper, claim)]
    for label, terms in compared:
        try:
            part = _judged(claim, label, *claimed_difference(results, paper, claim, terms))
            missing = _missing_premise(results, paper, claim, label)
            if not missing and part.outcome == "holds":
                missing = _one_run(results, claim, terms) or _nothing_learnt(results, claim, terms)
        except Unmeasured as why:
            yield Part(label, "not measured", None, str(why))
            continue
        part = replace(part, outcome="undecided", why=missing) if missing else part
        if no_evidence([row for _, arm, column in terms if (row := results.row(arm, column))]):
            part = replace(part, outcome="withdrawn", why=_joined(TOO_SMALL, part.why))
        yield part


def _missing_premise(results: Results, paper: Paper | None, claim: Claim, column: str) -> str:
    """Why the claim has nothing to say on this column, where what it rests on is not there. Raises: Unmeasured."""
    if claim.premise is None:
        return ""
    higher, lower = claim.premise
    plain = claim.model_copy(update={"relative": False})
    gap, _, _ = claimed_difference(results, paper, plain, [(1, higher, column), (-1, lower, column)])
    if gap is not None and gap.clear and gap.mean > 0:
        return ""
    return f"it rests on {higher} above {lower}, and that difference is {words.difference(gap)} here"


def _one_run(results: Results, claim: Claim, terms: Sequence[Term]) -> str:
    """Why two arms that are alike say nothing: their settings come to the same stages, as where one does nothing.

    The terms then add up to nothing whatever the scores; of an average those of all columns do.
    """
    weights = Counter[frozenset[str]]()
    for sign, arm, column in terms:
        for row in results.table:
            if row.arm == arm and (row.column == column or column.partition(" ")[0] == AVERAGE):
                weights[frozenset(run.stages[-1][1] for run in row.runs)] += sign
    same = claim.within is not None and weights and not any(weights.values())
    return "both arms are the same runs, so that their likeness says nothing" if same else ""


def _nothing_learnt(results: Results, claim: Claim, terms: Sequence[Term]) -> str:
    """Why two that are alike say nothing: the better of them is not clearly above a guess, so that neither learnt.

    Of claims of likeness without a premise of their own, where the results hold such a baseline on the same data; an
    average over columns has none. Two that clearly differ do so whatever they learnt.
    """
    if (
        claim.within is None
        or claim.premise
        or claim.fixed
        or claim.quantity not in (*SCORE_QUANTITIES, *STEP_QUANTITIES)
    ):
        return ""
    tested = claim.model_copy(update={"quantity": "test"})
    short = []
    for _, arm, column in terms:
        row = results.row(arm, column)
        guess = results.guess_of(row) if row is not None else None
        if row is None or guess is None:
            continue
        (scores,) = drawn([numbers_of(row, tested)], [row])
        gap = paired_difference(scores, dict.fromkeys(scores, guess[1]))
        if gap is not None and gap.clear and (gap.mean > 0) == row.greater:
            return ""
        short.append(f"{arm} on {column} against {guess[0]} ({words.score(guess[1])})")
    return f"no arm is clearly above a guess, so that nothing was learnt alike: {'; '.join(short)}" if short else ""


def _columns(results: Results, paper: Paper | None, claim: Claim) -> list[str]:
    """The claim's columns as they are called in these results; those that were not run keep the claim's name."""
    columns = paper.columns if paper and claim in paper.claims else ()
    names: Sequence[str] = claim.columns or columns or results.columns
    groups = [f"{AVERAGE} {over}".strip() for over in dict.fromkeys(average.over for average in results.averages)]
    known_as = {name: results.columns_of(name) or (groups if name == AVERAGE else []) or [name] for name in names}
    return [column for name in names for column in known_as[name]]


def _judged(claim: Claim, label: str, gap: Difference | None, why: str, left: Open) -> Part:
    """What the interval of the difference says of the claim, if nothing that is left open could turn it."""
    part = _by_interval(claim, label, gap, why)
    either = (left.above or left.below) if claim.within is not None else (left.above and left.below)
    if either or (part.outcome == "holds" and left.below) or (part.outcome == "the other way round" and left.above):
        return Part(label, "not measured", None, _joined(why, "how many more they need is not known"))
    if left.above or left.below:
        return replace(part, why=_joined(part.why, "such a seed counts with the steps that it took"))
    return part


def _by_interval(claim: Claim, label: str, gap: Difference | None, why: str) -> Part:
    if gap is None:
        return Part(label, "not measured", None, "no seed is finished in all")
    if gap.low is None or gap.high is None:
        return Part(label, "not measured", gap, _joined("one seed has no interval", why))
    if claim.within is not None:
        if max(-gap.low, gap.high) <= claim.within:
            return Part(label, "holds", gap, why)
        if gap.low > claim.within or gap.high < -claim.within:
            return Part(label, "does not hold", gap, why)
        return Part(label, "undecided", gap, _joined("the interval reaches beyond the margin", why))
    if not gap.clear:
        same = "both are equal at every seed" if gap.constant else "the interval contains 0"
        return Part(label, "undecided", gap, _joined(same, why))
    if gap.constant and (claim.fixed or claim.quantity in OF_TEST):
        return Part(label, "undecided", gap, _joined(f"it is the same at every seed, {SAYS_NOTHING}", why))
    less: ClaimOutcome = "the other way round" if claim.than is None or claim.fixed else "does not hold"
    return Part(label, "holds" if gap.mean > 0 else less, gap, why)


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))
