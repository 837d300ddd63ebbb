"""What this machine does in a second: steps of a study, and processes side by side."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch

from headstart.launch.machine import use_threads
from headstart.study.estimate import survey
from headstart.study.plan import make_plan
from headstart.study.spec import StudySpec


def step_seconds(study: StudySpec, data: Path, device: str) -> dict[str, float]:
    """Stage's name -> seconds of a step of it, here and now."""
    with use_threads(1):
        costs = survey(make_plan(study, data), timed=True, device=device)
    found: dict[str, float] = {}
    for one in costs:
        found[one.planned.name] = max(found.get(one.planned.name, 0.0), (one.seconds or 0.0) / max(one.steps, 1))
    return found


def side_by_side(slots: int) -> float:
    """How many processes' worth of work this machine does with so many of them: 1 to `slots`, measured."""
    if slots <= 1:
        return 1.0
    one = torch.randn(192, 192)

    def work(seconds: list[float], times: int = 150) -> None:
        begun = time.perf_counter()
        for _ in range(times):
            torch.mm(one, one)
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
    return min(float(slots), max(1.0, slots * min(alone) / max(together)))
