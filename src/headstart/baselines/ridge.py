"""Ridge regression whose strength is chosen by leaving out one example at a time, in closed form.

scikit-learn's RidgeCV does the same (the tests compare them). This one reads float32 features in pieces, never as one
float64 matrix, and works with the smaller of the two products n x n and p x p, whichever of n and p is greater.
Letters: n examples, p features, T targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ALPHAS = np.logspace(-3, 3, 10)
"""Strengths that are tried: those of Dempster et al. 2021."""
_COLUMNS = 1_024
_ROWS = 4_096


@dataclass(frozen=True)
class Ridge:
    """weights (p, T) and intercept (T,) for features as they came; `left_out` (n, T) predicts each without itself."""

    weights: np.ndarray
    intercept: np.ndarray
    alpha: float
    left_out: np.ndarray


@dataclass(frozen=True)
class _Scaled:
    """Features (n, p), each centred and divided by its deviation, and rows by the root of their weight, in pieces."""

    features: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    """1 / deviation; 0 for a feature that does not vary."""
    roots: np.ndarray

    def columns(self) -> Iterator[tuple[slice, np.ndarray]]:
        for first in range(0, self.features.shape[1], _COLUMNS):
            some = slice(first, first + _COLUMNS)
            piece = self.features[:, some].astype(np.float64)
            piece -= self.mean[some]
            piece *= self.scale[some]
            piece *= self.roots[:, None]
            yield some, piece

    def rows(self) -> Iterator[tuple[slice, np.ndarray]]:
        for first in range(0, len(self.features), _ROWS):
            some = slice(first, first + _ROWS)
            piece = (self.features[some].astype(np.float64) - self.mean) * self.scale
            yield some, piece * self.roots[some, None]


def standard(features: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p,) float64 mean and 1 / deviation of each feature (0 where it does not vary), examples weighted."""
    share = weights / weights.sum()
    mean, scale = np.empty(features.shape[1]), np.empty(features.shape[1])
    for first in range(0, features.shape[1], _COLUMNS):
        some = slice(first, first + _COLUMNS)
        piece = features[:, some].astype(np.float64)
        mean[some] = share @ piece
        piece -= mean[some]
        deviation = np.sqrt(share @ piece**2)
        # What float32 rounding leaves of a constant is no variation.
        varies = deviation > 1e-6 * np.maximum(np.abs(mean[some]), 1e-30)
        scale[some] = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
    return mean, scale


def fit_ridge(
    features: np.ndarray, wanted: np.ndarray, weights: np.ndarray | None = None, alphas: np.ndarray = ALPHAS
) -> Ridge:
    """Least sum over examples of weight x squared error + alpha |w|^2, features (n, p) standardised, wanted (n, T).

    The intercept is free. Alpha is the one of `alphas` with the least weighted squared error of examples left out.
    """
    given = np.ones(len(features)) if weights is None else weights / weights.mean()
    mean, scale = standard(features, given)
    roots = np.sqrt(given)
    scaled = _Scaled(features, mean, scale, roots)
    centre = given @ wanted / given.sum()
    centred = (wanted - centre) * roots[:, None]
    solve = _by_examples if len(features) <= features.shape[1] else _by_features
    coefficients, alpha, errors = solve(scaled, centred, roots / np.sqrt(given.sum()), alphas)
    coefficients *= scale[:, None]
    return Ridge(coefficients, centre - mean @ coefficients, alpha, wanted - errors / roots[:, None])


def _by_examples(
    scaled: _Scaled, wanted: np.ndarray, free: np.ndarray, alphas: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """(weights (p, T), alpha, errors left out (n, T)) from the n x n products. `free` (n,): the intercept, length 1."""
    product = np.zeros((len(free), len(free)))
    for _, piece in scaled.columns():
        product += piece @ piece.T
    # The intercept spans a direction of eigenvalue 0, which could mix with others near 0. Lifted, it stands alone.
    lift = max(float(np.trace(product)) / len(free), 1.0)
    values, vectors = np.linalg.eigh(product + lift * np.outer(free, free))
    values = np.maximum(values, 0.0)
    turned, squares = vectors.T @ wanted, vectors**2
    best: tuple[float, float, np.ndarray] | None = None
    for alpha in alphas.tolist():
        kept = alpha / (values + alpha)
        # The residual of an example over the share of it that it does not explain itself (1 - its leverage).
        own = squares @ kept - free**2 * (alpha / (lift + alpha))
        errors = (vectors @ (kept[:, None] * turned)) / np.maximum(own, 1e-12)[:, None]
        best = _better(best, alpha, errors)
    assert best is not None
    dual = vectors @ (turned / (values + best[1])[:, None])
    coefficients = np.empty((len(scaled.mean), wanted.shape[1]))
    for some, piece in scaled.columns():
        coefficients[some] = piece.T @ dual
    return coefficients, best[1], best[2]


def _by_features(
    scaled: _Scaled, wanted: np.ndarray, free: np.ndarray, alphas: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """The same from the p x p products."""
    width = len(scaled.mean)
    product, toward = np.zeros((width, width)), np.zeros((width, wanted.shape[1]))
    for some, piece in scaled.rows():
        product += piece.T @ piece
        toward += piece.T @ wanted[some]
    values, vectors = np.linalg.eigh(product)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ toward
    inverse = 1 / (values[:, None] + alphas)
    said = np.empty((len(alphas), *wanted.shape))
    leverage = np.empty((len(free), len(alphas)))
    for some, piece in scaled.rows():
        along = piece @ vectors
        leverage[some] = along**2 @ inverse
        for at in range(len(alphas)):
            said[at, some] = along @ (inverse[:, at : at + 1] * turned)
    best: tuple[float, float, np.ndarray] | None = None
    for at, alpha in enumerate(alphas.tolist()):
        own = 1 - leverage[:, at] - free**2
        best = _better(best, alpha, (wanted - said[at]) / np.maximum(own, 1e-12)[:, None])
    assert best is not None
    return vectors @ (turned / (values + best[1])[:, None]), best[1], best[2]


def _better(
    best: tuple[float, float, np.ndarray] | None, alpha: float, errors: np.ndarray
) -> tuple[float, float, np.ndarray]:
    """(sum of squares, alpha, errors) of the better one; of equals the stronger, which comes later."""
    total = float((errors**2).sum())
    return (total, alpha, errors) if best is None or total <= best[0] else best
