"""Text of Long Range Arena: is a film review positive or negative, read byte by byte?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.prepared import Builder, Prepared, Writer, prepared, stored
from headstart.data.splits import groups, hold_out, occurs_once, shared_note
from headstart.errors import BadInput
from headstart.sequence import Signature
from headstart.tasks.reviews import OFFICIAL, find, reviews
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Task, TaskSpec

END = 255
"""Id of the end of a text among bytes: a byte that UTF-8 never uses."""
RARE, STOP = "\ufffd", "∎"
"""What stands for a rare character and for the end where a text is shown."""
_MAKER = 1
"""Raised when the same reviews give other examples."""


class TextSpec(TaskSpec):
    """50,000 film reviews of IMDb with two labels, as bytes or characters and an end symbol.

    One example begins `Story of a man who has unnatural feelings for a pig. ...`, label `negative`. Official
    splits: 25,000 train, 25,000 test; 123 texts stand in both.

    symbols: `bytes` (of UTF-8; 256 ids, the last unused byte is the end) or `characters`: those that occur at
        least `least` times in train, after id 0, which stands for all others; the end is the last id.
    least: occurrences in the cut texts of train that a character needs to have an id of its own.
    length: the most symbols of an example, the end among them; longer texts lose their rest.
    split: `described` holds out `val_share` of train, each label in proportion, by `split_seed` (of texts that
        occur twice all copies stay in train); `published`, as the released code has it, validates on test.
    Source: Maas et al. 2011; as a sequence: Tay et al. 2020.
    """

    kind: Literal["text"] = "text"
    symbols: Literal["bytes", "characters"] = "bytes"
    least: int = Field(default=15, ge=1)
    length: int = Field(default=4096, ge=2)
    split: Literal["described", "published"] = "described"
    val_share: float = Field(default=0.1, gt=0, lt=1)

    shows_not: ClassVar[str] = LONG_RANGE_ARENA

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return find(data, self.kind)[1]

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the reviews and write them as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        splits = {name: stored(found, self._stored_as(name)) for name in SPLITS}
        lengths = np.concatenate([examples.lengths for examples in splits.values()])
        labels = tuple(found.facts["labels"])
        signature = Signature(
            input="tokens",
            width=found.facts["width"],
            length=int(lengths.max()),
            shortest=int(lengths.min()),
            target="class",
            classes=len(labels),
        )
        return Task(
            signature,
            splits["train"],
            splits["val"],
            splits["test"],
            labels=labels,
            notes=tuple(found.facts["notes"]),
            text=decoder(found.facts["characters"]),
            fingerprint=found.fingerprint,
        )

    def _stored_as(self, split: str) -> str:
        return "test" if self.split == "published" and split == "val" else split

    def _prepared(self, data: Path) -> Prepared:
        base = reviews(data, self.kind)
        document: dict[str, Any] = {
            "maker": _MAKER,
            "reviews": base.fingerprint,
            "length": self.length,
            "symbols": self.symbols,
            "split": self.split,
        }
        if self.symbols == "characters":
            document["least"] = self.least
        if self.split == "described":
            document |= {"val_share": self.val_share, "seed": self.split_seed}
        return prepared(data, "text", document, lambda builder: _build(builder, self, base))


def decoder(characters: str | None) -> Callable[[np.ndarray], str]:
    """What turns ids back into a text: bytes, or places in `characters` (from id 1)."""
    if characters is None:

        def from_bytes(ids: np.ndarray) -> str:
            parts = np.asarray(ids, dtype=np.uint8).tobytes().split(bytes([END]))
            return STOP.join(part.decode(errors="replace") for part in parts)

        return from_bytes
    table = np.array([ord(c) for c in RARE + characters + STOP], dtype="<u4")
    return lambda ids: table[np.asarray(ids)].tobytes().decode("utf-32-le")


def code_points(text: bytes) -> np.ndarray:
    """UTF-8 -> the numbers of its characters."""
    return np.frombuffer(text.decode().encode("utf-32-le"), dtype="<u4")


def vocabulary(sequences: Iterator[np.ndarray], least: int) -> str:
    """Characters that occur at least `least` times in sequences of code points, in their order."""
    counts = np.zeros(0x110000, dtype=np.int64)
    chunk: list[np.ndarray] = []
    size = 0
    for sequence in sequences:
        chunk.append(sequence)
        size += len(sequence)
        if size > 2**21:  # one count over many texts, as each looks at every character that there is
            counts += np.bincount(np.concatenate(chunk), minlength=len(counts))
            chunk, size = [], 0
    if chunk:
        counts += np.bincount(np.concatenate(chunk), minlength=len(counts))
    return "".join(map(chr, np.flatnonzero(counts >= least).tolist()))


def _cut(spec: TextSpec, base: Prepared, row: int) -> np.ndarray:
    """Bytes or code points of one review, without its end, as many as there is room for."""
    first, last = base.arrays["all_offsets"][row : row + 2]
    text = base.arrays["all_values"][first:last]
    if spec.symbols == "bytes":
        return np.asarray(text[: spec.length - 1])
    return code_points(text[: 4 * spec.length].tobytes()[: _whole(text, 4 * spec.length)])[: spec.length - 1]


def _whole(text: np.ndarray, most: int) -> int:
    """The largest number up to `most` of bytes that splits no character of UTF-8."""
    if most >= len(text):
        return len(text)
    while text[most] & 0xC0 == 0x80:  # a byte that continues a character
        most -= 1
    return most


def split_rows(spec: TextSpec, base: Prepared, group: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of the reviews of each split, in ascending order; `group` tells equal examples."""
    train, label = int(base.facts["train"]), np.asarray(base.arrays["all_target"])
    rows = {"train": np.arange(train), "test": np.arange(train, len(label))}
    if spec.split == "described":
        count = round(spec.val_share * train)
        val = hold_out(label[:train], occurs_once(group[:train]), count, spec.split_seed, "task.val_share")
        rows = {"train": np.setdiff1d(rows["train"], val), "val": val, "test": rows["test"]}
    return rows


