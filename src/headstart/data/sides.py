"""A table that lies on its side: a row for each position and a column for each recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from headstart.data.exports import is_class_row
from headstart.data.file_labels import holds_labels, labelled_by_name, labels_beside, labels_of
from headstart.data.layout import TARGET, LayoutSpec, by_role, plain
from headstart.data.order import Ordered, clock_name
from headstart.data.rows import list_column
from headstart.data.runs import runs_of, runs_table
from headstart.data.table import Cells, Column, Table, arrow_texts
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import is_number
from headstart.ways import field_name, option

SIDE = "columns"
"""The shape of such a table."""
SEARCHED_ROWS = 100_000
"""Rows among which some of labels are looked for."""


def turned(table: Table, spec: LayoutSpec, mistakes: Mistakes) -> tuple[Table, LayoutSpec]:
    """A table of a row for each recording, and its layout, where recordings stand in columns, as `spec` says or a row
    of labels does, or each stands behind a clock of its own; else both as they are.

    The ids are the names of the columns, and parts of these names are labels as those of names of files are; so are
    rows of words. Rows are in the order of the time, which is no recording, nor is a first column that counts on.
    Raises: BadInput where fewer than two columns hold numbers, or names are to hold labels and there are none.
    """
    if table.named:
        ids = table.columns[table.roles["id"]].words
        _labelled(table, [word or "" for word in ids], spec, holds_labels(table.columns, spec))
        return table, spec
    named = {*spec.values, spec.id, spec.group, spec.target} & set(table.columns)
    if spec.shape in ("auto", SIDE) and not named and (runs := runs_of(table, spec)):
        whole = runs_table(table, runs, spec, mistakes)
        _labelled(whole, [run.name for run in runs], spec)
        return whole, spec.model_copy(update={"shape": SIDE, "time": None})
    rows_of_labels = _label_rows(table, spec)
    if rows_of_labels and spec.shape == "auto":
        spec = spec.model_copy(update={"shape": SIDE})
    if spec.shape != SIDE:
        if spec.label_from is not None and not spec.optional and Path(table.places.source).is_file():
            column = next(iter((*by_role("target", table.columns), *reversed(table.columns))), "label")
            raise BadInput(
                f"{table.places.source}: {field_name('label_from')}: {spec.label_from!r} is for names of files, "
                f"or of columns that are recordings ({option('shape', SIDE)}); this table has its labels in a column: "
                f"leave it out, and name that column ({option('target', column)})"
            )
        return table, spec
    upright = table
    if rows_of_labels:
        table = _without(table, rows_of_labels)
    places = table.places
    columns = [Ordered(column) for column in table.columns.values() if column.type in ("number", "text", "time")]
    clocks = [clock for clock in columns if clock.never_falls and clock_name(clock.name)]
    clocks += [clock for clock in columns[:1] if clock.never_falls and clock.even and clock.column.type == "number"]
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
    _labelled(whole, names, spec, bool(rows_of_labels))
    first = next(iter(upright.columns.values()))
    for row in rows_of_labels:
        label = (first.words[row] or "").strip()
        name = label if label and label not in whole.columns else f"row {row + 1}"
        whole.columns[name] = Column(name, "text", arrow_texts([upright.columns[name].words[row] for name in names]))
    return whole, spec


def _labelled(whole: Table, names: list[str], spec: LayoutSpec, labelled: bool = False) -> None:
    """Add what labels recordings that stand in columns: parts of their names, or a table beside the file (labels.csv)
    with a column of these names."""
    path = Path(whole.places.source)
    if not labelled and spec.label_from is None and path.is_file():
        for other in labels_beside(path):
            columns = labels_of(other, names, spec)
            if columns:
                whole.columns |= {name: column for name, column in columns.items() if name not in whole.columns}
                whole.notes.append(f"labels are in {other.name!r}")
                return
    if not labelled_by_name(whole, names, spec) and not labelled and not spec.optional:
        parts = f"are parts of the names of recordings ({option('label_from', '{label}_{take}')}), or "
        parts = parts if any(not name.isalnum() for name in names) else ""
        whole.notes.append(
            f"no label is known: labels {parts}stand in a table beside the file (labels.csv, with a column of these "
            "names)"
        )


def _label_rows(table: Table, spec: LayoutSpec) -> list[int]:
    """Rows that hold a word for each column of numbers, as labels of recordings in columns; where no shape was set,
    those that can be nothing else."""
    names = list(table.columns)
    numbers = [name for name in names[1:] if table.columns[name].type in ("number", "empty")]
    other = spec.shape != SIDE and (spec.shape != "auto" or spec.id or spec.group or spec.values)
    if other or table.shape is not None or table.rows > SEARCHED_ROWS or len(numbers) < 2 or not table.header:
        return []
    first = table.columns[names[0]].words
    out = []
    for row in range(table.rows):
        named = plain(first[row] or "") in TARGET
        if is_number(table.columns[numbers[0]].words[row] or "", "," if table.decimal == "," else ".") and not named:
            continue
        cells = [first[row] or "", *(table.columns[name].words[row] or "" for name in numbers)]
        if spec.shape == SIDE:
            label = named or not any(is_number(cell) or not cell.strip() for cell in cells[1:])
        else:
            label = len(cells) == len(names) and is_class_row(cells, names, range(1, len(cells)))
        if label:
            out.append(row)
    return out if len(out) < table.rows - 1 else []


def _without(table: Table, rows: list[int]) -> Table:
    """The table without these rows."""
    there = np.setdiff1d(np.arange(table.rows), rows)
    columns = {name: replace(column, data=column.data.take(there)) for name, column in table.columns.items()}
    for column in columns.values():
        if column.type == "text" and all(is_number(word or "") for word in column.words):
            column.type = "number"
    return replace(table, columns=columns, rows=len(there), places=table.places.take(there))
