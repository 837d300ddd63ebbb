"""A fitted stage: a model without gradients, fitted in one go and scored by the objective that scores networks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headstart.baselines import from_arrays
from headstart.baselines.fitting import Fitted
from headstart.errors import BadInput, nearest
from headstart.models.norms import Tensors
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Batch, Examples, Signature, collate
from headstart.stage.spec import FitStage, Size, StageOutcome, StageRun, finite, peak_memory
from headstart.tasks import Task
from headstart.training.evaluate import PICTURED, Evaluation, TrainMetrics

SCORED_UNITS = 5_000
"""Train units that are scored at most, spread evenly."""


class FittedRun(StageRun):
    """A stage that is fitted on the CPU, from nothing: there is no step to stop at or to go on from."""

    def check(self) -> None:
        """Raises: BadInput where a split has no target."""
        spec, task = self.spec, self.task
        spec.objective.output(task.signature)
        spec.model.check(task.signature)
        for split in ("train", "val") if spec.task.validation else ("train",):
            if not len(task.split(split).labelled_units()):
                raise BadInput(
                    f"task.kind: {spec.task.kind!r} has no {split} example with a target, and a model of kind "
                    f"{spec.model.kind!r} is {'fitted' if split == 'train' else 'compared'} there; give it some"
                )

    def finish(self) -> StageOutcome:
        """Fit, and score train (at most `SCORED_UNITS` units of it), val and test."""
        spec, task = self.spec, self.task
        begun = time.perf_counter()
        weights = getattr(spec.objective, "class_weights", ())
        fitted = spec.model.fit(task.train, task.val, task.signature, spec.seed, np.array(weights) if weights else None)
        seconds = time.perf_counter() - begun
        frozen = spec.model.frozen()
        learned = {name: array for name, array in fitted.arrays().items() if name not in frozen}
        train = task.train.labelled_units()
        some = train[np.linspace(0, len(train) - 1, min(SCORED_UNITS, len(train))).astype(int)]
        units = {"train": some, "val": task.val.labelled_units(), "test": task.test.labelled_units()}
        splits = {
            name: score(fitted, task.split(name).take(rows), spec.objective, task.signature)
            for name, rows in units.items()
        }
        return outcome_without_steps(
            self,
            {name: finite(split.scores) for name, split in splits.items()},
            {f"{name}/{part}": value for name in ("val", "test") for part, value in splits[name].outputs.items()},
            {name: torch.from_numpy(np.array(value)) for name, value in learned.items()},
            amounts={"examples": len(train), "tokens": int(task.train.lengths.sum()), "seconds": seconds},
            title=spec.model.title(fitted.facts),
            model=fitted.facts.model_dump(mode="json"),
        )

    def size(self) -> Size:
        """What is read; how many numbers will be learned shows in the result."""
        return Size(examples=len(self.task.train.labelled_units()))

    @staticmethod
    def load_model(spec: FitStage, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Fitted:
        """The fitted model; `predict` takes `Examples`."""
        del task
        learned = {name: tensor.numpy() for name, tensor in weights.items()}
        return from_arrays(result["model"], {**spec.model.frozen(), **learned})


class KnownRun(StageRun):
    """A stage whose scores the task itself knows: a trivial rule, such as the distance of two marked discs."""

    def check(self) -> None:
        """Raises: BadInput where the task has no rule of that name."""
        rules = [model["name"] for model in self.spec.task.baselines if model["kind"] == "task"]
        self.rule = self.spec.model.name or next(iter(rules), "")
        if self.rule not in rules:
            others = nearest(self.rule, rules) if rules else "it has none; leave this arm out"
            raise BadInput(f"model.name: a trivial rule of task {self.spec.task.kind!r}: {others}")

    def finish(self) -> StageOutcome:
        """The scores that are known: of val, of test, or of both."""
        rule = next(rule for rule in self.task.baselines if rule.name == self.rule)
        values = {"train": None, "val": rule.val, "test": rule.test}
        metric = self.spec.objective.monitored(self.task.signature)
        name = "accuracy" if metric.greater and self.spec.objective.kind != "regress" else "r2"
        scores = {split: {} if value is None else {name: value} for split, value in values.items()}
        model = {"rule": rule.name, "source": rule.source}
        return outcome_without_steps(self, scores, {}, {}, title=rule.name, model=model)

    @staticmethod
    def load_model(spec: FitStage, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
        """Raises: BadInput, since a rule is known by its scores alone."""
        del task, weights
        raise BadInput(
            f"model.kind: {spec.model.kind!r} is known by its scores alone ({result['title']}); nothing predicts"
        )


def outcome_without_steps(
    run: StageRun,
    scores: Mapping[str, Any],
    predictions: Tensors,
    tensors: Tensors,
    *,
    title: str,
    model: dict[str, Any],
    amounts: Mapping[str, Any] | None = None,
) -> StageOutcome:
    """What a stage without steps leaves: its best weights are its last, and its parts are its arrays."""
    monitor = run.spec.objective.monitored(run.task.signature)
    none = {"taken": 0, "matched": 0, "drawn": 0, "frozen": 0}
    parts = [{"part": name, "total": x.numel(), **none, "fresh": x.numel()} for name, x in tensors.items()]
    total = sum(x.numel() for x in tensors.values())
    spent = {"epochs": 0.0, "steps": 0, "examples": 0, "tokens": 0, "flops": 0.0, "seconds": 0.0, **(amounts or {})}
    return StageOutcome(
        "complete",
        tensors,
        tensors,
        [],
        predictions,
        {which: {"step": 0, "epoch": 0.0, **scores} for which in ("best", "last")},
        {**spent, "peak_memory": peak_memory(torch.device("cpu"))},
        {"total": total, "trainable": total, "account": parts},
        {"name": monitor.name, "greater": monitor.greater},
        title=title,
        model=model,
    )


def score(fitted: Fitted, examples: Examples, objective: ObjectiveSpec, signature: Signature) -> Evaluation:
    """Scores by the objective, and outputs (log-probabilities or numbers) as `evaluate` keeps those of networks."""
    if not len(examples):
        return Evaluation({}, {})
    predicted = np.array(fitted.predict(examples))
    if signature.target == "class":
        predicted = np.log(np.maximum(predicted, np.finfo(np.float64).tiny))
    output = torch.from_numpy(predicted)
    output = output.reshape(len(output), -1)
    index = torch.from_numpy(examples.index.astype(np.int64))
    target = None
    if examples.target is not None:
        target = torch.from_numpy(examples.target.astype(np.float32 if examples.target.dtype.kind == "f" else np.int64))
    # Sums over targets: what the inputs are, and which position is whose, plays no part in them.
    nothing = torch.zeros((len(examples), 0))
    metrics = TrainMetrics(output.device)
    metrics.add(objective.measure(output, Batch(nothing, nothing.bool(), index, target), signature))
    tensors = {"output": output.float(), "index": index, "target": target}
    if examples.per_position:
        first = collate(examples, np.arange(min(PICTURED, examples.units)))
        padded = output.new_zeros((*first.valid.shape, output.shape[1]))
        padded[first.valid] = output[: int(first.valid.sum())]
        tensors = {"output": padded.float(), "index": first.index, "inputs": first.inputs, "valid": first.valid}
    outputs = {name: value.contiguous() for name, value in tensors.items() if value is not None}
    return Evaluation(objective.scores(metrics.totals()), outputs)
