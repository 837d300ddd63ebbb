"""A stage: one training phase, its identity, and how it is begun and finished."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from headstart.errors import BadInput
from headstart.initial import apply_start, trainable
from headstart.models.model import ModelSpec, SequenceModel, build_model, model_flops
from headstart.objectives import MaskedSpec, ObjectiveField
from headstart.parameters import leaves, select
from headstart.spec import Seed, Spec, digest, read
from headstart.tasks import Task, TaskField, TaskSpec
from headstart.tasks.task import content
from headstart.training.batches import Batches
from headstart.training.evaluate import Evaluation, evaluate
from headstart.training.loop import BudgetSpec, Progress, StepInfo, Tensors, TrainConfig, train
from headstart.training.optim import Flat, OptimSpec, rates_and_undecayed

TRAIN_FLOPS = 3
"""A training step costs about three forward passes: one forward, two for the gradients of inputs and weights."""


class StageSpec(Spec):
    """One training phase. `parent` is another stage; `start` says which parts of its weights are taken.

    weights: which weights of the parent, `best` or `last`. trainable: the parts that learn.
    """

    task: TaskField
    model: ModelSpec = Field(default_factory=ModelSpec)
    objective: ObjectiveField
    parent: StageSpec | None = None
    weights: Literal["best", "last"] = "best"
    start: tuple[str, ...] = Field(default=(), strict=False)
    trainable: str = "all"
    optim: OptimSpec = Field(default_factory=OptimSpec)
    budget: BudgetSpec
    seed: Seed = 0

    @model_validator(mode="after")
    def _resolve(self) -> StageSpec:
        """Write out what follows from other fields, so that equal stages have equal specs."""
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
        taken = [entry for entry in self.start if not entry.strip().startswith("draw")]
        if self.parent is None and taken:
            raise ValueError(f'start: {taken[0]!r} needs a parent; name one (parent = "pretrain")')
        if self.parent is not None and not taken:
            raise ValueError(
                "start: a parent is named but nothing of it is taken; "
                'write start = ["take(all-head)"] or leave the parent out'
            )
        if self._parent_is_a_fresh_start():
            _put(self, "parent", None)
            _put(self, "start", tuple(entry for entry in self.start if entry not in taken))
            _put(self, "weights", "best")
        return self

    def _parent_is_a_fresh_start(self) -> bool:
        """An untrained parent of the same model, task and seed has just the weights this stage would draw itself."""
        parent = self.parent
        return (
            parent is not None
            and parent.budget.empty
            and parent.parent is None
            and not parent.start
            and parent.seed == self.seed
            and parent.model == self.model
            and _whole(parent.task) == _whole(self.task)
            and all(e.strip().startswith(("take", "draw")) for e in self.start)
        )


def _put(spec: Spec, name: str, value: Any) -> None:
    """Set a field of a frozen spec while it is validated."""
    spec.__dict__[name] = value


def _whole(task: TaskSpec) -> TaskSpec:
    """The task with all its examples and labels: the same signature, of the same model."""
    return task.model_copy(update={"fraction": 1.0, "labelled": None})


def stage_from_json(given: Mapping[str, Any]) -> StageSpec:
    """A stage's spec from its JSON (`model_dump(mode="json")`)."""
    return read(StageSpec, given)


@lru_cache(maxsize=256)
def _content(task: TaskSpec, data: Path) -> str | None:
    return content(task, data)


def look_again() -> None:
    """Forget what is remembered of data: files may have changed since, in a process that lives long."""
    _content.cache_clear()


def identity(spec: StageSpec, data: Path) -> str:
    """First 16 hex digits of the SHA-256 of all that can change the stage's result: content, never place."""
    document = spec.document(places=False)
    held = _content(_whole(spec.task).model_copy(update={"patch": 1}), data)
    if held is not None:
        document["task"]["content"] = held
    if spec.parent is None:
        del document["parent"], document["weights"]
    else:
        document["parent"] = identity(spec.parent, data)
    return digest(document)


