"""Sets of the UCR and UEA archives: labelled time series, by the name of the set, with official train and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.copies import groups
from headstart.data.prepared import Builder, prepared
from headstart.data.sequences import channel_moments, standardised
from headstart.data.series import Rows, read_ts, read_tsv
from headstart.data.splits import copies_note, drawn
from headstart.data.text import NamedFiles, find_named, texts
from headstart.errors import Mistakes
from headstart.sequence import Examples, ragged
from headstart.tasks.build import classes_of, prepared_task
from headstart.tasks.task import SPLITS, Task, TaskSpec


class SeriesSpec(TaskSpec):
    """Fields of the tasks made of an archive of labelled time series. `kind`, `name` and the ending are theirs."""

    name: str
    val_share: float = Field(default=0.2, gt=0, lt=1)
    """Share of the official train rows that is held out by `split_seed`, each class in proportion; of rows that occur
    twice all copies stay in train."""
    standardise: bool = True
    """Each channel gets mean 0 and deviation 1 over the train rows; else values stay as they are."""

    shows_not: ClassVar[str] = (
        "one small set of its archive: a difference here says little of other sets, and its official test split is "
        "one draw."
    )
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"
    folders: ClassVar[tuple[str, ...]]
    ending: ClassVar[str]
    origin: ClassVar[str]

    def files(self, data: Path) -> tuple[Path, ...]:
        return self._named(data).files

    def load(self, data: Path) -> Task:
        named = self._named(data)
        settings = self.model_dump(include={"name", "val_share", "standardise"})
        document = {"reader": self.reader, "files": stamps(named.files), "seed": self.split_seed, **settings}
        name = f"{self.kind}-{self.name}"
        ready = prepared(name, document, lambda builder: self._build(builder, named))
        return prepared_task(ready, "floats", ready.facts["width"])

    def _names(self) -> tuple[str, str]:
        return f"{self.name}_TRAIN{self.ending}", f"{self.name}_TEST{self.ending}"

    def _named(self, data: Path) -> NamedFiles:
        return find_named(data, self.kind, self.folders, self._names(), self.origin)

    def _build(self, builder: Builder, named: NamedFiles) -> dict[str, Any]:
        mistakes, files = Mistakes(), {}
        for name, lines in texts(named, mistakes, self._names()):
            tsv = self.ending == ".tsv"
            files[name] = read_tsv(lines, mistakes) if tsv else read_ts(lines, name, mistakes)
        train, test = (files[name] for name in self._names())
        for name, rows in files.items():
            if not rows:
                mistakes.add(name, "holds no sequence that can be read; give the file again")
        _check_widths((train, test), mistakes)
        labelled = [("train", *row) for row in zip(train.labels, train.places, strict=True)]
        labelled += [("test", *row) for row in zip(test.labels, test.places, strict=True)]
        labels = classes_of(labelled, "sequence", self._names()[0], mistakes)
        for label in train.declared:
            if train.labels and label not in labels:
                text = f"label {label!r} of the header has no sequence; correct it, or give the whole file"
                mistakes.add(self._names()[0], text)
        mistakes.check()
        target = np.array([labels.index(label) for label in train.labels + test.labels], dtype=np.int64)
        values = train.values + test.values
        group = copies(values)
        chosen = held_out(group, target, len(train), self.val_share, self.split_seed)
        return {**write_series(builder, values, target, chosen, self.standardise, group), "labels": labels}


class UcrSpec(SeriesSpec):
    """One of the 128 sets of the UCR archive, by its `name`: univariate series, each with a class.

    A row of `GunPoint_TRAIN.tsv` begins `2<TAB>-1.1250<TAB>-1.1311 ...`: label `2`, then 150 values. Labels keep
    their names. A value that is empty, `?` or NaN is missing; missing values at the end make a series shorter.
    Splits: the official train (of which val is held out) and test rows. Read from `ucr/` of the data folder: the
    files, folders of them, or a tar archive.
    Source: Dau et al. 2018.
    """

    kind: Literal["ucr"] = "ucr"
    name: str = Field(default="GunPoint", pattern=r"^[A-Za-z0-9_-]{1,80}$")
    """Name of the data set in the archive, such as `ECG200`."""

    folders: ClassVar[tuple[str, ...]] = ("ucr", "UCRArchive_2018")
    ending: ClassVar[str] = ".tsv"
    origin: ClassVar[str] = (
        "the UCR archive (Dau et al. 2018) is at https://www.cs.ucr.edu/~eamonn/time_series_data_2018"
        " (unpack its zip file)"
    )


class UeaSpec(SeriesSpec):
    """One of the sets of the UEA archive, by its `name`: series of several channels and any length, with a class.

    A row of `BasicMotions_TRAIN.ts` is `0.079,-0.903,...:0.394,...:...:Standing`: six channels of 100 values, then
    the label, which keeps its name. `?` and NaN are missing; a channel that ends early is missing from there on.
    Splits: the official train (of which val is held out) and test rows. Read from `uea/` of the data folder: the
    files, folders of them, or a tar archive.
    Source: Bagnall et al. 2018.
    """

    kind: Literal["uea"] = "uea"
    name: str = Field(default="BasicMotions", pattern=r"^[A-Za-z0-9_-]{1,80}$")
    """Name of the data set in the archive, such as `BasicMotions`."""

    folders: ClassVar[tuple[str, ...]] = ("uea", "Multivariate_ts")
    ending: ClassVar[str] = ".ts"
    origin: ClassVar[str] = (
        "the UEA archive (Bagnall et al. 2018) is at https://www.timeseriesclassification.com (unpack its zip file)"
    )


def _check_widths(files: Sequence[Rows], mistakes: Mistakes) -> None:
    """A mistake for each row whose number of channels is not that of the first."""
    first = next((rows.values[0].shape[1] for rows in files if rows.values), 0)
    for rows in files:
        for values, where in zip(rows.values, rows.places, strict=True):
            if values.shape[1] != first:
                mistakes.add(where, f"has {values.shape[1]} dimensions, the first row of all has {first}")


def held_out(group: np.ndarray, target: np.ndarray, train: int, share: float, seed: int) -> dict[str, np.ndarray]:
    """Rows of train, val and test, where the first `train` are the official train rows and `group` tells copies."""
    rows = drawn(target[:train], group[:train], np.arange(train), {"val": share}, seed)
    return {**rows, "test": np.arange(train, len(target))}


def write_series(
    builder: Builder,
    values: Sequence[np.ndarray],
    target: np.ndarray,
    rows: Mapping[str, np.ndarray],
    scale: bool,
    group: np.ndarray,
) -> dict[str, Any]:
    """Write each split; with `scale`, each channel has mean 0 and deviation 1 over the train values.

    Missing values are written as 0, beside `observed`. Returns facts: `width`, and `notes` on what stands in several
    splits.
    """
    missing = any(np.isnan(sequence).any() for sequence in values)
    mean, deviation = channel_moments([values[i] for i in rows["train"]]) if scale else (np.float32(0), np.float32(1))
    for name in SPLITS:
        flat, offsets = ragged([values[i] for i in rows[name]])
        observed = ~np.isnan(flat)
        flat = standardised(flat, observed, np.asarray(mean), np.asarray(deviation))
        index = np.asarray(rows[name], dtype=np.int64)
        builder.save_split(name, Examples(flat, offsets, target[index], index, observed if missing else None))
    return {"width": values[0].shape[1], "notes": copies_note(group, rows, "sequences")}


def copies(values: Sequence[np.ndarray]) -> np.ndarray:
    """(n,) equal where sequences are equal, missing values counted as 0 (as they are written)."""
    return groups(np.nan_to_num(x, nan=0.0).tobytes() + len(x).to_bytes(8, "little") for x in values)
