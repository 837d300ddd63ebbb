"""The loop: a generator of records, one a step. Saving, logging and progress are what the caller does with them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from headstart.errors import BadInput
from headstart.models.model import Network
from headstart.models.norms import Tensors
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Batch, Signature, epoch_batches
from headstart.spec import Spec, neutral
from headstart.training import BUDGET_MEASURES
from headstart.training.batches import Batches, batches_ahead
from headstart.training.distributed import ALONE, Ranks
from headstart.training.evaluate import TrainMetrics, evaluate
from headstart.training.features import FeatureBatches
from headstart.training.graph import GraphedStep, RecordChoice, choose_recorder
from headstart.training.memory import AtRest, check_state, state_sums
from headstart.training.optim import FlatParameters, Numbers, OptimSpec, OwnOptimSpec, Weights, step_numbers
from headstart.training.step import TrainStep, on_device, own_class

CHECK_EVERY = 20
"""Steps between looks at the running loss: a NaN stays in a sum, so that none is missed. A GPU is not waited for: its
loss of one look is read at the next."""


class BudgetSpec(Spec):
    """How long a stage trains: exactly one of epochs, steps, tokens, flops and flops_of."""

    epochs: float | None = Field(default=None, ge=0)
    """Passes over the train examples."""
    steps: int | None = Field(default=None, ge=0)
    """Optimiser steps; 0 starts a model and does not train it."""
    tokens: int | None = Field(default=None, ge=0)
    """Valid positions trained on."""
    evaluate_every: float | None = Field(default=None, gt=0)
    """Epochs between evaluations on val, but steps where the budget is in steps or tokens (default: ten evaluations
    over the budget)."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many evaluations without a better score."""
    share: float = neutral(1.0, ge=0, le=1)
    """Of the amount that is given, so that arms can divide one budget; written out while reading, it leaves no trace.
    """
    flops: float | None = neutral(None, gt=0)
    """Of training, forward and backward passes."""
    flops_of: str | None = neutral(None)
    """An arm of the study; all stages of this run together get the FLOPs of all of that arm's. A plan writes both out
    as steps."""
    scored: Literal["all", "held_out", "val"] = neutral("all")
    """Splits that are scored at the end: all, val and test (`held_out`), or val alone, which says enough of a stage
    that others start from."""

    @model_validator(mode="after")
    def _one_measure(self) -> BudgetSpec:
        amounts = {name: getattr(self, name) for name in BUDGET_MEASURES if getattr(self, name) is not None}
        if len(amounts) != 1:
            raise ValueError("give exactly one of epochs, steps, tokens, flops or flops_of")
        ((name, amount),) = amounts.items()
        if self.share != 1 and name != "flops_of":
            # Equal budgets must have equal identities: 0.1 of 3 is 0.3, not 0.30000000000000004.
            part = amount * self.share
            self.__dict__[name] = round(part, 9) if isinstance(amount, float) else round(part)
            self.__dict__["share"] = 1.0
        return self

    @property
    def empty(self) -> bool:
        """True: nothing is trained."""
        return not any(getattr(self, name) for name in BUDGET_MEASURES)

    def total_steps(self, per_epoch: int, tokens_per_epoch: int) -> int:
        """Optimiser steps that the budget buys; tokens are rounded up to whole steps.

        Raises: BadInput for one in FLOPs, which a plan has to write out as steps.
        """
        if self.epochs is not None:
            return max(round(self.epochs * per_epoch), int(self.epochs > 0))
        if self.steps is not None:
            return self.steps
        if self.tokens is None:
            raise BadInput("budget: FLOPs become steps in the plan of a study; give epochs, steps or tokens here")
        return math.ceil(self.tokens * per_epoch / tokens_per_epoch)

    def evaluates_at(self, step: int, per_epoch: int, total: int) -> bool:
        """Whether val is scored after this many steps (from 1): at the nearest step to each multiple, and the last."""
        if self.evaluate_every is None:
            gap = total / 10
        else:
            gap = self.evaluate_every * (per_epoch if self.epochs is not None else 1)
        near = round(step / gap)
        return step == total or any(round(gap * i) == step for i in (near - 1, near, near + 1))


