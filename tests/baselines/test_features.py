"""Gaps: what stands in them, and what does not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, noise

from headstart.baselines.features import filled, moments


def test_a_gap_is_crossed_in_a_straight_line_within_its_sequence() -> None:
    rows = [np.array([[9.0], [2], [0], [0], [8], [0]]), np.array([[0.0], [5]]), np.array([[7.0], [7]])]
    x = examples([row.astype(np.float32) for row in rows])
    seen = np.array([0, 1, 0, 0, 1, 0, 0, 1, 0, 0], dtype=bool)[:, None]
    out = filled(replace(x, observed=seen), np.array([1.0]), np.array([2.0]))
    assert (out[:, 0] * 2 + 1).tolist() == [2, 2, 4, 6, 8, 8, 5, 5, 1, 1]


def test_channels_have_gaps_of_their_own() -> None:
    x = noise([6, 4, 5], channels=3)
    rng = np.random.default_rng(0)
    seen = rng.random(x.values.shape) < 0.6
    out = filled(replace(x, observed=seen), np.zeros(3), np.ones(3))
    for row, (first, last) in enumerate(zip(x.offsets[:-1], x.offsets[1:], strict=True)):
        for f in range(3):
            there = np.flatnonzero(seen[first:last, f])
            values = x.values[first:last, f][there]
            wanted = np.interp(np.arange(last - first), there, values) if len(there) else np.zeros(last - first)
            assert out[first:last, f] == pytest.approx(wanted, abs=1e-6), row


def test_a_value_that_is_no_number_is_missing_and_an_unobserved_one_cannot_matter() -> None:
    x = noise([8, 9], channels=2)
    seen = np.ones(x.values.shape, dtype=bool)
    seen[[2, 3, 10], [0, 1, 1]] = False
    plain, other = replace(x, observed=seen), x.values.copy()
    other[~seen] = [1e30, -5, np.inf]
    hidden = replace(x, observed=seen, values=other)
    nan = replace(x, values=np.where(seen, x.values, np.nan).astype(np.float32))
    for changed in (hidden, nan):
        assert np.array_equal(moments(changed), moments(plain))
        assert np.array_equal(filled(changed, *moments(plain)), filled(plain, *moments(plain)))


def test_moments_are_those_of_what_was_observed() -> None:
    x = noise([5, 7], channels=2)
    seen = np.ones(x.values.shape, dtype=bool)
    seen[:6, 1] = False
    mean, spread = moments(replace(x, observed=seen))
    assert mean == pytest.approx([x.values[:, 0].mean(), x.values[6:, 1].mean()], rel=1e-6)
    assert spread == pytest.approx([x.values[:, 0].std(), x.values[6:, 1].std()], rel=1e-6)


def test_a_channel_that_is_constant_or_was_never_observed_is_no_division_by_nought() -> None:
    x = examples([np.array([[0.1, 5.0], [0.1, 6.0]], dtype=np.float32)])
    x = replace(x, observed=np.array([[True, False]] * 2))
    mean, spread = moments(x)
    assert spread.tolist() == [1, 1]
    assert filled(x, mean, spread) == pytest.approx(np.zeros((2, 2)), abs=1e-7)
