"""A paper's table with our numbers beside it, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.tables.report_table import (
    Heads,
    ReportTable,
    TableCell,
    TableLine,
    amount,
    budget_cell,
    converged,
    matching,
    table_of,
)
from headstart.report.tables.scores import NO_LAST
from headstart.statistics import Estimate
from headstart.study.language.papers import (
    AVERAGE,
    MATCHES,
    OWN_UNITS,
    QUANTITIES,
    SPEEDUPS,
    STEP_QUANTITIES,
    TIME_QUANTITIES,
)
from headstart.study.results.results import Results
from headstart.study.results.rows import BUDGET_AMOUNTS, Row

if TYPE_CHECKING:
    from headstart.study.language.papers import Paper, PaperCell, PaperRow

ABSENT = "not run here"
STAND_IN = "not run on these data"
"""Where other data stood in: no number of the paper is held against a score on them."""
OTHER_SCALE = "not measured at this scale"
"""Of times, which say something of the paper's own sizes alone."""
UNLIKE_TIMES = "not compared: some of these stages trained alone and some in a stack, or on different machines"
"""Of a ratio of times."""


def beside(results: Results, every: bool = True) -> ReportTable | None:
    """One line per cell of the study's paper, by column: what it prints, ours with its error, settings and status.

    Ours stands in the paper's unit; the CSV has both as shares (steps as steps). What is not run here is there too,
    unless `every` is False. Parameters stand there where models of several sizes ran on one task, and in the CSV
    always. None without cells.
    """
    paper = results.paper
    if paper is None or not paper.rows:
        return None
    heads: Heads = {
        "column": ("column", False),
        "arm": ("arm", False),
        **({"quantity": ("quantity", False)} if any(row.quantity != "test" for row in paper.rows) else {}),
        "paper": ("paper", True),
        "ours": ("ours", True),
        "n": ("n", True),
        "chosen": ("chosen", False),
        **({"parameters": ("parameters", True)} if _several_sizes(results) else {}),
        "budget": ("budget", True),
        "status": ("status", False),
    }
    writer = _Writer(results, paper)
    drafts = [
        writer.line(row, row.cells[head], head, column)
        for head in paper.heads
        for row in paper.rows
        if head in row.cells
        for column in results.columns_of(head) or [head]
        if every or writer.ran(row, head, column)
    ]
    return (
        None
        if not drafts
        else table_of(words.sentences([f"Beside {paper.source}", *results.setting]), heads, drafts, _note(writer))
    )


def in_layout(results: Results) -> ReportTable | None:
    """The paper's table as it is laid out there, ours before what it prints in brackets; None where nothing of it ran.

    Rows of test scores alone, and only columns and rows of which something was measured here.
    """
    paper = results.paper
    if paper is None:
        return None
    writer = _Writer(results, paper)
    ours: dict[tuple[int, str], str] = {}
    for i, row in enumerate(paper.rows):
        for head in row.cells if row.quantity == "test" else ():
            columns = results.columns_of(head) or [head]
            if len(columns) == 1 and writer.ran(row, head, columns[0]):
                cells, _ = writer._average(row) if head == AVERAGE else writer._measured(row, head, columns[0])
                ours[i, head] = f"{cells['ours'].text} ({row.cells[head].text})"
    rows = [i for i, _ in enumerate(paper.rows) if any(key[0] == i for key in ours)]
    columns = [head for head in paper.heads if any(key[1] == head for key in ours)]
    if not rows:
        return None
    heads: Heads = {"row": ("", False), **{head: (paper.heads[head].head, True) for head in columns}}
    lines = [
        TableLine(
            "beside",
            {"row": TableCell(paper.rows[i].row), **{h: TableCell(ours.get((i, h), words.NONE)) for h in columns}},
            "measured",
        )
        for i in rows
    ]
    where = " (other sizes: compare the order of the arms)" if results.scale not in (None, "paper") else ""
    return table_of(f"Beside {paper.source}", heads, lines, f"Ours, in brackets the paper's{where}.")


