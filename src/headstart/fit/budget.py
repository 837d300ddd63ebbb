"""How much is trained: all that the defaults would, or what fits into a time; and what it takes on this machine."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from headstart.fit import defaults
from headstart.fit.arms import ARMS, foreign_arms
from headstart.fit.arms.arm import Spent
from headstart.fit.known import Amount, Known
from headstart.fit.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.runner.job import Runtime
from headstart.runner.machine import torch_settings
from headstart.study.language.costs import speed_here
from headstart.study.language.estimate import measure, survey
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import StudySpec

AFTER, REPORT = 8.0, 4.0
"""Seconds that comparing models and writing the report take, and the report alone."""
LONG = 30.0
"""Seconds from which on a second fit is left out where the time does not suffice for it."""


def whole_amount(known: Known, settings: FitSettings) -> Amount:
    """The default's training, or what was asked for, in steps."""
    size = defaults.batch_size(known.labelled, known.rows)
    each, every = math.ceil(known.labelled / size), math.ceil(known.rows / size)
    steps = _within(defaults.EPOCHS * each, defaults.STEPS)
    before = _within(defaults.PRETRAIN_EPOCHS * every, defaults.PRETRAIN_STEPS)
    if settings.epochs is not None:
        steps = math.ceil(settings.epochs * each)
    if settings.pretrain_epochs is not None:
        before = math.ceil(settings.pretrain_epochs * every)
    more = steps if known.backbone is not None else 0
    second = bool(defaults.KINDS[known.kind].second) and settings.leaves_mixer
    return Amount(settings.rates or defaults.RATES, steps, before if settings.pretrains else 0, more, more, second)


def _within(steps: float, ends: tuple[int, int]) -> int:
    return round(min(max(steps, ends[0]), ends[1]))


