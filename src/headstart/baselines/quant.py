"""Quantiles of dyadic intervals of a sequence, of its steps, of their steps, and of its spectrum.

After QUANT: Dempster, Schmidt and Webb 2024. Each of these four is cut into 1, 2, 4, ... intervals, and into as many
shifted by half of one; of each interval as many quantiles as a quarter of its positions are kept, and of every second
one the mean is taken away. Sequences of other lengths are cut into the same shares of their length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headstart.baselines.features import Features, filled, moments
from headstart.baselines.fitting import FittedFacts, Shapes
from headstart.sequence import Examples

HALVINGS = 6
"""Times that a sequence is halved, at most, as published."""
QUANTILE_POSITIONS = 4
"""Positions of an interval for each quantile, as published."""
MOST_QUANTILES = 8_192
"""Features at most: of longer or wider sequences fewer quantiles are kept."""
SMOOTH = 5
"""Neighbouring steps that are averaged."""


@dataclass(frozen=True)
class Quant(Features):
    """What is fitted: the usual length of train, how many positions an interval has for each quantile, and mean, spread
    (F,) float64 of the channels, by which they are standardised."""

    mean: np.ndarray
    spread: np.ndarray
    length: int
    share: int
    kind: str = "quant"

    @property
    def size(self) -> int:
        return len(self.mean) * sum(count for plan in self._plans for _, _, count in plan)

    @property
    def sizes(self) -> dict[str, int]:
        """The length, and positions per quantile."""
        return {"length": self.length, "share": self.share}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        length, share = facts.sizes.get("length", 0), facts.sizes.get("share", 0)
        facts.check(length >= 1, "length")
        facts.check(share >= QUANTILE_POSITIONS, "share")
        facts.check(facts.size == size_of(length, share, facts.width), "size")
        return {"mean": ("float64", (facts.width,)), "spread": ("float64", (facts.width,))}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Quant:
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        return cls(arrays["mean"], arrays["spread"], facts.sizes["length"], facts.sizes["share"])

    @cached_property
    def _plans(self) -> tuple[tuple[tuple[float, float, int], ...], ...]:
        return tuple(intervals(length, self.share) for length in lengths_of(self.length))

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float32, sequences of one length at a time."""
        values, lengths = filled(examples, self.mean, self.spread), examples.lengths
        out = np.empty((len(examples), self.size), np.float32)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            some = values[examples.offsets[rows][:, None] + np.arange(length)]
            out[rows] = self._rows(np.moveaxis(some, 2, 1))
        return out

    def _rows(self, x: np.ndarray) -> np.ndarray:
        """(n, P) of x (n, F, L)."""
        columns = []
        for values, plan in zip(representations(x), self._plans, strict=True):
            last = values.shape[-1]
            for low, high, count in plan:
                first = min(int(np.floor(low * last)), last - 1)
                part = values[..., first : max(int(np.ceil(high * last - 1e-9)), first + 1)]
                places = np.linspace(0, 1, count) if count > 1 else np.array([0.5])
                quantiles = np.moveaxis(np.quantile(part, places, axis=-1), 0, -1)
                quantiles[..., 1::2] -= part.mean(axis=-1, keepdims=True)
                columns.append(quantiles.reshape(len(x), -1))
        return np.concatenate(columns, axis=1)


def representations(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of x (..., L): itself, its steps averaged over five, the steps of its steps, and its amplitudes by frequency.

    A sequence too short for one of them has a single 0 there.
    """
    steps = np.diff(x, axis=-1)
    padded = np.concatenate([steps[..., :1]] * (SMOOTH // 2) + [steps] + [steps[..., -1:]] * (SMOOTH // 2), axis=-1)
    count = steps.shape[-1]
    smooth = sum((padded[..., i : i + count] for i in range(SMOOTH)), np.zeros_like(steps)) / SMOOTH
    amplitudes = np.abs(np.fft.rfft(x, axis=-1)).astype(np.float32)
    nothing = np.zeros((*x.shape[:-1], 1), np.float32)
    return tuple(part if part.shape[-1] else nothing for part in (x, smooth, np.diff(steps, axis=-1), amplitudes))


def lengths_of(length: int) -> tuple[int, int, int, int]:
    """Lengths of the four representations of a sequence."""
    return length, max(length - 1, 1), max(length - 2, 1), length // 2 + 1


def intervals(length: int, share: int) -> tuple[tuple[float, float, int], ...]:
    """(begin, end, number of quantiles) of each interval of so many positions; both ends as shares of the length."""
    out = []
    for level in range(min(HALVINGS, int(np.log2(max(length, 1))) + 1)):
        count = 2**level
        wide = length / count
        firsts = [i / count for i in range(count)]
        if level and wide > 1:
            firsts += [(i + 0.5) / count for i in range(count - 1)]
        quantiles = 1 + max(int(np.ceil(wide)) - 1, 0) // share
        out += [(first, first + 1 / count, quantiles) for first in firsts]
    return tuple(out)


def size_of(length: int, share: int, width: int) -> int:
    """Features of sequences of this length and width."""
    return width * sum(count for own in lengths_of(length) for _, _, count in intervals(own, share))


def quant_size(lengths: np.ndarray, width: int) -> int:
    """Features of sequences of these lengths (n,)."""
    return min(size_of(int(np.median(lengths)), QUANTILE_POSITIONS, width), MOST_QUANTILES)


def fit_quant(examples: Examples) -> Quant:
    """The usual length and the moments of train; fewer quantiles where features would exceed `MOST_QUANTILES`."""
    mean, spread = moments(examples)
    length, share = int(np.median(examples.lengths)), QUANTILE_POSITIONS
    while size_of(length, share, len(mean)) > MOST_QUANTILES and share < length:
        share *= 2
    return Quant(mean, spread, length, share)
