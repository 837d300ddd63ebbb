"""Competing random kernels: which kernel of a group fits best at each place, counted over a sequence.

After Hydra: Dempster, Schmidt and Webb 2023. Groups of 8 random kernels of length 9 at each dilation, on the sequence
and on its steps; at each place the kernel with the largest output of its group adds that output, the one with the
smallest adds 1.
Letters: F channels, D dilations, G groups, K kernels of a group, C channels of a group, n sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headstart.baselines.contract import Facts, Shapes, pieces
from headstart.baselines.features import Features, filled, moments
from headstart.seeds import normal, permutation
from headstart.sequence import Examples

GROUPS, KERNELS, TAPS = 32, 8, 9
"""Groups on the sequence and as many on its steps, kernels of a group and places of a kernel: as published."""
SIDES = 2
"""The sequence, and its steps from one position to the next."""
CHANNELS = 8
"""Channels that a group sums, at most."""
AT_ONCE = 1 << 13
"""Positions that are convolved at once: the outputs of a group stay in a core's cache."""


@dataclass(frozen=True)
class Hydra(Features):
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
        return len(self.dilations) * SIDES * GROUPS * KERNELS * 2

    @property
    def sizes(self) -> dict[str, int]:
        """D."""
        return {"dilations": len(self.dilations)}

    @staticmethod
    def shapes(facts: Facts) -> Shapes:
        dilations = facts.sizes.get("dilations", 0)
        facts.check(facts.size == dilations * SIDES * GROUPS * KERNELS * 2, "size")
        return {
            "dilations": ("int64", (dilations,)),
            "weights": ("float32", (dilations, SIDES, GROUPS, KERNELS, TAPS)),
            "channels": ("int64", (dilations, SIDES, GROUPS, channels_of(facts.width))),
            "mean": ("float64", (facts.width,)),
            "spread": ("float64", (facts.width,)),
        }

    @classmethod
    def from_arrays(cls, facts: Facts, arrays: Mapping[str, np.ndarray]) -> Hydra:
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        facts.check(bool(((arrays["dilations"] >= 1) & (arrays["dilations"] < 1 << 31)).all()), "dilations")
        facts.check(bool(((arrays["channels"] >= 0) & (arrays["channels"] < facts.width)).all()), "channels")
        own = (arrays[name] for name in ("dilations", "weights", "channels", "mean", "spread"))
        dilations, weights, channels, mean, spread = own
        return cls(dilations, weights, channels, mean, spread)

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float32 square roots of sums and counts per position: beyond a sequence's ends stands its mean."""
        values = filled(examples, self.mean, self.spread)
        steps = np.diff(values, axis=0, prepend=values[:1])
        steps[examples.offsets[:-1]] = 0
        rows = [self._rows((values, steps), examples.offsets, u) for u in pieces(examples, len(examples), AT_ONCE)]
        return np.concatenate(rows) if rows else np.zeros((0, self.size), np.float32)

    def _rows(self, sides: tuple[np.ndarray, np.ndarray], offsets: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Features of neighbouring sequences `units`."""
        lengths = np.diff(offsets)[units]
        longest, reach = int(lengths.max()), (TAPS // 2) * int(self.dilations.max(initial=1))
        there = np.arange(longest) < lengths[:, None]
        out = np.empty((len(units), len(self.dilations), SIDES, GROUPS, KERNELS, 2), np.float32)
        for side, values in enumerate(sides):
            wide = np.zeros((values.shape[1], len(units), longest + 2 * reach), np.float32)
            wide[:, :, reach : reach + longest][:, there] = values[offsets[units[0]] : offsets[units[-1] + 1]].T
            for at, dilation in enumerate(self.dilations.tolist()):
                starts = [reach + (tap - TAPS // 2) * dilation for tap in range(TAPS)]
                taps = np.stack([wide[:, :, start : start + longest] for start in starts])
                out[:, at, side] = self._competed(taps, at, side, there)
        return np.asarray(np.sqrt(out.reshape(len(units), -1) / lengths[:, None], dtype=np.float32))

    def _competed(self, taps: np.ndarray, at: int, side: int, there: np.ndarray) -> np.ndarray:
        """(n, G, K, 2) sums and counts of one dilation, of taps (9, F, n, L); only positions that are `there` count.

        Of kernels with equal outputs each counts: on a straight stretch all do.
        """
        n, length = there.shape
        whole, ones = bool(there.all()), np.ones(length, np.float32)
        outputs = np.empty((KERNELS, n * length), np.float32)
        first, last = np.empty((2, KERNELS, n, length), bool)
        most, least = np.empty((2, n * length), np.float32)
        out = np.empty((GROUPS, 2, KERNELS, n), np.float32)
        for group, chosen in enumerate(self.channels[at, side]):
            summed = taps[:, 0] if taps.shape[1] == 1 else taps[:, chosen].sum(axis=1)
            np.matmul(self.weights[at, side, group], summed.reshape(TAPS, -1), out=outputs)
            np.equal(outputs, outputs.max(axis=0, out=most), out=first.reshape(KERNELS, -1))
            np.equal(outputs, outputs.min(axis=0, out=least), out=last.reshape(KERNELS, -1))
            if not whole:
                first &= there
                last &= there
            # A largest output below 0 adds nothing, as the published code clamps it.
            np.maximum(most, 0, out=most)
            np.einsum("knl,nl->kn", first, most.reshape(n, length), out=out[group, 0])
            np.copyto(outputs, last.reshape(KERNELS, -1))
            np.matmul(outputs.reshape(-1, length), ones, out=out[group, 1].reshape(-1))
        return np.transpose(out, (3, 0, 2, 1))


def channels_of(width: int) -> int:
    """Channels that a group sums: half of them, at least one and at most `CHANNELS`."""
    return min(max(width // 2, 1), CHANNELS)


def fit_hydra(examples: Examples, seed: int) -> Hydra:
    """Kernels drawn by the seed at dilations that fit the length of most sequences; labels are not looked at."""
    mean, spread = moments(examples)
    length = int(np.sort(examples.lengths)[len(examples) // 4])
    highest = max(int(np.log2(max((length - 1) / (TAPS - 1), 1))), 0)
    shape = (highest + 1, SIDES, GROUPS, KERNELS, TAPS)
    weights = normal(seed, "hydra/weights", np.arange(int(np.prod(shape))).reshape(shape))
    weights -= weights.mean(axis=-1, keepdims=True)
    weights /= np.abs(weights).sum(axis=-1, keepdims=True)
    each = channels_of(len(mean))
    drawn = np.zeros((*shape[:3], each), np.int64)
    if len(mean) > 1:
        for key in np.ndindex(*shape[:3]):
            drawn[key] = permutation(seed, f"hydra/channels/{'/'.join(map(str, key))}", len(mean))[:each]
    return Hydra(2 ** np.arange(highest + 1, dtype=np.int64), weights.astype(np.float32), drawn, mean, spread)
