"""The answer of a study in a sentence or two, computed from its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headstart.report.verdicts import Outcome, verdicts
from headstart.study import words
from headstart.study.results import Results, Row
from headstart.study.statistics import Difference, paired_difference

TOLD: Mapping[Outcome, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "the other way round": ("is the other way round", "are the other way round"),
    "does not hold": ("does not hold", "do not hold"),
    "not seen": ("is not seen", "are not seen"),
}
"""What is said of one direction with this outcome, and of several."""


def answer(results: Results) -> str:
    """How many directions that are claimed hold; is an arm better than the one it is compared with, by how much, and
    how sure is that."""
    runs = {run.stages[-1][1]: run.status for row in results.table for p in row.points for run in p.runs}
    done, planned = sum(status in ("complete", "diverged") for status in runs.values()), len(runs)
    so_far = f"So far ({done} of {planned} runs done): " if done < planned else ""
    scored = [row for row in results.table if row.val is not None and row.test is not None]
    if not scored:
        text = "all finished runs diverged" if done else "no run is finished"
    else:
        claims = _claims(results)
        if len({row.arm for row in results.table}) == 1:
            text = _one_arm(scored)
        else:
            text = (_one_column if len(results.columns) == 1 else _columns)(results, scored)
        text = f"{claims}. {text[:1].upper()}{text[1:]}" if claims else text
    text = so_far + _on_stand_ins(results) + text
    return text[:1].upper() + text[1:] + "."


def _on_stand_ins(results: Results) -> str:
    """Said before anything else where the data are not those that are meant."""
    stood = [row for row in results.table if row.stand_in]
    columns = {row.column for row in stood}
    if not stood:
        return ""
    if any(results.apart(row) for row in stood):
        part = f" in {len(stood)} of {len(results.table)} rows"
    else:
        part = "" if len(columns) == len(results.columns) else f" in {len(columns)} of {len(results.columns)} columns"
    return f"with stand-in data{part}: "


def _claims(results: Results) -> str:
    """`of 8 directions that the paper claims and that could be checked here, 2 hold and 6 are not seen`."""
    found = Counter(part.outcome for verdict in verdicts(results, results.paper) for part in verdict.parts)
    which = "the paper claims" if results.paper is not None else "the study asks about"
    told = [(found[outcome], one, several) for outcome, (one, several) in TOLD.items() if found[outcome]]
    checked = sum(number for number, _, _ in told)
    if not found:
        return ""
    if not checked:
        return f"no direction that {which} could be checked here"
    if checked == 1:
        return f"the one direction that {which} and that could be checked here {told[0][1]}"
    each = [f"{number} {one if number == 1 else several}" for number, one, several in told]
    return f"of {checked} directions that {which} and that could be checked here, {words.listed(each)}"


def _one_arm(scored: list[Row]) -> str:
    """Scores of an arm that has none beside it, by column where these are few enough to be read."""
    arm, metrics = scored[0].arm, list(dict.fromkeys(words.metric(row.metric) for row in scored))
    each = [
        f"{words.metric(row.metric) + ' ' if len(metrics) > 1 else ''}{_measured(row)} on {row.column}"
        for row in scored
    ]
    if len(scored) > 6 and len(metrics) == 1:
        means = [row.test.mean for row in scored if row.test is not None]
        each = [f"{words.score(min(means))} to {words.score(max(means))} over {words.many(len(scored), 'column')}"]
    metric = f" {metrics[0]}" if len(metrics) == 1 else ""
    return f"one arm, {arm}, so that nothing is compared; its test{metric} is {words.listed(each)}"


def leader(rows: list[Row]) -> Row:
    """The row with the best validation score, ties to the earlier; of those that did not diverge, if any."""
    rows = [row for row in rows if row.status != "diverged"] or rows
    return max(rows, key=lambda row: (row.val.mean if row.val else 0.0) * (1 if row.greater else -1))


def _one_column(results: Results, scored: list[Row]) -> str:
    where = f"on {results.columns[0]}, "
    top = leader(scored)
    base = next((row for row in scored if row.arm == results.against), None)
    others = [row for row in scored if row.difference is not None]
    if base is None or not others:
        return f"{where}{top.arm} has the best validation {words.metric(top.metric)}: test {_measured(top)}"
    row = top if top.difference is not None else leader(others)
    gap = row.difference
    assert gap is not None, "only rows with a difference are compared"
    closer = next((other for other in scored if other.arm == _base(results, row.arm)), None) if row is top else None
    if closer is not None and (found := _gap(results, row, closer)):
        base, gap = closer, found
    return where + _pair(row, base, gap, leads=row is top) + _below(results, row)


def _base(results: Results, arm: str) -> str | None:
    """The arm that a claim says this one is above: the two differ in what the claim is about. Else the study's."""
    return next(
        (
            claim.lower
            for claim in results.every_claim
            if claim.higher == arm
            and isinstance(claim.lower, str)
            and claim.quantity == "test"
            and claim.within is None
            and not claim.at
        ),
        results.against,
    )


