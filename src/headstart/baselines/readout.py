"""Linear models on given features: ridge or logistic, the strength of their penalty chosen, scores calibrated.

Letters: n units, P features, K classes, T targets. Features are dense (n, P) arrays or sparse matrices.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.baselines.measures import fit_temperature, log_loss, softmax
from headstart.baselines.ridge import ALPHAS, fit_ridge, standard
from headstart.sequence import IGNORE

STRENGTHS = tuple(10.0**k for k in range(-4, 3))
"""C of a logistic regression on standardised features."""
SPARSE_STRENGTHS = tuple(10.0**k for k in range(-1, 5))
"""C, and 1 / alpha, on sparse rows of length 1."""
PATIENCE = 2
"""Weaker penalties that did no better on val, after which still weaker ones, the slowest to fit, are not tried."""
STEPS = 300
"""Steps of a logistic regression at most."""


@dataclass(frozen=True)
class Readout:
    """weights (P, K or T) float32, intercept (K or T,) float64, temperature, and what was chosen."""

    weights: np.ndarray
    intercept: np.ndarray
    temperature: float = 1.0
    strength: tuple[float, ...] = ()

    def scores(self, features: Any) -> np.ndarray:
        """(n, K or T) float64."""
        return np.asarray(features @ self.weights.astype(np.float64) + self.intercept)


@dataclass(frozen=True)
class Split:
    """Features of the units of a split, and their target: (n,) classes or (n, T) numbers."""

    features: Any
    target: np.ndarray

    def labelled(self) -> Split:
        """Those that have a class."""
        rows = np.flatnonzero(self.target != IGNORE)
        return self if len(rows) == len(self.target) else Split(self.features[rows], self.target[rows])


def fit_readout(
    train: Split, val: Split, classes: int, weights: np.ndarray | None, alpha: float | None, squared: bool
) -> Readout:
    """Logistic regression, or ridge where numbers are predicted or (on dense features) a squared error is asked for."""
    if not classes:
        return (
            ridge_numbers(train, alpha) if isinstance(train.features, np.ndarray) else sparse_numbers(train, val, alpha)
        )
    if squared and isinstance(train.features, np.ndarray):
        return ridge_classes(train, val, classes, weights, alpha)
    return logistic(train, val, classes, weights, alpha)


def ridge_classes(
    train: Split, val: Split, classes: int, weights: np.ndarray | None = None, alpha: float | None = None
) -> Readout:
    """One against all others (-1 and 1), alpha by leaving one out; a temperature makes probabilities of the scores.

    The temperature is fitted on val and on train, each example of it scored by a model without it: val alone is often
    too small to say more than that all is well. weights (K,): of the classes, throughout.
    """
    train = train.labelled()
    each = None if weights is None else weights[train.target]
    found = fit_ridge(train.features, 2 * np.eye(classes)[train.target] - 1, each, _alphas(alpha))
    plain = Readout(found.weights.astype(np.float32), found.intercept, 1.0, (found.alpha,))
    held = val.labelled()
    scores = np.concatenate([found.left_out, plain.scores(held.features)])
    temperature = fit_temperature(scores, np.concatenate([train.target, held.target]), True, weights)
    return Readout(plain.weights, plain.intercept, temperature, plain.strength)


def _alphas(alpha: float | None) -> np.ndarray:
    return ALPHAS if alpha is None else np.array([alpha])


def ridge_numbers(train: Split, alpha: float | None = None) -> Readout:
    """One regression per target, each on the examples that have it, alpha by leaving one out."""
    found = []
    for column in train.target.T:
        rows = np.flatnonzero(~np.isnan(column))
        every = len(rows) == len(column)
        features = train.features if every else train.features[rows]
        found.append(fit_ridge(features, column[rows, None], None, _alphas(alpha)) if len(rows) else None)
    width = train.features.shape[1]
    weights = [np.zeros((width, 1)) if f is None else f.weights for f in found]
    intercept = [0.0 if f is None else float(f.intercept[0]) for f in found]
    chosen = tuple(0.0 if f is None else f.alpha for f in found)
    return Readout(np.concatenate(weights, axis=1).astype(np.float32), np.array(intercept), 1.0, chosen)


def logistic(
    train: Split, val: Split, classes: int, weights: np.ndarray | None = None, alpha: float | None = None
) -> Readout:
    """Multinomial with L2; C has the least log loss on val (the strongest penalty of equals, 1 without labels there).

    Dense features are standardised. A class that train never shows stays all but impossible. weights (K,): of the
    classes, on val too. alpha: 1 / C, where it is not chosen.
    """
    train, held = train.labelled(), val.labelled()
    present = np.unique(train.target)
    if len(present) < 2:
        scores = np.where(np.isin(np.arange(classes), present), 1.0, 0.0)
        blank = Readout(np.zeros((train.features.shape[1], classes), dtype=np.float32), scores)
        return _calibrated(blank, held, None)
    sparse = not isinstance(train.features, np.ndarray)
    mean, scale = (None, None) if sparse else standard(train.features, np.ones(len(train.target)))
    given = train.features if mean is None else (train.features - mean) * scale
    grid = (SPARSE_STRENGTHS if sparse else STRENGTHS) if len(held.target) else (1.0,)
    grid = grid if alpha is None else (1 / alpha,)
    best: tuple[float, Readout] | None = None
    worse = 0
    each = None if weights is None else weights[train.target]
    for strength, coefficients, intercept in _path(given, train.target, grid, each):
        if mean is not None and scale is not None:
            coefficients = coefficients * scale
            intercept = intercept - coefficients @ mean
        found = _spread_out(coefficients, intercept, present, classes, len(train.target), strength)
        loss = log_loss(held.target, softmax(found.scores(held.features)), weights) if len(held.target) else 0.0
        best, worse = ((loss, found), 0) if best is None or loss < best[0] else (best, worse + 1)
        if worse == PATIENCE:
            break
    assert best is not None
    return _calibrated(best[1], held, weights)


def _path(features: Any, target: np.ndarray, grid: tuple[float, ...], weights: np.ndarray | None) -> Any:
    """(C, coefficients, intercepts) from the strongest penalty to the weakest, each begun where the last one ended."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=STEPS, warm_start=True)
    for strength in grid:
        model.set_params(C=strength)
        with warnings.catch_warnings():
            # So many steps are enough for a yardstick; whether the last digit has settled is no news to a reader.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Many classes of one or two examples are what the data are.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            model.fit(features, target, sample_weight=weights)
        yield strength, model.coef_.astype(np.float64), model.intercept_.astype(np.float64)


