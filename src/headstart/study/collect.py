"""What the results of stages say of one run: its state, its scores, what it cost. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from headstart.store import Damaged
from headstart.study.convergence import Record, Records, curve
from headstart.study.rows import AMOUNTS, Run
from headstart.study.statistics import mean

if TYPE_CHECKING:
    from headstart.study.plan import Cell

Find = Callable[[str], Mapping[str, Any] | None]
"""Identity -> the stage's result.json, or None where there is none yet."""
State = Callable[[str], str]
"""Identity -> what the store says of a stage without a result: absent, partial, running, failed."""


def remembered(find: Find) -> Find:
    """Each result.json is read once."""
    seen: dict[str, Mapping[str, Any] | None] = {}

    def lookup(identity: str) -> Mapping[str, Any] | None:
        if identity not in seen:
            seen[identity] = find(identity)
        return seen[identity]

    return lookup


def undamaged(records: Records | None) -> Records:
    """The records of a stage: none of one whose file is damaged, which the next run sets aside and does again."""

    def read(identity: str) -> Sequence[Record]:
        try:
            return records(identity) if records is not None else ()
        except Damaged:
            return ()

    return read


def score_of(result: Mapping[str, Any] | None, split: str, metric: str, weights: str = "best") -> float | None:
    """A finite score at the best (or last) weights, or None."""
    if result is None:
        return None
    value = result.get("scores", {}).get(weights, {}).get(split, {}).get(metric)
    return float(value) if value is not None and isfinite(value) else None


def monitored(cells: Sequence[Cell], find: Find) -> tuple[str, bool]:
    """The score that chooses, from the first result there is, else what the objective would monitor."""
    for cell in cells:
        result = find(cell.chain[-1].identity)
        if result is not None:
            return str(result["monitor"]["name"]), bool(result["monitor"]["greater"])
    objective = cells[0].chain[-1].spec.objective
    default = "accuracy" if objective.kind in ("classify", "retrieve") else "r2"
    name = str(getattr(objective, "monitor", None) or default)
    return name, name != "loss"


def read_run(cell: Cell, find: Find, state: State, metric: str) -> Run:
    """A run as far as validation goes: its test score is not read yet."""
    last = find(cell.chain[-1].identity)
    stages = tuple((planned.name, planned.identity) for planned in cell.chain)
    results = [find(identity) for _, identity in stages]
    lost = [r for r in results if r is not None and r.get("status") == "diverged"]
    val = score_of(last, "val", metric)
    status = str(last["status"]) if last is not None else state(cell.chain[-1].identity)
    if lost or (last is not None and val is None):
        # A chain is as sound as its worst stage; a score that is not finite is a divergence too.
        status = "diverged"
    elif last is None and status == "absent" and any(state(i) == "failed" for _, i in stages[:-1]):
        status = "failed"
    budgets = [amounts(r) for r in results if r is not None]
    return Run(cell.seed, status, stages, val, None, added(budgets), amounts(last))


def with_all_scores(run: Run, find: Find, metric: str, records: Records) -> Run:
    """The run with its scores besides validation, which may be read once the choice is made."""
    identity = run.stages[-1][1]
    result = find(identity)
    more = {"train": score_of(result, "train", metric)}
    for split in ("train", "val", "test"):
        more[f"last_{split}"] = score_of(result, split, metric, "last")
        if run.status == "diverged" and more[f"last_{split}"] is None:
            more[f"last_{split}"] = score_of(result, split, metric)
    if run.status == "diverged" and (on_the_way := curve(records(identity), metric)):
        more["last_val"] = on_the_way[max(on_the_way)]
    scores = {name: value for name, value in more.items() if value is not None}
    return replace(run, test=score_of(result, "test", metric), more=scores)


def amounts(result: Mapping[str, Any] | None) -> dict[str, float]:
    """What a stage's budget counted; nothing of one without a result."""
    budget = result.get("budget", {}) if result is not None else {}
    return {name: float(budget[name]) for name in AMOUNTS if budget.get(name) is not None}


def parameters(result: Mapping[str, Any] | None) -> int | None:
    """How many numbers a stage's model has, where its result says so."""
    total = result.get("parameters", {}).get("total") if result is not None else None
    return None if total is None else int(total)


def added(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The sum of each amount."""
    return {n: sum(a[n] for a in parts if n in a) for n in AMOUNTS if any(n in a for a in parts)}


def averaged(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each amount over those that have it."""
    kept = {n: [a[n] for a in parts if n in a] for n in AMOUNTS}
    return {n: mean(values) for n, values in kept.items() if values}


def all_tried(cells: Sequence[Cell], find: Find) -> dict[str, float]:
    """Over all stages behind these cells, each once: what the arm's tuning cost, shared parents included."""
    distinct = dict.fromkeys(planned.identity for cell in cells for planned in cell.chain)
    return added([amounts(find(identity)) for identity in distinct])
