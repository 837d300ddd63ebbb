"""Dilated convolutions of many sequences at once, and how often, far, late and long their outputs exceed biases; numpy
alone.

A kernel has nine weights: 2 at three places, -1 at the others, so that a constant gives 0 (Dempster et al. 2021).
Letters: R rows (positions), F features, n sequences. Sequences are columns, so that a shift by a dilation is a slice
of rows, and one addition serves all sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

KERNEL_TAPS = 9
REACH = KERNEL_TAPS - 1
"""A kernel of dilation d spans REACH d + 1 positions."""
WEIGHT_PLACES = np.array(list(combinations(range(KERNEL_TAPS), 3)))
"""(84, 3) places of the weights 2 of each kernel."""
_WIDE = 1_024
"""Counts that are summed side by side: rows of fewer sequences are joined to so many."""
_CACHED = 1 << 21
"""Comparisons of a call: they stay in the processor's cache, and threads seldom wait for each other's calls."""
BYTE = 255
"""A byte counts so far."""
POOLS = 4
"""Pooling operators of `Pooler` (Tan et al. 2022)."""
POOLED_ROWS = 16
"""Rows that are pooled at once: the sum of their numbers fits into a byte."""
POOLED_BIASES = 1 << 14
"""Outputs of a row times biases that are pooled at once: these arrays stay in a core's cache."""


@dataclass(frozen=True)
class KernelBlock:
    """Sequences side by side: `values` (F, R, n) float32, zeros from each sequence's end on; `lengths` (n,)."""

    values: np.ndarray
    lengths: np.ndarray

    def columns(self, chosen: slice) -> KernelBlock:
        """Some of the sequences, without rows that none of them has."""
        lengths = self.lengths[chosen]
        return KernelBlock(self.values[:, : int(lengths.max()), chosen], lengths)


