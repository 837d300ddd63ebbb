"""The answer of a study in a sentence or two, computed from its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headstart import words
from headstart.report.claims import SAYS_NOTHING, TOO_SMALL, ClaimOutcome, verdicts
from headstart.statistics import LEVEL, Difference, corrected
from headstart.study.results.results import Results
from headstart.study.results.rows import OTHER_MACHINES, Row, on_other_machines, test_gap
from headstart.text import sentence, short

OUTCOME_VERBS: Mapping[ClaimOutcome, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "the other way round": ("is the other way round", "are the other way round"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("is undecided", "are undecided"),
    "withdrawn": ("is withdrawn", "are withdrawn"),
}
"""How one comparison with this outcome, and how several, are spoken of."""
CLAIM_LENGTH = 160
"""Letters of a claim that are quoted."""


def runs_done(results: Results) -> tuple[int, int]:
    """Runs that are finished, and runs that are planned, each once."""
    runs = {run.stages[-1][1]: run.status for row in results.table for p in row.points for run in p.runs}
    return sum(status in ("complete", "diverged") for status in runs.values()), len(runs)


def answer(results: Results) -> str:
    """In how many comparisons the claims hold; is an arm better than the one it is compared with, by how much, and
    how sure is that."""
    done, planned = runs_done(results)
    scored = [row for row in results.table if row.val is not None and row.test is not None]
    if not scored:
        text = "all finished runs diverged" if done else "no run is finished"
    else:
        if len({row.arm for row in results.table}) == 1:
            text = _one_arm(scored, results.run_noun)
        else:
            text = (_one_column if len(results.columns) == 1 else _columns)(results, scored)
        claims = _claims(results)
        text = f"{claims}. {sentence(text, results.arms)}" if claims else text
        weak = list(dict.fromkeys(row.arm for row in results.table if row.hardly_mixes))
        text += f". Differences from {words.listed(weak)} are no evidence: {TOO_SMALL}" if weak else ""
    so_far = f"So far ({done} of {planned} runs done): " if done < planned else ""
    return sentence(f"{so_far}{_on_stand_ins(results)}{text}.", results.arms)


def _on_stand_ins(results: Results) -> str:
    """Said before anything else where the data are not those that are meant."""
    rows = [row for row in results.table if row.stand_in]
    columns = {row.column for row in rows}
    if not rows:
        return ""
    if any(results.apart(row) for row in rows):
        part = f" in {len(rows)} of {len(results.table)} rows"
    else:
        part = "" if len(columns) == len(results.columns) else f" in {len(columns)} of {len(results.columns)} columns"
    return f"with stand-in data{part}: "


def _claims(results: Results) -> str:
    """`the paper's claims hold in 2 of 9 comparisons, 1 is the other way round and 6 are undecided`."""
    checked = [verdict for verdict in verdicts(results, results.paper) if verdict.parts]
    parts = [part for verdict in checked for part in verdict.parts]
    counts = Counter(part.uncorrected or part.outcome for part in parts)
    after = Counter(part.outcome for part in parts)
    measured = sum(counts[outcome] for outcome in OUTCOME_VERBS)
    whose = "of the study" if results.paper is None else "of the paper"
    whose += " and of the study" if results.paper is not None and results.claims else ""
    if not counts:
        return ""
    if not measured:
        return f"no claim {whose} could be checked here"
    left = len(parts) - measured
    lacking = f"; {left} more could not be checked here" if left else ""
    late = sum(part.standing == "exploratory" for part in parts if part.outcome != "undecided")
    if measured == 1:
        part = next((v, part) for v in checked for part in v.parts if part.outcome in OUTCOME_VERBS)
        verb = OUTCOME_VERBS[part[1].uncorrected or part[1].outcome][0]
        after_runs = " (exploratory: it was written after the first runs)" if late else ""
        return (
            f"the claim {whose}, “{short(part[0].claim.says.rstrip('.'), CLAIM_LENGTH)}”, {verb}{after_runs}{lacking}"
        )
    every = "both" if measured == 2 else f"all {measured}"
    share = every if counts["holds"] == measured else f"{counts['holds'] or 'none'} of {measured}"
    claims = f"the claim {whose} holds" if len(checked) == 1 else f"the claims {whose} hold"
    text = words.listed([f"{claims} in {share} comparisons", *_counted(counts)[counts["holds"] > 0 :]])
    text += (
        f" ({'the same' if after == counts else words.listed(_counted(after))} after Holm's correction for their number"
    )
    are, their = ("is", "its claim was") if late == 1 else ("are", "their claims were")
    text += f"; {late} {are} exploratory: {their} written after the first runs)" if late else ")"
    return f"{text}{lacking}"


def _counted(counts: Mapping[ClaimOutcome, int]) -> list[str]:
    """`2 hold`, `1 is undecided`."""
    return [
        f"{counts[outcome]} {verbs[counts[outcome] != 1]}"
        for outcome, verbs in OUTCOME_VERBS.items()
        if counts[outcome]
    ]


def _one_arm(scored: list[Row], noun: str) -> str:
    """Scores of an arm that has none beside it, by column where these are few enough to be read."""
    metrics = list(dict.fromkeys(words.metric(row.metric) for row in scored))
    name = f" {metrics[0]}" if len(metrics) == 1 else ""
    if len(scored) > 6 and len(metrics) == 1:
        means = [row.test.mean for row in scored if row.test is not None]
        each = [f"{words.score(min(means))} to {words.score(max(means))} over {words.many(len(scored), 'column')}"]
    else:
        each = [
            f"{'' if name else words.metric(row.metric) + ' '}{_measured(row, noun)} on {row.column}" for row in scored
        ]
    return f"one arm, {scored[0].arm}, so that nothing is compared; its test{name} is {words.listed(each)}"


def leader(rows: list[Row]) -> Row:
    """The row with the best validation score, ties to the earlier; of those that did not diverge, if any."""
    rows = [row for row in rows if row.status != "diverged"] or rows
    return max(rows, key=lambda row: (row.val.mean if row.val else 0.0) * (1 if row.greater else -1))


def _one_column(results: Results, scored: list[Row]) -> str:
    where = f"on {results.columns[0]}, "
    top = leader(scored)
    rows = {row.arm: row for row in scored}
    base = rows.get(results.against or "")
    others = [row for row in scored if row.difference is not None]
    if base is None or not others:
        best = [row.arm for row in scored if row.val and top.val and row.val.mean == top.val.mean]
        verb = "has" if len(best) == 1 else "have equally"
        text = f"{where}{words.listed(best)} {verb} the best validation {words.metric(top.metric)}"
        return (
            f"{text}: test {_measured(top, results.run_noun)}{f' of {top.arm}' * (len(best) > 1)}{_below(results, top)}"
        )
    row = top if top.difference is not None else leader(others)
    gap = row.difference
    assert gap is not None, "only rows with a difference are compared"
    closer = rows.get(_base(results, row.arm) or "") if row is top else None
    if closer is not None and (closer_gap := _gap(results, row, closer)):
        base, gap = closer, closer_gap
    standing = corrected({**{other.key: other.difference for other in results.table}, row.key: gap})
    return where + _pair(row, base, gap, row is top, standing, results.run_noun) + _below(results, row)


def _base(results: Results, arm: str) -> str | None:
    """The arm that a claim says this one is above: the two differ in what the claim is about. Else the study's."""
    for claim in results.every_claim:
        plain = claim.quantity == "test" and claim.within is None and not claim.at
        if plain and claim.higher == arm and isinstance(claim.lower, str):
            return claim.lower
    return results.against


