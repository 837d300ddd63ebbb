"""Competing random kernels: which kernel of a group fits best at each place, counted over a sequence.

After Hydra: Dempster, Schmidt and Webb 2023. Groups of 8 random kernels of length 9 at each dilation, on the sequence
and on its steps; at each place the kernel with the largest output of its group adds that output, the one with the
smallest adds 1.
Letters: F channels, D dilations, G groups, K kernels of a group, C channels of a group, n sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headstart.baselines.convolve import BYTE
from headstart.baselines.features import FeatureTable, Tabled, filled, moments, steps_of
from headstart.baselines.fitting import FittedFacts, Shapes, pieces
from headstart.seeds import normal, permutation
from headstart.sequence import Examples

KERNEL_GROUPS, GROUP_KERNELS, HYDRA_TAPS = 32, 8, 9
"""Groups on the sequence and as many on its steps, kernels of a group and places of a kernel: as published."""
SIDES = 2
"""The sequence, and its steps from one position to the next."""
EACH = SIDES * KERNEL_GROUPS * GROUP_KERNELS * 2
"""Features of a dilation."""
GROUP_CHANNELS = 8
"""Channels that a group sums, at most."""
HYDRA_POSITIONS, OUTPUTS_IN_CACHE = 1 << 13, 1 << 19
"""Positions, and outputs of kernels at them, that are worked on at once: these stay in a core's cache."""


