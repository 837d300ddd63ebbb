"""Stages that train alone or as a stack, on small made data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headstart.spec import merge, read
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.tasks import Task, open_task
from headstart.training.loop import StepInfo
from headstart.training.stack import Stack
from support.made_tasks import MadeSpec

Records = list[dict[str, Any]]


@cache
def opened(made: MadeSpec) -> Task:
    return open_task(made, Path("none"))


def begun(own: Mapping[str, Any], *alike: Mapping[str, Any], made: Any = None, **more: Any) -> TrainedRun:
    """A stage of these settings; what is its own wins. made: settings of the task."""
    task = MadeSpec(**(made or {}))
    settings: dict[str, Any] = {}
    for table in (*alike, more, own):
        settings = merge(settings, table)
    return TrainedRun(read(TrainStage, {**settings, "task": task}), opened(task))


def finished(live: TrainedRun) -> Records:
    """Train a stage alone to its end."""
    return [tick.record for tick in live.steps() if tick.record is not None]


def together(stages: Sequence[TrainedRun], size: int | None = None, stack: Stack | None = None) -> list[Records]:
    """Train stages as a stack to their ends, `size` at a time: a place that gets free is the next one's."""
    stack, records = stack or Stack(), [Records() for _ in stages]
    for number, tick in turns(stages, stack, size):
        if tick.record is not None:
            records[number].append(tick.record)
    return records


def turns(stages: Sequence[TrainedRun], stack: Stack, size: int | None = None) -> Iterator[tuple[int, StepInfo]]:
    """(number of a stage, its tick), in turns."""
    waiting, live = list(range(len(stages))), dict[int, Iterator[StepInfo]]()
    while waiting or live:
        while waiting and len(live) < (size or len(stages)):
            number = waiting.pop(0)
            live[number] = stack.ticks(stages[number].setting, stages[number].progress)
            next(live[number], None)
        for number, ticks in list(live.items()):
            tick = next(ticks, None)
            if tick is None:
                del live[number]
            else:
                yield number, tick


def differences(alone: Sequence[TrainedRun], stacked: Sequence[TrainedRun]) -> Iterator[float]:
    """How far tensors of stages are from each other: shares of the tensor's largest number, or of the weights'."""
    for mine, theirs in zip(alone, stacked, strict=True):
        others, size = theirs.weights(), float(mine.progress.flat.weights.abs().max())
        for name, value in mine.weights().items():
            yield float((value - others[name]).abs().max()) / max(float(value.abs().max()), size)
