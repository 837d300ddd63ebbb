"""Measures of predictions (those of scikit-learn, where a target is there), and a temperature for scores.

Letters: n examples, K classes. A class target of `sequence.IGNORE` and a number that is NaN are left out. Every
measure raises ValueError where no target is left. They are computed here because scikit-learn takes a second to import,
which every `predict` of a labelled file would spend; the tests compare with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headstart.sequence import IGNORE

BINS = 15
"""Bins of confidence, equally wide, over [0, 1]."""
COLDEST, HOTTEST = 1e-3, 1e3
"""Temperatures are sought between these."""
_LEAST = float(np.finfo(np.float64).tiny)


def _labelled(target: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """The rows of all that have a target."""
    there = ~np.isnan(target) if target.dtype.kind == "f" else target != IGNORE
    if not there.any():
        raise ValueError("measures: no target is there")
    return (target[there], *(rows[there] for rows in others))


def confusion(target: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """(K, K) int64 counts: row the target, column the predicted class."""
    target, predicted = _labelled(target, predicted)
    return np.bincount(target.astype(np.int64) * classes + predicted, minlength=classes**2).reshape(classes, classes)


def scores_of(target: np.ndarray, predicted: np.ndarray, classes: int) -> dict[str, float]:
    """All measures of (n, K) probabilities (classes > 0), or of (n,) numbers in the target's unit (0), by name.

    `r2` is NaN of targets that do not vary. `balanced_accuracy` is over the classes among the targets, `macro_f1` over
    those that are a target or were predicted.
    """
    target, predicted = _labelled(target, predicted)
    if not classes:
        error = target.astype(np.float64) - predicted
        squared, varied = float(np.square(error).mean()), float(np.var(target, dtype=np.float64))
        return {
            "r2": 1 - squared / varied if np.ptp(target) else float("nan"),
            "mae": float(np.abs(error).mean()),
            "rmse": squared**0.5,
        }
    counts = confusion(target, predicted.argmax(axis=1), classes)
    right, there, chosen = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    either = there + chosen > 0
    return {
        "accuracy": float(right.sum() / len(target)),
        "balanced_accuracy": float((right[there > 0] / there[there > 0]).mean()),
        "macro_f1": float((2 * right[either] / (there + chosen)[either]).mean()),
        "log_loss": log_loss(target, predicted),
        "calibration_error": reliability(target, predicted).error,
    }


def softmax(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """(n, K) float64 probabilities of scores divided by a temperature; `scipy.special` takes long to import."""
    scaled = scores.astype(np.float64) / temperature
    raised = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def heated(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """(n, K) probabilities at another temperature: those of their logarithms, divided by it."""
    if temperature == 1.0:
        return probabilities
    return softmax(np.log(np.maximum(probabilities, _LEAST)), temperature)


def log_loss(target: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of -log p(target), in nats; a probability of 0 counts as the smallest float64 above it.

    scikit-learn counts it as 2e-16, as if such a model were no worse. weights (K,): of the classes.
    """
    target, probabilities = _labelled(target, probabilities)
    right = probabilities[np.arange(len(target)), target].astype(np.float64)
    share = None if weights is None or not weights[target].any() else weights[target]
    return float(np.average(-np.log(np.maximum(right, _LEAST)), weights=share))


@dataclass(frozen=True)
class Reliability:
    """Confidence (the largest probability) in bins of equal width: (bins,) each; NaN in an empty bin.

    edges: (bins + 1,) from 0 to 1; a bin holds its upper edge, not its lower. confidence: mean of the examples of a
    bin. accuracy: share of them that were right.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: |accuracy - confidence|, weighted by the examples of each bin."""
        return float(np.nansum(np.abs(self.accuracy - self.confidence) * self.count) / self.count.sum())


def reliability(target: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> Reliability:
    """How often the class with the largest of (n, K) probabilities is right, by how sure it is."""
    target, probabilities = _labelled(target, probabilities)
    sure = probabilities.max(axis=1).astype(np.float64)
    right = (probabilities.argmax(axis=1) == target).astype(np.float64)
    edges = np.linspace(0, 1, bins + 1)
    index = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        confidence = np.bincount(index, sure, minlength=bins) / count
        share = np.bincount(index, right, minlength=bins) / count
    return Reliability(edges, count, confidence, share)


def fit_temperature(
    scores: np.ndarray, target: np.ndarray, smooth: bool = False, weights: np.ndarray | None = None
) -> float:
    """The temperature T at which softmax(scores / T) has the least log loss; 1 where no target is there.

    weights (K,): of the classes.

    The loss is convex in 1 / T, so that the sign of its slope is enough: halving, to 1e-12 of T. Where all
    scores point to their targets the best T is 0, and where none does better than chance it is infinite: the answer
    stays within [COLDEST, HOTTEST]. `smooth` adds one example, spread over the classes, to the n that are there
    (targets (n onehot + 1 / K) / (n + 1), in the manner of Platt 1999): a few right answers make no certainty.
    """
    there = target != IGNORE
    if not there.any() or (weights is not None and not weights[target[there]].any()):
        return 1.0
    wanted = np.eye(scores.shape[1])[target[there]]
    if smooth:
        wanted = (len(wanted) * wanted + 1 / wanted.shape[1]) / (len(wanted) + 1)
    labelled = scores[there].astype(np.float64)
    share = np.ones(len(labelled)) if weights is None else weights[target[there]]
    reached = share @ (wanted * labelled).sum(axis=1)

    def rising(temperature: float) -> bool:
        """Whether the loss rises with 1 / T here: the mean score under the model is above that of the targets."""
        return bool(share @ (softmax(labelled, temperature) * labelled).sum(axis=1) > reached)

    low, high = np.log(COLDEST), np.log(HOTTEST)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(float(np.exp(middle))) else (low, middle)
    return float(np.exp((low + high) / 2))


def balanced_weights(target: np.ndarray, classes: int) -> np.ndarray:
    """(K,) float64 weights n / (classes there x count): each class that is there weighs the same in all,
    and the mean over examples is 1.

    A class without an example has weight 0. All 0 where no target is there.
    """
    counts = np.bincount(target[target != IGNORE], minlength=classes)
    return np.where(counts > 0, counts.sum() / (max(np.count_nonzero(counts), 1) * np.maximum(counts, 1)), 0.0)
