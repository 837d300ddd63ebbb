"""The third step of a fit: what validation makes of the finished runs, and what serves, fitted again on all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headstart.core import Event, FinishedStage, Plan, Results, Runtime, perform, results_on_task
from headstart.fit.again import Again, planned_again
from headstart.fit.arms import arms, constant_names
from headstart.fit.candidates import candidates_of, model_of, weights_of, worth_of
from headstart.fit.choice import none_better, of_enough_runs, serving, winner
from headstart.fit.ensemble import with_ensemble
from headstart.fit.prepared import Fit
from headstart.fitted.outcome import FitCandidate, TrainedModel
from headstart.serve.config import ENSEMBLE

Listener = Callable[[str | Event], None]
"""Hears a line before something takes long, and every event of the runner."""


class Piece(str):
    """A line that names what begins; seconds: that it should take (0: nobody knows)."""

    seconds: float = 0.0


def unheard(word: str | Event) -> None:
    """Hears nothing."""


@dataclass(frozen=True)
class Chosen:
    """What was chosen."""

    results: Results
    """Of the study, with the ensemble."""
    candidates: tuple[FitCandidate, ...]
    """The models that could be served, in the order of their table."""
    best: FitCandidate
    """On validation."""
    serves: FitCandidate
    """The same, or what was asked for."""
    network: FitCandidate | None
    """The best network, None where there is none."""
    again: Again | None = None
    """What was fitted again on train and validation; None where nothing was."""
    alone: str = ""
    """Why nothing was fitted again."""


def results_of(fit: Fit, study: Plan) -> Results:
    """The results of the study so far. A model that answers all alike is the baseline that others are held against."""
    return results_on_task(study, fit.store, fit.task, constant_names())


def compare(fit: Fit, study: Plan) -> Chosen:
    """The models of the finished runs, and which serves: a network by its last weights, as the second fit has them.

    Raises: BadInput where what was asked for was not trained to its end.
    """
    settings, basis = fit.settings, fit.basis
    planned = study.study.arms
    wanted = [arm for arm in arms().values() if arm.wanted(basis, settings)]
    texts = {name: text for arm in wanted for name, text in arm.texts(basis, settings, planned).items()}
    results = results_of(fit, study)
    candidates = candidates_of(results, fit.store, fit.facts, settings.balanced, texts)
    asked = settings.serve == ENSEMBLE
    constant = next((item for item in candidates if item.name in constant_names()), None)
    while True:
        after, every, average = with_ensemble(results, candidates, np.array(basis.class_weights), asked=asked)
        best = average or winner(of_enough_runs(candidates))
        if constant is not None and none_better(best, constant):
            best = constant
        serves, network = serving(settings.serve, best, every, after.table)
        names = {**best.parts(), **serves.parts()}
        new = [x.name for x in candidates if x.is_network and x.name in names and x.models[0].last is None]
        if not new:
            return Chosen(after, tuple(every), best, serves, network)
        candidates = [_by_last_weights(fit, item) if item.name in new else item for item in candidates]


def _by_last_weights(fit: Fit, network: FitCandidate) -> FitCandidate:
    """A network of the worth of its last weights on validation, whose rows chose its best ones and no other model."""
    weights, models = weights_of(fit.facts, fit.settings.balanced), list[TrainedModel]()
    for model in network.models:
        outputs = FinishedStage.opened(fit.store, model.identity, fit.data).outputs_at_last(fit.device)
        last = model if outputs is None else model_of(model.seed, model.identity, outputs, fit.facts, weights)
        score = last.val.labelled.score(network.row.metric, np.array(fit.basis.class_weights))
        last = replace(last, worth=model.worth if score is None else worth_of(last.val, score))
        models.append(replace(model, worth=last.worth, last=last))
    return replace(network, models=tuple(models))


def choose(fit: Fit, study: Plan, on: Listener = unheard, threads: int = 1) -> Chosen:
    """Compare, and fit what serves on train and validation together, where the time suffices: nothing is left to
    choose then. Raises: BadInput where what is to be served was not trained to its end."""
    chosen = compare(fit, study)
    again, left = planned_again(study, chosen.serves, fit.store), fit.rest
    alone = again.obstacle(left, 0.0 if left is None else left + fit.spent - fit.ready)
    if not alone:
        if again.seconds:
            piece = Piece(again.text)
            piece.seconds = again.seconds
            on(piece)
        runtime = Runtime(fit.data, fit.device, 0, threads, limit=left)
        for event in perform(again.stages, fit.store, runtime):
            on(event)
        alone = "" if again.complete(fit.store) else "this was not done to its end"
    return replace(chosen, again=None if alone else again, alone=alone)
