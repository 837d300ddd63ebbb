"""Longer tests and channels of unlike scale are said; what is usual is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from headstart import Examples, make_task
from headstart.tasks.remarks import hints, remarks


def sequences(low: int, high: int, count: int = 40) -> Examples:
    draw = np.random.default_rng(low)
    rows = [draw.integers(0, 2, draw.integers(low, high + 1)) for _ in range(count)]
    return Examples.from_arrays(rows, np.arange(count) % 2)


def floats(*scales: float) -> Any:
    values = np.random.default_rng(0).normal(size=(60, 9, len(scales))).astype(np.float32) * np.float32(scales) + 5
    return make_task(Examples.from_arrays(values, np.arange(60) % 2))


def test_a_test_of_longer_sequences_than_any_of_train_is_said() -> None:
    (remark,) = remarks(make_task(sequences(4, 20), sequences(4, 20), sequences(50, 60), width=2))
    assert remark.startswith("40 of 40 test sequences are longer than any of train (20 positions), the longest 3 times")
    assert remarks(make_task(sequences(4, 20), sequences(4, 20), sequences(4, 20), width=2)) == ()


def test_channels_of_unlike_scale_are_said_and_constant_ones_hinted_at() -> None:
    (remark,) = remarks(floats(1.0, 1e6))
    assert "the standard deviation of channel 2 is 9.4e+05, that of channel 1 0.98" in remark
    assert remarks(floats(1.0, 30.0)) == ()
    assert hints(floats(1.0, 0.0, 2.0)) == ("1 channel of train is constant (2).",)
    assert hints(floats(1.0)) == ()
