"""A table as values, and as it is written: terminal (rich), Markdown, CSV, LaTeX. Each form escapes what is foreign."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from headstart import words
from headstart.guard import guarded
from headstart.statistics import Difference, Estimate
from headstart.study.language.papers import SIZE_QUANTITIES, TIME_QUANTITIES
from headstart.study.results.rows import BUDGET_AMOUNTS, Row
from headstart.text import broken, column_widths, listed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable

LineKind = Literal["arm", "baseline", "average", "beside"]
PRINTED_LINES = 1_500
"""Lines of a table that is printed, and rows of a study whose runs and models its page tells; CSV and JSON have all."""
CELL_LINES = 2
"""Lines of a cell on a terminal; where more would be needed the last columns are left out."""
Heads = Mapping[str, tuple[str, bool]]
"""Key of a column -> its head, and whether it holds numbers."""


@dataclass(frozen=True)
class TableCell:
    """What a reader sees, and the full numbers or words behind it under the names of the CSV.

    best: it is the best of its column, in a table whose columns are compared. key: of the row in the results behind it.
    """

    text: str = words.NONE
    values: Mapping[str, Any] = field(default_factory=dict)
    best: bool = False
    key: str = ""


@dataclass(frozen=True)
class TableLine:
    """One line of a table, its cells by the keys of their columns.

    `key` is the key of its row in the results (empty: no stages behind it).
    """

    kind: LineKind
    cells: Mapping[str, TableCell]
    status: str
    key: str = ""
    best: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Heads, which of them hold numbers, and lines."""

    title: str
    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: tuple[TableLine, ...]
    note: str = ""


def table_of(title: str, heads: Heads, lines: Iterable[TableLine], note: str = "") -> ReportTable:
    """The table with these columns: a dash where a line has no cell; cells of other columns are left out."""
    whole = tuple(replace(line, cells={key: line.cells.get(key, TableCell()) for key in heads}) for line in lines)
    return ReportTable(
        title, tuple(text for text, _ in heads.values()), tuple(n for _, n in heads.values()), whole, note
    )


def excerpt(table: ReportTable) -> ReportTable:
    """What is printed of a table: all of it, or its best lines and then its first ones, in its order, and how many."""
    if len(table.lines) <= PRINTED_LINES:
        return table
    best = [line.best or any(cell.best for cell in line.cells.values()) for line in table.lines]
    places = sorted(sorted(range(len(best)), key=lambda i: not best[i])[:PRINTED_LINES])
    note = f"Here are {PRINTED_LINES:,} of {len(best):,} lines, the best among them; a file of `--json` has all."
    return replace(table, lines=tuple(table.lines[i] for i in places), note=f"{note} {table.note}")


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", names: int = 1) -> ReportTable:
    """A table of texts; all columns but the first `names` hold numbers."""
    lines = [TableLine("arm", dict(zip(heads, map(TableCell, row), strict=True)), "measured") for row in rows]
    return table_of(title, {head: (head, i >= names) for i, head in enumerate(heads)}, lines)


def estimate_cell(value: Estimate | None, name: str, more: Mapping[str, Any] | None = None) -> TableCell:
    """Mean ± standard error; behind it both under `name` and `name_sem`, and `more`."""
    values = {name: value.mean if value else None, f"{name}_sem": value.sem if value else None}
    return TableCell(words.plus_minus(value), {**values, **(more or {})})


def difference_cells(gap: Difference | None, remark: str = "") -> dict[str, TableCell]:
    """A difference with its interval, and a remark on it."""
    numbers = (gap.mean, gap.low, gap.high) if gap else (None, None, None)
    return {
        "difference": TableCell(
            words.difference(gap) + (f", {remark}" if gap and remark else ""),
            dict(zip(("difference", "low", "high"), numbers, strict=True)),
        ),
    }


def budget_cell(amounts: Mapping[str, float], seconds: bool = True) -> TableCell:
    """`120 epochs, 1.2 TFLOP, 38 s` (or steps): the amounts that a reader knows; behind it all of them."""
    name = next((name for name in ("epochs", "steps") if amounts.get(name)), None)
    count = words.count(round(amounts[name], 1)) if name else ""
    amount = f"{count} {name.removesuffix('s') if count == '1' else name}" if name else ""
    flops = words.measure(amounts["flops"], "FLOP") if amounts.get("flops") else ""
    time = words.duration(amounts["seconds"]) if seconds and "seconds" in amounts else ""
    text = ", ".join(filter(None, [amount, flops, time])) or words.NONE
    return TableCell(text, {name: amounts.get(name) for name in BUDGET_AMOUNTS})


def score_name(metrics: Iterable[str]) -> str:
    """The name of the score that all rows share, or `score`."""
    names = list(dict.fromkeys(words.metric(metric) for metric in metrics))
    return names[0] if len(names) == 1 else "score"


TONES = {
    "partial": "yellow",
    "diverged": "red",
    "failed": "red",
    "at chance": "yellow",
    "absent": "dim",
    "baseline": "dim",
    "not run here": "dim",
}
"""Style of a line in a terminal, by its status."""


@dataclass(frozen=True)
class Terminal:
    """A table as rich prints it: laid out for the width that it is given."""

    table: ReportTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _rich_table(excerpt(self.table), options.max_width)


def to_rich(table: ReportTable) -> Terminal:
    """For a terminal. Text objects only: nothing is read as markup."""
    return Terminal(table)


