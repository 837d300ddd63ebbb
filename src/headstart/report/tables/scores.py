"""The table of a study: arms by column, then the baselines of the column, then averages."""

from __future__ import annotations

from collections.abc import Iterator

from headstart.report.tables.model import (
    Cell,
    Draft,
    Table,
    budget_cell,
    difference_cell,
    estimate_cell,
    score_name,
    table_of,
)
from headstart.study import words
from headstart.study.results import MATCHES, MORE, Average, Results, Row

R2 = (
    "R² is the share of the variance of the test targets that is explained, 1 at best; it is the same for targets in "
    "their own unit and scaled."
)


def make_table(results: Results) -> Table:
    """The table of a study."""
    score = score_name(row.metric for row in results.table)
    heads = {"column": ("column", False)} if len(results.columns) > 1 else {}
    heads |= {"arm": ("arm", False), "chosen": ("chosen", False)}
    heads |= {"val": (f"val {score}", True), "test": (f"test {score}", True), "n": ("n", True)}
    heads |= {"difference": (f"difference to {results.against}", True)} if results.against else {}
    heads |= {"budget": ("budget", True), "tried": ("tried", True)}
    drafts = [*_arms_and_baselines(results), *(_average(average) for average in results.averages)]
    return table_of(results.heading, heads, drafts, note(results))


def note(results: Results) -> str:
    """What the columns of the table mean, in a line."""
    gap = " Differences are on test, paired by seed, with a 95 % t-interval in brackets." if results.against else ""
    explained = f" {R2}" if any(row.metric == "r2" for row in results.table) else ""
    return (
        "Mean ± standard error over n seeds, at the best weights by validation; settings chosen on "
        f"validation alone.{gap} Budget: per run, parents included. Tried: settings per arm. Bold: best on "
        f"validation.{explained}"
    )


def _arms_and_baselines(results: Results) -> Iterator[Draft]:
    """By column its arms, then its baselines that no earlier column had."""
    seen: set[tuple[str, ...]] = set()
    for column in results.columns:
        rows = results.in_column(column)
        # The best line is the best on validation, as everything that is chosen.
        scores = {row.key: row.val.mean * (1 if row.greater else -1) for row in rows if row.val is not None}
        top = max(scores.values(), default=None)
        for row in rows:
            yield _arm(row, results, best=len(rows) > 1 and row.key in scores and scores[row.key] == top)
        for baseline in results.column_baselines(column):
            if baseline.stages not in seen:
                seen.add(baseline.stages)
                yield _baseline(baseline, column)


def _arm(row: Row, results: Results, best: bool) -> Draft:
    mixed = len({r.metric for r in results.table}) > 1
    label = f"{row.column} ({words.metric(row.metric)})" if mixed else row.column
    notes = [row.status] * (row.status != "measured") + ["stand-in data"] * results.apart(row)
    named = {"arm": row.arm, "status": row.status} | ({"stand_in": row.stand_in} if results.stood_in else {})
    chosen = ", ".join(f"{name}={words.plain(value)}" for name, value in row.chosen.items())
    count = str(row.n) if row.n == row.expected else f"{row.n} of {row.expected}"
    cells = {
        "column": Cell(label, {"column": row.column}),
        "arm": Cell(f"{row.arm} ({', '.join(notes)})" if notes else row.arm, named),
        "chosen": Cell(words.settings(row.chosen, results.names), {"chosen": chosen}),
        "val": estimate_cell(row.val, "val"),
        "test": estimate_cell(row.test, "test", _more(row)),
        "n": Cell(count, {"n": row.n, "planned": row.expected}),
        "difference": difference_cell(row.difference),
        "budget": budget_cell(row.budget),
        "tried": Cell(str(len(row.points)), {"tried": len(row.points)}),
    }
    return Draft("arm", cells, row.status, row.key, best)


def _baseline(row: Row, column: str) -> Draft:
    val, test = (score.mean if score else None for score in (row.val, row.test))
    cells = {
        "column": Cell(column, {"column": column}),
        "arm": Cell(row.arm, {"arm": row.arm, "status": "baseline"}),
        "chosen": Cell("baseline", {"chosen": ""}),
        "val": Cell(words.score(val), {"val": val}),
        "test": Cell(words.score(test), {"test": test}),
    }
    return Draft("baseline", cells, "baseline")


def _average(average: Average) -> Draft:
    over = f"average of {average.columns}" + (f", {average.over}" if average.over else "")
    n = average.value.n if average.value else None
    cells = {
        "column": Cell(over, {"column": over}),
        "arm": Cell(average.arm, {"arm": average.arm, "status": "average"}),
        "chosen": Cell(
            f"mean rank {average.rank:.2f}" if average.rank is not None else words.NONE, {"mean_rank": average.rank}
        ),
        "test": estimate_cell(average.value, "test"),
        "n": Cell(str(n) if n else words.NONE, {"n": n}),
        "difference": difference_cell(average.difference),
    }
    return Draft("average", cells, "average")


def _more(row: Row) -> dict[str, float | None]:
    """Full numbers of what a row has besides val and test: names that are missing throughout take no column."""
    out: dict[str, float | None] = {}
    for name in (*MORE, "converge", "reach", "fit"):
        value = row.estimate(name)
        if value is not None:
            out |= {name: value.mean, f"{name}_sem": value.sem}
    for name in MATCHES:
        match = row.match(name)
        if match is not None and match.together is not None:
            out[f"{name}_together"] = float(match.together)
    return out
