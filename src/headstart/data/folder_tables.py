"""A folder with a table for each recording, whose rows are its positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import check_link
from headstart.data.clock import (
    STEP_BEFORE,
    as_they_come,
    ask_unit,
    check_one_rate,
    equal_steps,
    on_clock,
    seconds_in,
    step_words,
)
from headstart.data.layout import LayoutSpec, by_role, matching
from headstart.data.order import WORDS, Ordered, clock_name, clock_rank, counter_name
from headstart.data.own_clocks import in_time_order, on_one_clock
from headstart.data.readers import format_by, reader_of
from headstart.data.rows import list_column
from headstart.data.table import Cells, Column, Table, arrow_lists, arrow_numbers, arrow_texts
from headstart.data.tidy import in_channels, names_tags
from headstart.data.two_clocks import ask_clock
from headstart.errors import BadInput, Mistakes, Places, nearest
from headstart.text import counted, first_few, is_number
from headstart.ways import asked, field_name, option

JSON_TABLES = (".json", ".jsonl", ".ndjson")
_TABLES = (
    ".csv",
    ".tsv",
    ".tab",
    ".psv",
    ".dat",
    ".lvm",
    ".parquet",
    ".pq",
    ".feather",
    ".arrow",
    ".ipc",
    ".dpt",
    ".mot",
    ".sto",
)
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
RECORDING_TABLES = (*_TABLES, *_WORKBOOKS, *JSON_TABLES, ".jdx", ".dx")
"""Endings of tables that may hold a recording each."""
MOST_CELLS = 2**29
"""Cells of all tables."""
FEWEST_POSITIONS = 10
"""Columns from which on those of a table may be positions rather than channels."""
NEAR_STEPS = 0.05
"""Share by which the steps of time of two recordings of one rate may differ."""
CURVE = "JCAMP-DX"
"""How a table is written that is one curve."""


def is_recording_table(name: str) -> bool:
    """Whether a file may be a table of one recording, by its name."""
    return name.lower().removesuffix(".gz").endswith(RECORDING_TABLES)


def read_table(file: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A table of a folder, read by its ending as a file alone is."""
    ending = file.name.lower().removesuffix(".gz").rpartition(".")[2]
    own = spec.model_copy(update={"target": None, "id": None, "group": None, "columns": None, "shape": "auto"})
    table: Table = reader_of(format_by(ending, b"", lambda _: None))(file, own, mistakes)
    table = _of_positions(table) if table.rows == 1 and f".{ending}" in JSON_TABLES else table
    table = in_channels(table, own) if names_tags([*table.columns]) else _upright(table, own)
    return on_one_clock(table, own, mistakes)


def _upright(table: Table, spec: LayoutSpec) -> Table:
    """A table of a row for each channel, whose header has the times, as one of a row for each position, where that was
    set. Raises: BadInput where nothing tells whether rows are channels, positions or sequences."""
    first, *rest = table.columns.values()
    axis = np.array([float(column.name) if is_number(column.name) else np.nan for column in rest])
    names = [word or "" for word in first.words]
    lies = first.type == "text" and len(rest) >= FEWEST_POSITIONS and all(c.type == "number" for c in rest)
    if not lies or not (np.diff(axis) > 0).all() or not 1 < len(set(names)) == table.rows or spec.time_axis == "first":
        return table
    if spec.time_axis == "second":
        cells = np.stack([column.floats for column in rest])
        columns = {"time": Column("time", "number", arrow_numbers(axis))}
        columns |= {name: Column(name, "number", arrow_numbers(cells[:, k])) for k, name in enumerate(names)}
        return replace(table, columns=columns, rows=len(rest), places=Places(table.places.source))
    if spec.optional:
        return table
    question = (
        f"{table.places.source}: each of its rows ({first_few(list(map(repr, names)), 3)}) may be a channel, and the "
        "header the times, or a position (where each is a sequence, put all files into one table with a column of "
        "labels)"
    )
    raise BadInput(asked(question, {"time_axis": "second"}, {"time_axis": "first"}))


