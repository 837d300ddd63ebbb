"""A table that lies on its side: a row for each position and a column for each recording."""

from __future__ import annotations

import numpy as np

from headstart.data.file_labels import labelled_by_name
from headstart.data.layout import LayoutSpec
from headstart.data.order import Ordered, clock_name
from headstart.data.rows import list_column
from headstart.data.table import Cells, Column, Table, arrow_texts
from headstart.errors import BadInput, Mistakes, Places
from headstart.ways import option

SIDE = "columns"
"""The shape of such a table."""


def turned(table: Table, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A table of a row for each recording, where `spec` says that recordings stand in columns; else the same one.

    The ids are the names of the columns, and parts of these names are labels as those of names of files are. Rows are
    in the order of the time, which is no recording. Raises: BadInput where fewer than two columns hold numbers.
    """
    if spec.shape != SIDE:
        return table
    places = table.places
    clocks = [Ordered(column) for column in table.columns.values() if column.type in ("number", "text", "time")]
    clocks = [clock for clock in clocks if clock.never_falls and clock_name(clock.name)]
    time = spec.time if spec.time in table.columns else next((clock.name for clock in clocks), None)
    order = np.arange(table.rows)
    if time and (values := Ordered(table.columns[time]).values) is not None:
        order = np.argsort(values, kind="stable")
    names = [name for name, column in table.columns.items() if name != time and column.type in ("number", "empty")]
    if len(names) < 2:
        raise BadInput(
            f"{places.source}: {option('shape', SIDE)} takes a column for each recording, and {len(names)} of its "
            "columns hold numbers; leave it out"
        )
    cells = Cells(places, frozenset(spec.na), "." if table.decimal == "auto" else table.decimal)
    rows = [cells.numbers(table.columns[name])[order] for name in names]
    notes = list(table.notes)
    cells.report(mistakes, notes)
    mistakes.check()
    each = Places(places.source, names=[f"{places.source} column {name!r}" for name in names])
    written = f"{table.written}, a column for each recording{f', in the order of {time!r}' if time else ''}"
    whole = Table({}, len(names), each, written, shape="list", notes=notes)
    whole.columns["values"] = list_column("values", rows, each)
    whole.columns["column"] = Column("column", "text", arrow_texts(names))
    whole.roles["id"] = "column"
    labelled_by_name(whole, names, spec)
    return whole
