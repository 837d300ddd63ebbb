"""How a text table is written: what separates its cells, whether it has a header, and which mark is the decimal one."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headstart.data.cells import is_number
from headstart.data.layout import LayoutSpec
from headstart.data.roles import TEXTS, is_role, numbered, plain
from headstart.data.table import check_names

EDGE = 3
"""Columns at either end of a wide table that may be a label or an id, and are kept as they are written."""
SAME = 0.8
"""Share of rows that a mark cuts alike, or of cells that are numbers."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_WHOLE = re.compile(r"^\s*[+-]?\d+\s*$")
_COMMA = re.compile(r"^\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*$")


@dataclass
class Form:
    """How a file is written, as set or found."""

    source: str
    mark: str
    quote: str
    decimal: str
    header: bool = False
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    bulk: list[int] = field(default_factory=list)

    def name_columns(self, first: Sequence[str], even: bool) -> None:
        """Names of the header, or numbers from 1; none where rows without a header have different widths."""
        if self.header:
            names = (name.strip() or f"column {i}" for i, name in enumerate(first, 1))
            self.names = check_names(names, f"{self.source}:1")
        elif even:
            self.names = [str(i + 1) for i in range(len(first))]

    @property
    def said(self) -> str:
        name = {"": "one cell a row", " ": "separated by blanks"}.get(
            self.mark, f"{DELIMITERS.get(self.mark, repr(self.mark))}-separated"
        )
        return f"{name} {'with a header' if self.header else 'without a header'}" + (
            ", decimal commas" if self.decimal == "," else ""
        )


def find_delimiter(lines: Sequence[str], name: str, quote: str) -> str:
    """What separates cells: the mark that cuts most rows into one same number of them; "" where none does.

    A mark that cuts rows into different numbers of cells counts where these are numbers. A blank stands for runs of
    blanks. The ending of the file's name decides between equals.
    """
    ending = "\t" if ".tsv" in name.lower() or ".tab" in name.lower() else ","
    best, found = (0.0, 0.0), ""
    for mark in sorted(DELIMITERS, key=lambda mark: mark != ending):
        rows = [row for row in cut(lines, mark, quote) if row]
        counts = Counter(map(len, rows))
        size, often = max(counts.items(), key=lambda pair: (pair[1] * (pair[0] > 1), pair[0]), default=(0, 0))
        share = often / max(len(rows), 1)
        numbers = _numbers(rows, mark)
        if max(counts, default=0) > 1 and (share >= SAME or numbers >= SAME):
            rank = (share * (1 + (len(rows[0]) == size)), numbers)
            if rank[0] > best[0] + 0.05 or (rank[0] > best[0] - 0.05 and rank[1] > best[1] + 0.05):
                best, found = rank, mark
    if found:
        return found
    words = [line.split() for line in lines if line.strip()]
    if words and max(map(len, words)) > 2 and _numbers(words, " ") >= SAME:
        return " "
    known = name.lower().removesuffix(".gz").removesuffix(".xz").endswith((".csv", ".tsv", ".tab"))
    return ending if known and lines and ending in lines[0] else ""


def _numbers(rows: Sequence[Sequence[str]], mark: str) -> float:
    """The share of cells, the first of each row apart, that are numbers (with decimal commas too) or missing."""
    cells = [cell.strip() for row in rows[1:] for cell in row[1:]]
    known = (
        not cell or cell.lower() == "nan" or is_number(cell) or (mark != "," and _COMMA.match(cell)) for cell in cells
    )
    return sum(map(bool, known)) / max(len(cells), 1)


def cut(lines: Sequence[str], mark: str, quote: str) -> list[list[str]]:
    """Lines as rows of cells, leniently; the last row may be cut."""
    rules: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    try:
        return list(csv.reader(lines, delimiter=mark, **rules))
    except csv.Error:
        return [line.rstrip("\r\n").split(mark) for line in lines]


