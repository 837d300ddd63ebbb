"""Recordings whose sensors have a file each: `walk_acc.csv` and `walk_gyro.csv`, or folders `acc` and `gyro`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headstart.data.archives import check_link
from headstart.data.clock import NO_TIMES, TIME_UNITS, ask_unit, seconds_in, step_words
from headstart.data.folder_tables import (
    channels_of,
    clock_of,
    in_time_order,
    is_constant,
    read_table,
    recordings_table,
)
from headstart.data.layout import LayoutSpec
from headstart.data.order import clock_name
from headstart.data.table import Cells, Column, Table, arrow_numbers, arrow_texts
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few, listed
from headstart.ways import option

# fmt: off
SENSORS = frozenset(("acc", "accel", "accelerometer", "acceleration", "gyr", "gyro", "gyroscope", "mag", "magn",
    "magnetometer", "baro", "barometer", "ecg", "eeg", "emg", "eog", "eda", "gsr", "bvp", "ppg", "hr", "resp",
    "temp", "temperature", "gps", "imu"))
# fmt: on
"""Words for a sensor in names of files and folders."""
MOST_UNLIKE_SPANS = 10
"""Times that one clock of a recording runs longer than another from which on they count other units."""
_JOINTS = re.compile(r"([_\s.\-/]+)")


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


def sensors_of(source: Path, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The files of each recording by sensor, by the name of the recording; none where names name no sensors, or each
    recording has one alone. Raises: BadInput where a recording lacks a sensor that others have."""
    out: dict[str, dict[str, str]] = {}
    others: list[str] = []
    again: list[tuple[str, str, str]] = []
    own_names = True  # tags.csv may stand beside acc.csv and hr.csv of a person's folder
    for name in sorted(names):
        stem, ending = os.path.splitext(name)
        parts = _JOINTS.split(stem)
        at = [k for k in range(0, len(parts), 2) if parts[k].lower() in SENSORS]
        if len(at) != 1:
            others.append(name)
            continue
        own_names &= os.path.basename(stem).lower() in SENSORS
        rest = parts[: max(at[0] - 1, 0)] + parts[at[0] + 1 + (at[0] == 0) :]
        sensor = parts[at[0]].lower()
        if (other := out.setdefault("".join(rest) + ending, {}).setdefault(sensor, name)) != name:
            again.append((other, name, sensor))
    sensors = dict.fromkeys(sensor for own in out.values() for sensor in own)
    if others and not (own_names and 2 * len(others) <= len(names)):
        return {}
    several = sum(len(own) > 1 for own in out.values())
    if 2 * several < len(out) or not all(os.path.splitext(key)[0] for key in out):
        return {}
    for other, name, sensor in again:
        raise BadInput(
            f"{source}: {other!r} and {name!r} are both files of {sensor!r} of one recording, by their names; name all "
            "files alike, such as left_1_acc.csv and right_1_acc.csv"
        )
    axes = {part.lower() for key in out for part in _JOINTS.split(os.path.splitext(key)[0])[::2]} & {*"xyz"}
    if len(axes) == 3:
        raise BadInput(
            f"{source}: files such as {listed([repr(name) for name in sorted(names)[:2]])} hold an axis of a sensor "
            "each, and are not joined; write all channels of a recording into one file, or, where rows are sequences, "
            "all files into one array: numpy.savez('all.npz', X=numpy.stack([numpy.loadtxt(f) for f in files], 2), y=y)"
        )
    for key, own in out.items():
        if lost := [sensor for sensor in sensors if sensor not in own]:
            whole = next(other for other in out.values() if lost[0] in other)
            raise BadInput(
                f"{source}: {next(iter(own.values()))!r} has no file of {lost[0]!r} beside it, which other recordings "
                f"have ({first_few([repr(name) for name in whole.values()], 3)}); add it, or leave the recording out"
            )
        out[key] = {sensor: own[sensor] for sensor in sensors}
    return out


def refuse_sensors(path: Path, sensors: Mapping[str, Mapping[str, str]]) -> None:
    """Raises: BadInput for sensors in files of their own that are no tables, which nothing joins."""
    if sensors:
        files = [repr(name) for name in next(iter(sensors.values())).values()]
        raise BadInput(
            f"{path}: files such as {listed(files)} are sensors of one recording, and only tables are joined; write "
            "all channels of a recording into one file, or move the files of one sensor into a folder and give that"
        )


