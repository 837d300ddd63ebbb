"""What a stage is: its spec, its identity, and what any way of running it promises."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from headstart.errors import BadInput
from headstart.models.checkpoints.source import forget_hub
from headstart.models.checkpoints.spec import CheckpointSpec
from headstart.models.kind import ModelField, ModelKind, model_class
from headstart.models.model import ModelSpec
from headstart.models.norms import Tensors
from headstart.objectives import CausalSpec, MaskedSpec, ObjectiveField
from headstart.spec import Seed, Spec, digest, neutral, read
from headstart.stage.nothing import NoObjective, NoTask
from headstart.tasks import Task, TaskField, TaskSpec
from headstart.tasks.task import content
from headstart.training.loop import BudgetSpec, StepInfo
from headstart.training.optim import OptimSpec

UNTRAINED: dict[str, Any] = {
    "task": NoTask(),
    "objective": NoObjective(),
    "optim": OptimSpec(),
    "budget": BudgetSpec(steps=0),
    "seed": 0,
}
"""What stands in fields that a model does not use."""
REFUSED = {"parent": None, "start": (), "trainable": "all"}
"""Fields that say something of a stage on purpose: given where they mean nothing, they are refused."""


class StageSpec(Spec):
    """One training phase. `parent` is another stage; `start` says which parts of its weights are taken.

    model: of any kind of `models.MODELS`. weights: which weights of the parent, `best` or `last`. trainable: the parts
    that learn. A model that is not trained has no use for some fields (`ModelKind.unused`): what is inherited there
    (optim, budget, a seed) is replaced by the defaults, and a parent, a start or parts to train are refused.
    checkpoint: weights that are read instead of trained: all other settings mean nothing then.
    """

    task: TaskField
    model: ModelField = Field(default_factory=ModelSpec)
    objective: ObjectiveField
    parent: StageSpec | None = None
    weights: Literal["best", "last"] = "best"
    start: tuple[str, ...] = Field(default=(), strict=False)
    trainable: str = "all"
    optim: OptimSpec = Field(default_factory=OptimSpec)
    budget: BudgetSpec
    seed: Seed = 0
    checkpoint: CheckpointSpec | None = neutral(None)

    @model_validator(mode="before")
    @classmethod
    def _unused_need_not_be_there(cls, table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        if table.get("checkpoint") is not None:
            # What a column or an arm says to all stages, its model for one, is not even read.
            inherited = [name for name in CheckpointSpec.unused if name not in REFUSED]
            own = {name: value for name, value in table.items() if name not in inherited}
            return {**own, **{name: empty for name, empty in UNTRAINED.items() if name in inherited}}
        unused = model_class(table.get("model")).unused
        return {**{name: empty for name, empty in UNTRAINED.items() if name in unused}, **table}

    @model_validator(mode="after")
    def _resolve(self) -> StageSpec:
        """Write out what follows from other fields, so that equal stages have equal specs."""
        if self.checkpoint is not None:
            _put(self, "model", self.checkpoint)
        task: TaskSpec = self.task
        if not self.objective.uses_target and task.labelled is not None:
            _put(self, "task", task.model_copy(update={"labelled": None}))
        if isinstance(self.objective, MaskedSpec):
            filled: dict[str, Any] = {}
            if self.objective.mask_rate is None:
                filled["mask_rate"] = task.mask_rate
            if self.objective.loss is None:
                filled["loss"] = task.loss
            _put(self, "objective", self.objective.model_copy(update=filled))
        elif isinstance(self.objective, CausalSpec) and self.objective.monitor is None and task.monitor is not None:
            _put(self, "objective", self.objective.model_copy(update={"monitor": task.monitor}))
        self._leave_out_unused()
        if self.budget.patience is not None and not task.validation:
            raise ValueError(
                "budget.patience: training would stop by its scores on validation, and task.validation = 0 leaves "
                "none; leave one of both out"
            )
        taken = [entry for entry in self.start if not entry.strip().startswith("draw")]
        if self.parent is None and taken:
            raise ValueError(f'start: {taken[0]!r} needs a parent; name one (parent = "pretrain")')
        if self.parent is not None and not taken:
            raise ValueError(
                "start: a parent is named but nothing of it is taken; "
                'write start = ["take(all-head)"] or leave the parent out'
            )
        if self.parent is not None and not self.parent.model.gives_weights:
            raise ValueError(
                f"parent: its model is of kind {self.parent.model.kind!r}, which has no weights to start from; "
                "name a stage whose model is trained, or leave the parent out"
            )
        if self._parent_is_a_fresh_start():
            _put(self, "parent", None)
            _put(self, "start", tuple(entry for entry in self.start if entry not in taken))
            _put(self, "weights", "best")
        return self

    @model_serializer(mode="wrap")
    def _only_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A document holds what means something: a fitted stage has no learning rate."""
        document: dict[str, Any] = handler(self)
        absent = ("checkpoint",) if self.checkpoint is None else ()
        return {name: value for name, value in document.items() if name not in (*self.model.unused, *absent)}

    def _leave_out_unused(self) -> None:
        model: ModelKind = self.model
        for name, empty in REFUSED.items():
            if name in model.unused and getattr(self, name) != empty:
                raise ValueError(
                    f"{name}: a model of kind {model.kind!r} is not trained and has no use for it; "
                    "leave it out of this arm"
                )
        for name, empty in UNTRAINED.items():
            if name in model.unused:
                _put(self, name, empty)
        _put(self, "objective", model.asked(self.objective))

    def settled(self) -> StageSpec:
        """The stage with the content of what its model is read from written out, where that is at hand."""
        model = self.model.settled()
        if model is self.model:
            return self
        return self.model_copy(update={"model": model, **({"checkpoint": model} if self.checkpoint else {})})

    def uses(self, path: str) -> bool:
        """Whether a setting (`optim.lr`, `model.width`) means anything for a stage of this kind of model."""
        first, _, rest = path.partition(".")
        if first == "model" and rest:
            return rest.split(".")[0] in type(self.model).model_fields
        return first not in self.model.unused

    def too_large(self) -> BadInput:
        """What is raised where the model cannot be built here."""
        sizes = [f"{name} {value}" for name in ("width", "blocks") if (value := getattr(self.model, name, None))]
        return BadInput(f"model: {' and '.join(sizes) or 'it'} does not fit into memory; make it smaller")

    def _parent_is_a_fresh_start(self) -> bool:
        """An untrained parent of the same model, task and seed has just the weights this stage would draw itself."""
        parent = self.parent
        return (
            parent is not None
            and parent.budget.empty
            and parent.parent is None
            and not parent.start
            and parent.seed == self.seed
            and bool(parent.model == self.model)
            and _whole(parent.task) == _whole(self.task)
            and all(e.strip().startswith(("take", "draw")) for e in self.start)
        )


