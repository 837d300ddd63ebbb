"""Rows at the end of a table that sum up those above them: `Mean`, `Total`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from headstart.data.exports import is_footer
from headstart.data.layout import plain
from headstart.data.table import Table, texts_of
from headstart.text import counted, first_few, is_number

# fmt: off
SUMMARIES = frozenset(("mean", "means", "average", "avg", "std", "sd", "stdev", "stddev", "standarddeviation", "sem",
    "se", "median", "min", "max", "minimum", "maximum", "sum", "total", "totals", "grandtotal", "subtotal", "var",
    "variance", "cv", "rsd", "mittelwert", "summe", "gesamt", "moyenne", "promedio", "media"))
# fmt: on
"""First words, without case and marks, of rows that sum up those above them."""
MOST_SUMMARIES, SUMMED_ROWS = 12, 3
"""Such rows at the end, and rows above them, at least."""
REMARK_COLUMNS = 3
"""Columns above which a row with a first cell alone may be a remark."""


def without_summaries(table: Table) -> None:
    """Leave out rows at the end that sum up those above: the first cell says so in a word that stands in no other row,
    where ids are numbers or all differ, or a cell is empty that has a value in the row above them."""
    _without_remarks(table)
    last = {name: texts_of(column.data[-MOST_SUMMARIES - 1 :]) for name, column in table.columns.items()}
    rows = list(zip(*last.values(), strict=True))
    heads = [next((i for i, cell in enumerate(row) if cell and cell.strip()), None) for row in rows]
    words = ["" if i is None else (row[i] or "").strip() for i, row in zip(heads, rows, strict=True)]
    count = 0
    while count < len(rows) - 1 and plain(words[-1 - count]) in SUMMARIES:
        count += 1
    keep = table.rows - count
    if not count or keep < SUMMED_ROWS or len(set(words[-count:])) < count:
        return
    columns = list(table.columns.values())
    above = [bool(cell and cell.strip()) for cell in rows[-1 - count]]
    for row, head in zip(rows[-count:], heads[-count:], strict=True):
        gap = any(full and not (cell and cell.strip()) for full, cell in zip(above, row, strict=True))
        others = [] if head is None else [(word or "").strip() for word in texts_of(columns[head].data[:keep])]
        apart = gap or columns[head or 0].type == "number" or len(set(others)) == keep
        if head is None or not apart or not set(others).isdisjoint(words[-count:]):
            return
    for column in columns:
        column.data = column.data[:keep]
    table.rows, table.places = keep, table.places.take(np.arange(keep))
    some = first_few([repr(word) for word in words[-count:]], 4)
    table.notes.append(
        f"{counted(count, 'row that sums up those above was', 'rows that sum up those above were')} passed over "
        f"({some})"
    )


def _without_remarks(table: Table) -> None:
    """Leave out rows at the end of a table of several columns that hold a remark in the first cell alone."""
    columns, width = list(table.columns.values()), len(table.columns)
    if width <= REMARK_COLUMNS or not table.rows or any(map(str.strip, filter(None, texts_of(columns[-1].data[-1:])))):
        return
    rows = list(zip(*(texts_of(column.data[-MOST_SUMMARIES - 1 :]) for column in columns), strict=True))
    cells = [[(cell or "").strip() for cell in row] for row in rows]
    usual = {_shape(row[0]) for row in cells if any(row[1:])}
    count = 0
    while count < len(rows) - 1 and _is_remark(cells[-1 - count], width) and _shape(cells[-1 - count][0]) not in usual:
        count += 1
    if not count or table.rows - count < SUMMED_ROWS:
        return
    some = first_few([repr((row[0] or "")[:40]) for row in rows[-count:]], 3)
    for column in columns:
        column.data = column.data[: table.rows - count]
    table.rows -= count
    table.places = table.places.take(np.arange(table.rows))
    table.notes.append(
        f"{counted(count, 'remark below the table was', 'remarks below the table were')} passed over ({some})"
    )


def _is_remark(row: Sequence[str], width: int) -> bool:
    return bool(row[0]) and not any(row[1:]) and not is_number(row[0]) and is_footer(row, width)


def _shape(cell: str) -> str:
    """A cell with 0 for its digits: days, times and ids of one column are alike then."""
    return re.sub(r"\d+", "0", cell)
