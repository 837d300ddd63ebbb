"""Stages as they would begin, with or without data: what they cost, and budgets in FLOPs written out as steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from headstart.errors import BadInput
from headstart.models.outline import without_numbers
from headstart.spec import Spec, digest
from headstart.stage import ReadStage, Size, StageRun, StageSpec, TrainStage, begin, identity
from headstart.tasks import Task
from headstart.tasks.outline import outlined
from headstart.tasks.task import absence
from headstart.training.loop import BudgetSpec

OPEN = "open-"
"""Begins the identity of a stage whose data are absent: what it will be, the data decide."""


class LacksData(BadInput):
    """A stage's data, or those of a parent, are not in the data folder."""


class Lack(NamedTuple):
    """What tasks and models say of their absent files."""

    data: tuple[str, ...]
    models: tuple[str, ...]


class Outlines:
    """Fits stages to the tasks of a data folder, each of which is opened once."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._absences = Absences(data)
        self._tasks: dict[str, Task | None] = {}
        self._sizes: dict[Hashable, Size | None] = {}
        self._parents: dict[Hashable, StageRun | None] = {}
        self._alike: dict[Hashable, StageRun] = {}

    def size(self, spec: StageSpec) -> Size | None:
        """What a stage would do, without drawing its weights; None where only absent data know the sizes.

        Raises: BadInput where model, parts, batch or task do not fit.
        """
        key = likeness(spec)
        if key not in self._sizes:
            run = self._begun(spec)
            self._sizes[key] = None if run is None else run.size()
        return self._sizes[key]

    def in_steps(self, spec: TrainStage, equal: Iterable[StageSpec] = ()) -> TrainStage:
        """The stage with its budget in FLOPs written out as whole steps, evaluations too; any other as it is.

        equal: the chain of the arm that the budget names; the stage gets what its parents leave of their FLOPs.
        Raises: BadInput where they buy no step, or where only absent data know what a step costs.
        """
        budget = spec.budget
        if budget.flops is None and budget.flops_of is None:
            return spec
        name = "budget.flops" if budget.flops is not None else "budget.flops_of"
        flops = budget.flops
        if flops is None:
            whole, spent = budget.share * sum(self._cost(stage, name)[1] for stage in equal), 0.0
            above: StageSpec | None = spec.parent
            while above is not None:
                spent, above = spent + self._cost(above, name)[1], above.parent
            flops = whole - spent
        per_epoch, epoch = self._cost(spec.model_copy(update={"budget": BudgetSpec(epochs=1.0)}), name)
        steps = round(flops * per_epoch / epoch)
        if steps < 1:
            left = f"{budget.flops_of!r} leaves {flops:.3g} FLOP" if budget.flops is None else f"{flops:.3g} FLOP"
            raise BadInput(f"{name}: {left}, one step costs {epoch / per_epoch:.3g}; give more")
        every = budget.evaluate_every
        gap = None if every is None else max(float(round(every * per_epoch)), 1.0)
        written = BudgetSpec(steps=steps, evaluate_every=gap, patience=budget.patience, scored=budget.scored)
        return spec.model_copy(update={"budget": written})

    def _cost(self, spec: StageSpec, name: str) -> tuple[int, float]:
        """(steps, FLOPs) of a stage, each step with a pass through the whole model."""
        size = self.size(spec)
        if size is None:
            raise BadInput(
                f"{name}: what a step on task {spec.task.kind!r} costs is not known until its data are in "
                f"{self.data}; put them there, or give epochs or steps"
            )
        return size.steps, size.plain_flops

    def identity(self, spec: StageSpec, may_be_open: bool) -> str:
        """Of a stage; where its data are absent an open one, or else LacksData."""
        # The identity first: it remembers what it has looked up, and asking each stage's files takes long in large
        # folders.
        if not (may_be_open and self._absences.knows(spec)):
            try:
                return identity(spec, self.data)
            except BadInput as error:
                if not any(self._absences.of(spec)):
                    raise
                if not may_be_open:
                    raise (error if spec.model.lacks else LacksData(str(error))) from None
        return OPEN + digest(spec.document())[: 16 - len(OPEN)]

    def _begun(self, spec: StageSpec) -> StageRun | None:
        """On torch's device that has shapes and no numbers; None without sizes."""
        task = self._task(spec)
        above = None if spec.parent is None else self._parent(spec.parent)
        absent = (task is None and spec.task is not None) or (above is None and spec.parent is not None)
        if absent or not spec.model.sized:
            return None
        parent = None if above is None else above.weights()
        key = _network(spec)
        try:
            with nullcontext() if isinstance(spec, TrainStage) else without_numbers():
                run = begin(spec, task, parent, "meta", like=self._alike.get(key))
            self._alike.setdefault(key, run)
            return run
        except (NotImplementedError, RuntimeError):  # a mixer of a person's own that looks at its numbers
            tensors = parent or {}
            plain = {name: torch.zeros_like(x, device="cpu") if x.is_meta else x for name, x in tensors.items()}
            return begin(spec, task, plain or None)

    def _parent(self, spec: StageSpec) -> StageRun | None:
        """As `_begun`, once for all children."""
        key = likeness(spec)
        if key not in self._parents:
            self._parents[key] = self._begun(spec)
        return self._parents[key]

    def _task(self, spec: StageSpec) -> Task | None:
        """The task of a stage without its numbers; None where there is none, or its data are absent."""
        if spec.task is None:
            return None
        key = digest(spec.task.document())
        if key not in self._tasks:
            self._tasks[key] = outlined(spec.task, self.data)
        return self._tasks[key]


