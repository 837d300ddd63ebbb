"""What a plan would cost, and whether each of its stages fits its task: before anything is trained."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from headstart.errors import BadInput
from headstart.spec import digest
from headstart.stage import Run, StageSpec, begin, flops_per_unit
from headstart.study.plan import Plan, PlannedStage
from headstart.tasks import Task, open_task

TIMED_STEPS = 3


@dataclass(frozen=True)
class Cost:
    """What one stage would do. `seconds` is measured on a few real steps of this machine, and `scoring`, seconds per
    sequence or pair that is only scored, on validation; or None."""

    planned: PlannedStage
    parameters: int
    trainable: int
    steps: int
    examples: int
    flops: float
    seconds: float | None
    scoring: float | None = None


def survey(plan: Plan, *, timed: bool = False, device: str = "cpu") -> list[Cost]:
    """Fit every distinct stage to its task, without training it.

    Stages that differ only in seed, rate or the weights they start from are fitted once; those whose data are absent
    are left out.
    Raises: BadInput naming the stage whose model, parts, batch or task do not fit.
    """
    tasks: dict[str, Task] = {}
    fitted: dict[str, tuple[int, int, int, int, float, float | None, float | None]] = {}
    out = []
    for planned in plan.stages.values():
        if planned.open:
            continue
        key = _likeness(planned.spec)
        if key not in fitted:
            try:
                fitted[key] = _fit(planned.spec, plan.data, tasks, timed, device)
            except BadInput as error:
                raise BadInput(f"{planned.name}.{error}") from None
        out.append(Cost(planned, *fitted[key]))
    return out


def _likeness(spec: StageSpec) -> str:
    parent = None if spec.parent is None else _likeness(spec.parent)
    plain = spec.model_copy(
        update={
            "seed": 0,
            "parent": None,
            "optim": spec.optim.model_copy(update={"lr": 1.0}),
        }
    )
    return digest({**plain.document(), "parent": parent})


def _fit(
    spec: StageSpec, data: Path, tasks: dict[str, Task], timed: bool, device: str
) -> tuple[int, int, int, int, float, float | None, float | None]:
    run = begin(spec, opened(spec, data, tasks), fresh_weights(spec.parent, data, tasks), device)
    task = run.task
    steps = run.setting.total
    per_epoch = run.setting.per_epoch
    examples = round(steps * len(run.setting.train.units) / per_epoch)
    parameters = sum(p.numel() for p in run.model.parameters())
    seconds = _step_seconds(run) * steps if timed and steps else (0.0 if timed else None)
    return (
        parameters,
        run.progress.flat.weights.numel(),
        steps,
        examples,
        3 * examples * flops_per_unit(spec, task),
        seconds,
        _scoring_seconds(run) if timed else None,
    )


def _scoring_seconds(run: Run) -> float:
    """Seconds per sequence or pair of a look at validation."""
    before = time.perf_counter()
    run.score("val")
    return (time.perf_counter() - before) / max(len(run.feeds["val"].units), 1)


def _step_seconds(run: Run) -> float:
    """The fastest of a few real steps, in seconds. The first warms up."""
    times: list[float] = []
    before = time.perf_counter()
    for tick, _ in zip(run.ticks(), range(TIMED_STEPS + 1), strict=False):
        now = time.perf_counter()
        if tick.record is None or not times:
            times.append(now - before)
        before = now
    return min(times)


def opened(spec: StageSpec, data: Path, tasks: dict[str, Task]) -> Task:
    """The task of a stage, opened once."""
    key = digest(spec.task.document())
    if key not in tasks:
        tasks[key] = open_task(spec.task, data)
    return tasks[key]


def fresh_weights(parent: StageSpec | None, data: Path, tasks: dict[str, Task]) -> dict[str, torch.Tensor] | None:
    """Weights of the shape of a parent's, to fit a child without training the parent."""
    if parent is None:
        return None
    run = begin(parent, opened(parent, data, tasks), fresh_weights(parent.parent, data, tasks))
    return run.model.state_dict()
