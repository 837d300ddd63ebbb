"""Recordings side by side in one table, each with a clock of its own: `Run 1: Time, Run 1: Force, Run 2: Time, ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headstart.data.folder_tables import recordings_table
from headstart.data.layout import LayoutSpec
from headstart.data.order import Ordered, axis_name, clock_name
from headstart.data.table import Column, Table, arrow_texts
from headstart.errors import Mistakes, Places
from headstart.text import first_few

_TOKENS = re.compile(r"\d+|[^\W\d_]+|[\W_]")
_JOINTS = " :._-,;/|"
MOST_PAIRED = 100_000
"""Columns of which some may be clocks of runs."""


@dataclass(frozen=True)
class SideRun:
    """The columns of one recording, its clock first, by the names that all runs have for them."""

    name: str
    columns: dict[str, Column]


def told_apart(header: Sequence[str], above: Sequence[Sequence[str]]) -> list[str]:
    """Names of columns of which some are there twice, told apart by the lines above, the nearest last.

    Names that come again in one order are those of runs, `Blank: Time` or `1: Time`. Others have the last cell of the
    line above that stands over them before their name, `nose x` below `nose,,,tail`. Others stay as they are.
    """
    names = named_by_run(header, above[-1] if above else [])
    for line in reversed(above):
        if len(set(names)) == len(names) or not _heads_several(line, names):
            break
        over, cells = "", []
        for cell in [*line, *[""] * len(names)][: len(names)]:
            over = cell.strip() or over
            cells.append(over)
        names = [f"{cell} {name}".strip() for cell, name in zip(cells, names, strict=True)]
    return names if len(set(names)) == len(names) else list(header)


def _heads_several(line: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a line above names groups of columns."""
    there = [cell for cell in line if cell.strip()]
    return abs(len(line) - len(names)) <= 1 and len(there) > 1 and not any(cell.isdecimal() for cell in there)