def folder_of_sensors(
    path: Path, sensors: Mapping[str, Mapping[str, str]], spec: LayoutSpec, mistakes: Mistakes
) -> tuple[Table, list[str]]:
    """A table of a row for each recording, with the channels of all its sensors, and the names of the recordings.

    Raises: BadInput naming a file that cannot be read or leads out of the folder, and where sensors have clocks of
    their own, or unequal numbers of rows and no clock.
    """
    keys = sorted(sensors)

    def tables() -> Iterator[Table]:
        for key in keys:
            own = {sensor: _read(path, name, spec, mistakes) for sensor, name in sensors[key].items()}
            yield _joined(path / key, own, spec)

    places = Places(str(path), names=[str(path / key) for key in keys])
    table = recordings_table(tables(), places, "a folder of a table for each sensor", spec, mistakes)
    some = [repr(name) for name in sensors[keys[0]].values()]
    table.notes.append(f"files such as {listed(some)} are the sensors of one recording")
    return table, keys


def _read(path: Path, name: str, spec: LayoutSpec, mistakes: Mistakes) -> SensorTable:
    check_link(path, path / name)
    table = read_table(path / name, spec, mistakes)
    mistakes.check()
    own = spec.model_copy(update={"values": ()})
    clock = clock_of(table, own.model_copy(update={"time": spec.time if spec.time in table.columns else None}))
    order, times = in_time_order(table, clock)
    cells = Cells(table.places, frozenset(spec.na), "." if table.decimal == "auto" else table.decimal)
    channels = [name for name in channels_of(table, own, clock) if not is_constant(table.columns[name], spec)]
    columns = {channel: cells.numbers(table.columns[channel])[order] for channel in channels}
    cells.report(mistakes, [])
    mistakes.check()
    unit = seconds_in(table.columns[clock], times, spec) if clock is not None else None
    named = [column for column in table.columns.values() if column.type == "text" or is_constant(column, spec)]
    texts = {column.name: {word for word in column.words if word} for column in named}
    words = {name: kinds.pop() for name, kinds in texts.items() if len(kinds) == 1}
    return SensorTable(clock, times, unit, columns, words)


def _joined(recording: Path, sensors: Mapping[str, SensorTable], spec: LayoutSpec) -> Table:
    """The sensors of one recording side by side, or, where their clocks differ, one below the other with gaps."""
    sensors = _in_one_unit(recording, sensors)
    tables = list(sensors.values())
    counts = {table.rows for table in tables}
    timed = [table for table in tables if len(table.times)]
    named = {
        sensor: {name if sensor in name.lower() else f"{sensor} {name}": x for name, x in table.columns.items()}
        for sensor, table in sensors.items()
    }
    columns: dict[str, np.ndarray] = {}
    if len(counts) == 1 and all(_alike(timed[0], table) for table in timed):
        times = timed[0].times if timed else NO_TIMES
        columns = {name: x for own in named.values() for name, x in own.items()}
    elif len(timed) < len(tables):
        rows = listed([f"{table.rows:,} of {sensor!r}" for sensor, table in sensors.items()])
        raise BadInput(
            f"{recording}: its sensors have unequal numbers of rows ({rows}), and not all have a column of times, so "
            "that nothing tells which rows belong together; add one to each file"
        )
    else:
        _check_clocks(recording, sensors, spec)
        times = np.concatenate([table.times for table in tables])
        order, begin = np.argsort(times, kind="stable"), 0
        for table, own in zip(tables, named.values(), strict=True):
            for name, x in own.items():
                whole = np.full(len(times), np.nan)
                whole[begin : begin + len(x)] = x
                columns[name] = whole[order]
            begin += table.rows
        times = times[order]
    length = len(next(iter(columns.values())))
    clock = timed[0].clock if timed else None
    unit = next((name for name, seconds in TIME_UNITS.items() if timed and seconds == timed[0].unit), "")
    clock = clock if clock is None or clock == spec.time or clock_name(clock) else "time"  # as it is looked for again
    made = {clock: Column(clock, "number", arrow_numbers(times), unit)} if clock is not None else {}
    made |= {name: Column(name, "number", arrow_numbers(x)) for name, x in columns.items()}
    words = {name: word for table in tables for name, word in table.words.items() if name not in made}
    made |= {name: Column(name, "text", arrow_texts([word] * length)) for name, word in words.items()}
    return Table(made, length, Places(str(recording)), "a table for each sensor")


def _in_one_unit(recording: Path, sensors: Mapping[str, SensorTable]) -> dict[str, SensorTable]:
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


def _check_clocks(recording: Path, sensors: Mapping[str, SensorTable], spec: LayoutSpec) -> None:
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
