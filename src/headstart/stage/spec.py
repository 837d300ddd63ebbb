"""What a stage is: its spec, its identity, and what any way of running it promises."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

import torch
from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from headstart.checkpoints.source import forget_hub
from headstart.checkpoints.spec import CheckpointSpec
from headstart.errors import BadInput
from headstart.initial import NEEDS_NO_PARENT, touched
from headstart.models.blocks import GPT2_WIDTH, small_start
from headstart.models.kind import ModelField, model_class
from headstart.models.model import ModelSpec
from headstart.models.norms import Tensors
from headstart.objectives import ObjectiveField
from headstart.parameters import SelectsNothing, select
from headstart.spec import Seed, Spec, digest, read
from headstart.tasks import Task, TaskField, TaskSpec
from headstart.tasks.task import content
from headstart.training.loop import BudgetSpec, StepInfo
from headstart.training.optim import OptimField, OptimSpec

SHARED_SETTINGS = ("task", "model", "objective", "weights", "optim", "budget", "seed")
"""Settings that a column or an arm says to all stages of a chain, of which each takes what it has."""


TRAINING = ("parent", "start", "trainable")
"""Settings that say something of a stage on purpose: where nothing is trained, they are refused."""


class _Stage(Spec):
    """What stages of all three classes have in common."""

    if TYPE_CHECKING:

        @property
        def model(self) -> Any: ...

    def settled(self) -> Self:
        """The stage with the content of what its model is read from written out, where that is at hand."""
        model = self.model.settled()
        return self if model is self.model else self.model_copy(update={"model": model})

    @model_validator(mode="before")
    @classmethod
    def _trains_what_it_says(cls, table: Any) -> Any:
        for name in TRAINING:
            if isinstance(table, Mapping) and name in table and name not in cls.model_fields:
                kind = (
                    "checkpoint" if cls is ReadStage else model_class(table.get("model")).model_fields["kind"].default
                )
                text = f"a model of kind {kind!r} is not trained and has no use for it; leave it out of this arm"
                raise PydanticCustomError("unknown_key", "{text}", {"key": name, "text": text})
        return table

    hardly_mixes: ClassVar[bool] = False

    @property
    def shows_not(self) -> str:
        """What its scores do not show, a sentence that reports print; empty where nothing is to be said."""
        return str(self.model.shows_not)

    @property
    def precision(self) -> str:
        """Of the numbers that it is trained in."""
        return "float32"

    def too_large(self) -> BadInput:
        """What is raised where the model cannot be built here."""
        sizes = [f"{name} {value}" for name in ("width", "blocks") if (value := getattr(self.model, name, None))]
        return BadInput(f"model: {' and '.join(sizes) or 'it'} does not fit into memory; make it smaller")


class ReadStage(_Stage):
    """Weights that were made elsewhere and are read. It has no data, asks nothing and takes no seed."""

    checkpoint: CheckpointSpec
    """What is read."""
    task: ClassVar[Any] = None
    objective: ClassVar[Any] = None
    parent: ClassVar[None] = None
    seed: ClassVar[int] = 0
    seeded: ClassVar[bool] = False

    @property
    def model(self) -> Any:
        """The checkpoint, which is its own kind of model."""
        return self.checkpoint

    def settled(self) -> Self:
        """As of every stage."""
        checkpoint = self.checkpoint.settled()
        return self if checkpoint is self.checkpoint else self.model_copy(update={"checkpoint": checkpoint})


class FitStage(_Stage):
    """A model that is fitted to the labelled examples in one go, or that a task knows, without an optimiser."""

    task: TaskField
    model: ModelField
    """Of a kind of `models.MODELS` that is not trained."""
    objective: ObjectiveField
    seed: Seed = 0
    """Of models that draw (`ModelKind.seeded`)."""
    parent: ClassVar[None] = None

    @model_validator(mode="after")
    def _resolve(self) -> FitStage:
        """Write out what follows from other fields, so that equal stages have equal specs."""
        _resolve_question(self)
        if not self.seeded:
            _put(self, "seed", 0)
        return self

    @property
    def seeded(self) -> bool:
        """Whether its seed can change its result."""
        return bool(self.model.seeded)

    def document(self, *, places: bool = True) -> dict[str, Any]:
        """As of every spec; without a seed that means nothing."""
        document = super().document(places=places)
        return document if self.seeded else {name: value for name, value in document.items() if name != "seed"}

    @model_serializer(mode="wrap")
    def _without_idle_seed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        return document if self.seeded else {name: value for name, value in document.items() if name != "seed"}


def _read_parent(value: Any) -> Any:
    if isinstance(value, Mapping):
        return stage_class(value).model_validate(value)
    return value


ParentField = Annotated[SerializeAsAny["StageSpec"] | None, BeforeValidator(_read_parent)]


class TrainStage(_Stage):
    """A network that is trained by steps of an optimiser, from fresh weights or from those of a parent."""

    task: TaskField
    """The data set, `{ kind = ... }`."""
    model: ModelField = Field(default_factory=ModelSpec)
    """The model, `{ kind = ... }`; without a kind a network, see `model`."""
    objective: ObjectiveField
    """What is asked of the model, `{ kind = ... }`."""
    parent: ParentField = None
    """Name of the stage whose weights this one starts from."""
    weights: Literal["best", "last"] = "best"
    """Which weights of the parent are taken, the best by validation or the last."""
    start: tuple[str, ...] = Field(default=(), strict=False)
    """What is made of the parent's weights, from left to right: `"take(PART)"`, `"take(PART, rows='prefix')"`,
    `"take(PART, rows='symbols')"`, `"match(PART)"`, `"draw(PART, STD)"`, `"mimetic(PART)"`; the rest is fresh."""
    trainable: str = "all"
    """The parts that learn, such as `head` or `all-query_key`."""
    optim: OptimField = Field(default_factory=OptimSpec)
    """How weights are changed, see `optim`."""
    budget: BudgetSpec
    """How long the stage trains, see `budget`."""
    seed: Seed = 0
    """Seed of weights, order, masks and dropout; an axis `seed` sets it for the whole chain."""
    seeded: ClassVar[bool] = True

    @model_validator(mode="after")
    def _resolve(self) -> TrainStage:
        """Write out what follows from other fields, so that equal stages have equal specs."""
        _resolve_question(self)
        if self.budget.patience is not None and not self.task.validation:
            raise ValueError(
                "budget.patience: training would stop by its scores on validation, and task.validation = 0 leaves "
                "none; leave one of both out"
            )
        taken = [entry for entry in self.start if not entry.strip().startswith(NEEDS_NO_PARENT)]
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

    @property
    def precision(self) -> str:
        """As of every stage."""
        return self.optim.precision

    @property
    def hardly_mixes(self) -> bool:  # type: ignore[override]
        """Whether attention stays as GPT-2's start of 0.02 drew it, at a width at which such blocks hardly mix."""
        model = self.model
        if getattr(model, "init", "") != "gpt2" or model.width >= GPT2_WIDTH:
            return False
        leaves = {f"blocks.{i}.{leaf}": leaf for i in range(model.blocks) for leaf in ("query_key", "value_output")}
        moved = touched(self.start, leaves)
        with suppress(SelectsNothing):
            moved |= set(select(self.trainable, leaves, "trainable"))
        return len(moved) < len(leaves)

    @property
    def shows_not(self) -> str:
        """As of every stage."""
        if not self.hardly_mixes:
            return " ".join(filter(None, [small_start(self.parent), super().shows_not]))
        return (
            f"the frozen random blocks of width {self.model.width} hardly mix positions, since their deviation of 0.02 "
            f"is that of GPT-2's width of {GPT2_WIDTH}; a lead over them says nothing of pretraining "
            '(model.init = "gpt2_scaled" draws them by width).'
        )

    def _parent_is_a_fresh_start(self) -> bool:
        """An untrained parent of the same model, task and seed has just the weights this stage would draw itself."""
        parent = self.parent
        return (
            isinstance(parent, TrainStage)
            and parent.budget.empty
            and parent.parent is None
            and not parent.start
            and parent.seed == self.seed
            and bool(parent.model == self.model)
            and _whole(parent.task) == _whole(self.task)
            and all(e.strip().startswith(("take", "draw")) for e in self.start)
        )


