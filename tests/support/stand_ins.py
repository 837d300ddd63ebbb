"""A training of a few milliseconds with the protocol of `headstart.stage`, for tests of the runner.

Its weights follow a chaotic map that keeps every bit, so that a resume that loses anything shows at once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from headstart.runner.job import Engine
from headstart.spec import Spec


class FakeOptim(Spec):
    precision: str = "float32"


class FakeTask(Spec):
    kind: str = "fake"
    missing: bool = False


class FakeSpec(Spec):
    """steps of `pause` seconds each; `trouble` says what happens at step 5."""

    seed: int = 0
    steps: int = 10
    pause: float = 0.0
    trouble: Literal["", "nan", "raise", "kill", "kill once", "spin"] = ""
    parent: FakeSpec | None = None
    weights: Literal["best", "last"] = "best"
    frozen: bool = False
    task: FakeTask = FakeTask()
    optim: FakeOptim = FakeOptim()
    scratch: str = ""


@dataclass(frozen=True)
class FakeStage:
    """What a plan holds."""

    name: str
    spec: FakeSpec
    identity: str


@dataclass(frozen=True)
class FakeTick:
    step: int
    steps: int
    epoch: float
    record: dict[str, Any] | None
    run: FakeRun

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        return {"x": self.run.x.clone(), "best": self.run.best.clone()}, {"step": self.step}


@dataclass(frozen=True)
class FakeOutcome:
    status: str
    best: dict[str, torch.Tensor]
    last: dict[str, torch.Tensor]
    frozen: list[str]
    predictions: dict[str, torch.Tensor]
    scores: dict[str, Any]
    budget: dict[str, Any]
    account: dict[str, Any]
    monitor: dict[str, Any]
    how: str = ""


class FakeRun:
    def __init__(self, spec: FakeSpec, parent: Any, resume: Any) -> None:
        self.spec, self.step, self.diverged = spec, 0, False
        start = torch.rand(8, generator=torch.Generator().manual_seed(spec.seed), dtype=torch.float64)
        self.frozen = parent["frozen"] if parent is not None else torch.full((3,), float(spec.seed))
        self.x = start if parent is None else (start + parent["x"]) / 2
        self.best = self.x.clone()
        self.stack: Any = None
        if resume is not None:
            self.x, self.best, self.step = resume[0]["x"], resume[0]["best"], resume[1]["step"]

    def join(self, stack: Any) -> None:
        self.stack = stack

    def steps(self) -> Iterator[FakeTick]:
        if self.stack is not None:
            self.stack.members.append(self)
            yield FakeTick(self.step, self.spec.steps, 0.0, None, self)
        while self.step < self.spec.steps and not self.diverged:
            time.sleep(self.spec.pause)
            self.x = 3.99 * self.x * (1 - self.x)
            self.step += 1
            if self.step == 5:
                self._trouble()
            if float(self.x.sum()) > float(self.best.sum()):
                self.best = self.x.clone()
            loss = float("nan") if self.diverged else float(self.x.sum())
            scored = self.step % 3 == 0 or self.diverged
            record = {"step": self.step, "val": {"loss": loss}} if scored else None
            yield FakeTick(self.step, self.spec.steps, 0.0, record, self)

    def _trouble(self) -> None:
        trouble = self.spec.trouble
        if trouble == "nan":
            self.diverged = True
        elif trouble == "raise":
            raise ArithmeticError("five is too many\nsecond line")
        elif trouble == "spin":
            x = torch.rand(3000, 3000)
            while True:
                x = x @ x
        elif trouble.startswith("kill"):
            mark = Path(self.spec.scratch) / "killed"
            if trouble == "kill" or not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def finish(self) -> FakeOutcome:
        weights, scored = {"x": self.x, "frozen": self.frozen}, {"best": self.best, "last": self.x}
        return FakeOutcome(
            "diverged" if self.diverged else "complete",
            {**weights, "x": self.best},
            weights,
            ["frozen"] if self.spec.frozen else [],
            {"val/output": self.x},
            {which: {"step": self.step, "epoch": 0.0, "val": {"loss": float(x.sum())}} for which, x in scored.items()},
            {**dict.fromkeys(("epochs", "examples", "tokens", "flops", "seconds"), 0.0), "steps": self.step},
            {"total": 11, "trainable": 11, "account": []},
            {"name": "loss", "greater": False},
        )


def begin(spec: FakeSpec, task: Any, parent: Any, device: str, resume: Any) -> FakeRun:
    assert task == "loaded"
    assert device == "cpu"
    return FakeRun(spec, parent, resume)


def open_task(spec: FakeTask, data: Path) -> str:
    if spec.missing:
        raise FileNotFoundError(f"{data}: no such folder")
    return "loaded"


def identity(spec: FakeSpec, data: Path) -> str:
    from headstart.spec import digest

    return digest(spec.document())


ENGINE = Engine(begin, identity, open_task)


def stage(name: str = "one", **fields: Any) -> FakeStage:
    spec = FakeSpec(**fields)
    return FakeStage(name, spec, identity(spec, Path()))


def child(of: FakeStage, name: str = "child", **fields: Any) -> FakeStage:
    return stage(name, parent=of.spec, **fields)


def renamed(of: FakeStage, name: str) -> FakeStage:
    return replace(of, name=name)