def _of_positions(table: Table) -> Table:
    """A table of one row, whose cells are lists, as one of a row for each position."""
    parts = {name: c.sequences(table.places).values for name, c in table.columns.items() if c.type == "list"}
    length = max(map(len, parts.values()), default=0)
    if not length or any(len(values) != length for values in parts.values()):
        return table
    columns = {name: Column(name, "text", arrow_texts(c.words * length)) for name, c in table.columns.items()}
    for name, values in parts.items():
        del columns[name]
        if not isinstance(values, np.ndarray):
            columns[name] = Column(name, "text", values)
        elif values.ndim == 1:
            columns[name] = Column(name, "number", arrow_numbers(values))
        else:
            own = {f"{name} {f + 1}": arrow_numbers(values[:, f]) for f in range(values.shape[1])}
            columns |= {other: Column(other, "number", data) for other, data in own.items()}
    return replace(table, columns=columns, rows=length, places=Places(table.places.source))


def folder_of_tables(path: Path, names: Sequence[str], spec: LayoutSpec, mistakes: Mistakes) -> tuple[Table, list[str]]:
    """A table of a row for each file, and the names of the files.

    Raises: BadInput naming a file that cannot be read, leads out of the folder, or lacks a column of the first.
    """

    def tables() -> Iterator[Table]:
        for name in names:
            file = path / name
            check_link(path, file)
            table = read_table(file, spec, mistakes)
            mistakes.check()
            yield table

    places = Places(str(path), names=[str(path / name) for name in names])
    return recordings_table(tables(), places, "a folder of tables", spec, mistakes), list(names)


def tables_in_memory(source: Any, name: str) -> tuple[list[Any], list[str]] | None:
    """(frames, what each is called) of a list or a dict of frames of pandas, polars or Arrow; None of all else."""
    named = isinstance(source, Mapping)
    items = list(source.values()) if named else list(source) if isinstance(source, (list, tuple)) else []
    if not items or not all(hasattr(item, "__arrow_c_stream__") and hasattr(item, "columns") for item in items):
        return None
    return items, [str(key) for key in source] if named else [f"{name}[{i}]" for i in range(len(items))]


