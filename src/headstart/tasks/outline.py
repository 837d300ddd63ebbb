"""A task by its sizes, without its data: what an estimate and a trial of a few steps are made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from headstart.errors import BadInput
from headstart.sequence import IGNORE, Examples, Signature
from headstart.tasks.task import SPLITS, Task, TaskSpec, available, open_task

SAMPLE_EXAMPLES = 400
"""Train examples of a generated task whose lengths stand for those of all."""


def outlined(spec: TaskSpec, data: Path, most: int | None = None) -> Task | None:
    """The task itself where it is at hand, else one of its sizes without data, or None where only the data know them.

    A large generated task is never generated for this. most: units of each split, for a trial of a few steps.
    """
    outline, endless = spec.outline(), False
    if outline is None and not _many(spec):
        return open_task(spec, data) if available(spec, data) else None
    if outline is not None and not spec.generated and available(spec, data):
        return open_task(spec, data)
    if outline is None:
        few = {"train": SAMPLE_EXAMPLES, "val": 50, "test": 50, "labelled": None, "fraction": 1.0}
        sample = open_task(spec.model_copy(update=few), data)
        counts = {name: getattr(spec, name) for name in SPLITS}
        signature, lengths = sample.signature, sample.train.lengths
        endless = sample.fresh is not None and spec.fraction == 1.0 and spec.labelled is None
    else:
        counts = {name: getattr(outline, name) for name in SPLITS}
        signature = outline.signature.patched(spec.patch)
        lengths = np.array([-(-outline.positions // spec.patch)])
    if not spec.validation or spec.folds is not None:
        both = counts["train"] + counts["val"]
        counts["val"] = both // spec.folds if spec.folds is not None else 0
        counts["train"] = both - counts["val"]
    counts["train"] = round(spec.fraction * counts["train"])
    units = {name: count if most is None else min(count, most) for name, count in counts.items()}
    labelled = {**units, "train": min(units["train"], spec.labelled or units["train"])}
    train, val, test = (_zeros(signature, units[name], labelled[name], lengths) for name in SPLITS)
    return Task(signature, train, val, test, fresh=(lambda _: train) if endless else None, augment=spec.augmentation())


def probe_task(spec: TaskSpec, data: Path, train: int, scored: int) -> Task:
    """A task of these sizes for a few steps: cut short where it is at hand, else without its data.

    Raises: BadInput where only the data know the sizes, and they are absent.
    """
    task = outlined(spec, data, most=max(train, scored))
    if task is None:
        raise BadInput(f"task.kind: the sizes of {spec.kind!r} are not known until its data are in {data}")
    units = task.val.labelled_units() if task.val.target is not None else np.arange(task.val.units)
    few = (units if len(units) else np.arange(task.val.units))[:scored]
    return replace(task, val=task.val.take(few), test=task.test.take(np.arange(0)))


def _many(spec: TaskSpec) -> bool:
    return spec.generated and getattr(spec, "train", 0) > SAMPLE_EXAMPLES


MOST_ROWS, MOST_POSITIONS = 2**25, 2**30
"""Of a split whose data are not at hand: what an estimate has a number for in memory."""


def _zeros(signature: Signature, units: int, labelled: int, lengths: np.ndarray) -> Examples:
    """So many units, the first of which have a target; values, and targets where none lacks, are one zero in memory."""
    each = 2 if signature.paired else 1
    rows = units * each
    positions = rows * int(lengths.mean()) if signature.per_position else 0
    if rows > MOST_ROWS or positions > MOST_POSITIONS:
        raise BadInput(f"task: {rows:,} sequences of these lengths fit into no memory; give it fewer or shorter ones")
    offsets = np.concatenate([[0], np.cumsum(np.resize(lengths, rows))]).astype(np.int64)
    positions = int(offsets[-1])
    if signature.input == "tokens":
        values = np.broadcast_to(np.uint8(0), (positions,))
    else:
        values = np.broadcast_to(np.float32(0), (positions, signature.width))
    number = signature.target == "number"
    targets = positions if signature.per_position else rows
    shape = (targets, signature.targets) if signature.targets > 1 else (targets,)
    first = int(offsets[labelled * each]) if signature.per_position else labelled * each
    if first == targets:
        target = np.broadcast_to(np.float32(0) if number else np.int64(0), shape)
    else:
        target = np.zeros(shape, np.float32 if number else np.int64)
        target[first:] = np.nan if number else IGNORE
    return Examples(
        values,
        offsets,
        None if signature.target == "none" else target,
        np.arange(rows, dtype=np.int64),
        per_position=signature.per_position,
        paired=signature.paired,
    )
