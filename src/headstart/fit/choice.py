"""Which single model of a fit is the best on validation, and which is served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headstart.errors import BadInput
from headstart.fit.arms import ranks
from headstart.fitted.outcome import ALIKE, FitCandidate
from headstart.ways import again, argument


def best_of(candidates: Sequence[FitCandidate]) -> FitCandidate:
    """The best on validation, whatever it leads by, of equals the simplest.

    Where the time ended before a network saw every fold, it is compared on those that it saw. What weights in float32
    add up to is equal within 1e-6.
    """
    simplest = ranks()
    order = sorted(candidates, key=lambda item: simplest.get(item.name, len(simplest)))
    best = order[0]
    for other in order[1:]:
        own, others = best.on_common_runs(other)
        ahead = sum(others) / len(others) - (mean := sum(own) / len(own))
        if ahead > ALIKE * abs(mean):
            best = other
    return best


def none_better(best: FitCandidate, constant: FitCandidate) -> bool:
    """Whether the best is ahead of one that answers all alike neither by its score nor by its loss on validation."""

    def ahead(i: int) -> bool:
        own, other = (float(np.mean([model.worth[i] for model in item.models])) for item in (best, constant))
        return own - other > ALIKE * abs(other)

    return not ahead(0) and not ahead(1)


def serving(
    serve: str, best: FitCandidate, candidates: Sequence[FitCandidate]
) -> tuple[FitCandidate, FitCandidate | None]:
    """(the candidate that is served, the best network). serve: `auto`, `network` or the name of an arm.

    Raises: BadInput where it was not trained to its end.
    """
    networks = [candidate for candidate in candidates if candidate.is_network]
    network = best_of(networks) if networks else None
    if serve == "auto":
        return best, network
    by_name = {candidate.name: candidate for candidate in candidates} | ({"network": network} if network else {})
    if serve not in by_name:
        raise BadInput(f"{argument('serve')}: {serve!r}, but none was trained to its end; {again()}")
    asked = by_name[serve]
    return asked, asked if asked.is_network else network
