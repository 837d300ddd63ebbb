"""What serves, fitted again on train and validation together: stages of the arm `served`, with nothing left to choose.

Each takes what validation chose (the seed, the rate, the penalty) from the best run of its arm, and a network as many
steps as that run was given, to its last weights: the schedule of the rate is the same, and has come to its end. A
self-pretrained network starts from the pretraining of that run, which saw the sequences of its train split alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headstart import ways
from headstart.core import FinishedStage, Plan, PlannedStage, Store
from headstart.fitted.outcome import FitCandidate
from headstart.text import listed

SERVED = "served"
"""The arm of what is fitted again; of an ensemble that of its first model, beside `served_NAME` of each other."""


@dataclass(frozen=True)
class Again:
    """What is fitted again.

    chains: by the arm of the model whose place it takes, a stage and before it what it starts from. arms: tables of the
    study that they are of. seconds: that those which are not there yet take, as long as they took on train alone.
    by_validation: a network among them would stop by it, so that nothing is fitted again. of_part: nor is what learnt
    from a part of train alone.
    """

    chains: Mapping[str, tuple[PlannedStage, ...]]
    arms: Mapping[str, Mapping[str, Any]]
    seconds: float
    by_validation: bool = False
    of_part: bool = False

    @property
    def text(self) -> str:
        """What is done."""
        are = "is" if len(self.chains) == 1 else "are"
        return f"{listed(list(self.chains))} {are} fitted again on train and validation together ..."

    def obstacle(self, left: float | None, whole: float) -> str:
        """Why it is not done, with so many seconds left of the whole; empty where it is."""
        if self.by_validation:
            return "its training ends by validation (budget.patience)"
        if self.of_part:
            return "it learnt from a part of train, as the time and the memory leave no room for more"
        if left is None or self.seconds <= left:
            return ""
        return f"the time was over; to do it, {ways.again('' if self.seconds <= whole else ways.argument('time'))}"

    @property
    def stages(self) -> list[PlannedStage]:
        """All of them, parents first."""
        return [stage for chain in self.chains.values() for stage in chain]

    @property
    def identities(self) -> dict[str, str]:
        """Of the last stages, by the arm of the model whose place each takes."""
        return {name: chain[-1].identity for name, chain in self.chains.items()}

    def complete(self, store: Store) -> bool:
        """Whether all are finished, and none has diverged."""
        return all(store.status(identity) == "complete" for identity in self.identities.values())


def planned_again(plan: Plan, serves: FitCandidate, store: Store) -> Again:
    """What has to be fitted so that `serves` has seen validation too.

    plan: of the study whose runs were chosen from, all of which are in the store.
    """
    chains, arms, seconds = dict[str, tuple[PlannedStage, ...]](), dict[str, Mapping[str, Any]](), 0.0
    for name, model in serves.parts().items():
        cell = next(c for c in plan.cells if c.arm == name and c.last.identity == model.identity)
        spec: Any = cell.last.spec
        own = dict[str, Any](task={"validation": 0})
        if not cell.last.trains:
            if spec.task.rows is not None:
                return Again({}, {}, 0.0, of_part=True)
            own["model"] = spec.model.choices(FinishedStage.opened(store, model.identity, plan.data).model().facts)
        elif spec.budget.patience is not None:
            return Again({}, {}, 0.0, by_validation=True)
        label = f"{SERVED}_{name}" if arms else SERVED
        arms[label], again = plan.variant(cell, label, own)
        chains[name] = again.chain
        if not store.finished(again.last.identity):
            seconds += (store.result(model.identity) or {})["budget"]["seconds"]
    return Again(chains, arms, seconds)


def reserved(plan: Plan, seconds: float, slots: int) -> float:
    """Seconds of one network more, where all of the plan, so many `slots` at a time, and that one take `seconds`."""
    return seconds / (1 + sum(cell.last.trains for cell in plan.cells) / slots)
