"""One table, written four ways: terminal (rich), Markdown, CSV, LaTeX. Each escapes what is foreign."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.guard import guarded
from headstart.report.lines import Cell, Line, Table, make_table, note
from headstart.study import words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable

__all__ = ["Cell", "Line", "Table", "make_table", "note", "to_csv", "to_latex", "to_markdown", "to_rich"]

TONES = {
    "measured": "",
    "best": "bold",
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

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield _laid_out(self.table, options.max_width)


def to_rich(table: Table) -> Terminal:
    """For a terminal, without the note. Text objects only: nothing is read as markup."""
    return Terminal(table)


def _laid_out(table: Table, width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    out = RichTable(
        title=Text(printable(table.title)),
        caption=Text(table.note),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    for head, numeric, wide in zip(table.heads, table.numeric, _widths(table, width), strict=True):
        out.add_column(Text(printable(head)), justify="right" if numeric else "left", overflow="fold", width=wide)
    before: Line | None = None
    for line in table.lines:
        grouped = "column" in line.cells[0].values
        same = before is not None and (not grouped or before.cells[0] == line.cells[0])
        if before is not None and (line.kind != before.kind or not same):
            out.add_section()
        style = "bold" if line.best else TONES.get(line.status, "")
        texts = [_narrow(cell.text) for cell in line.cells]
        if grouped and same:
            texts[0] = ""
        out.add_row(*(Text(text) for text in texts), style=style)
        before = line
    return out


def _widths(table: Table, width: int) -> list[int]:
    """Width of each column. In a narrow terminal numbers break between their words and never inside one;
    names are folded to what is left."""
    texts = [
        [_narrow(head), *(_narrow(line.cells[i].text) for line in table.lines)] for i, head in enumerate(table.heads)
    ]
    full = [max(len(text) for text in column) for column in texts]
    least = [max(len(word) for text in column for word in text.split(" ")) for column in texts]
    room = width - 2 * len(full) - 2
    out = list(full)
    names = [i for i, numeric in enumerate(table.numeric) if not numeric]
    _fold(out, names, room, 16)
    for place in sorted(set(range(len(out))) - set(names), key=lambda i: least[i] - out[i]):
        out[place] = max(least[place], out[place] - max(0, sum(out) - room))
    _fold(out, names, room, 8)
    return out


def _fold(widths: list[int], places: Sequence[int], room: int, least: int) -> None:
    """Narrow the widest of these columns, letter by letter, until all fit or none is wider than `least`."""
    while sum(widths) > room:
        longest = max(places, key=lambda i: widths[i])
        if widths[longest] <= least:
            return
        widths[longest] -= 1


def _narrow(text: str) -> str:
    """Text whose numbers may break before an error or an interval, and nowhere else."""
    text = re.sub(r"(\[\S+,) ", r"\1", printable(text).replace("± ", "±"))
    return re.sub(r"(\d) (s|min|h)\b", r"\1\2", text)


def printable(text: str) -> str:
    """Without control characters, which could move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() else " " for c in text)


def to_markdown(table: Table) -> str:
    """A pipe table with its title (if any) and note; the best arm of a column (on validation) is bold."""

    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    title = [f"**{markdown(table.title)}**", ""] if table.title else []
    lines = [*title, row([markdown(h) for h in table.heads]), row(rule)]
    for line in table.lines:
        texts = [markdown(cell.text) for cell in line.cells]
        if line.best:
            texts = [f"**{t}**" if t and t != words.NONE else t for t in texts]
        lines.append(row(texts))
    return "\n".join([*lines, "", markdown(table.note), ""])


def markdown(text: str) -> str:
    """Text as Markdown shows it on one line, nothing of it read as markup or HTML."""
    flat = " ".join(printable(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#!~$])", r"\\\1", flat)


def to_csv(table: Table) -> str:
    """Full numbers, one column each; text that a spreadsheet would run as a formula is quoted with `'`."""
    names = list(dict.fromkeys(n for line in table.lines for cell in line.cells for n in cell.values))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kind", *names])
    for line in table.lines:
        values = {n: v for cell in line.cells for n, v in cell.values.items()}
        writer.writerow([line.kind, *(_cell(values.get(name)) for name in names)])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return repr(value)
    return guarded(printable(str(value)))


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
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


def to_latex(table: Table) -> str:
    """A `table` with booktabs rules (`\\usepackage{booktabs}`); baselines and averages stand below a rule."""
    layout = "".join("r" if numeric else "l" for numeric in table.numeric)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(table.title)}. {latex(table.note)}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        " & ".join(latex(h) for h in table.heads) + r" \\",
        r"\midrule",
    ]
    before: Line | None = None
    for line in table.lines:
        if before is not None and line.kind != before.kind:
            lines.append(r"\midrule")
        # An opening brace keeps a leading bracket from being read as the row's optional argument.
        texts = [latex(cell.text) for cell in line.cells]
        texts = [rf"\textbf{{{t}}}" if line.best and t else t for t in texts]
        lines.append("{}" + " & ".join(texts) + r" \\")
        before = line
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])