def _put(spec: Spec, name: str, value: Any) -> None:
    """Set a field of a frozen spec while it is validated."""
    spec.__dict__[name] = value


def _whole(task: TaskSpec) -> TaskSpec:
    """The task with all its examples and labels: the same signature, of the same model."""
    return task.model_copy(update={"fraction": 1.0, "labelled": None})


def stage_from_json(value: Mapping[str, Any]) -> StageSpec:
    """A stage's spec from its JSON (`model_dump(mode="json")`)."""
    return read(StageSpec, value)


@lru_cache(maxsize=256)
def _content(task: TaskSpec, data: Path) -> str | None:
    return content(task, data)


def content_digest(task: TaskSpec, data: Path) -> str | None:
    """What stands for a task's data in an identity: the digest of what is loaded, None for what is generated."""
    return _content(_whole(task).model_copy(update={"patch": 1}), data)


def look_again() -> None:
    """Forget what is remembered of data: files may have changed since, in a process that lives long."""
    _content.cache_clear()
    forget_hub()


def identity(spec: StageSpec, data: Path) -> str:
    """First 16 hex digits of the SHA-256 of all that can change the stage's result: content, never place."""
    return digest(identity_document(spec, data))


def identity_document(spec: StageSpec, data: Path) -> dict[str, Any]:
    """What an identity is the digest of. With another seed and the identity of the parent with that seed, it is that of
    the same stage with that seed."""
    if getattr(spec.model, "content", "") is None:
        spec = spec.settled()
    if spec.model.lacks:
        raise BadInput(spec.model.lacks)
    document = spec.document(places=False)
    for name in spec.model.unused:
        del document[name]
    digest_of_data = content_digest(spec.task, data)
    if digest_of_data is not None:
        document["task"]["content"] = digest_of_data
    if spec.parent is not None:
        document["parent"] = identity(spec.parent, data)
    else:
        for name in ("parent", "weights"):
            document.pop(name, None)
    return document


