"""Which of the models of a fit is served: by validation, and of models that are hardly apart the simplest."""

from __future__ import annotations

from collections.abc import Sequence

from headstart.core import Row
from headstart.errors import BadInput
from headstart.fit.arms import ranks, without_gradients
from headstart.fitted.outcome import ALIKE, FitCandidate
from headstart.serve.config import ENSEMBLE, NETWORK
from headstart.ways import again, argument


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
    gap = other.lead(first)
    ahead = gap.mean > ALIKE * abs(first.worth) and (gap.low is None or gap.low > 0)
    return other if ahead else first


def of_enough_runs(candidates: Sequence[FitCandidate], *, networks: bool = False) -> list[FitCandidate]:
    """Those that saw at least half of the folds, or seeds, that any of them saw. networks: also of these, which are
    compared on the folds that they saw, however few."""

    def exempt(item: FitCandidate) -> bool:
        return item.row.expected == 1 or (item.is_network and not networks)

    most = max((len(item.models) for item in candidates if not exempt(item)), default=0)
    return [item for item in candidates if exempt(item) or 2 * len(item.models) >= most]


def none_better(best: FitCandidate, constant: FitCandidate) -> bool:
    """Whether the best is ahead of one that answers all alike neither by its score nor by its loss on validation."""

    def ahead(i: int) -> bool:
        own, other = (sum(model.worth[i] for model in item.models) / len(item.models) for item in (best, constant))
        return own - other > ALIKE * abs(other)

    return not ahead(0) and not ahead(1)


def best_of(candidates: Sequence[FitCandidate]) -> FitCandidate:
    """The best on validation, whatever it leads by, of equals the simplest.

    Where the time ended before a network saw every fold, it is compared on those that it saw. An ensemble is the last
    of equals, and what weights in float32 add up to is equal within 1e-6.
    """
    simplest = ranks()
    order = sorted(candidates, key=lambda item: (bool(item.members), simplest.get(item.name, len(simplest))))
    best = order[0]
    for other in order[1:]:
        own, others = best.on_common_runs(other)
        ahead = sum(others) / len(others) - (mean := sum(own) / len(own))
        if ahead > ALIKE * abs(mean):
            best = other
    return best


def to_finish(serve: str, rows: Sequence[Row]) -> str:
    """What would train a model to its end: the same command where runs of it are left, more time where none was
    planned; another model, where all have diverged or failed. rows: of the results."""
    bare = [row for row in rows if not row.n]
    own = [r for r in bare if serve in (r.arm, ENSEMBLE) or (serve == NETWORK and r.arm not in without_gradients())]
    if own and all(row.points[0].runs and not row.unfinished for row in own if row.points):
        return "each run that began has diverged or failed, and would again; name another model"
    return again(more="" if own and serve != ENSEMBLE else argument("time"))


def serving(
    serve: str, best: FitCandidate, candidates: Sequence[FitCandidate], rows: Sequence[Row] = ()
) -> tuple[FitCandidate, FitCandidate | None]:
    """(the candidate that is served, the best network). serve: `auto`, `network` or the name of an arm. rows: of all
    arms.

    Raises: BadInput where it was not trained to its end.
    """
    networks = [candidate for candidate in candidates if candidate.is_network]
    network = winner(networks) if networks else None
    if serve == "auto":
        return best, network
    by_name = {candidate.name: candidate for candidate in candidates} | ({"network": network} if network else {})
    if serve not in by_name:
        raise BadInput(f"{argument('serve')}: {serve!r}, but none was trained to its end; {to_finish(serve, rows)}")
    asked = by_name[serve]
    return asked, asked if asked.is_network else network
