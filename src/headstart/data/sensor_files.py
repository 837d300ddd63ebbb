"""Recordings whose sensors have a file each: `walk_acc.csv` and `walk_gyro.csv`, or folders `acc` and `gyro`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headstart.data.archives import check_link
from headstart.data.folder_tables import channels_of, clock_of, is_constant, read_table, recordings_table
from headstart.data.layout import LayoutSpec
from headstart.data.own_clocks import SensorTable, joined, sensor_table
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few, listed
from headstart.ways import option

# fmt: off
SENSORS = frozenset(("acc", "accel", "accelerometer", "acceleration", "gyr", "gyro", "gyroscope", "mag", "magn",
    "magnetometer", "baro", "barometer", "ecg", "eeg", "emg", "eog", "eda", "gsr", "bvp", "ppg", "hr", "resp",
    "temp", "temperature", "gps", "imu"))
# fmt: on
"""Words for a sensor in names of files and folders."""
_JOINTS = re.compile(r"([_\s.\-/]+)")


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


def holds_sensors(names: Sequence[str]) -> bool:
    """Whether folders, rather than files, are named as sensors are."""
    folders = {part.lower() for name in names for part in name.split("/")[:-1]}
    return len(folders & SENSORS) > 1


def refuse_sensors(path: Path, sensors: Mapping[str, Mapping[str, str]]) -> None:
    """Raises: BadInput for sensors in files of their own that are no tables, which nothing joins."""
    if sensors:
        files = [repr(name) for name in next(iter(sensors.values())).values()]
        raise BadInput(
            f"{path}: files such as {listed(files)} are sensors of one recording, and only tables are joined; write "
            "all channels of a recording into one file, or move the files of one sensor into a folder and give that"
            + (f"; {option('target', 'folder')} where folders are classes" if "/" in files[0] else "")
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
            own = {sensor: _read(path, sensor, name, spec, mistakes) for sensor, name in sensors[key].items()}
            yield joined(path / key, own, spec)

    places = Places(str(path), names=[str(path / key) for key in keys])
    table = recordings_table(tables(), places, "a folder of a table for each sensor", spec, mistakes)
    some = [repr(name) for name in sensors[keys[0]].values()]
    table.notes.append(f"files such as {listed(some)} are the sensors of one recording")
    return table, keys


def _read(path: Path, sensor: str, name: str, spec: LayoutSpec, mistakes: Mistakes) -> SensorTable:
    check_link(path, path / name)
    table = read_table(path / name, spec, mistakes)
    mistakes.check()
    own = spec.model_copy(update={"values": ()})
    clock = clock_of(table, own.model_copy(update={"time": spec.time if spec.time in table.columns else None}))
    channels = [name for name in channels_of(table, own, clock) if not is_constant(table.columns[name], spec)]
    read = sensor_table(table, clock, channels, spec, mistakes)
    columns = {name if sensor in name.lower() else f"{sensor} {name}": x for name, x in read.columns.items()}
    named = [column for column in table.columns.values() if column.type == "text" or is_constant(column, spec)]
    texts = {column.name: {word for word in column.words if word} for column in named}
    words = {name: kinds.pop() for name, kinds in texts.items() if len(kinds) == 1}
    return replace(read, columns=columns, words=words)
