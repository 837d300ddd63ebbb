"""What a plan costs, and whether each of its stages fits its task."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from headstart.errors import BadInput, reworded
from headstart.plugins import plugins_of
from headstart.runner.events import StepTime
from headstart.runner.job import Runtime
from headstart.runner.perform import time_steps
from headstart.spec import digest
from headstart.stage import Size, StageSpec, TrainStage
from headstart.study.language.budgets import Outlines
from headstart.study.language.costs import Speed, speed_here
from headstart.study.language.plan import Plan, PlannedStage, make_plan
from headstart.study.language.spec import read_study

PROBING = 30.0
"""Seconds that the probes of all kinds may take, as predicted."""
PROBE_STEPS = 15
"""Steps that a probe takes."""
_BYTES, _TRAINED = 4, 12
"""Bytes of a parameter, and how many more of one that is trained: gradient and two moments in single precision."""


@dataclass(frozen=True, kw_only=True)
class Cost(Size):
    """What one stage would do, as `Size` says.

    kind: stages of one kind take steps of equal length.
    time: of a step and of scoring a unit, where they have been measured.
    """

    planned: PlannedStage
    kind: str
    time: StepTime | None = None

    def seconds_at(self, speed: Speed) -> tuple[float, float]:
        """Of all steps with their evaluations, and of the scores at the end: as measured, else at this speed."""
        if self.once:
            passes = speed.seconds(0, self.once * self.unit_flops) if self.time is None else self.once * self.time.unit
            return passes + speed.seconds(self.steps, 0), 0.0
        if self.time is not None:
            return self.steps * self.time.step + self.evaluated * self.time.unit, self.scored * self.time.unit
        training = speed.seconds(self.steps, self.flops + self.evaluated * self.unit_flops)
        return training, speed.seconds(0, self.scored * self.unit_flops)


def survey(plan: Plan, outlines: Outlines | None = None) -> list[Cost]:
    """Fit every distinct stage to its task, without training it and without drawing its weights.

    No data are needed where the spec tells their sizes; stages whose sizes only the data know are left out.
    outlines: those of an earlier plan with the same data folder, which know what it fitted.
    Raises: BadInput naming the place in the study of the model, parts, batch or task that do not fit.
    """
    outlines, out = outlines or Outlines(plan.data), []
    sizes: dict[Hashable, tuple[str, Size | None]] = {}
    for planned in plan.every_stage.values():
        try:
            key = _shared(planned.spec)
            if key not in sizes:
                sizes[key] = _kind(planned.spec), outlines.size(planned.spec)
            kind, size = sizes[key]
            if size is not None:
                _refuse_what_exceeds_memory(planned.spec, size)
                out.append(Cost(planned=planned, kind=kind, **vars(size)))
        except BadInput as error:
            raise reworded(error, plan.as_written(planned, f"{planned.name}.{error}")) from None
    return out


def plan_study(table: Mapping[str, Any], data: Path, overrides: Sequence[str] = (), *, fits: bool = False) -> Plan:
    """The runs and stages of a study that is a table, as TOML would give it. data: the folder of data sets.

    overrides: `name=value` words. fits: each stage is fitted to its task, too, as `survey` does.
    Raises: BadInput where the study, its data or its stages do not fit.
    """
    plan = make_plan(read_study(table, overrides), data)
    if fits:
        survey(plan)
    return plan


def step_times(plan: Plan, device: str, most: float = math.inf) -> list[tuple[PlannedStage, StepTime]]:
    """What a step of each stage and a score of a unit take here and now, in seconds: timed, or as fast as others.

    most: seconds. Where a step of each would take more than that by its FLOPs, none is timed.
    """
    costs, speed = survey(plan), speed_here()
    if any(cost.seconds_at(speed)[0] <= most * max(cost.steps, 1) for cost in costs):
        costs, speed = measure(costs, Runtime(plan.data, device), speed)
    return [
        (
            cost.planned,
            cost.time or StepTime(cost.seconds_at(speed)[0] / max(cost.steps, 1), speed.seconds(0, cost.unit_flops)),
        )
        for cost in costs
    ]


def measure(
    costs: Sequence[Cost], runtime: Runtime, speed: Speed, done: Collection[str] = ()
) -> tuple[list[Cost], Speed]:
    """The costs, with steps of their kinds timed as the run would take them: in as many workers at a time.

    The speed is what the kinds that were timed say of those that were not. done: identities of finished stages, for
    which nothing is timed.
    """
    left = [cost for cost in costs if cost.planned.identity not in done]
    if not left:
        return list(costs), speed
    times = time_steps(probes(left, speed, max(runtime.workers, 1)), runtime)
    timed = [replace(cost, time=times.get(cost.kind)) for cost in costs]
    ratios = {
        cost.kind: sum(cost.seconds_at(speed)) / sum(replace(cost, time=None).seconds_at(speed))
        for cost in timed
        if cost.time is not None
    }
    return timed, speed.slower(median(ratios.values())) if ratios else speed


def probes(costs: Iterable[Cost], speed: Speed, slots: int) -> dict[str, TrainStage]:
    """One stage of each kind to be timed: those that take longest first, as many as fit into PROBING seconds.

    Stages with code of a person's own are left out: a worker compares that code with its digest job by job.
    """
    longest: dict[str, float] = defaultdict(float)
    specs, steps = {}, {}
    for cost in costs:
        if cost.steps and not plugins_of([cost.planned.spec]):
            seconds = sum(cost.seconds_at(speed))
            longest[cost.kind] += seconds
            assert isinstance(cost.planned.spec, TrainStage), "only what is trained has steps"
            specs[cost.kind], steps[cost.kind] = cost.planned.spec, 1 + PROBE_STEPS * seconds / cost.steps
    spent, out = 0.0, {}
    for kind in sorted(specs, key=lambda kind: -longest[kind]):
        if spent + steps[kind] / slots <= PROBING:
            spent += steps[kind] / slots
            out[kind] = specs[kind]
    return out


def _shared(spec: StageSpec | None) -> Hashable:
    """Equal for stages of one plan that hold the very same tables: they differ in nothing but their seeds."""
    if spec is None:
        return None
    return tuple(id(value) for name, value in spec if name not in ("seed", "parent")), _shared(spec.parent)


def _kind(spec: StageSpec) -> str:
    """Equal for stages whose steps take equally long, however many they are and whatever they start from."""
    document = spec.document()
    if not isinstance(spec, TrainStage):
        return digest(document)
    optim = {"batch_size": spec.optim.batch_size, "precision": spec.optim.precision}
    return digest({name: document[name] for name in ("task", "model", "objective", "trainable")} | optim)


def _refuse_what_exceeds_memory(spec: StageSpec, size: Size) -> None:
    if _BYTES * size.parameters + _TRAINED * size.trainable > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise spec.too_large()