@dataclass
class Progress:
    """Everything that changes while a stage trains. `state` and `restore` carry it over a break, bit for bit.

    how: how steps are taken, since the last begin: recorded, or plain and why. features: splits of which the frozen
    layers are computed once. metrics: loss and scores of the batches since the last record. statistics: buffers that
    training changes (running statistics), the persistent ones.
    """

    model: Network
    flat: FlatParameters
    step: int = 0
    examples: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    bad_evaluations: int = 0
    diverged: bool = False
    best: Tensors = field(default_factory=dict)
    how: str = ""
    features: Mapping[str, FeatureBatches] = field(default_factory=dict)
    metrics: TrainMetrics = field(init=False)
    rest: AtRest = field(init=False)
    statistics: Tensors = field(init=False)

    _NUMBERS = {
        name: name for name in ("step", "examples", "tokens", "seconds", "best_score", "best_step", "diverged")
    } | {"stale": "bad_evaluations"}
    """Names in a saved state, and here."""

    def __post_init__(self) -> None:
        self.metrics = TrainMetrics(self.flat.weights.device)
        # Code of a person's own may write to its weights as it likes.
        self.rest = AtRest(self.flat, all(own_class(module) is None for module in self.model.modules()))
        persistent = set(self.model.state_dict(keep_vars=True))
        self.statistics = {name: value for name, value in self.model.named_buffers() if name in persistent}

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """(tensors, JSON) of this moment; the tensors are copies."""
        tensors = {"weights": self.flat.weights, **self.flat.moments._asdict(), **self.metrics.state()}
        tensors.update({} if self.flat.average is None else {"average": self.flat.average})
        tensors.update({f"buffer/{name}": value for name, value in self.statistics.items()})
        tensors.update({f"best/{name}": value for name, value in self.best.items()})
        tensors.update({f"features/{name}": feed.computed() for name, feed in self.features.items() if feed.done})
        copies = {name: value.detach().clone().cpu() for name, value in tensors.items()}
        numbers = {saved: getattr(self, name) for saved, name in self._NUMBERS.items()}
        return copies, {**numbers, "sums": state_sums(tensors)}

    def restore(self, tensors: Tensors, numbers: dict[str, Any]) -> None:
        """Go on from a state. Raises: MemoryChanged where it is not the one that was made."""
        for name, value in {"weights": self.flat.weights, **self.flat.moments._asdict()}.items():
            value.copy_(tensors[name])
        if self.flat.average is not None:
            self.flat.average.copy_(tensors["average"])
        self.metrics.restore(tensors)
        for name, value in tensors.items():
            if name.startswith("buffer/"):
                self.statistics[name.removeprefix("buffer/")].copy_(value)
            elif name.startswith("best/"):
                self.best[name.removeprefix("best/")] = value.to(self.flat.weights.device)
            elif name.startswith("features/"):
                self.features[name.removeprefix("features/")].restore(value)
        check_state(tensors, numbers.get("sums", {}))
        self.rest.note_best(self.best)
        for saved, name in self._NUMBERS.items():
            setattr(self, name, numbers[saved])

    def count(self, examples: int, tokens: int, how: str) -> None:
        """A step has been taken."""
        self.step += 1
        self.examples += examples
        self.tokens += tokens
        self.how = how

    @torch.no_grad()
    def load_best(self) -> None:
        """Put the best weights into the model: those that validation chose, or without it an average of weights."""
        if not self.best and self.flat.average is not None:
            self.flat.weights.copy_(self.flat.average)
        self.rest.check_best(self.best)
        for name, value in self.best.items():
            (self.flat.tensors | self.statistics)[name].copy_(value)

    def snapshot(self) -> Tensors:
        """Copies of all that training changes: trainable tensors and running statistics."""
        return {name: value.detach().clone() for name, value in (self.flat.tensors | self.statistics).items()}