def named_by_run(header: Sequence[str], above: Sequence[str]) -> list[str]:
    """Names of columns that come again in the same order, each with its run before it: `Blank: Time`, where the line
    above the header names the runs, else `1: Time`. Other names as they are."""
    header = [name.strip() for name in header]
    width = next((k for k in range(2, len(header) // 2 + 1) if header[k] == header[0]), 0)
    count = len(header) // width if width else 0
    if count < 2 or header != header[:width] * count or len(set(header[:width])) < width:
        return header
    if "" in header[:width]:
        return header
    names = [above[k].strip() for k in range(0, len(header), width) if k < len(above)]
    if len(set(names)) < count or "" in names:
        names = [str(i + 1) for i in range(count)]
    return [f"{names[k // width]}: {name}" for k, name in enumerate(header)]


def runs_of(table: Table, spec: LayoutSpec) -> list[SideRun]:
    """The recordings of a table in which a clock of its own stands before the channels of each; none of other tables.

    Names of a clock and its channels have what tells the run in common, and are the same in each run without it.
    """
    if table.shape is not None or not table.header or not 1 < len(table.columns) <= MOST_PAIRED:
        return []
    types = {name: column.type for name, column in table.columns.items() if column.type != "empty"}
    heads = [k for k, (name, kind) in enumerate(types.items()) if kind == "number" and _heads(name)]
    if len(types) < 2 or not heads or heads[0] != 0 or set(types.values()) != {"number"}:
        return []
    columns = [table.columns[name] for name in types]
    called = _of_one([column.name for column in columns], spec)
    width = len(columns)
    if called is None:
        widths = [k for k in heads[1:] if len(columns) % k == 0 and set(range(0, len(columns), k)) <= set(heads)]
        width = next((k for k in widths if k > 1), 0)
        called = _parted([[column.name for column in columns[k::width]] for k in range(width)]) if width else None
    if called is None:
        return []
    keys, channels = called
    out = []
    for i, key in enumerate(keys):
        block = [_there(column) for column in columns[i * width : (i + 1) * width]]
        clock = Ordered(block[0], "," if table.decimal == "," else ".")
        if not clock.never_falls:
            return []
        length = len(block[0].data)
        cut = {name: replace(c, name=name, data=c.data[:length]) for name, c in zip(channels, block, strict=True)}
        out.append(SideRun(key, cut))
    return out


def _heads(name: str) -> bool:
    """Whether a column may be the clock before the channels of a run, by its name."""
    return clock_name(name) or axis_name(name)


def _there(column: Column) -> Column:
    """A column up to its last cell that is not empty."""
    words = column.words
    count = next((i for i in range(len(words), 0, -1) if (words[i - 1] or "").strip()), 0)
    return column if count == len(words) else Column(column.name, column.type, column.data[:count])


def _parted(names: Sequence[Sequence[str]]) -> tuple[list[str], list[str]] | None:
    """(what each run is called, what each of its columns is called) of the names of a column in each run; None where
    they do not differ alike in one part."""
    parts = [_split(cells) for cells in names]
    keys = parts[0][1]
    if len(set(keys)) < len(keys) or "" in keys or any(other != keys for _, other, _ in parts):
        return None
    fronts, backs = [front for front, _, _ in parts], [back for _, _, back in parts]
    shared = _common(fronts)
    channels = [
        "".join([*front[len(shared) :], *back]).strip(_JOINTS) for front, back in zip(fronts, backs, strict=True)
    ]
    front = "".join(shared)
    if len(set(channels)) < len(channels) or "" in channels:
        return None
    return [f"{front}{key}".strip(_JOINTS) for key in keys], channels


def _split(names: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """(the words that all names begin with, what tells each apart, the words that all end with)."""
    words = [_TOKENS.findall(name) for name in names]
    front = _common(words)
    rest = [each[len(front) :] for each in words]
    back = _common([each[::-1] for each in rest])[::-1]
    return front, ["".join(each[: len(each) - len(back)]) for each in rest], back


def _common(rows: Sequence[Sequence[str]]) -> list[str]:
    """The items with which all rows begin."""
    out = []
    for items in zip(*rows, strict=False):
        if len(set(items)) > 1:
            break
        out.append(items[0])
    return out


def _of_one(names: Sequence[str], spec: LayoutSpec) -> tuple[list[str], list[str]] | None:
    """As `_parted`, of one run alone, by the names that the channels of other files had."""
    if not spec.optional or not spec.values:
        return None
    ends = {value: name for value in spec.values for name in names[1:] if value in name}
    if len(ends) < len(spec.values) or len(ends) < len(names) - 1:
        return None
    first, name = next(iter(ends.items()))
    rest = name.replace(first, "")
    clock = (names[0].replace(rest, "") if rest else names[0]).strip(_JOINTS)
    return [rest.strip(_JOINTS) or "1"], [clock or names[0], *ends]


def runs_table(table: Table, runs: Sequence[SideRun], spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A table of a row for each run, whose cells are its channels."""
    names = [run.name for run in runs]
    source = table.places.source
    places = Places(source, names=[f"{source} {name!r}" for name in names])

    def tables() -> Iterator[Table]:
        for run, name in zip(runs, places.names or (), strict=True):
            rows = len(next(iter(run.columns.values())).data)
            yield replace(table, columns=run.columns, rows=rows, places=Places(name), notes=[], shape=None)

    time, *channels = runs[0].columns
    written = f"{table.written}, {len(runs):,} recordings side by side"
    own = spec.model_copy(update={"time": time if spec.time is None else spec.time})
    whole = recordings_table(tables(), places, written, own, mistakes)
    whole.notes[:0] = [
        *table.notes,
        f"each {time!r} begins a recording of {first_few(list(map(repr, channels)), 3)}: {first_few(names, 3)}",
    ]
    whole.columns["run"] = Column("run", "text", arrow_texts(names))
    whole.roles["id"] = "run"
    return whole