StageSpec = TrainStage | FitStage | ReadStage
"""One phase of work with an identity, of one of three classes."""


def stage_class(table: Mapping[str, Any]) -> type[StageSpec]:
    """The class of a stage's table: `checkpoint` is read, a model that is not trained is fitted."""
    if table.get("checkpoint") is not None:
        return ReadStage
    return TrainStage if model_class(table.get("model")).way == "trained" else FitStage


def settings_of_class(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a table that a stage of its class has, where bundles say some to all stages of a chain."""
    fields = stage_class(table).model_fields
    return {name: value for name, value in table.items() if name in fields or name not in SHARED_SETTINGS}


def read_stage(table: Mapping[str, Any], name: str = "") -> StageSpec:
    """A stage from its table. Raises: BadInput that names each place, value and way out."""
    return read(stage_class(table), table, name)


def _resolve_question(spec: FitStage | TrainStage) -> None:
    """Write out what the objective takes from the task, and leave out what the objective does not read of it."""
    task: TaskSpec = spec.task
    if not spec.objective.uses_target and task.labelled is not None:
        _put(spec, "task", task.model_copy(update={"labelled": None}))
    _put(spec, "objective", spec.model.answered(spec.objective.resolved(task)))


def _put(spec: Spec, name: str, value: Any) -> None:
    """Set a field of a frozen spec while it is validated."""
    spec.__dict__[name] = value


def _whole(task: TaskSpec) -> TaskSpec:
    """The task with all its examples and labels: the same signature, of the same model."""
    return task.model_copy(update={"fraction": 1.0, "labelled": None})


@lru_cache(maxsize=256)
def _content(task: TaskSpec, data: Path) -> str | None:
    return content(task, data)


def content_digest(task: TaskSpec | None, data: Path) -> str | None:
    """What stands for a task's data in an identity: the digest of what is loaded, None for what is generated, and of no
    task."""
    return None if task is None else _content(_whole(task).model_copy(update={"patch": 1}), data)


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
    digest_of_data = content_digest(spec.task, data)
    if digest_of_data is not None:
        document["task"]["content"] = digest_of_data
    if spec.precision == "bfloat16" and spec.model.mixed_version > 1:
        document["mixed version"] = spec.model.mixed_version
    if spec.parent is not None:
        document["parent"] = identity(spec.parent, data)
    else:
        for name in ("parent", "weights"):
            document.pop(name, None)
    return document


@dataclass(frozen=True)
class StageOutcome:
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

    spec: Any
    task: Task

    def __init__(
        self,
        spec: Any,
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

    def finish(self) -> StageOutcome:
        """Scores, weights and predictions, once."""
        ...

    def planned(self, spec: Any, parent: Tensors | None) -> StageRun | None:
        """For a plan: a stage like this one but for start, budget, rate and seed. None: it is begun by itself."""
        del spec, parent
        return None

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
    def stack_key(spec: Any) -> tuple[str, str]:
        """(what stages that can train as one stack have in common, empty: nothing; why such a stage trains alone)."""
        del spec
        return "", ""

    @staticmethod
    def check_child(parent: Any, spec: TrainStage, task: Task) -> None:
        """Raises: BadInput where the stage `spec` cannot start from `parent`, which was run in this way."""
        del parent, spec, task

    @staticmethod
    def load_model(spec: Any, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
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