@dataclass(frozen=True)
class StepInfo:
    """One finished step. `record` is there where val was scored."""

    step: int
    steps: int
    epoch: float
    record: dict[str, Any] | None
    state: Callable[[], tuple[Tensors, dict[str, Any]]]


@dataclass(frozen=True)
class TrainConfig:
    """What a stage trains with; constant while it runs.

    fresh: the train examples of an epoch, for a task whose examples never end; None where `train` is all.
    record: how steps are recorded (runtime: see `graph.py`). ranks: those that share each batch (see `distributed.py`).
    """

    objective: ObjectiveSpec
    signature: Signature
    optim: OptimSpec
    budget: BudgetSpec
    seed: int
    train: Batches
    val: Batches
    fresh: Callable[[int], Batches] | None = None
    record: RecordChoice = "auto"
    ranks: Ranks = ALONE

    @cached_property
    def per_epoch(self) -> int:
        """Steps of one epoch."""
        return math.ceil(len(self.train.units) / self.optim.batch_size)

    @cached_property
    def total(self) -> int:
        """Steps of the whole budget."""
        tokens = 0 if self.budget.tokens is None else int(self.train.tokens.sum())
        return self.budget.total_steps(self.per_epoch, tokens)

    def ended(self, progress: Progress) -> bool:
        """Whether training is over: the budget or patience is used up, or the loss is not finite."""
        patience = math.inf if self.budget.patience is None else self.budget.patience
        return progress.step >= self.total or progress.diverged or progress.bad_evaluations >= patience


def train(config: TrainConfig, progress: Progress) -> Iterator[StepInfo]:
    """Train to the end of the budget, one record a step; `progress` holds the outcome.

    Ends early when patience is used up or the loss is not finite (`progress.diverged`).
    """
    total, per_epoch, optim, flat, ranks = config.total, config.per_epoch, config.optim, progress.flat, config.ranks
    own = (flat.tensors, progress.statistics)
    rest = progress.rest
    look = rest.check if flat.weights.device.type == "cpu" else None
    step = TrainStep(progress.model, config.objective, config.signature, optim, own, flat.groups, ranks, look)
    weights, numbers = Weights(flat.weights, flat.tensors), partial(step_numbers, optim, flat.groups, total)

    def take(batch: Batch, numbers: Numbers, seed: Any, epoch: Any) -> None:
        """Forward, loss, backward, update; and the batch's sums into the train metrics."""
        progress.metrics.add(step(weights, flat.moments, progress.statistics, batch, numbers, seed, epoch))
        flat.average_(optim.average or 0.0)

    record = choose_recorder(
        config.record if progress.model.recordable and not isinstance(optim, OwnOptimSpec) else None,
        config.train,
        trained=bool(flat.tensors),
        alone=ranks.count == 1,
    )
    longest = config.signature.length
    graphed = GraphedStep(take, config.train, numbers, config.seed, longest, optim.batch_size, per_epoch, record)
    course = Course(config)
    rest.note()
    # Looked at before a step, not after: a state saved at the last step must end there too.
    while not config.ended(progress):
        began = time.perf_counter()
        if course.move_to(progress.step):
            graphed.start_epoch(course.epoch, course.order, course.batches)
        if not graphed.take(course.position, course.units):
            seed, counter = (on_device(number, course.batches.device) for number in (config.seed, course.epoch))
            take(rest.hold(course.batch()), numbers(progress.step), seed, counter)
        rest.note()
        yield finish_step(config, progress, course, graphed.how, began)
    rest.check()


def train_whole(
    config: TrainConfig, progress: Progress, steps: Callable[[TrainConfig, Progress], Iterator[StepInfo]] = train
) -> Iterator[StepInfo]:
    """`train`, or `steps` of a stack, and before the first step a tick for each batch of features computed once."""
    began = time.perf_counter()
    for feed in progress.features.values():
        for _ in feed.fill():
            progress.seconds += time.perf_counter() - began
            yield StepInfo(progress.step, config.total, progress.step / config.per_epoch, None, progress.state)
            began = time.perf_counter()
    yield from steps(config, progress)


