"""A sequence of numbers as a row of statistics per channel: level, spread, shape, rhythm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from headstart.baselines.features import Features, filled, moments, observed, summaries
from headstart.baselines.fitting import FittedFacts, Shapes, pieces
from headstart.baselines.linear import PenalisedSpec
from headstart.baselines.ngrams import Ngrams, fit_ngrams
from headstart.sequence import Examples, Signature

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
LAGS = (1, 2, 4, 8, 16, 32)
PER_CHANNEL = 7 + len(QUANTILES) + 1 + len(LAGS) + 1 + 3 + 1
"""Those of `features.summaries`, quantiles, slope, autocorrelations, crossings, spectrum, share missing."""
VALUES_AT_ONCE = 1 << 20
"""Values that are summarised at once, which bounds memory."""


@dataclass(frozen=True)
class Summary(Features):
    """mean, spread (F,) float64: of the channels of train, by which they are standardised."""

    mean: np.ndarray
    spread: np.ndarray
    kind: str = "summary"

    @property
    def size(self) -> int:
        """PER_CHANNEL of each channel, and the length."""
        return PER_CHANNEL * len(self.mean) + 1

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        facts.check(facts.size == PER_CHANNEL * facts.width + 1, "size")
        return {"mean": ("float64", (facts.width,)), "spread": ("float64", (facts.width,))}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Summary:
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        return cls(arrays["mean"], arrays["spread"])

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float64. Gaps are crossed in straight lines first, and counted."""
        alone = replace(examples, paired=False)
        parts = pieces(alone, len(alone), VALUES_AT_ONCE // len(self.mean))
        rows = [self._rows(alone.take(units)) for units in parts]
        return np.concatenate(rows) if rows else np.zeros((0, self.size))

    def _rows(self, examples: Examples) -> np.ndarray:
        values = filled(examples, self.mean, self.spread)
        plain = replace(examples, values=values, observed=None, scale=None)
        seen = observed(examples, examples.as_seen(examples.values))
        per = _Rows(examples.offsets)
        missing = 1 - per.mean(seen.astype(np.float64))
        of_values = values.astype(np.float64)
        centred = of_values - per.mean(of_values)[per.row]
        variance = per.mean(centred**2)
        rhythm = [_autocorrelations(centred, variance, per), _crossings(centred, per), _spectrum(centred, per)]
        return np.concatenate(
            [summaries(plain), _quantiles(of_values, per), _slope(centred, per), *rhythm, missing], axis=1
        )


class SummarySpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on statistics per channel; of tokens, on runs of one and two."""

    version: ClassVar[int] = 2
    kind: Literal["summary"] = "summary"
    reads: ClassVar[Mapping[str, type[Features]]] = {"summary": Summary, "ngrams": Ngrams}

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        yield fit_ngrams(train, 2) if signature.input == "tokens" else Summary(*moments(train))

    def describe(self) -> str:
        return "a logistic regression (ridge for numbers) on summary statistics"


class _Rows:
    """Which positions belong together."""

    def __init__(self, offsets: np.ndarray) -> None:
        self.begin, self.lengths = offsets[:-1], np.diff(offsets)
        self.row = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self.position = np.arange(int(offsets[-1])) - self.begin[self.row]

    def sum(self, values: np.ndarray) -> np.ndarray:
        """(n, F) of (S, F)."""
        return np.asarray(np.add.reduceat(values, self.begin, axis=0))

    def mean(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(self.sum(values) / self.lengths[:, None])


def _quantiles(values: np.ndarray, per: _Rows) -> np.ndarray:
    """(n, 5 F), between neighbours in a straight line."""
    ordered = np.stack([column[np.lexsort((column, per.row))] for column in values.T], axis=1)
    out = []
    for quantile in QUANTILES:
        at = quantile * (per.lengths - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, per.lengths - 1)
        part = (at - low)[:, None]
        out.append(ordered[per.begin + low] * (1 - part) + ordered[per.begin + high] * part)
    return np.concatenate(out, axis=1)


def _slope(centred: np.ndarray, per: _Rows) -> np.ndarray:
    """(n, F) change over the whole sequence along the line of least squares."""
    time = (per.position - (per.lengths[per.row] - 1) / 2) / per.lengths[per.row]
    return np.asarray(per.sum(centred * time[:, None]) / np.maximum(per.sum(time[:, None] ** 2), 1e-12))


def _autocorrelations(centred: np.ndarray, variance: np.ndarray, per: _Rows) -> np.ndarray:
    """(n, 6 F): the mean product with the value `lag` later, over the variance; 0 where there is none."""
    out = []
    for lag in LAGS:
        later = np.zeros_like(centred)
        later[:-lag] = centred[lag:]
        later[per.position + lag >= per.lengths[per.row]] = 0.0
        out.append(per.mean(centred * later) / np.maximum(variance, 1e-12))
    return np.concatenate(out, axis=1)


def _crossings(centred: np.ndarray, per: _Rows) -> np.ndarray:
    """(n, F) share of steps at which the sequence crosses its own mean."""
    above = centred > 0
    cross = np.zeros(centred.shape)
    cross[1:] = above[1:] != above[:-1]
    cross[per.begin] = 0.0
    return np.asarray(per.sum(cross) / np.maximum(per.lengths - 1, 1)[:, None])


def _spectrum(centred: np.ndarray, per: _Rows) -> np.ndarray:
    """(n, 3 F) the strongest frequency and the mean frequency by power, in cycles per position; the strongest's share.

    Sequences of one length are transformed together; one that does not vary has 0 throughout.
    """
    features = centred.shape[1]
    out = np.zeros((len(per.lengths), 3, features))
    for length in np.unique(per.lengths):
        rows = np.flatnonzero(per.lengths == length)
        if length < 2:
            continue
        values = centred[per.begin[rows][:, None] + np.arange(length)]
        power = np.abs(np.fft.rfft(values, axis=1)[:, 1:]) ** 2
        frequency = np.fft.rfftfreq(int(length))[1:]
        total = power.sum(axis=1)
        some = np.where(total > 1e-12, total, 1.0)
        out[rows, 0] = np.where(total > 1e-12, frequency[power.argmax(axis=1)], 0.0)
        out[rows, 1] = np.where(total > 1e-12, (power * frequency[:, None]).sum(axis=1) / some, 0.0)
        out[rows, 2] = np.where(total > 1e-12, power.max(axis=1) / some, 0.0)
    return out.reshape(len(per.lengths), -1)
