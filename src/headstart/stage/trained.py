"""A trained stage: a network, an optimiser, and the loop between them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import Any, Literal

import numpy as np
import torch

from headstart.errors import BadInput, StackTooLarge, lacks_memory
from headstart.initial import Account, apply_start, trainable
from headstart.models.counting import Learning, frozen_layers, training_flops
from headstart.models.model import Network
from headstart.models.norms import Tensors
from headstart.models.outline import shapes_alone
from headstart.objectives.causal import per_byte
from headstart.spec import digest
from headstart.stage.spec import Size, StageOutcome, StageRun, TrainStage, finite, peak_memory
from headstart.tasks import Task
from headstart.training.batches import Ahead, Batches
from headstart.training.distributed import Ranks
from headstart.training.evaluate import Evaluation, Slices, evaluate
from headstart.training.features import FeatureBatches, feature_batches
from headstart.training.loop import Progress, StepInfo, TrainConfig, train, train_whole
from headstart.training.memory import HeldData
from headstart.training.optim import flat_parameters
from headstart.training.rehearsal import Rehearsal
from headstart.training.stack import Stack, common
from headstart.training.step import check_repeats

WARM_STEPS, TIMED_STEPS = 3, 10
"""Steps that are left out, and that are timed, where the length of a step is measured."""
PROBE_SECONDS = 2.0
"""Seconds after which no more steps are left out, or timed."""
MOST_MEMORY = 0.8
"""Share of a GPU's memory that a stack may take where its size is chosen: evaluations and fragments need the rest."""

SCORED_SPLITS = {"all": ("train", "val", "test"), "held_out": ("val", "test"), "val": ("val",)}
"""`budget.scored` -> the splits that are scored at the end."""


