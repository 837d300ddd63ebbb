"""The time left of a run, against runs whose clock is simulated."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headstart.runner.events import Event, Finished, StageProgress, Started, StepTime, Timed
from headstart.study.language.costs import Speed
from headstart.study.language.estimate import Cost
from headstart.study.language.plan import PlannedStage, make_plan
from headstart.study.language.spec import read_study
from headstart.study.language.time_left import TimeLeft

SPEED = Speed(step=0.01, rate=1e9)
KINDS = {"pretrain": 1.9, "finetune": 0.7, "long": 1.2}
"""Kind -> how many times longer its steps take than FLOPs predict."""


def planned(number: int) -> PlannedStage:
    plan = make_plan(read_study("digits"), Path("nowhere"))
    return replace(next(iter(plan.stages.values())), identity=f"{number:016x}")


def costs() -> list[Cost]:
    """24 short stages of two kinds, and four long ones."""
    stage, out = planned(0), []
    for number in range(28):
        kind = "long" if number % 7 == 6 else ("pretrain" if number % 3 == 0 else "finetune")
        steps = {"pretrain": 400, "finetune": 250, "long": 1500}[kind]
        own = replace(stage, identity=f"{number:016x}")
        out.append(Cost(10, 10, steps, 32 * steps, 1e7 * steps, 2000, 4000, 1e5, planned=own, kind=kind))
    return out


class Clock:
    now = 0.0


def simulated(work: list[Cost], slots: int, clock: Clock, slow: float, seed: int) -> Iterator[tuple[Event, float]]:
    """(event, share of the work that is done) of a run whose first steps are slow, and whose steps vary."""
    noise = np.random.default_rng(seed)
    events: list[tuple[float, int, Event, float]] = []
    free = [3.0] * slots  # seconds that a worker needs to start
    for cost in work:
        now = heapq.heappop(free) + 0.3
        name = (cost.planned.identity, cost.kind)
        events.append((now, len(events), Started(*name, attempt=1), 0.0))
        training, end = (slow * KINDS[cost.kind] * part for part in cost.seconds_at(SPEED))
        now += 2.0  # the first steps
        for part in range(1, 41):
            now += training / 40 * noise.uniform(0.7, 1.3)
            step = cost.steps * part // 40
            events.append((now, len(events), StageProgress(*name, step, cost.steps), training / 40))
        now += end
        events.append((now, len(events), Finished(*name, {"status": "complete"}), end))
        heapq.heappush(free, now)
    whole, done = sum(event[3] for event in events), 0.0
    heapq.heapify(events)
    while events:
        clock.now, _, event, seconds = heapq.heappop(events)
        done += seconds
        yield event, done / whole


def follow(timed: bool, slots: int, slow: float, seed: int) -> list[tuple[float, float | None, float]]:
    """(share done, estimate, truth) after each event."""
    clock, work = Clock(), costs()
    left = TimeLeft(work, [[cost.planned.identity] for cost in work], slots, SPEED, clock=lambda: clock.now)
    if timed:
        for kind, factor in KINDS.items():
            cost = next(cost for cost in work if cost.kind == kind)
            seconds = slow * factor * SPEED.seconds(1, cost.flops / cost.steps)
            left.follow(Timed(kind, kind, StepTime(seconds, 1e-4)))
    out = []
    for event, share in simulated(work, slots, clock, slow, seed):
        left.follow(event)
        out.append((share, left.seconds(), clock.now))
    end = out[-1][2]
    return [(share, seconds, end - now) for share, seconds, now in out]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(("slots", "slow"), [(1, 1.0), (2, 0.3), (2, 20.0), (4, 1.0)])
def test_once_a_tenth_is_done_the_estimate_is_within_a_factor_of_one_and_a_half(
    timed: bool, slots: int, slow: float
) -> None:
    for seed in range(3):
        for share, seconds, truth in follow(timed, slots, slow, seed):
            if 0.1 <= share <= 0.9:
                assert seconds is not None
                assert 1 / 1.5 < seconds / truth < 1.5, (share, seconds, truth)


@pytest.mark.parametrize("slow", [0.3, 1.0, 20.0])
def test_before_it_is_worth_something_no_estimate_is_given_and_none_is_absurd(slow: float) -> None:
    early = follow(True, 2, slow, 0)
    assert early[0][1] is None
    for share, seconds, truth in early:
        if seconds is not None and share < 0.1:
            assert 1 / 3 < seconds / truth < 3


def test_stages_that_were_done_before_do_not_count() -> None:
    clock, work = Clock(), costs()
    left = TimeLeft(work[:1], [], 1, SPEED, clock=lambda: clock.now)
    name = (work[0].planned.identity, "pretrain")
    left.follow(Started(*name, attempt=1))
    for step in (100, 300):
        clock.now += 30
        left.follow(StageProgress(*name, step, 400))
    assert left.seconds() == pytest.approx(100 * 30 / 200 + 0.4 * 30 / 4, rel=0.3)


def test_the_longest_chain_is_waited_for_however_many_workers_there_are() -> None:
    clock, work = Clock(), costs()[:3]
    chain = [cost.planned.identity for cost in work]
    left = TimeLeft(work, [chain], 8, SPEED, clock=lambda: clock.now)
    alone = TimeLeft(work, [], 8, SPEED, clock=lambda: clock.now)
    for event in (
        Started(chain[0], "a", 1),
        StageProgress(chain[0], "a", 10, 400),
        StageProgress(chain[0], "a", 200, 400),
    ):
        clock.now += 20
        left.follow(event)
        alone.follow(event)
    together, apart = left.seconds(), alone.seconds()
    assert together is not None
    assert apart is not None
    assert together > 2 * apart