def recordings_table(
    tables: Iterable[Table], places: Places, written: str, spec: LayoutSpec, mistakes: Mistakes
) -> Table:
    """A table of a row for each recording, whose cells are its channels: its columns of numbers, in the order of its
    time. A column of texts with one value in each recording is a column of these.

    Raises: BadInput naming a recording that lacks a column of the first.
    """
    names = places.names or ()
    rows: list[dict[str, np.ndarray]] = []
    texts: dict[str, list[str | None]] = {}
    channels: list[str] = []
    steps: list[float] = []
    before: list[float] = []
    evens: list[float] = []
    labels: dict[str, list[np.ndarray]] = {}
    unit: float | None = None
    notes: list[str] = []
    others: list[Column] = []
    time, cells, timeless = None, 0, 0
    for number, table in enumerate(tables):
        if number == 0:
            time = clock_of(table, spec)
            _check_one_clock(table, spec, time)
            channels = channels_of(table, spec, time)
            notes += table.notes
            others = [c for c in table.columns.values() if c.type == "text" and not Ordered(c).never_falls]
        lost = [column for column in [*channels, *([time] if time else [])] if column not in table.columns]
        if lost:
            raise BadInput(
                f"{names[number]}: has no column {first_few(list(map(repr, lost)), 3)}, which {names[0]} has; give all "
                f"recordings the same columns, or name with {option('values')} those that all have"
            )
        order, times = in_time_order(table, time)
        timeless += table.rows - len(order)
        step = float(np.median(np.diff(times))) if len(times) > 1 else float("nan")
        before.append(step)
        if time is not None and step == 0 and (isinstance(spec.window, str) or spec.rate):
            way = as_they_come(table.columns[time], times, spec)
            raise BadInput(
                f"{names[number]}: most rows have the {time!r} of the row before; {way} takes rows as they come"
            )
        unit = seconds_in(table.columns[time], times, spec) if time is not None and number == 0 else unit
        read = Cells(table.places, frozenset(spec.na), "." if table.decimal == "auto" else table.decimal)
        rows.append({channel: read.numbers(table.columns[channel])[order] for channel in channels})
        read.report(mistakes, notes)
        at = np.arange(len(order))
        if spec.rate is not None and time is not None:
            if unit is None:
                raise ask_unit(table.places.source, time, times)
            stacked = np.stack(list(rows[-1].values()), 1)
            ends = np.array([0, len(order)])
            grid, _, at = on_clock(table.places.source, stacked, ends, times * unit, spec.rate)
            rows[-1] = dict(zip(rows[-1], grid.T, strict=True))
            step = 1 / (spec.rate * unit)
        steps.append(step)
        evens.append(float(equal_steps(times, np.array([0, len(times)]), np.array([step]))[0]) if len(times) else 0.0)
        for column in table.columns.values() if spec.window is not None else ():
            named = column.name == spec.target if spec.target else by_role("target", [column.name])
            if column.name not in (*channels, time) and (named or (not spec.target and column.type == "text")):
                words = np.array([word or "" for word in column.words], dtype=object)[order][at]
                labels.setdefault(column.name, []).append(words)
        for column in table.columns.values():
            label = is_constant(column, spec)
            words = {word for word in column.words if word} if column.type == "text" or label else set()
            if len(words) == 1 and (label or column.name not in channels):
                texts.setdefault(column.name, [None] * len(names))[number] = words.pop()
        cells += table.rows * len(channels)
        if cells > MOST_CELLS:
            raise BadInput(f"{places.source}: holds more than {MOST_CELLS:,} values; give fewer or shorter recordings")
    mistakes.check()
    bare = [c for c in channels if not spec.values and all(np.isnan(row[c]).all() for row in rows)]
    channels = [channel for channel in channels if channel not in bare] or channels
    if len(bare) < len(rows[0]) and bare:
        notes.append(f"columns without a number in any recording are left out: {first_few(list(map(repr, bare)), 3)}")
    again = {note: counted(n - 1, "more recording", "more recordings") for note, n in Counter(notes).items() if n > 1}
    notes = [f"{note}, and so in {again[note]}" if note in again else note for note in dict.fromkeys(notes)]
    if timeless:
        untimed = counted(timeless, "row is", "rows are")
        notes.append(f"{untimed} left out: no {time!r}, above the first or below the last row that has one")
    written += f", each a recording{f' in the order of {time!r}' if time else ''}"
    whole = Table({}, len(rows), places, written, shape="list", notes=list(notes))
    for channel in channels:
        whole.columns[channel] = list_column(channel, [row[channel] for row in rows], places)
    for name, constant in texts.items():
        if name in channels and None in constant:
            continue
        whole.columns[name] = Column(name, "text", arrow_texts(constant))
    for name, each in labels.items():
        if len(each) == len(rows) and (name not in texts or any(len(set(words)) > 1 for words in each)):
            ends = np.concatenate([[0], np.cumsum([len(words) for words in each])])
            flat = [word for words in each for word in words.tolist()]
            whole.columns[name] = Column(name, "list", arrow_lists(flat, ends))
    if left := [repr(c.name) for c in others if c.name not in (*channels, *whole.columns, time)]:
        way = "" if spec.optional else f"; {option('window', '100')} may take them as labels of windows"
        whole.notes.append(f"texts that change within a recording are not read: {first_few(left, 3)}{way}")
    if spec.rate is not None and time is not None:
        whole.made[STEP_BEFORE] = np.array(before)
    positive = np.array([step for step in steps if np.isfinite(step) and step > 0])
    whole.clock, whole.time_axis = time, spec.time_axis
    whole.steps, whole.unit = (np.array(steps), unit) if len(positive) == len(steps) else (None, None)
    if time is not None and spec.rate is None and not spec.optional:
        check_one_rate(places.source, names, np.array(steps), np.array(evens), (time, unit))
    if len(positive) and positive.max() > (1 + NEAR_STEPS) * positive.min():
        span = " to ".join(map(step_words, (positive.min(), positive.max())))
        whole.notes.append(f"recordings have different steps of {time!r} ({span}): only the order is used")
    return whole


def is_one_recording(path: Path, table: Table, spec: LayoutSpec) -> bool:
    """Whether a table is read as a folder of it: it is a curve, or the layout is that of a folder of tables, and its
    columns hold numbers where cells of others hold whole sequences."""
    if table.written == CURVE:
        return True
    columns = [table.columns.get(name) for name in spec.values]
    numbers = all(column is not None and _of_numbers(column) for column in columns)
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    table_alone = is_recording_table(path.name) or format_by(ending, b"", lambda _: None) == "csv"
    if spec.optional and spec.shape == "list" and spec.time_axis == "second":
        return table_alone
    return spec.optional and spec.shape == "list" and bool(columns) and numbers and table_alone


