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


OFFSETS_AT_ONCE, MIXED_AT_ONCE = 2**16, 2**20
"""Offsets that are Python numbers at a time, and numbers whose bits are mixed at a time."""
KEY_PLACES = 8
"""Places of a sequence that are looked at first."""


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


def first_copies(examples: Examples) -> np.ndarray:
    """(n,) number of the first sequence with the same values and gaps as each: `groups(marks(examples))`, without
    Python at each of a million.

    Sums of mixed bits sort sequences out, those of a few places first; where equal sums are not equal sequences, marks
    decide.
    """
    n = len(examples)
    if n < 2 or examples.paired or not examples.lengths.all():
        return groups(marks(examples))
    keys = np.concatenate([_keys(examples, i, min(i + OFFSETS_AT_ONCE, n)) for i in range(0, n, OFFSETS_AT_ONCE)])
    _, number, count = np.unique(keys, return_inverse=True, return_counts=True)
    some, out = np.flatnonzero(count[number] > 1), np.arange(n)
    if len(some):
        out[some] = some[_first_copies(examples if len(some) == n else examples.take(some))]
    return out


def _first_copies(examples: Examples) -> np.ndarray:
    """The same by sums over whole sequences."""
    n = len(examples)
    ends, most = [0], MIXED_AT_ONCE // max(1, examples.values[:1].size)
    while ends[-1] < n:  # one sequence at least
        end = int(np.searchsorted(examples.offsets, examples.offsets[ends[-1]] + most, side="right")) - 1
        ends.append(min(max(end, ends[-1] + 1), n))
    sums = np.concatenate([_sums(examples, first, last) for first, last in pairwise(ends)])
    _, begins, number = np.unique(sums, return_index=True, return_inverse=True)
    out = np.asarray(begins[number], dtype=np.int64)
    again = np.flatnonzero(out != np.arange(n))
    some = np.union1d(again, out[again])
    if len(some):
        equal = some[groups(marks(examples.take(some)))]
        if not np.array_equal(equal, out[some]):
            return groups(marks(examples))
    return out


def _keys(examples: Examples, first: int, last: int) -> np.ndarray:
    """(last - first,) uint64, equal for equal sequences: sums over a few places of each, and its length."""
    lengths, count = examples.lengths[first:last], last - first
    at = (examples.offsets[first:last, None] + lengths[:, None] * np.arange(KEY_PLACES) // KEY_PLACES).reshape(-1)
    observed = None if examples.observed is None else examples.observed[at]
    ends = np.arange(count + 1, dtype=np.int64) * KEY_PLACES
    places = Examples(examples.values[at], ends, None, np.arange(count), observed)
    return np.asarray(_sums(places, 0, count) ^ (lengths.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)))


def _sums(examples: Examples, first: int, last: int) -> np.ndarray:
    """(last - first,) uint64 sums over each sequence of its bits, gaps and places, mixed."""
    offsets = examples.offsets[first : last + 1]
    values = examples.values[offsets[0] : offsets[-1]]
    values = values.reshape(len(values), -1)
    values = values + 0 if values.dtype.kind == "f" else values.astype(np.int64)  # -0.0 is 0.0
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.uint64)
    if examples.observed is not None:
        bits = bits * 2 + examples.observed[offsets[0] : offsets[-1]].reshape(len(bits), -1)
    position = np.arange(len(bits)) - np.repeat(offsets[:-1] - offsets[0], np.diff(offsets))
    odd = (position.astype(np.uint64) * 2 + 1) * np.uint64(0x9E3779B97F4A7C15)
    total = np.zeros(len(bits), dtype=np.uint64)
    for channel, column in enumerate(bits.T):
        mixed = (column ^ np.uint64(channel + 1)) * np.uint64(0xBF58476D1CE4E5B9) ^ odd
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0x94D049BB133111EB)
        total += mixed ^ (mixed >> np.uint64(32))
    return np.asarray(np.add.reduceat(total, offsets[:-1] - offsets[0]) + np.diff(offsets).astype(np.uint64))
