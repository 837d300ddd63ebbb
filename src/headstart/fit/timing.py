"""What this machine does in a second: steps of a study, and processes side by side."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch

from headstart.fit.budget import Seconds
from headstart.runner.events import StepTime
from headstart.runner.job import Runtime
from headstart.runner.machine import use_threads
from headstart.study.costs import speed_here
from headstart.study.estimate import measure, survey
from headstart.study.plan import make_plan
from headstart.study.spec import StudySpec


def stage_seconds(study: StudySpec, data: Path, device: str) -> dict[str, Seconds]:
    """Stage's name -> what it takes here and now."""
    costs, speed = measure(survey(make_plan(study, data)), Runtime(data, device), speed_here())
    slowest: dict[str, Seconds] = {}
    for cost in costs:
        known = slowest.get(cost.planned.name, Seconds())
        time = cost.time or StepTime(cost.seconds_at(speed)[0] / max(cost.steps, 1), speed.seconds(0, cost.unit_flops))
        slowest[cost.planned.name] = Seconds(max(known.step, time.step), max(known.scored, time.unit))
    return slowest


def side_by_side(slots: int) -> float:
    """How many processes' worth of work this machine does with so many of them: 1 to `slots`.

    Matrix products are measured, side by side in threads. Half of a small network's step is the interpreter's own work,
    which two threads of one core do at once: the answer lies half-way between what was measured and `slots`.
    """
    if slots <= 1:
        return 1.0
    matrix = torch.randn(192, 192)

    def work(seconds: list[float], times: int = 150) -> None:
        begun = time.perf_counter()
        for _ in range(times):
            torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - begun)

    with use_threads(1):
        alone: list[float] = []
        for _ in range(3):
            work(alone)
        together: list[float] = []
        threads = [threading.Thread(target=work, args=(together,)) for _ in range(slots)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    products = min(float(slots), max(1.0, slots * min(alone) / max(together)))
    return (products + slots) / 2