def has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row names the columns, told from what stands under it."""
    head, below = rows[0], rows[1:]

    def number(text: str) -> bool:
        return is_number(text, decimal)

    numeric = [i for i in range(len(head)) if _mostly([row[i] for row in below if i < len(row)], number)]
    named = sum(bool(head[i].strip()) and not number(head[i]) and head[i].strip().lower() != "nan" for i in numeric)
    if 2 * named > len(numeric) > 0:
        return True
    own = [i for i, cell in enumerate(head) if not any(i < len(row) and row[i] == cell for row in below)]
    if any(is_role(head[i]) or plain(head[i]) in TEXTS for i in own if not number(head[i])):
        return True
    if below and _counts_on(head, decimal) and not _counts_on(below[0], decimal):
        return True
    if numeric or len(head) == 1 or not below:
        return False
    short = all(0 < len(cell.strip()) <= 32 and len(cell.split()) == 1 for cell in head)
    return short and len(set(head)) == len(head) == len(own)


def _mostly(cells: Sequence[str], number: Callable[[str], bool]) -> bool:
    there = [cell for cell in cells if cell.strip()]
    return 2 * sum(map(number, there)) > len(there)


def _counts_on(row: Sequence[str], decimal: str) -> bool:
    """Whether the numbers of a row go on in equal steps, as 0, 1, 2 and 0.0, 0.1, 0.2 do, or grow beside a word."""
    numbers = [float(cell.replace(decimal, ".")) for cell in row if is_number(cell, decimal)]
    steps = {round(b - a, 9) for a, b in itertools.pairwise(numbers)}
    return len(numbers) > 2 and min(steps) > 0 and (len(steps) == 1 or len(numbers) < len(row))


def find_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """`,` where cells such as 1,5 outnumber those with a point."""
    if delimiter == ",":
        return "."
    cells = [cell for row in rows[1:200] for cell in row]
    commas = sum(_COMMA.match(cell) is not None for cell in cells)
    points = sum("." in cell and is_number(cell) for cell in cells)
    return "," if commas > points else "."


def column_types(form: Form, body: Sequence[Sequence[str]]) -> list[str]:
    """The type of each column, from the sample: numbers where at least half of its cells are, `empty` without any.

    A column of words in a run of numbered ones that are mostly numbers is one whose numbers are missing.
    """
    out = {}
    for i, name in enumerate(form.names):
        cells = [row[i] for row in body if i < len(row) and row[i].strip() and row[i].strip().lower() != "nan"]
        numbers = sum(is_number(cell, form.decimal) for cell in cells)
        out[name] = "empty" if not cells else "number" if 2 * numbers >= len(cells) else "text"
    for run in numbered(form.names).values():
        if len(run) > 3 and sum(out[name] == "text" for name in run) < len(run) / 4:
            out |= {name: "number" for name in run if out[name] == "text"}
    return list(out.values())


def bulk_columns(form: Form, body: Sequence[Sequence[str]], spec: LayoutSpec) -> list[int]:
    """Columns that are read as numbers only: those with fractions, and the many of a wide table.

    Others keep their cells as they are written, so that an id 007 or a label 1.0 can be given back.
    """
    named = {spec.target, spec.id, spec.time, spec.group}
    run = {name for names in numbered(form.names).values() if len(names) > 8 for name in names}
    wide, last = form.types.count("number") > 32, len(form.names) - EDGE
    out = []
    for i, (name, kind) in enumerate(zip(form.names, form.types, strict=True)):
        edge = not EDGE <= i < last
        if kind == "text" or name in named or is_role(name) or (edge and not form.header):
            continue
        if name in run or (wide and not edge) or (kind == "number" and _fractions(body, i)):
            out.append(i)
    return out


def _fractions(body: Sequence[Sequence[str]], i: int) -> bool:
    return any(not _WHOLE.match(row[i]) for row in body if i < len(row) and row[i].strip())
