"""What a fit found, as values: its models at the settings that validation chose, their answers, and what is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headstart.analysis.occlusion import Occlusion
from headstart.baselines.measures import scores_of
from headstart.core import Results, Row
from headstart.data import Card, flatters
from headstart.fitted.leaderboard import Leaderboard, leaderboard_of
from headstart.sequence import IGNORE
from headstart.serve.config import HeldOut
from headstart.serve.model import Served
from headstart.statistics import Difference, Estimate, difference, unpaired_difference

MOST_LINES = 12
"""Models that the repr of an outcome lists."""
MOST_GRAVE = 3
"""Notes that make scores too good which it lists."""
ALIKE = 1e-6
"""Scores that differ by no more, as a share of them, are equal."""
ENOUGH = 100
"""Labelled test sequences from which on they alone say how wrong a model is."""
MOST_ERRORS = 10_000
"""Errors on held-out sequences that a model folder holds: of more, so many quantiles."""


@dataclass(frozen=True)
class Answers:
    """What a model answers on one split: `target` (n,) classes or numbers in their own unit, `predicted` (n, K)
    probabilities or (n,) numbers in that unit."""

    target: np.ndarray
    predicted: np.ndarray

    @property
    def labelled(self) -> Answers:
        """The rows that have a target."""
        labelled = ~np.isnan(self.target) if self.target.dtype.kind == "f" else self.target != IGNORE
        return Answers(self.target[labelled], self.predicted[labelled])

    @property
    def scores(self) -> dict[str, float]:
        """Every measure (`baselines.measures.scores_of`); none without rows."""
        classes = self.predicted.shape[1] if self.predicted.ndim == 2 else 0
        return scores_of(self.target, self.predicted, classes) if len(self.target) else {}

    def score(self, metric: str, weights: np.ndarray) -> float | None:
        """One by which models are chosen; None where it is no number. weights (K,): of classes."""
        if metric == "weighted_accuracy" and len(self.target):
            right, each = self.predicted.argmax(1) == self.target, weights[self.target]
            return float(each[right].sum() / max(each.sum(), 1e-12))
        score = self.scores.get(metric)
        return score if score is not None and np.isfinite(score) else None


@dataclass(frozen=True)
class TrainedModel:
    """One finished stage of an arm, and its answers. worth: what validation compares, the greater the better, then what
    decides between equals. raw: (n, K) scores of a network on test before its temperature. members: of an ensemble the
    models that it averages; its stage is that of the first. last: a network as its last weights have it, or an
    average with it, by whose answers on validation it is then compared: they give its worth, while val and test are of
    its best weights."""

    seed: int
    identity: str
    val: Answers
    test: Answers
    worth: tuple[float, float]
    temperature: float = 1.0
    raw: np.ndarray | None = None
    members: tuple[TrainedModel, ...] = ()
    last: TrainedModel | None = None


@dataclass(frozen=True)
class FitCandidate:
    """One model that could be served: an arm of the study with a finished run.

    row: of the study's results. text: what it is, in words. more: test measures by name over the same seeds; numbers in
    the target's own unit. models: of each seed; one where no random numbers are drawn. members: of an ensemble, names
    of the models that it averages, and shares: how much each counts, 1 in all. is_network: it is a neural network, not
    a model without gradients, nor an ensemble.
    """

    row: Row
    text: str
    more: Mapping[str, Estimate] = field(default_factory=dict)
    models: tuple[TrainedModel, ...] = ()
    members: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    is_network: bool = False

    @property
    def name(self) -> str:
        """Of its arm."""
        return self.row.arm

    @property
    def answers_alike(self) -> bool:
        """It answers every validation sequence alike."""
        parts = [model.val.predicted for model in self.models]
        return all(len(part) > 1 and not np.ptp(part, axis=0).any() for part in parts)

    @property
    def worth(self) -> float:
        """What validation chooses by: the mean over seeds."""
        return sum(model.worth[0] for model in self.models) / len(self.models)

    def best(self) -> TrainedModel:
        """The model that validation prefers; of equals the earliest."""
        return max(self.models, key=lambda model: model.worth)

    def parts(self) -> dict[str, TrainedModel]:
        """What serves where this does, by the names of arms: its best model, or those that this averages."""
        best = self.best()
        return dict(zip(self.members, best.members, strict=True)) if self.members else {self.name: best}

    def on_common_runs(self, other: FitCandidate) -> tuple[list[float], list[float]]:
        """What validation compares of both: of each seed that both have, in the same order, else all that there is."""
        # A model that draws nothing, on rows that all runs share, is one for all seeds.
        several = self.row.expected > 1 and other.row.expected > 1
        values = [{model.seed: model.worth[0] for model in item.models} for item in (self, other)]
        seeds = [seed for seed in values[0] if seed in values[1]] if several else []
        own, others = ([side[seed] for seed in seeds] if seeds else list(side.values()) for side in values)
        return own, others

    def lead(self, other: FitCandidate) -> Difference:
        """What it is ahead by on validation, with the interval over seeds or folds (none for one)."""
        own, others = self.on_common_runs(other)
        if 1 in (len(own), len(others)):  # a model that draws nothing is one for all seeds
            number = max(len(own), len(others))
            own, others = (side * number if len(side) == 1 else side for side in (own, others))
        compare = difference if len(own) == len(others) else unpaired_difference
        gap = compare(dict(enumerate(own)), dict(enumerate(others)))
        assert gap is not None, "both have runs"
        return gap


@dataclass(frozen=True, repr=False)
class Outcome:
    """A fit, whole.

    candidates: in the order of the table. winner: the candidate with the best validation score, and `serves` the one
    that `predict` serves (another only where that was asked for). served: the model itself. again: it was fitted on
    train and validation after all choices, and every score here is of the runs that chose it. test: its answers.
    `uncalibrated` are its test probabilities at temperature 1 (None for numbers). results: of the study. notes: caveats
    and findings, the gravest first. plan: what was resolved, in words.
    """

    title: str
    card: Card
    labels: tuple[str, ...]
    candidates: tuple[FitCandidate, ...]
    winner: str
    serves: str
    served: Served
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
    again: bool = False
    curve: Any = None
    """What more labels would bring (`LearningCurve`); None where that could not be told."""

    @property
    def metric(self) -> str:
        """The score of the study."""
        return self.results.table[0].metric

    @property
    def held_out(self) -> tuple[Answers, str]:
        """Answers of the model that serves to labelled sequences of a split, and its name: `test`, or where nothing was
        held out for a test, `validation`, which chose the model."""
        tested = self.test.labelled
        if len(tested.target):
            return tested, "test"
        return self.candidate(self.serves).best().val.labelled, "validation"

    @property
    def gravest(self) -> tuple[str, ...]:
        """What says that scores are too good, of the notes and of the data: to be read before any score."""
        return tuple(dict.fromkeys(text for text in (*self.notes, *self.card.facts["doubts"]) if flatters(text)))

    def __repr__(self) -> str:
        board = self.leaderboard()
        more = "\n... (more: leaderboard())" if len(board) > MOST_LINES else ""
        lines = str(Leaderboard(board[:MOST_LINES], self.metric))
        grave = "".join(f"\n! {text}" for text in self.gravest[:MOST_GRAVE])
        return f"Outcome of a fit: {self.title}\n{self.answer}{grave}\n{lines}{more}"

    def leaderboard(self) -> Leaderboard:
        """The models as a short table, the best on validation first."""
        serves = self.candidate(self.serves)
        return leaderboard_of(self.results, self.serves, dict(zip(serves.members, serves.shares, strict=True)))

    def candidate(self, name: str) -> FitCandidate:
        """The line of this name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)


