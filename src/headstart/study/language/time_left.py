"""How long a run of a plan still takes, from its costs and the events of the run."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headstart.runner.events import Event, Failed, Finished, Skipped, StageProgress, Started, Stopped, Timed
from headstart.study.language.costs import Speed
from headstart.study.language.estimate import Cost

ENOUGH_SECONDS = 60.0
"""Seconds of measured training after which an estimate is given in any case."""
LEAST_SECONDS, LEAST_SHARE = 5.0, 0.02
"""Seconds of measured training, and the share of all work that they are, from which on an estimate is given."""
_PRIOR = 2.0  # seconds of training for which the steps of other kinds count, where those of one kind are few


class TimeLeft:
    """Follows the events of a run. Its costs are in seconds of this machine as far as they are known beforehand.

    chains: identities of stages that follow each other. slots: stages at a time. The first steps of each stage are
    left out: they are slower.
    """

    def __init__(
        self,
        costs: Iterable[Cost],
        chains: Iterable[Sequence[str]],
        slots: int,
        speed: Speed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.costs = {cost.planned.identity: cost for cost in costs}
        self._chains, self._slots = {tuple(chain) for chain in chains}, max(slots, 1)
        self._speed, self._clock = speed, clock
        self._steps: dict[str, int] = {}  # steps done of stages that run
        self._over: set[str] = set()
        self._marks: dict[str, tuple[float, int]] = {}  # when the steps up to there had been counted
        self._sums: dict[str, tuple[float, float]] = {}  # kind -> seconds that were measured, and that were predicted
        self._free: list[float] = []  # since when slots are free
        self._began: dict[str, tuple[float, int]] = {}  # when the slot of a stage got free, and its first step
        self._pauses: list[float] = []  # seconds that stages took besides their steps, to begin with

    def follow(self, event: Event) -> None:
        """Take an event of the run into account."""
        identity, now = event.identity, self._clock()
        if isinstance(event, Timed):
            self.costs = {
                key: replace(cost, time=event.time) if cost.kind == identity else cost
                for key, cost in self.costs.items()
            }
        elif identity not in self.costs:
            return
        elif isinstance(event, Started):
            self._steps[identity] = event.step
            self._slots = max(self._slots, len(self._steps))  # a stack holds more than one
            self._began[identity] = (self._free.pop(0) if self._free else now, event.step)
        elif isinstance(event, StageProgress):
            before = self._marks.get(identity)
            self._steps[identity] = event.step
            self._marks[identity] = (now, event.step)
            if before is not None and event.step == before[1]:
                return  # features of frozen layers, which come before the first step
            if before is not None:
                self._count(identity, now - before[0], (event.step - before[1]) * self._step(identity))
            elif identity in self._began and self.costs[identity].kind in self._sums:
                began, first = self._began.pop(identity)
                steps = (event.step - first) * self._step(identity) * self._ratio(identity, 1.0)
                self._pauses.append(max(now - began - steps, 0.0))
        elif isinstance(event, (Finished, Skipped, Failed, Stopped)):
            if isinstance(event, Finished) and identity in self._marks:
                self._count(identity, now - self._marks[identity][0], self._seconds(identity)[1])
            self._marks.pop(identity, None)
            if self._steps.pop(identity, None) is not None:
                self._free.append(now)
            if not isinstance(event, Stopped):
                self._over.add(identity)

    def seconds(self) -> float | None:
        """Until the run is over, or None while too little of it has been measured."""
        if self._over >= self.costs.keys():
            return 0.0
        measured, predicted = (sum(sums[i] for sums in self._sums.values()) for i in range(2))
        whole = sum(sum(self._seconds(identity)) for identity in self.costs)
        if measured < LEAST_SECONDS or not predicted or (measured < ENOUGH_SECONDS and predicted < LEAST_SHARE * whole):
            return None
        ratio = measured / predicted
        rest = {identity: self._rest(identity, ratio) for identity in self.costs if identity not in self._over}
        return self._schedule(rest, sum(self._pauses) / max(len(self._pauses), 1))

    def predicted(self) -> float:
        """Seconds of the whole run, as far as they are known before it."""
        return self._schedule({identity: sum(self._seconds(identity)) for identity in self.costs}, 0.0)

    def _schedule(self, rest: Mapping[str, float], pause: float) -> float:
        """Seconds until the last slot is free, where each next stage takes the first slot that is free."""
        slots = [0.0] * self._slots
        for identity in sorted(rest, key=lambda identity: identity not in self._steps):  # those that run come first
            seconds = rest[identity] + (0.0 if identity in self._marks else pause)
            heapq.heapreplace(slots, slots[0] + seconds)
        return max(*slots, *(sum(rest.get(identity, 0.0) for identity in chain) for chain in self._chains), 0.0)

    def _seconds(self, identity: str) -> tuple[float, float]:
        return self.costs[identity].seconds_at(self._speed)

    def _step(self, identity: str) -> float:
        return self._seconds(identity)[0] / max(self.costs[identity].steps, 1)

    def _count(self, identity: str, measured: float, predicted: float) -> None:
        kind = self.costs[identity].kind
        before = self._sums.get(kind, (0.0, 0.0))
        self._sums[kind] = (before[0] + measured, before[1] + predicted)

    def _rest(self, identity: str, ratio: float) -> float:
        """Seconds that the stage still takes: as others of its kind did, and as all did where those are few."""
        steps = max(self.costs[identity].steps - self._steps.get(identity, 0), 0)
        return (steps * self._step(identity) + self._seconds(identity)[1]) * self._ratio(identity, ratio)

    def _ratio(self, identity: str, ratio: float) -> float:
        """How many times longer than predicted stages of its kind took."""
        measured, predicted = self._sums.get(self.costs[identity].kind, (0.0, 0.0))
        return (measured + _PRIOR * ratio) / (predicted + _PRIOR)
