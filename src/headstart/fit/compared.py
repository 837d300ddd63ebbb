"""What validation makes of the finished runs: the models that could be served, the best of them, and what serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from headstart.fit.arms import ARMS
from headstart.fit.choice import serving, winner
from headstart.fit.ensemble import with_ensemble
from headstart.fit.known import Known
from headstart.fit.outcome import Candidate, candidates_of
from headstart.fit.settings import FitSettings
from headstart.serve.config import ENSEMBLE
from headstart.store import Store
from headstart.study.results.results import Results
from headstart.tasks.own import OwnFacts


class Compared(NamedTuple):
    """results: of the study, with the ensemble. candidates: in the order of their table. best: on validation. serves:
    the same, or what was asked for. network: the best one, None where there is none."""

    results: Results
    candidates: list[Candidate]
    best: Candidate
    serves: Candidate
    network: Candidate | None


def compared(
    results: Results, store: Store, facts: OwnFacts, settings: FitSettings, known: Known, arms: Mapping[str, Any]
) -> Compared:
    """The models of the results, and which of them serves. arms: of the study.

    Raises: BadInput where what was asked for was not trained to its end.
    """
    texts = {name: text for arm in ARMS.values() for name, text in arm.texts(known, settings, arms).items()}
    candidates = candidates_of(results, store, facts, settings.balanced, texts)
    asked = settings.serve == ENSEMBLE
    results, candidates = with_ensemble(results, candidates, np.array(known.weights), asked=asked)
    best = winner(candidates)
    return Compared(results, candidates, best, *serving(settings.serve, best, candidates))