def _gap(results: Results, row: Row, base: Row) -> Difference | None:
    return row.difference if base.arm == results.against else test_gap(row, base)


def _pair(row: Row, base: Row, gap: Difference, leads: bool, standing: Mapping[str, float], noun: str) -> str:
    """The two arms beside each other. standing: corrected p-value by key of a row; noun: what a row's runs are."""
    better = gap.mean > 0 if row.greater else gap.mean < 0
    scores = f"test {words.metric(row.metric)} {words.plus_minus(row.test)} against {words.plus_minus(base.test)}"
    if gap.interval is None:
        interval = f" on one {noun}, which has no interval"
    else:
        runs = words.seeds(gap, noun)
        interval = f" (95 % interval {words.interval(gap)}, {runs})"
        interval = f" on each of {runs}{f', {SAYS_NOTHING}' if gap.mean else ''}" if gap.constant else interval
    text = f"{scores}, a difference of {words.signed(gap.mean)}{interval}"
    text += f", {OTHER_MACHINES}" if on_other_machines([row, base]) else ""
    lost = gap.clear and standing.get(row.key, 0.0) >= 1 - LEVEL
    if lost:
        p = f"p = {standing[row.key]:.2g}"
        text += f"; clear alone, but not among {len(standing)} differences (Holm's correction, {p})"
    elif gap.clear and not gap.constant:
        return f"{row.arm} {'beats' if better else 'falls behind'} {base.arm}: {text}"
    tied = row.val is not None and base.val is not None and row.val.mean == base.val.mean
    lead = f"{base.arm} leads on validation, and "
    lead = f"{row.arm} and {base.arm} are equal on validation, and " if tied else "" if leads else lead
    return f"{lead}whether {row.arm} is better than {base.arm} is undecided: {text}"