def _build(builder: Builder, spec: TextSpec, base: Prepared) -> dict[str, Any]:
    """Write each split of the cut and numbered reviews."""
    label = np.asarray(base.arrays["all_target"])
    group = groups(_cut(spec, base, row).tobytes() for row in range(len(label)))
    rows = split_rows(spec, base, group)
    characters, ids, end = None, None, END
    if spec.symbols == "characters":
        characters = vocabulary((_cut(spec, base, row) for row in rows["train"]), spec.least)
        if len(characters) > 2**16 - 2:
            raise BadInput(f"task.least: {spec.least} leaves {len(characters)} characters; take a larger number")
        ids, end = np.zeros(0x110000, dtype=np.uint16), len(characters) + 1
        ids[[ord(c) for c in characters]] = np.arange(1, end)
    for name, chosen in rows.items():
        writer = Writer(builder, name, np.uint8 if end < 256 else np.uint16)
        for row in chosen:
            symbols = _cut(spec, base, row)
            writer.add(np.append(symbols if ids is None else ids[symbols], end))
            if len(writer) % 1000 == 0:
                builder.report(len(writer), len(chosen))
        writer.finish(label[chosen], chosen)
    return {
        "width": end + 1,
        "characters": characters,
        "labels": base.facts["labels"],
        "notes": _notes(spec, base, group, rows),
    }


def _notes(spec: TextSpec, base: Prepared, group: np.ndarray, rows: dict[str, np.ndarray]) -> list[str]:
    """What a table must say of these texts."""
    notes, train, whole = [], int(base.facts["train"]), np.asarray(base.arrays["group"])
    sizes = {"train": train, "test": len(rows["test"])}
    if sizes != OFFICIAL:
        notes.append(
            f"not the official IMDb: {sizes['train']} train and {sizes['test']} test texts (official: 25000 and 25000)"
        )
    both = len(np.intersect1d(whole[:train], whole[train:]))
    if both:
        notes.append(f"{both} texts stand in both the official train and test files")
    if spec.split == "published":
        notes.append("val is the official test split, as in the released code: what is chosen on val has seen test")
    return [*notes, *shared_note(group, {"val": np.zeros(0, dtype=np.int64), **rows}, "texts")]
