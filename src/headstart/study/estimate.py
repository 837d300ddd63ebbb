"""What a plan would cost, and whether each of its stages fits its task: known before training, and without data."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from headstart.errors import BadInput
from headstart.plugins import plugins_of
from headstart.runner.events import StepTime
from headstart.runner.job import Runtime
from headstart.runner.perform import time_steps
from headstart.spec import digest
from headstart.stage import StageRun, StageSpec, begin
from headstart.study.costs import Speed
from headstart.study.plan import Plan, PlannedStage
from headstart.tasks import Task
from headstart.tasks.build import outlined

PROBING = 30.0
"""Seconds that the probes of all kinds may take, as predicted."""
PROBE_STEPS = 15
"""Steps that a probe takes."""
_COPIES = 16
"""Bytes of a parameter that is trained: weight, gradient and two moments in single precision."""


@dataclass(frozen=True)
class Cost:
    """What one stage would do.

    kind: stages of one kind take steps of equal length. examples: units that are trained on. flops: of training, in
    closed form. evaluated, scored: units that are scored while it trains, and at its end. unit_flops: to score a unit.
    time: of a step and of scoring a unit, where they have been measured.
    """

    planned: PlannedStage
    kind: str
    parameters: int
    trainable: int
    steps: int
    examples: int
    flops: float
    evaluated: int = 0
    scored: int = 0
    unit_flops: float = 0.0
    time: StepTime | None = None

    def seconds_at(self, speed: Speed) -> tuple[float, float]:
        """Of all steps with their evaluations, and of the scores at the end: as measured, else at this speed."""
        if self.time is not None:
            return self.steps * self.time.step + self.evaluated * self.time.unit, self.scored * self.time.unit
        training = speed.seconds(self.steps, self.flops + self.evaluated * self.unit_flops)
        return training, speed.seconds(0, self.scored * self.unit_flops)


def survey(plan: Plan) -> list[Cost]:
    """Fit every distinct stage to its task, without training it and without drawing its weights.

    No data are needed where the spec tells their sizes; stages whose sizes only the data know are left out.
    Raises: BadInput naming the stage whose model, parts, batch or task do not fit.
    """
    fit = _Fit(plan.data)
    costs: dict[str, Cost | None] = {}
    out = []
    for planned in plan.stages.values():
        key = _likeness(planned.spec)
        if key not in costs:
            try:
                costs[key] = fit.cost(planned)
            except BadInput as error:
                raise BadInput(f"{planned.name}.{error}") from None
        if (cost := costs[key]) is not None:
            out.append(replace(cost, planned=planned))
    return out


def measure(costs: Sequence[Cost], runtime: Runtime, speed: Speed) -> tuple[list[Cost], Speed]:
    """The costs, with steps of their kinds timed as the run would take them: in as many workers at a time.

    The speed is what the kinds that were timed say of those that were not.
    """
    times = time_steps(probes(costs, speed, max(runtime.workers, 1)), runtime)
    timed = [replace(cost, time=times.get(cost.kind)) for cost in costs]
    ratios = {
        cost.kind: sum(cost.seconds_at(speed)) / sum(replace(cost, time=None).seconds_at(speed))
        for cost in timed
        if cost.time is not None
    }
    return timed, speed.slower(median(ratios.values())) if ratios else speed


def probes(costs: Iterable[Cost], speed: Speed, slots: int) -> dict[str, StageSpec]:
    """One stage of each kind to be timed: those that take longest first, as many as fit into PROBING seconds.

    Stages with code of a person's own are left out: a worker compares that code with its digest job by job.
    """
    longest: dict[str, float] = defaultdict(float)
    specs, steps = {}, {}
    for cost in costs:
        if cost.steps and not plugins_of([cost.planned.spec]):
            seconds = sum(cost.seconds_at(speed))
            longest[cost.kind] += seconds
            specs[cost.kind], steps[cost.kind] = cost.planned.spec, 1 + PROBE_STEPS * seconds / cost.steps
    spent, out = 0.0, {}
    for kind in sorted(specs, key=lambda kind: -longest[kind]):
        if spent + steps[kind] / slots <= PROBING:
            spent += steps[kind] / slots
            out[kind] = specs[kind]
    return out


def _likeness(spec: StageSpec) -> str:
    """Equal for stages that fit their tasks alike: seeds and learning rates do not matter."""
    parent = None if spec.parent is None else _likeness(spec.parent)
    plain = spec.model_copy(update={"seed": 0, "parent": None, "optim": spec.optim.model_copy(update={"lr": 1.0})})
    return digest({**plain.document(), "parent": parent})


def _kind(spec: StageSpec) -> str:
    """Equal for stages whose steps take equally long, however many they are and whatever they start from."""
    document = spec.document()
    optim = {"batch_size": spec.optim.batch_size, "precision": spec.optim.precision}
    return digest({name: document[name] for name in ("task", "model", "objective", "trainable")} | optim)


class _Fit:
    """Fits stages to tasks, each of which is opened once."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._tasks: dict[str, Task | None] = {}

    def cost(self, planned: PlannedStage) -> Cost | None:
        """What the stage costs, or None where only its data know."""
        run = self._begun(planned.spec)
        if run is None:
            return None
        size = run.size()
        _refuse_what_exceeds_memory(planned.spec, size.parameters)
        return Cost(planned, _kind(planned.spec), **vars(size))

    def _begun(self, spec: StageSpec) -> StageRun | None:
        """The stage as it would begin, on torch's device that has shapes and no numbers; None without sizes."""
        key = digest(spec.task.document())
        if key not in self._tasks:
            self._tasks[key] = outlined(spec.task, self._data)
        task = self._tasks[key]
        above = None if spec.parent is None else self._begun(spec.parent)
        if task is None or (spec.parent is not None and above is None):
            return None
        parent = None if above is None else above.weights()
        try:
            with torch.device("meta"):
                return begin(spec, task, parent, "meta")
        except (NotImplementedError, RuntimeError):  # a mixer of a person's own that looks at its numbers
            plain = (
                None if parent is None else {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in parent.items()}
            )
            return begin(spec, task, plain)


def _refuse_what_exceeds_memory(spec: StageSpec, parameters: int) -> None:
    if _COPIES * parameters > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise BadInput(
            f"model: width {spec.model.width} with {spec.model.blocks} blocks does not fit into memory; make it smaller"
        )
