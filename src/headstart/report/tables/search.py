"""The table of a search: the best validation score so far over its trials, and what random search gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headstart import words
from headstart.report.tables.report_table import ReportTable, TableCell, TableLine, score_name, table_of
from headstart.study.language.search import SearchSpec
from headstart.study.results.results import Results
from headstart.study.results.rows import Row

SHOWN_TRIALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Trials after which the best so far is shown, beside the last."""


def search_table(results: Results, search: SearchSpec | None) -> ReportTable | None:
    """By arm: trials, those that diverged, and the best validation score after so many of them; None without a search.

    A second line of each arm is what random search gives, as far as trials were random: the mean over their orders.
    """
    rows = [row for row in results.table if row.trials]
    if search is None or not rows:
        return None
    most = max(len(row.trials) for row in rows)
    marks = [mark for mark in SHOWN_TRIALS if mark < most] + [most]
    heads = {"column": ("column", False)} if len(results.columns) > 1 else {}
    heads |= {"arm": ("arm", False), "drawn": ("settings drawn", False), "trials": ("trials", True)}
    heads |= {f"best {mark}": (f"best of {mark}", True) for mark in marks}
    lines = []
    for row in rows:
        lost = sum(score is None for score in row.trials)
        for drawn, curve in bests(row, search).items():
            cells = {
                "column": TableCell(results.label(row.column), {"column": row.column}),
                "arm": TableCell(row.arm, {"arm": row.arm}),
                "drawn": TableCell(drawn, {"drawn": drawn}),
                "trials": TableCell(
                    f"{len(row.trials)} ({lost} diverged)" if lost else str(len(row.trials)),
                    {"trials": len(row.trials)},
                ),
            }
            for mark in marks:
                best = curve[mark - 1] if mark <= len(curve) else None
                cells[f"best {mark}"] = TableCell(words.score(best), {f"best {mark}": best})
            lines.append(TableLine("arm", cells, row.status, row.key))
    text = "Best validation score so far of trials, all with one seed, which is none of those reported."
    text += f"{search.pruned} "
    text += random_sentence(search)
    return table_of(f"The search: validation {score_name(row.metric for row in rows)} over trials", heads, lines, text)


AT_RANDOM = "at random, on average"


def bests(row: Row, search: SearchSpec) -> dict[str, Sequence[float | None]]:
    """How settings were drawn -> the best validation score after so many trials: by the sampler, and at random."""
    random = row.trials[: search.first_random] + row.random_trials
    curves: dict[str, Sequence[float | None]] = {AT_RANDOM: expected_best(random, row.greater)}
    if search.sampler != "random":
        curves = {f"by {search.sampler}": best_so_far(row.trials, row.greater), **curves}
    return curves


def random_sentence(search: SearchSpec) -> str:
    """Which trials say what random search gives."""
    if search.sampler == "random":
        return "Trials were drawn at random: the best of k is its mean over all orders of the trials."
    size = search.first_random
    rest = f"; search.random_baseline=true adds those that random search of {search.trials} trials takes"
    more = f" and {search.random_trials} trials beside the search" if search.random_trials else ""
    return (
        f"The first {size} trials{more} are drawn at random, and say what random search gives, as the mean over their "
        f"orders{rest if search.trials > size and not more else ''}."
    )


def expected_best(scores: Sequence[float | None], greater: bool) -> list[float]:
    """Best score of the first k of random trials, as its mean over all orders of them, k = 1 to n.

    scores: None of a trial that diverged, which counts as the worst (and as no better than the worst that has a score).
    After Dodge et al. (2019), without replacement: of k trials out of n, the i-th worst is the best in C(i - 1, k - 1)
    of C(n, k) draws.
    """
    numbers = [score for score in scores if score is not None]
    if not numbers:
        return []
    worst = min(numbers) if greater else max(numbers)
    order = sorted((worst if score is None else score for score in scores), reverse=not greater)
    n = len(order)
    return [
        sum(math.comb(i, k - 1) * value for i, value in enumerate(order)) / math.comb(n, k) for k in range(1, n + 1)
    ]


def best_so_far(scores: Sequence[float | None], greater: bool) -> list[float | None]:
    """The best score up to each trial; None before any has one."""
    out: list[float | None] = []
    for score in scores:
        before = out[-1] if out else None
        values = [value for value in (before, score) if value is not None]
        out.append((max(values) if greater else min(values)) if values else None)
    return out
