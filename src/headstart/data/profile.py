"""What sequences look like as a whole, and whether others look unlike them."""

from __future__ import annotations

import itertools

import numpy as np

from headstart.data.sequences import Sequences
from headstart.spec import Spec
from headstart.text import first_few
from headstart.ways import option

TIME_STEP = "the step of time"
"""What tells another sampling rate, where a table says its times."""
LEVELLED = 1 << 20
"""Positions whose levels are computed at once, which bounds memory."""
FEWEST = 5
"""Sequences of which a shift of their mean says something."""
STEADY = 0.05
"""Share by which a step of time may differ, as clocks do."""


class Profile(Spec):
    """Mean and deviation of each feature of the sequences of the fit (`features_of`), by which a shift is noticed."""

    mean: dict[str, float]
    deviation: dict[str, float]

    def drift(self) -> Drift:
        """What tells, block by block, whether other sequences look like these."""
        return Drift(self)

    @classmethod
    def of(cls, s: Sequences) -> Profile:
        """The profile of these sequences."""
        named = features_of(s).items()
        return cls(
            mean={name: float(f"{x.mean():.6g}") for name, x in named},
            deviation={name: float(f"{x.std():.6g}") for name, x in named},
        )


class Drift:
    """Whether sequences look unlike those of a fit, noticed block by block."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.count = profile, 0
        self._sums: dict[str, float] = {}
        self._outside: dict[str, int] = {}

    def add(self, s: Sequences) -> None:
        """Look at some sequences; what the fit did not have is not compared."""
        self.count += len(s)
        for name, x in features_of(s).items():
            if name in self.profile.mean:
                mean, deviation = self.profile.mean[name], self.profile.deviation.get(name, 1.0)
                near = STEADY if name == TIME_STEP else 1e-5  # numbers are saved with 6 digits
                off = np.abs(x - mean) - near * abs(mean)
                self._outside[name] = self._outside.get(name, 0) + int((off > 3 * deviation).sum())
                self._sums[name] = self._sums.get(name, 0.0) + float(x.sum())

    def sentence(self) -> str:
        """A sentence where they look unlike those of the fit, else nothing.

        So they do where far more than a twentieth of them (one, where all of the fit were equal) lie further than three
        deviations off in a feature, or their mean by more than chance and half a deviation. Of the step of time, which
        a device sets, one is enough.
        """
        count, odd = self.count, []
        for name, total in self._sums.items():
            mean, deviation = self.profile.mean[name], self.profile.deviation.get(name, 1.0)
            own = total / count
            shifted = abs(own - mean) - 1e-5 * abs(mean) > deviation * (0.5 + 5 / count**0.5)
            most = (2 + 0.05 * count + 4 * (0.0475 * count) ** 0.5) * (deviation > 0 and name != TIME_STEP)
            if self._outside[name] > most or (shifted and count >= FEWEST and name != TIME_STEP):
                odd.append(f"{name} (mean {own:.4g}, in the fit {mean:.4g} with a deviation of {deviation:.4g})")
        if not odd:
            return ""
        text = "these sequences look unlike those of the fit, so that predictions may be wrong: "
        clock = any(item.startswith(TIME_STEP) for item in odd)
        way = f"; {option('rate')} brings recordings to the rate of the fit" if clock else ""
        return f"{text}{first_few(odd, 3, '; ')}{way}"


def features_of(s: Sequences) -> dict[str, np.ndarray]:
    """What a shift shows in, by name, (n,) float64 each: length, step of time, gaps, mean and spread of each channel;
    of symbols how many different ones there are, and the mean of their numbers, which follows their mix."""
    first, lengths = s.offsets[:-1], s.lengths.astype(np.float64)
    out = {"the length": lengths}
    if s.steps is not None and not np.isnan(s.steps).all():
        out[TIME_STEP] = np.where(np.isnan(s.steps), np.nanmedian(s.steps), s.steps)
    if s.kind != "numbers":
        row = np.repeat(np.arange(len(s)), s.lengths)
        different = np.unique(row * s.width + s.values) // s.width
        out["the number of different symbols"] = np.bincount(different, minlength=len(s)).astype(np.float64)
        out["the mix of symbols"] = np.add.reduceat(s.values.astype(np.float64), first) / lengths
        return out
    begins = np.unique(np.searchsorted(s.offsets, np.arange(0, len(s.values), LEVELLED), side="right") - 1)
    parts = [_levels(s, begin, end) for begin, end in itertools.pairwise([*begins.tolist(), len(s)])]
    gone, mean, spread = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    out["the share of missing values"] = gone
    for f, channel in enumerate(s.channels):
        out |= {f"the mean of {channel!r}": mean[:, f], f"the spread of {channel!r}": spread[:, f]}
    return out


def _levels(s: Sequences, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of some sequences of numbers the share of missing values (n,), and mean and spread of each channel (n, F)."""
    some, lengths = slice(s.offsets[begin], s.offsets[end]), s.lengths[begin:end]
    first, values = s.offsets[begin:end] - s.offsets[begin], s.values[some].astype(np.float64)
    there = np.ones(values.shape, dtype=bool) if s.observed is None else s.observed[some]
    gone = 1 - np.add.reduceat(there.mean(1), first) / lengths
    count = np.maximum(np.add.reduceat(there.astype(np.float64), first), 1)
    mean = np.add.reduceat(np.where(there, values, 0), first) / count
    off = np.where(there, values - np.repeat(mean, lengths, axis=0), 0)
    return gone, mean, np.sqrt(np.add.reduceat(off**2, first) / count)
