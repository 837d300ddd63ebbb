"""Vital signs from bedside signals: heart rate, respiratory rate or oxygen saturation from EKG and PPG.

Windows are read from .ts files, or cut from the records of PhysioNet's BIDMC (signals and numbers as CSV).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.archives import absent, incomplete, listed
from headstart.data.csv import read_csv
from headstart.data.layout import LayoutSpec
from headstart.data.prepared import Builder, prepared
from headstart.data.sequences import to_range
from headstart.data.series import Rows, read_ts
from headstart.data.splits import shuffled
from headstart.data.table import Cells
from headstart.data.text import NamedFiles, find_named, texts
from headstart.errors import BadInput, Mistakes, Places
from headstart.sequence import Signature
from headstart.tasks.build import prepared_task
from headstart.tasks.series import copies, held_out, write_series
from headstart.tasks.task import SPLITS, Outline, Task, TaskSpec

BIDMC_FOLDERS = ("bidmc", "BIDMC", "Monash_UEA_UCR_Regression_Archive")
BIDMC_ORIGIN = "the .ts files of BIDMC (Tan et al. 2020) are at http://tseregression.org"
VITAL_UNITS = {"HR": "beats per minute", "RR": "breaths per minute", "SpO2": "per cent"}
SIGNAL_RATE = 125
"""Samples per second of the signals."""
SIGNAL_CHANNELS = ("II", "PLETH")
"""Columns of the electrocardiogram (lead II) and the photoplethysmogram."""
VITAL_COLUMNS = {"HR": "HR", "RR": "RESP", "SpO2": "SpO2"}
"""Columns of the vital signs, one row per second."""
RECORD_FOLDERS = ("bidmc", "bidmc/bidmc_csv", "physio")
RECORD_ORIGIN = "the records of BIDMC (Pimentel et al. 2016) are at https://physionet.org/content/bidmc (bidmc_csv)"
_FILE = re.compile(r"^(bidmc_?\w+?)_(Signals|Numerics)\.csv(?:\.gz|\.xz)?$")
_SLACK = 0.02
"""Seconds that a time may be off: the files have 5 digits, and their records are 480 s long."""
_FORM = LayoutSpec(header=True, quote="", decimal=".")


class BidmcSpec(TaskSpec):
    """Windows of 32 s of two signals at 125 Hz, electrocardiogram and photoplethysmogram, and one number to tell.

    One example is 4,000 positions of width 2 that begin `0.31 -1.02 | 0.35 -1.04 ...`, target `-0.18`, which stands for
    85 beats per minute. Scored by R2.

    Source: Pimentel et al. 2016; as windows: Tan et al. 2020.
    """

    kind: Literal["bidmc"] = "bidmc"
    source: Literal["windows", "records"] = "windows"
    """`windows`, `BIDMC32HR_TRAIN.ts` and `_TEST.ts` (HR, RR or SpO2): the official splits, of which train gives val.
    These files do not say whose a window is. `records`, PhysioNet's `bidmc_01_Signals.csv` and `bidmc_01_Numerics.csv`,
    and so on: a window begins every `stride` samples and is kept where it fits; its target is the mean of the numbers
    of the seconds it covers. Splits share no record."""
    vital: Literal["HR", "RR", "SpO2"] = "HR"
    """Heart rate, respiratory rate, or oxygen saturation."""
    length: int = Field(default=4000, ge=1)
    """Samples of a window; windows of .ts files must have it."""
    stride: int = Field(default=4000, ge=1)
    """Of `records`: samples from one window's start to the next's."""
    scale_target: bool = True
    """The smallest and largest target of train stand as -1 and 1 (described; essential). `false` leaves them in their
    unit, the default of the released code."""
    standardise: bool = True
    """Each channel gets mean 0 and deviation 1 over the train windows."""
    val_share: float = Field(default=0.15, gt=0, lt=1)
    """Shares held out by `split_seed`, of windows (val), or of records (val and test)."""
    test_share: float = Field(default=0.15, gt=0, lt=1)
    """Shares held out by `split_seed`, of windows (val), or of records (val and test)."""

    shows_not: ClassVar[str] = (
        "53 patients of one hospital: this does not show that a model knows new patients, wards or devices."
    )
    objective: ClassVar[str] = "regress"
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"

    def outline(self) -> Outline | None:
        """The 7,949 windows of the .ts files."""
        if self.source != "windows":
            return None
        signature, val = Signature("floats", 2, self.length, self.length, "number"), round(5_550 * self.val_share)
        return Outline(signature, 5_550 - val, val, 2_399, self.length)

    def files(self, data: Path) -> tuple[Path, ...]:
        if self.source == "windows":
            return self._named(data).files
        return tuple(file for files in find_records(data, self.kind).values() for file in files.values())

    def load(self, data: Path) -> Task:
        include = {"vital", "length", "scale_target", "standardise", "val_share"}
        settings = self.model_dump(include=include | ({"stride", "test_share"} if self.source == "records" else set()))
        document = {"reader": self.reader, "files": stamps(self.files(data)), "seed": self.split_seed, **settings}
        ready = prepared(f"bidmc-{self.source}", document, lambda builder: self._build(builder, data))
        return prepared_task(ready, "floats", width=2)

    def _names(self) -> tuple[str, str]:
        return f"BIDMC32{self.vital}_TRAIN.ts", f"BIDMC32{self.vital}_TEST.ts"

    def _named(self, data: Path) -> NamedFiles:
        return find_named(data, self.kind, BIDMC_FOLDERS, self._names(), BIDMC_ORIGIN)

    def _build(self, builder: Builder, data: Path) -> dict[str, Any]:
        read = self._windows if self.source == "windows" else self._records
        values, numbers, rows, notes = read(data)
        low, high = float(numbers[rows["train"]].min()), float(numbers[rows["train"]].max())
        if self.scale_target:
            if low == high:
                raise BadInput(f"task.vital: every train window has a {self.vital} of {low:g}; give others")
            numbers = to_range(numbers, low, high)
            notes.append(
                f"{self.vital} of {low:.4g} to {high:.4g} {VITAL_UNITS[self.vital]}, the range of train, stands as -1 "
                "to 1"
            )
        facts = write_series(builder, values, numbers.astype(np.float32), rows, self.standardise, copies(values))
        return {**facts, "notes": [*notes, *facts["notes"]]}

    def _windows(self, data: Path) -> tuple[list[np.ndarray], np.ndarray, dict[str, np.ndarray], list[str]]:
        """Windows, numbers, rows of each split and notes, from .ts files."""
        mistakes, files = Mistakes(), {}
        for name, rows_of_file in texts(self._named(data), mistakes, self._names()):
            files[name] = read_ts(rows_of_file, name, mistakes, "number")
            if not files[name]:
                mistakes.add(name, "holds no window that can be read; give the file again")
            for window, where in zip(files[name].values, files[name].places, strict=True):
                if window.shape != (self.length, 2):
                    shape = f"{window.shape[1]} channels of {window.shape[0]} values"
                    mistakes.add(where, f"has {shape}, not 2 of task.length = {self.length}")
        mistakes.check()
        train, test = (files[name] for name in self._names())
        values, numbers = train.values + test.values, np.array(train.numbers + test.numbers)
        zeros = np.zeros(len(values), dtype=np.int64)  # numbers are not stratified
        rows = held_out(copies(values), zeros, len(train), self.val_share, self.split_seed)
        note = "these files do not say whose a window is: windows of one patient may stand in train, val and test"
        return values, numbers, rows, [note]

    def _records(self, data: Path) -> tuple[list[np.ndarray], np.ndarray, dict[str, np.ndarray], list[str]]:
        """Windows, numbers, rows of each split and notes, from records."""
        mistakes, files = Mistakes(), find_records(data, self.kind)
        windows, lost = cut(files, self.vital, self.length, self.stride, mistakes)
        mistakes.check()
        names = sorted(files)
        order = shuffled(names, "records", self.split_seed)
        tests, vals = (max(1, round(share * len(names))) for share in (self.test_share, self.val_share))
        if tests + vals >= len(names):
            raise BadInput(
                f"task.val_share: {self.val_share} and task.test_share {self.test_share} leave no train "
                f"record of {len(names)}; take less"
            )
        parts = {"train": order[tests + vals :], "val": order[tests : tests + vals], "test": order[:tests]}
        rows = {split: np.flatnonzero(np.isin(windows.places, some)) for split, some in parts.items()}
        notes = [f"{lost} windows without a {self.vital} or a signal are left out"] if lost else []
        rows, again = _apart(copies(windows.values), rows)
        notes += [f"{again} windows of val and test that also stand in an earlier split are left out"] if again else []
        for split in SPLITS:
            if not len(rows[split]):
                raise BadInput(
                    f"task.length: {self.length} leaves no window with a {self.vital} in the records of "
                    f"{split}; take a smaller one, or another split_seed"
                )
        return windows.values, np.array(windows.numbers), rows, notes


def _apart(group: np.ndarray, rows: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], int]:
    """The rows without those of val and test whose content stands in an earlier split, and how many those were."""
    out, earlier, gone = {}, np.array([], dtype=np.int64), 0
    for split in SPLITS:
        fresh = ~np.isin(group[rows[split]], earlier)
        out[split] = rows[split][fresh]
        gone += int((~fresh).sum())
        earlier = np.union1d(earlier, group[rows[split]])
    return out, gone


def find_records(data: Path, task: str) -> dict[str, dict[str, Path]]:
    """{record: {"Signals": file, "Numerics": file}}. Raises: BadInput naming what is missing and its origin."""
    for root in (data / folder for folder in RECORD_FOLDERS):
        records: dict[str, dict[str, Path]] = {}
        for name in listed(root, lambda n: _FILE.match(n) is not None) if root.is_dir() else ():
            if match := _FILE.match(name):
                records.setdefault(match[1], {})[match[2]] = root / name
        kinds = {"Signals", "Numerics"}
        missing = [
            root / f"{name}_{kind}.csv" for name, files in records.items() for kind in sorted(kinds - set(files))
        ]
        if missing:
            raise incomplete(task, missing[:5], RECORD_ORIGIN)
        if 0 < len(records) < 3:
            problem = f"{root} has {len(records)} records, and train, val and test need one each"
            raise BadInput(f"task.kind: {task!r}: {problem}; {RECORD_ORIGIN}")
        if records:
            return records
    looks = "bidmc_01_Signals.csv, bidmc_01_Numerics.csv and so on"
    raise absent(task, data, RECORD_FOLDERS, looks, RECORD_ORIGIN)


def cut(
    records: dict[str, dict[str, Path]], vital: str, length: int, stride: int, mistakes: Mistakes
) -> tuple[Rows, int]:
    """Windows (L, 2) of `length` samples that begin every `stride` samples of each record, as long as they fit.

    The number of a window is the mean of the vital sign over the seconds [start, end) that it covers and that have
    one, its place is the record. Windows without any number, and those without any sample of one of the channels, are
    left out and counted.
    """
    out, lost = Rows(target="number"), 0
    for record in sorted(records):
        signals = read_signals(records[record]["Signals"], mistakes)
        seconds, _ = read_columns(records[record]["Numerics"], (VITAL_COLUMNS[vital],), mistakes)
        if not len(signals) or not len(seconds):
            continue
        begin = signals[0, 0]
        for first in range(0, len(signals) - length + 1, stride):
            start, end = begin + first / SIGNAL_RATE, begin + (first + length) / SIGNAL_RATE
            # Half a sample of slack: times are decimal fractions.
            inside = (seconds[:, 0] >= start - 0.5 / SIGNAL_RATE) & (seconds[:, 0] < end - 0.5 / SIGNAL_RATE)
            rates = seconds[inside & ~np.isnan(seconds[:, 1]), 1]
            values = signals[first : first + length, 1:].astype(np.float32)
            if not len(rates) or np.isnan(values).all(0).any():
                lost += 1
                continue
            out.values.append(values)
            out.numbers.append(float(rates.mean()))
            out.places.append(record)
    return out, lost


def read_signals(file: Path, mistakes: Mistakes) -> np.ndarray:
    """(n, 3) time in seconds, electrocardiogram, photoplethysmogram; n = 0 and a mistake where they cannot be read."""
    table, places = read_columns(file, SIGNAL_CHANNELS, mistakes)
    expected = table[:1, 0] + np.arange(len(table)) / SIGNAL_RATE
    wrong = np.flatnonzero(~(np.abs(table[:, 0] - expected) < _SLACK))
    if not len(wrong):
        return table
    i = int(wrong[0])
    mistakes.add(
        places.of(i),
        f"the time is {table[i, 0]:g} s, {SIGNAL_RATE} samples per second give {expected[i]:g} s: rows are missing, or "
        "the rate is another",
    )
    return table[:0]


def read_columns(file: Path, columns: tuple[str, ...], mistakes: Mistakes) -> tuple[np.ndarray, Places]:
    """(n, 1 + columns) float64 of the time and these columns, NaN where a field is empty or NaN, and where rows stand.

    Where something is wrong, n is 0.
    """
    wanted, before = ("Time [s]", *columns), len(mistakes)
    nothing = np.zeros((0, len(wanted))), Places(str(file))
    try:
        table = read_csv(file, _FORM, Mistakes())
    except BadInput as error:
        mistakes.adopt(error)
        return nothing
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        names = ", ".join(map(repr, list(table.columns)[:8]))
        mistakes.add(f"{file}:1", f"has no column {' and no '.join(map(repr, missing))} (it has {names})")
        return nothing
    cells = Cells(table.places)
    numbers = np.stack([cells.numbers(table.columns[name]) for name in wanted], 1)
    for (text, wrong), rows in cells.bad.items():
        row = min(rows)
        way = "give a number, or nothing where it is missing"
        mistakes.add(table.places.cell(row, rows[row]), f"{text[:40]!r} {wrong}; {way}")
    for row in np.flatnonzero(np.isnan(numbers[:, 0]))[: 0 if cells.bad else 5].tolist():
        mistakes.add(table.places.of(row), "the time is missing; correct it")
    return (numbers, table.places) if len(mistakes) == before else nothing
