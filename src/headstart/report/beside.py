"""A paper's table with our numbers beside it, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headstart.report.lines import Cell, Line, Table, budget
from headstart.report.quantities import NO_LAST, converged, matching
from headstart.study import words
from headstart.study.claims import AVERAGE, STEPS
from headstart.study.results import AMOUNTS, MATCHES, QUANTITIES, Average, Results, Row
from headstart.study.statistics import Estimate

if TYPE_CHECKING:
    from headstart.study.papers import Paper, PaperCell, PaperRow

ABSENT = "not run here"


@dataclass
class _Notes:
    """Remarks on single cells, numbered in the order in which they are met, each once."""

    told: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """` [2]` for a remark, nothing for none."""
        if not text:
            return ""
        if text not in self.told:
            self.told.append(text)
        return f" [{self.told.index(text) + 1}]"

    def __str__(self) -> str:
        return " ".join(f"[{i}] {text.rstrip('.')}." for i, text in enumerate(self.told, start=1))


@dataclass(frozen=True)
class _Ours:
    """What stands beside a paper's cell."""

    text: str = words.NONE
    n: str = words.NONE
    chosen: str = words.NONE
    parameters: str = words.NONE
    budget: str = words.NONE
    status: str = ABSENT
    key: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def beside(results: Results, paper: Paper) -> Table:
    """One line per cell of the paper, by column: what it prints, ours with its error, settings, budget and status.

    Ours stands in the paper's unit; the CSV has both as shares (steps as steps). What is not run here is there too.
    Parameters stand there where models of several sizes ran on one task, and in the CSV always.
    """
    several, sized = any(row.quantity != "test" for row in paper.rows), _sized(results)
    heads = [("column", False), ("arm", False)] + ([("quantity", False)] if several else [])
    heads += [("paper", True), ("ours", True), ("n", True), ("chosen", False)]
    heads += ([("parameters", True)] if sized else []) + [("budget", True), ("status", False)]
    notes, lines = _Notes(), []
    for column in paper.heads:
        for row in paper.rows:
            cell = row.cells.get(column)
            if cell is not None:
                for place in results.columns_of(column) or [column]:
                    lines.append(_line(results, paper, row, cell, column, place, several, sized, notes))
    title = words.sentences([f"Beside {paper.source}", *results.setting])
    return Table(title, tuple(h for h, _ in heads), tuple(n for _, n in heads), tuple(lines), _note(paper, notes))


def _sized(results: Results) -> bool:
    """Models of several sizes ran on one task."""
    of: dict[str, set[int | None]] = {}
    for row in results.table:
        of.setdefault(row.task, set()).add(row.parameters)
    return any(len(sizes - {None}) > 1 for sizes in of.values())


def _note(paper: Paper, notes: _Notes) -> str:
    ours = (
        "Paper: as printed. Ours: mean ± standard error over n seeds, at the best weights by validation, in the "
        "paper's unit; budget per run, parents included."
    )
    steps = ""
    if any(row.quantity in STEPS for row in paper.rows):
        steps = (
            "Steps are those of the last stage, read on validation: until the mean curve over seeds is there "
            "(in brackets, how many seeds are by themselves)."
        )
    return " ".join(filter(None, [ours, steps, paper.note, str(notes)]))


def _line(
    results: Results,
    paper: Paper,
    row: PaperRow,
    cell: PaperCell,
    column: str,
    place: str,
    several: bool,
    sized: bool,
    notes: _Notes,
) -> Line:
    found = _average(results, row, paper) if column == AVERAGE else _measured(results, paper, row, column, place)
    why = "" if row.arm else row.why
    printed = cell.text if cell.kind in ("measured", cell.text) else f"{cell.text} ({cell.kind})"
    who = Cell(
        (row.arm or row.label) + notes.mark(why), {"arm": row.arm or "", "row": row.label, "status": found.status}
    )
    cells = [Cell(_head(results, paper, column, place), {"column": place}), who]
    cells += [Cell(QUANTITIES[row.quantity], {"quantity": row.quantity})] if several else []
    cells += [
        Cell(
            printed + notes.mark(words.sentences([cell.erratum, row.note])),
            {"paper_text": cell.text, "paper_kind": cell.kind, "paper": cell.value, "paper_sem": cell.sem},
        ),
        Cell(found.text + "".join(map(notes.mark, found.remarks)), found.values),
        Cell(found.n),
        Cell(found.chosen, {"chosen": found.chosen}),
        *([Cell(found.parameters)] if sized else []),
        Cell(found.budget),
        Cell(found.status),
    ]
    return Line("beside", tuple(cells), found.status, found.key)


