"""Sensors of one recording that have a clock each: in files of their own, or behind each other in one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from headstart.data.clock import NO_TIMES, TIME_UNITS, ask_unit, seconds_in, step_words
from headstart.data.layout import LayoutSpec
from headstart.data.order import Ordered, clock_name
from headstart.data.table import Cells, Column, Table, arrow_numbers, arrow_texts
from headstart.data.times import dated
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few, listed
from headstart.ways import option

MOST_UNLIKE_SPANS = 10
"""Times that one clock of a recording runs longer than another from which on they count other units."""
SENSOR_CLOCK = re.compile(
    r"^(time|timestamp|t|x)\s*[\[(](n|u|µ|m)?s[\])]$|^time(stamp)?$|^x[_ ]values?$", re.IGNORECASE
)
"""Names of the clock of a sensor, as exports have it beside each."""


@dataclass(frozen=True)
class SensorTable:
    """What one sensor of a recording wrote, in the order of its clock. times: (n,) of its clock, empty without one.
    unit: seconds of a unit of these. columns: (n,) each. words: what stands in all rows."""

    clock: str | None
    times: np.ndarray
    unit: float | None
    columns: Mapping[str, np.ndarray]
    words: Mapping[str, str]

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return len(next(iter(self.columns.values())))

    @property
    def step(self) -> float:
        """The usual step of its clock."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else float("nan")


def numbered_clocks(names: Sequence[str]) -> list[str]:
    """The names of columns, the first of which is a clock that stands before each sensor, with a number behind each
    further one: `X[s] 2`; the names as they are where one has no column behind it."""
    at = [k for k, name in enumerate(names) if name == names[0]]
    if not SENSOR_CLOCK.match(names[0]) or any(end - begin < 2 for begin, end in pairwise([*at, len(names)])):
        return list(names)
    return [f"{name} {at.index(k) + 1}" if k in at[1:] else name for k, name in enumerate(names)]


def clocks_of(table: Table) -> list[str]:
    """The columns that are a clock each of those behind it up to the next one; none where these are not several."""
    names = list(table.columns)
    first = names[0] if names else ""
    clocks = [name for name in names if name == first or re.fullmatch(re.escape(first) + r" \d+", name)]
    if len(clocks) > 1 and SENSOR_CLOCK.match(first):
        return clocks
    days = [c for c in table.columns.values() if SENSOR_CLOCK.match(c.name.rpartition(": ")[2])]
    days = [c for c in days if c.name != c.name.rpartition(": ")[2] and (c.type == "time" or dated(c.top))]
    return [c.name for c in days] if len(days) > 1 and days[0].name == first else []


