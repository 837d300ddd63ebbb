"""What the baselines of a task score: each run as the stage that a study would run."""

from __future__ import annotations

from typing import Any

from headstart.stage import begin, read_stage
from headstart.tasks.task import Task, TaskSpec


def trivial_scores(spec: TaskSpec, task: Task, metric: str = "accuracy") -> dict[str, float]:
    """Title of each baseline -> its score on test."""
    kind = "regress" if task.signature.target == "number" else "retrieve" if task.signature.paired else "classify"
    out = {}
    for model in spec.baselines:
        table: dict[str, Any] = {"task": spec, "objective": {"kind": kind}, "model": model}
        outcome = begin(read_stage(table), task, None).finish()
        out[outcome.title] = float(outcome.scores["best"]["test"][metric])
    return out