class Course:
    """Which examples a step of a stage reads: after `move_to`, the epoch's `batches` and the step's `units` there."""

    def __init__(self, config: TrainConfig) -> None:
        self.config, self.batches = config, config.train
        self.epoch, self.position, self.order = -1, 0, list[np.ndarray]()
        self.ahead: Callable[[int], Batch] | None = None

    def move_to(self, step: int) -> bool:
        """Go to a step (from 0). True: its epoch is another one than before."""
        config, (epoch, self.position) = self.config, divmod(step, self.config.per_epoch)
        if epoch == self.epoch:
            return False
        self.batches, self.epoch = config.train if config.fresh is None else config.fresh(epoch), epoch
        optim = config.optim
        self.order = epoch_batches(self.batches.lengths, optim.batch_size, config.seed, epoch, optim.length_pool)
        self.ahead = batches_ahead(self.batches, [config.ranks.part(units) for units in self.order])
        return True

    @property
    def units(self) -> np.ndarray:
        """Places, in `batches.units`, of the units of the step."""
        return self.order[self.position]

    def batch(self) -> Batch:
        """The batch of the step: this rank's part of it."""
        if self.ahead is not None:
            return self.ahead(self.position)
        return self.batches.batch(self.config.ranks.part(self.units))


def finish_step(config: TrainConfig, progress: Progress, course: Course, how: str, began: float) -> StepInfo:
    """What follows a step that has been taken: it is counted, and where one is due val is scored. began: its time."""
    total, per_epoch, units = config.total, config.per_epoch, course.units
    progress.count(len(units), int(course.batches.tokens[units].sum()), how)
    evaluated = config.budget.evaluates_at(progress.step, per_epoch, total)
    if evaluated:
        progress.diverged = not math.isfinite(progress.metrics.loss)
    elif progress.step % CHECK_EVERY == 0:
        progress.diverged = not math.isfinite(progress.metrics.glance())
    result = _record(config, progress) if evaluated or progress.diverged else None
    progress.seconds += time.perf_counter() - began
    if result is not None:
        result["seconds"] = round(progress.seconds, 3)
    return StepInfo(progress.step, total, progress.step / per_epoch, result, progress.state)


def _record(config: TrainConfig, progress: Progress) -> dict[str, Any]:
    """Train scores of the batches since the last record, and validation scores; keeps the best weights."""
    record: dict[str, Any] = {
        "step": progress.step,
        "epoch": round(progress.step / config.per_epoch, 4),
        "examples": progress.examples,
        "tokens": progress.tokens,
        "rate": config.optim.lr * config.optim.factor(progress.step - 1, config.total),
        "train": {"loss": None} if progress.diverged else _numbers(progress.metrics.scores(config.objective)),
    }
    progress.metrics.clear()
    # Where val trains too there is nothing to choose the best weights on: the last ones stay.
    if progress.diverged or not len(config.val.units):
        return record
    with progress.flat.averaged():
        return _validated(config, progress, record)


def _validated(config: TrainConfig, progress: Progress, record: dict[str, Any]) -> dict[str, Any]:
    """A record with the scores of these weights on validation; keeps them where they are the best."""
    optim, model = config.optim, progress.model
    scores = config.ranks.from_first(
        lambda: (
            evaluate(
                model, config.val, config.objective, config.signature, seed=config.seed, precision=optim.precision
            ).scores
        )
    )
    if not math.isfinite(scores.get("loss", 0.0)):
        progress.diverged = True
        return record
    # A score that is no number, of classes that are not there for one, is not a loss that has left the numbers.
    record["val"] = _numbers(scores)
    monitor = config.objective.monitored(config.signature)
    if monitor.better(scores[monitor.name], progress.best_score):
        progress.best_score, progress.best_step, progress.bad_evaluations = scores[monitor.name], progress.step, 0
        progress.best = progress.snapshot()
        progress.rest.note_best(progress.best)
    else:
        progress.bad_evaluations += 1
    return record


def _numbers(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores that are numbers."""
    return {name: value for name, value in scores.items() if math.isfinite(value)}
