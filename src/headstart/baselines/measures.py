"""Measures of predictions, and a temperature for scores: numbers in, numbers out; numpy alone.

Letters: n examples, K classes. A class target of `sequence.IGNORE` and a number that is NaN are left out. Every
measure raises ValueError where no target is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.sequence import IGNORE

BINS = 15
"""Bins of confidence, equally wide, over [0, 1]."""
COLDEST, HOTTEST = 1e-3, 1e3
"""Temperatures are sought between these."""
_LEAST = float(np.finfo(np.float64).tiny)


def _classes(target: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(targets, what was said) of the examples that have a class."""
    there = target != IGNORE
    if not there.any():
        raise ValueError("measures: no target is there")
    return target[there], said[there]


def _numbers(target: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    there = ~np.isnan(target)
    if not there.any():
        raise ValueError("measures: no target is there")
    return target[there].astype(np.float64), said[there].astype(np.float64)


def accuracy(target: np.ndarray, said: np.ndarray) -> float:
    """Share of targets (n,) that equal the class said (n,)."""
    target, said = _classes(target, said)
    return float((target == said).mean())


def confusion(target: np.ndarray, said: np.ndarray, classes: int) -> np.ndarray:
    """(K, K) int64 counts: row the target, column the class said."""
    target, said = _classes(target, said)
    counts = np.bincount(target.astype(np.int64) * classes + said.astype(np.int64), minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64)


def balanced_accuracy(target: np.ndarray, said: np.ndarray) -> float:
    """Mean over the classes among the targets of the share that was found."""
    target, said = _classes(target, said)
    return float(np.mean([(said[target == k] == k).mean() for k in np.unique(target)]))


def macro_f1(target: np.ndarray, said: np.ndarray) -> float:
    """Mean F1 over the classes that are a target or were said; a class that was never met has none."""
    target, said = _classes(target, said)
    found = []
    for k in np.union1d(target, said):
        hit = float(((target == k) & (said == k)).sum())
        found.append(2 * hit / ((target == k).sum() + (said == k).sum()))
    return float(np.mean(found))


def r2(target: np.ndarray, said: np.ndarray) -> float:
    """1 - squared error over squared deviation from the mean; targets that do not vary give NaN."""
    target, said = _numbers(target, said)
    total = float(((target - target.mean()) ** 2).sum())
    return 1 - float(((target - said) ** 2).sum()) / total if total > 0 else float("nan")


def mean_absolute_error(target: np.ndarray, said: np.ndarray) -> float:
    """In the target's unit."""
    target, said = _numbers(target, said)
    return float(np.abs(target - said).mean())


def root_mean_squared_error(target: np.ndarray, said: np.ndarray) -> float:
    """In the target's unit."""
    target, said = _numbers(target, said)
    return float(np.sqrt(((target - said) ** 2).mean()))


def softmax(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """(n, K) float64 probabilities of scores divided by a temperature."""
    scaled = scores.astype(np.float64) / temperature
    scaled -= scaled.max(axis=-1, keepdims=True)
    raised = np.exp(scaled)
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def log_loss(target: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of -log p(target), in nats; a probability of 0 counts as the smallest float64 above it.

    weights (K,): of the classes.
    """
    target, probabilities = _classes(target, probabilities)
    right = probabilities[np.arange(len(target)), target].astype(np.float64)
    share = None if weights is None or not weights[target].any() else weights[target]
    return float(np.average(-np.log(np.maximum(right, _LEAST)), weights=share))


@dataclass(frozen=True)
class Reliability:
    """Confidence (the largest probability) in bins of equal width: (bins,) each; NaN in an empty bin."""

    edges: np.ndarray
    """(bins + 1,) from 0 to 1; a bin holds its upper edge, not its lower."""
    count: np.ndarray
    confidence: np.ndarray
    """Mean confidence of the examples of a bin."""
    accuracy: np.ndarray
    """Share of them that were right."""

    @property
    def error(self) -> float:
        """Expected calibration error: |accuracy - confidence|, weighted by the examples of each bin."""
        held = self.count > 0
        gap = np.abs(self.accuracy[held] - self.confidence[held])
        return float((gap * self.count[held]).sum() / self.count.sum())


def reliability(target: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> Reliability:
    """How often the class with the largest of (n, K) probabilities is right, by how sure it is."""
    target, probabilities = _classes(target, probabilities)
    sure = probabilities.max(axis=1).astype(np.float64)
    right = (probabilities.argmax(axis=1) == target).astype(np.float64)
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        confidence = np.bincount(place, sure, minlength=bins) / count
        share = np.bincount(place, right, minlength=bins) / count
    return Reliability(edges, count, confidence, share)


def calibration_error(target: np.ndarray, probabilities: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error of (n, K) probabilities, in [0, 1]."""
    return reliability(target, probabilities, bins).error


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
    given = scores[there].astype(np.float64)
    share = np.ones(len(given)) if weights is None else weights[target[there]]
    reached = share @ (wanted * given).sum(axis=1)

    def rising(temperature: float) -> bool:
        """Whether the loss rises with 1 / T here: the mean score under the model is above that of the targets."""
        return bool(share @ (softmax(given, temperature) * given).sum(axis=1) > reached)

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
    there = counts > 0
    weights = np.zeros(classes)
    weights[there] = counts.sum() / (there.sum() * counts[there])
    return weights


def scores_of(target: np.ndarray, said: np.ndarray, classes: int) -> dict[str, Any]:
    """All measures of (n, K) probabilities (classes > 0), or of (n,) numbers (classes = 0), by name."""
    if not classes:
        return {
            "r2": r2(target, said),
            "mae": mean_absolute_error(target, said),
            "rmse": root_mean_squared_error(target, said),
        }
    chosen = said.argmax(axis=1)
    return {
        "accuracy": accuracy(target, chosen),
        "balanced_accuracy": balanced_accuracy(target, chosen),
        "macro_f1": macro_f1(target, chosen),
        "log_loss": log_loss(target, said),
        "calibration_error": calibration_error(target, said),
    }
