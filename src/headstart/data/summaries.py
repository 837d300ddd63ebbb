"""Rows at the end of a table that sum up those above them: `Mean`, `Total`."""

from __future__ import annotations

import numpy as np

from headstart.data.layout import plain
from headstart.data.table import Table, texts_of
from headstart.text import counted, first_few

# fmt: off
SUMMARIES = frozenset(("mean", "means", "average", "avg", "std", "sd", "stdev", "stddev", "standarddeviation", "sem",
    "se", "median", "min", "max", "minimum", "maximum", "sum", "total", "totals", "grandtotal", "subtotal", "var",
    "variance", "cv", "rsd", "mittelwert", "summe", "gesamt", "moyenne", "promedio", "media"))
# fmt: on
"""First words, without case and marks, of rows that sum up those above them."""
MOST_SUMMARIES, SUMMED_ROWS = 12, 3
"""Such rows at the end, and rows above them, at least."""


def without_summaries(table: Table) -> None:
    """Leave out rows at the end that sum up those above: the first cell says so in a word that stands in no other row,
    where ids are numbers or all differ, or a cell is empty that has a value in the row above them."""
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
