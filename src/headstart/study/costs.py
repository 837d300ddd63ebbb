"""What a built-in study costs at each of its scales: stages, steps, examples, FLOPs. Read from a file that
`benchmarks/study_costs.py` writes, so that a listing opens no data and imports no torch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from headstart.study.files import studies_folder

COSTS = "costs.json"
REACHED = 1 / 3
"""Share of a matrix product's rate that training reaches about (0.26 to 0.83 measured, docs/benchmarks/train.md)."""
STEP = 0.0125
"""Seconds that a step costs whatever its size: least squares over the times of 22 studies of scale tiny
(2-core AMD EPYC, two stages at a time), which this and 22.6 GFLOP/s hit within a factor of 1.7, but for one of 2.2."""
FEW = 3
"""Finished stages that the speed of this machine is read from, at least."""


@dataclass(frozen=True)
class StudyCost:
    """Distinct stages of a study at one scale, their steps, the examples that they train on, and their FLOPs."""

    study: str
    scale: str
    stages: int
    steps: int
    examples: int
    flops: float


@dataclass(frozen=True)
class Speed:
    """What one core does: seconds of a step whatever its size, and FLOPs a second on top."""

    step: float
    rate: float

    def seconds(self, steps: float, flops: float) -> float:
        """Time of that many steps, which hold that many FLOPs."""
        return steps * self.step + flops / self.rate

    def slower(self, factor: float) -> Speed:
        """This many times slower."""
        return Speed(self.step * factor, self.rate / factor)


def study_costs() -> list[StudyCost]:
    """Costs of all built-in studies, by name and scale."""
    text = (studies_folder() / COSTS).read_text("utf-8")
    costs: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return [StudyCost(study, scale, **numbers) for study, scales in costs.items() for scale, numbers in scales.items()]


def speed_of(results: Iterable[Mapping[str, Any]], guess: Speed) -> Speed | None:
    """The guess, slowed or sped up as the median of these finished stages says; None where there are too few."""
    budgets = [r.get("budget", {}) for r in results]
    slower = [
        b["seconds"] / guess.seconds(b.get("steps", 0), b["flops"])
        for b in budgets
        if b.get("seconds", 0) > 1 and b.get("flops")
    ]
    if len(slower) < FEW:
        return None
    return guess.slower(median(slower))


def speed_here() -> Speed:
    """What one core of this machine does about, from a matrix product timed just now."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    side = 192
    x = np.ones((side, side), np.float32)
    times = []
    with threadpool_limits(1):
        for _ in range(60):
            began = time.perf_counter()
            x @ x
            times.append(time.perf_counter() - began)
    return Speed(STEP, REACHED * 2 * side**3 / min(times))
