"""Tables whose cells hold whole sequences: one of times is their clock and no channel, one of several channels is cut
into these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from headstart.data.folder_tables import recordings_table
from headstart.data.layout import LayoutSpec, by_role
from headstart.data.order import clock_name, clock_rank
from headstart.data.table import Cells, Column, Ragged, Table, arrow_lists, arrow_numbers, is_list
from headstart.data.text import looks_like_list
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few
from headstart.ways import option


def by_cell_clock(table: Table, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The table with its sequences in the order of a column of times whose cells are lists, which is no channel.

    Raises: BadInput where a sequence has another number of values than times.
    """
    names = [name for name, column in table.columns.items() if column.type in ("list", "text")]
    wide = [name for name in names if _of_channels(table.columns[name]) and name not in spec.values]
    clocks = [spec.time] if spec.time else [n for n in names if clock_name(n) or by_role("time", [n])]
    clocks = [name for name in clocks if name in names and spec.time != "" and name not in spec.values]
    if not clocks and not (wide and len(names) > 1):
        return table
    lists = [name for name in names if table.columns[name].type == "list" or looks_like_list(table.columns[name].top)]
    if wide and len(lists) > 1:
        table = _apart(table, wide, spec)
        lists = [name for name in table.columns if name in lists or table.columns[name].type == "list"]
    clocks = [name for name in clocks if name in lists]
    cells = Cells(table.places, frozenset(spec.na), "." if table.decimal == "auto" else table.decimal)
    for name in sorted(clocks, key=clock_rank) if len(lists) > 1 else ():
        columns = {other: _sequences(table.columns[other], cells) for other in lists}
        if _rises(columns[name]) or spec.time:
            rows = _rows(table, columns)
            places = Places(table.places.source, names=[table.places.of(row) for row in range(table.rows)])
            written = f"{table.written}, a recording a row"
            whole = recordings_table(rows, places, written, spec.model_copy(update={"time": name}), mistakes)
            lost = {*lists, name} if spec.rate is not None else {name}  # labels of positions stay where these do
            whole.columns |= {n: c for n, c in table.columns.items() if n not in (*whole.columns, *lost)}
            notes = [f"{name!r} holds the times of each sequence, and is no channel ({option('time', '')}: it is one)"]
            notes = [] if table.clock else notes
            notes = [*table.notes, *notes, *whole.notes]
            return replace(whole, roles=table.roles, named=table.named, time_axis=table.time_axis, notes=notes)
    return table


def _of_channels(column: Column) -> bool:
    """Whether cells are sequences (L, F)."""
    return column.type == "list" and (hasattr(column.data.type, "shape") or is_list(column.data.type.value_type))


def _apart(table: Table, wide: Sequence[str], spec: LayoutSpec) -> Table:
    """The table with a column for each channel of these columns: `acc 1`, `acc 2`."""
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        if name not in wide:
            columns[name] = column
            continue
        values, offsets = column.sequences(table.places, spec.sideways and table.shape is None)
        for f in range(values.shape[1] if values.ndim == 2 else 1):
            own = f"{name} {f + 1}"
            columns[own] = Column(
                own, "list", arrow_lists(np.ascontiguousarray(values.reshape(len(values), -1)[:, f]), offsets)
            )
    some = first_few(list(map(repr, wide)), 3)
    note = f"cells of {some} hold several channels, each of which is a column ({option('values', wide[0])}: it alone)"
    return replace(table, columns=columns, notes=[*table.notes, note])


def _sequences(column: Column, cells: Cells) -> Ragged:
    """Numbers, or texts where the cells are lists of these."""
    return column.sequences(cells.places) if column.has_words else cells.sequences(column)


def _rises(ragged: Ragged) -> bool:
    """Whether no sequence of times falls."""
    if not isinstance(ragged.values, np.ndarray):
        return True
    steps = np.diff(ragged.values) < 0
    steps[ragged.offsets[1:-1][ragged.offsets[1:-1] < len(ragged.values)] - 1] = False
    return not steps.any()


def _rows(table: Table, columns: dict[str, Ragged]) -> Iterator[Table]:
    """Each row as a table of a row for each position."""
    for row in range(table.rows):
        own = {}
        spans = {name: (int(x.offsets[row]), int(x.offsets[row + 1])) for name, x in columns.items()}
        lengths = {name: end - begin for name, (begin, end) in spans.items() if end > begin}
        if len(set(lengths.values())) > 1:
            some = first_few([f"{name!r} {count:,}" for name, count in lengths.items()], 4)
            raise BadInput(
                f"{table.places.of(row)}: its sequences have different numbers of values ({some}); give one for each "
                f"time, or {option('time', '')} to take them as they come"
            )
        length = next(iter(lengths.values()), 0)
        for name, (begin, end) in spans.items():
            values = columns[name].values[begin:end]
            if isinstance(values, np.ndarray):
                values = values if end > begin else np.full(length, np.nan)
                own[name] = Column(name, "number", arrow_numbers(values))
            elif end > begin:
                own[name] = Column(name, "text", values)
        yield Table(own, length, Places(table.places.of(row)))
