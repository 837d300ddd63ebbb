"""Sequences on the way from a table: their values and rows, and their clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from headstart.data.clock import STEP_BEFORE, ask_unit, check_one_rate, equal_steps, on_clock, seconds_in
from headstart.data.layout import Layout
from headstart.data.order import Ordered
from headstart.data.table import Cells, Column, Table, Words, chunks, is_text
from headstart.errors import BadInput
from headstart.text import percent
from headstart.ways import field_name, option

CELLS_AT_ONCE, MANY_CELLS = 2**18, 2**14
"""Cells of short columns that are read together, at most and at least."""


@dataclass
class Parts:
    """Sequences on the way: `values` (S, F) with NaN where missing, or ids (S,); `rows` are the table's rows that stand
    for each sequence (in a long table its first in the file, `begins` its first in time, and `steps` its usual step of
    time). `labels` (S,) are those of positions, where each has its own; `times` (S,) those of a long table with a
    clock. `made` (n,) is how sequences were recorded, by name."""

    values: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    channels: tuple[str, ...]
    labels: Words | None = None
    begins: np.ndarray | None = None
    steps: np.ndarray | None = None
    times: np.ndarray | None = None
    made: dict[str, np.ndarray] = field(default_factory=dict)


def label_changes(table: Table, layout: Layout) -> bool:
    """Whether positions of one recording have different labels."""
    column = None if layout.target is None else table.columns[layout.target]
    if column is None or layout.shape != "long" or layout.id is None:
        return column is not None and column.type == "list"
    return not Ordered(column).one_within(Ordered(table.columns[layout.id]).codes)


def unit_of(table: Table, layout: Layout) -> float | None:
    """Seconds of a unit of the times, where they are known."""
    assert layout.time is not None, "the table has a clock"
    assert table.times is not None, "and its times were read"
    return seconds_in(table.columns[layout.time], table.times, layout.spec)


def in_time(parts: Parts, table: Table, layout: Layout, notes: list[str]) -> Parts:
    """Recordings of a long table at the rate that was set. Raises: BadInput where they have several and none was."""
    assert parts.times is not None, "there is a clock"
    assert layout.time is not None, "which has a name"
    assert parts.steps is not None, "and steps"
    spec, source = layout.spec, table.places.source
    unit = unit_of(table, layout)
    if spec.rate is None:
        if not spec.optional and layout.id is not None:
            ids = table.columns[layout.id].words
            names = [ids[row] or "" for row in parts.rows.tolist()]
            even = equal_steps(parts.times, parts.offsets, parts.steps)
            check_one_rate(source, names, parts.steps, even, (layout.time, unit), layout.id)
        return parts
    if parts.values.ndim == 1:
        raise BadInput(
            f"{source}: {field_name('rate')}: symbols cannot be brought to another rate; leave {option('rate')} out"
        )
    if unit is None:
        raise ask_unit(source, layout.time, parts.times)
    values, offsets, rows = on_clock(source, parts.values, parts.offsets, parts.times * unit, spec.rate)
    missing = float(np.isnan(values).mean())
    notes.append(f"brought to {spec.rate:g} positions a second; {percent(missing)} of the values are missing, in gaps")
    labels = None if parts.labels is None else [parts.labels[row] for row in rows.tolist()]
    steps = np.full(len(offsets) - 1, 1 / (spec.rate * unit))
    made = {STEP_BEFORE: parts.steps}
    return replace(parts, values=values, offsets=offsets, labels=labels, steps=steps, times=None, made=made)


def numbers_of_columns(cells: Cells, columns: Sequence[Column]) -> Iterator[np.ndarray]:
    """(n,) numbers of each column. Cells of many short ones are read at once."""
    import pyarrow as pa

    rows = len(columns[0].data)
    step = max(1, CELLS_AT_ONCE // max(rows, 1))
    for begin in range(0, len(columns), step):
        some = columns[begin : begin + step]
        kinds = {column.data.type for column in some}
        if rows * len(some) < MANY_CELLS or len(kinds) > 1 or not is_text(kinds.pop()):
            yield from map(cells.numbers, some)
            continue
        joined = Column("", "number", pa.concat_arrays([part for column in some for part in chunks(column.data)]))
        yield from cells.numbers(joined, partial(_cell, some, rows)).reshape(len(some), rows)


def _cell(columns: Sequence[Column], rows: int, i: int) -> tuple[int, str]:
    return i % rows, columns[i // rows].name
