"""Statistics of sequences against a slow computation of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, noise

from headstart.baselines import summary
from headstart.baselines.features import filled, moments
from headstart.baselines.summary import LAGS, PER_CHANNEL, QUANTILES, Summary
from headstart.sequence import Examples


def slow(v: np.ndarray) -> list[float]:
    """Of one channel of one sequence without gaps, in the order of the features."""
    steps = np.abs(np.diff(v)).sum() / len(v)
    out = [v.mean(), v.std(), v.min(), v.max(), v[0], v[-1], steps]
    out += [float(np.quantile(v, q)) for q in QUANTILES]
    out.append(0.0 if len(v) < 2 else np.polyfit(np.arange(len(v)) / len(v), v, 1)[0])
    c, variance = v - v.mean(), v.var()
    for lag in LAGS:
        total = sum(c[i] * c[i + lag] for i in range(len(v) - lag))
        out.append(0.0 if variance == 0 else total / len(v) / variance)
    crossings = sum((c[i] > 0) != (c[i - 1] > 0) for i in range(1, len(v)))
    out.append(crossings / max(len(v) - 1, 1))
    power = np.abs(np.fft.fft(c))[1 : len(v) // 2 + 1] ** 2
    frequency = np.arange(1, len(v) // 2 + 1) / len(v)
    if not len(power) or variance == 0:
        return [*out, 0.0, 0.0, 0.0]
    return [*out, frequency[power.argmax()], power @ frequency / power.sum(), power.max() / power.sum()]


def per_channel(rows: np.ndarray, channels: int) -> np.ndarray:
    """(n, P) features as (n, channels, PER_CHANNEL), the length left out."""
    length = 7 * channels  # where `features.summaries` has it
    rows = np.delete(rows, length, axis=1)
    return rows.reshape(len(rows), PER_CHANNEL, channels).transpose(0, 2, 1)


def agrees(x: Examples) -> None:
    features = Summary(*moments(x))
    rows = features.transform(x)
    channels = x.values.shape[1]
    assert rows.shape == (len(x), features.size) == (len(x), PER_CHANNEL * channels + 1)
    assert rows[:, 7 * channels].tolist() == x.lengths.tolist()
    values = filled(x, features.mean, features.spread).astype(np.float64)
    for row, result in enumerate(per_channel(rows, channels)):
        first, last = x.offsets[row], x.offsets[row + 1]
        for f in range(channels):
            assert result[f, :-1] == pytest.approx(slow(values[first:last, f]), rel=1e-4, abs=1e-5), (row, f)
            seen = 1.0 if x.observed is None else x.observed[first:last, f].mean()
            assert result[f, -1] == pytest.approx(1 - seen)


def test_statistics_of_unequal_sequences_equal_a_slow_computation() -> None:
    agrees(noise([1, 2, 3, 9, 20, 20, 41, 64], channels=2))


def test_statistics_with_gaps_are_those_of_the_lines_across_them_and_their_share() -> None:
    x = noise([12, 30, 25], channels=3)
    agrees(replace(x, observed=np.random.default_rng(0).random(x.values.shape) < 0.7))


def test_a_constant_sequence_has_no_rhythm() -> None:
    x = examples([np.full((12, 1), 2.0, np.float32), np.arange(12.0, dtype=np.float32)[:, None]])
    rhythm = per_channel(Summary(*moments(x)).transform(x), 1)[0, 0, 13:]
    assert rhythm.tolist() == [0.0] * len(rhythm)


def test_a_pure_wave_has_its_frequency() -> None:
    wave = np.sin(np.arange(80) * 2 * np.pi * 0.1).astype(np.float32)[:, None]
    x = examples([wave, wave])
    result = per_channel(Summary(*moments(x)).transform(x), 1)[0, 0]
    assert result[-4:-1] == pytest.approx([0.1, 0.1, 1.0], abs=1e-3)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise([30, 5, 17, 40, 3], channels=2)
    whole = Summary(*moments(x)).transform(x)
    monkeypatch.setattr(summary, "VALUES_AT_ONCE", 60)
    assert np.array_equal(Summary(*moments(x)).transform(x), whole)