@dataclass(frozen=True)
class Hydra(Tabled):
    """What is fitted: dilations (D,) int64, weights (D, 2, G, K, 9) float32, channels (D, 2, G, C) int64 that a group
    sums; mean, spread (F,) float64 of the channels, by which they are standardised."""

    dilations: np.ndarray
    weights: np.ndarray
    channels: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    kind: str = "hydra"

    @property
    def size(self) -> int:
        """Two numbers of each kernel."""
        return len(self.dilations) * EACH

    @property
    def sizes(self) -> dict[str, int]:
        """D."""
        return {"dilations": len(self.dilations)}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        dilations = facts.sizes.get("dilations", 0)
        facts.check(facts.size == dilations * EACH, "size")
        return {
            "dilations": ("int64", (dilations,)),
            "weights": ("float32", (dilations, SIDES, KERNEL_GROUPS, GROUP_KERNELS, HYDRA_TAPS)),
            "channels": ("int64", (dilations, SIDES, KERNEL_GROUPS, channels_of(facts.width))),
            "mean": ("float64", (facts.width,)),
            "spread": ("float64", (facts.width,)),
        }

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Hydra:
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        facts.check(bool(((arrays["dilations"] >= 1) & (arrays["dilations"] < 1 << 31)).all()), "dilations")
        facts.check(bool(((arrays["channels"] >= 0) & (arrays["channels"] < facts.width)).all()), "channels")
        own = (arrays[name] for name in ("dilations", "weights", "channels", "mean", "spread"))
        dilations, weights, channels, mean, spread = own
        return cls(dilations, weights, channels, mean, spread)

    @property
    def held(self) -> int:
        """Those of few sequences at a time, however many there are."""
        return 1

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        """Square roots of sums and counts per position: beyond a sequence's ends stands its mean."""
        values = filled(examples, self.mean, self.spread)
        steps = steps_of(values, examples.offsets)
        for units in pieces(examples, len(examples), HYDRA_POSITIONS):
            yield units, 0, self._rows((values, steps), examples.offsets, units)

    def _rows(self, sides: tuple[np.ndarray, np.ndarray], offsets: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Features of neighbouring sequences `units`."""
        lengths = np.diff(offsets)[units]
        longest, reach = int(lengths.max()), (HYDRA_TAPS // 2) * int(self.dilations.max(initial=1))
        there = np.arange(longest) < lengths[:, None]
        out = np.empty((len(units), len(self.dilations), SIDES, KERNEL_GROUPS, GROUP_KERNELS, 2), np.float32)
        for side, values in enumerate(sides):
            wide = np.zeros((values.shape[1], len(units), longest + 2 * reach), np.float32)
            wide[:, :, reach : reach + longest][:, there] = values[offsets[units[0]] : offsets[units[-1] + 1]].T
            for at, dilation in enumerate(self.dilations.tolist()):
                starts = [reach + (tap - HYDRA_TAPS // 2) * dilation for tap in range(HYDRA_TAPS)]
                taps = np.stack([wide[:, :, start : start + longest] for start in starts], axis=1)
                out[:, at, side] = self._competed(taps, at, side, there)
        return np.asarray(np.sqrt(out.reshape(len(units), -1) / lengths[:, None], dtype=np.float32))

    def _competed(self, taps: np.ndarray, at: int, side: int, there: np.ndarray) -> np.ndarray:
        """(n, G, K, 2) sums and counts of one dilation, of taps (F, 9, n, L); only positions that are `there` count.

        Of kernels with equal outputs each counts: on a straight stretch all do.
        """
        n, length = there.shape
        several = min(max(1, OUTPUTS_IN_CACHE // (GROUP_KERNELS * n * length)), KERNEL_GROUPS)
        nothing = np.zeros((n, length), np.float32)
        beyond = None if there.all() else np.where(there, np.float32(0), np.float32(-np.inf))
        room = np.empty((2, several, GROUP_KERNELS, n, length), np.float32)
        rooms = room[0], room[1], np.empty(room.shape[1:], bool), np.empty((several, n, length), np.float32)
        out = np.empty((2, KERNEL_GROUPS, GROUP_KERNELS, n), np.float32)
        for first in range(0, KERNEL_GROUPS, several):
            chosen, weights = (x[at, side, first : first + several] for x in (self.channels, self.weights))
            summed = taps if len(taps) == 1 else np.stack([taps[own].sum(axis=0) for own in chosen])
            outputs, counted, equal, best = (x[: len(chosen)] for x in rooms)
            flat = summed.reshape(len(summed), HYDRA_TAPS, -1)
            np.matmul(weights, flat, out=outputs.reshape(len(chosen), GROUP_KERNELS, -1))
            np.max(outputs, axis=1, out=best)
            np.equal(outputs, best[:, None], out=equal)
            np.copyto(counted, equal)
            # A largest output below 0 adds nothing, as the published code clamps it.
            np.maximum(best, nothing, out=best)
            if beyond is not None:
                best *= there
            sums = np.matmul(counted.swapaxes(1, 2), best[..., None])[..., 0]
            out[0, first : first + several] = sums.swapaxes(1, 2)
            np.min(outputs, axis=1, out=best)
            if beyond is not None:
                best += beyond
            np.equal(outputs, best[:, None], out=equal)
            counts, ones = out[1, first : first + several], equal.view(np.uint8)
            counts[:] = 0
            for begin in range(0, length, BYTE):
                counts += np.einsum("gknl->gkn", ones[..., begin : begin + BYTE])
        return np.transpose(out, (3, 1, 2, 0))


def channels_of(width: int) -> int:
    """Channels that a group sums: half of them, at least one and at most `GROUP_CHANNELS`."""
    return min(max(width // 2, 1), GROUP_CHANNELS)


def hydra_size(lengths: np.ndarray) -> int:
    """Features of sequences of these lengths (n,): the longest kernel fits into all but the shortest quarter."""
    length = int(np.sort(lengths)[len(lengths) // 4])
    return (max(int(np.log2(max((length - 1) / (HYDRA_TAPS - 1), 1))), 0) + 1) * EACH


def fit_hydra(examples: Examples, seed: int) -> Hydra:
    """Kernels drawn by the seed at dilations that fit the length of most sequences; labels are not looked at."""
    mean, spread = moments(examples)
    dilations = hydra_size(examples.lengths) // EACH
    shape = (dilations, SIDES, KERNEL_GROUPS, GROUP_KERNELS, HYDRA_TAPS)
    weights = normal(seed, "hydra/weights", np.arange(int(np.prod(shape))).reshape(shape))
    weights -= weights.mean(axis=-1, keepdims=True)
    weights /= np.abs(weights).sum(axis=-1, keepdims=True)
    each = channels_of(len(mean))
    drawn = np.zeros((*shape[:3], each), np.int64)
    if len(mean) > 1:
        for key in np.ndindex(*shape[:3]):
            drawn[key] = permutation(seed, f"hydra/channels/{'/'.join(map(str, key))}", len(mean))[:each]
    return Hydra(2 ** np.arange(dilations, dtype=np.int64), weights.astype(np.float32), drawn, mean, spread)
