"""Models that learn no relation: the commonest class, the nearest train example, a rule that the task itself knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from headstart.baselines.features import Plain, feature_rows
from headstart.baselines.fitting import (
    SECONDS_AT_LEAST,
    FittedFacts,
    FittedSpec,
    Shapes,
    by_pieces,
    check_kind,
    facts_of,
    targets,
)
from headstart.baselines.linear import MOST_EXAMPLES, thinned
from headstart.sequence import IGNORE, Examples, Signature

NUMBERS = 1 << 23
"""Numbers of all examples that are remembered, at most: 32 MiB."""


@dataclass(frozen=True)
class Majority:
    """`shares` (outputs,) float64: of the K classes among the labels, for each of T targets, or T means."""

    facts: FittedFacts
    shares: np.ndarray

    def predict(self, examples: Examples) -> np.ndarray:
        """The same answer for each sequence, pair or position."""
        check_kind(self.facts, examples)
        rows = len(examples.values) if self.facts.per_position else examples.units
        if self.facts.outputs == 1 and not self.facts.classes:
            return np.full(rows, self.shares[0])
        return np.tile(self.shares, (rows, 1))

    def arrays(self) -> dict[str, np.ndarray]:
        """`said`, by its name in files."""
        return {"said": self.shares}


class MajoritySpec(FittedSpec):
    """The commonest class (with its share as probability), or the mean, of the labelled train examples."""

    kind: Literal["majority"] = "majority"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Majority:
        """Shares or means of train: neither val, the seed nor weights change them.

        Without one label all classes have one share, and the mean is 0.
        """
        facts = facts_of(self.kind, train, signature, learns=False)
        target = np.zeros(0) if train.target is None else train.target
        columns = target.reshape(-1, facts.targets).T
        return Majority(facts, np.concatenate([_shares(column, facts.classes) for column in columns]))

    def seconds(self, labels: int, scored: int, signature: Signature, lengths: np.ndarray) -> float:
        """Hardly any: no sequence is looked at."""
        return SECONDS_AT_LEAST

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        """Of `said`."""
        facts.check(facts.features == "none", "features")
        return {"said": ("float64", (facts.outputs,))}

    @classmethod
    def restore(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Majority:
        return Majority(facts, arrays["said"])

    def title(self, facts: FittedFacts) -> str:
        return "majority class" if facts.classes else "mean of train"

    def describe(self) -> str:
        return "the commonest class, or the mean, of the training labels"


def _shares(target: np.ndarray, classes: int) -> np.ndarray:
    """(K,) shares of the classes of one target, or its mean (1,)."""
    if classes:
        counts = np.bincount(target[target != IGNORE].astype(np.int64), minlength=classes).astype(np.float64)
        return counts / counts.sum() if counts.any() else np.full(classes, 1 / classes)
    numbers = target[~np.isnan(target)].astype(np.float64)
    return np.array([numbers.mean() if len(numbers) else 0.0])


@dataclass(frozen=True)
class Nearest:
    """`rows` (n, P) float32 of the train examples, and their `answers` (n, outputs) float64."""

    facts: FittedFacts
    features: Plain
    rows: np.ndarray
    answers: np.ndarray

    def predict(self, examples: Examples) -> np.ndarray:
        """The answer of the nearest (Euclid) train example."""
        from sklearn.neighbors import NearestNeighbors

        check_kind(self.facts, examples)
        neighbours = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(self.rows)

        def answer(part: Examples) -> np.ndarray:
            rows = feature_rows(self.features, part).astype(np.float32)
            index = neighbours.kneighbors(rows, return_distance=False)[:, 0]
            return np.asarray(self.answers[index])

        out = by_pieces(examples, self.facts.outputs, self.facts.columns, answer)
        return out[:, 0] if self.facts.outputs == 1 and not self.facts.classes else out

    def arrays(self) -> dict[str, np.ndarray]:
        """`rows` and `answers`."""
        return {"rows": self.rows, "answers": self.answers}


class NearestSpec(FittedSpec):
    """The target of the nearest train example, by the inputs that `linear` looks at. At most 5,000 labels are used.

    Of a class, the neighbour's counts as one vote beside one that is spread over all classes.
    """

    kind: Literal["nearest"] = "nearest"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Nearest:
        """Remember train; nothing is chosen."""
        features = Plain.of(signature)
        sizes = {"features": features.kind, "size": features.size}
        facts = facts_of(self.kind, train, signature).model_copy(update=sizes)
        facts, some = thinned(facts, train, min(MOST_EXAMPLES, max(1, NUMBERS // facts.columns)))
        target = targets(some, facts)
        if facts.classes:
            answers = (np.eye(facts.classes)[target] + 1 / facts.classes) / 2
        else:
            there = ~np.isnan(target)
            mean = np.where(there, target, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            answers = np.where(there, target, mean)
        return Nearest(facts, features, feature_rows(features, some).astype(np.float32), answers)

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        """Of `rows` and `answers`."""
        return {"rows": ("float32", (facts.used, facts.columns)), "answers": ("float64", (facts.used, facts.outputs))}

    @classmethod
    def restore(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Nearest:
        return Nearest(facts, Plain.from_arrays(facts, {}), arrays["rows"], arrays["answers"])

    def title(self, facts: FittedFacts) -> str:
        """With what it looks at."""
        return f"1-nearest neighbour on {Plain.from_arrays(facts, {}).name}{facts.share_used}"

    def describe(self) -> str:
        return "the target of the nearest training example"


class TaskRuleSpec(FittedSpec):
    """A trivial rule that a task knows of itself, such as the distance of two marked discs: by its scores alone."""

    kind: Literal["task"] = "task"
    name: str = ""
    """Of one of the task's `baselines`; empty: the first."""
    way: ClassVar[str] = "known"

    def title(self, facts: Any) -> str:
        return self.name

    def describe(self) -> str:
        return f"the task's own trivial rule{f' {self.name!r}' if self.name else ''}"
