"""Which share each of several models has in their average: chosen on rows that none of them was fitted on.

Greedy selection with replacement (Caruana et al. 2004) of the models whose average has the least loss, on bootstrap
samples of the rows.
"""

from __future__ import annotations

import numpy as np

from headstart.seeds import below

BOOTSTRAPS, CHOICES = 20, 20
"""Samples of the rows, and models chosen on each."""
LEAST_MEMBER = 0.1
"""Share below which a model is left out of the average."""
LEAST_TRUE = 1e-6
"""Smaller probabilities of the true class count as this: one row alone decides nothing."""
CLEARLY = 1.64
"""Standard errors that a gain must have to be one by more than chance, of twenty such gains in nineteen."""


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