def _measured(row: Row, noun: str) -> str:
    return f"{words.plus_minus(row.test)} ({words.many(row.n, noun)})"


def _below(results: Results, row: Row) -> str:
    """A clause where a trivial method does as well."""
    base = results.better_baseline(row)
    if base is None:
        return ""
    name, value = base
    does = "does as well" if row.test is not None and value == row.test.mean else "does better still"
    return f"; the trivial {name} {does} ({words.score(value)})"


def _columns(results: Results, scored: list[Row]) -> str:
    """Over several columns: the arm that leads most often beside the one it is held against, and where its interval is
    above 0."""
    columns = [[row for row in scored if row.column == column] for column in results.columns]
    beside = [[row for row in rows if row.arm != results.against] or rows for rows in columns]
    leads = Counter(leader(rows).arm for rows in beside if rows)
    arm = max([arm for arm in results.arms if arm != results.against] or results.arms, key=lambda a: leads[a])
    against, total = _base(results, arm), len(results.columns)
    ours, bases = ({row.column: row for row in scored if row.arm == name} for name in (arm, against))
    # The columns by what the interval of the difference says there.
    better: list[str] = []
    worse: list[str] = []
    same: list[str] = []
    undecided: list[str] = []
    compared = {column: _gap(results, row, bases[column]) for column, row in ours.items() if column in bases}
    for column, gap in compared.items():
        if gap is not None:
            good = (gap.mean > 0) == ours[column].greater
            (undecided if not gap.clear else same if gap.constant else better if good else worse).append(column)
    of_page = {row.key: row.difference for row in results.table if row.key in results.corrected}
    after = corrected(of_page | {ours[column].key: gap for column, gap in compared.items()})
    standing = {column: after[ours[column].key] for column in compared if ours[column].key in after}
    if not (better or worse or same or undecided):
        return f"{arm} has the best validation score in {leads[arm]} of {words.many(total, 'column')}"
    above, below = ("above", "below") if next(iter(ours.values())).greater else ("below", "above")
    texts = (
        (f"is better than {against} (95 % interval {above} 0)", better, True),
        (f"is worse than {against} (95 % interval {below} 0)", worse, True),
        (f"differs from {against} by the same amount at every {results.run_noun} ({SAYS_NOTHING})", same, False),
        (f"is undecided against {against} (the 95 % interval contains 0)", undecided, False),
    )
    parts = [
        f"{text} {_share(names, total)}{_standing(names, standing, len(after)) if clear else ''}"
        for text, names, clear in texts
        if names
    ]
    gaps = [a.difference for a in results.averages if a.arm == arm and not a.over and a.difference]
    apart = [column for column, gap in compared.items() if gap and on_other_machines([ours[column], bases[column]])]
    if apart:
        parts.append(f"was compared with it on different kinds of machines {_share(apart, total)}")
    tail = f"; on average {words.difference(gaps[0])}" if gaps and against == results.against else ""
    return f"{arm} {words.listed(parts)}{tail}"


def _standing(columns: list[str], p_values: Mapping[str, float], count: int) -> str:
    """In how many of the columns a clear difference stands Holm's correction for all `count` of the page."""
    clear = [column for column in columns if p_values.get(column, 1.0) < 1 - LEVEL]
    standing = "also" if len(clear) == len(columns) else len(clear) or "none"
    return "" if count < 2 else f", {standing} after Holm's correction for {count} differences"


def _share(columns: list[str], total: int) -> str:
    """In how many columns of all, and in which, where these are few enough to be read."""
    if len(columns) == total:
        return "in both columns" if total == 2 else f"in each of {total} columns"
    return f"in {len(columns)} of {total} columns" + (f" ({words.listed(columns)})" if len(columns) <= 6 else "")
