"""What a fit found, as values: its models at the settings that validation chose, their answers, and what is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headstart.analysis.occlusion import Occlusion
from headstart.baselines.measures import fit_temperature, scores_of, softmax
from headstart.core import Results, Row, Store
from headstart.data import Card
from headstart.fit.arms import without_gradients
from headstart.fit.leaderboard import Leaderboard, leaderboard_of
from headstart.sequence import IGNORE
from headstart.serve.model import Served, in_own_unit
from headstart.statistics import Estimate, estimate
from headstart.tasks.own import OwnFacts

MOST_LINES = 12
"""Models that the repr of an outcome lists."""


@dataclass(frozen=True)
class Answers:
    """What a model answers on one split: `target` (n,) classes or numbers in their own unit, `predicted` (n, K)
    probabilities or (n,) numbers in that unit."""

    target: np.ndarray
    predicted: np.ndarray

    @property
    def labelled(self) -> Answers:
        """The rows that have a target."""
        known = ~np.isnan(self.target) if self.target.dtype.kind == "f" else self.target != IGNORE
        return Answers(self.target[known], self.predicted[known])

    @property
    def scores(self) -> dict[str, float]:
        """Every measure (`baselines.measures.scores_of`); none without rows."""
        classes = self.predicted.shape[1] if self.predicted.ndim == 2 else 0
        return scores_of(self.target, self.predicted, classes) if len(self.target) else {}


@dataclass(frozen=True)
class TrainedModel:
    """One finished stage of an arm, and its answers. worth: what validation compares, the greater the better, then what
    decides between equals. raw: (n, K) scores of a network on test before its temperature. members: of an ensemble the
    two models that it averages; its seed and stage are those of the network."""

    seed: int
    identity: str
    val: Answers
    test: Answers
    worth: tuple[float, float]
    temperature: float = 1.0
    raw: np.ndarray | None = None
    members: tuple[TrainedModel, ...] = ()


@dataclass(frozen=True)
class FitCandidate:
    """One model that could be served: an arm of the study with a finished run.

    row: of the study's results. text: what it is, in words. more: test measures by name over the same seeds; numbers in
    the target's own unit. models: of each seed; one where no random numbers are drawn. members: of an ensemble, names
    of the network and of the model without gradients that it averages.
    """

    row: Row
    text: str
    more: Mapping[str, Estimate] = field(default_factory=dict)
    models: tuple[TrainedModel, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its arm."""
        return self.row.arm

    @property
    def is_network(self) -> bool:
        """It is a neural network, not a model without gradients, nor an ensemble of both."""
        return not self.members and self.name not in without_gradients()

    @property
    def worth(self) -> float:
        """What validation chooses by: the mean over seeds."""
        return sum(model.worth[0] for model in self.models) / len(self.models)

    def best(self) -> TrainedModel:
        """The model that validation prefers; of equals the earliest."""
        return max(self.models, key=lambda model: model.worth)

    def parts(self) -> dict[str, TrainedModel]:
        """What serves where this does, by the names of arms: its best model, or the two that this averages."""
        best = self.best()
        return dict(zip(self.members, best.members, strict=True)) if self.members else {self.name: best}


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

    def __repr__(self) -> str:
        board = self.leaderboard()
        more = "\n... (more: leaderboard())" if len(board) > MOST_LINES else ""
        lines = str(Leaderboard(board[:MOST_LINES], self.metric))
        return f"Outcome of a fit: {self.title}\n{self.answer}\n{lines}{more}"

    def leaderboard(self) -> Leaderboard:
        """The models as a short table, the best on validation first."""
        return leaderboard_of(self.results, self.serves)

    def candidate(self, name: str) -> FitCandidate:
        """The line of this name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)


def candidates_of(
    results: Results, store: Store, facts: OwnFacts, balanced: bool, texts: Mapping[str, str]
) -> list[FitCandidate]:
    """One candidate per arm with a finished run, at the settings that validation chose.

    balanced: temperatures of networks are fitted as if all classes were equally frequent. texts: arms in words.
    """
    weights = weights_of(facts, balanced)
    out = []
    for row in results.table:
        # Where all validation targets are equal R² is not a number, and nothing is chosen: the first setting stands.
        runs = row.runs or (row.points[0].runs if row.points else ())
        models = tuple(
            _model(run.seed, run.stages[-1][1], run.val, row.arm, store, facts, weights)
            for run in runs
            if run.status == "complete"
        )
        if models:
            out.append(FitCandidate(row, texts[row.arm], test_means(models), models))
    return out


def test_means(models: Sequence[TrainedModel]) -> dict[str, Estimate]:
    """The mean over these models of each test measure that is a number, by its name."""
    tests = [model.test.scores for model in models]
    more = {name: [scores[name] for scores in tests if np.isfinite(scores[name])] for name in tests[0]}
    return {name: value for name, values in more.items() if (value := estimate(values)) is not None}


def weights_of(facts: OwnFacts, balanced: bool) -> np.ndarray | None:
    """Of the classes, for temperatures: all as if equally frequent, or None where each example weighs the same."""
    counts = np.array(facts.counts, dtype=np.float64)
    return counts.sum() / (len(counts) * np.maximum(counts, 1)) if balanced and len(counts) else None


def _model(
    seed: int, identity: str, val: float | None, arm: str, store: Store, facts: OwnFacts, weights: np.ndarray | None
) -> TrainedModel:
    outputs = {name: tensor.numpy() for name, tensor in store.predictions(identity).items()}
    network = arm not in without_gradients()
    model = model_of(seed, identity, outputs, facts, weights, network=network)
    return replace(model, worth=worth_of(model.val, val))


def model_of(
    seed: int,
    identity: str,
    outputs: Mapping[str, np.ndarray],
    facts: OwnFacts,
    weights: np.ndarray | None,
    *,
    network: bool = True,
) -> TrainedModel:
    """A model that gives these outputs on val and test; those of a network get the temperature that fits them on val,
    the others are calibrated where they are fitted. Of no worth yet."""
    temperature = 1.0
    if facts.labels and network:
        temperature = fit_temperature(outputs["val/output"], outputs["val/target"].astype(np.int64), True, weights)
    val, test = (_answers(outputs, split, facts, temperature) for split in ("val", "test"))
    raw = outputs.get("test/output") if network else None
    return TrainedModel(seed, identity, val, test, (0.0, 0.0), temperature, raw)


def worth_of(val: Answers, score: float | None) -> tuple[float, float]:
    """What validation compares, of a model's answers to it and their score; None where R² is not a number."""
    scores, known = val.scores, val.labelled.target
    alike = "rmse" in scores and bool((known == known[0]).all())  # R² says nothing of them
    chosen = score if score is not None and not alike else -(scores["rmse"] ** 2)
    return chosen, -scores.get("log_loss", 0.0)


def _answers(outputs: Mapping[str, np.ndarray], split: str, facts: OwnFacts, temperature: float) -> Answers:
    output, target = outputs.get(f"{split}/output"), outputs.get(f"{split}/target")
    if output is None or target is None:
        return Answers(np.zeros(0), np.zeros((0, len(facts.labels)) if facts.labels else 0))
    if facts.labels:
        return Answers(target.astype(np.int64), softmax(output, temperature))
    return Answers(in_own_unit(facts, target.reshape(-1)), in_own_unit(facts, output.reshape(-1)))
