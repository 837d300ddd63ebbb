"""The model that remembers: the target of the nearest train example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headstart.baselines.contract import Facts, FittedSpec, Shapes, check_kind, facts_of, targets
from headstart.baselines.features import NAMES, Plain
from headstart.baselines.linear import MOST, by_pieces, rows, share, thinned
from headstart.sequence import Examples, Signature

NUMBERS = 1 << 23
"""Numbers of all examples that are remembered, at most: 32 MiB."""


@dataclass(frozen=True)
class Nearest:
    """`rows` (n, P) float32 of the train examples, and their `answers` (n, outputs) float64."""

    facts: Facts
    features: Plain
    rows: np.ndarray
    answers: np.ndarray

    def predict(self, examples: Examples) -> np.ndarray:
        """The answer of the nearest (Euclid) train example."""
        from sklearn.neighbors import NearestNeighbors

        check_kind(self.facts, examples)
        near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(self.rows)

        def answer(features: np.ndarray) -> np.ndarray:
            index = near.kneighbors(features.astype(np.float32), return_distance=False)[:, 0]
            return np.asarray(self.answers[index])

        out = by_pieces(self.facts, self.features, examples, answer)
        return out[:, 0] if self.facts.outputs == 1 and not self.facts.classes else out

    def arrays(self) -> dict[str, np.ndarray]:
        """`rows` and `answers`."""
        return {"rows": self.rows, "answers": self.answers}


def shapes(facts: Facts) -> Shapes:
    """Of the arrays."""
    return {"rows": ("float32", (facts.used, facts.columns)), "answers": ("float64", (facts.used, facts.outputs))}


class NearestSpec(FittedSpec):
    """The target of the nearest train example, by the inputs that `linear` looks at. At most 5,000 labels are used.

    Of a class, the neighbour's counts as one vote beside one that is spread over all classes.
    """

    kind: Literal["nearest"] = "nearest"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Nearest:
        """Remember train; nothing is chosen."""
        del val, seed, class_weights
        features = Plain.of(signature)
        facts = facts_of("nearest", features.kind, train, signature).model_copy(update={"size": features.size})
        facts, some = thinned(facts, train, min(MOST, max(1, NUMBERS // facts.columns)))
        target = targets(some, facts)
        if facts.classes:
            answers = (np.eye(facts.classes)[target] + 1 / facts.classes) / 2
        else:
            there = ~np.isnan(target)
            mean = np.where(there, target, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            answers = np.where(there, target, mean)
        return Nearest(facts, features, rows(features, some).astype(np.float32), answers)

    def title(self, facts: Facts) -> str:
        """With what it looks at."""
        return f"1-nearest neighbour on {NAMES[facts.features]}{share(facts)}"

    def describe(self) -> str:
        """In a sentence."""
        return "the target of the nearest training example"