@dataclass(frozen=True)
class Outcome:
    """What a finished stage leaves. Fields as in `result.json`; tensors apart. how: its steps were taken so."""

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


class Run:
    """A stage that is being trained: `ticks()` to the end, then `finish()`."""

    def __init__(
        self,
        spec: StageSpec,
        task: Task,
        model: SequenceModel,
        account: Any,
        names: list[str],
        parent: Tensors | None,
        device: torch.device,
    ) -> None:
        self.spec, self.task, self.model, self.account, self.device = spec, task, model, account, device
        dtype = torch.float64 if spec.optim.precision == "float64" else torch.float32
        model.to(device=device, dtype=dtype)
        self.frozen = _unchanged(model, names, parent)
        self.feeds = {
            name: Batches(task.split(name), _units(spec, task, name), device, dtype)
            for name in ("train", "val", "test")
        }
        if not len(self.feeds["val"].units):
            raise BadInput(
                f"task.kind: {spec.task.kind!r} has no val example that {spec.objective.kind!r} can score, and the "
                "best weights are chosen there; give it some"
            )
        size = len(self.feeds["train"].units)
        if spec.optim.batch_size > size:
            raise BadInput(
                f"optim.batch_size: {spec.optim.batch_size} is more than the {size} train examples "
                f"of task {spec.task.kind!r}; give at most {size}"
            )
        rates, undecayed = rates_and_undecayed(model)
        decayed = (
            set(select(spec.optim.decay, leaves(model), "optim.decay")) - undecayed
            if spec.optim.weight_decay
            else set()
        )
        self.setting = TrainConfig(
            spec.objective,
            task.signature,
            spec.optim,
            spec.budget,
            spec.seed,
            self.feeds["train"],
            self.feeds["val"],
            None if task.fresh is None and task.augment is None else self._fresh,
        )
        self.progress = Progress(model, Flat(model, names, decayed, rates))

    def _fresh(self, epoch: int) -> Batches:
        """The train examples of an epoch, of an endless task or one that augments."""
        task, feed = self.task, self.feeds["train"]
        examples, units = task.train, feed.units
        if task.fresh is not None:
            examples = task.fresh(epoch)
            units = np.arange(examples.units)
        if task.augment is not None:
            examples = task.augment(examples, epoch)
        return Batches(examples, units, feed.device, feed.dtype)

    def ticks(self) -> Iterator[StepInfo]:
        """Train; one tick a step."""
        return train(self.setting, self.progress)

    def finish(self) -> Outcome:
        """Score train, val and test at the best and at the last weights, once."""
        progress = self.progress
        last = _copies(self.model)
        scores = {"last": self._scores(progress.step)[0]}
        if progress.best_step == progress.step or not progress.best:
            scores["best"], predictions = self._scores(progress.step, keep=True)
            best = last
        else:
            self.model.load_state_dict({**last, **progress.best}, strict=True)
            best = _copies(self.model)
            scores["best"], predictions = self._scores(progress.best_step, keep=True)
        monitor = self.spec.objective.monitored(self.task.signature)
        return Outcome(
            "diverged" if progress.diverged else "complete",
            best,
            last,
            self.frozen,
            predictions,
            scores,
            self._budget(),
            self._account(),
            {"name": monitor.name, "greater": monitor.greater},
            progress.how,
        )

    def _scores(self, step: int, keep: bool = False) -> tuple[dict[str, Any], Tensors]:
        found = {name: self._evaluate(name, keep and name != "train") for name in self.feeds}
        scores: dict[str, Any] = {name: _finite(found[name].scores) for name in found}
        outputs = {f"{name}/{part}": value for name, one in found.items() for part, value in one.outputs.items()}
        per_epoch = max(self.setting.per_epoch, 1)
        return {"step": step, "epoch": round(step / per_epoch, 4), **scores}, outputs

    def score(self, split: str) -> dict[str, float]:
        """Scores of the weights of this moment on `train`, `val` or `test`."""
        return self._evaluate(split, keep=False).scores

    def _evaluate(self, split: str, keep: bool) -> Evaluation:
        if not len(self.feeds[split].units):
            return Evaluation({}, {})
        return evaluate(
            self.model,
            self.feeds[split],
            self.spec.objective,
            self.task.signature,
            seed=self.spec.seed,
            precision=self.spec.optim.precision,
            keep=keep,
        )

    def _account(self) -> dict[str, Any]:
        return {
            "total": sum(p.numel() for p in self.model.parameters()),
            "trainable": self.progress.flat.weights.numel(),
            "account": self.account.to_json(),
        }

    def _budget(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "epochs": round(progress.step / max(self.setting.per_epoch, 1), 4),
            "steps": progress.step,
            "examples": progress.examples,
            "tokens": progress.tokens,
            "flops": TRAIN_FLOPS * progress.examples * flops_per_unit(self.spec, self.task),
            "seconds": progress.seconds,
            "peak_memory": _peak_memory(self.device),
        }


