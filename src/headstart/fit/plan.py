"""How much to train in the time that there is: steps timed on this machine, then a study table that fits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from headstart.errors import BadInput
from headstart.files import Damaged, publish_json, read_json
from headstart.fit.defaults import (
    EPOCHS,
    KINDS,
    LEAST_PRETRAIN_STEPS,
    LEAST_STEPS,
    ONE_RATE,
    PRETRAIN_EPOCHS,
    PRETRAIN_RATE,
    PRETRAIN_STEPS,
    RATES,
    STEPS,
    Shape,
    batch_size,
    model_table,
    objective_table,
    shape_of,
)
from headstart.fit.settings import FitSettings
from headstart.launch.machine import use_threads
from headstart.sequence import Signature
from headstart.spec import Spec, digest, read
from headstart.study.estimate import survey
from headstart.study.plan import make_plan
from headstart.study.spec import read_study
from headstart.study.words import duration, many

PLAN = "plan.json"
SAFE = 0.7
"""Share of the time left that is planned: a few timed steps are no promise."""
START = 8.0
"""Seconds that worker processes need until they train, and the report until it is written."""
EVALUATIONS = 10
"""Looks at validation in each training."""
SQUEEZES = (1, 2, 4)
"""How many times fewer positions are tried where time is short."""
COLUMN = "data"


class FitPlan(Spec):
    """What a fit resolved: a study of the networks, the seconds it should take here, and what was decided, in words.

    made_for: digest of the data and of the settings; a plan for others is not this one.
    """

    kind: str = "headstart plan"
    made_for: str
    study: dict[str, Any]
    seconds: float = Field(ge=0)
    said: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """What a plan is made from: the task's table and signature (patch 1), its sizes, the lengths of all sequences.

    labelled, rows: of train. weights: of the classes. split: how rows were dealt out, in words.
    """

    task: Mapping[str, Any]
    kind: str
    signature: Signature
    labelled: int
    rows: int
    val: int
    test: int
    lengths: Any
    weights: tuple[float, ...]
    data: Path
    split: str = ""


@dataclass(frozen=True)
class Amount:
    """How much is trained: rates tried, steps of training and of self-pretraining."""

    rates: tuple[float, ...]
    steps: int
    pretrain_steps: int


def plan_for(
    known: Known, settings: FitSettings, made_for: str, spent: float, slots: int, device: str, *, timed: bool = True
) -> FitPlan:
    """The largest training that fits into the time left after `spent` seconds; all of the default's without a limit.

    timed False, where there is no limit: no step is taken to tell how long it will last.
    """
    best: tuple[FitPlan, bool] | None = None
    share = side_by_side(slots) if timed else 1.0
    for squeeze in SQUEEZES:
        shape = shape_of(known.kind, known.lengths, squeeze)
        if best is not None and shape == shape_of(known.kind, known.lengths, squeeze // 2):
            continue
        seconds = _timed(known, shape, settings, device) if timed else {}
        best = _fitted(known, shape, settings, made_for, seconds, spent, share)
        if best[1]:
            break
    assert best is not None
    return best[0]


def _fitted(
    known: Known, shape: Shape, settings: FitSettings, made_for: str, seconds: Mapping[str, float], spent: float,
    share: float,
) -> tuple[FitPlan, bool]:
    """The plan for one way to read the sequences, and whether its networks train long enough to have seen something."""
    whole = whole_amount(known, settings)
    left = math.inf if settings.time is None else max(0.0, SAFE * (settings.time - spent - START))

    def cost(amount: Amount) -> float:
        return _cost(known, settings, amount, seconds) / share

    rates = [whole.rates] if settings.rates is not None else [RATES, ONE_RATE]
    amount, enough = whole, False
    for tried in rates:
        amount = scaled_down(replace(whole, rates=tried), left, cost, settings)
        enough = amount.steps >= min(LEAST_STEPS, whole.steps)
        if enough:
            break
    study = study_table(known, shape, settings, amount)
    said = _said(known, shape, settings, amount, whole, enough)
    plan = FitPlan(made_for=made_for, study=study, seconds=round(cost(amount) + START, 1), said=tuple(said))
    return plan, enough


def whole_amount(known: Known, settings: FitSettings) -> Amount:
    """The default's training, or what was asked for, in steps."""
    size = batch_size(known.labelled, known.rows)
    each, every = math.ceil(known.labelled / size), math.ceil(known.rows / size)
    steps, before = _within(EPOCHS * each, STEPS), _within(PRETRAIN_EPOCHS * every, PRETRAIN_STEPS)
    if settings.epochs is not None:
        steps = math.ceil(settings.epochs * each)
    if settings.pretrain_epochs is not None:
        before = math.ceil(settings.pretrain_epochs * every)
    return Amount(settings.rates or RATES, steps, before if settings.pretrain else 0)