def _head(results: Results, paper: Paper, column: str, place: str) -> str:
    """`image (CIFAR10), stand-in`: our name, the paper's where it is another, and whether its data were there."""
    head = paper.heads[column]
    same = head.casefold() == place.casefold()
    rows = results.in_column(place)
    stood_in = rows and all(row.stand_in for row in rows)
    return (place if same else f"{place} ({head})") + (", stand-in" if stood_in else "")


def _measured(results: Results, paper: Paper, row: PaperRow, column: str, place: str) -> _Ours:
    found = results.row(row.arm, place) if row.arm else None
    if found is None:
        return _Ours()
    value = found.estimate(row.quantity)
    if row.quantity in STEPS:
        text = converged(found) if row.quantity == "converge" else matching(found, row.quantity)
    elif value is not None and found.metric != paper.metric_of(place):
        # Another score than the paper's stands in no unit of the paper.
        text = f"{words.metric(found.metric)} {words.plus_minus(value)}"
    else:
        text = _score(value, paper.in_percent(column))
    n = value.n if value else 0
    match = found.match(row.quantity)
    together = {"ours_together": match.together if match else None} if row.quantity in MATCHES else {}
    return _Ours(
        text,
        str(n) if n == found.expected else f"{n} of {found.expected}",
        words.settings(found.chosen, results.names),
        words.count(found.parameters),
        budget(found.budget, seconds=False),
        found.status,
        found.key,
        {
            "metric": found.metric,
            **_numbers(value),
            **together,
            "parameters": found.parameters,
            **{name: found.budget.get(name) for name in AMOUNTS},
        },
        tuple(_remarks(results, found, row.quantity)),
    )


def _remarks(results: Results, found: Row, quantity: str) -> Iterator[str]:
    """What there is to know of a number of ours beside its status."""
    if results.apart(found):
        yield f"stand-in data: {found.stand_in}"
    if quantity.startswith("last_") and any(run.status == "diverged" for run in found.runs):
        yield NO_LAST


def _numbers(value: Estimate | None) -> dict[str, float | None]:
    return {
        "ours": value.mean if value else None,
        "ours_sem": value.sem if value else None,
        "n": value.n if value else 0,
    }


def _average(results: Results, row: PaperRow, paper: Paper) -> _Ours:
    """Our average of an arm over the columns that were run, which are said where they are fewer than the paper's."""
    fitting = [a for a in results.averages if a.arm == row.arm and row.quantity == "test"]
    found: Average | None = min(fitting, key=lambda a: bool(a.over), default=None)
    if found is None:
        return _Ours()
    rows = [r for r in results.table if r.arm == row.arm]
    status = next((r.status for r in rows if not r.finished), "measured")
    over = f"over {found.columns} of {words.many(len(paper.columns), 'column')}"
    lost = [f"chance for {c}" for c in found.chance] + [f"without {c}" for c in found.missing]
    return _Ours(
        _score(found.value, paper.in_percent(AVERAGE)),
        str(found.value.n) if found.value else words.NONE,
        ", ".join([over, *([found.over] if found.over else []), *lost]),
        words.NONE,
        words.NONE,
        status,
        "",
        _numbers(found.value),
    )


def _score(value: Estimate | None, percent: bool) -> str:
    if value is None or not percent:
        return words.plus_minus(value)
    sem = "" if value.sem is None else f" ± {100 * value.sem:.1f}"
    return f"{100 * value.mean:.1f}{sem}".replace("-", words.MINUS)
