"""Examples on disk: one split after another into a builder's folder, opened again memory-mapped."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.sequence import Examples
from headstart.tasks.cache import Builder, Prepared

AT_ONCE = 2**22
"""Bytes that are gathered before they are written."""


class Writer:
    """Writes the sequences of one split as they come, so that memory holds a few of them at a time."""

    def __init__(self, builder: Builder, split: str, dtype: Any = np.uint8) -> None:
        self._builder, self._split, self._dtype = builder, split, np.dtype(dtype)
        self._path = builder.folder / f"{split}.part"
        self._waiting: list[bytes] = []
        self._size = 0
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, sequence: np.ndarray) -> None:
        """One more sequence (L,)."""
        self._waiting.append(np.ascontiguousarray(sequence, dtype=self._dtype).tobytes())
        self._size += len(self._waiting[-1])
        self._lengths.append(len(sequence))
        if self._size > AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        with self._path.open("ab") as file:  # closed each time: a build that fails leaves nothing open
            file.writelines(self._waiting)
        self._waiting, self._size = [], 0

    def finish(self, target: np.ndarray, index: np.ndarray) -> None:
        """Write the arrays of the split."""
        self._flush()
        total, name = sum(self._lengths), self._split
        values = self._builder.empty(f"{name}_values", (total,), self._dtype)
        if total:
            raw = np.memmap(self._path, dtype=self._dtype, mode="r")
            for first in range(0, total, 2**24):
                values[first : first + 2**24] = raw[first : first + 2**24]
            del raw
        self._path.unlink()
        self._builder.save(f"{name}_offsets", np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64))
        self._builder.save(f"{name}_target", target.astype(np.int64))
        self._builder.save(f"{name}_index", index.astype(np.int64))


def stored(
    found: Prepared, split: str, paired: bool = False, scale: float | None = None, shift: float = 0.0
) -> Examples:
    """A split that was written, memory-mapped."""
    values, offsets, target, index = (
        np.asarray(found.arrays[f"{split}_{part}"]) for part in ("values", "offsets", "target", "index")
    )
    return Examples(values, offsets, target, index, paired=paired, scale=scale, shift=shift)


def groups(contents: Any) -> np.ndarray:
    """(n,) number of the first of `contents` (buffers) that equals each: equal content, equal number."""
    first: dict[bytes, int] = {}
    marks = (blake2b(content, digest_size=16).digest() for content in contents)
    return np.array([first.setdefault(mark, i) for i, mark in enumerate(marks)], dtype=np.int64)


def occurs_once(group: np.ndarray) -> np.ndarray:
    """(n,) bool: nothing else has this content."""
    _, place, count = np.unique(group, return_inverse=True, return_counts=True)
    once: np.ndarray = count[place] == 1
    return once


def hold_out(target: np.ndarray, may: np.ndarray, count: int, seed: int, field: str) -> np.ndarray:
    """`count` units, each class in proportion to `target` (n,), in ascending order, by the split's seed.

    Only units that `may` (n,) be held out are: those whose content occurs once, so that no copy of them
    stays behind. Raises: BadInput naming the field where a class has too few, or none would stay.
    """
    noise, classes = bits(seed, "task/val", np.arange(len(target))), np.unique(target)
    exact = np.array([count * float((target == c).sum()) / len(target) for c in classes])
    share = np.floor(exact).astype(np.int64)
    share[np.argsort(share - exact, kind="stable")[: count - int(share.sum())]] += 1
    chosen = []
    for value, some in zip(classes, share, strict=True):
        members = np.flatnonzero((target == value) & may)
        if some > len(members) or some >= (target == value).sum():
            raise BadInput(
                f"{field}: holding out {count} takes {some} of class {value}, which has "
                f"{len(members)} without a copy in train; take fewer"
            )
        chosen.append(members[np.argsort(noise[members], kind="stable")[:some]])
    return np.sort(np.concatenate(chosen))


def shared_note(group: np.ndarray, rows: dict[str, np.ndarray], what: str) -> tuple[str, ...]:
    """A note on how many of the test units stand in train and val too, where any does."""
    found = {name: int(np.isin(group[rows["test"]], group[rows[name]]).sum()) for name in ("train", "val")}
    said = [f"{count} also stand in {name}" for name, count in found.items() if count]
    return (f"of the {len(rows['test'])} official test {what}, {' and '.join(said)}",) if said else ()
