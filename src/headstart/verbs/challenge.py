"""`challenge`: does a published claim stand on seeds that nobody has seen?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from rich.text import Text

from headstart import words
from headstart.api import Study
from headstart.errors import BadInput
from headstart.report.claims import Verdict, verdicts
from headstart.report.page import publish_page
from headstart.runner.machine import release
from headstart.runner.stacks import read_stack
from headstart.study.paper.challenge import challenge_line, fresh_seeds, fresh_study, replication
from headstart.study.paper.snapshot import read_snapshot
from headstart.study.results.results import Results
from headstart.verbs.options import FolderOptions, RunOptions
from headstart.verbs.run import run_study
from headstart.verbs.terminal import console, writable_file


def challenge(page: str, seeds: int, folders: FolderOptions, way: RunOptions) -> int:
    """Train the arms of the page's first claim anew with fresh seeds, and write what comes of it onto the page.

    page: NAME.json beside NAME.md, as `report -o NAME.md` writes them. Returns the exit code: 1 where stages failed.
    """
    path = writable_file("PAGE", page)
    snapshot = read_snapshot([path], "PAGE")
    results = snapshot.results()
    verdict = _first(results, page)
    drawn, now = fresh_seeds(snapshot, seeds), f"{datetime.now(UTC):%Y-%m-%d}"
    lines = []
    for part in verdict.parts:
        if part.difference is None:
            continue
        table = fresh_study(snapshot, results, verdict.claim, part.column, drawn)
        study = Study(table, store=folders.store, data=folders.data)
        if code := run_study(study, study.runtime(**{**vars(way), "stack": read_stack(way.stack)})):
            return code
        fresh = study.results()  # a guess and the number of test examples count here as they do on the page
        (base,) = fresh.columns
        claim = verdict.claim.model_copy(update={"columns": (base,), "at": {}})
        (again,) = verdicts(replace(fresh, claims=(claim,), paper=None), None)
        gap = again.parts[0].difference
        lines.append(
            {
                "date": now,
                "seeds": drawn,
                "says": verdict.claim.says,
                "column": part.column,
                "difference": words.difference(gap),
                "outcome": replication(
                    part.difference, gap, part.outcome, again.parts[0].outcome, claim.within is not None
                ),
                "made_by": release(),
            }
        )
        console().print(Text(challenge_line(lines[-1])))
    publish_page(replace(snapshot, challenges=(*snapshot.challenges, *lines)), path.with_suffix(".md"))
    return 0


def _first(results: Results, page: str) -> Verdict:
    """The claim that the page answers first. Raises: BadInput where it has none that fresh seeds can answer."""
    for verdict in verdicts(results, results.paper):
        plain = verdict.claim.quantity == "test" and not verdict.claim.pairs
        if plain and any(part.difference is not None and part.column in results.columns for part in verdict.parts):
            return verdict
    raise BadInput(f"PAGE: {page!r} has no claim on test scores that was checked; name a page of a study with claims")
