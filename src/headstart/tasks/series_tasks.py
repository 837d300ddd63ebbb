"""What the tasks made of an archive of time series share: a set by its name, official train and test, drawn val."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.named_files import Named, find_named, texts
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.problems import Mistakes
from headstart.data.series import Rows
from headstart.sequence import Signature
from headstart.tasks.series_sets import classes_of, copies, held_out, opened, same_width, write_splits
from headstart.tasks.task import SPLITS, Task, TaskSpec

_READER = 1
"""Raised when the same files give other arrays."""


class SeriesSpec(TaskSpec):
    """Fields of the tasks made of an archive of labelled time series. `kind`, `name` and the reader are theirs.

    val_share: share of the official train rows that is held out by `split_seed`, each class in proportion; of
        rows that occur twice all copies stay in train.
    standardise: each channel gets mean 0 and deviation 1 over the train rows; else values stay as they are.
    """

    name: str
    val_share: float = Field(default=0.2, gt=0, lt=1)
    standardise: bool = True

    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"
    folders: ClassVar[tuple[str, ...]]
    ending: ClassVar[str]
    origin: ClassVar[str]

    def read(self, lines: Iterator[tuple[str, str]], file: str, mistakes: Mistakes) -> Rows:
        """The sequences of one file. Overridden by each task."""
        raise NotImplementedError

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return self._named(data).files

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the set and write it as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        facts, labels = found.facts, tuple(found.facts["labels"])
        signature = Signature(
            input="floats",
            width=facts["width"],
            length=facts["length"],
            shortest=facts["shortest"],
            target="class",
            classes=len(labels),
            missing=facts["missing"],
        )
        splits = {name: opened(found, name) for name in SPLITS}
        return Task(
            signature,
            splits["train"],
            splits["val"],
            splits["test"],
            labels=labels,
            notes=tuple(facts["notes"]),
            fingerprint=found.fingerprint,
        )

    def _names(self) -> tuple[str, str]:
        return f"{self.name}_TRAIN{self.ending}", f"{self.name}_TEST{self.ending}"

    def _named(self, data: Path) -> Named:
        return find_named(data, self.kind, self.folders, self._names(), self.origin)

    def _prepared(self, data: Path) -> Prepared:
        named = self._named(data)
        document = {
            "reader": _READER,
            "name": self.name,
            "files": stamps(named.files),
            "val_share": self.val_share,
            "seed": self.split_seed,
            "standardise": self.standardise,
        }
        return prepared(data, f"{self.kind}-{self.name}", document, lambda builder: self._build(builder, named))

    def _build(self, builder: Builder, named: Named) -> dict[str, Any]:
        mistakes, read = Mistakes(), {}
        for name, lines in texts(named, mistakes, self._names()):
            read[name] = self.read(lines, name, mistakes)
        train, test = (read[name] for name in self._names())
        for name, rows in read.items():
            if not rows:
                mistakes.add(name, "holds no sequence that can be read; give the file again")
        same_width({"train": train, "test": test}, mistakes)
        labels = classes_of(train, test, self._names()[0], mistakes)
        mistakes.check()
        numbers = {label: i for i, label in enumerate(labels)}
        target = np.array([numbers[label] for label in train.labels + test.labels], dtype=np.int64)
        values = train.values + test.values
        group = copies(values)
        chosen = held_out(group, target, len(train), self.val_share, self.split_seed)
        return {**write_splits(builder, values, target, chosen, self.standardise, group), "labels": labels}