def _of_numbers(column: Column) -> bool:
    """Whether cells are a number each, with a decimal comma, too, which nobody looks for where cells hold lists."""
    there = [word.strip() for word in column.top if word and word.strip()] if column.type == "text" else []
    commas = len(there) > 2 and all(is_number(word, ",") or word.lower() == "nan" for word in there)
    return column.type in ("number", "empty") or commas


def one_recording(path: Path, table: Table, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The table of a file, or of one row where that is one recording."""
    if not is_one_recording(path, table, spec):
        return table
    whole, names = folder_of_tables(path.parent, [path.name], spec, mistakes)
    whole.columns["file"] = Column("file", "text", arrow_texts(names))
    return whole


def clock_of(table: Table, spec: LayoutSpec) -> str | None:
    """The column that orders the rows of a recording: the one that was set, or one that counts on from row to row."""
    if spec.time is not None:
        if spec.time:
            table.column(spec.time, "time")
        return spec.time or None
    mark = "," if table.decimal == "," else "."
    clocks = [Ordered(column, mark) for column in table.columns.values() if column.type in ("number", "text", "time")]
    clocks = [clock for clock in clocks if clock.never_falls and (clock_name(clock.name) or clock.even)]
    return next((clock.name for clock in sorted(clocks, key=lambda clock: clock_rank(clock.name))), None)


def is_constant(column: Column, spec: LayoutSpec) -> bool:
    """Whether a column of numbers of one recording was set as its label or group, and holds one value in all rows."""
    asked = column.type == "number" and column.name in (spec.target, spec.group) and column.name not in spec.values
    return asked and len(set(column.words)) == 1 and spec.window is None and not spec.per_position


def _check_one_clock(table: Table, spec: LayoutSpec, time: str | None) -> None:
    """Raises: BadInput where a second clock runs beside that which orders the rows, as two sensors have: a row is
    no one time. Clocks whose steps are one and the other in another unit are the same."""
    if time is None or spec.time is not None or spec.optional or spec.values:
        return
    mark = "," if table.decimal == "," else "."
    columns = list(table.columns.values())
    clocks = [Ordered(column, mark) for column in columns if clock_rank(column.name) == 0]
    question = ask_clock(table.places.source, columns, clocks, time, np.arange(table.rows), {})
    if question is not None:
        raise question


def channels_of(table: Table, spec: LayoutSpec, time: str | None) -> list[str]:
    """The columns of the first recording that are its channels. Raises: BadInput where there is none."""
    names = list(table.columns)
    if spec.values:
        out: list[str] = []
        for value in spec.values:
            matched = matching(value, names) if "*" in value and value not in names else [value]
            if not matched or matched[0] not in names:
                raise BadInput(
                    f"{table.places.source}: {field_name('values')}: no column "
                    f"{nearest(value, names).removeprefix('no ')}"
                )
            out += matched
        return out
    mark = "," if table.decimal == "," else "."
    unnamed = (column for column in table.columns.values() if column.type == "empty" and column.name[:7] == "column ")
    empty = {column.name for column in unnamed} if table.header else set()  # a mark at the begin or end of each line
    numbers = [c for c in table.columns.values() if c.type in ("number", "empty") and c.name not in empty]
    columns = [Ordered(column, mark) for column in numbers]
    counters = {
        c.name
        for c in columns
        if c.counts_rows
        and (counter_name(c.name) or c.name.startswith(("column 1", "Unnamed")) or not WORDS.search(c.name))
        and not (c.name.isdecimal() and not table.header)
    }
    out = [
        column.name
        for column in columns
        if column.name != time and column.name not in counters and not (clock_name(column.name) and column.never_falls)
    ]
    if not out:
        raise BadInput(
            f"{table.places.source}: no column of numbers holds a sequence (columns: "
            f"{first_few(list(map(repr, names)), 8)}); name some with {option('values')}"
        )
    return out