def _within(steps: float, ends: tuple[int, int]) -> int:
    return round(min(max(steps, ends[0]), ends[1]))


def scaled_down(
    whole: Amount, left: float, cost: Callable[[Amount], float], settings: FitSettings
) -> Amount:
    """The same with as large a share of its steps as costs at most `left` seconds; what was asked for stays."""
    free, free_before = settings.epochs is None, settings.pretrain_epochs is None

    def at(part: float) -> Amount:
        return replace(whole, steps=max(1, round(whole.steps * part)) if free else whole.steps,
                       pretrain_steps=round(whole.pretrain_steps * part) if free_before else whole.pretrain_steps)

    if cost(whole) <= left:
        return whole
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(at(middle)) <= left else (low, middle)
    found = at(low)
    few = min(LEAST_STEPS, whole.steps), min(LEAST_PRETRAIN_STEPS, whole.pretrain_steps)
    # Far too little time: less than a fifth of what shows anything is no training at all.
    return replace(found, steps=max(found.steps, few[0] // 5) if free else found.steps,
                   pretrain_steps=max(found.pretrain_steps, few[1] // 5) if free_before else found.pretrain_steps)


def study_table(known: Known, shape: Shape, settings: FitSettings, amount: Amount) -> dict[str, Any]:
    """The study of the networks, as a file would hold it."""
    size = batch_size(known.labelled, known.rows)
    task = {**known.task, **({"patch": shape.patch} if shape.patch > 1 else {}),
            **({"longest": shape.longest} if shape.longest is not None else {})}

    def optim(lr: float) -> dict[str, Any]:
        return {"lr": lr, "batch_size": size, "warmup_share": 0.1, "clip": 1.0, "weight_decay": 0.01}

    def budget(steps: int) -> dict[str, Any]:
        return {"steps": steps, "evaluate_every": max(1, steps / EVALUATIONS)}

    pretrain = {"objective": {"kind": "masked", "mask_rate": KINDS[known.kind].mask_rate},
                "optim": optim(PRETRAIN_RATE), "budget": budget(amount.pretrain_steps)}
    finetune = {"objective": objective_table(known.signature, known.weights), "optim": optim(amount.rates[0]),
                "budget": budget(amount.steps)}
    arms: dict[str, Any] = {"scratch": {}}
    if settings.pretrain:
        arms["self_pretrained"] = {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}
    return {
        "name": "fit", "title": "Training from scratch and from self-pretraining on the same sequences",
        "stages": {"pretrain": pretrain, "finetune": finetune},
        "columns": {COLUMN: {"task": task, "model": model_table(known.kind, known.labelled)}},
        "arms": arms,
        "axes": {"finetune.optim.lr": list(amount.rates), "seed": list(settings.seeds)},
        "report": {"choose": ["finetune.optim.lr"], "against": "scratch"},
    }


def _timed(known: Known, shape: Shape, settings: FitSettings, device: str) -> dict[str, float]:
    """Seconds of a step of each stage on this machine."""
    few = Amount(ONE_RATE, STEPS[1], PRETRAIN_STEPS[1] if settings.pretrain else 0)  # of which a few are taken
    table = study_table(known, shape, replace(settings, seeds=settings.seeds[:1]), few)
    overrides = [word for word in settings.overrides if not word.startswith(("seed=", "finetune.optim.lr="))]
    study = read_study(table, overrides)
    with use_threads(1):
        costs = survey(make_plan(study, known.data), timed=True, device=device)
    found: dict[str, float] = {}
    for one in costs:
        found[one.planned.name] = max(found.get(one.planned.name, 0.0), (one.seconds or 0.0) / max(one.steps, 1))
    return found


def _cost(known: Known, settings: FitSettings, amount: Amount, seconds: Mapping[str, float]) -> float:
    """Seconds of all stages one after another: steps, looks at validation, and the scores at the end."""
    forward = 1 / (3 * batch_size(known.labelled, known.rows))  # of a step, per sequence that is only looked at
    looks = EVALUATIONS * known.val
    train = seconds.get("finetune", 0.0) * (
        amount.steps + forward * (looks + 2 * (known.labelled + known.val + known.test)))
    before = seconds.get("pretrain", 0.0) * (
        amount.pretrain_steps + forward * (looks + 2 * (known.rows + known.val + known.test)))
    arms = 2 if settings.pretrain else 1
    return len(settings.seeds) * (arms * len(amount.rates) * train + (before if settings.pretrain else 0.0))


def side_by_side(slots: int) -> float:
    """How many processes' worth of work this machine does with so many of them: 1 to `slots`, measured."""
    if slots <= 1:
        return 1.0
    one = torch.randn(192, 192)

    def work(seconds: list[float], times: int = 150) -> None:
        begun = time.perf_counter()
        for _ in range(times):
            torch.mm(one, one)
        seconds.append(time.perf_counter() - begun)

    with use_threads(1):
        alone: list[float] = []
        for _ in range(3):
            work(alone)
        together: list[float] = []
        threads = [threading.Thread(target=work, args=(together,)) for _ in range(slots)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return min(float(slots), max(1.0, slots * min(alone) / max(together)))


def _said(
    known: Known, shape: Shape, settings: FitSettings, amount: Amount, whole: Amount, enough: bool
) -> list[str]:
    """What was decided, in words."""
    size, model = batch_size(known.labelled, known.rows), model_table(known.kind, known.labelled)
    lines = [f"split: {known.split}"] if known.split else []
    if known.kind == "numbers":
        lines.append("numbers are standardised by the mean and deviation of train")
    lines.append(f"network: {model['blocks']} blocks of {model['mixer']['kind']}, width {model['width']}, "
                 f"{model['pool']} over positions")
    if shape.patch > 1:
        lines.append(f"{shape.patch} neighbouring positions are joined into one, so that a sequence of "
                     f"{int(known.lengths.max()):,} has {-(-int(known.lengths.max()) // shape.patch):,}")
    if shape.longest is not None:
        cut = int((known.lengths > shape.longest).sum())
        lines.append(f"the first {shape.longest:,} positions of a sequence are read; "
                     f"{many(cut, 'sequence')} of {len(known.lengths):,} "
                     f"{'has' if cut == 1 else 'have'} more")
    rates = ", ".join(f"{rate:g}" for rate in amount.rates)
    loss = "squared error" if known.signature.target == "number" else "cross-entropy" + (
        ", each class weighing the same" if known.weights else "")
    lines.append(f"training: {amount.steps:,} steps of {size} sequences, rates {rates}, "
                 f"{many(len(settings.seeds), 'seed')}; {loss}")
    if settings.pretrain:
        share = KINDS[known.kind].mask_rate
        lines.append(f"self-pretraining: {amount.pretrain_steps:,} steps on {known.rows:,} train sequences, "
                     f"{share:.0%} of positions masked; "
                     f"{'absolute error' if known.kind == 'numbers' else 'cross-entropy'} of what they held")
    if settings.time is not None and amount.steps < whole.steps:
        lines.append(f"the time of {duration(settings.time)} leaves {amount.steps / whole.steps:.0%} of the steps that "
                     "would be taken with more time")
    if not enough:
        lines.append(f"that is too little for networks to learn from (at least {LEAST_STEPS} steps are): give more "
                     "--time")
    return lines


def made_for(content: str | None, task: Mapping[str, Any], settings: FitSettings) -> str:
    """What a plan belongs to: the data by their content, and the settings."""
    plain = {name: value for name, value in task.items() if name not in ("file", "test", "unlabelled")}
    return digest({"content": content, "task": plain, "settings": settings.document()})


def kept_plan(folder: Path, wanted: str) -> FitPlan | None:
    """The plan that an earlier run of the same command left. Raises: BadInput where it was made for something else."""
    path = folder / PLAN
    try:
        found = read(FitPlan, {k: v for k, v in read_json(path).items() if k != "format"}, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Damaged as error:
        raise BadInput(f"{error}; delete it to plan anew") from None
    if found.made_for != wanted:
        raise BadInput(f"{path}: was made for other data or settings; give another folder with -o, or delete it to "
                       "plan anew")
    return found


def keep_plan(folder: Path, plan: FitPlan) -> None:
    """Write the plan where the same command finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    publish_json(folder / PLAN, plan.model_dump(mode="json"))
