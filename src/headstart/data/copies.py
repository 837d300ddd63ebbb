"""Which sequences are copies of each other."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from headstart.sequence import Examples


def groups(contents: Any) -> np.ndarray:
    """(n,) number of the first of `contents` (buffers) that equals each: equal content, equal number."""
    first: dict[bytes, int] = {}
    marks = (blake2b(content, digest_size=16).digest() for content in contents)
    return np.array([first.setdefault(mark, i) for i, mark in enumerate(marks)], dtype=np.int64)


OFFSETS_AT_ONCE = 2**16
"""Offsets that are Python numbers at a time."""


def marks(examples: Examples) -> list[bytes]:
    """16 bytes for each unit, equal where the sequences (both of a pair) and their gaps are equal, targets apart."""
    return list(each_mark(examples))


def each_mark(examples: Examples) -> Iterator[bytes]:
    """The same one after another, of more units than there is memory for."""
    values, observed = examples.values, examples.observed
    step = 2 if examples.paired else 1
    for start in range(0, len(examples), OFFSETS_AT_ONCE):
        offsets = examples.offsets[start : start + OFFSETS_AT_ONCE + 1].tolist()
        for first in range(0, len(offsets) - 1, step):
            total = blake2b(digest_size=16)
            for begin, end in pairwise(offsets[first : first + step + 1]):
                total.update((end - begin).to_bytes(8, "little"))
                part = np.ascontiguousarray(values[begin:end])
                total.update((part + 0 if part.dtype.kind == "f" else part).tobytes())  # -0.0 is 0.0
                total.update(b"" if observed is None else np.packbits(observed[begin:end]).tobytes())
            yield total.digest()
