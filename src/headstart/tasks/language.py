"""Language modelling of a text of one's own: which byte comes next?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart import disk
from headstart.atomic import stamps
from headstart.data.archives import files_of, reading, unpacked
from headstart.data.prepared import BYTES_AT_ONCE, Builder, prepared
from headstart.errors import BadInput
from headstart.sequence import Examples
from headstart.spec import place
from headstart.tasks.build import own_path, prepared_task, repeats
from headstart.tasks.task import SPLITS, Task, TaskSpec
from headstart.tasks.text import decoder

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""Splits by the names of a folder's files, without their endings."""


class LanguageSpec(TaskSpec):
    """A text file, or a folder of them, byte by byte, in windows that follow each other: which byte comes next?

    One example of 16 positions: `In the beginning`. Needs a causal model (model.causal = true). Scored in bits per
    byte, `bits_per_token` (the fewer, the better), with perplexity, which is 2 to that power, and accuracy beside it.

    Source: as enwik8 is used (Hutter 2006; Al-Rfou et al. 2019).
    """

    kind: Literal["language"] = "language"
    file: str = place(min_length=1)
    """The text or the folder, from the data folder on or absolute; .gz, .xz and .bz2 are unpacked. Files with the words
    train, val (valid, validation) and test in their names are these splits, and other files beside them are not read;
    of other folders, all files in the order of their names are one text, which may be larger than memory. Where it is
    enters no identity; its content does."""
    length: int = Field(default=256, ge=2, le=2**20)
    """Bytes of a window; the last one of a split may be shorter."""
    val_share: float = Field(default=0.05, gt=0, lt=1)
    """Where files do not name the splits: shares of the text, which is cut into train, val and test in this order."""
    test_share: float = Field(default=0.05, gt=0, lt=1)
    """Where files do not name the splits: shares of the text, which is cut into train, val and test in this order."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ()
    shows_not: ClassVar[str] = "bits per byte of one text: this says little of other texts, nor of what a model can do."
    objective: ClassVar[str] = "causal"
    reader: ClassVar[int] = 2
    monitor: ClassVar[str | None] = "bits_per_token"

    @model_validator(mode="after")
    def _room(self) -> LanguageSpec:
        if self.val_share + self.test_share >= 1:
            raise ValueError(f"val_share: {self.val_share} and test_share: {self.test_share} leave no train; take less")
        return self

    def files(self, data: Path) -> tuple[Path, ...]:
        return tuple(files_of(own_path(data, "file", self.file)))

    def load(self, data: Path) -> Task:
        files = self.files(data)
        settings = self.model_dump(include={"length", "val_share", "test_share"})
        document = {"reader": self.reader, "files": stamps(files), **settings}
        ready = prepared("language", document, lambda builder: self._build(builder, files))
        return prepared_task(ready, "tokens", 256, labels=(), text=decoder(None))

    def _build(self, builder: Builder, files: tuple[Path, ...]) -> dict[str, Any]:
        texts, first = self._texts(builder, files), 0
        for name, text in texts.items():
            if len(text) < 2:
                problem = f"{self.file} has {len(text)} bytes of {name}, and a window has at least 2"
                raise BadInput(f"task.file: {problem}; give more text, or other shares")
            text = text[: len(text) - (len(text) % self.length == 1)]  # a single byte has no next one
            count = -(-len(text) // self.length)
            offsets = np.minimum(np.arange(count + 1) * self.length, len(text))
            builder.save_split(name, Examples(text, offsets, None, first + np.arange(count)))
            first += count
        single, pairs = (table_bits(texts["train"], texts["test"], context) for context in (0, 1))
        for path in builder.folder.glob("*.part"):
            disk.unlink(path)
        notes = [f"bits per byte of test without a network: {single:.3f} by single bytes, {pairs:.3f} by pairs"]
        return {"notes": notes + repeats(builder, "windows")}

    def _texts(self, builder: Builder, files: tuple[Path, ...]) -> dict[str, np.ndarray]:
        """The bytes (S,) of each split, in files of the builder's folder: a text may be larger than memory."""
        splits = named_splits(files, self.file)
        if splits:
            return {name: _joined(builder.folder / f"{name}.part", [files[i] for i in splits[name]]) for name in SPLITS}
        whole = _joined(builder.folder / "text.part", files)
        ends = [round(len(whole) * share) for share in (1 - self.val_share - self.test_share, 1 - self.test_share)]
        return dict(zip(SPLITS, np.split(whole, ends), strict=True))


def _joined(path: Path, files: Sequence[Path]) -> np.ndarray:
    """The bytes (S,) of these files, one after another, in a new file that is mapped into memory."""
    disk.append(path, b"")
    for part in (part for file in files for part in _parts(file)):
        disk.append(path, part)
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)


def _parts(file: Path) -> Iterator[bytes]:
    with reading(file), unpacked(file) as opened:
        while part := opened.read(BYTES_AT_ONCE):
            yield part


def named_splits(files: Sequence[Path], folder: str) -> dict[str, list[int]]:
    """Places of the files of each split, told by a word of their names; none where names tell no splits.

    Raises: BadInput where they tell two of the three.
    """
    splits: dict[str, list[int]] = {}
    for number, file in enumerate(files):
        words = {SPLIT_NAMES[word] for word in re.split("[^a-z]+", file.name.lower()) if word in SPLIT_NAMES}
        if len(words) == 1:
            splits.setdefault(words.pop(), []).append(number)
    if len(splits) == len(SPLITS):
        return splits
    if len(splits) == 2:
        lacking = next(name for name in SPLITS if name not in splits)
        both = " and ".join(sorted(splits, key=SPLITS.index))
        raise BadInput(
            f"task.file: names of files in {folder} say {both}, and none says {lacking}; add it, or rename the files "
            "where they are one text"
        )
    return {}


def table_bits(train: np.ndarray, test: np.ndarray, context: int) -> float:
    """Bits per byte of `test` by how often, plus 1, each byte follows the `context` (0 or 1) bytes before in train.

    The first byte is asked for too, as if byte 0 came before it.
    """
    learnt = 1 + _follow(train, context)
    shares = np.log2(learnt) - np.log2(learnt.sum(1, keepdims=True))
    return float(-(_follow(test, context) * shares).sum() / len(test))


def _follow(text: np.ndarray, context: int) -> np.ndarray:
    """(256, 256): how often each byte (column) follows each byte (row; row 0 alone without context)."""
    counts, last = np.zeros(256 * 256, dtype=np.int64), 0
    for first in range(0, len(text), BYTES_AT_ONCE):
        part = text[first : first + BYTES_AT_ONCE].astype(np.int64)
        before = np.concatenate([[last], part[:-1]])
        last = part[-1]
        counts += np.bincount(256 * context * before + part, minlength=len(counts))
    return counts.reshape(256, 256)