def scaled_down(whole: Amount, left: float, cost: Callable[[Amount], float], settings: FitSettings) -> Amount:
    """The same with as large a share of its steps as costs at most `left` seconds; what was asked for stays."""
    free, free_before = settings.epochs is None, settings.pretrain_epochs is None

    def at(part: float) -> Amount:
        return replace(
            whole,
            steps=max(1, round(whole.steps * part)) if free else whole.steps,
            pretrain_steps=round(whole.pretrain_steps * part) if free_before else whole.pretrain_steps,
        )

    if cost(whole) <= left:
        return whole
    amount = _largest(at, left, cost)
    few = min(defaults.LEAST_STEPS, whole.steps), min(defaults.LEAST_PRETRAIN_STEPS, whole.pretrain_steps)
    # Far too little time: less than a fifth of what shows anything does not train.
    return replace(
        amount,
        steps=max(amount.steps, few[0] // 5) if free else amount.steps,
        pretrain_steps=max(amount.pretrain_steps, few[1] // 5) if free_before else amount.pretrain_steps,
    )


def scaled_with_backbone(whole: Amount, left: float, cost: Callable[[Amount], float], settings: FitSettings) -> Amount:
    """`scaled_down` beside a checkpoint: of the time its frozen arm has half at most, and its second arm, which is left
    out where it would hardly train, what all others leave."""
    none = replace(whole, steps=0, pretrain_steps=0, backbone_steps=0, tuned_steps=0)
    free, first, least = settings.epochs is None, whole.backbone_steps, min(defaults.LEAST_STEPS, whole.steps)

    def frozen(part: float) -> Amount:
        return replace(none, backbone_steps=round(whole.backbone_steps * part))

    def tuned(part: float) -> Amount:
        return replace(amount, tuned_steps=round(whole.tuned_steps * part))

    half = cost(none) + left / 2
    if free and cost(frozen(1.0)) > half:
        first = max(_largest(frozen, half, cost).backbone_steps, least // 5)
    taken = min(cost(replace(none, backbone_steps=first)) - cost(none), left / 2)
    others = scaled_down(replace(whole, backbone_steps=0, tuned_steps=0), left - taken, cost, settings)
    amount = replace(others, backbone_steps=first)
    if cost(tuned(1.0)) <= left:
        return tuned(1.0)
    more = _largest(tuned, left, cost)
    return more if free and more.tuned_steps >= least else amount


def left_out(known: Known, settings: FitSettings, amount: Amount, whole: Amount) -> str:
    """Why self-pretraining is not worth its part of the time, in words; empty where it is, or was asked for."""
    least = min(defaults.LEAST_PRETRAIN_STEPS, whole.pretrain_steps)
    if settings.asks_to_pretrain:
        return ""
    if amount.pretrain_steps < least:
        return f"the time leaves fewer than {least} steps for it"
    if amount.steps < min(least_steps(known, settings), whole.steps):
        return f"the time leaves fewer than {least_steps(known, settings):,} steps of training beside it"
    if amount.steps < defaults.WORTH * whole.steps and not defaults.expects_gain(known.labelled, known.rows):
        return f"the time leaves less than {defaults.WORTH:.0%} of the steps, and it is not expected to help"
    return ""


def least_steps(known: Known, settings: FitSettings) -> int:
    """Steps of training from which on a network is worth its time: of symbols, many, unless a person asks for one."""
    return defaults.LEAST_STEPS if settings.asks_for_network else wanted_steps(known)


def wanted_steps(known: Known) -> int:
    """Steps of training before which sequences are read at fewer positions, and one rate is tried."""
    return defaults.LEAST_STEPS if known.kind == "numbers" else defaults.SYMBOL_STEPS


def fewest_steps(known: Known, amount: Amount) -> int:
    """Of the networks that train at any rate, a checkpoint's among them."""
    return amount.steps if known.backbone is None else min(amount.steps, amount.backbone_steps)


def seconds_of_one(known: Known, settings: FitSettings, seconds: Mapping[str, StepTime], share: float) -> float:
    """Seconds of the least training of a network from random weights: `least_steps`, one rate, every seed."""
    least = Amount(defaults.ONE_RATE, least_steps(known, settings), 0)
    return cost_of(known, replace(settings, pretrain=False), least, seconds, share)


def _largest(at: Callable[[float], Amount], left: float, cost: Callable[[Amount], float]) -> Amount:
    """The amount at the largest part, 0 to 1, that costs at most `left` seconds."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(at(middle)) <= left else (low, middle)
    return at(low)


def cost_of(
    known: Known, settings: FitSettings, amount: Amount, seconds: Mapping[str, StepTime], share: float = 1.0
) -> float:
    """Seconds of all stages: steps, looks at validation, and the scores of validation and test at the end, at two
    weights (of self-pretraining, of validation alone); and of a network that serves, which is trained again on train
    and validation.

    share: processes' worth of work that is done at once. A network waits for its own pretraining, however many cores
    there are.
    """
    spent = Spent(known, settings, amount, seconds)
    single = sum(arm.seconds(spent) for arm in ARMS.values())
    each = len(amount.rates) * single + sum(arm.seconds_before(spent) for arm in ARMS.values())
    before = spent.pretraining() if settings.pretrains else 0.0
    return max(len(settings.runs) * each / share, before + spent.training()) + spent.training()


def stage_seconds(study: StudySpec, data: Path, device: str) -> dict[str, StepTime]:
    """Stage's name, or the arm of a checkpoint, -> what it takes here and now."""
    costs, speed = measure(survey(make_plan(study, data)), Runtime(data, device), speed_here())
    slowest: dict[str, StepTime] = {}
    for cost in costs:
        name = next((arm for arm in cost.planned.arms if arm in foreign_arms()), cost.planned.name)
        known = slowest.get(name, StepTime(0.0, 0.0))
        now = cost.time or StepTime(cost.seconds_at(speed)[0] / max(cost.steps, 1), speed.seconds(0, cost.unit_flops))
        slowest[name] = StepTime(max(known.step, now.step), max(known.unit, now.unit))
    return slowest


def side_by_side(slots: int) -> float:
    """How many processes' worth of work this machine does with so many of them: 1 to `slots`.

    Matrix products are measured, side by side in threads. Half of a small network's step is the interpreter's own work,
    which two threads of one core do at once: the answer lies half-way between what was measured and `slots`.
    """
    if slots <= 1:
        return 1.0
    matrix = torch.randn(192, 192)

    def work(seconds: list[float], times: int = 150) -> None:
        begun = time.perf_counter()
        for _ in range(times):
            torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - begun)

    with torch_settings(1):
        alone: list[float] = []
        for _ in range(3):
            work(alone)
        together: list[float] = []
        threads = [threading.Thread(target=work, args=(together,)) for _ in range(slots)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    products = min(float(slots), max(1.0, slots * min(alone) / max(together)))
    return (products + slots) / 2
