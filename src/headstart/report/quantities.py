"""What a study has to say of its arms besides val and test: train, the last weights, how soon they got there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headstart.report.figures.sweep import ON_VALIDATION
from headstart.report.lines import Cell, Line, Table
from headstart.study import words
from headstart.study.results import QUANTITIES, Point, Results, Row

SCORES = ("train", "test", "last_train", "last_test")
NO_LAST = "A diverged run has no last weights: those at its best stand for them."


def quantities(results: Results) -> Table | None:
    """Scores of train and test at the best and at the last weights, and steps where records were read, by arm.

    None while no run is finished.
    """
    rows = [row for row in results.table if row.val is not None]
    if not rows:
        return None
    wide = len(results.columns) > 1
    heads = ([("column", False)] if wide else []) + [("arm", False)] + [(QUANTITIES[q], True) for q in SCORES]
    paced = any(row.pace for row in rows)
    matched = [
        (q, head)
        for q, head in (
            ("reach", f"steps to match {results.match}"),
            ("fit", f"steps to fit as well as {results.match}"),
        )
        if any(row.match(q) for row in rows)
    ]
    heads += [(QUANTITIES["converge"], True)] if paced else []
    heads += [(head, True) for _, head in matched]
    lines = []
    for row in rows:
        cells = [Cell(row.column, {"column": row.column})] if wide else []
        cells.append(Cell(row.arm if row.status == "measured" else f"{row.arm} ({row.status})", {"arm": row.arm}))
        for name in SCORES:
            found = row.estimate(name)
            cells.append(Cell(words.plus_minus(found), {name: found.mean if found else None}))
        cells += [Cell(converged(row), {"converge": row.converge.mean if row.converge else None})] if paced else []
        cells += [Cell(matching(row, q), {q: match.together if (match := row.match(q)) else None}) for q, _ in matched]
        lines.append(Line("arm", tuple(cells), row.status, row.key))
    return Table(
        "Train, the last weights and steps" if paced else "Train and the last weights",
        tuple(h for h, _ in heads),
        tuple(n for _, n in heads),
        tuple(lines),
        _note(results, paced, [q for q, _ in matched]),
    )


def _note(results: Results, paced: bool, matched: Collection[str]) -> str:
    parts = ["Mean ± standard error over seeds, at the best weights by validation or at the last step."]
    if any(row.status == "diverged" for row in results.table):
        parts.append(NO_LAST)
    if paced:
        parts.append(
            "Steps are those of the last stage alone, read on validation. Converged: the first evaluation "
            "within 1 % of the run's best."
        )
    if matched:
        parts.append(
            f"To match: until the mean over seeds is as good as that of {results.match} ever is; in brackets, "
            "how many seeds are by themselves."
        )
    if "fit" in matched:
        parts.append("To fit: the same of train, the running mean over the batches since the evaluation before.")
    return " ".join(parts)


def converged(row: Row) -> str:
    """`1,200 ± 80`: steps to the first evaluation within 1 % of the best."""
    found = row.converge
    if found is None:
        return words.NONE
    return f"{found.mean:,.0f}" + (f" ± {found.sem:,.0f}" if found.sem is not None else "")


def matching(row: Row, quantity: str = "reach") -> str:
    """`12,400 (3 of 3)`: steps until the mean curve matches, and how many seeds do by themselves."""
    found = row.match(quantity)
    if found is None or row.pace is None:
        return words.NONE
    told = f"{found.together:,}" if found.together is not None else "not reached"
    return f"{told} ({len(found.reached)} of {row.pace.seeds})"


def tried(results: Results) -> str:
    """How many configurations each arm tried, in one sentence."""
    numbers: dict[int, dict[str, None]] = {}
    for row in results.table:
        numbers.setdefault(len(row.points), {})[row.arm] = None
    if len(numbers) == 1:
        number, arms = next(iter(numbers.items()))
        each = " in every arm and column" if len(arms) > 1 or len(results.columns) > 1 else ""
        return f"Configurations tried: {number}{each}."
    told: dict[str, dict[int, None]] = {}
    for row in results.table:
        told.setdefault(row.arm, {})[len(row.points)] = None
    spans = [f"{arm} {min(n)}" + (f" to {max(n)} by column" if len(n) > 1 else "") for arm, n in told.items()]
    return f"Configurations tried: {words.listed(spans)}."


def sweep_table(results: Results) -> Table | None:
    """Test at every setting that was tried, by arm: mean ± standard error and n; None where nothing was swept.

    Which of them was chosen, on validation, is marked.
    """
    names = results.names
    labels = list(dict.fromkeys(_label(p, names) for row in results.table for p in row.points if p.test is not None))
    if len(labels) < 2:
        return None
    wide = len(results.columns) > 1
    lines = []
    for row in results.table:
        tried = {_label(point, names): point for point in row.points}
        chosen = words.settings(row.chosen, names)
        cells = [Cell(row.column, {"column": row.column})] if wide else []
        cells.append(Cell(row.arm, {"arm": row.arm, "chosen_setting": chosen}))
        cells += [_cell(label, tried.get(label), label == chosen) for label in labels]
        lines.append(Line("arm", tuple(cells), row.status, row.key))
    metrics = list(dict.fromkeys(words.metric(row.metric) for row in results.table))
    score = metrics[0] if len(metrics) == 1 else "score"
    heads = ["column"] * wide + ["arm", *labels]
    note = (
        "Mean ± standard error over seeds, n in brackets, at the best weights by validation. * is the setting that "
        f"was chosen. {ON_VALIDATION}"
    )
    return Table(
        f"Test {score} at every {words.listed(list(names.values()))}",
        tuple(heads),
        (*[False] * (1 + wide), *[True] * len(labels)),
        tuple(lines),
        note,
    )


def _label(point: Point, names: Mapping[str, str]) -> str:
    return words.settings(point.settings, names)


def _cell(label: str, point: Point | None, chosen: bool) -> Cell:
    test = point.test if point is not None else None
    if point is None or test is None:
        return Cell("diverged" if point is not None and point.status == "diverged" else words.NONE)
    lost = " diverged" if point.status == "diverged" else ""
    return Cell(
        f"{words.plus_minus(test)} ({test.n}){lost}{'*' if chosen else ''}",
        {f"test {label}": test.mean, f"test_sem {label}": test.sem, f"n {label}": test.n},
    )
