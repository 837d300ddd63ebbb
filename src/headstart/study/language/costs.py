"""What a built-in study costs at each of its scales, on the data that are at hand. Read from a file that
`benchmarks/study_costs.py` writes from the plans, so that a listing opens no data and imports no torch.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from headstart.runner.events import StepTime
from headstart.study.language.files import studies_folder
from headstart.tasks.task import TaskSpec

COSTS = "costs.json"
WORK_AMOUNTS = ("stages", "steps", "examples", "flops", "scoring")
REACHED = 1 / 3
"""Share of a matrix product's rate that training reaches about (0.26 to 0.83 measured, docs/benchmarks/train.md)."""
FEW_STAGES = 3
"""Finished stages that the speed of this machine is read from, at least."""


@dataclass(frozen=True)
class StudyCost:
    """Distinct stages of a study at one scale, their steps, the examples that they train on, and their FLOPs.

    flops: of training; scoring: of evaluations and final scores. reads: data sets that are read; absent: those of
    them that are not at hand. stood_in: columns for whose data others stand in.
    """

    study: str
    scale: str
    stages: int
    steps: int
    examples: int
    flops: float
    scoring: float
    reads: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stood_in: tuple[str, ...] = ()


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


def data_set(task: TaskSpec) -> str:
    """The name of the data that a task reads: `image`, `speech:digits`, `own:waves.csv`; empty for a generated one."""
    source = getattr(task, "source", None) or getattr(task, "file", None)
    return "" if task.generated else f"{task.kind}:{source}" if source else task.kind


def study_costs(at_hand: Callable[[str], bool]) -> list[StudyCost]:
    """Costs of all built-in studies, by name and scale. at_hand: whether a data set, as `data_set` names it, is there.

    The file has, by study, scale and column, the data sets that decide what is read (`needs`), and the costs by those
    of them that are at hand (`image+text`); where nothing stands in, the costs do not depend on it (`*`).
    """
    text = (studies_folder() / COSTS).read_text("utf-8")
    costs: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(text)
    there: dict[str, bool] = defaultdict(bool)
    for name in {
        name
        for scales in costs.values()
        for columns in scales.values()
        for c in columns.values()
        for name in c["needs"]
    }:
        there[name] = at_hand(name)
    out = []
    for study, scales in costs.items():
        for scale, columns in scales.items():
            chosen = {}
            for column, options in columns.items():
                key = "+".join(name for name in options["needs"] if there[name])
                chosen[column] = options.get(key) or options["*"]
            sums = {key: sum(option[key] for option in chosen.values()) for key in WORK_AMOUNTS}
            reads = tuple(dict.fromkeys(name for option in chosen.values() for name in option["reads"]))
            absent = tuple(name for name in reads if not there[name])
            stood_in = tuple(column for column, option in chosen.items() if option["stood_in"])
            out.append(StudyCost(study, scale, **sums, reads=reads, absent=absent, stood_in=stood_in))
    return out


def speed_of(results: Iterable[Mapping[str, Any]], guess: Speed) -> Speed | None:
    """The guess, slowed or sped up as the median of these finished stages says; None where there are too few."""
    budgets = [r.get("budget", {}) for r in results]
    slower = [
        b["seconds"] / guess.seconds(b.get("steps", 0), b["flops"])
        for b in budgets
        if b.get("seconds", 0) > 1 and b.get("flops")
    ]
    if len(slower) < FEW_STAGES:
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
    return Speed(StepTime.LEAST, REACHED * 2 * side**3 / min(times))
