"""A linear readout of features of sequences: what the models other than majority and nearest are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from headstart.baselines.contract import Facts, FittedSpec, Shapes, check_kind, facts_of, pieces, targets
from headstart.baselines.features import NAMES, Plain
from headstart.baselines.measures import softmax
from headstart.baselines.readout import Readout, Split, fit_readout
from headstart.sequence import IGNORE, Examples, Signature

MOST = 5_000
"""Labelled train examples that models of the inputs themselves are fitted on at most; the title says where it was
fewer than all."""
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
    def fit(
        cls,
        facts: Facts,
        features: Features,
        train: Examples,
        val: Examples,
        class_weights: np.ndarray | None,
        *,
        alpha: float | None = None,
        squared: bool = False,
    ) -> Linear:
        """Logistic regression, or ridge where numbers are predicted or a `squared` error is asked for.

        alpha: of the penalty (a logistic regression has C = 1 / alpha); None: chosen, on val or by leaving one out.
        """
        split, held = split_of(features, train, facts), split_of(features, val, facts)
        readout = fit_readout(split, held, facts.classes, class_weights, alpha, squared)
        learned = {"size": features.size, "temperature": readout.temperature, "strength": readout.strength}
        return cls(facts.model_copy(update={**learned, **features.sizes}), features, readout)

    def predict(self, examples: Examples) -> np.ndarray:
        """(n, K) probabilities or (n,) numbers, (n, T) where there are several; n units."""
        check_kind(self.facts, examples)
        scores = by_pieces(self.facts, self.features, examples, self.readout.scores)
        if self.facts.classes:
            return softmax(scores, self.facts.temperature)
        return scores[:, 0] if self.facts.targets == 1 else scores

    def arrays(self) -> dict[str, np.ndarray]:
        """The features' arrays, `weights` and `intercept`."""
        return {**self.features.arrays(), "weights": self.readout.weights, "intercept": self.readout.intercept}


class PenalisedSpec(FittedSpec):
    """What linear models share. alpha: strength of the L2 penalty; a logistic regression has C = 1 / alpha.

    Without it the strength is chosen: on val, of a ridge regression of dense features by leaving one train example out.
    """

    alpha: float | None = Field(default=None, gt=0)


class LinearSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on the inputs themselves: tokens counted, floats flattened where all have
    one length, else summarised. At most 5,000 labels are used."""

    kind: Literal["linear"] = "linear"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Linear:
        """Nothing depends on the seed."""
        del seed
        features = Plain.of(signature)
        facts, some = thinned(facts_of("linear", features.kind, train, signature), train, MOST)
        return Linear.fit(facts, features, some, val, class_weights, alpha=self.alpha)

    def title(self, facts: Facts) -> str:
        """With what it looks at."""
        return f"{'logistic' if facts.classes else 'ridge'} regression on {NAMES[facts.features]}{share(facts)}"

    def describe(self) -> str:
        """In a sentence."""
        return "a logistic regression (ridge for numbers) on the inputs themselves"


def thinned(facts: Facts, train: Examples, most: int) -> tuple[Facts, Examples]:
    """At most so many labelled units, spread evenly, and the facts that say so."""
    labelled = train.labelled_units()
    kept = labelled[np.linspace(0, len(labelled) - 1, min(most, len(labelled))).astype(int)]
    return facts.model_copy(update={"used": len(kept)}), train.take(kept)


def share(facts: Facts) -> str:
    """`, 5,000 of 50,000 labels` where some were left out."""
    return "" if facts.used == facts.labels else f", {facts.used:,} of {facts.labels:,} labels"


def readout_shapes(facts: Facts) -> Shapes:
    """Of `weights` and `intercept`."""
    return {"weights": ("float32", (facts.columns, facts.outputs)), "intercept": ("float64", (facts.outputs,))}


def read_readout(facts: Facts, arrays: Mapping[str, np.ndarray]) -> Readout:
    """The readout among a model's arrays."""
    return Readout(arrays["weights"], arrays["intercept"], facts.temperature, facts.strength)


def by_pieces(facts: Facts, features: Features, examples: Examples, answer: Callable[[Any], np.ndarray]) -> np.ndarray:
    """(n, outputs) answers to the features of n units, made piece by piece."""
    most = max(1, AT_ONCE // max(1, facts.columns))
    found = [answer(rows(features, examples.take(units))) for units in pieces(examples, most, POSITIONS)]
    return np.concatenate(found) if found else np.zeros((0, facts.outputs))


def rows(features: Features, examples: Examples) -> Any:
    """Features of the units of a set: of a pair [a, b] those of a, b, |a - b| and a b."""
    made = features.transform(replace(examples, paired=False))
    if not examples.paired:
        return made
    first, second = made[::2], made[1::2]
    if isinstance(made, np.ndarray):
        return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)
    from scipy.sparse import hstack

    return hstack([first, second, abs(first - second), first.multiply(second)], format="csr")


def split_of(features: Features, examples: Examples, facts: Facts) -> Split:
    """Features and targets of the units that have a target."""
    target = targets(examples, facts)
    there = target != IGNORE if facts.classes else ~np.isnan(target).all(axis=1)
    return Split(rows(features, examples.take(np.flatnonzero(there))), target[there])
