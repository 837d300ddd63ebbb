"""A study and its results, made up: the shape of a plan and of result.json without training anything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from headstart.models.model import ModelSpec
from headstart.study.language.scales import StandIn
from headstart.study.results.collect import task_key
from headstart.study.results.results import TaskFacts
from headstart.tasks import TASKS

LR = "finetune.optim.lr"
BASELINES = {"majority": 0.1, "logistic regression": 0.15}
"""Scores of the baselines of every task, on val and test."""


@dataclass(frozen=True)
class Task:
    """Stands for a task's spec."""

    kind: str = "digits"
    validation: int = 1
    folds: int | None = None
    fold: int | None = None

    @property
    def shows_not(self) -> str:
        return TASKS[self.kind].load().shows_not if self.kind in TASKS else ""

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind}


@dataclass(frozen=True)
class Stage:
    """Stands for a stage's spec."""

    task: Task
    objective: Any
    seed: int
    detail: str = ""
    model: Any = field(default_factory=ModelSpec)
    hardly_mixes: bool = False

    @property
    def shows_not(self) -> str:
        """As of every stage."""
        return str(self.model.shows_not)

    def model_dump(self, mode: str = "json") -> dict[str, Any]:
        assert mode == "json"
        return {"task": self.task.document(), "objective": {"kind": self.objective.kind}, "seed": self.seed}


@dataclass(frozen=True)
class Planned:
    """Stands for a planned stage."""

    name: str
    spec: Stage
    identity: str


@dataclass(frozen=True)
class Cell:
    """Stands for a run of a plan."""

    arm: str
    column: str
    seed: int
    settings: Mapping[str, Any]
    chain: tuple[Planned, ...]


@dataclass(frozen=True)
class Plan:
    """Stands for a plan."""

    study: Any
    cells: tuple[Cell, ...]
    stages: Mapping[str, Planned]
    choose: tuple[str, ...] = (LR,)
    baselines: tuple[Cell, ...] = ()
    trials: tuple[Cell, ...] = ()

    @property
    def every_stage(self) -> Mapping[str, Planned]:
        return {**self.stages, **{planned.identity: planned for cell in self.baselines for planned in cell.chain}}


def make_plan(
    arms: Mapping[str, bool] | None = None,
    rates: Iterable[float] = (1e-3, 3e-3, 1e-2),
    seeds: Iterable[int] = (0, 1, 2, 3, 4),
    columns: Mapping[str, str] | None = None,
    against: str | None = "scratch",
    average: Any = None,
    rates_of: Mapping[str, Iterable[float]] | None = None,
    match: str | None = None,
    scale: str | None = None,
    stood_in: Mapping[str, str | Mapping[str, str]] | None = None,
) -> Plan:
    """`arms`: name -> is pretrained. `columns`: name -> kind of task. Parents are shared over rates.

    `stood_in`: column -> kind that stands in for its data, or stage -> kind where it does so in some stages.
    """
    arms = {"scratch": False, "self_pretrained": True} if arms is None else arms
    columns = {"digits": "digits"} if columns is None else columns
    cells = []
    for arm, pretrained in arms.items():
        for column, kind in columns.items():
            for rate in (rates_of or {}).get(arm, rates):
                cells += [_cell(arm, pretrained, column, kind, rate, seed) for seed in seeds]
    stages = {planned.identity: planned for cell in cells for planned in cell.chain}
    report = SimpleNamespace(choose=(LR,), against=against, average=average, match=match, one_machine=False)
    study = SimpleNamespace(
        name="made-up",
        title="A made-up study",
        report=report,
        reported="finetune",
        arms={arm: {} for arm in arms},
        columns={column: {} for column in columns},
        stages={"pretrain": {}, "finetune": {}},
        axes={LR: list(rates), "seed": list(seeds)},
        paper=None,
        search=None,
        claims=(),
        scale=scale,
        scale_note="one block" if scale else "",
        stood_in=_stand_ins(stood_in or {}),
    )
    return Plan(study, tuple(cells), stages, baselines=_baselines(columns))


def _baselines(columns: Mapping[str, str]) -> tuple[Cell, ...]:
    """Of each column's task, what always says the commonest class, and a linear model."""
    classify = SimpleNamespace(kind="classify", uses_target=True)
    kinds = {kind: column for column, kind in reversed(list(columns.items()))}
    models = {name: SimpleNamespace(kind=name) for name in BASELINES}
    return tuple(
        Cell(name, column, 0, {}, (_planned("baseline", Stage(Task(kind), classify, 0, model=model), f"{name}{kind}"),))
        for kind, column in kinds.items()
        for name, model in models.items()
    )


