"""One table model, written four ways: terminal (rich), Markdown, CSV, LaTeX. Each escapes what is foreign."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headstart.study import words
from headstart.study.results import AMOUNTS, Average, Baseline, Results, Row

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Kind = Literal["arm", "baseline", "average"]

TONES = {"measured": "", "best": "bold", "partial": "yellow", "diverged": "red", "failed": "red",
         "at chance": "yellow", "absent": "dim", "baseline": "dim"}
"""Style of a line in a terminal, by its status."""


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
    heads += [("budget", True), ("tried", True), ("status", False)]
    lines: list[Line] = []
    for column in results.columns:
        lines += _column(results, column, wide)
    lines += [_average(found, results, wide) for found in results.averages]
    return Table(results.title or results.name, tuple(h for h, _ in heads), tuple(n for _, n in heads),
                 tuple(lines), note(results))


def note(results: Results) -> str:
    """What the columns of the table mean, in a line."""
    gap = (" Differences are on test, paired by seed, with a 95 % t-interval in brackets."
           if results.against else "")
    return ("Mean ± standard error over n seeds, at the best weights by validation; settings chosen on "
            f"validation alone.{gap} Budget: per run, parents included. Tried: settings per arm.")


def _column(results: Results, column: str, wide: bool) -> list[Line]:
    rows = results.in_column(column)
    scores = [row.val.mean * (1 if row.greater else -1) for row in rows if row.val is not None]
    # The best line is the best on validation, as everything that is chosen.
    top = max(scores, default=None)
    lines = []
    for row in rows:
        best = row.val is not None and len(rows) > 1 and row.val.mean * (1 if row.greater else -1) == top
        lines.append(_arm(row, results, wide, best))
    metrics = dict.fromkeys(row.metric for row in rows)
    for metric in metrics:
        for facts in results.facts_of(column):
            lines += [_baseline(b, metric, column, results, wide) for b in facts.baselines
                      if b.score("val", metric) is not None or b.score("test", metric) is not None]
    return lines


def _arm(row: Row, results: Results, wide: bool, best: bool) -> Line:
    mixed = len({r.metric for r in results.table}) > 1
    label = f"{row.column} ({words.metric(row.metric)})" if mixed else row.column
    cells = [Cell(label, {"column": row.column})] if wide else []
    val, test, gap = row.val, row.test, row.difference
    chosen = words.settings(row.chosen, results.names)
    cells += [
        Cell(row.arm, {"arm": row.arm}), Cell(chosen, {"chosen": chosen if row.chosen else ""}),
        Cell(words.plus_minus(val), {"val": val.mean if val else None, "val_sem": val.sem if val else None}),
        Cell(words.plus_minus(test), {"test": test.mean if test else None,
                                      "test_sem": test.sem if test else None}),
        Cell(str(row.n) if row.n == row.expected else f"{row.n} of {row.expected}",
             {"n": row.n, "planned": row.expected}),
    ]
    if results.against:
        cells.append(Cell(words.difference(gap), {
            "difference": gap.mean if gap else None, "low": gap.low if gap else None,
            "high": gap.high if gap else None}))
    cells += [
        Cell(budget(row.budget), {name: row.budget.get(name) for name in AMOUNTS}),
        Cell(str(len(row.points)), {"tried": len(row.points)}),
        Cell("" if row.status == "measured" else row.status, {"status": row.status}),
    ]
    return Line("arm", tuple(cells), row.status, row.key, best)


def _baseline(base: Baseline, metric: str, column: str, results: Results, wide: bool) -> Line:
    val, test = base.score("val", metric), base.score("test", metric)
    cells = [Cell(column, {"column": column})] if wide else []
    cells += [Cell(base.name, {"arm": base.name}), Cell(words.NONE, {"chosen": ""}),
              Cell(words.score(val), {"val": val}), Cell(words.score(test), {"test": test}), Cell(words.NONE)]
    cells += [Cell(words.NONE)] * (2 if results.against else 1)
    cells += [Cell(words.NONE), Cell("baseline", {"status": "baseline"})]
    return Line("baseline", tuple(cells), "baseline")


def _average(found: Average, results: Results, wide: bool) -> Line:
    over = f"average of {found.columns}" + (f", {found.over}" if found.over else "")
    value, gap = found.value, found.difference
    cells = [Cell(over, {"column": over})] if wide else []
    rank = f"mean rank {found.rank:.2f}" if found.rank is not None else words.NONE
    cells += [
        Cell(found.arm, {"arm": found.arm}), Cell(rank, {"mean_rank": found.rank}), Cell(words.NONE),
        Cell(words.plus_minus(value), {"test": value.mean if value else None,
                                       "test_sem": value.sem if value else None}),
        Cell(str(value.n) if value else words.NONE, {"n": value.n if value else None}),
    ]
    if results.against:
        cells.append(Cell(words.difference(gap), {
            "difference": gap.mean if gap else None, "low": gap.low if gap else None,
            "high": gap.high if gap else None}))
    cells += [Cell(words.NONE), Cell(words.NONE), Cell("average", {"status": "average"})]
    return Line("average", tuple(cells), "average")


def budget(amounts: Mapping[str, float]) -> str:
    """`120 epochs, 4.2k steps, 38 s`."""
    parts = []
    if "epochs" in amounts:
        parts.append(f"{words.count(round(amounts['epochs'], 1))} epochs")
    if "steps" in amounts:
        parts.append(f"{words.count(amounts['steps'])} steps")
    if "seconds" in amounts:
        parts.append(words.duration(amounts["seconds"]))
    return ", ".join(parts) or words.NONE


def to_rich(table: Table) -> RichTable:
    """For a terminal. Text objects only: nothing is read as markup."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    out = RichTable(title=Text(printable(table.title)), caption=Text(table.note), box=box.SIMPLE_HEAD,
                    title_justify="left", caption_justify="left", title_style="bold", pad_edge=False)
    for head, numeric in zip(table.heads, table.numeric, strict=True):
        out.add_column(Text(printable(head)), justify="right" if numeric else "left", overflow="fold")
    before: Line | None = None
    for line in table.lines:
        if before is not None and before.kind != "arm" and line.kind != before.kind:
            out.add_section()
        style = "bold" if line.best else TONES.get(line.status, "")
        out.add_row(*(Text(printable(cell.text)) for cell in line.cells), style=style)
        before = line
    return out


