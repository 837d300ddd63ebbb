"""Which share each of several models has in their average: chosen on rows that none of them was fitted on.

Greedy selection with replacement (Caruana et al. 2004) of the models whose average has the least loss, on bootstrap
samples of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headstart.baselines.measures import fit_temperature
from headstart.seeds import below

BOOTSTRAPS, CHOICES = 20, 20
"""Samples of the rows, and models chosen on each."""
LEAST_MEMBER = 0.1
"""Share below which a model is left out of the average."""
LEAST_TRUE = 1e-6
"""Smaller probabilities of the true class count as this: one row alone decides nothing."""
CLEARLY = 1.64
"""Standard errors that a gain must have to be one by more than chance, of twenty such gains in nineteen."""


def choose_average(
    predicted: Sequence[np.ndarray],
    target: np.ndarray,
    weights: np.ndarray,
    single: int,
    copies: int = 1,
    *,
    asked: bool = False,
) -> tuple[list[int], tuple[float, ...], float] | None:
    """(models, shares, temperature) of the average, the largest share first; None where it does not gain clearly over
    the model number `single`, unless it was asked for.

    predicted: (n, K) probabilities or (n,) numbers of each model, of rows that it was not fitted on; target (n,).
    weights (K,): of the classes, empty where they weigh the same. copies: how often each row is there.
    """
    classes = predicted[0].ndim == 2
    each = weights[target] if classes and len(weights) else np.ones(len(target))
    # A loss of an average needs no more of a row than the true class's probability, or the error.
    rows = np.arange(len(target))
    columns = np.stack([p[rows, target] if classes else p - target for p in predicted], axis=1)
    shares = greedy_shares(columns, each, classes)
    order = np.argsort(-shares, kind="stable").tolist()
    chosen = [i for number, i in enumerate(order) if shares[i] >= LEAST_MEMBER or (asked and number < 2)]
    rest = np.maximum(shares[chosen], LEAST_MEMBER)
    parts, hot = tuple(float(share) for share in rest / rest.sum()), 1.0
    if not asked and (
        len(chosen) < 2 or not gains(columns[:, chosen] @ parts, columns[:, single], each, classes, copies)
    ):
        return None
    if classes:
        average = np.tensordot(parts, [predicted[i] for i in chosen], axes=1)
        hot = fit_temperature(np.log(np.maximum(average, LEAST_TRUE)), target, True, weights if len(weights) else None)
    return chosen, parts, hot


def greedy_shares(columns: np.ndarray, weights: np.ndarray, classes: bool) -> np.ndarray:
    """(M,) shares of models, on average over bootstrap samples of the rows.

    columns (n, M): probabilities of the true class, or errors of numbers; weights (n,): of the rows.
    """
    n, models = columns.shape
    shares = np.zeros(models)
    for sample in range(BOOTSTRAPS):
        rows = below(0, "average", n, sample, np.arange(n))
        some, each = columns[rows], weights[rows] / max(float(weights[rows].sum()), LEAST_TRUE)
        total, counts = np.zeros(n), np.zeros(models)
        best, chosen = np.inf, counts
        for number in range(1, CHOICES + 1):
            average = (total[:, None] + some) / number
            losses = each @ _losses(average, classes)
            choice = int(np.argmin(losses))
            total, counts = total + some[:, choice], counts + np.eye(models)[choice]
            if losses[choice] < best:
                best, chosen = float(losses[choice]), counts
        shares += chosen / chosen.sum() / BOOTSTRAPS
    return shares


def gains(average: np.ndarray, single: np.ndarray, weights: np.ndarray, classes: bool, copies: int = 1) -> bool:
    """Whether an average has less loss than a single model, clearly, by the rows (n,) of both as `greedy_shares` takes
    them. copies: how often each row is among them."""
    less = weights / weights.mean() * (_losses(single, classes) - _losses(average, classes))
    return len(less) > 1 and bool(less.mean() > CLEARLY * less.std(ddof=1) / (len(less) / copies) ** 0.5)


def _losses(values: np.ndarray, classes: bool) -> np.ndarray:
    return np.asarray(-np.log(np.maximum(values, LEAST_TRUE)) if classes else values**2)