def begin(
    spec: StageSpec,
    task: Task,
    parent: Tensors | None,
    device: str = "cpu",
    resume: tuple[Tensors, dict[str, Any]] | None = None,
) -> Run:
    """Build the model, start it as the spec says, and go on from a state where one is given.

    Raises: BadInput where model, objective, start, parts or batch do not fit the task.
    """
    place = torch.device(device)
    output = spec.objective.output(task.signature)
    try:
        model = build_model(spec.model, task.signature, output, spec.seed)
    except (MemoryError, RuntimeError) as error:
        if "allocate" not in str(error) and not isinstance(error, MemoryError):
            raise
        raise BadInput(
            f"model: width {spec.model.width} with {spec.model.blocks} blocks does not fit into memory; make it smaller"
        ) from None
    spec.objective.monitored(task.signature)
    if spec.objective.kind == "causal" and not spec.model.causal:
        raise BadInput("model.causal: the objective 'causal' needs a causal model; set model.causal = true")
    names = trainable(model, spec.trainable)
    account = apply_start(model, spec.start, parent, spec.seed, trained=names)
    run = Run(spec, task, model, account, names, parent, place)
    if resume is not None:
        run.progress.restore(*resume)
    return run


def flops_per_unit(spec: StageSpec, task: Task) -> float:
    """Mean multiply-adds times two of one forward pass of a train unit, padding left out."""
    lengths, counts = np.unique(task.train.lengths, return_counts=True)
    output = spec.objective.output(task.signature)
    total = sum(
        model_flops(spec.model, task.signature, output, int(n)) * int(c) for n, c in zip(lengths, counts, strict=True)
    )
    return float(total / max(task.train.units, 1))


def _units(spec: StageSpec, task: Task, split: str) -> np.ndarray:
    """Units that the objective can use: all of them, or those with a target."""
    examples = task.split(split)
    return examples.labelled_units() if spec.objective.uses_target else np.arange(examples.units)


def _copies(model: SequenceModel) -> Tensors:
    return {name: value.detach().clone().cpu().contiguous() for name, value in model.state_dict().items()}


def _unchanged(model: SequenceModel, trained: list[str], parent: Tensors | None) -> list[str]:
    """Parameters that never train and equal the parent's: stored as a reference to it."""
    if parent is None:
        return []
    kept = set(trained)
    return [
        name
        for name, value in model.named_parameters()
        if name not in kept and name in parent and torch.equal(value.cpu(), parent[name].to(value.dtype))
    ]


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN: a score that is no number is None."""
    return {name: value if np.isfinite(value) else None for name, value in scores.items()}


def _peak_memory(device: torch.device) -> int:
    """Bytes: of the device where it is a GPU, else of the whole process so far."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
