"""Ridge regression on dense features, its strength chosen by leaving one out; a tall table is fitted by the products of
its columns, which are summed up while its rows are made.

Letters: n units, P features, K classes, T targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headstart.baselines.features import Features, FeatureTable, feature_rows
from headstart.baselines.fitting import POSITIONS_AT_ONCE, pieces
from headstart.baselines.products import routine
from headstart.limits import give_back
from headstart.sequence import Examples

NUMBERS_IN_CACHE = 1 << 19
"""Numbers that fit into a core's cache."""
ALPHAS = tuple(np.logspace(3, -3, 10).tolist())
"""Strengths of a ridge regression that are tried: those of Dempster et al. 2021, the strongest first."""
TALL_NUMBERS, TALL_ROWS, TURNED_ROWS, BLOCK_ROWS, LEFT_OUT = 1 << 22, 1_024, 256, 2_048, 20_000
"""Numbers of a table of more rows than columns above which it is fitted a few rows at a time, that many rows (and as
many as are left out at once), units whose features are made at once, and rows that are each left out once."""


@dataclass(frozen=True)
class Readout:
    """weights (P, K or T) float32, intercept (K or T,) float64, temperature, and what was chosen."""

    weights: np.ndarray
    intercept: np.ndarray
    temperature: float = 1.0
    strength: tuple[float, ...] = ()

    def scores(self, features: Any) -> np.ndarray:
        """(n, K or T) float64."""
        if isinstance(features, Blocks):
            return np.concatenate([np.zeros((0, len(self.intercept))), *map(self.scores, features)])
        return self.sums([(slice(None), 0, features)], features.shape[0])

    def sums(self, tables: Iterable[FeatureTable], n: int) -> np.ndarray:
        """The same of features in parts."""
        out = np.zeros((n, len(self.intercept)))
        for rows, first, table in tables:
            weights = self.weights[first : first + table.shape[1]].astype(np.float64)
            # Of a dense table a few rows at a time: what is made of them as float64 stays in a core's cache.
            few = max(1, NUMBERS_IN_CACHE // max(1, len(weights)))
            dense, starts = isinstance(table, np.ndarray), range(0, table.shape[0] or 1, few)
            parts = [table[begin : begin + few] @ weights for begin in starts] if dense else [table @ weights]
            out[rows] += np.concatenate(parts)
        return np.asarray(out + self.intercept)


@dataclass(frozen=True)
class Blocks:
    """Dense features (n, P) of the n units of a set, made a few units at a time: whoever sums them up holds no more."""

    features: Features
    examples: Examples

    @property
    def shape(self) -> tuple[int, int]:
        return self.examples.units, self.features.size * (4 if self.examples.paired else 1)

    def __getitem__(self, units: np.ndarray) -> Blocks:
        return replace(self, examples=self.examples.take(units))

    def __iter__(self) -> Iterator[np.ndarray]:
        for units in pieces(self.examples, BLOCK_ROWS, POSITIONS_AT_ONCE):
            yield feature_rows(self.features, self.examples.take(units))


def ridge_bytes(n: int, columns: int) -> float:
    """Memory that `ridge` takes at its peak, features included, as measured: of 30,000 x 2,520 numbers 0.4 GB."""
    if is_tall(n, columns):
        held = min(n, LEFT_OUT) + BLOCK_ROWS
        return 4.0 * held * columns + 24.0 * columns**2 + 16.0 * TALL_ROWS * columns
    least = float(min(n, columns))
    return 24.0 * n * columns + 16.0 * least * (n + least)


def ridge_seconds(n: int, columns: int) -> float:
    """Processor seconds of `ridge`, as measured on 2-core AMD EPYC: products of columns (or rows), and their axes."""
    if is_tall(n, columns):
        return 2.3e-11 * columns**2 * (n + min(n, LEFT_OUT)) + 2.3e-10 * columns**3
    least = min(n, columns)
    return 5e-11 * least * n * columns + 3e-10 * least**3


def is_tall(n: int, columns: int) -> bool:
    """Whether a table is fitted by the products of its columns: many rows, and numbers that should stand in memory
    once."""
    return n > columns and n * columns > TALL_NUMBERS


def ridge(
    features: np.ndarray | Blocks,
    wanted: np.ndarray,
    alpha: float | None,
    weights: np.ndarray | None = None,
    *,
    leave_out: bool = True,
) -> tuple[Readout, np.ndarray]:
    """Ridge on standardised features (n, P), wanted (n, T); what it predicts of each example without it, (n, T): of
    the `left_out_rows` of a tall table; there of none where alpha is there and nobody asks (`leave_out` False).

    Alpha has the least squared error of the examples left out, all weighted by `weights` (n,).
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    if features.shape[0] == 1:  # nothing is left to predict it from
        zeros = np.zeros((features.shape[1], wanted.shape[1]), np.float32)
        return Readout(zeros, wanted[0].astype(np.float64), 1.0, (ALPHAS[0] if alpha is None else alpha,)), wanted
    weights = None if weights is None else weights / weights.mean()
    alphas = list(ALPHAS) if alpha is None else [alpha]
    if is_tall(*features.shape):
        some = left_out_rows(*features.shape) if leave_out or alpha is None else np.zeros(0, np.int64)
        return _tall_ridge(features, wanted, np.array(alphas), weights, some)
    features = np.concatenate([*features]) if isinstance(features, Blocks) else features
    scaler = StandardScaler().fit(features, sample_weight=weights)
    model = RidgeCV(alphas, scoring="neg_mean_squared_error", store_cv_results=True)
    model.fit(scaler.transform(features), wanted, sample_weight=weights)
    coefficients = model.coef_.reshape(wanted.shape[1], -1).astype(np.float64) / scaler.scale_
    readout = Readout(
        coefficients.T.astype(np.float32), model.intercept_ - coefficients @ scaler.mean_, 1.0, (float(model.alpha_),)
    )
    return readout, model.cv_results_.reshape(*wanted.shape, len(alphas))[..., alphas.index(model.alpha_)]


def left_out_rows(n: int, columns: int) -> np.ndarray:
    """Rows of a table that `ridge` predicts without each: all, or of a tall table `LEFT_OUT` at most, spread evenly."""
    return np.linspace(0, n - 1, min(n, LEFT_OUT) if is_tall(n, columns) else n).astype(np.int64)


def _axes(products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes (P,), 0 where rounding makes them less, and axes (P, P), a column each, of products of columns, of which
    the lower triangle counts and nothing is left: in the least memory.

    Raises: numpy's LinAlgError where they are not found.
    """
    from scipy.linalg import cython_lapack

    n, info = len(products), np.zeros(1, np.int32)
    sizes, axes, places = np.empty(n), np.empty((n, n), order="F"), np.empty(2 * n, np.int32)
    count, work, more = np.empty(1, np.int32), np.empty(64 * n), np.empty(10 * n, np.int32)
    routine(cython_lapack.__pyx_capi__["dsyevr"])(
        *("V", "A", "L", n, products, n, 0.0, 0.0, 0, 0, 0.0, count, sizes, axes, n, places),
        *(work, len(work), more, len(more), info),
    )
    if info[0]:
        raise np.linalg.LinAlgError(f"dsyevr: {info[0]}")
    return np.maximum(sizes, 0), axes


def _tall_ridge(
    features: np.ndarray | Blocks, wanted: np.ndarray, alphas: np.ndarray, weights: np.ndarray | None, some: np.ndarray
) -> tuple[Readout, np.ndarray]:
    """`ridge` of many rows, a few at a time: what is kept of them are the products of the columns, (P, P), and
    `some` rows, which are left out."""
    from scipy.linalg import cython_blas

    add_products = routine(cython_blas.__pyx_capi__["dsyrk"])
    n, columns = features.shape
    each = np.ones(n) if weights is None else weights
    middle, shift, total = each @ wanted / n, np.zeros(0), np.zeros(columns)
    products, crossed = np.zeros((columns, columns), order="F"), np.zeros((columns, wanted.shape[1]))
    held, first = np.empty((len(some), columns), np.float32), 0
    for block in features if isinstance(features, Blocks) else [features]:
        inside = slice(*np.searchsorted(some, (first, first + len(block))))
        held[inside] = block[some[inside] - first]
        # Near the mean, which nobody knows yet, little is lost by rounding.
        shift = shift if len(shift) else block[:TALL_ROWS].mean(0, dtype=np.float64)
        for i in range(0, len(block), TALL_ROWS):
            rows = np.ascontiguousarray(block[i : i + TALL_ROWS] - shift)
            units = slice(first + i, first + i + len(rows))
            total += each[units] @ rows
            rows *= np.sqrt(each[units, None])
            add_products("L", "N", columns, len(rows), 1.0, rows, columns, 1.0, products, columns)
            crossed += rows.T @ (np.sqrt(each[units, None]) * (wanted[units] - middle))
        first += len(block)
        del block, rows  # before the next, and before axes are looked for
    give_back()
    mean = shift + total / n
    for column in range(columns):
        products[column:, column] -= total[column] / n * total[column:]
    spread = np.sqrt(np.maximum(np.diag(products), 0) / n)
    # Rounding leaves a constant column a deviation near 1e-16 of its size.
    spread = np.where(spread > 1e-7 * np.maximum(np.abs(mean), 1e-30), spread, 1.0)
    products /= spread[:, None]
    products /= spread
    crossed /= spread[:, None]
    sizes, axes = _axes(products)
    del products
    along, turn = axes.T @ crossed, axes.astype(np.float32)
    each_way = np.stack([axes @ (along / (sizes + alpha)[:, None]) for alpha in alphas])
    del axes
    left_out = np.empty((len(alphas), len(some), wanted.shape[1]))
    for i in range(0, len(some), TURNED_ROWS):
        rows = some[i : i + TURNED_ROWS]
        turned = ((held[i : i + TURNED_ROWS] - mean) / spread).astype(np.float32) @ turn
        for at, alpha in enumerate(alphas):
            # Sherman and Morrison: the error without a row is that with it, over what of it its own row leaves open.
            own = each[rows] * ((turned**2) @ (1 / (sizes + alpha)) + 1 / n)
            error = wanted[rows] - middle - turned @ (along / (sizes + alpha)[:, None])
            left_out[at, i : i + len(rows)] = wanted[rows] - error / np.maximum(1 - own, 1e-9)[:, None]
    losses = np.einsum("r,art->a", each[some], (left_out - wanted[some]) ** 2)
    best = int(losses.argmin())
    coefficients = each_way[best] / spread[:, None]
    readout = Readout(coefficients.astype(np.float32), middle - mean @ coefficients, 1.0, (float(alphas[best]),))
    return readout, left_out[best]
