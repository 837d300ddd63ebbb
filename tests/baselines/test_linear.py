"""What is fitted, chosen and calibrated, on features made up here."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from headstart.baselines import linear
from headstart.baselines.features import Plain
from headstart.baselines.linear import STRENGTHS, Split, fit_numbers, logistic, ridge_classes
from headstart.baselines.measures import fit_temperature, log_loss, softmax
from headstart.baselines.ridge import ALPHAS, Blocks, Readout, _axes, ridge, ridge_bytes
from headstart.sequence import Examples

CLASSES = 3


def split(n: int, seed: int, width: int = 12, classes: int = CLASSES) -> Split:
    """Features of which the first few lean towards the class."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, n)
    features = rng.normal(size=(n, width)) * np.arange(1, width + 1)
    features[:, :classes] += 1.5 * np.eye(classes)[target] * np.arange(1, classes + 1)
    return Split(features.astype(np.float32), target)


def numbers(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, wanted, weights)."""
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(n, p)) * rng.uniform(0.1, 5, p) + rng.normal(size=p)).astype(np.float32)
    wanted = features[:, :2] @ rng.normal(size=(2, 3)) + rng.normal(size=(n, 3)) * 0.5 + 4
    return features, wanted, rng.uniform(0.3, 3, n)


def solved(features: np.ndarray, wanted: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
    """(P + 1, T) coefficients of the normal equations, the intercept last and free."""
    x = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    penalty = alpha * np.diag([1.0] * features.shape[1] + [0.0])
    return np.linalg.solve(x.T @ (x * weights[:, None]) + penalty, x.T @ (wanted * weights[:, None]))


@pytest.mark.parametrize(("n", "p"), [(12, 30), (30, 6)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_ridge_regression_solves_its_equations_and_a_left_out_prediction_is_one_without_the_example(
    n: int, p: int, weighted: bool
) -> None:
    features, wanted, weights = numbers(n, p)
    weights = weights / weights.mean() if weighted else np.ones(n)
    readout, left_out = ridge(features, wanted, None, weights if weighted else None)
    # Deviations are those of all examples: a fit that leaves one out is given the same scale.
    scaled = StandardScaler().fit(features, sample_weight=weights).transform(features).astype(np.float64)
    (alpha,) = readout.strength
    rows = np.concatenate([scaled, np.ones((n, 1))], axis=1)
    assert readout.scores(features) == pytest.approx(rows @ solved(scaled, wanted, weights, alpha), rel=1e-4, abs=1e-4)
    for out in (0, n // 2):
        others = np.arange(n) != out
        alone = rows[out] @ solved(scaled[others], wanted[others], weights[others], alpha)
        assert left_out[out] == pytest.approx(alone, rel=1e-4, abs=1e-4)


def test_the_penalty_of_a_ridge_regression_has_the_least_error_of_what_was_left_out() -> None:
    features, wanted, weights = numbers(25, 40)
    errors = {}
    for alpha in ALPHAS:
        errors[alpha] = weights @ ((ridge(features, wanted, alpha, weights)[1] - wanted) ** 2).sum(axis=1)
    assert ridge(features, wanted, None, weights)[0].strength == (min(errors, key=lambda alpha: errors[alpha]),)


def test_a_feature_that_does_not_vary_has_no_weight() -> None:
    features, wanted, _ = numbers(30, 5)
    features[:, 2] = 0.1
    readout, _ = ridge(features, wanted, None)
    assert readout.weights[2] == pytest.approx(np.zeros(3), abs=1e-6)
    assert np.isfinite(readout.weights).all()


@pytest.mark.parametrize(("n", "p"), [(1, 5), (2, 5), (4, 2)])
def test_a_target_that_does_not_vary_is_predicted_everywhere(n: int, p: int) -> None:
    features, _, _ = numbers(n, p)
    readout, _ = ridge(features, np.full((n, 1), 3.0), None)
    assert readout.scores(features) == pytest.approx(np.full((n, 1), 3.0))


def test_the_penalty_of_a_logistic_regression_is_the_best_on_val() -> None:
    train, val = split(60, 0), split(60, 1)
    result = logistic(train, val, CLASSES)
    scaler = StandardScaler().fit(train.features)
    losses = {}
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=1000).fit(scaler.transform(train.features), train.target)
        losses[strength] = log_loss(val.target, model.predict_proba(scaler.transform(val.features)))
    best = min(losses, key=lambda c: losses[c])
    assert result.strength == (best,)
    assert losses[best] < min(losses[STRENGTHS[0]], losses[STRENGTHS[-1]])
    assert log_loss(val.target, softmax(result.scores(val.features))) == pytest.approx(losses[best], rel=1e-3)
    assert result.temperature == pytest.approx(fit_temperature(result.scores(val.features), val.target, True))


def test_two_classes_are_scored_as_scikit_learn_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "STRENGTHS", (0.1,))
    train, val = split(60, 0, classes=2), split(30, 1, classes=2)
    scaler = StandardScaler().fit(train.features)
    model = LogisticRegression(C=0.1, max_iter=1000).fit(scaler.transform(train.features), train.target)
    shares = softmax(logistic(train, val, 2).scores(val.features))
    assert shares == pytest.approx(model.predict_proba(scaler.transform(val.features)), abs=1e-4)


def test_weaker_penalties_are_not_tried_once_they_only_do_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def path(train, grid, classes, weights):  # type: ignore[no-untyped-def]
        for strength in grid:
            tried.append(strength)
            wrong = 1.0 if strength == STRENGTHS[0] else -strength
            yield Readout(wrong * np.eye(12, CLASSES), np.zeros(CLASSES), 1.0, (strength,))

    monkeypatch.setattr(linear, "logistic_path", path)
    assert logistic(split(60, 0), split(60, 1), CLASSES).strength == STRENGTHS[:1]
    assert tried == list(STRENGTHS[:3])


def test_the_temperature_of_a_ridge_regression_is_fitted_on_val_and_on_what_was_left_out() -> None:
    train, val = split(60, 0), split(20, 1)
    result = ridge_classes(train, val, CLASSES)
    alone, left_out = ridge(train.features, 2 * np.eye(CLASSES)[train.target] - 1, None)
    scores = np.concatenate([left_out, result.scores(val.features)])
    target = np.concatenate([train.target, val.target])
    assert result.temperature == pytest.approx(fit_temperature(scores, target, smooth=True))
    assert result.strength == alone.strength


def test_each_number_is_learned_from_the_examples_that_have_it() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 5)).astype(np.float32)
    wanted = features @ rng.normal(size=(5, 3)) + 7
    wanted[::2, 1] = np.nan
    wanted[:, 2] = np.nan
    dense = fit_numbers(Split(features, wanted), Split(features, wanted))
    assert dense.scores(features)[:, 0] == pytest.approx(ridge(features, wanted[:, :1], None)[0].scores(features)[:, 0])
    for inputs in (features, csr_matrix(features)):
        scores = fit_numbers(Split(inputs, wanted), Split(inputs, wanted)).scores(inputs)
        assert scores[:, 0] == pytest.approx(wanted[:, 0], abs=0.1)
        assert scores[1::2, 1] == pytest.approx(wanted[1::2, 1], abs=0.1)
        assert scores[:, 2].tolist() == [0.0] * 80


@pytest.mark.parametrize("weighted", [False, True])
def test_a_tall_table_is_fitted_by_its_columns_products_as_it_would_be_whole(
    monkeypatch: pytest.MonkeyPatch, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    features = (rng.random((3_000, 40)) * rng.random(40) + 3 * rng.random(40)).astype(np.float32)
    features[:, 5] = 2.0  # says nothing
    wanted = rng.standard_normal((3_000, 3)) + features[:, :3]
    weights = rng.random(3_000) + 0.1 if weighted else None
    whole, whole_left_out = ridge(features, wanted, None, weights)
    monkeypatch.setattr("headstart.baselines.ridge.TALL_NUMBERS", 0)
    tall, left_out = ridge(features, wanted, None, weights)
    assert tall.strength == whole.strength
    assert tall.weights == pytest.approx(whole.weights, abs=1e-5)
    assert tall.intercept == pytest.approx(whole.intercept, abs=1e-4)
    assert left_out == pytest.approx(whole_left_out, abs=1e-4)


def test_a_tall_table_is_made_while_its_products_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.baselines.ridge.TALL_NUMBERS", 0)
    monkeypatch.setattr("headstart.baselines.ridge.LEFT_OUT", 500)
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((5_000, 12)) + np.arange(12)).astype(np.float32)
    rows[:1_500, 3] = 0.0  # says nothing at first
    wanted = rows[:, :2] + rng.standard_normal((5_000, 2))
    examples = Examples(rows.reshape(-1, 1), np.arange(5_001) * 12, None, np.arange(5_000))
    made = Blocks(Plain("flat", 12), examples)
    sizes = [len(block) for block in made]
    assert sum(sizes) == 5_000
    assert max(sizes) < 2_500
    (whole, whole_left_out), (parts, left_out) = ridge(rows, wanted, None), ridge(made, wanted, None)
    assert parts.strength == whole.strength
    assert parts.weights == pytest.approx(whole.weights, rel=1e-5, abs=1e-7)
    assert parts.intercept == pytest.approx(whole.intercept, abs=1e-6)
    assert parts.scores(made) == pytest.approx(parts.scores(rows))
    assert len(left_out) == 500
    assert left_out == pytest.approx(whole_left_out, abs=1e-5)


def test_a_tall_table_with_nothing_to_choose_keeps_none_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.baselines.ridge.TALL_NUMBERS", 0)
    train, val = split(600, 0), split(60, 1)
    chosen = ridge_classes(train, val, CLASSES)
    alpha = chosen.strength[0]
    wanted = 2 * np.eye(CLASSES)[train.target] - 1
    assert len(ridge(train.features, wanted, alpha, leave_out=False)[1]) == 0
    assert len(ridge(train.features, wanted, None, leave_out=False)[1]) == 600
    same = ridge_classes(train, val, CLASSES, alpha=alpha, temperature=chosen.temperature)
    assert same.temperature == chosen.temperature
    assert same.weights.tolist() == chosen.weights.tolist()


def test_other_threads_run_while_the_axes_of_a_tall_table_are_looked_for() -> None:
    rows = np.random.default_rng(0).standard_normal((1_500, 1_200))
    products, begun, over, looks = np.asfortranarray(rows.T @ rows), threading.Event(), threading.Event(), []

    def look() -> None:
        begun.wait()
        while not over.wait(0.005):
            looks.append(over.is_set())

    thread = threading.Thread(target=look)
    thread.start()
    begun.set()
    sizes, axes = _axes(products.copy(order="F"))
    over.set()
    thread.join()
    assert np.abs(products @ axes - axes * sizes).max() < 1e-9 * sizes.max()
    assert len(looks) >= 3


def test_a_tall_table_takes_memory_for_the_rows_that_are_left_out() -> None:
    assert ridge_bytes(30_000, 2_520) < 0.45e9
    assert ridge_bytes(300_000, 2_520) == ridge_bytes(30_000, 2_520)