def _several_sizes(results: Results) -> bool:
    """Models of several sizes ran on one task."""
    sizes: dict[str, set[int | None]] = {}
    for row in results.table:
        sizes.setdefault(row.task, set()).add(row.parameters)
    return any(len(of_task - {None}) > 1 for of_task in sizes.values())


def _note(writer: _Writer) -> str:
    ours = (
        "Paper: as printed. Ours: mean ± standard error over n seeds, at the best weights by validation, in the "
        "paper's unit; budget per run, parents included."
    )
    steps = (
        "Steps are those of the last stage, read on validation: until the mean curve over seeds is there "
        "(in brackets, how many seeds are by themselves)."
    )
    smaller = (
        "At this scale models, data and training are smaller than the paper's, and pretrained backbones, if any, are "
        "our own: compare the order of the arms, not their levels."
    )
    reduced = writer.results.scale not in (None, "paper")
    counted = any(row.quantity in STEP_QUANTITIES for row in writer.paper.rows)
    notes = [f"[{i}] {text.rstrip('.')}." for i, text in enumerate(writer.notes, start=1)]
    return " ".join(
        filter(None, [ours, smaller if reduced else "", steps if counted else "", writer.paper.note, *notes])
    )


@dataclass
class _Writer:
    """Makes the lines; remarks on single cells are numbered in the order in which they are met, each once."""

    results: Results
    paper: Paper
    notes: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """` [2]` for a remark, nothing for none."""
        if not text:
            return ""
        if text not in self.notes:
            self.notes.append(text)
        return f" [{self.notes.index(text) + 1}]"

    def ran(self, row: PaperRow, head: str, column: str) -> bool:
        """Whether there is anything of ours to stand beside a row of the paper."""
        if head == AVERAGE:
            return "ours" in self._average(row)[0]
        return not self._missing(row, column)

    def _missing(self, paper_row: PaperRow, column: str) -> str:
        """Why nothing of ours stands beside a row of the paper; empty where something does."""
        row = self.results.row(paper_row.arm, column) if paper_row.arm else None
        if row is None:
            return ABSENT
        if row.stand_in:
            return STAND_IN
        return (
            OTHER_SCALE if paper_row.quantity in TIME_QUANTITIES and self.results.scale not in (None, "paper") else ""
        )

    def line(self, row: PaperRow, cell: PaperCell, head: str, column: str) -> TableLine:
        """`head` is the column of the paper, `column` the one of ours that is held against it."""
        name = (row.arm or row.row) + self.mark("" if row.arm else row.why)
        printed = cell.text if cell.kind in ("measured", cell.text) else f"{cell.text} ({cell.kind})"
        printed += self.mark(words.sentences([cell.erratum, row.note]))
        ours, key = self._average(row) if head == AVERAGE else self._measured(row, head, column)
        status = ours.get("status", TableCell(ABSENT)).text
        cells = {
            "column": TableCell(self._head(head, column), {"column": column}),
            "arm": TableCell(name, {"arm": row.arm or "", "row": row.row, "status": status}),
            "quantity": TableCell(QUANTITIES[row.quantity], {"quantity": row.quantity}),
            "paper": TableCell(
                printed,
                {"paper_text": cell.text, "paper_kind": cell.kind, "paper": cell.value, "paper_sem": cell.sem},
            ),
            "chosen": TableCell(words.NONE, {"chosen": words.NONE}),
            "status": TableCell(status),
        }
        return TableLine("beside", {**cells, **ours}, status, key)

    def _head(self, head: str, column: str) -> str:
        """`image (paper: CIFAR10)`: our name, and the paper's where it is another, which may name another size."""
        printed = self.paper.heads[head].head
        return column if printed.casefold() == column.casefold() else f"{column} (paper: {printed})"

    def _measured(self, paper_row: PaperRow, head: str, column: str) -> tuple[dict[str, TableCell], str]:
        """Our cells of an arm on a column, and the key of its row."""
        row = self.results.row(paper_row.arm, column) if paper_row.arm else None
        if row is None or (missing := self._missing(paper_row, column)):
            return {"status": TableCell(missing if row else ABSENT)}, ""
        quantity = paper_row.quantity
        value = row.estimate(quantity)
        if quantity in STEP_QUANTITIES:
            text = converged(row) if quantity == "converge" else matching(row, quantity)
        elif quantity in OWN_UNITS:
            text = amount(value, quantity)
        elif value is not None and row.metric != self.paper.metric_of(column):
            # Another score than the paper's stands in no unit of the paper.
            text = f"{words.metric(row.metric)} {words.plus_minus(value)}"
        else:
            text = _score(value, self.paper.in_percent(head))
        n, match = value.n if value else 0, row.match(quantity)
        values: dict[str, Any] = {
            "metric": row.metric,
            **_numbers(value),
            **({"ours_together": match.together if match else None} if quantity in MATCHES else {}),
            "parameters": row.parameters,
            **{name: row.budget.get(name) for name in BUDGET_AMOUNTS},
        }
        chosen = words.settings(row.chosen, self.results.names)
        cells = {
            "ours": TableCell(text + "".join(map(self.mark, self._remarks(row, quantity))), values),
            "n": TableCell(str(n) if n == row.expected else f"{n} of {row.expected}"),
            "chosen": TableCell(chosen, {"chosen": chosen}),
            "parameters": TableCell(words.count(row.parameters)),
            "budget": TableCell(budget_cell(row.budget, seconds=False).text),
            "status": TableCell(row.status),
        }
        return cells, row.key

    def _remarks(self, row: Row, quantity: str) -> Iterator[str]:
        """What there is to know of a number of ours beside its status."""
        if quantity.startswith("last_") and any(run.status == "diverged" for run in row.runs):
            yield NO_LAST
        if SPEEDUPS.get(quantity) in TIME_QUANTITIES and row.base and not row.by_seed(quantity):
            yield UNLIKE_TIMES

    def _average(self, row: PaperRow) -> tuple[dict[str, TableCell], str]:
        """Our average of an arm over the columns that were run, and how many of the paper's these are."""
        fitting = [a for a in self.results.averages if a.arm == row.arm and row.quantity == "test"]
        average = min(fitting, key=lambda a: bool(a.over), default=None)
        rows = [r for r in self.results.table if r.arm == row.arm]
        if average is None or any(r.stand_in for r in rows):
            return ({"status": TableCell(STAND_IN)} if average else {}), ""
        over = f"over {average.columns} of {words.many(len(self.paper.columns), 'column')}"
        lost = [f"chance for {c}" for c in average.chance] + [f"without {c}" for c in average.missing]
        chosen = ", ".join(filter(None, [over, average.over, *lost]))
        cells = {
            "ours": TableCell(_score(average.value, self.paper.in_percent(AVERAGE)), _numbers(average.value)),
            "n": TableCell(str(average.value.n) if average.value else words.NONE),
            "chosen": TableCell(chosen, {"chosen": chosen}),
            "status": TableCell(next((r.status for r in rows if not r.finished), "measured")),
        }
        return cells, ""


def _numbers(value: Estimate | None) -> Mapping[str, float | None]:
    return {
        "ours": value.mean if value else None,
        "ours_sem": value.sem if value else None,
        "n": value.n if value else 0,
    }


def _score(value: Estimate | None, percent: bool) -> str:
    if value is None or not percent:
        return words.plus_minus(value)
    sem = "" if value.sem is None else f" ± {100 * value.sem:.1f}"
    return f"{100 * value.mean:.1f}{sem}".replace("-", words.MINUS)
