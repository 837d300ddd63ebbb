"""A weighted average of models: chosen by what each answers to rows that it was not fitted on; a model more, untrained.

Greedy selection with replacement (Caruana et al. 2004) of the models whose average has the least loss on these rows, on
bootstrap samples of them; the weight of a model is its share of all choices, and models of little weight are left out.
On choosing sets (docs/benchmarks/fit-members.md) it lowered log-loss by 0.012 [0.001, 0.023] at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headstart.baselines.average import LEAST_MEMBER, LEAST_TRUE, greedy_shares
from headstart.baselines.measures import fit_temperature, heated
from headstart.core import Results
from headstart.errors import BadInput
from headstart.fit.arms import constant_names
from headstart.fit.candidates import test_means, worth_of
from headstart.fit.choice import best_of
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.serve.config import ENSEMBLE
from headstart.text import listed
from headstart.ways import again, argument

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
    """Results and candidates with the ensemble as the last of both, and what serves by it: the ensemble; the one model
    that has all of the weight, without an ensemble; None where nothing can be averaged.

    Each of its models averages the answers of models of the same seed, and so of the same fold; its scores are of the
    stored answers. weights (K,): of the classes, empty where they weigh the same.
    Raises: BadInput where it was asked for and there is none.
    """
    # Of a model that answers all alike an average says nothing new.
    simple = [item for item in candidates if not item.is_network and item.name not in constant_names()]
    networks = [item for item in candidates if item.is_network]
    pool = [*simple, *([best_of(networks)] if networks else [])]
    metric, why, serves = results.table[0].metric, "", None
    if metric not in METRICS:
        why = f"models are chosen by {metric!r}, which an average does not have; leave that setting out"
    elif len(pool := _comparable(pool)) < 2:
        why = f"fewer than two were trained to their end on the same rows; {again(more=argument('time'))}"
    else:
        runs = _common_runs(pool)
        blend = chosen_blend(pool, runs, weights, least=2 if asked else 1)
        if len(blend.names) > 1:
            results, serves = _candidate(results, pool, runs, blend, weights)
            return results, [*candidates, serves], serves
        serves = next(item for item in pool if item.name == blend.names[0])
    if asked:
        raise BadInput(f"{argument('serve')}: {ENSEMBLE!r} averages models, and {why}")
    return results, list(candidates), serves


def _comparable(pool: Sequence[FitCandidate]) -> list[FitCandidate]:
    """Those that saw at least half of the folds, or seeds, that any saw, and at least one that all of these saw."""
    most = max((len(item.models) for item in pool), default=0)
    enough = [item for item in pool if _draws_nothing(item) or 2 * len(item.models) >= most]
    return enough if enough and _common_runs(enough) else []


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
    pool: Sequence[FitCandidate], runs: Sequence[tuple[TrainedModel, ...]], weights: np.ndarray, least: int = 1
) -> Blend:
    """The average of the pool, chosen on the validation rows of these runs. least: models that it has in any case."""
    answers = [[model.val.labelled for model in run] for run in runs]
    target = np.concatenate([each[0].target for each in answers])
    predicted = [np.concatenate([each[i].predicted for each in answers]) for i in range(len(pool))]
    classes = predicted[0].ndim == 2
    each = weights[target] if classes and len(weights) else np.ones(len(target))
    # A loss of an average needs no more of a row than the true class's probability, or the error.
    rows = np.arange(len(target))
    columns = np.stack([p[rows, target] if classes else p - target for p in predicted], axis=1)
    shares = greedy_shares(columns, each, classes)
    order = np.argsort(-shares, kind="stable").tolist()
    chosen = [i for number, i in enumerate(order) if shares[i] >= LEAST_MEMBER or number < least]
    rest = np.maximum(shares[chosen], LEAST_MEMBER)
    parts, hot = tuple(float(share) for share in rest / rest.sum()), 1.0
    if classes and len(chosen) > 1:
        average = np.tensordot(parts, [predicted[i] for i in chosen], axes=1)
        scores = np.log(np.maximum(average, LEAST_TRUE))
        hot = fit_temperature(scores, target, True, weights if len(weights) else None)
    return Blend(tuple(pool[i].name for i in chosen), parts, hot)


def blended(members: Sequence[TrainedModel], shares: Sequence[float], like: TrainedModel) -> TrainedModel:
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
        model = blended(members, blend.shares, plain)
        val, test = (_score(answers.labelled, drawn.metric, weights) for answers in (model.val, model.test))
        models.append(replace(model, worth=worth_of(model.val, val)))
        scores.append((seed, model.identity, val, test))
    results, row = results.with_arm(ENSEMBLE, drawn, scores)
    what = "calibrated probabilities" if models[0].val.predicted.ndim == 2 else "predictions"
    parts = [f"{name} ({share:.2f})" for name, share in zip(blend.names, blend.shares, strict=True)]
    text = f"the weighted average of the {what} of {listed(parts)}"
    made = FitCandidate(row, text, test_means(models), tuple(models), blend.names, shares=blend.shares)
    return results, made


def _score(answers: Answers, metric: str, weights: np.ndarray) -> float | None:
    """The score by which networks are chosen; None where there is no row, or it is not a number."""
    if metric == "weighted_accuracy" and len(answers.target):
        right, each = answers.predicted.argmax(1) == answers.target, weights[answers.target]
        return float(each[right].sum() / max(each.sum(), 1e-12))
    score = answers.scores.get(metric)
    return score if score is not None and np.isfinite(score) else None
