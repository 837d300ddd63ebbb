"""A fitted stage: a model without gradients, fitted in one go and scored by the objective that scores networks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from headstart.baselines import from_arrays
from headstart.baselines.contract import Fitted
from headstart.errors import BadInput
from headstart.models.norms import Tensors
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Batch, Examples, Signature, collate
from headstart.stage.spec import Outcome, Size, StageSpec, finite, peak_memory
from headstart.tasks import Task
from headstart.training.evaluate import PICTURED, Evaluation
from headstart.training.loop import StepInfo
from headstart.training.metrics import TrainMetrics

SCORED = 5_000
"""Train units that are scored at most, spread evenly."""


class FittedRun:
    """A stage that is being fitted."""

    def __init__(self, spec: StageSpec, task: Task) -> None:
        self.spec, self.task = spec, task
        self._fitted: Fitted | None = None
        self._seconds = 0.0
        spec.objective.output(task.signature)
        for split in ("train", "val"):
            if not len(task.split(split).labelled_units()):
                raise BadInput(
                    f"task.kind: {spec.task.kind!r} has no {split} example with a target, and a model of kind "
                    f"{spec.model.kind!r} is {'fitted' if split == 'train' else 'compared'} there; give it some"
                )

    def steps(self) -> Iterator[StepInfo]:
        """Fit; there is no step to stop at or to go on from."""
        spec, task = self.spec, self.task
        begun = time.perf_counter()
        weights = getattr(spec.objective, "class_weights", ())
        self._fitted = spec.model.fit(
            task.train, task.val, task.signature, spec.seed, np.array(weights) if weights else None
        )
        self._seconds = time.perf_counter() - begun
        yield from ()

    def finish(self) -> Outcome:
        """Score train (at most `SCORED` units of it), val and test."""
        for _ in self.steps() if self._fitted is None else ():
            pass
        fitted, task = self._fitted, self.task
        assert fitted is not None
        train = task.train.labelled_units()
        some = train[np.linspace(0, len(train) - 1, min(SCORED, len(train))).astype(int)]
        units = {"train": some, "val": task.val.labelled_units(), "test": task.test.labelled_units()}
        found = {
            name: score(fitted, task.split(name).take(rows), self.spec.objective, task.signature)
            for name, rows in units.items()
        }
        scores: dict[str, Any] = {name: finite(split.scores) for name, split in found.items()}
        outputs = {f"{name}/{part}": value for name in ("val", "test") for part, value in found[name].outputs.items()}
        monitor = self.spec.objective.monitored(task.signature)
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in fitted.arrays().items()}
        return Outcome(
            "complete",
            tensors,
            tensors,
            [],
            outputs,
            {which: {"step": 0, "epoch": 0.0, **scores} for which in ("best", "last")},
            {
                "epochs": 0.0,
                "steps": 0,
                "examples": len(train),
                "tokens": int(task.train.lengths.sum()),
                "flops": 0.0,
                "seconds": self._seconds,
                "peak_memory": peak_memory(torch.device("cpu")),
            },
            account(tensors),
            {"name": monitor.name, "greater": monitor.greater},
            title=self.spec.model.title(fitted.facts),
            model=fitted.facts.model_dump(mode="json"),
        )

    def size(self) -> Size:
        """What is read; how many numbers will be learned shows in the result."""
        return Size(examples=len(self.task.train.labelled_units()))

    def seconds(self) -> tuple[float, float]:
        """Not known before."""
        return 0.0, 0.0

    def weights(self) -> Tensors:
        """None: no child starts from a fitted model."""
        return {}


def account(tensors: Tensors) -> dict[str, Any]:
    """Numbers of each array, in the form in which the parts of a network are counted."""
    none = {"taken": 0, "matched": 0, "drawn": 0, "frozen": 0}
    parts = [{"part": name, "total": x.numel(), **none, "fresh": x.numel()} for name, x in tensors.items()]
    total = sum(x.numel() for x in tensors.values())
    return {"total": total, "trainable": total, "account": parts}


def score(fitted: Fitted, examples: Examples, objective: ObjectiveSpec, signature: Signature) -> Evaluation:
    """Scores by the objective, and outputs (log-probabilities or numbers) as `evaluate` keeps those of networks."""
    if not len(examples):
        return Evaluation({}, {})
    given = fitted.predict(examples)
    least = float(np.finfo(np.float64).tiny)
    output = torch.from_numpy(np.log(np.maximum(given, least)) if signature.target == "class" else np.array(given))
    output = output.reshape(len(output), -1)
    index = torch.from_numpy(examples.index.astype(np.int64))
    target = None if examples.target is None else torch.from_numpy(_typed(examples.target))
    # Sums over targets: what the inputs are, and which position is whose, plays no part in them.
    nothing = torch.zeros((len(examples), 0))
    metrics = TrainMetrics(output.device)
    metrics.add(objective.measure(output, Batch(nothing, nothing.bool(), index, target), signature))
    kept = {"output": output.float(), "index": index, "target": target}
    if examples.per_position:
        first = collate(examples, np.arange(min(PICTURED, examples.units)))
        shown = output.new_zeros((*first.valid.shape, output.shape[1]))
        shown[first.valid] = output[: int(first.valid.sum())]
        kept = {"output": shown.float(), "index": first.index, "inputs": first.inputs, "valid": first.valid}
    outputs = {name: value.contiguous() for name, value in kept.items() if value is not None}
    return Evaluation(objective.scores(metrics.totals()), outputs)


def _typed(target: np.ndarray) -> np.ndarray:
    return target.astype(np.float32 if target.dtype.kind == "f" else np.int64)


def begin(
    spec: StageSpec,
    task: Task,
    parent: Tensors | None,
    device: str = "cpu",
    resume: tuple[Tensors, dict[str, Any]] | None = None,
) -> FittedRun:
    """Fit on the CPU, from nothing: there is no parent, and no state to go on from."""
    del parent, device, resume
    return FittedRun(spec, task)


def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Fitted:
    """The fitted model; `predict` takes `Examples`."""
    del spec, task
    return from_arrays(result["model"], {name: tensor.numpy() for name, tensor in weights.items()})
