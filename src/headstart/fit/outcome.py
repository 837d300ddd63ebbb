"""What a fit found, as values: the screen, the report page and the model card are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headstart.data.card import Card
from headstart.serve.model import Served
from headstart.study.results import Results
from headstart.study.statistics import Difference, Estimate


@dataclass(frozen=True)
class Answers:
    """What a model answers on one split: `target` (n,) classes or numbers in their own unit, `predicted` (n, K)
    probabilities or (n,) numbers in that unit."""

    target: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True)
class TrainedModel:
    """One finished stage of an arm, and its answers. worth: what validation compares, the greater the better, then what
    decides between equals. raw: (n, K) scores of a network on test before its temperature."""

    seed: int
    identity: str
    val: Answers
    test: Answers
    worth: tuple[float, float]
    temperature: float = 1.0
    raw: np.ndarray | None = None


@dataclass(frozen=True)
class Candidate:
    """One model that could be served: an arm of the study, a line of the table.

    name: of the arm. text: what it is, in words. n, val, test, chosen, difference: of the arm's row in the study's
    results. more: test measures by name (`baselines.measures.scores_of`) over the same seeds; numbers in the target's
    own unit. seconds: of one run, with pretraining. models: of each seed.
    """

    name: str
    text: str
    n: int
    val: Estimate | None
    test: Estimate | None
    more: Mapping[str, Estimate] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    difference: Difference | None = None
    seconds: float = 0.0
    models: tuple[TrainedModel, ...] = ()

    @property
    def worth(self) -> float:
        """What validation chooses by: the mean over seeds."""
        return sum(model.worth[0] for model in self.models) / len(self.models)

    def best(self) -> TrainedModel:
        """The model that validation prefers; of equals the earliest."""
        return max(self.models, key=lambda model: model.worth)


@dataclass(frozen=True)
class Occlusion:
    """Where a model looks: `drop` (windows,) mean loss of its score where that window of a sequence, from its start
    (0) to its end (1), holds another sequence's values; `error` (windows,) its standard error over sequences.

    what: the score in words (`probability of the true class`).
    """

    drop: np.ndarray
    error: np.ndarray
    what: str
    rows: int


@dataclass(frozen=True)
class Outcome:
    """A fit, whole.

    metric: the one of the study. candidates: in the order of the table. winner: the candidate with the best validation
    score, and `serves` the one that `predict` serves (another only where that was asked for). served: the model itself.
    val, test: its answers. `uncalibrated` are its test probabilities at temperature 1 (None for numbers). results: of
    the study. notes: caveats and findings, the gravest first. plan: what was resolved, in words.
    """

    title: str
    metric: str
    card: Card
    labels: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    winner: str
    serves: str
    served: Served
    val: Answers
    test: Answers
    uncalibrated: np.ndarray | None
    results: Results
    answer: str
    notes: tuple[str, ...]
    plan: tuple[str, ...]
    sizes: Mapping[str, int]
    occlusion: Occlusion | None = None
    records: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    command: str = ""

    def candidate(self, name: str) -> Candidate:
        """The line of this name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)