def _rich_table(table: ReportTable, width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    columns = zip(table.heads, *([cell.text for cell in line.cells.values()] for line in table.lines), strict=True)
    widths = column_widths([[_narrow(text) for text in column] for column in columns], width, CELL_LINES)
    absent = table.heads[len(widths) :]
    left_out = f" Left out in {width} columns: {listed(absent)}." if absent else ""
    out = RichTable(
        title=Text(printable(table.title)),
        caption=Text(f"{table.note}{left_out}".strip()),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    for head, numeric, wide in zip(table.heads, table.numeric, widths, strict=False):
        out.add_column(Text(printable(head)), justify="right" if numeric else "left", overflow="fold", width=wide)
    before: TableLine | None = None
    for line in table.lines:
        grouped = "column" in line.cells
        same = before is not None and before.cells.get("column") == line.cells.get("column")
        if before is not None and (line.kind != before.kind or not same):
            out.add_section()
        texts = [
            Text(broken(_narrow(cell.text), wide), style="bold" if cell.best else "")
            for cell, wide in zip(line.cells.values(), widths, strict=False)
        ]
        if grouped and same:
            texts[0] = Text("")
        out.add_row(*texts, style="bold" if line.best else TONES.get(line.status, ""))
        before = line
    return out


def _narrow(text: str) -> str:
    """Text whose numbers may break before an error or an interval, and nowhere else."""
    text = re.sub(r"(\[\S+,) ", r"\1", printable(text).replace("± ", "±"))
    return re.sub(r"(\d) (s|min|h)\b", r"\1\2", text)


def printable(text: str) -> str:
    """Without control characters, which could move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() else " " for c in text)


def to_markdown(table: ReportTable) -> str:
    """A pipe table with its title (if any) and note; the best arm of a column (on validation) is bold."""
    table = excerpt(table)
    title = [f"**{markdown(table.title)}**", ""] if table.title else []
    rows = [[markdown(head) for head in table.heads], ["---:" if numeric else "---" for numeric in table.numeric]]
    for line in table.lines:
        texts = [(markdown(cell.text), line.best or cell.best) for cell in line.cells.values()]
        rows.append([f"**{text}**" if best and text not in ("", words.NONE) else text for text, best in texts])
    return "\n".join([*title, *(f"| {' | '.join(row)} |" for row in rows), "", markdown(table.note), ""])


def markdown(text: str) -> str:
    """Text as Markdown shows it on one line, nothing of it read as markup or HTML but a command in backticks."""
    flat = " ".join(printable(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(`\w[\w .:/=-]*\w`)|([\\`*_{}\[\]|#!~$])", lambda match: match[1] or "\\" + match[2], flat)


def to_csv(table: ReportTable) -> str:
    """Full numbers, one column each; text that a spreadsheet would run as a formula is quoted with `'`."""
    rows = [
        {name: value for cell in line.cells.values() for name, value in cell.values.items()} for line in table.lines
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kind", *map(guarded, names)])
    for line, row in zip(table.lines, rows, strict=True):
        writer.writerow([line.kind, *(_csv_text(row.get(name)) for name in names)])
    return out.getvalue()


def _csv_text(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, (int, float)) else guarded(printable(str(value)))


_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    words.MINUS: "$-$",
    words.NONE: "---",
    "²": "$^2$",
    '"': "''",
    "|": r"\textbar{}",
}


def latex(text: str) -> str:
    """Text as LaTeX shows it, nothing of it read as a command."""
    return "".join(_LATEX.get(c, c) for c in printable(text))


BOLD = ("arm", "val", "test")
"""Cells of the best line that are bold in LaTeX."""


def to_latex(table: ReportTable) -> str:
    """A `table` with booktabs rules (`\\usepackage{booktabs}`); baselines and averages stand below a rule.

    Of the best line the name and the scores alone are bold.
    """
    table = excerpt(table)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(words.sentences([table.title, table.note]))}.}}",
        rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        " & ".join(map(latex, table.heads)) + r" \\",
        r"\midrule",
    ]
    for i, line in enumerate(table.lines):
        if i and line.kind != table.lines[i - 1].kind:
            lines.append(r"\midrule")
        # An opening brace keeps a leading bracket from being read as the row's optional argument.
        texts = [(latex(cell.text), cell.best or (line.best and key in BOLD)) for key, cell in line.cells.items()]
        lines.append("{}" + " & ".join(rf"\textbf{{{t}}}" if best and t else t for t, best in texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def converged(row: Row) -> str:
    """`1,200 ± 80`: steps to the first evaluation within 1 % of the best."""
    value = row.estimate("converge")
    if value is None:
        return words.NONE
    return f"{value.mean:,.0f}" + (f" ± {value.sem:,.0f}" if value.sem is not None else "")


def matching(row: Row, quantity: str = "reach") -> str:
    """`12,400 (3 of 3)`: steps until the mean curve matches, and how many seeds do by themselves."""
    match = row.match(quantity)
    if match is None or row.pace is None:
        return words.NONE
    steps = f"{match.together:,}" if match.together is not None else "not reached"
    return f"{steps} ({len(match.reached)} of {row.pace.seeds})"


def amount(value: Estimate | None, quantity: str) -> str:
    """A number in the unit of its quantity: `106k`, `4.2×`, `1 min 20 s`."""
    if value is None:
        return words.NONE
    if quantity in SIZE_QUANTITIES:
        return words.count(round(value.mean))
    return words.duration(value.mean) if quantity in TIME_QUANTITIES else f"{value.mean:,.3g}×"
