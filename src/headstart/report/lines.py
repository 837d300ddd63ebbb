"""The table of a study as values: heads, lines, cells with their text and the full numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headstart.study import words
from headstart.study.results import AMOUNTS, MATCHES, MORE, Average, Baseline, Results, Row

Kind = Literal["arm", "baseline", "average", "beside"]

R2 = (
    "R² is the share of the variance of the test targets that is explained, 1 at best; it is the same for targets in "
    "their own unit and scaled."
)


@dataclass(frozen=True)
class Cell:
    """What a reader sees, and the full numbers or words behind it under the names of the CSV."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One line of the table. `key` is the key of its row in the results (empty: no stages behind it)."""

    kind: Kind
    cells: tuple[Cell, ...]
    status: str
    key: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Heads, which of them hold numbers, and lines."""

    title: str
    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: tuple[Line, ...]
    note: str = ""


def make_table(results: Results) -> Table:
    """The table of a study: arms by column, then the baselines of the column, then averages."""
    wide = len(results.columns) > 1
    metrics = list(dict.fromkeys(words.metric(row.metric) for row in results.table))
    score = metrics[0] if len(metrics) == 1 else "score"
    heads = [("column", False)] if wide else []
    heads += [("arm", False), ("chosen", False), (f"val {score}", True), (f"test {score}", True), ("n", True)]
    if results.against:
        heads.append((f"difference to {results.against}", True))
    heads += [("budget", True), ("tried", True)]
    lines: list[Line] = []
    told: set[tuple[str, str]] = set()
    for column in results.columns:
        lines += _column(results, column, wide, told)
    lines += [_average(found, results, wide) for found in results.averages]
    return Table(results.heading, tuple(h for h, _ in heads), tuple(n for _, n in heads), tuple(lines), note(results))


def note(results: Results) -> str:
    """What the columns of the table mean, in a line."""
    gap = " Differences are on test, paired by seed, with a 95 % t-interval in brackets." if results.against else ""
    explained = f" {R2}" if any(row.metric == "r2" for row in results.table) else ""
    return (
        "Mean ± standard error over n seeds, at the best weights by validation; settings chosen on "
        f"validation alone.{gap} Budget: per run, parents included. Tried: settings per arm. Bold: best on "
        f"validation.{explained}"
    )


def _column(results: Results, column: str, wide: bool, told: set[tuple[str, str]]) -> list[Line]:
    """Arms, then the baselines of each task that no earlier column had (`told`: task and metric)."""
    rows = results.in_column(column)
    scores = [row.val.mean * (1 if row.greater else -1) for row in rows if row.val is not None]
    # The best line is the best on validation, as everything that is chosen.
    top = max(scores, default=None)
    lines = []
    for row in rows:
        best = row.val is not None and len(rows) > 1 and row.val.mean * (1 if row.greater else -1) == top
        lines.append(_arm(row, results, wide, best))
    for task, metric in dict.fromkeys((row.task, row.metric) for row in rows):
        facts = results.facts.get(task)
        if facts is not None and (task, metric) not in told:
            told.add((task, metric))
            lines += [
                _baseline(b, metric, column, results, wide)
                for b in facts.baselines
                if b.score("val", metric) is not None or b.score("test", metric) is not None
            ]
    return lines


def _arm(row: Row, results: Results, wide: bool, best: bool) -> Line:
    mixed = len({r.metric for r in results.table}) > 1
    label = f"{row.column} ({words.metric(row.metric)})" if mixed else row.column
    here = {"stand_in": row.stand_in} if results.stood_in else {}
    cells = [Cell(label, {"column": row.column})] if wide else []
    val, test, gap = row.val, row.test, row.difference
    chosen = words.settings(row.chosen, results.names)
    full = ", ".join(f"{name}={words.plain(value)}" for name, value in row.chosen.items())
    cells += [
        _named(row.arm, row.status, here, results.apart(row)),
        Cell(chosen, {"chosen": full}),
        Cell(words.plus_minus(val), {"val": val.mean if val else None, "val_sem": val.sem if val else None}),
        Cell(
            words.plus_minus(test),
            {"test": test.mean if test else None, "test_sem": test.sem if test else None, **more(row)},
        ),
        Cell(
            str(row.n) if row.n == row.expected else f"{row.n} of {row.expected}", {"n": row.n, "planned": row.expected}
        ),
    ]
    if results.against:
        cells.append(
            Cell(
                words.difference(gap),
                {
                    "difference": gap.mean if gap else None,
                    "low": gap.low if gap else None,
                    "high": gap.high if gap else None,
                },
            )
        )
    cells += [
        Cell(budget(row.budget), {name: row.budget.get(name) for name in AMOUNTS}),
        Cell(str(len(row.points)), {"tried": len(row.points)}),
    ]
    return Line("arm", tuple(cells), row.status, row.key, best)


def _baseline(base: Baseline, metric: str, column: str, results: Results, wide: bool) -> Line:
    val, test = base.score("val", metric), base.score("test", metric)
    cells = [Cell(column, {"column": column})] if wide else []
    cells += [
        Cell(base.name, {"arm": base.name, "status": "baseline"}),
        Cell("baseline", {"chosen": ""}),
        Cell(words.score(val), {"val": val}),
        Cell(words.score(test), {"test": test}),
        Cell(words.NONE),
    ]
    cells += [Cell(words.NONE)] * (2 if results.against else 1)
    cells.append(Cell(words.NONE))
    return Line("baseline", tuple(cells), "baseline")


def _average(found: Average, results: Results, wide: bool) -> Line:
    over = f"average of {found.columns}" + (f", {found.over}" if found.over else "")
    value, gap = found.value, found.difference
    cells = [Cell(over, {"column": over})] if wide else []
    rank = f"mean rank {found.rank:.2f}" if found.rank is not None else words.NONE
    cells += [
        Cell(found.arm, {"arm": found.arm, "status": "average"}),
        Cell(rank, {"mean_rank": found.rank}),
        Cell(words.NONE),
        Cell(
            words.plus_minus(value), {"test": value.mean if value else None, "test_sem": value.sem if value else None}
        ),
        Cell(str(value.n) if value else words.NONE, {"n": value.n if value else None}),
    ]
    if results.against:
        cells.append(
            Cell(
                words.difference(gap),
                {
                    "difference": gap.mean if gap else None,
                    "low": gap.low if gap else None,
                    "high": gap.high if gap else None,
                },
            )
        )
    cells += [Cell(words.NONE), Cell(words.NONE)]
    return Line("average", tuple(cells), "average")


def _named(name: str, status: str, more: Mapping[str, Any], apart: bool) -> Cell:
    """Who the line is of; beside the name every status but the usual one, and stand-in data that only it rests on."""
    said = ", ".join([status] * (status != "measured") + ["stand-in data"] * apart)
    return Cell(f"{name} ({said})" if said else name, {"arm": name, "status": status, **more})


def more(row: Row) -> dict[str, float | None]:
    """Full numbers of what a row has besides val and test: names that are missing throughout take no column."""
    out: dict[str, float | None] = {}
    for name in (*MORE, "converge", "reach", "fit"):
        found = row.estimate(name)
        if found is not None:
            out |= {name: found.mean, f"{name}_sem": found.sem}
    out |= {
        f"{name}_together": float(match.together)
        for name in MATCHES
        if (match := row.match(name)) is not None and match.together is not None
    }
    return out


def budget(amounts: Mapping[str, float], seconds: bool = True) -> str:
    """`120 epochs, 1.2 TFLOP, 38 s` (or steps): the amounts that a reader knows; the others are in the CSV."""
    name = next((name for name in ("epochs", "steps") if name in amounts), None)
    count = words.count(round(amounts[name], 1)) if name else ""
    amount = f"{count} {name.removesuffix('s') if count == '1' else name}" if name else ""
    flops = words.measure(amounts["flops"], "FLOP") if amounts.get("flops") else ""
    time = words.duration(amounts["seconds"]) if seconds and "seconds" in amounts else ""
    return ", ".join(filter(None, [amount, flops, time])) or words.NONE
