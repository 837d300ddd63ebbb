"""A published claim on fresh seeds: the study that draws them with the page's settings, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headstart.spec import nested
from headstart.statistics import Difference
from headstart.study.language.papers import Claim
from headstart.study.language.scales import overlay
from headstart.study.paper.snapshot import Snapshot
from headstart.study.results.results import Results

FIRST_SEED = 1000
"""Of fresh seeds: far from those of pages and pilots."""


def fresh_seeds(snapshot: Snapshot, number: int) -> list[int]:
    """Seeds that neither the page nor an earlier challenge of it drew."""
    used = {cell.seed for cell in snapshot.plan.cells}
    used |= {seed for challenge in snapshot.challenges for seed in challenge["seeds"]}
    first = max([FIRST_SEED - 1, *used]) + 1
    return list(range(first, first + number))


def fresh_study(
    snapshot: Snapshot, results: Results, claim: Claim, column: str, seeds: Sequence[int]
) -> dict[str, Any]:
    """The study's table with a claim's arms on one column, each at the settings that the page chose or the claim names.

    column: as the page calls it, with the values of axes that made it one. Raises: KeyError where an arm has no row.
    """
    table: dict[str, Any] = snapshot.plan.study.model_dump(mode="json")
    base, values = results.axes.get(column, (column, {}))
    every, arms = dict(table["arms"]), claim.arms
    for arm in arms:
        row = results.row(arm, column)
        if row is None:
            raise KeyError(arm)
        for name, value in {**values, **row.chosen, **claim.at}.items():
            every[arm] = overlay(every[arm], nested(name, value))
    report = {**table["report"], "choose": None, "average": None, "sweep": "val", "mark": None}
    if report.get("against") not in arms:
        report["against"] = None
    if report.get("match") not in arms:
        report["match"] = None
    return {
        **table,
        "arms": {arm: every[arm] for arm in every if arm in arms},
        "columns": {base: table["columns"][base]},
        "axes": {"seed": list(seeds)},
        "report": report,
        "claims": [],
        "paper": None,
    }


def replication(
    before: Difference, after: Difference | None, page: str = "holds", fresh: str = "holds", alike: bool = False
) -> str:
    """`confirmed`: clear of 0 on the same side, and not below the page's interval; `weaker`: clear, but below it.

    page, fresh: outcomes of the claim on the page and on fresh seeds; both stand where the page left it open, since
    nothing can come back then, or fresh seeds do. alike: of a claim of likeness, of which the outcome is all there is.
    """
    if page in ("undecided", "withdrawn", "not measured") or fresh == "not measured":
        return f"{page} on the page and {fresh} with fresh seeds,"
    sided = before.clear and not alike
    moved = sided and after is not None and not (after.clear and (after.mean > 0) == (before.mean > 0))
    if after is None or fresh != page or moved:
        word = "not seen"
    else:
        near = min(abs(end) for end in before.interval or (before.mean,)) if sided else 0.0
        word = "confirmed" if abs(after.mean) >= near else "weaker"
    return word if page == "holds" else f"{page}, {word},"


def challenge_line(challenge: Mapping[str, Any]) -> str:
    """What the page says of it."""
    seeds = challenge["seeds"]
    return (
        f"Challenged on {challenge['date']} with {len(seeds)} fresh seeds ({seeds[0]} to {seeds[-1]}), "
        f"{challenge['says'].rstrip('.')}: {challenge['outcome']} on {challenge['column']} ({challenge['difference']})."
    )
