"""Tables of a row for each value, whose channel a column names: `time, tag, value`, as historians write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from headstart.data.layout import GROUP_NAMES, IDS, LayoutSpec, by_role, plain
from headstart.data.order import Ordered, clock_name
from headstart.data.table import Column, Table
from headstart.errors import BadInput
from headstart.text import counted, first_few
from headstart.ways import option

# fmt: off
TAGS = frozenset(("tag", "tagname", "tagid", "varname", "variable", "variablename", "channel", "channelname", "chan",
    "channelid", "sensor", "sensorname", "sensorid", "metric", "metricname", "field", "parameter", "parametername",
    "param", "signal", "signalname", "point", "pointname", "pointid", "measure", "attribute", "item", "itemid",
    "itemname", "quantity", "datastream", "nodeid", "kanal", "messstelle", "axis"))
VALUE_NAMES = ("value", "varvalue", "val", "reading", "values", "wert", "vvalue", "measurement")
# fmt: on
SHARED = 0.05
"""Share of rows at times that another channel has too, from which on sequences are none of its own."""
MOST_TAGS = 1_000
"""Channels that a column may name."""


def in_channels(table: Table, spec: LayoutSpec) -> Table:
    """The table with a column for each channel and a row for each time, where a column names channels and one other
    column has their values; else as it is.

    Each channel has one value at a time of an id. What is one in each row is kept, and what is not, such as a quality,
    is left out.
    """
    if table.shape is not None or spec.shape not in ("auto", "long") or table.rows < 2:
        return table
    columns = table.columns
    if {"Field 1", "Value 1", "Message"} <= {*columns} and not spec.values:
        file = Path(table.places.source)
        raise BadInput(
            f"{file}: 'Field 1' names in each row what 'Value 1' holds, as FitCSVTool writes; with "
            f"its options --data record it writes {file.stem}_data.csv, a column for each, which is read"
        )
    named = {spec.id, spec.target, spec.group}
    tag = next((c for c in columns.values() if _names_channels(c) and c.name not in named), None)
    if tag is None or any(name in columns for name in spec.values):
        return table
    codes, kinds = tag.coded
    value = _values(table, tag)
    clocks = [spec.time] if spec.time in columns else _clocks(table, tag, value)
    for time in clocks if value is not None else []:
        keys = _keys(table, str(time), tag, value, spec)
        if keys is not None and _is_pivot(keys, codes, table, tag):
            return _turned(table, str(time), tag, value, keys, codes, kinds)
    return table


def names_tags(names: Iterable[str]) -> bool:
    """Whether one of the columns has the name of one that names channels."""
    return any(plain(name) in TAGS or name in ("__name__", "Field 1") for name in names)


def _names_channels(column: Column) -> bool:
    named = names_tags([column.name])
    whole = column.type == "text" or (column.type == "number" and column.whole)
    return named and whole and 1 < len(column.coded[1]) <= MOST_TAGS and all(column.coded[1])


def _values(table: Table, tag: Column) -> Column | None:
    """The one column of numbers that are values: by its name, or as no other changes within a channel."""
    numbers = [c for c in table.columns.values() if c.type == "number" and c is not tag and not clock_name(c.name)]
    chosen = [c for c in numbers if plain(c.name) in VALUE_NAMES]
    chosen = chosen[: 1 if all(c.words == chosen[0].words for c in chosen) else None]  # Value and vValue
    free = [c for c in numbers if not Ordered(c).one_within(tag.coded[0]) and not by_role("id", [c.name])]
    return chosen[0] if len(chosen) == 1 else free[0] if len(free) == 1 else None


def _clocks(table: Table, tag: Column, value: Column | None) -> list[str]:
    names = by_role("time", table.columns)
    names += [name for name in table.columns if clock_name(name) and name not in names]
    return [name for name in names if table.columns[name] not in (tag, value) and len(table.columns[name].coded[1]) > 1]


def _keys(table: Table, time: str, tag: Column, value: Column | None, spec: LayoutSpec) -> np.ndarray | None:
    """(n,) number of each row's time and id, by as few columns as make each channel have one value there."""
    codes = np.unique(table.columns[time].coded[0], return_inverse=True)[1]
    names = [c for c in table.columns.values() if c.name != time and c is not tag and c is not value]
    names = [c for c in names if c.name == spec.id or plain(c.name) in IDS or plain(c.name) in GROUP_NAMES] + [
        c for c in names if c.type == "text" and plain(c.name) not in (*IDS, *GROUP_NAMES)
    ]
    for column in [None, *names]:
        if column is not None:
            codes = np.unique(np.stack([codes, column.coded[0]]), axis=1, return_inverse=True)[1].reshape(-1)
        both = codes.astype(np.int64) * len(tag.coded[1]) + tag.coded[0]
        if len(np.unique(both)) == len(both):
            return codes
    return None


def _is_pivot(keys: np.ndarray, codes: np.ndarray, table: Table, tag: Column) -> bool:
    """Whether channels share times or take turns, and no label is that of a channel, which would make it a sequence."""
    labels = [table.columns[name] for name in by_role("target", table.columns) if name != tag.name]
    if any(len(label.coded[1]) > 1 and Ordered(label).one_within(codes) for label in labels):
        return False
    shared = len(keys) - len(np.unique(keys))
    turns = 1 + int((np.diff(codes) != 0).sum())
    return shared >= SHARED * len(keys) or turns > 2 * len(tag.coded[1])


def _turned(
    table: Table, time: str, tag: Column, value: Column | None, keys: np.ndarray, codes: np.ndarray, kinds: list[str]
) -> Table:
    import pyarrow as pa

    first, group = np.unique(keys, return_index=True)[1], np.unique(keys, return_inverse=True)[1]
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    rows, at = first[order], rank[group]
    columns: dict[str, Column] = {}
    left_out = []
    for column in table.columns.values():
        if column is tag or column is value:
            continue
        roles = [role for role in ("target", "id", "group") if by_role(role, [column.name])]
        flag = column.type == "number" and not roles
        lost = flag or column.type in ("empty", "list", "other") or not Ordered(column).one_within(at)
        if column.name != time and (lost or (Ordered(column).one_within(codes) and len(column.coded[1]) > 1)):
            left_out.append(repr(column.name))
        else:
            columns[column.name] = replace(column, data=column.data.take(pa.array(rows.tolist())))
    assert value is not None
    for code, kind in enumerate(kinds):
        name = kind if tag.type == "text" else f"{tag.name} {kind}"
        name = name if name not in columns else f"{tag.name} {name}"
        picked: list[int | None] = [None] * len(rows)
        for row in np.flatnonzero(codes == code).tolist():
            picked[at[row]] = row
        columns[name] = Column(name, "number", value.data.take(pa.array(picked, type=pa.int64())))
    rest = f"; not used: {first_few(left_out, 5)}" if left_out else ""
    alone = len(rows) == len(table.columns[time].coded[1])  # no other column tells sequences
    way = f" ({option('id', tag.name)}: each is a sequence)" if alone else ""
    note = (
        f"{tag.name!r} names {len(kinds):,} channels, whose values are in {value.name!r}: each is a column{way}{rest}"
    )
    gaps = len(rows) * len(kinds) - table.rows
    if gaps:
        way = f"{option('rate')} brings them onto one clock"
        note += f"; {counted(gaps, 'value is', 'values are')} missing, at times that other channels have ({way})"
    return replace(table, columns=columns, rows=len(rows), places=table.places.take(rows), notes=[*table.notes, note])
