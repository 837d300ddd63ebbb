"""Ridge regression against scikit-learn's, and its left-out predictions against leaving out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from headstart.baselines import ridge
from headstart.baselines.ridge import ALPHAS, fit_ridge


def made(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, wanted, weights)."""
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(n, p)) * rng.uniform(0.1, 5, p) + rng.normal(size=p)).astype(np.float32)
    wanted = features[:, :2] @ rng.normal(size=(2, 3)) + rng.normal(size=(n, 3)) * 0.5 + 4
    return features, wanted, rng.uniform(0.3, 3, n)


@pytest.mark.parametrize(("n", "p"), [(30, 80), (80, 30), (50, 50), (3, 40), (40, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_strength_equal_those_of_scikit_learn(n: int, p: int, weighted: bool) -> None:
    features, wanted, weights = made(n, max(p, 2))
    features = features[:, :p]
    found = fit_ridge(features, wanted, weights if weighted else None)
    scaler = StandardScaler().fit(features.astype(np.float64))
    given = None
    if weighted:
        given = weights / weights.mean()
        scaler.fit(features.astype(np.float64), sample_weight=given)
    scaled = scaler.transform(features.astype(np.float64))
    theirs = RidgeCV(alphas=ALPHAS).fit(scaled, wanted, sample_weight=given)
    assert found.alpha == pytest.approx(theirs.alpha_)
    assert features @ found.weights + found.intercept == pytest.approx(theirs.predict(scaled), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(("n", "p"), [(12, 30), (30, 6)])
def test_a_left_out_prediction_is_that_of_a_fit_without_the_example(
    n: int, p: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, wanted, weights = made(n, p)
    # Deviations are those of all examples: a fit that leaves one out is given the same scale.
    mean, scale = ridge.standard(features, weights)
    scaled = (features - mean) * scale
    found = fit_ridge(features, wanted, weights)
    given = weights / weights.mean()
    for out in (0, n // 2):
        kept = np.arange(n) != out
        x = np.concatenate([scaled[kept], np.ones((n - 1, 1))], axis=1)
        penalty = found.alpha * np.diag([1.0] * p + [0.0])
        solved = np.linalg.solve(x.T @ (x * given[kept, None]) + penalty, x.T @ (wanted[kept] * given[kept, None]))
        assert found.left_out[out] == pytest.approx(np.append(scaled[out], 1) @ solved, rel=1e-6)


def test_features_read_in_small_pieces_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, p in ((20, 50), (50, 20)):
        features, wanted, _ = made(n, p)
        whole = fit_ridge(features, wanted)
        monkeypatch.setattr(ridge, "_COLUMNS", 7)
        monkeypatch.setattr(ridge, "_ROWS", 9)
        pieces = fit_ridge(features, wanted)
        monkeypatch.undo()
        assert pieces.weights == pytest.approx(whole.weights, rel=1e-9, abs=1e-12)


def test_a_feature_that_does_not_vary_has_no_weight() -> None:
    features, wanted, _ = made(30, 5)
    features[:, 2] = 0.1
    found = fit_ridge(features, wanted)
    assert found.weights[2].tolist() == [0, 0, 0]
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize(("n", "p"), [(1, 5), (2, 5), (4, 2)])
def test_a_target_that_does_not_vary_is_said_back(n: int, p: int) -> None:
    features, _, _ = made(n, p)
    found = fit_ridge(features, np.full((n, 1), 3.0))
    assert features @ found.weights + found.intercept == pytest.approx(np.full((n, 1), 3.0))
