"""Rows of a text table, gathered as they are read: columns of numbers in bulk, the others as they are written."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from headstart.data.cells import Cells, is_number
from headstart.data.layout import LayoutSpec
from headstart.data.problems import Mistakes
from headstart.data.sniff import Form
from headstart.data.table import Column, Places, Table, Words
from headstart.errors import BadInput

AT_ONCE = 512
"""Rows whose numbers are converted together."""


class OtherWidth(Exception):
    """A row of another width in a file of numbers without a header: its sequences have any length."""


class Records:
    """Rows of cells with the line on which each begins; lines without a cell are passed over and counted."""

    def __init__(self, lines: Iterator[str], form: Form) -> None:
        self.form, self.blank, self.line = form, 0, 1
        if form.mark == " ":
            lines = (" ".join(line.split()) + "\n" for line in lines)
        rules: dict[str, Any] = {"delimiter": form.mark or "\x1f", "strict": True}
        rules |= {"quotechar": form.quote} if form.quote and form.mark != " " else {"quoting": csv.QUOTE_NONE}
        self._reader = csv.reader(lines, **rules)

    def __iter__(self) -> Iterator[list[str]]:
        reader, begin = self._reader, 1
        before = csv.field_size_limit(2**31 - 1)
        try:
            for row in reader:
                self.line, begin = begin, reader.line_num + 1
                if row:
                    yield row
                else:
                    self.blank += 1
        except csv.Error as error:
            where = f"{self.form.source}:{begin}"
            if "unexpected end of data" in str(error):
                raise BadInput(
                    f"{where}: a quote opens here and never closes; close it, or give --quote '' where "
                    "quotes are part of the texts"
                ) from None
            raise BadInput(
                f"{where}: cannot be cut into cells ({error}); double a quote inside of quotes, or give "
                "--quote '' where quotes are part of the texts"
            ) from None
        finally:
            csv.field_size_limit(before)


class Rows:
    """Collects rows of one width: columns in bulk as numbers, the others as they are written."""

    def __init__(self, form: Form, spec: LayoutSpec, mistakes: Mistakes) -> None:
        self.form, self.mistakes = form, mistakes
        self.lines: list[int] = []
        self.kept = [i for i in range(len(form.names)) if i not in set(form.bulk)]
        self.raw: list[Words] = [[] for _ in self.kept]
        self.blocks: list[np.ndarray] = []
        self.waiting: list[list[str]] = []
        self.known: dict[str, str] = {}
        self.cells = Cells(Places(form.source), frozenset(spec.na), form.decimal)
        self.may_differ = not form.header and "text" not in form.types

    def table(self, lines: Iterator[str]) -> Table:
        """The whole file."""
        form = self.form
        records, width = Records(lines, form), len(form.names)
        for number, row in enumerate(records):
            if form.header and number == 0:
                continue
            if len(row) != width:
                if self.may_differ:
                    raise OtherWidth
                self.mistakes.add(f"{form.source}:{records.line}", _cut_row(row, width, form))
                continue
            self.lines.append(records.line)
            self.waiting.append(row)
            if len(self.waiting) == AT_ONCE:
                self._convert()
        self._convert()
        self.cells.places = Places(form.source, lines=np.array(self.lines, dtype=np.int64))
        self.cells.report(self.mistakes)
        return _table(self._columns(), form, self.lines, records)

    def _convert(self) -> None:
        """Convert the rows that wait; equal cells are kept once."""
        rows, form, known = self.waiting, self.form, self.known
        for store, i in zip(self.raw, self.kept, strict=True):
            store.extend([known.setdefault(row[i], row[i]) for row in rows])
        if form.bulk and rows:
            first, pick = len(self.lines) - len(rows), _picker(form.bulk)
            values = self.cells.rows([pick(row) for row in rows], first, lambda i: form.names[form.bulk[i]])
            self.blocks.append(values.reshape(len(rows), -1))
        self.waiting = []

    def _columns(self) -> dict[str, Column]:
        form, out = self.form, {}
        block = np.concatenate(self.blocks) if self.blocks else np.zeros((len(self.lines), len(form.bulk)))
        place = {i: j for j, i in enumerate(form.bulk)}
        words = dict(zip(self.kept, self.raw, strict=True))
        for i, (name, kind) in enumerate(zip(form.names, form.types, strict=True)):
            if i in place:
                numbers = block[:, place[i]]
                out[name] = Column(name, "empty" if np.isnan(numbers).all() else "number", numbers=numbers)
            else:
                out[name] = _written(name, kind, words[i], self.cells)
        return out


def _written(name: str, kind: str, words: Words, cells: Cells) -> Column:
    """A column with its cells as they are written; one that was empty in the sample may have cells later on."""
    if kind == "empty":
        there = [word for word in words if not cells.missing(word)]
        numbers = sum(is_number(word or "", cells.decimal) for word in there)
        kind = "empty" if not there else "number" if 2 * numbers >= len(there) else "text"
    return Column(name, "text" if kind == "text" else "empty" if kind == "empty" else "number", words=words)


def any_length(lines: Iterator[str], form: Form, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """Rows of any length without a header: a label and its values, or values alone, as a label and a list."""
    records, numbers = Records(lines, form), []  # type: tuple[Records, list[int]]
    cells = Cells(Places(form.source), frozenset(spec.na), form.decimal)
    lists: list[np.ndarray | None] = []
    first: Words = []
    for row in records:
        numbers.append(records.line)
        first.append(row[0])
        lists.append(cells.rows([row[1:]], len(lists), lambda i: str(i + 2)))
    cells.places = Places(form.source, lines=np.array(numbers, dtype=np.int64))
    cells.report(mistakes)
    columns = {"1": Column("1", "text", words=first), "2 and on": Column("2 and on", "list", lists=lists)}
    table = _table(columns, form, numbers, records)
    if spec.target is None:
        table.roles["target"] = "1"
    table.notes.append(f"{form.source}: rows have {min(map(len, lists)):,} to {max(map(len, lists)):,} values")  # type: ignore[arg-type]
    return table


def _table(columns: dict[str, Column], form: Form, lines: list[int], records: Records) -> Table:
    notes = [f"{records.blank:,} empty lines were passed over"] if records.blank else []
    decimal: Any = form.decimal
    return Table(
        columns,
        len(lines),
        Places(form.source, lines=np.array(lines, dtype=np.int64)),
        form.said,
        form.header,
        decimal,
        notes=notes,
    )


def _cut_row(row: Sequence[str], width: int, form: Form) -> str:
    against = "the header" if form.header else "the first row"
    way = "the row is cut short" if len(row) < width else "a text that holds the separator needs quotes"
    return f"has {len(row):,} cells, {against} has {width:,}; {way}: correct it, or leave the row out"


def _picker(columns: Sequence[int]) -> Callable[[list[str]], Sequence[str]]:
    """What takes these columns out of a row."""
    if columns and list(columns) == list(range(columns[0], columns[-1] + 1)):
        return lambda row: row[columns[0] : columns[-1] + 1]
    if len(columns) == 1:
        return lambda row: row[columns[0] : columns[0] + 1]
    return itemgetter(*columns) if columns else lambda row: row
