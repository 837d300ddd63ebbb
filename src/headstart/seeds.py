"""Counter-based random numbers by name: the same in numpy and torch, on any device, alone and under vmap.

Every random number of the project is `bits(seed, stream, *counters)`: an integer hash of who asks (the
stream) and of which number is asked for (the counters). Nothing depends on how many numbers were drawn
before, so order, padding, batching and resuming change nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

# The increment and the two multipliers of SplitMix64 (Steele, Lea and Flood 2014, variant 13 of Stafford's
# mixers), written as signed 64-bit numbers because torch has no unsigned arithmetic.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


@cache
def stream_key(stream: str) -> int:
    """Signed 64-bit number of a stream's name (the first 8 bytes of its SHA-256)."""
    return int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little", signed=True)


def _shift(x: Any, places: int) -> Any:
    """Logical right shift of signed 64-bit integers (an arithmetic one would copy the sign)."""
    return (x >> places) & ((1 << (64 - places)) - 1)


def _mix(x: Any) -> Any:
    """SplitMix64's finaliser: each input bit moves each output bit with probability near one half."""
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def bits(seed: Any, stream: str, *counters: Any) -> Any:
    """32 random bits per element, as int64 in [0, 2**32).

    `seed` and each counter are integers, numpy arrays or torch tensors; their shapes broadcast. If any of
    them is a torch tensor the answer is one (on its device), otherwise a numpy array.
    Raises: TypeError if a counter holds floats.
    """
    values = [seed, *counters]
    tensor = next((x for x in values if hasattr(x, "new_tensor")), None)
    if tensor is not None:
        return _bits_torch(values, stream, tensor)
    arrays = [np.asarray(x) for x in values]
    if any(a.dtype.kind not in "iub" for a in arrays):
        raise TypeError(f"bits: counters are integers, got {[str(a.dtype) for a in arrays]}")
    with np.errstate(over="ignore"):
        state = _mix(arrays[0].astype(np.int64) + np.int64(stream_key(stream)))
        for counter in arrays[1:]:
            state = _mix(state + np.int64(_STEP) * (counter.astype(np.int64) + 1))
    return _shift(state, 32)


def _bits_torch(values: list[Any], stream: str, like: torch.Tensor) -> torch.Tensor:
    import torch

    def number(x: Any) -> torch.Tensor:
        if isinstance(x, torch.Tensor):
            if x.is_floating_point():
                raise TypeError(f"bits: counters are integers, got {x.dtype}")
            return x.to(torch.int64)
        return torch.as_tensor(x, dtype=torch.int64, device=like.device)

    state: torch.Tensor = _mix(number(values[0]) + stream_key(stream))
    for counter in values[1:]:
        state = _mix(state + _STEP * (number(counter) + 1))
    return torch.as_tensor(_shift(state, 32))


def uniform(seed: Any, stream: str, *counters: Any) -> Any:
    """Uniform numbers in [0, 1) with 24 random bits each, float32: the same in numpy and torch."""
    whole = bits(seed, stream, *counters) >> 8
    if isinstance(whole, (np.ndarray, np.generic)):
        return whole.astype(np.float32) * np.float32(2.0**-24)
    return whole.to(dtype=_float32()) * 2.0**-24


def normal(seed: Any, stream: str, *counters: Any) -> Any:
    """Standard normal numbers by Box and Muller, float64 (equal in numpy and torch to rounding)."""
    radius, angle = bits(seed, stream + "/radius", *counters), bits(seed, stream + "/angle", *counters)
    if isinstance(radius, (np.ndarray, np.generic)):
        distance = np.sqrt(-2.0 * np.log((np.asarray(radius) + 0.5) * 2.0**-32))
        return distance * np.cos(angle * (2.0**-32 * 2.0 * np.pi))
    # Double first: torch would otherwise add a float to whole numbers in float32.
    radius, angle = (radius.double() + 0.5) * 2.0**-32, angle.double() * (2.0**-32 * 2.0 * np.pi)
    return (-2.0 * radius.log()).sqrt() * angle.cos()


def permutation(seed: int, stream: str, size: int) -> np.ndarray:
    """One order of `size` things, (size,) int64: the argsort of their bits (ties keep their order)."""
    return np.argsort(bits(seed, stream, np.arange(size)), kind="stable").astype(np.int64)


def below(seed: Any, stream: str, limit: int, *counters: Any) -> Any:
    """Uniform integers in [0, limit) for limits far under 2**32 (bias under limit / 2**32)."""
    return (bits(seed, stream, *counters) * limit) >> 32


def _float32() -> torch.dtype:
    import torch

    return torch.float32


class Draw:
    """Uniform numbers for one training step's forward pass: dropout, hashing, random features.

    Calling `draw(name, shape)` gives float32 in [0, 1) of that shape. The first axis is the example (keyed by
    `index`, never by its place in the batch), every other axis is a counter of its own, so that padding and
    batching change no number of a valid position. dropout: the share that dropout zeroes, a scalar tensor, in a stack
    of models with shares of their own; None: each layer's own.
    Raises: ValueError if the first axis is not the batch.
    """

    def __init__(self, seed: Any, epoch: Any, index: torch.Tensor, path: str = "", dropout: Any = None) -> None:
        self.seed, self.epoch, self.index, self.path, self.dropout = seed, epoch, index, path, dropout

    def within(self, name: str) -> Draw:
        """The same draw for one place of a model: equal names in two places mean different numbers."""
        return Draw(self.seed, self.epoch, self.index, f"{self.path}{name}/", self.dropout)

    def __call__(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        import torch

        if shape[0] != self.index.shape[0]:
            raise ValueError(
                f"draw '{name}': shape {tuple(shape)} does not start with the batch ({self.index.shape[0]})"
            )
        axes = [torch.arange(size, device=self.index.device) for size in shape[1:]]
        counters: list[Any] = [self.index.view(-1, *[1] * len(axes))]
        counters += [axis.view(-1, *[1] * (len(axes) - 1 - i)) for i, axis in enumerate(axes)]
        numbers: torch.Tensor = uniform(self.seed, f"draw/{self.path}{name}", self.epoch, *counters)
        return numbers


@contextmanager
def generators_seeded(seed: int, devices: Sequence[torch.device] = ()) -> Iterator[None]:
    """The generators that code of a person's own may draw from, seeded: torch's (of the CPU and of `devices`), numpy's
    and Python's. What they were before, they are again afterwards. seed: in [0, 2**32).
    """
    import torch

    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=list(devices)):
            if torch.cuda.is_available():
                torch.manual_seed(seed)
            else:  # torch would remember this call and its whole stack for a GPU that is to come
                torch.default_generator.manual_seed(seed)
            np.random.seed(seed)
            random.seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
