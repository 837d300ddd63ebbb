"""The model that looks at nothing: shares of the classes, or the mean of the numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headstart.baselines.contract import Facts, Shapes, check_kind, facts_of, targets
from headstart.sequence import IGNORE, Examples, Signature


@dataclass(frozen=True)
class Majority:
    """`said` (K,) float64 shares of the labelled train examples, or (T,) means."""

    facts: Facts
    said: np.ndarray

    def predict(self, examples: Examples) -> np.ndarray:
        """The same answer for each."""
        check_kind(self.facts, examples)
        if self.facts.outputs == 1 and not self.facts.classes:
            return np.full(examples.units, self.said[0])
        return np.tile(self.said, (examples.units, 1))

    def arrays(self) -> dict[str, np.ndarray]:
        """`said`."""
        return {"said": self.said}


def shapes(facts: Facts) -> Shapes:
    """Of the arrays."""
    return {"said": ("float64", (facts.outputs,))}


def fit(train: Examples, val: Examples, signature: Signature, seed: int, balanced: bool = False) -> Majority:
    """Shares or means of train. Neither val, the seed nor `balanced` changes them.

    Without one label all classes have one share, and the mean is 0.
    """
    del val, seed, balanced
    facts = facts_of("majority", "none", signature)
    target = targets(train, facts)
    if facts.classes:
        counts = np.bincount(target[target != IGNORE], minlength=facts.classes).astype(np.float64)
        return Majority(facts, counts / counts.sum() if counts.any() else np.full(facts.classes, 1 / facts.classes))
    there = ~np.isnan(target)
    return Majority(facts, np.where(there, target, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
