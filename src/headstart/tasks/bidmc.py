"""Vital signs from bedside signals: heart rate, respiratory rate or oxygen saturation from EKG and PPG."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.named_files import Named, find_named, texts
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.problems import Mistakes
from headstart.data.series import Rows, read_ts
from headstart.errors import BadInput
from headstart.seeds import permutation
from headstart.sequence import Signature
from headstart.tasks.physio_records import cut, find_records
from headstart.tasks.series_sets import copies, held_out, opened, write_splits
from headstart.tasks.task import SPLITS, Task, TaskSpec

FOLDERS = ("bidmc", "BIDMC", "Monash_UEA_UCR_Regression_Archive")
ORIGIN = "the .ts files of BIDMC (Tan et al. 2020) are at http://tseregression.org"
UNITS = {"HR": "beats per minute", "RR": "breaths per minute", "SpO2": "per cent"}
_READER = 1
"""Raised when the same files give other arrays."""


class BidmcSpec(TaskSpec):
    """Windows of 32 s of two signals at 125 Hz, electrocardiogram and photoplethysmogram, and one number to tell.

    One example is 4,000 positions of width 2 that begin `0.31 -1.02 | 0.35 -1.04 ...`, target `-0.18`, which stands for
    85 beats per minute. Scored by R2.

    source: `windows`, `BIDMC32HR_TRAIN.ts` and `_TEST.ts` (HR, RR or SpO2): the official splits, of which train gives
            val. These files do not say whose a window is.
        `records`, PhysioNet's `bidmc_01_Signals.csv` and `bidmc_01_Numerics.csv`, and so on: a window begins every
            `stride` samples and is kept where it fits; its target is the mean of the numbers of the seconds it covers.
            Splits share no record.
    vital: heart rate, respiratory rate, or oxygen saturation.
    length: samples of a window; windows of .ts files must have it.
    stride: of `records`: samples from one window's start to the next's.
    scale_target: the smallest and largest target of train stand as -1 and 1 (described; essential). False leaves them
        in their unit, the default of the released code.
    standardise: each channel gets mean 0 and deviation 1 over the train windows.
    val_share, test_share: shares held out by `split_seed`, of windows (val), or of records (val and test).
    Source: Pimentel et al. 2016; as windows: Tan et al. 2020.
    """

    kind: Literal["bidmc"] = "bidmc"
    source: Literal["windows", "records"] = "windows"
    vital: Literal["HR", "RR", "SpO2"] = "HR"
    length: int = Field(default=4000, ge=1)
    stride: int = Field(default=4000, ge=1)
    scale_target: bool = True
    standardise: bool = True
    val_share: float = Field(default=0.15, gt=0, lt=1)
    test_share: float = Field(default=0.15, gt=0, lt=1)

    shows_not: ClassVar[str] = (
        "53 patients of one hospital: this does not show that a model knows new patients, wards or devices."
    )
    objective: ClassVar[str] = "regress"
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        if self.source == "windows":
            return self._named(data).files
        return tuple(file for files in find_records(data, self.kind).values() for file in files.values())

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the windows and write them as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        facts = found.facts
        signature = Signature(
            input="floats",
            width=2,
            length=facts["length"],
            shortest=facts["shortest"],
            target="number",
            missing=facts["missing"],
        )
        train, val, test = (opened(found, name) for name in SPLITS)
        return Task(signature, train, val, test, notes=tuple(facts["notes"]), fingerprint=found.fingerprint)

    def _names(self) -> tuple[str, str]:
        return f"BIDMC32{self.vital}_TRAIN.ts", f"BIDMC32{self.vital}_TEST.ts"

    def _named(self, data: Path) -> Named:
        return find_named(data, self.kind, FOLDERS, self._names(), ORIGIN)

    def _prepared(self, data: Path) -> Prepared:
        document: dict[str, Any] = {
            "reader": _READER,
            "files": stamps(self.files(data)),
            "vital": self.vital,
            "length": self.length,
            "scale_target": self.scale_target,
            "standardise": self.standardise,
            "val_share": self.val_share,
            "seed": self.split_seed,
        }
        if self.source == "records":
            document |= {"stride": self.stride, "test_share": self.test_share}
        return prepared(data, f"bidmc-{self.source}", document, lambda builder: self._build(builder, data))

    def _build(self, builder: Builder, data: Path) -> dict[str, Any]:
        read = self._windows if self.source == "windows" else self._records
        values, numbers, rows, notes = read(data)
        low, high = float(numbers[rows["train"]].min()), float(numbers[rows["train"]].max())
        if self.scale_target:
            if low == high:
                raise BadInput(f"task.vital: every train window has a {self.vital} of {low:g}; give others")
            numbers = 2 * (numbers - low) / (high - low) - 1
            notes.append(
                f"{self.vital} of {low:.4g} to {high:.4g} {UNITS[self.vital]}, the range of train, stands as -1 to 1"
            )
        facts = write_splits(builder, values, numbers.astype(np.float32), rows, self.standardise, copies(values))
        return {**facts, "notes": [*notes, *facts["notes"]]}

    def _windows(self, data: Path) -> tuple[list[np.ndarray], np.ndarray, dict[str, np.ndarray], list[str]]:
        """Windows, numbers, rows of each split and notes, from .ts files."""
        mistakes, found = Mistakes(), {}
        for name, lines in texts(self._named(data), mistakes, self._names()):
            found[name] = read_ts(lines, name, mistakes, "number")
            _check(found[name], name, self.length, mistakes)
        mistakes.check()
        train, test = (found[name] for name in self._names())
        values, numbers = train.values + test.values, np.array(train.numbers + test.numbers)
        zeros = np.zeros(len(values), dtype=np.int64)  # numbers are not stratified
        rows = held_out(copies(values), zeros, len(train), self.val_share, self.split_seed)
        return (
            values,
            numbers,
            rows,
            ["these files do not say whose a window is: windows of one patient may stand in train, val and test"],
        )

    def _records(self, data: Path) -> tuple[list[np.ndarray], np.ndarray, dict[str, np.ndarray], list[str]]:
        """Windows, numbers, rows of each split and notes, from records."""
        mistakes, files = Mistakes(), find_records(data, self.kind)
        found = cut(files, self.vital, self.length, self.stride, mistakes)
        mistakes.check()
        names = sorted(files)
        order, parts = permutation(self.split_seed, "task/records", len(names)), {}
        shares = {"test": self.test_share, "val": self.val_share}
        counts = {split: max(1, round(share * len(names))) for split, share in shares.items()}
        if sum(counts.values()) >= len(names):
            raise BadInput(
                f"task.val_share: {self.val_share} and task.test_share {self.test_share} leave no train "
                f"record of {len(names)}; take less"
            )
        for split, count in counts.items():
            parts[split], order = {names[i] for i in order[:count]}, order[count:]
        rows = {split: np.flatnonzero([record in some for record in found.records]) for split, some in parts.items()}
        rows["train"] = np.setdiff1d(np.arange(len(found.records)), np.concatenate(list(rows.values())))
        notes = [f"{found.left_out} windows without a {self.vital} or a signal are left out"] if found.left_out else []
        rows, again = _apart(copies(found.values), rows)
        notes += [f"{again} windows of val and test that also stand in an earlier split are left out"] if again else []
        for split in SPLITS:
            if not len(rows[split]):
                raise BadInput(
                    f"task.length: {self.length} leaves no window with a {self.vital} in the records of "
                    f"{split}; take a smaller one, or another split_seed"
                )
        return found.values, np.array(found.numbers), rows, notes


def _check(rows: Rows, name: str, length: int, mistakes: Mistakes) -> None:
    """Mistakes for windows that are no two channels of the length."""
    if not rows:
        mistakes.add(name, "holds no window that can be read; give the file again")
    for values, place in zip(rows.values, rows.places, strict=True):
        if values.shape != (length, 2):
            mistakes.add(
                place, f"has {values.shape[1]} channels of {values.shape[0]} values, not 2 of task.length = {length}"
            )


def _apart(group: np.ndarray, rows: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], int]:
    """The rows without those of val and test whose content stands in an earlier split, and how many those were."""
    out, known, gone = {}, np.array([], dtype=np.int64), 0
    for split in SPLITS:
        fresh = ~np.isin(group[rows[split]], known)
        out[split] = rows[split][fresh]
        gone += int((~fresh).sum())
        known = np.union1d(known, group[rows[split]])
    return out, gone
