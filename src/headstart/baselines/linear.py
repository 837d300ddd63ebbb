"""A linear readout of features of sequences: what the classic models other than the majority are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from headstart.baselines.contract import Facts, Shapes, check_kind, pieces, targets
from headstart.baselines.measures import softmax
from headstart.baselines.readout import Readout, Split
from headstart.sequence import IGNORE, Examples
from headstart.study.features import pairs

AT_ONCE = 1 << 24
"""Features that are made at once for a prediction, which bounds memory."""
POSITIONS = 1 << 22
"""Positions of the sequences that they are made of."""


class Features(Protocol):
    """What turns sequences into rows of numbers, dense or sparse."""

    @property
    def size(self) -> int:
        """P."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """What the facts must say for the shapes of the arrays to follow."""
        ...

    def transform(self, examples: Examples) -> Any:
        """(n, P) of n single sequences."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that was learned."""
        ...


@dataclass(frozen=True)
class Linear:
    """Features and the readout of them."""

    facts: Facts
    features: Features
    readout: Readout

    @classmethod
    def of(cls, facts: Facts, features: Features, readout: Readout) -> Linear:
        """The model, its facts completed with what was learned."""
        learned = {"size": features.size, "temperature": readout.temperature, "strength": readout.strength}
        return cls(facts.model_copy(update={**learned, **features.sizes}), features, readout)

    def predict(self, examples: Examples) -> np.ndarray:
        """(n, K) probabilities or (n,) numbers, (n, T) where there are several; n units."""
        check_kind(self.facts, examples)
        most = AT_ONCE // max(1, self.facts.columns)
        found = [
            self.readout.scores(rows(self.features, examples.take(units)))
            for units in pieces(examples, max(1, most), POSITIONS)
        ]
        scores = np.concatenate(found) if found else np.zeros((0, self.facts.outputs))
        if self.facts.classes:
            return softmax(scores, self.facts.temperature)
        return scores[:, 0] if self.facts.targets == 1 else scores

    def arrays(self) -> dict[str, np.ndarray]:
        """The features' arrays, `weights` and `intercept`."""
        return {**self.features.arrays(), "weights": self.readout.weights, "intercept": self.readout.intercept}


def readout_shapes(facts: Facts) -> Shapes:
    """Of `weights` and `intercept`."""
    return {"weights": ("float32", (facts.columns, facts.outputs)), "intercept": ("float64", (facts.outputs,))}


def read_readout(facts: Facts, arrays: Mapping[str, np.ndarray]) -> Readout:
    """The readout among a model's arrays."""
    return Readout(arrays["weights"], arrays["intercept"], facts.temperature, facts.strength)


def rows(features: Features, examples: Examples) -> Any:
    """Features of the units of a set: of a pair [a, b] those of a, b, |a - b| and a b."""
    made = features.transform(replace(examples, paired=False))
    if not examples.paired:
        return made
    if isinstance(made, np.ndarray):
        return pairs(made)
    from scipy.sparse import hstack

    first, second = made[::2], made[1::2]
    return hstack([first, second, abs(first - second), first.multiply(second)], format="csr")


def split_of(features: Features, examples: Examples, facts: Facts) -> Split:
    """Features and targets of the units that have a target."""
    target = targets(examples, facts)
    there = target != IGNORE if facts.classes else ~np.isnan(target).all(axis=1)
    return Split(rows(features, examples.take(np.flatnonzero(there))), target[there])