def on_one_clock(table: Table, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The table with one clock and all channels, where several columns are clocks; else as it is.

    Raises: BadInput where these differ and no rate is set.
    """
    clocks = clocks_of(table) if table.shape is None and table.header else []
    if not clocks:
        return table
    names = list(table.columns)
    sensors: dict[str, SensorTable] = {}
    for begin, end in pairwise([*map(names.index, clocks), len(names)]):
        channels = [name for name in names[begin + 1 : end] if table.columns[name].type == "number"]
        words = table.columns[names[begin]].words
        rows = next((i for i in range(len(words), 0, -1) if (words[i - 1] or "").strip()), 0)
        own = {name: replace(c, data=c.data[:rows]) for name in names[begin:end] if (c := table.columns[name])}
        if channels and rows:
            part = replace(table, columns=own, rows=rows)
            sensors[channels[0]] = sensor_table(part, names[begin], channels, spec, mistakes)
    mistakes.check()
    if len(sensors) < 2:
        return table
    whole = joined(table.places.source, sensors, spec)
    note = f"each of {first_few(list(map(repr, clocks)), 3)} is the clock of the columns behind it, of one recording"
    made = replace(table, columns=whole.columns, rows=whole.rows, places=whole.places)
    return replace(made, decimal="auto", notes=[*table.notes, note])


def sensor_table(
    table: Table, clock: str | None, channels: Sequence[str], spec: LayoutSpec, mistakes: Mistakes
) -> SensorTable:
    """What one sensor wrote into these columns, in the order of its clock."""
    times, order = NO_TIMES, np.arange(table.rows)
    if clock is not None:
        order, times = in_time_order(table, clock)
    cells = Cells(table.places, frozenset(spec.na), "." if table.decimal == "auto" else table.decimal)
    columns = {channel: cells.numbers(table.columns[channel])[order] for channel in channels}
    cells.report(mistakes, [])
    mistakes.check()
    unit = seconds_in(table.columns[clock], times, spec) if clock is not None else None
    return SensorTable(clock, times, unit, columns, {})


def in_time_order(table: Table, time: str | None) -> tuple[np.ndarray, np.ndarray]:
    """(the rows in the order of time, the times in this order; none of these without a clock).

    A row without a time lies between those above and below it; where none above, or none below it has a time, as in
    what a device writes before its first reading, it is in neither.
    """
    if time is None:
        return np.arange(table.rows), NO_TIMES
    values = Ordered(table.columns[time], "," if table.decimal == "," else ".").values
    if values is None:
        raise BadInput(
            f"{table.places.source}: {time!r} holds no times; correct it, or give {option('time', '')} to take rows as "
            "they come"
        )
    rows = np.arange(len(values))
    if len(values) > 1 and (values[0] == values[1] or values[-1] == values[-2]):  # as where nothing stands at an end
        there = np.flatnonzero([bool(word and word.strip()) for word in table.columns[time].words])
        rows = rows[there[0] : there[-1] + 1]
    order = rows[np.argsort(values[rows], kind="stable")]
    return order, values[order]


def joined(recording: object, sensors: Mapping[str, SensorTable], spec: LayoutSpec) -> Table:
    """The sensors of one recording side by side, or, where their clocks differ, one below the other with gaps."""
    sensors = _in_one_unit(recording, sensors)
    tables = list(sensors.values())
    counts = {table.rows for table in tables}
    timed = [table for table in tables if len(table.times)]
    columns: dict[str, np.ndarray] = {}
    if len(counts) == 1 and all(_alike(timed[0], table) for table in timed):
        times = timed[0].times if timed else NO_TIMES
        columns = {name: x for own in tables for name, x in own.columns.items()}
    elif len(timed) < len(tables):
        rows = listed([f"{table.rows:,} of {sensor!r}" for sensor, table in sensors.items()])
        raise BadInput(
            f"{recording}: its sensors have unequal numbers of rows ({rows}), and not all have a column of times, so "
            "that nothing tells which rows belong together; add one to each file"
        )
    else:
        _check_clocks(recording, sensors, spec)
        every = np.concatenate([table.times for table in tables])
        again = any(len(np.unique(table.times)) < table.rows for table in tables)
        times = np.sort(every) if again else np.unique(every)
        at = np.argsort(np.argsort(every, kind="stable")) if again else np.searchsorted(times, every)
        for table in tables:
            for name, x in table.columns.items():
                columns[name] = np.full(len(times), np.nan)
                columns[name][at[: table.rows]] = x
            at = at[table.rows :]
    length = len(next(iter(columns.values())))
    clock = timed[0].clock if timed else None
    unit = next((name for name, seconds in TIME_UNITS.items() if timed and seconds == timed[0].unit), "")
    clock = clock if clock is None or clock == spec.time or clock_name(clock) else "time"  # as it is looked for again
    made = {clock: Column(clock, "number", arrow_numbers(times), unit)} if clock is not None else {}
    made |= {name: Column(name, "number", arrow_numbers(x)) for name, x in columns.items()}
    words = {name: word for table in tables for name, word in table.words.items() if name not in made}
    made |= {name: Column(name, "text", arrow_texts([word] * length)) for name, word in words.items()}
    return Table(made, length, Places(str(recording)), "a table for each sensor")


def _in_one_unit(recording: object, sensors: Mapping[str, SensorTable]) -> dict[str, SensorTable]:
    """The sensors with the times of all in the unit of the first clock. Raises: BadInput where a unit is not known of
    all, and those that are known, or the spans of the clocks, differ."""
    timed = {sensor: table for sensor, table in sensors.items() if len(table.times)}
    units = {table.unit for table in timed.values()}
    seconds = [unit for unit in units if unit is not None]
    spans = [float(np.ptp(table.times)) for table in timed.values()]
    if None in units and seconds and (len(seconds) > 1 or max(spans) > MOST_UNLIKE_SPANS * min(spans)):
        clocks = listed([f"{table.clock!r} of {sensor!r}" for sensor, table in timed.items()])
        raise BadInput(
            f"{recording}: not all clocks of its sensors say their unit ({clocks}); write it into the names of these "
            "columns, such as time_ms"
        )
    if len(seconds) < 2:
        return dict(sensors)
    first = next(iter(timed.values())).unit or 1.0
    return {
        sensor: replace(table, times=table.times * (table.unit / first), unit=first) if table.unit else table
        for sensor, table in sensors.items()
    }


def _alike(first: SensorTable, other: SensorTable) -> bool:
    """Whether two clocks show the same times, to half a step."""
    return len(first.times) == len(other.times) and bool((np.abs(first.times - other.times) <= first.step / 2).all())


def _check_clocks(recording: object, sensors: Mapping[str, SensorTable], spec: LayoutSpec) -> None:
    """Raises: BadInput where no rate is set that brings all sensors onto one clock, or their times share no span."""
    tables = list(sensors.values())
    begin, end = max(table.times.min() for table in tables), min(table.times.max() for table in tables)
    steps = listed([f"{step_words(table.step)} in {sensor!r}" for sensor, table in sensors.items()])
    if begin >= end:
        raise BadInput(
            f"{recording}: the times of its sensors share no span; write times of one clock into all of its files"
        )
    fastest = min(tables, key=lambda table: table.step)
    if spec.rate is None:
        if fastest.unit is None:
            raise ask_unit(str(recording), str(fastest.clock), fastest.times)
        rate = option("rate", f"{1 / (fastest.step * fastest.unit):.6g}")
        raise BadInput(
            f"{recording}: its sensors have clocks of their own (steps of {steps}); {rate} brings all onto one clock"
        )
