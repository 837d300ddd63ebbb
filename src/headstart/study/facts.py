"""What is known of a plan's tasks without a model: sizes of their splits, chance levels, notes."""

from __future__ import annotations

from headstart.study.plan import Plan
from headstart.study.results import Facts
from headstart.study.selection import task_key
from headstart.tasks.task import Task, open_task


def gather(plan: Plan) -> dict[str, Facts]:
    """Facts of every task that a plan reports on, by `selection.task_key`.

    Raises: BadInput where a task's data cannot be read.
    """
    reported = {task_key(cell.chain[-1].spec): cell.chain[-1].spec for cell in plan.cells}
    return {
        key: of_task(spec.task.kind, open_task(spec.task, plan.data), spec.objective.uses_target)
        for key, spec in reported.items()
    }


def of_task(kind: str, task: Task, scored: bool = True) -> Facts:
    """Facts of an open task: sizes in units (pairs where there are pairs), chance, notes.

    `scored` False leaves out chance: an objective without a target has none.
    """
    sizes = {name: task.split(name).units for name in ("train", "val", "test")}
    sizes["labelled"] = len(task.train.labelled_units())
    chance = {}
    if scored and task.signature.target != "none":
        classed = task.signature.target == "class"
        chance = {"accuracy": 1 / task.signature.classes} if classed else {"r2": 0.0}
    return Facts(kind, sizes, chance, task.notes, task.labels)
