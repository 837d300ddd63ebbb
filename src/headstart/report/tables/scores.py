"""The tables of a study: arms by column with baselines and averages; other scores and steps; test at every setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headstart import words
from headstart.errors import BadInput
from headstart.report.tables.report_table import (
    LineKind,
    ReportTable,
    TableCell,
    TableLine,
    amount,
    budget_cell,
    converged,
    difference_cells,
    estimate_cell,
    matching,
    score_name,
    table_of,
)
from headstart.report.tables.search import search_table
from headstart.report.tables.settings import settings_table
from headstart.report.tables.slices import slice_tables
from headstart.statistics import FEWEST_PAIRS, Estimate, p_value, seeds_to_halve, smallest_p
from headstart.study.language.papers import MATCHES, OWN_UNITS, QUANTITIES, SPEEDUPS
from headstart.study.results.results import Average, Results
from headstart.study.results.rows import MORE, OTHER_MACHINES, Point, Row, best_rows, on_other_machines

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan

ON_VALIDATION = "Every choice was made on validation; test is only shown."
SCORE_COLUMNS = ("train", "test", "last_train", "last_test")
NO_LAST = "A diverged run has no last weights: those at its best stand for them."
R2 = (
    "R² is the share of the variance of the test targets that is explained, 1 at best; it is the same for targets in "
    "their own unit and scaled."
)
DRAW = " Pretrained weights are one draw."
COST_NOTE = "Budget: per run, parents included. Tried: settings per arm."
"""What the heads `budget` and `tried` mean; a fit has words of its own for both."""


def make_table(
    results: Results,
    measures: Mapping[str, Mapping[str, Estimate]] | None = None,
    remarks: Mapping[str, str] | None = None,
) -> ReportTable:
    """The table of a study.

    measures: head of a further column -> arm -> what stands there. remarks: arm -> what its name is followed by.
    """
    score, measures = score_name(row.metric for row in results.table), measures or {}
    tested = not any(row.val for row in results.table) or any(row.test for row in results.table)
    heads = {**_first_heads(results), "chosen": ("chosen", False), "val": (f"val {score}", True)}
    heads |= {"test": (f"test {score}", True)} if tested else {}
    heads |= {"n": ("n", True)}
    compared = results.against and tested
    heads |= {"difference": (f"difference to {results.against}", True)} if compared else {}
    heads |= {head: (head, True) for head in measures}
    heads |= {"budget": ("budget", True), "tried": ("tried", True)}
    lines = []
    for line in _arms_and_baselines(results, remarks or {}):
        arm = str(line.cells["arm"].values["arm"])
        more = {head: estimate_cell(arms.get(arm), head) for head, arms in measures.items() if line.kind == "arm"}
        lines.append(replace(line, cells={**line.cells, **more}))
    return table_of(results.heading, heads, [*lines, *map(_average, results.averages)], note(results))


def short_table(results: Results) -> ReportTable:
    """Arm, test score, gain over the arm that it is compared with, and FLOPs; baselines below."""
    heads = {**_first_heads(results), "test": (f"test {score_name(row.metric for row in results.table)}", True)}
    against = results.printed(results.against) if results.against else ""
    heads |= {"gain": (f"difference from {against} [95 %]", True)} if against else {}
    heads |= {"n": ("n", True), "flops": ("FLOP", True)}
    lines = []
    for line in _arms_and_baselines(results, {}):
        row = next((row for row in (*results.table, *results.baselines) if row.key == line.key), None)
        flops = row.budget.get("flops") if row is not None and line.kind == "arm" else None
        cells = {
            **line.cells,
            "arm": replace(line.cells["arm"], text=_printed(results, line)),
            "gain": TableCell(words.difference(row.difference) if row is not None else words.NONE),
            "flops": TableCell(words.NONE if flops is None else words.count(flops)),
        }
        lines.append(replace(line, cells=cells))
    return table_of("", heads, lines, "")


def _printed(results: Results, line: TableLine) -> str:
    """An arm as the paper prints it, before what its cell says in brackets; a baseline as it is."""
    cell, arm = line.cells["arm"], str(line.cells["arm"].values["arm"])
    return results.printed(arm) + cell.text.removeprefix(arm) if line.kind == "arm" else cell.text


def short_pivot(results: Results) -> ReportTable:
    """Arms by columns: test scores alone."""
    heads = {"arm": ("arm", False), **{column: (results.label(column), True) for column in results.columns}}
    lines = []
    for arm in results.arms:
        rows = {column: results.row(arm, column) for column in results.columns}
        scores = {c: TableCell(words.score(row.test.mean if row and row.test else None)) for c, row in rows.items()}
        lines.append(TableLine("arm", {"arm": TableCell(results.printed(arm)), **scores}, "measured"))
    return table_of("", heads, lines, f"Test {score_name(row.metric for row in results.table)}, mean over seeds.")


def pivot_table(results: Results) -> ReportTable:
    """Arms by columns: the test score of the chosen setting, the best of a column on validation in bold.

    Below them the baselines, on the right the averages over columns where the study asks for them.
    Raises: BadInput of a study with one column.
    """
    check_pivot(results.name, results.columns)
    mixed = len({row.metric for row in results.table}) > 1
    heads = {"arm": ("arm", False)}
    cells: dict[str, dict[str, TableCell]] = {arm: {} for arm in results.arms}
    trivial: dict[str, dict[str, TableCell]] = {}
    for column in results.columns:
        rows = results.in_column(column)
        key = f"test {column}"
        label = results.label(column)
        heads[key] = f"{label} ({words.metric(rows[0].metric)})" if mixed else label, True
        best = best_rows(rows)
        for row in rows:
            cells[row.arm][key] = _pivot_cell(row, key, row.key in best)
        for base in results.column_baselines(column):
            trivial.setdefault(base.arm, {})[key] = _pivot_cell(base, key)
    for average in results.averages:
        over = ", ".join(filter(None, ["average", average.over]))
        heads[over] = over, True
        cells[average.arm][over] = estimate_cell(average.value, over)
    kinds: dict[LineKind, dict[str, dict[str, TableCell]]] = {"arm": cells, "baseline": trivial}
    lines = [
        TableLine(kind, {"arm": TableCell(arm, {"arm": arm}), **texts}, kind)
        for kind, arms in kinds.items()
        for arm, texts in arms.items()
    ]
    counts = sorted({row.n for row in results.table if row.n}) or [0]
    n = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    text = (
        f"Test {score_name(row.metric for row in results.table)}, mean ± standard error over n = {n} "
        f"{results.run_noun}s, at the best weights and the setting by validation. Bold: best of the column on "
        "validation. The long table has settings, differences and budgets."
    )
    return table_of(results.heading, heads, lines, text)


def check_pivot(name: str, columns: Collection[str]) -> None:
    """Raises: BadInput where a table of arms by columns would have one column."""
    if len(columns) < 2:
        raise BadInput(f"--pivot: study {name!r} has one column, {next(iter(columns), 'none')}; leave --pivot out")


def _pivot_cell(row: Row, key: str, best: bool = False) -> TableCell:
    cell = estimate_cell(row.test, key)
    lost = [] if row.status == "measured" else [f"({row.status})"]
    text = " ".join([*([] if lost and row.test is None else [cell.text]), *lost])
    return replace(cell, text=text, best=best, key=row.key if row.points else "")


def _first_heads(results: Results) -> dict[str, tuple[str, bool]]:
    """The heads that every table of a study begins with."""
    return {**({"column": ("column", False)} if len(results.columns) > 1 else {}), "arm": ("arm", False)}


def note(results: Results) -> str:
    """What the columns of the table mean, in a line."""
    gaps = [row.difference for row in results.table]
    pairing = words.pairing(gaps, results.run_noun)
    gap = f" Differences are on test, {pairing}, with a {words.interval_kind(gaps, results.run_noun)} in brackets."
    gap = gap if results.against and any(gaps) else ""
    explained = f" {R2}" if any(row.metric == "r2" for row in results.table) else ""
    by_fold = results.folds > 1 and len(results.columns) == 1
    means = {row.arm: row.by_fold(results.folds) for row in results.table} if by_fold else {}
    again = any(row.n > results.folds for row in results.table)
    folds = f" {words.over_folds(means, again)}" if any(value and value.interval for value in means.values()) else ""
    return (
        f"Mean ± standard error over n {results.run_noun}s, at the best weights by validation; settings chosen on "
        f"validation alone.{folds}{gap} {COST_NOTE} Bold: best on "
        f"validation.{explained}{DRAW if results.pretrained else ''}"
    )


def _arms_and_baselines(results: Results, remarks: Mapping[str, str]) -> Iterator[TableLine]:
    """By column its arms, then its baselines that no earlier column had."""
    seen: set[tuple[str, ...]] = set()
    mixed = len({row.metric for row in results.table}) > 1
    for column in results.columns:
        rows = results.in_column(column)
        best = best_rows(rows)
        for row in rows:
            yield _arm(row, results, row.key in best, remarks.get(row.arm, ""), mixed)
        for baseline in results.column_baselines(column):
            if baseline.stages not in seen:
                seen.add(baseline.stages)
                yield _baseline(baseline, column)


def _arm(row: Row, results: Results, best: bool, remark: str, mixed: bool) -> TableLine:
    """mixed: rows differ in their metric, which the column names then."""
    label = results.label(row.column)
    label = f"{label} ({words.metric(row.metric)})" if mixed else label
    notes = [row.status] * (row.status != "measured") + ["stand-in data"] * results.apart(row)
    notes += [remark] if remark else []
    named = {"arm": row.arm, "status": row.status} | ({"stand_in": row.stand_in} if results.stood_in else {})
    chosen = ", ".join(f"{name}={words.plain(value)}" for name, value in row.chosen.items())
    count = str(row.n) if row.n == row.expected else f"{row.n} of {row.expected}"
    cells = {
        "column": TableCell(label, {"column": row.column}),
        "arm": TableCell(f"{row.arm} ({', '.join(notes)})" if notes else row.arm, named),
        "chosen": TableCell(words.settings(row.chosen, results.names), {"chosen": chosen}),
        "val": estimate_cell(row.val, "val"),
        "test": estimate_cell(row.test, "test", _more(row)),
        "n": TableCell(count, {"n": row.n, "planned": row.expected}),
        **difference_cells(row.difference, OTHER_MACHINES if row.base and on_other_machines([row, row.base]) else ""),
        "budget": budget_cell(row.budget),
        "tried": TableCell(str(row.settings_tried), {"tried": row.settings_tried}),
    }
    return TableLine("arm", cells, row.status, row.key, best)


def _baseline(row: Row, column: str) -> TableLine:
    val, test = (score.mean if score else None for score in (row.val, row.test))
    cells = {
        "column": TableCell(column, {"column": column}),
        "arm": TableCell(row.arm, {"arm": row.arm, "status": "baseline"}),
        "chosen": TableCell("baseline", {"chosen": ""}),
        "val": TableCell(words.score(val), {"val": val}),
        "test": TableCell(words.score(test), {"test": test}),
    }
    return TableLine("baseline", cells, "baseline")


def _average(average: Average) -> TableLine:
    over = f"average of {average.columns}" + (f", {average.over}" if average.over else "")
    n = average.value.n if average.value else None
    cells = {
        "column": TableCell(over, {"column": over}),
        "arm": TableCell(average.arm, {"arm": average.arm, "status": "average"}),
        "chosen": TableCell(
            f"mean rank {average.rank:.2f}" if average.rank is not None else words.NONE, {"mean_rank": average.rank}
        ),
        "test": estimate_cell(average.value, "test"),
        "n": TableCell(str(n) if n else words.NONE, {"n": n}),
        **difference_cells(average.difference, OTHER_MACHINES if average.elsewhere else ""),
    }
    return TableLine("average", cells, "average")


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


PAGE_ONLY = ("differences", "windows", "settings")
"""Tables that stand on the page and not in a terminal."""


def more_tables(plan: Plan, results: Results) -> dict[str, ReportTable]:
    """By name: other scores and steps, and test at every setting where the study asks for it (`sweep`).

    On the page alone: what there is to know of each difference, learning rates within reach of the best, and settings
    in which arms differ.
    """
    swept = sweep_table(results) if plan.study.report.sweep == "test" else None
    tables = {"differences": differences(results), "windows": windows(results)}
    tables |= {"settings": settings_table(plan, results)}
    tables |= {"search": search_table(results, plan.study.search), "quantities": quantities(results), "sweep": swept}
    return slice_tables(results) | {name: table for name, table in tables.items() if table is not None}


def differences(results: Results) -> ReportTable | None:
    """Each difference with all of its intervals, its p-values and what more seeds would do; None without any."""
    rows = [row for row in results.table if row.difference is not None and row.difference.interval is not None]
    if not rows:
        return None
    both = f"over {results.run_noun}s and examples"
    texts = ("paired by seed", "unpaired (Welch)", both, "p", "p (Holm)", "smallest p", "more seeds to halve")
    heads = {**_first_heads(results), **{text: (text, True) for text in texts}, "rule": ("rule", False)}
    lines = []
    for row in rows:
        gap = row.difference
        assert gap is not None, "only rows with a difference are listed"
        ways = {way.sides is None: words.of_seeds(way) for way in (gap, gap.other) if way is not None}
        numbers = {"p": p_value(gap), "p (Holm)": results.corrected.get(row.key), "smallest p": smallest_p(gap)}
        more = seeds_to_halve(gap)
        cells = {
            "column": TableCell(results.label(row.column), {"column": row.column}),
            "arm": TableCell(row.arm, {"arm": row.arm}),
            "paired by seed": TableCell(ways.get(True, words.NONE)),
            "unpaired (Welch)": TableCell(ways.get(False, words.NONE)),
            both: TableCell(words.over_examples(gap)),
            **{
                name: TableCell(words.NONE if value is None else f"{value:.2g}", {name: value})
                for name, value in numbers.items()
            },
            "more seeds to halve": TableCell(words.NONE if more is None else str(more), {"more_seeds": more}),
            "rule": TableCell("paired" if gap.sides is None else "unpaired"),
        }
        lines.append(TableLine("arm", cells, row.status, row.key))
    note = (
        f"Two arms that share at least {FEWEST_PAIRS} seeds are compared in pairs, others are not: the rule reads "
        "seeds, not scores, and the table above follows it; where a bootstrap of test examples too gives a wider "
        "interval, that one and its p stand. p: of the t-test, alone and after Holm's correction for "
        f"{len(results.corrected)} differences. Smallest p: what a test that flips the signs of so many pairs (or "
        "deals the runs out to the arms anew) can reach at best. More seeds: so many more would halve the interval "
        "if the spread stays."
    )
    return table_of(f"Differences to {results.against}", heads, lines, note)


def windows(results: Results) -> ReportTable | None:
    """The learning rates within reach of the best, by arm; None where no rate was swept over seeds."""
    every = [(row, name, window) for row in results.table for name, window in row.windows.items()]
    if not every:
        return None
    heads = {**_first_heads(results), "rate": ("rate", False), "best": ("best", True), "window": ("window", False)}
    lines = [
        TableLine(
            "arm",
            {
                "column": TableCell(results.label(row.column), {"column": row.column}),
                "arm": TableCell(row.arm, {"arm": row.arm}),
                "rate": TableCell(results.names.get(name, name), {"rate": name}),
                "best": TableCell(words.plain(row.chosen[name]), {"best": row.chosen[name]}),
                "window": TableCell(str(window), {"low": window.low, "high": window.high}),
            },
            row.status,
            row.key,
        )
        for row, name, window in every
    ]
    note = (
        "Within reach: swept values next to each other, around the best, whose mean validation score is within one "
        "standard error of it, other settings as chosen. Where the window ends with the sweep, it may go on beyond."
    )
    return table_of("Learning rates within reach of the best", heads, lines, note)


def quantities(results: Results) -> ReportTable | None:
    """Scores of train and test at the best and at the last weights, and steps where records were read, by arm.

    None while no run is finished.
    """
    rows = [row for row in results.table if row.val is not None]
    if not rows:
        return None
    heads = {**_first_heads(results), **{name: (QUANTITIES[name], True) for name in SCORE_COLUMNS}}
    paced = any(row.pace for row in rows)
    heads |= {"converge": (QUANTITIES["converge"], True)} if paced else {}
    match_heads = {"reach": f"steps to match {results.match}", "fit": f"steps to fit as well as {results.match}"}
    matched = [name for name in match_heads if any(row.match(name) for row in rows)]
    heads |= {name: (match_heads[name], True) for name in matched}
    printed = {row.quantity for row in results.paper.rows} if results.paper else set()
    amounts = [name for name in OWN_UNITS if {name, *(s for s in SPEEDUPS if SPEEDUPS[s] == name)} & printed]
    heads |= {name: (QUANTITIES[name], True) for name in amounts}
    lines = []
    for row in rows:
        name = row.arm if row.status == "measured" else f"{row.arm} ({row.status})"
        cells = {
            "column": TableCell(results.label(row.column), {"column": row.column}),
            "arm": TableCell(name, {"arm": row.arm}),
        }
        for score in SCORE_COLUMNS:
            value = row.estimate(score)
            cells[score] = TableCell(words.plus_minus(value), {score: value.mean if value else None})
        steps = row.estimate("converge")
        cells["converge"] = TableCell(converged(row), {"converge": steps.mean if steps else None})
        for step in matched:
            match = row.match(step)
            cells[step] = TableCell(matching(row, step), {step: match.together if match else None})
        for own in amounts:
            value = row.estimate(own)
            cells[own] = TableCell(amount(value, own), {own: value.mean if value else None})
        lines.append(TableLine("arm", cells, row.status, row.key))
    title = "Train, the last weights and steps" if paced else "Train and the last weights"
    return table_of(title, heads, lines, _quantities_note(results, paced, matched))


def _quantities_note(results: Results, paced: bool, matched: Collection[str]) -> str:
    noun = results.run_noun
    parts = {
        f"Mean ± standard error over {noun}s, at the best weights by validation or at the last step.": True,
        NO_LAST: any(row.status == "diverged" for row in results.table),
        "Steps are those of the last stage alone, read on validation. Converged: the first evaluation within 1 % of "
        "the run's best.": paced,
        f"To match: until the mean over {noun}s is as good as that of {results.match} ever is; in brackets, how many "
        f"{noun}s are by themselves.": bool(matched),
        "To fit: the same of train, the running mean over the batches since the evaluation before.": "fit" in matched,
    }
    return " ".join(text for text, holds in parts.items() if holds)


def sweep_table(results: Results) -> ReportTable | None:
    """Test at every setting that was tried, by arm: mean ± standard error and n; None where nothing was swept.

    Which of them was chosen, on validation, is marked.
    """

    def label(point: Point) -> str:
        return words.settings(point.settings, results.names)

    labels = dict.fromkeys(label(p) for row in results.table for p in row.points if p.test is not None)
    if len(labels) < 2:
        return None
    heads = {**_first_heads(results), **{f"test {name}": (name, True) for name in labels}}
    lines = []
    for row in results.table:
        chosen = words.settings(row.chosen, results.names)
        cells = {
            "column": TableCell(results.label(row.column), {"column": row.column}),
            "arm": TableCell(row.arm, {"arm": row.arm, "chosen_setting": chosen}),
        }
        for point in row.points:
            cells[f"test {label(point)}"] = _point_cell(label(point), point, label(point) == chosen)
        lines.append(TableLine("arm", cells, row.status, row.key))
    note = (
        f"Mean ± standard error over {results.run_noun}s, n in brackets, at the best weights by validation. * is the "
        f"setting that was chosen. {ON_VALIDATION}"
    )
    score = score_name(row.metric for row in results.table)
    return table_of(f"Test {score} at every {words.listed(list(results.names.values()))}", heads, lines, note)


def _point_cell(label: str, point: Point, chosen: bool) -> TableCell:
    test = point.test
    if test is None:
        return TableCell("diverged" if point.status == "diverged" else words.NONE)
    lost = " diverged" if point.status == "diverged" else ""
    return TableCell(
        f"{words.plus_minus(test)} ({test.n}){lost}{'*' if chosen else ''}",
        {f"test {label}": test.mean, f"test_sem {label}": test.sem, f"n {label}": test.n},
    )