class TrainedRun(StageRun):
    """A stage that is being trained."""

    spec: TrainStage

    def __init__(
        self,
        spec: TrainStage,
        task: Task,
        parent: Tensors | None = None,
        device: str = "cpu",
        resume: tuple[Tensors, dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(spec, task, parent, device, resume)
        self.device = torch.device(device)
        with shapes_alone(self.device):
            self.model = _fresh_model(spec, task)
        if spec.objective.needs_causal and not spec.model.causal:
            way = "set model.causal = true"
            if "causal" not in type(spec.model).model_fields:
                way = f"where {spec.model.kind!r} is one, let its class say `causal: ClassVar[bool] = True`"
            raise BadInput(f"model.causal: the objective 'causal' needs a causal model; {way}")
        if spec.task.needs_causal and not getattr(spec.model, "causal", True):
            raise BadInput(
                f"model.causal: task {spec.task.kind!r} shows what it asks for one position later, where a model in "
                "both directions reads it; set model.causal = true"
            )
        names = trainable(self.model, spec.trainable)
        self.trained = names
        dtype = _dtype(spec)
        self.model.to(dtype=dtype)  # first, so that a parent's numbers are taken as they are
        self.account = self._started(parent)
        if self.device.type != "meta":
            self.model.to(device=self.device)
        self.frozen = sorted({name for name, _ in self.model.named_parameters()} - set(names))
        self.feeds = {name: _feed(spec, task, name, self.device) for name in ("train", "val", "test")}
        self.rehearsal = Rehearsal(
            self.model, spec.model, self._again, spec.objective, task.signature, dict(self.feeds), spec.seed
        )
        self.remarks: list[str] | None = None
        if spec.task.validation and not len(self.feeds["val"].units):
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
        first = self.feeds["train"].gathered(np.arange(1)).to(self.device, dtype)  # a plan holds no set for one batch
        with shapes_alone(self.device):
            check_repeats(self.model, spec.objective, task.signature, first, spec.seed)
        self.setting = self._setting()
        if self.setting.fresh is not None and self.device.type == "cuda":
            epochs = math.ceil(self.setting.total / self.setting.per_epoch)
            self.setting = replace(self.setting, fresh=Ahead(self.setting.fresh, epochs))
        with shapes_alone(self.device):
            flat = flat_parameters(self.model, names, spec.optim)
        self.progress = Progress(self.model, flat, features=self._features())
        if self.progress.features:
            self.feeds |= self.progress.features
            self.setting = replace(self.setting, train=self.feeds["train"], val=self.feeds["val"])
        if resume is not None:
            self.progress.restore(*resume)
        self.stack: Stack | None = None
        self.examples: HeldData | None = None
        self._learning, self._unit_flops = Learning(self.model, names), dict[str, float]()
        self._layers: dict[str, np.ndarray] = {}

    def planned(self, spec: TrainStage, parent: Tensors | None) -> TrainedRun:
        """A stage that is like this one but for start, budget, rate and seed; for a plan: both share one model.

        Raises: BadInput where its start or budget does not fit.
        """
        other = copy(self)
        other.spec, other.progress = spec, copy(self.progress)
        other.account = other._started(parent)
        other.setting = other._setting()
        other.progress.features = other._features()
        return other

    def _started(self, parent: Tensors | None) -> Account:
        """Give the model the weights that it starts from."""
        spec, task = self.spec, self.task
        symbols = task.symbols if any("symbols" in entry for entry in spec.start) else ()
        return apply_start(self.model, spec.start, parent, spec.seed, self.trained, symbols)

    def _setting(self) -> TrainConfig:
        """Raises: BadInput where the optimiser's steps do not fit the budget."""
        spec, task, feeds = self.spec, self.task, self.feeds
        setting = TrainConfig(
            spec.objective,
            task.signature,
            spec.optim,
            spec.budget,
            spec.seed,
            feeds["train"],
            feeds["val"],
            None if task.fresh is None and task.augment is None else self._fresh,
        )
        spec.optim.check_total(setting.total)
        return setting

    def join(self, stack: Stack) -> None:
        """Take the steps in company; data that another stage of the stack has are held once."""
        self.stack, fresh = stack, self.setting.fresh
        for name, feed in self.feeds.items():
            if type(feed) is Batches:
                self.feeds[name] = stack.shared.setdefault((name, id(feed.examples), feed.units.tobytes()), feed)
        if fresh is not None:
            fresh = stack.shared.setdefault(("fresh", id(self.task)), lru_cache(maxsize=2)(fresh))
        self.setting = replace(self.setting, train=self.feeds["train"], val=self.feeds["val"], fresh=fresh)

    @staticmethod
    def stack_key(spec: TrainStage) -> tuple[str, str]:
        """All but what stages of a stack have of their own: seed, rates, decay, clipping, dropout, start and budget."""
        if why := spec.model.alone or spec.optim.alone:
            return "", why
        document = spec.document()
        model = {name: value for name, value in document["model"].items() if name != "dropout"}
        shared = {name: document[name] for name in ("task", "objective", "trainable")}
        return digest({**shared, "model": model, "optim": common(spec.optim)}), ""

    def _fresh(self, epoch: int) -> Batches:
        """The train examples of an epoch, of an endless task or one that augments."""
        task, feed = self.task, self.feeds["train"]
        examples, units = task.train, feed.units
        if task.fresh is not None:
            examples = task.fresh(epoch)
            units = np.arange(examples.units)
        if task.augment is not None:
            if len(units) < examples.units:  # the others are not trained on: nothing of theirs is computed
                examples, units = examples.take(units), np.arange(len(units))
            examples = task.augment(examples, epoch)
        return Batches(examples, units, feed.device, feed.dtype)

    def _features(self) -> dict[str, FeatureBatches]:
        """The splits, where the frozen layers are computed once for each unit."""
        setting, spec, signature = self.setting, self.spec, self.task.signature
        layers = spec.model.layer_flops(signature, spec.objective.output(signature), signature.length)
        level = frozen_layers(Learning(self.model, self.trained), layers)[1]
        if setting.fresh is not None or setting.total < setting.per_epoch:
            return {}
        width = getattr(spec.model, "width", 0)
        return feature_batches(self.model, level, width, self.feeds, spec.objective, signature, spec.optim)

    def share(self, ranks: Ranks) -> None:
        """Train together with other ranks, each on its part of every batch."""
        self.setting = replace(self.setting, ranks=ranks)
        ranks.join(self.model)

    def _again(self) -> Network:
        """Another fresh network of the same seed."""
        model = _fresh_model(self.spec, self.task)
        return model.to(dtype=_dtype(self.spec), device=self.device)

    def steps(self) -> Iterator[StepInfo]:
        """Train; one tick a step, and before the first step one for each batch of features.

        Raises: BadInput where code of a person's own would fail later, or its result would mean nothing.
        """
        self.remarks = self.rehearsal.remarks()
        if self.device.type == "cpu" and self.stack is None:
            self.examples = HeldData(
                [feed for feed in self.feeds.values() if type(feed) is Batches],
                [self.model.get_parameter(name) for name in self.frozen] if self.progress.rest.watched else [],
            )
        yield from self.timed_steps()

    def timed_steps(self) -> Iterator[StepInfo]:
        """The same without a look at code of a person's own."""
        yield from train_whole(self.setting, self.progress, train if self.stack is None else self.stack.ticks)

    def size(self) -> Size:
        """Parameters, and what the budget buys."""
        steps, per_epoch, budget = self.setting.total, self.setting.per_epoch, self.spec.budget
        examples = round(steps * len(self.setting.train.units) / per_epoch)
        account = self._account()
        passes = examples * self.unit_flops("training")
        units = {name: len(feed.units) for name, feed in self.feeds.items()}
        every = budget.evaluate_every
        gap = steps / 10 if every is None else every * (per_epoch if budget.epochs is not None else 1)
        return Size(
            account["total"],
            account["trainable"],
            steps,
            examples,
            self._trained_flops(examples),
            math.ceil(steps / max(gap, 1)) * units["val"],
            2 * sum(units[name] for name in self._scored),
            self.unit_flops(),
            passes,
            sum(units.values()) if self.progress.features else 0,
        )

    def _trained_flops(self, examples: int) -> float:
        """FLOPs of training on so many units; frozen layers are counted once a unit where they are computed once."""
        once = self.unit_flops("frozen") if self.progress.features else 0.0
        units = len(self.setting.train.units) if examples else 0
        return examples * (self.unit_flops("training") - once) + units * once

    def unit_flops(self, of: Literal["forward", "training", "frozen"] = "forward") -> float:
        """Mean FLOPs of a unit of the task's train split, labelled or not, padding left out.

        They are those of a forward pass, of its frozen layers, or of a training step.

        That of a training step is its share, with the whole of the forward pass.
        """
        if of not in self._unit_flops:
            lengths, counts = self.task.train.length_counts
            self._unit_flops[of] = float(np.dot(self._flops_at(lengths, of), counts) / max(self.task.train.units, 1))
        return self._unit_flops[of]

    def _flops_at(self, lengths: np.ndarray, of: str) -> np.ndarray:
        """`unit_flops` of a unit of each length."""
        model, layers = self.spec.model, self._layers
        if not layers:
            signature = self.task.signature
            output = self.spec.objective.output(signature)
            each = dict(model.layers_at(signature, output, lengths.tolist()))
            layers |= {name: np.array(flops, dtype=np.float64) for name, flops in each.items()}
        if of == "training":
            made = model.kernels_at(lengths.tolist())
            kernels = {name: np.array(flops, dtype=np.float64) for name, flops in made.items()}
            batch = self.spec.optim.batch_size
            return np.asarray(training_flops(self._learning, layers.items(), lengths, kernels, batch))
        names = list(layers)
        last = frozen_layers(self._learning, list(layers.items()))[0] if of == "frozen" else len(names)
        return sum((layers[name] for name in names[:last]), np.zeros(len(lengths)))

    def seconds(self) -> tuple[float, float]:
        """The median of a few steps without the first ones, which are slower, and a look at validation.

        Of features that are computed once, nothing is known here: both are those of the plain way.
        """
        begun = before = time.perf_counter()
        times: list[float] = []
        for info in train(self.setting, self.progress):
            now = time.perf_counter()
            if info.record is None and (info.step > WARM_STEPS or (info.step > 1 and now - begun > PROBE_SECONDS)):
                times.append(now - before)
            before = now
            if len(times) >= TIMED_STEPS or (times and now - begun > 2 * PROBE_SECONDS):
                break
        self.score("val")
        before = time.perf_counter()
        self.score("val")
        scoring = (time.perf_counter() - before) / max(len(self.feeds["val"].units), 1)
        return median(times) if times else 0.0, scoring

    def weights(self) -> Tensors:
        """Those of the model itself, not copied."""
        return dict(self.model.state_dict())

    def finish(self) -> StageOutcome:
        """Score train, val and test, or those of `budget.scored`, at the best and at the last weights, once."""
        progress = self.progress
        progress.rest.note()
        last = _copies(self.model)
        averaged = progress.flat.average is not None and not progress.diverged
        if not averaged and (progress.best_step == progress.step or not progress.best):
            best = last
            score, predictions = self._scores(progress.step, keep=True)
            scores = {"last": score, "best": dict(score)}
        else:
            scores = {"last": self._scores(progress.step)[0]}
            progress.rest.check()
            progress.load_best()
            progress.rest.note()
            best = _copies(self.model)
            step = progress.best_step if progress.best else progress.step
            scores["best"], predictions = self._scores(step, keep=True)
        progress.rest.check()
        if self.examples is not None:
            self.examples.check()
        monitor = self.spec.objective.monitored(self.task.signature)
        if len(self.feeds["val"].units) and not progress.diverged:
            chosen = scores["best"]["val"]
            if chosen.get("loss") is not None and chosen.get(monitor.name) is None:
                raise BadInput(
                    f"objective: {self.spec.objective.kind!r} gives no number for {monitor.name} on val at any "
                    "evaluation, so that no weights could be chosen; let its scores give one, or monitor another"
                )
        return StageOutcome(
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
            remarks=self.remarks,
        )

    def _scores(self, step: int, keep: bool = False) -> tuple[dict[str, Any], Tensors]:
        splits = {name: self._evaluate(name, keep and name != "train") for name in self._scored}
        scores: dict[str, Any] = {
            name: finite({**splits[name].scores, **self._by_byte(name, splits[name])}) if name in splits else {}
            for name in self.feeds
        }
        outputs = {f"{name}/{part}": value for name, split in splits.items() for part, value in split.outputs.items()}
        per_epoch = max(self.setting.per_epoch, 1)
        return {"step": step, "epoch": round(step / per_epoch, 4), **scores}, outputs

    def _by_byte(self, split: str, evaluation: Evaluation) -> dict[str, float]:
        """Scores of texts by their bytes, where tokens are pieces of several."""
        bits, size = evaluation.scores.get("bits_per_token"), self.task.bytes_per_token.get(split)
        return {} if bits is None or size is None else per_byte(bits, size)

    @property
    def _scored(self) -> list[str]:
        """The splits that are scored at the end."""
        return [name for name in self.feeds if name in SCORED_SPLITS[self.spec.budget.scored]]

    def score(self, split: str) -> dict[str, float]:
        """Scores of the weights of this moment on `train`, `val` or `test`."""
        return self._evaluate(split, keep=False).scores

    def _evaluate(self, split: str, keep: bool) -> Evaluation:
        slices = self.task.slices if split == "test" else None
        return _evaluated(self.model, self.feeds[split], self.spec, self.task, keep, slices)

    @staticmethod
    def load_model(spec: TrainStage, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Network:
        """The network in evaluation; its forward takes a `sequence.Batch`."""
        del result
        model: Network = spec.model.network(task.signature, spec.objective.output(task.signature), spec.seed)
        if spec.optim.precision == "float64":
            model.double()
        model.load_state_dict(weights)
        return model.eval()

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
            "flops": self._trained_flops(progress.examples),
            "seconds": progress.seconds,
            "peak_memory": peak_memory(self.device),
        }


def seconds_together(runs: Sequence[TrainedRun]) -> float:
    """Seconds of a step of all these stages as one stack, or of the one stage alone, when all has been warmed up.

    Raises: StackTooLarge where they take more than their share of a GPU's memory.
    """
    device = runs[0].device
    if len(runs) > 1:
        stack = Stack()
        for run in runs:
            run.join(stack)
    for run in runs:
        for feed in run.progress.features.values():
            list(feed.fill())
    live = [run.timed_steps() for run in runs]
    begun = time.perf_counter()
    counts, took = (2 * WARM_STEPS + 1, 2 * TIMED_STEPS), 0.0
    for count in counts:
        _wait_for(device)
        before = time.perf_counter()
        rounds = 0
        while rounds < count and (not rounds or time.perf_counter() - begun < 2 * PROBE_SECONDS):
            for ticks in live:
                next(ticks)
            rounds += 1
        _wait_for(device)
        took = (time.perf_counter() - before) / rounds
    if device.type == "cuda":
        _, whole = torch.cuda.mem_get_info(device)
        if torch.cuda.max_memory_reserved(device) > MOST_MEMORY * whole:
            raise StackTooLarge(len(runs))
    return took


def _wait_for(device: torch.device) -> None:
    """Until a GPU has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _fresh_model(spec: TrainStage, task: Task) -> Network:
    """Raises: BadInput where it does not fit the task, or the memory."""
    output = spec.objective.output(task.signature)
    spec.objective.monitored(task.signature)
    try:
        model: Network = spec.model.network(task.signature, output, spec.seed)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise spec.too_large() from None
    return model


def _feed(spec: TrainStage, task: Task, split: str, device: torch.device) -> Batches:
    """The units that the objective can use: all of them, or those with a target."""
    examples = task.split(split)
    units = examples.labelled_units() if spec.objective.uses_target else np.arange(examples.units)
    return Batches(examples, units, device, _dtype(spec))


def _dtype(spec: TrainStage) -> torch.dtype:
    return torch.float64 if spec.optim.precision == "float64" else torch.float32


def _evaluated(
    model: Network, feed: Batches, spec: TrainStage, task: Task, keep: bool, slices: Slices | None = None
) -> Evaluation:
    if not len(feed.units):
        return Evaluation({}, {})
    slices = slices if spec.objective.uses_target else None
    how: dict[str, Any] = {"seed": spec.seed, "precision": spec.optim.precision, "keep": keep, "slices": slices}
    return evaluate(model, feed, spec.objective, task.signature, **how)


def outputs_of(model: Network, spec: TrainStage, task: Task, device: str) -> Tensors:
    """What the network of a stage gives on val and test, as a finished stage keeps it of its best weights."""
    feeds = {name: _feed(spec, task, name, torch.device(device)) for name in ("val", "test")}
    splits = {name: _evaluated(model.to(device), feed, spec, task, True) for name, feed in feeds.items()}
    return {f"{name}/{part}": value for name, split in splits.items() for part, value in split.outputs.items()}


def _copies(model: Network) -> Tensors:
    return {name: value.detach().clone().cpu().contiguous() for name, value in model.state_dict().items()}
