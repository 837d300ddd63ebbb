"""What a plan would cost, and whether each of its stages fits its task: before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from headstart.errors import BadInput
from headstart.spec import digest
from headstart.stage import Size, StageSpec, begin
from headstart.study.plan import Plan, PlannedStage
from headstart.tasks import Task, open_task


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
    fitted: dict[str, tuple[Size, float | None, float | None]] = {}
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
        size, seconds, scoring = fitted[key]
        out.append(Cost(planned, **vars(size), seconds=seconds, scoring=scoring))
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
) -> tuple[Size, float | None, float | None]:
    run = begin(spec, opened(spec, data, tasks), fresh_weights(spec.parent, data, tasks), device)
    size = run.size()
    if not timed:
        return size, None, None
    step, scoring = run.seconds()
    return size, step * size.steps, scoring


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
    return run.weights()
