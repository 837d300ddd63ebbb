"""From examples to batches on a device: a set that fits is held there as a whole, others come batch by batch.

A set of equal lengths is held as a table (`Dense`), one of different lengths position after position (`Flat`). On a CPU
the latter is not held: its batches are put together from the arrays as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from headstart.sequence import IGNORE, Batch, Examples, collate

T = TypeVar("T")

DENSE_LIMIT = 2**31
"""Bytes up to which a set is held as a whole in the memory of a CPU."""
GPU_SHARE = 0.25
"""Share of a GPU's free memory that one set may take; what does not fit comes batch by batch, one ahead."""
IN_ORDER = {"cpu": (2**14, 512), "cuda": (2**18, 4096)}
"""Padded positions and units of a batch where nothing is trained: what a cache holds, and what keeps a GPU busy."""
LENGTH_BUCKETS = 4
"""Padded lengths between one power of two and the next, at least 8 apart: for their sake at most a fifth of a batch is
padding from 33 positions on, and at most 7 positions below."""


def bucket(length: int, longest: int) -> int:
    """The padded length, of few, of a batch whose longest example has `length` positions; at most `longest`."""
    step = max(8, 2 ** ((length - 1).bit_length() - 1) // LENGTH_BUCKETS) if length > 1 else 8
    return min(-(-length // step) * step, longest)


_sparing = False


@contextmanager
def sparing(wanted: bool = True) -> Iterator[None]:
    """Hold no set as a whole on a CPU: each batch comes from the arrays, with equal bits, later."""
    global _sparing
    before, _sparing = _sparing, wanted
    try:
        yield
    finally:
        _sparing = before


def room(device: torch.device) -> float:
    """Bytes up to which a set is held as a whole on a device."""
    if _sparing and device.type == "cpu":
        return 0
    return GPU_SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else DENSE_LIMIT


class Held(Protocol):
    """A set as a whole on a device."""

    def picked(self, rows: Tensor, length: int) -> Batch:
        """The batch of these rows (n,) int64, padded to `length` as `collate` does, without waiting for the device."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        ...

    def widened(self, share: float) -> Held:
        """A copy with room for so many more positions, where examples differ in length."""
        ...


@dataclass(frozen=True)
class Dense:
    """Examples of one length, as one batch."""

    batch: Batch

    def picked(self, rows: Tensor, length: int) -> Batch:
        """The batch of these rows; all have the one length."""
        del length
        return self.batch.mapped(lambda x: x.index_select(0, rows))

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return self.batch.tensors()

    def widened(self, share: float) -> Held:
        """A copy."""
        del share
        return Dense(self.batch.mapped(Tensor.clone))


@dataclass(frozen=True)
class Flat:
    """Examples of different lengths, position after position: S of n examples.

    Shapes: `batch` holds inputs and valid (S, ...), observed (S, F) or None, index (n,), and targets (n, ...) or, where
    they stand `per_position`, (S, ...); `starts` and `lengths` (n,) int64.
    """

    batch: Batch
    starts: Tensor
    lengths: Tensor
    per_position: bool

    def picked(self, rows: Tensor, length: int) -> Batch:
        """The batch of these rows, padded."""
        own = self.lengths.index_select(0, rows)[:, None]
        offsets = torch.arange(length, device=rows.device)
        valid = offsets < own
        places = (self.starts.index_select(0, rows)[:, None] + offsets.minimum(own - 1)).reshape(-1)

        def spread(x: Tensor, empty: float) -> Tensor:
            values = torch.unflatten(x.index_select(0, places), 0, (len(rows), length))
            return values.masked_fill(~valid.reshape(*valid.shape, *[1] * (x.ndim - 1)), empty)

        flat, target = self.batch, self.batch.target
        if target is not None and self.per_position:
            target = spread(target, float("nan") if target.is_floating_point() else IGNORE)
        elif target is not None:
            target = target.index_select(0, rows)
        observed = None if flat.observed is None else spread(flat.observed, False)
        return Batch(spread(flat.inputs, 0), valid, flat.index.index_select(0, rows), target, observed)

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {**self.batch.tensors(), "starts": self.starts, "lengths": self.lengths}

    def widened(self, share: float) -> Held:
        """A copy with room for so many more positions."""
        more = int(share * len(self.batch.inputs)) + 1
        each = ("inputs", "valid", "observed", *(["target"] if self.per_position else []))
        wide: dict[str, Any] = {
            name: torch.cat([x, x.new_zeros(more, *x.shape[1:])]) if name in each else x.clone()
            for name, x in self.batch.tensors().items()
        }
        return Flat(replace(self.batch, **wide), self.starts.clone(), self.lengths.clone(), self.per_position)


def send(numbers: Tensor, to: Tensor) -> None:
    """Copy from the CPU into a tensor on a device, which nobody waits for."""
    to.copy_(numbers.pin_memory() if to.device.type == "cuda" else numbers, non_blocking=True)


def refill(held: Held, other: Held) -> bool:
    """Take another set's numbers into the memory of one; False, and nothing is changed, where that is too small."""
    ours, theirs = held.tensors(), other.tensors()
    if type(held) is not type(other) or ours.keys() != theirs.keys():
        return False
    for name, x in ours.items():
        wide = isinstance(held, Flat) and name not in ("index", "starts", "lengths")
        count, rest = len(theirs[name]), theirs[name].shape[1:]
        if rest != x.shape[1:] or count > len(x) or (count < len(x) and not wide):
            return False
    for name, x in ours.items():
        x[: len(theirs[name])].copy_(theirs[name])
    return True


class Batches:
    """Batches of some units of a split. Floats come in `dtype` on `device`.

    `lengths` and `tokens` (units,): a pair's longer half, and both halves together. longest: positions of the longest
    example of the set. equal: all are as long.
    """

    def __init__(self, examples: Examples, units: np.ndarray, device: torch.device, dtype: torch.dtype) -> None:
        self.examples, self.units, self.device, self.dtype = examples, units, device, dtype
        distinct = examples.length_counts[0]
        self.longest = int(distinct[-1]) if len(distinct) else 0
        self.equal = len(distinct) == 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """As the class says; a plan never asks."""
        lengths: np.ndarray = self.examples.unit_lengths[self.units]
        return lengths

    @cached_property
    def tokens(self) -> np.ndarray:
        """As the class says."""
        x = self.examples
        return x.lengths.reshape(-1, 2).sum(1)[self.units] if x.paired else self.lengths

    @cached_property
    def fits(self) -> bool:
        """Whether the set can be held on the device as a whole."""
        return len(self.units) > 0 and self._size <= room(self.device)

    @property
    def picks(self) -> bool:
        """Whether batches are picked from the held set; of different lengths a CPU puts them together as fast."""
        return self.fits and (self.equal or self.device.type != "cpu")

    @property
    def _size(self) -> int:
        """Bytes of the whole set where it is held."""
        x = self.examples
        if self.device.type == "cpu":  # four times those on disk: bytes may become float32 on the way
            return 4 * x.values.nbytes
        each = 8 if x.scale is None and x.values.dtype.kind in "iu" else self.dtype.itemsize
        marks = len(x.values) + (0 if x.observed is None else x.observed.size)
        return each * x.values.size + marks + (0 if x.target is None else 8 * x.target.size)

    @cached_property
    def held(self) -> Held | None:
        """All units on the device, put there once; None where they are too many."""
        if not self.fits:
            return None
        if self.equal:
            return Dense(collate(self.examples, self.units).to(self.device, self.dtype))
        flat = self.examples.take(self.units)
        lengths = torch.from_numpy(flat.lengths)
        target = None
        if flat.target is not None:
            target = torch.from_numpy(flat.target.astype(np.float32 if flat.target.dtype.kind == "f" else np.int64))
        batch = Batch(
            torch.from_numpy(flat.as_seen(flat.values)),
            torch.ones(len(flat.values), dtype=torch.bool),
            torch.from_numpy(flat.index.astype(np.int64)),
            target,
            None if flat.observed is None else torch.from_numpy(flat.observed),
        ).to(self.device, self.dtype)
        starts = torch.from_numpy(flat.offsets[:-1])
        starts, lengths = (x.to(self.device, non_blocking=True) for x in (starts, lengths))
        return Flat(batch, starts, lengths, flat.per_position)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Rows of `held` that the units at these places of `units` have: of a pair, two."""
        return np.stack([2 * places, 2 * places + 1], 1).reshape(-1) if self.examples.paired else places

    def batch(self, places: np.ndarray) -> Batch:
        """The batch of the units at these places of `units`."""
        if not self.picks:
            return self.gathered(places).to(self.device, self.dtype)
        # Without waiting: a plain copy would first wait for all that the GPU has been given.
        rows = torch.from_numpy(self.rows(places)).to(self.device, non_blocking=True)
        return self.picked(rows, int(self.lengths[places].max()))

    def gathered(self, places: np.ndarray) -> Batch:
        """The same batch out of the arrays, on the CPU."""
        return collate(self.examples, self.units[places])

    def picked(self, rows: Tensor, length: int) -> Batch:
        """The batch of these rows of `held`, padded to `length`; rows (n,) int64 on the device."""
        assert self.held is not None
        return self.held.picked(rows, length)

    def in_order(self, positions: int | None = None, most: int | None = None) -> Iterator[Batch]:
        """Every unit once, in order, about `positions` padded positions a batch and at most `most` units."""
        usual = IN_ORDER.get(self.device.type, IN_ORDER["cpu"])
        positions, most = positions or usual[0], most or usual[1]
        first = 0
        while first < len(self.units):
            last = min(first + most, len(self.units))
            longest = np.maximum.accumulate(self.lengths[first:last])
            fits = int((longest * np.arange(1, last - first + 1) <= positions).sum())
            last = first + max(fits, 1)
            yield self.batch(np.arange(first, last))
            first = last


class Ahead(Generic[T]):
    """What `make` gives for 0, 1 and so on up to `count`: while one is used, a thread makes the next."""

    def __init__(self, make: Callable[[int], T], count: int) -> None:
        self.make, self.count = make, count
        self.thread = ThreadPoolExecutor(1)
        self.next: tuple[int, Future[T]] | None = None

    def __call__(self, number: int) -> T:
        """The one of this number; out of turn it is made while the caller waits."""
        ready = self.next is not None and self.next[0] == number
        future = self.next[1] if self.next is not None and ready else self.thread.submit(self.make, number)
        self.next = (number + 1, self.thread.submit(self.make, number + 1)) if number + 1 < self.count else None
        return future.result()


def batches_ahead(batches: Batches, order: Sequence[np.ndarray]) -> Callable[[int], Batch] | None:
    """Batches of an epoch by their position, where a GPU does not hold the set; None where nothing is to be gained."""
    if batches.device.type == "cpu" or batches.fits or type(batches) is not Batches:
        return None

    def make(position: int) -> Batch:
        batch = batches.gathered(order[position])
        # From such memory a GPU copies by itself.
        return batch.mapped(Tensor.pin_memory) if batches.device.type == "cuda" else batch

    ahead = Ahead(make, len(order))
    return lambda position: ahead(position).to(batches.device, batches.dtype)


def pick_alike(feeds: Sequence[Batches]) -> bool:
    """Whether batches are picked from sets that are held, all padded alike."""
    forms = {(feed.equal, feed.longest if feed.equal else 0) for feed in feeds}
    return len(forms) == 1 and all(type(feed) is Batches and feed.picks for feed in feeds)


def picked_together(
    feeds: Sequence[Batches | Held], rows: Tensor, longest: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (models, B, ...) of one batch per model, and what of them is no tensor.

    rows (models, n): of each model's held set. Examples that differ in length are padded to the `longest` of the task,
    whoever is in company: bits must not depend on that.
    """
    if all(feed is feeds[0] for feed in feeds):
        batch = feeds[0].picked(rows.reshape(-1), longest)
        fields = {name: torch.unflatten(x, 0, tuple(rows.shape)) for name, x in batch.tensors().items()}
    else:
        batches = [feed.picked(own, longest) for feed, own in zip(feeds, rows.unbind(), strict=True)]
        batch, each = batches[0], [batch.tensors() for batch in batches]
        fields = {name: torch.stack([tensors[name] for tensors in each]) for name in each[0]}
    return fields, {"full": batch.full, "level": batch.level}


def put_together(
    feeds: Sequence[Batches], places: Sequence[np.ndarray], longest: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The same where sets are not held, out of the arrays. places: of each model the units of its batch."""
    feed, batches = feeds[0], [each.batch(own) for each, own in zip(feeds, places, strict=True)]
    equal = all(each.equal for each in feeds) and len({batch.inputs.shape[1] for batch in batches}) == 1
    ragged = {"inputs", "valid", "observed"} | ({"target"} if feed.examples.per_position else set())
    if getattr(feed, "pool", None) is None:  # of pooled features there is one for each example
        ragged.add("features")
    fields = {}
    for name in batches[0].tensors():
        values = [getattr(batch, name) for batch in batches]
        fields[name] = torch.stack(
            [_padded(x, name, longest) for x in values] if name in ragged and not equal else values
        )
    return fields, {"full": equal and batches[0].full, "level": batches[0].level}


def _padded(x: Tensor, name: str, length: int) -> Tensor:
    """(B, L, ...) -> (B, length, ...)."""
    nothing = {"target": float("nan") if x.is_floating_point() else IGNORE}
    return pad(x, (*([0, 0] * (x.ndim - 2)), 0, length - x.shape[1]), value=nothing.get(name, 0))