def held_out(candidate: FitCandidate, again: bool, folds: int, best: TrainedModel | None = None) -> HeldOut:
    """Errors on test where it is large enough, else on validation: of the best model, or of those of all folds. best:
    the model of it that serves, where that is another.

    Of folds that were dealt several times, one time counts: each row once. Errors are rounded up, so that a sequence
    that is as wrong is within.
    """
    best = best or candidate.best()
    same = [model for model in candidate.models if model.seed // folds == best.seed // folds]
    several = folds > 1 and len(same) > 1
    source, parts = "folds" if several else "validation", [m.val for m in (same if several else (best,))]
    if len(best.test.labelled.target) >= ENOUGH:
        source, parts = "test", [best.test]
    pairs = [(part.labelled.target, part.labelled.predicted) for part in parts]
    errors = np.concatenate([1 - p[np.arange(len(t)), t] if p.ndim == 2 else np.abs(p - t) for t, p in pairs])
    target, classes = np.concatenate([t for t, _ in pairs]), pairs[0][1].shape[1] if pairs[0][1].ndim == 2 else 0
    by_class = [_rounded_up(errors[target == k], MOST_ERRORS // classes) for k in range(classes)]
    return HeldOut(
        errors=_rounded_up(errors, MOST_ERRORS),
        source=source,
        again=again,
        class_errors=tuple(error for part in by_class for error in part),
        class_counts=tuple(map(len, by_class)),
    )


def _rounded_up(errors: np.ndarray, most: int) -> tuple[float, ...]:
    """In ascending order; of more than `most` quantiles."""
    few = np.linspace(0, len(errors) - 1, min(len(errors), max(most, ENOUGH))).round().astype(int)
    return tuple(float(f"{x:.6g}") for x in np.sort(errors)[few] * (1 + 6e-6))
