"""What more labels would bring: by nested samples, and nothing where labels are noise."""

from __future__ import annotations

import numpy as np
import pytest

from headstart.baselines.linear import LinearSpec
from headstart.baselines.trivial import MajoritySpec
from headstart.fitted.curve import LearningCurve, _order, learning_curve
from headstart.sequence import IGNORE, Examples, Signature

SIGNATURE = Signature("floats", 1, 12, 12, "class", classes=2)


def rows(count: int, seed: int, signal: float) -> Examples:
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, count)
    values = (
        rng.normal(size=(count, 12, 1)) + signal * (2 * target - 1)[:, None, None] * np.linspace(-1, 1, 12)[:, None]
    )
    return Examples.from_arrays(values.astype(np.float32), target)


def curve(signal: float, count: int = 80) -> LearningCurve:
    made = learning_curve("linear", LinearSpec(alpha=1.0), rows(count, 0, signal), rows(600, 1, signal), SIGNATURE)
    assert made is not None
    return made


def test_labels_of_noise_give_a_flat_curve() -> None:
    made = curve(0.0)
    _, low, high = made.gain(100)
    assert low < 0 < high
    assert "that 100 more labels like these would help is not shown" in made.text()


def test_labels_with_a_signal_give_a_rising_one() -> None:
    made = curve(0.25)
    mean, low, _ = made.gain(100)
    assert low > 0
    assert made.labels == (20, 40, 80)
    assert made.scores[0] < made.scores[-1]
    assert made.text().startswith("With 20, 40 and 80 labelled train sequences linear has a test accuracy of 0.")
    assert f"100 more labels like these would bring about {mean:+.3f}" in made.text()


def test_what_more_labels_bring_is_close_to_what_they_do_bring_on_average() -> None:
    predicted, brought, test = [], [], rows(600, 99, 0.25)
    for seed in range(12):
        made = learning_curve("linear", LinearSpec(alpha=1.0), rows(80, seed, 0.25), test, SIGNATURE)
        more = learning_curve("linear", LinearSpec(alpha=1.0), rows(180, seed, 0.25), test, SIGNATURE)
        assert made is not None
        assert more is not None
        predicted.append(made.gain(100)[0])
        brought.append(more.scores[-1] - made.scores[-1])
    assert np.mean(predicted) == pytest.approx(np.mean(brought), abs=0.03)
    assert np.mean(predicted) > 0.02


def test_the_gain_is_the_line_through_scores_over_the_logarithm_of_labels() -> None:
    """The reference: numpy's line, draw by draw."""
    rng = np.random.default_rng(0)
    right = (rng.random((4, 3, 50)) < 0.7).astype(float)
    made = LearningCurve("x", (10, 20, 40), right)
    slopes = [np.polyfit(np.log2([10, 20, 40]), draw.mean(axis=1), 1)[0] for draw in right]
    assert made.gain(40)[0] == pytest.approx(np.mean(slopes))
    assert made.gain(40)[2] - made.gain(40)[0] >= 3.18 * np.std(slopes, ddof=1) / 2 - 1e-9
    assert made.gain(120)[0] == pytest.approx(2 * np.mean(slopes)), "four times as many are two doublings"


def test_samples_are_nested_and_have_each_class_in_proportion() -> None:
    target = np.array([0] * 90 + [1] * 10)
    for draw in range(3):
        order = _order(target, True, draw)
        assert sorted(order) == list(range(100))
        assert [int(target[order[:n]].sum()) for n in (20, 50, 100)] == [2, 5, 10]
    assert not np.array_equal(_order(target, True, 0), _order(target, True, 1))


def test_nothing_is_said_of_few_labels_of_no_test_or_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = rows(30, 0, 0.3), rows(40, 1, 0.3)
    spec = MajoritySpec()
    assert learning_curve("majority", spec, train, test, SIGNATURE) is None, "a quarter of 30 is below 10"
    many = rows(80, 0, 0.3)
    assert learning_curve("majority", spec, many, test, SIGNATURE) is not None
    assert learning_curve("majority", spec, many, test, SIGNATURE, seconds=0.0) is None
    none = Examples(test.values, test.offsets, np.full(40, IGNORE), test.index)
    assert learning_curve("majority", spec, many, none, SIGNATURE) is None
    fits = list[int]()
    monkeypatch.setattr(MajoritySpec, "fit", lambda *_, **__: fits.append(1))
    assert learning_curve("majority", spec, many, test, SIGNATURE, seconds=0.05) is None
    assert not fits, "nothing begins that its own forecast sees ending late"


def test_a_regression_is_told_by_r2() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 12, 1)).astype(np.float32)
    target = (values[:, :, 0] @ np.linspace(-1, 1, 12)).astype(np.float32)
    signature = Signature("floats", 1, 12, 12, "number", classes=0)
    x = Examples.from_arrays(values, target)
    made = learning_curve(
        "linear", LinearSpec(alpha=1.0), x.take(np.arange(100)), x.take(np.arange(100, 300)), signature
    )
    assert made is not None
    assert "has a test R² of" in made.text()
    assert made.scores[-1] > 0.9
