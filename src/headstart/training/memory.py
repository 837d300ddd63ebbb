"""Sums of numbers that stay as they are between two updates: what changes there has been changed by the memory itself.

A sum of whole numbers modulo 2^64 is another one whenever one bit turns. GPUs, whose memory corrects itself, are left
out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from headstart.errors import MemoryChanged
from headstart.models.norms import Tensors
from headstart.sequence import Batch
from headstart.training.batches import Batches
from headstart.training.optim import FlatParameters


def bit_sum(x: torch.Tensor | np.ndarray) -> int:
    """The sum, modulo 2^64, of the bytes of an array on the CPU, eight at a time as whole numbers."""
    return _summed(*_words(x))


def _words(x: torch.Tensor | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An array's bytes as whole numbers of eight, and the bytes that are left; views of it where it is contiguous."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        x = (x.reshape(-1).view(torch.uint8) if x.dtype == torch.bfloat16 else x).numpy()
    data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    whole = len(data) // 8 * 8
    return data[:whole].view(np.uint64), data[whole:]


def _summed(words: np.ndarray, rest: np.ndarray) -> int:
    total = int(np.add.reduce(words))
    return (total + int.from_bytes(rest.tobytes(), "little")) % 2**64 if len(rest) else total


def state_sums(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """`bit_sum` of each tensor of a state, as text for a JSON document."""
    return {name: f"{bit_sum(x):x}" for name, x in tensors.items() if x.device.type == "cpu"}


def check_state(tensors: Mapping[str, torch.Tensor], sums: Mapping[str, str]) -> None:
    """Raises: MemoryChanged where a state that is used is not what was summed when it was made."""
    now = state_sums({name: tensors[name] for name in sums if name in tensors})
    changed = [name for name, value in now.items() if value != sums[name]]
    if changed:
        raise MemoryChanged(f"{', '.join(changed[:3])} of the state from which the run goes on have changed")


WATCHING_SHARE, FIRST_SECONDS = 0.015, 0.05
"""Share of the time of training that sums may take, and seconds that they may take besides."""
_Words = tuple[np.ndarray, np.ndarray]


class AtRest:
    """The weights, moments, best weights and batch of a run, which nothing changes between two updates.

    Each is summed when it has been written, and looked at before it is overwritten or stored; but a step is left out
    where those before it have taken more than their share of the time, as of many weights and few examples.
    """

    def __init__(self, flat: FlatParameters, watched: bool) -> None:
        self.flat, self.watched = flat, watched and flat.weights.device.type == "cpu"
        self._own: list[int] = []
        self._began, self._spent = time.perf_counter(), 0.0
        self._best: list[int] = []
        self._batch: tuple[list[_Words], list[int]] = ([], [])
        self._views: tuple[list[int], list[_Words]] = ([], [])

    def note(self) -> None:
        """An update has been made."""
        if not self.watched:
            return
        began = time.perf_counter()
        self._own = self._sums() if self._spent <= WATCHING_SHARE * (began - self._began) + FIRST_SECONDS else []
        self._spent += time.perf_counter() - began

    def hold(self, batch: Batch) -> Batch:
        """A batch has been made, which is read until the next update."""
        if self._own:
            began = time.perf_counter()
            words = [_words(x) for x in (batch.inputs, batch.target, batch.observed) if x is not None]
            self._batch = words, [_summed(*x) for x in words]
            self._spent += time.perf_counter() - began
        return batch

    def note_best(self, best: Tensors) -> None:
        """These weights are kept as the best."""
        if self.watched:
            self._best = [bit_sum(x) for x in best.values()]

    def check_best(self, best: Tensors) -> None:
        """Raises: MemoryChanged where they are others than were noted."""
        if self._best and self._best != [bit_sum(x) for x in best.values()]:
            raise MemoryChanged("the best weights have changed")

    def check(self) -> None:
        """Raises: MemoryChanged where weights, moments or the batch are others than were noted."""
        began = time.perf_counter()
        if self._own and self._own != (now := self._sums()):
            names = ("the weights", "the first moments", "the second moments", "the average of the weights")
            changed = [name for name, a, b in zip(names, self._own, now, strict=False) if a != b]
            raise MemoryChanged(f"{' and '.join(changed)} have changed between two steps")
        words, sums = self._batch
        self._batch = [], []
        if sums != [_summed(*x) for x in words]:
            raise MemoryChanged("the batch has changed within a step")
        self._spent += time.perf_counter() - began

    def _sums(self) -> list[int]:
        tensors = [self.flat.weights, *self.flat.moments]
        tensors += [] if self.flat.average is None else [self.flat.average]
        places = [x.data_ptr() for x in tensors]
        if places != self._views[0]:
            self._views = places, [_words(x) for x in tensors]
        return [_summed(*words) for words in self._views[1]]


class HeldData:
    """Examples, and weights that no step changes, while a stage trains; arrays mapped from a file are left out."""

    def __init__(self, feeds: Iterable[Batches], frozen: Iterable[torch.Tensor] = ()) -> None:
        feeds = list(feeds)
        arrays = (x for feed in feeds for x in (feed.examples.values, feed.examples.target, feed.examples.observed))
        self.arrays: list[np.ndarray | torch.Tensor] = [x for x in arrays if x is not None and not _mapped(x)]
        self.arrays += [x for feed in feeds if feed.picks and feed.held for x in feed.held.tensors().values()]
        self.arrays += frozen
        self.sums = [bit_sum(x) for x in self.arrays]

    def check(self) -> None:
        """Raises: MemoryChanged."""
        if self.sums != [bit_sum(x) for x in self.arrays]:
            raise MemoryChanged("the examples, or weights that are not trained, have changed")


def _mapped(x: np.ndarray) -> bool:
    base: Any = x
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base is not None
