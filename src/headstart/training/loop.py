"""The loop: a generator of ticks. Saving, logging and progress are what the caller does with them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import Field, model_validator

from headstart.models.model import SequenceModel
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Signature, epoch_batches
from headstart.spec import Spec, neutral
from headstart.training.batches import Batches
from headstart.training.evaluate import evaluate
from headstart.training.graph import Record, Recorded, measured, noted, on_device
from headstart.training.metrics import TrainMetrics
from headstart.training.optim import Flat, OptimSpec

CHECK_EVERY = 20
"""Steps between looks at the running loss: a NaN stays in a sum, so that none is missed."""

Tensors = dict[str, torch.Tensor]


class BudgetSpec(Spec):
    """How long a stage trains: exactly one of epochs, steps (0 is legal: started, untrained) or tokens.

    evaluate_every: epochs between evaluations on val where the budget is in epochs, else steps (default: ten
    evaluations over the budget). patience: stop after so many evaluations without a better score. share: of the
    amount that is given, so that arms can divide one budget; written out while reading, it leaves no trace.
    """

    epochs: float | None = Field(default=None, ge=0)
    steps: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    evaluate_every: float | None = Field(default=None, gt=0)
    patience: int | None = Field(default=None, ge=1)
    share: float = neutral(1.0, ge=0, le=1)

    @model_validator(mode="after")
    def _one_measure(self) -> BudgetSpec:
        if sum(x is not None for x in (self.epochs, self.steps, self.tokens)) != 1:
            raise ValueError("give exactly one of epochs, steps or tokens")
        if self.share != 1:
            if self.epochs is not None:
                # Equal budgets must have equal identities: 0.1 of 3 is 0.3, not 0.30000000000000004.
                self.__dict__["epochs"] = round(self.epochs * self.share, 9)
            for name in ("steps", "tokens"):
                if (given := getattr(self, name)) is not None:
                    self.__dict__[name] = round(given * self.share)
            self.__dict__["share"] = 1.0
        return self

    @property
    def empty(self) -> bool:
        """True: nothing is trained."""
        return not (self.epochs or self.steps or self.tokens)

    def total_steps(self, per_epoch: int, tokens_per_epoch: int) -> int:
        """Optimiser steps that the budget buys; tokens are rounded up to whole steps."""
        if self.epochs is not None:
            return round(self.epochs * per_epoch)
        if self.steps is not None:
            return self.steps
        return math.ceil((self.tokens or 0) * per_epoch / tokens_per_epoch)

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
    """Everything that changes while a stage trains. `state` and `restore` carry it over a break, bit for bit."""

    model: SequenceModel
    flat: Flat
    step: int = 0
    examples: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    stale: int = 0
    diverged: bool = False
    best: Tensors = field(default_factory=dict)
    how: str = ""
    """How steps are taken, since the last begin: recorded, or plain and why."""
    running: TrainMetrics = field(init=False)
    """Loss and scores of the batches since the last record."""

    _NUMBERS = ("step", "examples", "tokens", "seconds", "best_score", "best_step", "stale", "diverged")

    def __post_init__(self) -> None:
        self.running = TrainMetrics(self.flat.weights.device)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """(tensors, JSON) of this moment; the tensors are copies."""
        tensors = {
            "weights": self.flat.weights,
            "first": self.flat.first,
            "second": self.flat.second,
            **self.running.state(),
        }
        tensors.update({f"buffer/{k}": v for k, v in buffers(self.model).items()})
        tensors.update({f"best/{k}": v for k, v in self.best.items()})
        return ({k: v.detach().clone().cpu() for k, v in tensors.items()}, {k: getattr(self, k) for k in self._NUMBERS})

    def restore(self, tensors: Tensors, numbers: dict[str, Any]) -> None:
        """Go on from a state."""
        for name in ("weights", "first", "second"):
            getattr(self.flat, name).copy_(tensors[name])
        self.running.restore(tensors)
        own = buffers(self.model)
        for name, value in tensors.items():
            if name.startswith("buffer/"):
                own[name.removeprefix("buffer/")].copy_(value)
            elif name.startswith("best/"):
                self.best[name.removeprefix("best/")] = value.to(self.flat.weights.device)
        for name in self._NUMBERS:
            setattr(self, name, numbers[name])

    def snapshot(self) -> Tensors:
        """Copies of all that training changes: trainable tensors and running statistics."""
        return {**self.flat.named(self.flat.weights), **{k: v.clone() for k, v in buffers(self.model).items()}}


def buffers(model: SequenceModel) -> Tensors:
    """Buffers that training changes (running statistics): the persistent ones."""
    kept = set(model.state_dict())
    return {name: value for name, value in model.named_buffers() if name in kept}


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
    record: how steps are recorded (runtime: see `graph.py`).
    """

    objective: ObjectiveSpec
    signature: Signature
    optim: OptimSpec
    budget: BudgetSpec
    seed: int
    train: Batches
    val: Batches
    fresh: Callable[[int], Batches] | None = None
    record: Record = "auto"

    @property
    def per_epoch(self) -> int:
        """Steps of one epoch."""
        return math.ceil(len(self.train.units) / self.optim.batch_size)

    @property
    def total(self) -> int:
        """Steps of the whole budget."""
        return self.budget.total_steps(self.per_epoch, int(self.train.tokens.sum()))