def _gap(results: Results, row: Row, base: Row) -> Difference | None:
    return row.difference if base.arm == results.against else paired_difference(row.by_seed(), base.by_seed())


def _pair(row: Row, base: Row, gap: Difference, leads: bool) -> str:
    better = gap.mean > 0 if row.greater else gap.mean < 0
    scores = f"test {words.metric(row.metric)} {words.plus_minus(row.test)} against {words.plus_minus(base.test)}"
    said = f"a difference of {words.signed(gap.mean)}"
    if gap.interval is not None:
        said += f" (95 % interval {words.interval(gap)}, {words.many(gap.n, 'paired seed')})"
    else:
        said += " on one seed, which has no interval"
    if gap.clear:
        verb = "beats" if better else "falls behind"
        return f"{row.arm} {verb} {base.arm}: {scores}, {said}"
    lead = "" if leads else f"{base.arm} leads on validation, and "
    return f"{lead}{row.arm} and {base.arm} cannot be told apart: {scores}, {said}"


def _measured(row: Row) -> str:
    seeds = f" ({words.many(row.n, 'seed')})"
    return words.plus_minus(row.test) + seeds


def _below(results: Results, row: Row) -> str:
    """A clause where a trivial method does as well."""
    facts = results.facts.get(row.task)
    sign = 1 if row.greater else -1
    above = [
        (value, b.name)
        for b in (facts.baselines if facts else ())
        if (value := b.score("test", row.metric)) is not None
        and row.test is not None
        and sign * value >= sign * row.test.mean
    ]
    if not above:
        return ""
    value, name = max(above, key=lambda pair: sign * pair[0])
    return f"; the trivial {name} does better still ({words.score(value)})"


def _columns(results: Results, scored: list[Row]) -> str:
    """Over several columns: the arm that leads most often, and where its interval is above 0."""
    leads: dict[str, int] = dict.fromkeys(results.arms, 0)
    for column in results.columns:
        rows = [row for row in scored if row.column == column]
        if rows:
            leads[leader(rows).arm] += 1
    arms = [arm for arm in results.arms if arm != results.against]
    arm = max(arms or results.arms, key=lambda a: leads[a])
    against = _base(results, arm)
    mine, bases = ({row.column: row for row in scored if row.arm == one} for one in (arm, against))
    found = {
        column: (row, gap)
        for column, row in mine.items()
        if column in bases and (gap := _gap(results, row, bases[column]))
    }
    total = len(results.columns)
    if not found:
        return f"{arm} has the best validation score in {leads[arm]} of {words.many(total, 'column')}"
    signs = {column: (gap.mean > 0) == row.greater for column, (row, gap) in found.items() if gap.clear}
    better = [column for column, up in signs.items() if up]
    worse = [column for column, up in signs.items() if not up]
    unclear = [column for column in found if column not in signs]
    said = (
        (f"is better than {against} (95 % interval above 0)", better),
        (f"is worse than {against} (95 % interval below 0)", worse),
        (f"cannot be told apart from {against} (the interval holds 0)", unclear),
    )
    parts = [f"{text} {_share(columns, total)}" for text, columns in said if columns]
    average = next(
        (a for a in results.averages if a.arm == arm and not a.over and a.difference and against == results.against),
        None,
    )
    tail = f"; on average {words.difference(average.difference)}" if average else ""
    return f"{arm} {words.listed(parts)}{tail}"


def _share(columns: list[str], total: int) -> str:
    """In how many columns of all, and in which, where these are few enough to be read."""
    if len(columns) == total:
        return "in both columns" if total == 2 else f"in each of {total} columns"
    return f"in {len(columns)} of {total} columns" + (f" ({words.listed(columns)})" if len(columns) <= 6 else "")
