"""A stage whose scores the task itself knows: a trivial rule, such as the distance of two marked discs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from headstart.errors import BadInput, nearest
from headstart.models.norms import Tensors
from headstart.stage.fitted import account
from headstart.stage.spec import Outcome, Size, StageSpec, peak_memory
from headstart.tasks import Task
from headstart.tasks.task import Baseline
from headstart.training.loop import StepInfo


class KnownRun:
    """A stage that has nothing to do."""

    def __init__(self, spec: StageSpec, rule: Baseline, monitor: dict[str, Any]) -> None:
        self.spec, self.rule, self.monitor = spec, rule, monitor

    def steps(self) -> Iterator[StepInfo]:
        """None."""
        yield from ()

    def finish(self) -> Outcome:
        """The scores that are known: of val, of test, or of both."""
        values = {"train": None, "val": self.rule.val, "test": self.rule.test}
        metric = "accuracy" if self.monitor["greater"] and self.spec.objective.kind != "regress" else "r2"
        scores: dict[str, Any] = {k: {} if value is None else {metric: value} for k, value in values.items()}
        amounts = dict.fromkeys(("steps", "examples", "tokens"), 0) | dict.fromkeys(("epochs", "flops", "seconds"), 0.0)
        return Outcome(
            "complete",
            {},
            {},
            [],
            {},
            {which: {"step": 0, "epoch": 0.0, **scores} for which in ("best", "last")},
            {**amounts, "peak_memory": peak_memory(torch.device("cpu"))},
            account({}),
            self.monitor,
            title=self.rule.name,
            model={"rule": self.rule.name, "source": self.rule.source},
        )

    def size(self) -> Size:
        """Nothing."""
        return Size()

    def seconds(self) -> tuple[float, float]:
        """None."""
        return 0.0, 0.0

    def weights(self) -> Tensors:
        """None."""
        return {}


def begin(
    spec: StageSpec,
    task: Task,
    parent: Tensors | None,
    device: str = "cpu",
    resume: tuple[Tensors, dict[str, Any]] | None = None,
) -> KnownRun:
    """Look the rule up. Raises: BadInput where the task has no rule of that name."""
    del parent, device, resume
    rules = {rule.name: rule for rule in task.baselines}
    name = spec.model.name or next(iter(rules), "")
    if not rules and not task.fingerprint:  # an outline without data, for an estimate: its rules are not known
        rules, name = {"": Baseline("", None, None)}, ""
    if name not in rules:
        known = nearest(name, rules) if rules else "it has none; leave this arm out"
        raise BadInput(f"model.name: a trivial rule of task {spec.task.kind!r}: {known}")
    monitor = spec.objective.monitored(task.signature)
    return KnownRun(spec, rules[name], {"name": monitor.name, "greater": monitor.greater})


def load_model(spec: StageSpec, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
    """Raises: BadInput, since a rule is known by its scores alone."""
    del task, weights
    raise BadInput(
        f"model.kind: {spec.model.kind!r} is known by its scores alone ({result['title']}); nothing predicts"
    )