def _spread_out(
    coefficients: np.ndarray, intercept: np.ndarray, present: np.ndarray, classes: int, n: int, strength: float
) -> Readout:
    """Scores of all K classes from those of the classes present (one row for two classes: the second's)."""
    if len(intercept) == 1:
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercept = np.concatenate([-intercept / 2, intercept / 2])
    weights = np.zeros((coefficients.shape[1], classes), dtype=np.float32)
    weights[:, present] = coefficients.T
    scores = np.full(classes, intercept.min() - np.log(n + classes))
    scores[present] = intercept
    return Readout(weights, scores, 1.0, (strength,))


def _calibrated(found: Readout, held: Split, weights: np.ndarray | None) -> Readout:
    """With a temperature fitted on val, where val has labels."""
    if not len(held.target):
        return found
    temperature = fit_temperature(found.scores(held.features), held.target, True, weights)
    return Readout(found.weights, found.intercept, temperature, found.strength)


def sparse_numbers(train: Split, val: Split, alpha: float | None = None) -> Readout:
    """Ridge on sparse rows, one per target; alpha has the least squared error on val (1 without labels there)."""
    from sklearn.linear_model import Ridge

    weights, intercept, chosen = [], [], []
    grid = SPARSE_STRENGTHS if alpha is None else (1 / alpha,)
    for at, column in enumerate(train.target.T):
        rows, held = np.flatnonzero(~np.isnan(column)), np.flatnonzero(~np.isnan(val.target[:, at]))
        best: tuple[float, np.ndarray, float, float] = (np.inf, np.zeros(train.features.shape[1]), 0.0, 0.0)
        for strength in grid if len(held) else grid[-1:] if alpha else (1.0,):
            if not len(rows):
                break
            model = Ridge(alpha=1 / strength, solver="sparse_cg").fit(train.features[rows], column[rows])
            error = float(((model.predict(val.features[held]) - val.target[held, at]) ** 2).sum())
            if error < best[0]:
                best = (error, model.coef_, float(model.intercept_), 1 / strength)
        weights.append(best[1])
        intercept.append(best[2])
        chosen.append(best[3])
    return Readout(np.stack(weights, axis=1).astype(np.float32), np.array(intercept), 1.0, tuple(chosen))
