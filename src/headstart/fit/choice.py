"""Which of the models of a fit is served: by validation, and of models that are hardly apart the simplest."""

from __future__ import annotations

from collections.abc import Sequence

from headstart.errors import BadInput
from headstart.fit.arms import ranks
from headstart.fit.outcome import FitCandidate
from headstart.statistics import Difference, difference, unpaired_difference
from headstart.ways import again, argument

ALIKE = 1e-6
"""Scores that differ by no more, as a share of them, are equal."""


def winner(candidates: Sequence[FitCandidate]) -> FitCandidate:
    """The best on validation, by the mean over the seeds that two models share; of equals the simplest.

    A network, or an ensemble with one, has to lead the best model without clearly: the 95 % interval of its lead over
    seeds or folds lies above 0, where there are two. Validation rows are few, and the best of several networks is the
    luckiest, too.
    """
    simple = [item for item in candidates if not (item.is_network or item.members)]
    others = [item for item in candidates if item.is_network or item.members]
    if not (simple and others):
        return best_of(candidates)
    first, other = best_of(simple), best_of(others)
    gap = lead(other, first)
    ahead = gap.mean > ALIKE * abs(first.worth) and (gap.low is None or gap.low > 0)
    return other if ahead else first


def lead(first: FitCandidate, other: FitCandidate) -> Difference:
    """What the first is ahead by on validation, with its interval over seeds or folds (none for one)."""
    own, others = on_common_runs(first, other)
    if 1 in (len(own), len(others)):  # a model that draws nothing is one for all seeds
        number = max(len(own), len(others))
        own, others = (side * number if len(side) == 1 else side for side in (own, others))
    compare = difference if len(own) == len(others) else unpaired_difference
    gap = compare(dict(enumerate(own)), dict(enumerate(others)))
    assert gap is not None, "both have runs"
    return gap


def best_of(candidates: Sequence[FitCandidate]) -> FitCandidate:
    """The best on validation, whatever it leads by, of equals the simplest.

    Where the time ended before a network saw every fold, it is compared on those that it saw. An ensemble is the last
    of equals, and what weights in float32 add up to is equal within 1e-6.
    """
    simplest = ranks()
    order = sorted(candidates, key=lambda item: (bool(item.members), simplest.get(item.name, len(simplest))))
    best = order[0]
    for other in order[1:]:
        own, others = on_common_runs(best, other)
        ahead = sum(others) / len(others) - (mean := sum(own) / len(own))
        if ahead > ALIKE * abs(mean):
            best = other
    return best


def on_common_runs(first: FitCandidate, other: FitCandidate) -> tuple[list[float], list[float]]:
    """What validation compares of two: of each seed that both have, in the same order, else all that there is."""
    # A model that draws nothing, on rows that all runs share, is one for all seeds.
    several = first.row.expected > 1 and other.row.expected > 1
    values = [{model.seed: model.worth[0] for model in item.models} for item in (first, other)]
    seeds = [seed for seed in values[0] if seed in values[1]] if several else []
    own, others = ([side[seed] for seed in seeds] if seeds else list(side.values()) for side in values)
    return own, others


def serving(
    serve: str, best: FitCandidate, candidates: Sequence[FitCandidate]
) -> tuple[FitCandidate, FitCandidate | None]:
    """(the candidate that is served, the best network). serve: `auto`, `network` or the name of an arm.

    Raises: BadInput where it was not trained to its end.
    """
    networks = [candidate for candidate in candidates if candidate.is_network]
    network = winner(networks) if networks else None
    if serve == "auto":
        return best, network
    by_name = {candidate.name: candidate for candidate in candidates} | ({"network": network} if network else {})
    if serve not in by_name:
        raise BadInput(f"{argument('serve')}: {serve!r}, but none was trained to its end; {again()}")
    asked = by_name[serve]
    return asked, asked if asked.is_network else network