def _stand_ins(columns: Mapping[str, str | Mapping[str, str]]) -> dict[str, dict[str, StandIn]]:
    every = {
        column: dict.fromkeys(("pretrain", "finetune"), kind) if isinstance(kind, str) else kind
        for column, kind in columns.items()
    }
    return {
        column: {stage: StandIn(kind=kind, meant=column) for stage, kind in stages.items()}
        for column, stages in every.items()
    }


def _cell(arm: str, pretrained: bool, column: str, kind: str, rate: float, seed: int) -> Cell:
    task = Task(kind)
    masked = SimpleNamespace(kind="masked", uses_target=False)
    classify = SimpleNamespace(kind="classify", uses_target=True)
    parent = _planned("pretrain", Stage(task, masked, seed), f"{column}{seed}")
    child = _planned("finetune", Stage(task, classify, seed), f"{arm}{column}{rate}{seed}")
    return Cell(arm, column, seed, {LR: rate}, (parent, child) if pretrained else (child,))


def _planned(name: str, spec: Stage, key: str) -> Planned:
    return Planned(name, spec, hashlib.sha256(f"{name}/{key}".encode()).hexdigest()[:16])


def result(
    identity: str,
    val: float | None,
    test: float | None,
    status: str = "complete",
    metric: str = "accuracy",
    greater: bool = True,
    epochs: int = 60,
    **provenance: Any,
) -> dict[str, Any]:
    """A result.json with these scores."""
    scores = {
        "step": 400,
        "epoch": 50.0,
        "train": {"loss": 0.5, metric: 0.9},
        "val": {"loss": 1.0, metric: val},
        "test": {"loss": 1.1, metric: test},
    }
    return {
        "format": 1,
        "identity": identity,
        "status": status,
        "monitor": {"name": metric, "greater": greater},
        "scores": {"best": scores, "last": scores},
        "budget": {
            "epochs": epochs,
            "steps": 420,
            "examples": 200 * epochs,
            "tokens": 12800 * epochs,
            "flops": 1e9 * epochs,
            "seconds": 2.5,
            "peak_memory": 2**28,
        },
        "parameters": {
            "total": 9000,
            "trainable": 9000,
            "account": [
                {"part": "query_key", "total": 4000, "taken": 4000, "matched": 0, "drawn": 0, "fresh": 0, "frozen": 0}
            ],
        },
        "provenance": {
            "versions": {"torch": "2.13.0", "headstart": "0.1.0"},
            "machine": "laptop",
            "device": "cpu",
            "threads": 1,
            "precision": "float32",
            "started": "2026-01-01T00:00:00",
            "attempts": 1,
            **provenance,
        },
        "files": {},
        "references": {},
    }


Score = Callable[[Cell], tuple[float, float] | None]


def usual(cell: Cell) -> tuple[float, float]:
    """Validation is best at 3e-3; the pretrained arm is 0.13 above, give or take the seed."""
    rate = cell.settings[LR]
    val = 0.30 + {1e-3: 0.0, 3e-3: 0.05, 1e-2: 0.02}.get(rate, 0.0) + 0.01 * cell.seed
    up = 0.0 if cell.arm == "scratch" else 0.13 + 0.01 * (cell.seed % 3)
    return val + up, val + up - 0.02


@dataclass
class Shelf:
    """Results by identity, as a store would give them."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def find(self, identity: str) -> dict[str, Any] | None:
        self.asked.append(identity)
        return self.results.get(identity)


def shelf(plan: Plan, score: Score = usual, logistic: float | None = 0.15, **more: Any) -> Shelf:
    """Every run for which `score` gives (val, test); parents are there wherever a child is.

    logistic: score of the linear baseline (None: no baseline has run).
    """
    out = Shelf()
    for cell in plan.baselines if logistic is not None else ():
        value, identity = {**BASELINES, "logistic regression": logistic}[cell.arm], cell.chain[-1].identity
        out.results[identity] = {**result(identity, value, value), "title": cell.arm}
    for cell in plan.cells:
        pair = score(cell)
        if pair is None:
            continue
        for parent in cell.chain[:-1]:
            out.results[parent.identity] = result(parent.identity, 0.4, 0.4, epochs=30, **{**more, "metric": "r2"})
        last = cell.chain[-1].identity
        out.results[last] = result(last, *pair, **more)
    return out


def facts(kind: str = "digits") -> dict[str, TaskFacts]:
    """Facts of a made-up ten-class task with 500 test examples."""
    sizes = {"train": 1097, "labelled": 200, "val": 200, "test": 500}
    spec = SimpleNamespace(task=Task(kind), objective=SimpleNamespace(uses_target=True))
    return {task_key(spec): TaskFacts(kind, sizes, {"accuracy": 0.1})}
