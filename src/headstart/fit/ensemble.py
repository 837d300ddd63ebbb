"""The average of the best network and the best model without gradients: a model more that may be served, untrained.

On validation rows of choosing sets (benchmarks/fit_against.toml, train rows alone, 4 to 5 minutes of a busy core) it
was chosen on none of four. Accuracy of it, of the best network and of kernels: 0.870, 0.900 and 0.880 on ECG200; 0.759,
0.826 and 0.795 on ArrowHead, four folds of five; 0.978, 0.994 and 0.978 on SyntheticControl; 0.950, 0.781 and 0.956 on
OSULeaf, four folds. So it is a candidate that validation may choose, and never the default by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headstart.core import Results
from headstart.errors import BadInput
from headstart.fit.arms import constant_names
from headstart.fit.candidates import test_means, worth_of
from headstart.fit.choice import winner
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.serve.config import ENSEMBLE
from headstart.ways import again, argument

METRICS = ("accuracy", "weighted_accuracy", "r2")
"""What an average can be chosen by; the loss of a network is none of its answers."""


def with_ensemble(
    results: Results, candidates: Sequence[FitCandidate], weights: np.ndarray, *, asked: bool = False
) -> tuple[Results, list[FitCandidate]]:
    """Results and candidates with the ensemble as the last of both, where there is one.

    Each of its models averages the answers of a network and of a model without gradients of the same seed, and so of
    the same fold; its scores are of the stored answers. weights (K,): of the classes, empty where they weigh the same.
    Raises: BadInput where it was asked for and there is none.
    """
    networks = [item for item in candidates if item.is_network]
    # Of a model that answers all alike an average says nothing new.
    others = [item for item in candidates if not item.is_network and item.name not in constant_names()]
    metric, way = results.table[0].metric, again(more=argument("time"))
    if not networks or not others:
        lack = "model without a network" if networks else "network"
        why = f"no {lack} was trained to its end; {way}"
    elif metric not in METRICS:
        why = f"models are chosen by {metric!r}, which an average does not have; leave that setting out"
    elif not (pairs := _pairs(winner(networks), winner(others))):
        why = f"both were trained to their end on no common fold; {way}"
    else:
        results, candidate = _candidate(results, winner(networks), winner(others), pairs, weights)
        return results, [*candidates, candidate]
    if asked:
        raise BadInput(f"{argument('serve')}: {ENSEMBLE!r} averages a network and a model without one, and {why}")
    return results, list(candidates)


def _pairs(network: FitCandidate, other: FitCandidate) -> list[TrainedModel]:
    """The average at each seed that both have; a model that draws nothing is one for all seeds."""
    common = other.row.expected == 1 < network.row.expected
    return [
        pair_of(first, second, (0.0, 0.0))
        for first in network.models
        for second in other.models
        if common or first.seed == second.seed
    ]


def pair_of(network: TrainedModel, other: TrainedModel, worth: tuple[float, float]) -> TrainedModel:
    """The average of the two."""
    val, test = _average(network.val, other.val), _average(network.test, other.test)
    return TrainedModel(network.seed, network.identity, val, test, worth, members=(network, other))


def _average(first: Answers, second: Answers) -> Answers:
    same = np.array_equal(first.target, second.target, equal_nan=first.target.dtype.kind == "f")
    assert same, "both answer the same rows in their order"
    return Answers(first.target, (first.predicted + second.predicted) / 2)


def _candidate(
    results: Results, network: FitCandidate, other: FitCandidate, pairs: Sequence[TrainedModel], weights: np.ndarray
) -> tuple[Results, FitCandidate]:
    metric, models = network.row.metric, list[TrainedModel]()
    scores = list[tuple[int, str, float | None, float | None]]()
    for pair in pairs:
        val, test = (_score(answers.labelled, metric, weights) for answers in (pair.val, pair.test))
        models.append(replace(pair, worth=worth_of(pair.val, val)))
        scores.append((pair.seed, pair.identity, val, test))
    results, row = results.with_arm(ENSEMBLE, network.row, scores)
    what = "calibrated probabilities" if pairs[0].val.predicted.ndim == 2 else "predictions"
    text = f"the average of the {what} of {network.name} and {other.name}"
    return results, FitCandidate(row, text, test_means(models), tuple(models), (network.name, other.name))


def _score(answers: Answers, metric: str, weights: np.ndarray) -> float | None:
    """The score by which networks are chosen; None where there is no row, or it is not a number."""
    if metric == "weighted_accuracy" and len(answers.target):
        right, each = answers.predicted.argmax(1) == answers.target, weights[answers.target]
        return float(each[right].sum() / max(each.sum(), 1e-12))
    score = answers.scores.get(metric)
    return score if score is not None and np.isfinite(score) else None
