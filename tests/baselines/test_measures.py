"""Measures against scikit-learn and scipy, which compute them in other ways."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.utils.class_weight import compute_class_weight

from headstart.baselines import measures
from headstart.sequence import IGNORE

CLASSES = 4


def answers(n: int = 200, seed: int = 0, sharp: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """(target, scores) that agree more often than chance has it."""
    rng = np.random.default_rng(seed)
    target = rng.choice(CLASSES, n, p=[0.55, 0.25, 0.15, 0.05])
    return target, rng.normal(size=(n, CLASSES)) + sharp * np.eye(CLASSES)[target]


def test_measures_of_classes_equal_those_of_scikit_learn() -> None:
    target, scores = answers()
    predicted, shares = scores.argmax(1), measures.softmax(scores)
    assert measures.scores_of(target, shares, CLASSES) == {
        "accuracy": pytest.approx((target == predicted).mean()),
        "balanced_accuracy": pytest.approx(metrics.balanced_accuracy_score(target, predicted)),
        "macro_f1": pytest.approx(metrics.f1_score(target, predicted, average="macro")),
        "log_loss": pytest.approx(metrics.log_loss(target, shares)),
        "calibration_error": pytest.approx(measures.reliability(target, shares).error),
    }
    assert (
        measures.confusion(target, predicted, CLASSES).tolist() == metrics.confusion_matrix(target, predicted).tolist()
    )


def test_a_class_that_was_never_met_counts_in_no_mean() -> None:
    target, predicted = np.array([0, 0, 2, 2]), np.array([0, 2, 2, 2])
    scores = measures.scores_of(target, np.eye(CLASSES)[predicted], CLASSES)
    assert scores["balanced_accuracy"] == pytest.approx(0.75)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 0.8) / 2)
    scores = measures.scores_of(np.array([0, 0]), np.eye(CLASSES)[[0, 1]], CLASSES)
    assert scores["balanced_accuracy"] == 0.5
    assert measures.confusion(target, predicted, 4).sum(1).tolist() == [2, 0, 2, 0]


def test_measures_of_numbers_equal_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    target, predicted = rng.normal(size=60), rng.normal(size=60)
    assert measures.scores_of(target, predicted, 0) == {
        "r2": pytest.approx(metrics.r2_score(target, predicted)),
        "mae": pytest.approx(metrics.mean_absolute_error(target, predicted)),
        "rmse": pytest.approx(metrics.root_mean_squared_error(target, predicted)),
    }
    assert np.isnan(measures.scores_of(np.ones(3), np.zeros(3), 0)["r2"])


def test_what_has_no_target_changes_no_measure() -> None:
    target, scores = answers(50)
    more = np.concatenate([target, [IGNORE, IGNORE]])
    extra = np.concatenate([scores, np.full((2, CLASSES), 9.0)])
    assert measures.scores_of(more, measures.softmax(extra), CLASSES) == measures.scores_of(
        target, measures.softmax(scores), CLASSES
    )
    assert measures.fit_temperature(extra, more) == measures.fit_temperature(scores, target)
    numbers = np.array([1.0, np.nan, 3.0])
    assert measures.scores_of(numbers, np.array([1.5, 7.0, 2.0]), 0) == {
        "r2": pytest.approx(1 - 1.25 / 2),
        "mae": pytest.approx(0.75),
        "rmse": pytest.approx(0.625**0.5),
    }


def test_no_target_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no target is there"):
        measures.log_loss(np.array([IGNORE]), np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="no target is there"):
        measures.scores_of(np.array([np.nan]), np.array([0.0]), 0)


def test_a_probability_of_nought_costs_much_and_not_everything() -> None:
    assert 700 < measures.log_loss(np.array([1]), np.array([[1.0, 0.0]])) < 800


def test_bins_of_reliability_equal_those_of_scikit_learn() -> None:
    target, scores = answers(400)
    shares = measures.softmax(scores, 0.7)
    result = measures.reliability(target, shares, 10)
    right = shares.argmax(1) == target
    accuracy, confidence = calibration_curve(right, shares.max(1), n_bins=10)
    held = result.count > 0
    assert result.accuracy[held] == pytest.approx(accuracy)
    assert result.confidence[held] == pytest.approx(confidence)
    assert result.count.sum() == 400
    wanted = sum(abs(a - c) * n for a, c, n in zip(accuracy, confidence, result.count[held], strict=True)) / 400
    assert result.error == pytest.approx(wanted)


def test_a_certainty_falls_into_the_last_bin_and_what_is_always_right_has_no_error() -> None:
    result = measures.reliability(np.array([0, 1]), np.eye(2), 5)
    assert result.count.tolist() == [0, 0, 0, 0, 2]
    assert result.error == 0


@pytest.mark.parametrize("sharp", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("smooth", [False, True])
def test_the_temperature_is_where_the_log_loss_is_least(sharp: float, smooth: bool) -> None:
    target, scores = answers(300, sharp=sharp)
    wanted = np.eye(CLASSES)[target]
    if smooth:
        wanted = (300 * wanted + 1 / CLASSES) / 301

    def loss(log: float) -> float:
        scaled = scores * np.exp(-log)
        return float((np.log(np.exp(scaled).sum(1)) - (wanted * scaled).sum(1)).mean())

    best = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-10})
    assert measures.fit_temperature(scores, target, smooth) == pytest.approx(np.exp(best.x), rel=1e-5)


def test_a_weight_of_two_is_an_example_twice() -> None:
    target, scores = answers(100)
    weights = np.array([1.0, 2.0, 1.0, 1.0])
    twice = np.concatenate([np.arange(100), np.flatnonzero(target == 1)])
    shares = measures.softmax(scores)
    assert measures.log_loss(target, shares, weights) == pytest.approx(measures.log_loss(target[twice], shares[twice]))
    result = measures.fit_temperature(scores, target, weights=weights)
    assert result == pytest.approx(measures.fit_temperature(scores[twice], target[twice]))
    assert measures.fit_temperature(scores, target, weights=np.zeros(4)) == 1.0


def test_a_temperature_undoes_a_scaling() -> None:
    target, scores = answers(300)
    assert measures.fit_temperature(7 * scores, target) == pytest.approx(7 * measures.fit_temperature(scores, target))


def test_a_few_right_answers_make_no_certainty_when_smoothed() -> None:
    target, scores = np.array([0, 1, 0, 1]), np.array([[1.0, -1], [-1, 1], [1, -1], [-1, 1]])
    assert measures.fit_temperature(scores, target) == pytest.approx(measures.COLDEST)
    smoothed = measures.softmax(scores, measures.fit_temperature(scores, target, smooth=True))
    assert smoothed.max() == pytest.approx(4.5 / 5)  # (n + 1 / K) / (n + 1)


def test_scores_that_mislead_are_cooled_to_chance() -> None:
    target = np.array([0, 1])
    assert measures.fit_temperature(np.eye(2)[::-1], target) == pytest.approx(measures.HOTTEST)


def test_without_targets_the_temperature_is_one() -> None:
    assert measures.fit_temperature(np.zeros((2, 2)), np.full(2, IGNORE)) == 1.0


def test_softmax_holds_for_large_scores() -> None:
    assert measures.softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]


def test_balanced_weights_equal_those_of_scikit_learn() -> None:
    target, _ = answers()
    result = measures.balanced_weights(target, CLASSES)
    assert result == pytest.approx(compute_class_weight("balanced", classes=np.arange(CLASSES), y=target))
    assert result[target].mean() == pytest.approx(1)


def test_a_class_without_an_example_has_no_weight() -> None:
    assert measures.balanced_weights(np.array([0, 0, 2, IGNORE]), 4).tolist() == [0.75, 0, 1.5, 0]
    assert measures.balanced_weights(np.array([IGNORE]), 2).tolist() == [0, 0]
