"""Bedside records of PhysioNet's BIDMC: signals and numbers as CSV, cut into windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headstart.data.archives import listed
from headstart.data.problems import Mistakes
from headstart.data.rows import lines
from headstart.errors import BadInput

RATE = 125
"""Samples per second of the signals."""
CHANNELS = ("II", "PLETH")
"""Columns of the electrocardiogram (lead II) and the photoplethysmogram."""
COLUMNS = {"HR": "HR", "RR": "RESP", "SpO2": "SpO2"}
"""Columns of the vital signs, one row per second."""
FOLDERS = ("bidmc", "bidmc/bidmc_csv", "physio")
ORIGIN = "the records of BIDMC (Pimentel et al. 2016) are at https://physionet.org/content/bidmc (bidmc_csv)"
_FILE = re.compile(r"^(bidmc_?\w+?)_(Signals|Numerics)\.csv(?:\.gz|\.xz)?$")
_SLACK = 0.02
"""Seconds that a time may be off: the files have 5 digits, and their records are 480 s long."""


@dataclass
class Windows:
    """Windows of all records: `values` (L, 2) float32 with NaN where missing, a `number` and its record for each."""

    values: list[np.ndarray] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    left_out: int = 0


def find_records(data: Path, task: str) -> dict[str, dict[str, Path]]:
    """{record: {"Signals": file, "Numerics": file}}. Raises: BadInput naming what is missing and its origin."""
    for root in (data / folder for folder in FOLDERS):
        found: dict[str, dict[str, Path]] = {}
        for name in listed(root, lambda n: _FILE.match(n) is not None) if root.is_dir() else ():
            match = _FILE.match(name)
            if match is not None:
                found.setdefault(match[1], {})[match[2]] = root / name
        lost = [
            str(root / f"{name}_{what}.csv")
            for name, files in found.items()
            for what in ("Signals", "Numerics")
            if what not in files
        ]
        if lost:
            raise BadInput(
                f"task.kind: {task!r}: {', '.join(lost[:5])} is missing; {ORIGIN}; put it there, or name "
                "another data folder with --data"
            )
        if len(found) >= 3:
            return found
        if found:
            raise BadInput(
                f"task.kind: {task!r}: {root} has {len(found)} records, and train, val and test need one each; {ORIGIN}"
            )
    raise BadInput(
        f"task.kind: {task!r} looks for bidmc_01_Signals.csv, bidmc_01_Numerics.csv and so on in "
        f"{' or '.join(FOLDERS)} of {data}, and none is there; {ORIGIN}; name the folder above it with --data or "
        "HEADSTART_DATA"
    )


def cut(records: dict[str, dict[str, Path]], vital: str, length: int, stride: int, mistakes: Mistakes) -> Windows:
    """Windows of `length` samples that begin every `stride` samples of each record, as long as they fit.

    The number of a window is the mean of the vital sign over the seconds [start, end) that it covers and that have
    one. Windows without any number, and those without any sample of one of the channels, are left out and counted.
    """
    out = Windows()
    for record in sorted(records):
        signals = read_signals(lines(records[record]["Signals"], mistakes), str(records[record]["Signals"]), mistakes)
        seconds = read_columns(
            lines(records[record]["Numerics"], mistakes), str(records[record]["Numerics"]), (COLUMNS[vital],), mistakes
        )
        if signals is None or seconds is None:
            continue
        begin = signals[0, 0]
        for first in range(0, len(signals) - length + 1, stride):
            start, end = begin + first / RATE, begin + (first + length) / RATE
            # Half a sample of slack: times are decimal fractions.
            inside = (seconds[:, 0] >= start - 0.5 / RATE) & (seconds[:, 0] < end - 0.5 / RATE)
            known = seconds[inside & ~np.isnan(seconds[:, 1]), 1]
            values = signals[first : first + length, 1:].astype(np.float32)
            if not len(known) or np.isnan(values).all(0).any():
                out.left_out += 1
                continue
            out.values.append(values)
            out.numbers.append(float(known.mean()))
            out.records.append(record)
    return out


def read_signals(rows: Iterator[tuple[str, str]], file: str, mistakes: Mistakes) -> np.ndarray | None:
    """(n, 3) time in seconds, electrocardiogram, photoplethysmogram; None and a mistake where they cannot be read."""
    table = read_columns(rows, file, CHANNELS, mistakes)
    if table is None:
        return None
    expected = table[0, 0] + np.arange(len(table)) / RATE
    wrong = np.flatnonzero(~(np.abs(table[:, 0] - expected) < _SLACK))
    if len(wrong):
        i = int(wrong[0])
        mistakes.add(
            f"{file}, row {i + 2}",
            f"the time is {table[i, 0]:g} s, {RATE} samples per second give "
            f"{expected[i]:g} s: rows are missing, or the rate is another",
        )
        return None
    return table


def read_columns(
    rows: Iterator[tuple[str, str]], file: str, columns: tuple[str, ...], mistakes: Mistakes
) -> np.ndarray | None:
    """(n, 1 + columns) float64 of the time and these columns, NaN where a field is empty or NaN."""
    header = [name.strip() for name in next(rows, ("", ""))[1].split(",")]
    wanted = ("Time [s]", *columns)
    lost = [name for name in wanted if name not in header]
    if lost:
        mistakes.add(
            f"{file}, row 1",
            f"has no column {' and no '.join(map(repr, lost))} (it has {', '.join(map(repr, header[:8]))})",
        )
        return None
    places, out = [header.index(name) for name in wanted], []
    before = len(mistakes.found)
    for place, line in rows:
        fields = line.split(",")
        if len(fields) == len(header):
            try:
                out.append([float(fields[i].strip() or "nan") for i in places])
            except ValueError as error:
                mistakes.add(place, f"{error}; give a number, or nothing where it is missing")
        elif line.strip():
            mistakes.add(place, f"has {len(fields)} fields, the header has {len(header)}; the row is cut short")
    table = np.array(out, dtype=np.float64).reshape(-1, len(wanted))
    for i in np.flatnonzero(np.isinf(table).any(1) | np.isnan(table[:, 0]))[:5]:
        mistakes.add(f"{file}, row {i + 2}", "a value is infinite, or the time is missing; correct it")
    if not len(table):
        mistakes.add(file, "holds no row; give the file again")
    return table if len(mistakes.found) == before else None