def train(setting: TrainConfig, progress: Progress) -> Iterator[StepInfo]:
    """Train to the end of the budget, one tick a step; `progress` holds the outcome.

    Ends early when patience is used up or the loss is no number (`progress.diverged`).
    """
    total, per_epoch = setting.total, setting.per_epoch
    batches: list[Any] = []
    feed, at_epoch = setting.train, -1
    recorded = Recorded(setting, progress, total)
    patience = math.inf if setting.budget.patience is None else setting.budget.patience
    # Looked at before a step, not after: a state saved at the last step must end there too.
    while progress.step < total and not progress.diverged and progress.stale < patience:
        began = time.perf_counter()
        epoch, place = divmod(progress.step, per_epoch)
        if epoch != at_epoch:
            feed = setting.train if setting.fresh is None else setting.fresh(epoch)
            batches = epoch_batches(
                feed.lengths, setting.optim.batch_size, setting.seed, epoch, setting.optim.length_pool
            )
            at_epoch = epoch
            recorded.turn_to(epoch, batches)
        if not recorded.take(place, batches[place]):
            _step(setting, progress, feed, batches[place], epoch, total)
        progress.how = recorded.how
        progress.step += 1
        progress.examples += len(batches[place])
        progress.tokens += int(feed.tokens[batches[place]].sum())
        mark = setting.budget.evaluates_at(progress.step, per_epoch, total)
        if progress.step % CHECK_EVERY == 0 or mark:
            progress.diverged = not math.isfinite(progress.running.loss)
        scored = mark or progress.diverged
        record = _record(setting, progress, total) if scored else None
        progress.seconds += time.perf_counter() - began
        if record is not None:
            record["seconds"] = round(progress.seconds, 3)
        yield StepInfo(progress.step, total, progress.step / per_epoch, record, progress.state)


def _step(setting: TrainConfig, progress: Progress, feed: Batches, places: Any, epoch: int, total: int) -> None:
    """Forward, backward, update."""
    seed, when = on_device(setting.seed, feed.device), on_device(epoch, feed.device)
    sums, statistics = measured(setting, progress.model, feed.batch(places), seed, when)
    count = sums["count"].clamp_min(1)
    if len(progress.flat.names):
        (sums["loss"] / count).backward()  # type: ignore[no-untyped-call]
        progress.flat.step(setting.optim, progress.step, total)
    noted(progress.running, buffers(progress.model) if statistics else {}, sums, statistics)


def _record(setting: TrainConfig, progress: Progress, total: int) -> dict[str, Any]:
    """Score val, keep the best weights, and say so; train is what the batches since the last record gave."""
    train_scores = {"loss": None} if progress.diverged else progress.running.scores(setting.objective)
    progress.running.clear()
    record: dict[str, Any] = {
        "step": progress.step,
        "epoch": round(progress.step / setting.per_epoch, 4),
        "examples": progress.examples,
        "tokens": progress.tokens,
        "rate": setting.optim.lr * setting.optim.factor(progress.step - 1, total),
        "train": train_scores,
    }
    if progress.diverged:
        return record
    found = evaluate(
        progress.model,
        setting.val,
        setting.objective,
        setting.signature,
        seed=setting.seed,
        precision=setting.optim.precision,
    )
    if not all(map(math.isfinite, found.scores.values())):
        progress.diverged = True
        return record
    record["val"] = found.scores
    monitor = setting.objective.monitored(setting.signature)
    score = found.scores[monitor.name]
    if monitor.better(score, progress.best_score):
        progress.best_score, progress.best_step, progress.stale = score, progress.step, 0
        progress.best = progress.snapshot()
    else:
        progress.stale += 1
    return record
