"""What is chosen and calibrated, on features made up here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from headstart.baselines import readout
from headstart.baselines.measures import fit_temperature, log_loss, softmax
from headstart.baselines.readout import STRENGTHS, Split, logistic, ridge_classes, ridge_numbers, sparse_numbers
from headstart.baselines.ridge import fit_ridge, standard
from headstart.sequence import IGNORE

CLASSES = 3


def split(n: int, seed: int, width: int = 12, classes: int = CLASSES) -> Split:
    """Features of which the first few lean towards the class."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, n)
    features = rng.normal(size=(n, width)) * np.arange(1, width + 1)
    features[:, :classes] += 1.5 * np.eye(classes)[target] * np.arange(1, classes + 1)
    return Split(features.astype(np.float32), target)


def test_the_penalty_of_a_logistic_regression_is_the_best_on_val() -> None:
    train, val = split(60, 0), split(60, 1)
    found = logistic(train, val, CLASSES)
    mean, scale = standard(train.features, np.ones(60))
    losses = {}
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=1000).fit((train.features - mean) * scale, train.target)
        losses[strength] = log_loss(val.target, model.predict_proba((val.features - mean) * scale))
    best = min(losses, key=lambda c: losses[c])
    assert found.strength == (best,)
    assert losses[best] < min(losses[STRENGTHS[0]], losses[STRENGTHS[-1]])
    assert log_loss(val.target, softmax(found.scores(val.features))) == pytest.approx(losses[best], rel=1e-3)
    assert found.temperature == pytest.approx(fit_temperature(found.scores(val.features), val.target, True))


def test_two_classes_are_scored_as_scikit_learn_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readout, "STRENGTHS", (0.1,))
    train, val = split(60, 0, classes=2), split(30, 1, classes=2)
    found = logistic(train, val, 2)
    mean, scale = standard(train.features, np.ones(60))
    model = LogisticRegression(C=0.1, max_iter=1000).fit((train.features - mean) * scale, train.target)
    said = softmax(found.scores(val.features))
    assert said == pytest.approx(model.predict_proba((val.features - mean) * scale), abs=1e-4)


def test_weaker_penalties_are_not_tried_once_they_only_do_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def path(features, target, grid, weights):  # type: ignore[no-untyped-def]
        for strength in grid:
            tried.append(strength)
            wrong = 1.0 if strength == STRENGTHS[0] else -strength
            yield strength, wrong * np.eye(CLASSES, 12), np.zeros(CLASSES)

    monkeypatch.setattr(readout, "_path", path)
    assert logistic(split(60, 0), split(60, 1), CLASSES).strength == STRENGTHS[:1]
    assert tried == list(STRENGTHS[:3])


def test_the_temperature_of_a_ridge_regression_is_fitted_on_val_and_on_what_was_left_out() -> None:
    train, val = split(60, 0), split(20, 1)
    found = ridge_classes(train, val, CLASSES)
    alone = fit_ridge(train.features, 2 * np.eye(CLASSES)[train.target] - 1)
    scores = np.concatenate([alone.left_out, found.scores(val.features)])
    target = np.concatenate([train.target, val.target])
    assert found.temperature == pytest.approx(fit_temperature(scores, target, smooth=True))
    assert found.strength == (alone.alpha,)


def test_examples_without_a_class_take_no_part() -> None:
    train, val = split(60, 0), split(20, 1)
    more = Split(
        np.concatenate([train.features, np.full((5, 12), 99.0, np.float32)]),
        np.concatenate([train.target, np.full(5, IGNORE)]),
    )
    for fit in (ridge_classes, logistic):
        assert np.array_equal(fit(more, val, CLASSES).weights, fit(train, val, CLASSES).weights)


def test_each_number_is_learned_from_the_examples_that_have_it() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 5)).astype(np.float32)
    wanted = features @ rng.normal(size=(5, 3)) + 7
    wanted[::2, 1] = np.nan
    wanted[:, 2] = np.nan
    said = ridge_numbers(Split(features, wanted)).scores(features)
    whole = features @ fit_ridge(features, wanted[:, :1]).weights
    assert said[:, 0] - said[0, 0] == pytest.approx((whole - whole[0])[:, 0], rel=1e-4, abs=1e-4)
    assert said[1::2, 1] == pytest.approx(wanted[1::2, 1], abs=0.1)
    assert said[:, 2].tolist() == [0.0] * 80
    sparse = csr_matrix(features)
    said = sparse_numbers(Split(sparse, wanted), Split(sparse, wanted)).scores(sparse)
    assert said[:, 0] == pytest.approx(wanted[:, 0], abs=0.1)
    assert said[:, 2].tolist() == [0.0] * 80
