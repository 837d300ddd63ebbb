"""The model that looks at nothing: shares of the classes, or the mean of the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headstart.baselines.contract import Facts, FittedSpec, Shapes, check_kind, facts_of
from headstart.sequence import IGNORE, Examples, Signature


@dataclass(frozen=True)
class Majority:
    """`said` (outputs,) float64: shares of the K classes among the labels, for each of T targets, or T means."""

    facts: Facts
    said: np.ndarray

    def predict(self, examples: Examples) -> np.ndarray:
        """The same answer for each sequence, pair or position."""
        check_kind(self.facts, examples)
        rows = len(examples.values) if self.facts.per_position else examples.units
        if self.facts.outputs == 1 and not self.facts.classes:
            return np.full(rows, self.said[0])
        return np.tile(self.said, (rows, 1))

    def arrays(self) -> dict[str, np.ndarray]:
        """`said`."""
        return {"said": self.said}


def shapes(facts: Facts) -> Shapes:
    """Of the arrays."""
    return {"said": ("float64", (facts.outputs,))}


class MajoritySpec(FittedSpec):
    """The commonest class (with its share as probability), or the mean, of the labelled train examples."""

    kind: Literal["majority"] = "majority"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Majority:
        """Shares or means of train: neither val, the seed nor weights change them.

        Without one label all classes have one share, and the mean is 0.
        """
        del val, seed, class_weights
        facts = facts_of("majority", "none", train, signature)
        target = np.zeros(0) if train.target is None else train.target
        columns = target.reshape(-1, facts.targets).T
        return Majority(facts, np.concatenate([_shares(column, facts.classes) for column in columns]))

    def title(self, facts: Facts) -> str:
        """Classes or numbers."""
        return "majority class" if facts.classes else "mean of train"

    def describe(self) -> str:
        """In a sentence."""
        return "the commonest class, or the mean, of the training labels"


def _shares(target: np.ndarray, classes: int) -> np.ndarray:
    """(K,) shares of the classes of one target, or its mean (1,)."""
    if classes:
        counts = np.bincount(target[target != IGNORE].astype(np.int64), minlength=classes).astype(np.float64)
        return counts / counts.sum() if counts.any() else np.full(classes, 1 / classes)
    numbers = target[~np.isnan(target)].astype(np.float64)
    return np.array([numbers.mean() if len(numbers) else 0.0])