class Absences:
    """What stages read that is not in a data folder; the files of each task are looked for once."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._texts: dict[Hashable, str] = {}

    def of(self, spec: StageSpec | None) -> Lack:
        """What a stage and its parents lack."""
        tasks, models = dict[str, None](), dict[str, None]()
        while spec is not None:
            if spec.task is not None:
                key = hashable(spec.task)
                if key not in self._texts:
                    self._texts[key] = absence(spec.task, self.data)
                if self._texts[key]:
                    tasks[self._texts[key]] = None
            if spec.model.lacks:
                models[spec.model.lacks] = None
            spec = spec.parent
        return Lack(tuple(tasks), tuple(models))

    def knows(self, spec: StageSpec | None) -> bool:
        """Whether a task of the stage or its parents was looked for and is absent."""
        while spec is not None:
            if spec.task is not None and self._texts.get(hashable(spec.task)):
                return True
            spec = spec.parent
        return False


def likeness(spec: StageSpec) -> Hashable:
    """Equal for stages that fit their tasks alike: seeds and learning rates do not matter, nor, where a budget is in
    steps, which of several folds is held out."""
    return _plain(spec), None if spec.parent is None else likeness(spec.parent)


def _network(spec: StageSpec) -> Hashable:
    """Equal for trained stages whose networks, parts, examples and optimisers are alike, wherever they start from."""
    if not isinstance(spec, TrainStage):
        return _plain(spec)
    budget = BudgetSpec(steps=1) if spec.budget.steps is not None else BudgetSpec(epochs=1.0)
    return _plain(spec, {"start": (), "budget": budget})


def _plain(spec: StageSpec, without: Mapping[str, Any] = MappingProxyType({})) -> Hashable:
    """A stage without its parent, its seed, its rate, and what else does not matter."""
    alike: dict[str, Any] = {} if isinstance(spec, ReadStage) else {"seed": 0}
    if isinstance(spec, TrainStage):
        task = spec.task.model_copy(update={"fold": 0}) if spec.budget.steps is not None else spec.task
        alike |= {"parent": None, "optim": spec.optim.model_copy(update={"lr": 1.0}), "task": task}
    return hashable(spec.model_copy(update={**alike, **without}))


def hashable(spec: Spec) -> Hashable:
    """Equal for equal specs: the spec, or, where a field of a plugin's kind is a table, the digest of its document."""
    try:
        hash(spec)
    except TypeError:
        return digest(spec.document())
    return spec