@dataclass(frozen=True)
class Outcome:
    """What a finished stage leaves. Fields as in `result.json`; tensors apart. how: its steps were taken so.

    frozen: names of tensors that no step has changed.

    title: what the model is called now that it has seen its data, and `model` what is known of it beside its tensors;
    both only where the spec does not say it. remarks: what a reader must know of code of a person's own, sentences;
    None where nobody looked.
    """

    status: Literal["complete", "diverged"]
    best: Tensors
    last: Tensors
    frozen: list[str]
    predictions: Tensors
    scores: dict[str, Any]
    budget: dict[str, Any]
    account: dict[str, Any]
    monitor: dict[str, Any]
    how: str = ""
    title: str = ""
    model: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] | None = None


@dataclass(frozen=True)
class Size:
    """How much a stage will do: parameters (0: known once it is done), steps, train examples that it reads, FLOPs.

    evaluated, scored: units that are scored while it trains, and at its end; unit_flops: FLOPs of scoring one.
    plain_flops: of training, were every step to pass the whole model: budgets in FLOPs are counted so. once: units of
    which the frozen layers are computed, a single time; 0 where every step passes the whole model.
    """

    parameters: int = 0
    trainable: int = 0
    steps: int = 0
    examples: int = 0
    flops: float = 0.0
    evaluated: int = 0
    scored: int = 0
    unit_flops: float = 0.0
    plain_flops: float = 0.0
    once: int = 0


class StageRun(Protocol):
    """A stage at work: `steps()` to the end, then `finish()`. A way of running stages inherits what it does not do."""

    spec: StageSpec
    task: Task

    def __init__(
        self,
        spec: StageSpec,
        task: Task,
        parent: Tensors | None = None,
        device: str = "cpu",
        resume: tuple[Tensors, dict[str, Any]] | None = None,
    ) -> None:
        """Start as the spec says, and go on from a state where one is given.

        parent: weights of the parent stage. resume: (tensors, meta) of a state.
        Raises: BadInput where model, objective, start, parts or batch do not fit the task.
        """
        del parent, device, resume
        self.spec, self.task = spec, task
        self.check()

    def check(self) -> None:
        """Raises: BadInput where spec and task do not fit; of stages that take nothing else."""
        return

    def steps(self) -> Iterator[StepInfo]:
        """Do the work, one tick a step; a stage without steps gives none."""
        yield from ()

    def finish(self) -> Outcome:
        """Scores, weights and predictions, once."""
        ...

    def size(self) -> Size:
        """What it will do, before it is done."""
        return Size()

    def seconds(self) -> tuple[float, float]:
        """(seconds of a step, seconds of scoring one sequence or pair), measured on a few steps, or 0."""
        return 0.0, 0.0

    def weights(self) -> Tensors:
        """The weights of this moment, as a child would get them."""
        return {}

    def join(self, stack: Any) -> None:
        """Take the steps in company with the other stages of a stack; a way without steps has none to take."""
        del stack

    @staticmethod
    def stack_key(spec: StageSpec) -> tuple[str, str]:
        """(what stages that can train as one stack have in common, empty: nothing; why such a stage trains alone)."""
        del spec
        return "", ""

    @staticmethod
    def check_child(parent: StageSpec, spec: StageSpec, task: Task) -> None:
        """Raises: BadInput where the stage `spec` cannot start from `parent`, which was run in this way."""
        del parent, spec, task

    @staticmethod
    def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
        """The model of a finished stage, ready to predict, from its weights and its `result.json`."""
        ...


def peak_memory(device: torch.device) -> int:
    """Bytes: of the device where it is a GPU, else of the whole process so far."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN: a score that is not a number is None."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}
