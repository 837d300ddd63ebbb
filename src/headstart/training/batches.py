"""From examples to batches on a device: dense sets once as a whole, ragged ones batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from headstart.sequence import Batch, Examples, collate

DENSE_LIMIT = 2**31
"""Bytes up to which a set of equal lengths is held as one tensor on the device."""
IN_ORDER = {"cpu": 2**16, "cuda": 2**18}
"""Padded positions of a batch where nothing is trained: what a cache holds, and what keeps a GPU busy."""


class Batches:
    """Batches of some units of a split. Floats come in `dtype` on `device`.

    `lengths` and `tokens` (units,): a pair's longer half, and both halves together. equal: all examples of the set are
    equally long.
    """

    def __init__(self, examples: Examples, units: np.ndarray, device: torch.device, dtype: torch.dtype) -> None:
        self.examples, self.units, self.device, self.dtype = examples, units, device, dtype
        self.lengths = examples.unit_lengths[units]
        self.tokens = examples.lengths.reshape(-1, 2).sum(1)[units] if examples.paired else self.lengths
        self._whole: Batch | None = None
        lengths = examples.lengths
        self.equal = len(lengths) > 0 and bool((lengths == lengths[0]).all())
        # Four times the bytes on disk: bytes may become float32 on the way.
        self._dense = self.equal and 4 * examples.values.nbytes <= DENSE_LIMIT

    def whole(self) -> Batch | None:
        """All units as one batch, put on the device once; None where lengths differ or they are too many."""
        if self._dense and self._whole is None:
            self._whole = collate(self.examples, self.units).to(self.device, self.dtype)
        return self._whole

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Rows of `whole` that the units at these places of `units` have: of a pair, two."""
        return np.stack([2 * places, 2 * places + 1], 1).reshape(-1) if self.examples.paired else places

    def batch(self, places: np.ndarray) -> Batch:
        """The batch of the units at these places of `units`."""
        if self.whole() is None:
            return collate(self.examples, self.units[places]).to(self.device, self.dtype)
        # Without waiting: a plain copy would first wait for all that the GPU has been given.
        return self.picked(torch.from_numpy(self.rows(places)).to(self.device, non_blocking=True))

    def picked(self, rows: torch.Tensor) -> Batch:
        """The batch of these rows of `whole`; rows (n,) int64 on the device."""
        whole = self.whole()
        assert whole is not None

        def pick(x: torch.Tensor | None) -> torch.Tensor | None:
            return None if x is None else x.index_select(0, rows)

        return Batch(
            whole.inputs.index_select(0, rows),
            whole.valid.index_select(0, rows),
            whole.index.index_select(0, rows),
            pick(whole.target),
            pick(whole.observed),
            full=whole.full,
        )

    def in_order(self, positions: int | None = None, most: int = 512) -> Iterator[Batch]:
        """Every unit once, in order, about `positions` padded positions a batch and at most `most` units."""
        positions = positions or IN_ORDER.get(self.device.type, IN_ORDER["cpu"])
        first = 0
        while first < len(self.units):
            last = min(first + most, len(self.units))
            longest = np.maximum.accumulate(self.lengths[first:last])
            fits = int((longest * np.arange(1, last - first + 1) <= positions).sum())
            last = first + max(fits, 1)
            yield self.batch(np.arange(first, last))
            first = last
