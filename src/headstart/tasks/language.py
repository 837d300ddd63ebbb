"""Language modelling of a text of one's own: which byte comes next?"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from headstart.spec import digest, place
from headstart.tasks.build import own_path, prepared_task, repeats
from headstart.tasks.pieces import piece_reader
from headstart.tasks.task import SPLITS, Task, TaskSpec
from headstart.tasks.text import decoder
from headstart.text import percent

CUT_AT_ONCE = 2**18
"""Bytes of a text that are cut into pieces at a time: each piece takes a hundred bytes of memory on the way."""
MOST_UNKNOWN = 0.2
"""Share of unknown pieces above which a tokeniser does not fit a text."""
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""Splits by the names of a folder's files, without their endings."""


class LanguageSpec(TaskSpec):
    """A text file, or a folder of them, byte by byte, in windows that follow each other: which byte comes next?

    One example of 16 positions: `In the beginning`. Needs a causal model (model.causal = true). Scored in bits per
    byte, `bits_per_token` (the fewer, the better), with perplexity, which is 2 to that power, and accuracy beside it.
    Through a `tokeniser` it is the next piece that is asked for; final scores have `bits_per_byte` and
    `perplexity_per_byte` then, by which texts in other pieces can be compared.

    Source: as enwik8 is used (Hutter 2006; Al-Rfou et al. 2019).
    """

    kind: Literal["language"] = "language"
    file: str = place(min_length=1)
    """The text or the folder, from the data folder on or absolute; .gz, .xz and .bz2 are unpacked. Files with the words
    train, val (valid, validation) and test in their names are these splits, and other files beside them are not read;
    of other folders, all files in the order of their names are one text, which may be larger than memory. Where it is
    enters no identity; its content does."""
    length: int = Field(default=256, ge=2, le=2**20)
    """Bytes (pieces) of a window; the last one of a split may be shorter."""
    tokeniser: str | None = place(None, min_length=1)
    """A `tokenizer.json`, or a folder with one, from the data folder on or absolute: tokens are its pieces in place of
    bytes (pip install 'headstart[hf]'). Where it is enters no identity; the pieces do."""
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
        cutter = () if self.tokeniser is None else files_of(own_path(data, "tokeniser", self.tokeniser))
        return (*files_of(own_path(data, "file", self.file)), *cutter)

    def load(self, data: Path) -> Task:
        files = tuple(files_of(own_path(data, "file", self.file)))
        settings = self.model_dump(include={"length", "val_share", "test_share"})
        document = {"reader": self.reader, "files": stamps(files), **settings}
        if self.tokeniser is not None:
            return self._in_pieces(document, files, own_path(data, "tokeniser", self.tokeniser))
        ready = prepared("language", document, lambda builder: self._build(builder, files))
        return prepared_task(ready, "tokens", 256, labels=(), text=decoder(None))

    def _in_pieces(self, document: dict[str, Any], files: tuple[Path, ...], path: Path) -> Task:
        from headstart.checkpoints.tokeniser import tokeniser_alone

        cutter, count = tokeniser_alone(path)
        document["tokeniser"] = digest(cutter)
        ready = prepared("language", document, lambda builder: self._build_pieces(builder, files, cutter, count))
        task = prepared_task(ready, "tokens", count, labels=(), text=piece_reader(cutter))
        return replace(task, bytes_per_token=ready.facts["bytes_per_token"], decided=f"{count} pieces")

    def _build_pieces(self, builder: Builder, files: tuple[Path, ...], cutter: str, count: int) -> dict[str, Any]:
        texts, pieces, lost = self._texts(builder, files), dict[str, np.ndarray](), 0
        for name, text in texts.items():
            path = builder.folder / f"{name}-pieces.part"
            pieces[name], unknown = _cut(text, path, cutter, np.uint16 if count <= 2**16 else np.int32)
            lost += unknown
        share = lost / max(sum(map(len, pieces.values())), 1)
        if share > MOST_UNKNOWN:
            raise BadInput(
                f"task.tokeniser: {percent(share)} of the pieces of {self.file} are unknown to it, as happens with a "
                "tokeniser for another language; name one that knows this text, or leave it out, for bytes"
            )
        sizes = {name: len(texts[name]) / max(len(pieces[name]), 1) for name in SPLITS}
        self._save(builder, pieces, "pieces")
        better = "so that bits per byte look better than they are"
        notes = [f"{percent(share)} of the pieces are unknown to the tokeniser, {better}"]
        return {"notes": notes * (lost > 0) + repeats(builder, "windows"), "bytes_per_token": sizes}

    def _save(self, builder: Builder, texts: Mapping[str, np.ndarray], what: str) -> None:
        """Cut the tokens of each split into windows and write them."""
        first = 0
        for name, text in texts.items():
            if len(text) < 2:
                problem = f"{self.file} has {len(text)} {what} of {name}, and a window has at least 2"
                raise BadInput(f"task.file: {problem}; give more text, or other shares")
            text = text[: len(text) - (len(text) % self.length == 1)]  # a single token has no next one
            count = -(-len(text) // self.length)
            offsets = np.minimum(np.arange(count + 1) * self.length, len(text))
            builder.save_split(name, Examples(text, offsets, None, first + np.arange(count)))
            first += count
        for path in builder.folder.glob("*.part"):  # what is mapped stays readable
            disk.unlink(path)

    def _build(self, builder: Builder, files: tuple[Path, ...]) -> dict[str, Any]:
        texts = self._texts(builder, files)
        self._save(builder, texts, "bytes")
        single, pairs = (table_bits(texts["train"], texts["test"], context) for context in (0, 1))
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


def _cut(text: np.ndarray, path: Path, cutter: str, dtype: Any) -> tuple[np.ndarray, int]:
    """The pieces (S,) of a text, in a new file that is mapped into memory, and how many are unknown.

    It is cut part by part, each up to the last end of a line in it, so that memory holds the pieces of a part alone.
    """
    from headstart.checkpoints.tokeniser import ids_of

    disk.append(path, b"")
    reader, rest, lost = codecs.getincrementaldecoder("utf-8")("replace"), "", 0
    for first in range(0, len(text), CUT_AT_ONCE):
        last = first + CUT_AT_ONCE >= len(text)
        rest += reader.decode(text[first : first + CUT_AT_ONCE].tobytes(), last)
        end = len(rest) if last else rest.rfind("\n") + 1
        if not end and len(rest) < 4 * CUT_AT_ONCE:  # a line that is longer is cut where it may be
            continue
        part, rest = rest[: end or None], rest[end:] if end else ""
        ids, unknown = ids_of(cutter, part)
        disk.append(path, ids.astype(dtype).tobytes())
        lost += unknown
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype), lost


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
