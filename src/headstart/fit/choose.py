"""The third step of a fit: what validation makes of the finished runs, and what serves, fitted again on all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headstart.core import Event, Plan, Results, Runtime, perform, results_on_task
from headstart.fit.again import Again, planned_again
from headstart.fit.arms import arms, constant_names
from headstart.fit.candidates import candidates_of
from headstart.fit.choice import none_better, of_enough_runs, serving, winner
from headstart.fit.ensemble import with_ensemble
from headstart.fit.prepared import Fit
from headstart.fitted.outcome import FitCandidate
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
    """The models of the finished runs, and which of them serves.

    Raises: BadInput where what was asked for was not trained to its end.
    """
    settings, basis = fit.settings, fit.basis
    planned = study.study.arms
    wanted = [arm for arm in arms().values() if arm.wanted(basis, settings)]
    texts = {name: text for arm in wanted for name, text in arm.texts(basis, settings, planned).items()}
    results = results_of(fit, study)
    candidates = candidates_of(results, fit.store, fit.facts, settings.balanced, texts)
    asked = settings.serve == ENSEMBLE
    results, candidates, average = with_ensemble(results, candidates, np.array(basis.class_weights), asked=asked)
    best = average or winner(of_enough_runs([item for item in candidates if not item.members]))
    constant = next((item for item in candidates if item.name in constant_names()), None)
    if constant is not None and none_better(best, constant):
        best = constant
    return Chosen(results, tuple(candidates), best, *serving(settings.serve, best, candidates, results.table))


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