def printable(text: str) -> str:
    """Without control characters, which could move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() else " " for c in text)


def to_markdown(table: Table) -> str:
    """A pipe table with its title and note; the best arm of a column (on validation) is bold."""

    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [f"**{_markdown(table.title)}**", "", row([_markdown(h) for h in table.heads]), row(rule)]
    for line in table.lines:
        texts = [_markdown(cell.text) for cell in line.cells]
        if line.best:
            texts = [f"**{t}**" if t and t != words.NONE else t for t in texts]
        lines.append(row(texts))
    return "\n".join([*lines, "", _markdown(table.note), ""])


def _markdown(text: str) -> str:
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
        writer.writerow([line.kind, *(_guarded(values.get(name)) for name in names)])
    return out.getvalue()


def _guarded(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return repr(value)
    text = printable(str(value))
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
          "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", "±": r"$\pm$", words.MINUS: "$-$", words.NONE: "---", "²": "$^2$",
          '"': "''", "|": r"\textbar{}"}


def latex(text: str) -> str:
    """Text as LaTeX shows it, nothing of it read as a command."""
    return "".join(_LATEX.get(c, c) for c in printable(text))


def to_latex(table: Table) -> str:
    """A `table` with booktabs rules (`\\usepackage{booktabs}`); baselines and averages stand below a rule."""
    layout = "".join("r" if numeric else "l" for numeric in table.numeric)
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering",
             rf"\caption{{{latex(table.title)}. {latex(table.note)}}}", rf"\begin{{tabular}}{{{layout}}}",
             r"\toprule", " & ".join(latex(h) for h in table.heads) + r" \\", r"\midrule"]
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
