"""A weighted average of models: chosen by what each answers to rows that it was not fitted on; a model more, untrained.

Greedy selection with replacement (Caruana et al. 2004) of the models whose average has the least loss on these rows, on
bootstrap samples of them; the weight of a model is its share of all choices, and models of little weight are left out.
It serves where its loss on all these rows is below that of the best single model by a margin clear of chance: on ten
choosing sets (docs/benchmarks/fit-members.md) log-loss fell by 0.008 [0.001, 0.015], accuracy rose by 0.004 [-0.002,
0.010], with the models that a fit has where the time suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headstart.baselines.average import choose_average
from headstart.baselines.measures import heated
from headstart.core import Results
from headstart.errors import BadInput
from headstart.fit.arms import constant_names
from headstart.fit.candidates import test_means, worth_of
from headstart.fit.choice import best_of, of_enough_runs, to_finish, winner
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.serve.config import ENSEMBLE
from headstart.text import listed
from headstart.ways import argument

METRICS = ("accuracy", "weighted_accuracy", "r2")
"""What an average can be chosen by; the loss of a network is none of its answers."""


@dataclass(frozen=True)
class Blend:
    """Names of models and their shares, the largest first, which add up to 1; and the temperature of the average."""

    names: tuple[str, ...]
    shares: tuple[float, ...]
    temperature: float = 1.0


def with_ensemble(
    results: Results, candidates: Sequence[FitCandidate], weights: np.ndarray, *, asked: bool = False
) -> tuple[Results, list[FitCandidate], FitCandidate | None]:
    """Results and candidates with the ensemble as the last of both, and the ensemble; None, and no such line, where one
    model has all of the weight, nothing is gained over a single model, or nothing can be averaged.

    Each of its models averages the answers of models of the same seed, and so of the same fold; its scores are of the
    stored answers. weights (K,): of the classes, empty where they weigh the same.
    Raises: BadInput where it was asked for and there is none.
    """
    # Of a model that answers all alike an average says nothing new.
    simple = [item for item in candidates if not item.is_network and item.name not in constant_names()]
    networks = [item for item in candidates if item.is_network]
    pool = of_enough_runs([*simple, *([best_of(networks)] if networks else [])], networks=True)
    metric, why = results.table[0].metric, ""
    if metric not in METRICS:
        why = f"models are chosen by {metric!r}, which an average does not have; leave that setting out"
    elif len(pool) < 2 or not (runs := _common_runs(pool)):
        why = f"fewer than two were trained to their end on the same rows; {to_finish(ENSEMBLE, results.table)}"
    else:
        blend = chosen_blend(pool, runs, weights, pool.index(winner(pool)), results.folds, asked=asked)
        if blend is not None:
            results, average = _candidate(results, pool, runs, blend, weights)
            return results, [*candidates, average], average
    if asked:
        raise BadInput(f"{argument('serve')}: {ENSEMBLE!r} averages models, and {why}")
    return results, list(candidates), None


def _draws_nothing(item: FitCandidate) -> bool:
    """It is one for all seeds, on rows that all runs share."""
    return item.row.expected == 1


def _common_runs(pool: Sequence[FitCandidate]) -> list[tuple[TrainedModel, ...]]:
    """The models of the pool, in its order, of each seed that all have."""
    drawn = [item for item in pool if not _draws_nothing(item)] or list(pool)
    seeds = [model.seed for model in drawn[0].models if all(model.seed in _seeds(item) for item in drawn)]
    return [tuple(item.models[0] if _draws_nothing(item) else _seeds(item)[seed] for item in pool) for seed in seeds]


def _seeds(item: FitCandidate) -> dict[int, TrainedModel]:
    return {model.seed: model for model in item.models}


def chosen_blend(
    pool: Sequence[FitCandidate],
    runs: Sequence[tuple[TrainedModel, ...]],
    weights: np.ndarray,
    single: int,
    folds: int,
    *,
    asked: bool,
) -> Blend | None:
    """The average of the pool, chosen on the validation rows of these runs; None where it does not gain clearly over
    the model number `single`, unless it was asked for. Without folds all runs have the same rows."""
    answers = [[(model.last or model).val.labelled for model in run] for run in runs]
    target = np.concatenate([each[0].target for each in answers])
    predicted = [np.concatenate([each[i].predicted for each in answers]) for i in range(len(pool))]
    chosen = choose_average(predicted, target, weights, single, 1 if folds > 1 else len(runs), asked=asked)
    return None if chosen is None else Blend(tuple(pool[i].name for i in chosen[0]), *chosen[1:])


def _blended(members: Sequence[TrainedModel], shares: Sequence[float], like: TrainedModel) -> TrainedModel:
    """The average of these, of the seed, the worth and the temperature of another."""
    val, test = (_average([getattr(m, split) for m in members], shares, like.temperature) for split in ("val", "test"))
    first = members[0]
    return TrainedModel(like.seed, first.identity, val, test, like.worth, like.temperature, members=tuple(members))


def _average(answers: Sequence[Answers], shares: Sequence[float], temperature: float) -> Answers:
    target = answers[0].target
    same = all(np.array_equal(each.target, target, equal_nan=target.dtype.kind == "f") for each in answers)
    assert same, "all answer the same rows in their order"
    average = np.tensordot(shares, [each.predicted for each in answers], axes=1)
    return Answers(target, heated(average, temperature) if average.ndim == 2 else average)


def _candidate(
    results: Results,
    pool: Sequence[FitCandidate],
    runs: Sequence[tuple[TrainedModel, ...]],
    blend: Blend,
    weights: np.ndarray,
) -> tuple[Results, FitCandidate]:
    at = [[item.name for item in pool].index(name) for name in blend.names]
    drawn = max((item.row for item in pool), key=lambda row: row.expected)
    models, scores = list[TrainedModel](), list[tuple[int, str, float | None, float | None]]()
    for run in runs:
        members = [run[i] for i in at]
        seed = max(model.seed for model in run)  # one that draws nothing has the first
        plain = replace(members[0], seed=seed, temperature=blend.temperature)
        model, judged = (_blended(x, blend.shares, plain) for x in (members, [m.last or m for m in members]))
        val, test = (answers.labelled.score(drawn.metric, weights) for answers in (judged.val, model.test))
        worth = worth_of(judged.val, val)
        models.append(replace(model, worth=worth, last=replace(judged, worth=worth)))
        scores.append((seed, model.identity, val, test))
    results, row = results.with_arm(ENSEMBLE, drawn, scores)
    what = "calibrated probabilities" if models[0].val.predicted.ndim == 2 else "predictions"
    parts = [f"{name} ({share:.2f})" for name, share in zip(blend.names, blend.shares, strict=True)]
    text = f"the weighted average of the {what} of {listed(parts)}"
    made = FitCandidate(row, text, test_means(models), tuple(models), blend.names, shares=blend.shares)
    return results, made
