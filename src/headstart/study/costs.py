"""What a built-in study costs at each of its scales: stages, examples, FLOPs. Read from a file that
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
FEW = 3
"""Finished stages that a rate of this machine is read from, at least."""


@dataclass(frozen=True)
class StudyCost:
    """Distinct stages of a study at one scale, the examples that they train on, and their FLOPs."""

    study: str
    scale: str
    stages: int
    examples: int
    flops: float


def study_costs() -> list[StudyCost]:
    """Costs of all built-in studies, by name and scale."""
    text = (studies_folder() / COSTS).read_text("utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return [StudyCost(study, scale, **numbers) for study, scales in found.items() for scale, numbers in scales.items()]


def rate_of(results: Iterable[Mapping[str, Any]]) -> float | None:
    """FLOPs a second of one process, the median over finished stages; None where there are too few."""
    budgets = [r.get("budget", {}) for r in results]
    rates = [b["flops"] / b["seconds"] for b in budgets if b.get("seconds", 0) > 1 and b.get("flops")]
    return median(rates) if len(rates) >= FEW else None


def rate_here() -> float:
    """FLOPs a second that training reaches about on one core of this machine, from a product timed just now."""
    import numpy as np

    side = 192
    x = np.ones((side, side), np.float32)
    times = []
    for _ in range(60):
        began = time.perf_counter()
        x @ x
        times.append(time.perf_counter() - began)
    return REACHED * 2 * side**3 / min(times)
