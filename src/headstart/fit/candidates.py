"""The models that could be served: each arm's finished runs as validation chose them, with what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headstart.baselines.measures import fit_temperature, softmax
from headstart.core import Results, Store
from headstart.fit.arms import without_gradients
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.serve.model import in_own_unit
from headstart.statistics import Estimate, estimate
from headstart.tasks.own import OwnFacts


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
            network = row.arm not in without_gradients()
            out.append(FitCandidate(row, texts[row.arm], test_means(models), models, is_network=network))
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
    scores, target = val.scores, val.labelled.target
    alike = "rmse" in scores and bool((target == target[0]).all())  # R² says nothing of them
    chosen = score if score is not None and not alike else -(scores["rmse"] ** 2)
    return chosen, -scores.get("log_loss", 0.0)


def _answers(outputs: Mapping[str, np.ndarray], split: str, facts: OwnFacts, temperature: float) -> Answers:
    output, target = outputs.get(f"{split}/output"), outputs.get(f"{split}/target")
    if output is None or target is None:
        return Answers(np.zeros(0), np.zeros((0, len(facts.labels)) if facts.labels else 0))
    if facts.labels:
        return Answers(target.astype(np.int64), softmax(output, temperature))
    return Answers(in_own_unit(facts, target.reshape(-1)), in_own_unit(facts, output.reshape(-1)))