def convolutions(
    block: KernelBlock, dilation: int, kernels: Sequence[int], padded: np.ndarray, channels: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """The outputs of these of the 84 kernels in turn: (rows, n) float32, valid until the next is asked for.

    `padded` (84,) says which kernels see zeros beyond a sequence's ends and so have an output at each of its
    positions; the others have one where all nine places are inside, which every sequence must be long enough for.
    Where there is none, the output is -inf or its row is left out. `channels` (84, C): the features that a kernel
    sums (-1: none); None: the only one there is. An output does not depend on the sequences beside it.
    """
    reach = REACH // 2 * dilation
    features, rows, n = block.values.shape
    tripled = np.zeros((features, rows + 2 * reach, n), dtype=np.float32)
    np.multiply(block.values, np.float32(3), out=tripled[:, reach : reach + rows])
    walls = _walls(block.lengths, rows, reach)
    if channels is None:
        return _of_one(tripled[0], _sum_of_taps(block.values[0], dilation), walls, dilation, kernels, padded)
    return _of_several(
        tripled, np.stack([_sum_of_taps(x, dilation) for x in block.values]), walls, dilation, kernels, padded, channels
    )


def _sum_of_taps(values: np.ndarray, dilation: int) -> np.ndarray:
    """(R, n): the sum of the nine places around each position."""
    rows = len(values)
    total = np.zeros_like(values)
    for tap in range(KERNEL_TAPS):
        shift = (tap - KERNEL_TAPS // 2) * dilation
        first, last = max(0, -shift), min(rows, rows - shift)
        if first < last:
            total[first:last] += values[first + shift : last + shift]
    return total


def _walls(lengths: np.ndarray, rows: int, reach: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Twice (R, n): inf where an inner and where a padded kernel has no output, else 0; None if rows say it all."""
    if (lengths == rows).all():
        return None
    row = np.arange(rows)[:, None]
    inner, outer = row >= lengths - reach, row >= lengths
    return np.where(inner, np.float32(np.inf), np.float32(0)), np.where(outer, np.float32(np.inf), np.float32(0))


def _of_one(
    tripled: np.ndarray,
    total: np.ndarray,
    walls: tuple[np.ndarray, np.ndarray] | None,
    dilation: int,
    kernels: Sequence[int],
    padded: np.ndarray,
) -> Iterator[np.ndarray]:
    """One feature: kernels that share their first two places share the sum of those."""
    rows, n = total.shape
    inside = slice(REACH // 2 * dilation, rows - REACH // 2 * dilation)
    shifted = [tripled[tap * dilation : tap * dilation + rows] for tap in range(KERNEL_TAPS)]
    totals = [total] if walls is None else [total + wall for wall in walls]
    out, pairs = np.empty(rows * n, dtype=np.float32), [np.empty_like(total) for _ in totals]
    last = (-1, -1)
    for kernel in kernels:
        i, j, k = WEIGHT_PLACES[kernel].tolist()
        if (i, j) != last:
            for pair, of in zip(pairs, totals, strict=True):
                np.subtract(shifted[i], of, out=pair)
                pair += shifted[j]
            last = (i, j)
        if padded[kernel]:
            yield np.add(pairs[-1], shifted[k], out=out.reshape(rows, n))
        else:
            held = inside.stop - inside.start
            yield np.add(pairs[0][inside], shifted[k][inside], out=out[: held * n].reshape(held, n))


def _of_several(
    tripled: np.ndarray,
    totals: np.ndarray,
    walls: tuple[np.ndarray, np.ndarray] | None,
    dilation: int,
    kernels: Sequence[int],
    padded: np.ndarray,
    channels: np.ndarray,
) -> Iterator[np.ndarray]:
    """Several features: the chosen ones are summed first, since a sum of convolutions is that of the sum."""
    _, rows, n = totals.shape
    reach = REACH // 2 * dilation
    out = np.empty(rows * n, dtype=np.float32)
    wide = np.empty_like(tripled[0])
    for kernel in kernels:
        chosen = channels[kernel][channels[kernel] >= 0].tolist()
        inside = slice(0, rows) if padded[kernel] else slice(reach, rows - reach)
        held = inside.stop - inside.start
        into = out[: held * n].reshape(held, n)
        np.copyto(wide, tripled[chosen[0]])
        np.copyto(into, totals[chosen[0], inside])
        for channel in chosen[1:]:
            wide += tripled[channel]
            into += totals[channel, inside]
        if walls is not None:
            into += walls[int(padded[kernel])][inside]
        begins = (WEIGHT_PLACES[kernel] * dilation + inside.start).tolist()
        first, second, third = (wide[begin : begin + held] for begin in begins)
        np.subtract(first, into, out=into)
        into += second
        into += third
        yield into


class Counter:
    """How many outputs of each sequence exceed biases."""

    def __init__(self, size: int) -> None:
        self.over = np.empty(max(size, _CACHED), dtype=bool)

    def __call__(self, outputs: np.ndarray, biases: np.ndarray, out: np.ndarray) -> None:
        """Write counts over the rows of outputs (R, n), for biases (b,), into `out` (b, n) float32."""
        (rows, n), most = outputs.shape, max(1, len(self.over) // outputs.size)
        for first in range(0, len(biases), most):
            some = biases[first : first + most]
            over = self.over[: len(some) * outputs.size].reshape(len(some), rows, n)
            np.greater(outputs, some[:, None, None], out=over)
            count_rows(over, out[first : first + most])


def count_rows(over: np.ndarray, out: np.ndarray) -> None:
    """Write into `out` (b, n) float32 in how many rows `over` (b, R, n) is True: bytes are summed side by side."""
    (several, rows, n), whole, first = over.shape, over.view(np.uint8), 0
    while first < rows:
        joined = min(max(1, _WIDE // n), rows - first)
        high = min((rows - first) // joined, BYTE)
        last = first + high * joined
        sums = np.add.reduce(whole[:, first:last].reshape(several, high, joined * n), axis=1, dtype=np.uint8)
        parts = sums.reshape(several, joined, n)
        if first:
            out += np.add.reduce(parts, axis=1, dtype=np.float32)
        else:
            np.add.reduce(parts, axis=1, dtype=np.float32, out=out)
        first = last


class Pooler:
    """Of outputs above biases: their share of all rows, how far they are above on average, their mean place and their
    longest stretch, both as shares of all rows too; all 0 where none is above.

    The sum of a sequence does not depend on the sequences beside it: rows are added in their order.
    """

    def __init__(self, rows: int, shape: tuple[int, int, int]) -> None:
        """shape: (b biases of each kernel, k kernels, n sequences)."""
        counted = np.uint8 if rows <= BYTE else np.uint16 if rows < 1 << 16 else np.uint32
        each = (POOLED_ROWS, *shape)
        self.above, self.nothing = np.empty(each, np.float32), np.zeros(each, np.float32)
        self.over, self.ones, self.part = np.empty(each, bool), np.empty(each, np.uint8), np.empty(each, np.uint8)
        self.wide, self.run, self.longest = np.empty(each, counted), np.empty(shape, counted), np.empty(shape, counted)
        self.biases = np.empty(shape, np.float32)

    def __call__(self, outputs: np.ndarray, biases: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
        """Write into `out` (4, b, k, n) float32 what outputs (R, k, n) are, for biases (k, b); lengths (n,) rows that
        each sequence has."""
        out[:], self.biases[:] = 0, biases.T[:, :, None]
        self.run[:], self.longest[:] = 0, 0
        count, above, position, longest = out
        number = np.arange(POOLED_ROWS, dtype=np.uint8)[:, None, None, None]
        for first in range(0, len(outputs), POOLED_ROWS):
            some = outputs[first : first + POOLED_ROWS, None]
            rows = len(some)
            over, ones, part = self.over[:rows], self.ones[:rows], self.part[:rows]
            high = np.subtract(some, self.biases, out=self.above[:rows])
            np.maximum(high, self.nothing[:rows], out=high)
            above += np.add.reduce(high, axis=0)
            np.greater(high, 0, out=over)
            counted = np.add.reduce(over.view(np.uint8), axis=0, dtype=np.uint8)
            count += counted
            np.bitwise_and(np.negative(over.view(np.uint8), out=ones), number[:rows], out=part)
            position += np.add.reduce(part, axis=0, dtype=np.uint8)
            position += counted * np.float32(first)
            self._stretch(over, ones)
        there = np.maximum(count, 1)
        above /= there
        position /= there
        longest[:] = self.longest
        for pool in (count, position, longest):
            pool /= lengths

    def _stretch(self, over: np.ndarray, ones: np.ndarray) -> None:
        """Rows more: a stretch grows by one where an output is above, and is 0 where it is not. ones: 255 for True."""
        if self.run.dtype != np.uint8:
            ones = self.wide[: len(over)]
            np.copyto(ones, over)
            np.negative(ones, out=ones)
        unit = self.run.dtype.type(1)
        for row in ones:
            np.add(self.run, unit, out=self.run)
            np.bitwise_and(self.run, row, out=self.run)
            np.maximum(self.longest, self.run, out=self.longest)
