"""The models of a fit side by side: every arm of its study at the settings that validation chose, and its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headstart.baselines.measures import fit_temperature, scores_of, softmax
from headstart.fit.outcome import Answers, Candidate, TrainedModel
from headstart.store import Store
from headstart.study.results import Results, Row, Run
from headstart.study.statistics import Estimate, estimate
from headstart.tasks.own import OwnFacts

SIMPLEST = ("majority", "summary", "kernels", "scratch", "self_pretrained")
"""Arms, the simplest first: of models with equal validation scores the first of these is taken."""
NETWORKS = {"scratch": "network, from random weights", "self_pretrained": "network, self-pretrained on the sequences"}
"""Arms that are networks, in words."""
WITHOUT_GRADIENTS = {
    "numbers": {
        "kernels": "random convolution kernels with ridge",
        "summary": "a linear model of summary features",
        "majority": "shares of the classes, or the mean",
    },
    "tokens": {
        "kernels": "a linear model of n-grams",
        "summary": "a linear model of single symbols and pairs",
        "majority": "shares of the classes, or the mean",
    },
}
"""The other arms in words, by what the sequences hold."""


def candidates_of(results: Results, store: Store, facts: OwnFacts, balanced: bool = False) -> list[Candidate]:
    """One candidate per arm with a finished run, at the settings that validation chose.

    balanced: temperatures of networks are fitted as if all classes were equally frequent.
    """
    counts = np.array(facts.counts, dtype=np.float64)
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1)) if balanced and len(counts) else None
    texts = {**NETWORKS, **WITHOUT_GRADIENTS["numbers" if facts.kind == "numbers" else "tokens"]}
    out = []
    for row in results.table:
        # Where all validation targets are equal R² is no number, and nothing is chosen: the first setting stands.
        runs = row.runs or (row.points[0].runs if row.points else ())
        # A model that draws no random numbers is one stage for all seeds.
        distinct = {run.stages[-1][1]: run for run in reversed(runs) if run.status == "complete"}
        models = tuple(_model(run, row.arm, store, facts, weights) for run in reversed(distinct.values()))
        if models:
            out.append(_candidate(row, texts[row.arm], models))
    return out


def winner(candidates: Sequence[Candidate]) -> Candidate:
    """The best on validation, by the mean over its seeds; of equals the simplest."""
    order = sorted(candidates, key=lambda candidate: SIMPLEST.index(candidate.name))
    return max(order, key=lambda candidate: candidate.worth)


def measured(answers: Answers) -> dict[str, float]:
    """Every measure of a split; none of an empty one."""
    if not len(answers.target):
        return {}
    classes = answers.predicted.shape[1] if answers.predicted.ndim == 2 else 0
    return scores_of(answers.target, answers.predicted, classes)


def _candidate(row: Row, text: str, models: tuple[TrainedModel, ...]) -> Candidate:
    tests = [measured(model.test) for model in models]
    more = {name: value for name in tests[0] if (value := _over(tests, name)) is not None}
    return Candidate(
        row.arm,
        text,
        len(models),
        _of_distinct(row.val, models),
        _of_distinct(row.test, models),
        more,
        row.chosen,
        row.difference,
        row.budget.get("seconds", 0.0),
        models,
    )


def _of_distinct(value: Estimate | None, models: tuple[TrainedModel, ...]) -> Estimate | None:
    """The estimate without a spread that only counts one model several times: one that draws no random numbers."""
    return estimate([value.mean]) if value is not None and len(models) == 1 else value


def _over(scores: Sequence[Mapping[str, float]], name: str) -> Estimate | None:
    values = [split[name] for split in scores if name in split and np.isfinite(split[name])]
    return estimate(values) if values else None


def _model(run: Run, arm: str, store: Store, facts: OwnFacts, weights: np.ndarray | None) -> TrainedModel:
    identity = run.stages[-1][1]
    outputs = {name: tensor.numpy() for name, tensor in store.predictions(identity).items()}
    temperature = 1.0
    if facts.labels and arm in NETWORKS:  # the others are calibrated where they are fitted
        temperature = fit_temperature(outputs["val/output"], outputs["val/target"].astype(np.int64), True, weights)
    val, test = (_answers(outputs, split, facts, temperature) for split in ("val", "test"))
    raw = outputs.get("test/output") if arm in NETWORKS else None
    scores = measured(val)
    worth = (run.val if run.val is not None else -(scores["rmse"] ** 2), -scores.get("log_loss", 0.0))
    return TrainedModel(run.seed, identity, val, test, worth, temperature, raw)


def _answers(outputs: Mapping[str, np.ndarray], split: str, facts: OwnFacts, temperature: float) -> Answers:
    output, target = outputs.get(f"{split}/output"), outputs.get(f"{split}/target")
    if output is None or target is None:
        return Answers(np.zeros(0), np.zeros((0, len(facts.labels)) if facts.labels else 0))
    if facts.labels:
        return Answers(target.astype(np.int64), softmax(output, temperature))
    return Answers(own_unit(target.reshape(-1), facts), own_unit(output.reshape(-1), facts))


def own_unit(numbers: np.ndarray, facts: OwnFacts) -> np.ndarray:
    """(n,) numbers as a task scales them, in the target's own unit."""
    if facts.low is None or facts.high is None:
        return numbers.astype(np.float64)
    return (numbers.astype(np.float64) + 1) / 2 * (facts.high - facts.low) + facts.low
