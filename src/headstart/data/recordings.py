"""A recording: samples of several channels at one rate. A file of one is a table of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headstart.data.annotations import ANNOTATION, Annotation, add_annotations, partner
from headstart.data.archives import check_link
from headstart.data.clock import RATE_BEFORE, on_clock
from headstart.data.layout import LayoutSpec, check_names, matching
from headstart.data.readers import recorder_of
from headstart.data.rows import list_column
from headstart.data.table import Table
from headstart.errors import BadInput, Places, nearest
from headstart.store.plain import leads_out
from headstart.text import first_few
from headstart.ways import field_name, option

MOST_SAMPLES, MOST_VALUES = 2**26, 2**29
"""Samples that a channel may have, and values of all channels."""
POSSIBLE_RATES = 1e-9, 1e12
"""Samples per second that a recording may have: from one in decades to what no instrument takes."""


@dataclass
class Recording:
    """samples: (L, F), NaN where one is missing; rate: samples per second; channels: F names; annotations: what was
    written down of it."""

    samples: np.ndarray
    rate: float
    channels: tuple[str, ...]
    notes: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()


def brought(path: Path, recording: Recording, spec: LayoutSpec) -> Recording:
    """The recording at the rate that was set, if one was."""
    if spec.rate is None or spec.rate == recording.rate:
        return recording
    count = len(recording.samples)
    times = np.arange(count) / recording.rate
    samples = on_clock(str(path), recording.samples, np.array([0, count]), times, spec.rate)[0].astype(np.float32)
    note = f"{recording.rate:g} samples per second, brought to {spec.rate:g}"
    notes = (*recording.notes, note)
    return replace(recording, samples=samples, rate=float(spec.rate), notes=notes)


def on_one_clock(path: Path, signals: Sequence[np.ndarray], rates: Sequence[float], rate: float) -> np.ndarray:
    """(L, F) signals (n,) of several rates, which begin together, at one; missing where one has ended."""
    count = round(max(len(x) / own for x, own in zip(signals, rates, strict=True)) * rate)
    out = np.full((count, len(signals)), np.nan, dtype=np.float32)
    for f, (x, own) in enumerate(zip(signals, rates, strict=True)):
        ends, times = np.array([0, len(x)]), np.arange(len(x)) / own
        part = on_clock(str(path), np.asarray(x, dtype=np.float64)[:, None], ends, times, rate)[0][:count, 0]
        out[: len(part), f] = part
    return out


def recording_table(path: Path, recording: Recording, written: str, spec: LayoutSpec) -> Table:
    """A table of one row, whose cells are the channels."""
    places = Places(str(path), names=[str(path)])
    table = Table({}, 1, places, f"{written}, {recording.rate:g} samples per second", shape="list")
    table.steps, table.unit = np.array([1 / recording.rate]), 1.0
    table.notes += recording.notes
    for f, name in enumerate(check_names(recording.channels, str(path))):
        table.columns[name] = list_column(name, [recording.samples[:, f]], places)
    add_annotations(table, [recording], spec)
    if spec.target is None and ANNOTATION in table.columns:
        table.roles["target"] = ANNOTATION
    return table


def folder_of_signals(path: Path, names: Sequence[str], spec: LayoutSpec) -> tuple[Table, list[str]]:
    """A table of a row for each file, whose cells are its channels, and the names of the files.

    Raises: BadInput naming a file that cannot be read, leads out of the folder, or has other channels or another rate
    than the first.
    """
    first: Recording | None = None
    rows: list[Recording] = []
    there: list[str] = []
    rates: list[float] = []
    apart: dict[str, tuple[Annotation, ...]] = {}
    values = 0
    for name in names:
        file = path / name
        check_link(path, file)
        recording = recorder_of(file.suffix.lower().removeprefix("."))(file, spec)
        if not recording.channels:
            apart[name] = recording.annotations
            continue
        rates.append(recording.rate)
        recording = brought(file, recording, spec)
        first = first or recording
        if recording.channels != first.channels:
            raise BadInput(
                f"{file}: has the channels {_some(recording)}, the first file has {_some(first)}; name with "
                f"{option('values')} those that all have"
            )
        if recording.rate != first.rate:
            raise BadInput(
                f"{file}: has {recording.rate:g} samples per second, the first file has {first.rate:g}; "
                f"{option('rate', f'{min(recording.rate, first.rate):g}')} brings all to one"
            )
        rows.append(recording)
        there.append(name)
        values += recording.samples.size
        if values > MOST_VALUES:
            raise BadInput(f"{path}: holds more than {MOST_VALUES:,} values; give fewer or shorter recordings")
    if first is None:
        raise BadInput(f"{path}: holds annotations without a channel; put the recordings beside them")
    for name, those in apart.items():
        k = partner(name, there)
        rows[k] = replace(rows[k], annotations=(*rows[k].annotations, *those))
    places = Places(str(path), names=[str(path / name) for name in there])
    table = Table({}, len(rows), places, f"a folder of recordings, {first.rate:g} samples per second", shape="list")
    for f, channel in enumerate(check_names(first.channels, str(path))):
        table.columns[channel] = list_column(channel, [row.samples[:, f] for row in rows], places)
    table.steps, table.unit = np.full(len(rows), 1 / first.rate), 1.0
    table.made[RATE_BEFORE] = np.array(rates)
    table.notes += dict.fromkeys(note for row in rows for note in row.notes)
    add_annotations(table, rows, spec)
    return table, there


def _some(recording: Recording) -> str:
    return first_few([repr(name) for name in recording.channels], 4)


def check_rate(path: Path, rate: float) -> None:
    """Raises: BadInput where a header says a rate that no recording has."""
    if not POSSIBLE_RATES[0] <= rate <= POSSIBLE_RATES[1]:
        raise BadInput(f"{path}: says {rate:g} samples per second; write the true rate into its header")


def chosen_channels(path: Path, names: Sequence[str], rates: Sequence[float], spec: LayoutSpec) -> list[int]:
    """Which channels are read: those that `values` names, else all. Raises: BadInput where one is not there, or where
    their rates differ and none was set, or one is no rate."""
    for rate in rates:
        check_rate(path, rate)
    wanted = list(range(len(names)))
    if spec.values:
        wanted = []
        for value in spec.values:
            channels = matching(value, names) if "*" in value and value not in names else [value]
            if not channels or channels[0] not in names:
                raise BadInput(
                    f"{path}: {field_name('values')}: no channel {nearest(value, names).removeprefix('no ')}"
                )
            wanted += [names.index(name) for name in channels]
    if not wanted:
        raise BadInput(f"{path}: has no channel; give a recording with samples")
    if len({rates[i] for i in wanted}) > 1 and spec.rate is None:
        of_rates = {rate: [names[i] for i in wanted if rates[i] == rate] for rate in (rates[i] for i in wanted)}
        texts = [f"{first_few([repr(name) for name in at], 3)} {rate:g}" for rate, at in of_rates.items()]
        most = max(of_rates.values(), key=len)
        raise BadInput(
            f"{path}: has several numbers of samples per second: {first_few(texts, 4)}; "
            f"{option('rate', f'{max(of_rates):g}')} brings all onto one clock, or name those of one with "
            f"{option('values', *most)}"
        )
    return wanted


def check_samples(path: Path, samples: float, channels: int) -> None:
    """Raises: BadInput where a recording says that it is empty, or longer than what is read."""
    if not samples > 0:
        raise BadInput(f"{path}: holds no sample; leave the recording out")
    if samples > MOST_SAMPLES or samples * channels > MOST_VALUES:
        raise BadInput(
            f"{path}: has {samples:,.0f} samples of {channels:,} channels, at most {MOST_SAMPLES:,} samples and "
            f"{MOST_VALUES:,} values are read; cut it into parts"
        )


def told_apart(names: list[str]) -> list[str]:
    """Names, each once."""
    out: list[str] = []
    for name in names:
        count = 2
        while name in out:
            name, count = f"{name.removesuffix(f' {count - 1}')} {count}", count + 1
        out.append(name)
    return out


def file_beside(path: Path, name: str) -> Path:
    """A file that a header names, beside it. Raises: BadInput where it is absent, or anywhere else."""
    file = path.parent / name
    plain = name == file.name and "\\" not in name and "\0" not in name and not name.startswith(".")
    if not plain or (file.is_symlink() and leads_out(file, [path.parent])):
        raise BadInput(
            f"{path}: names {name[:80]!r}, which is no file of its own folder; put the files of a record together"
        )
    if not file.is_file():
        raise BadInput(f"{path}: names the file {name!r}, which is not beside it; put the files of a record together")
    return file
