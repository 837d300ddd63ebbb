"""How much is trained: all that the defaults would, or what fits into a time; and what it takes on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headstart.core import Plan, StepTime, step_times
from headstart.fit import defaults
from headstart.fit.arms import arms, foreign_arms
from headstart.fit.arms.arm import Arm, Offer, Spent
from headstart.fit.basis import Amount, Basis
from headstart.request.settings import FitSettings

SAFE = 0.7
"""Share of the time left that is planned: a few timed steps promise nothing."""
AFTER, REPORT = 8.0, 4.0
"""Seconds that comparing models and writing the report take, and the report alone."""
LATE, LATE_SECONDS = 1.1, 3.0
"""A fit that begins nothing which would end later than so many times its time and these seconds ends within 1.2 times
its time and 5 seconds: what it takes is a forecast."""


@dataclass(frozen=True)
class Shares:
    """How the time is shared. whole: with any time. left_out: arm -> why, as lines of the plan. enough: the networks
    train long enough to have seen something."""

    amount: Amount
    whole: Amount
    left_out: Mapping[str, Sequence[str]]
    enough: bool


def whole_amount(basis: Basis, settings: FitSettings) -> Amount:
    """The default's training of all arms that are wanted, or what was asked for, in steps."""
    size = defaults.batch_size(basis.labelled, basis.rows)
    each, every = math.ceil(basis.labelled / size), math.ceil(basis.rows / size)
    steps = _within(defaults.EPOCHS * each, defaults.STEPS)
    before = _within(defaults.PRETRAIN_EPOCHS * every, defaults.PRETRAIN_STEPS)
    if settings.epochs is not None:
        steps = math.ceil(settings.epochs * each)
    if settings.pretrain_epochs is not None:
        before = math.ceil(settings.pretrain_epochs * every)
    wanted = {name: arm for name, arm in arms().items() if arm.wanted(basis, settings)}
    apart = {arm.apart: steps for arm in wanted.values() if arm.apart}
    pretrains = any(arm.pretrained for arm in wanted.values())
    return Amount(settings.rates or defaults.LEARNING_RATES, steps, before if pretrains else 0, apart, tuple(wanted))


def _within(steps: float, ends: tuple[int, int]) -> int:
    return round(min(max(steps, ends[0]), ends[1]))


def shared(basis: Basis, settings: FitSettings, left: float, spent: float, cost: Callable[[Amount], float]) -> Shares:
    """`left` seconds among the arms, in the order of their worth: each takes part where it and all before it have their
    smallest useful budgets then.

    All networks of headstart train for as many steps, so that each arm more leaves every one fewer; a model with steps
    of its own has its part of the time. Two rates are tried where all train long enough. spent: seconds of the fit that
    are for other things. cost: seconds of an amount.
    """
    whole, table = whole_amount(basis, settings), arms()
    least = min(defaults.wanted_steps(basis.kind), whole.steps)

    def enough(amount: Amount) -> bool:
        apart = [amount.apart[arm.apart] for name in amount.arms if (arm := table[name]).apart and not arm.spare]
        return min([amount.steps, *apart]) >= least

    def best(options: Sequence[tuple[Amount, float]]) -> tuple[Amount, float]:
        return next((option for option in options if enough(option[0])), options[-1])

    def time_for(amount: Amount) -> float:
        return cost(amount) / SAFE + spent

    rates = [whole.rates] if settings.rates is not None else [defaults.LEARNING_RATES, defaults.ONE_RATE]
    options, left_out = [(Amount(each), left) for each in rates], dict[str, Sequence[str]]()
    for name in sorted(whole.arms, key=lambda name: -table[name].worth(basis, settings)):
        more = [_with(table[name], name, *option, whole, cost, settings) for option in options]
        network = any(table[other].network for other in options[0][0].arms)
        amount, _ = best(more)
        offer = Offer(basis, settings, amount, whole, cost(amount) <= left, network, time_for)
        if any(table[other].lacks(offer) for other in amount.arms):
            left_out[name] = table[name].left_out(offer)
        else:
            options = more
    amount, _ = best(options)
    planned = tuple(name for name in table if name in amount.arms)
    return Shares(replace(amount, arms=planned), whole, left_out, enough(amount))


def _with(
    arm: Arm,
    name: str,
    amount: Amount,
    left: float,
    whole: Amount,
    cost: Callable[[Amount], float],
    settings: FitSettings,
) -> tuple[Amount, float]:
    """The amount with one arm more: as large a part of the whole as costs at most `left` seconds, and what was asked
    for; and the seconds for it and all that come: where the least of an arm is more than its share, theirs stays.

    Far too little time trains still: a fifth of what shows anything.
    """
    more = replace(amount, arms=(*amount.arms, name))
    free, free_before = settings.epochs is None, settings.pretrain_epochs is None
    few = min(defaults.LEAST_STEPS, whole.steps) // 5
    few_before = min(defaults.LEAST_PRETRAIN_STEPS, whole.pretrain_steps) // 5

    def steps_at(part: float) -> int:
        return max(1, few, round(whole.steps * part)) if free else whole.steps

    def at(part: float) -> Amount:
        if arm.apart:
            return replace(more, apart={**more.apart, arm.apart: steps_at(part)})
        before = max(few_before, round(whole.pretrain_steps * part)) if free_before else whole.pretrain_steps
        pretrains = arm.pretrained or more.pretrain_steps > 0
        return replace(more, steps=steps_at(part), pretrain_steps=before if pretrains else 0)

    if not arm.network:
        return more, left
    most = _largest(at, min(left, cost(amount) + arm.share * left), cost)
    return most, max(left, cost(most) + (1 - arm.share) * left) if arm.share < 1 else left


def _largest(at: Callable[[float], Amount], left: float, cost: Callable[[Amount], float]) -> Amount:
    """The amount at the largest part, 0 to 1, that costs at most `left` seconds."""
    low, high = 0.0, 1.0
    if cost(at(high)) <= left:
        return at(high)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(at(middle)) <= left else (low, middle)
    return at(low)


def cost_of(
    basis: Basis, settings: FitSettings, amount: Amount, seconds: Mapping[str, StepTime], share: float = 1.0
) -> float:
    """Seconds of all stages: steps, looks at validation, and the scores of validation and test at the end, at two
    weights (of self-pretraining, of validation alone); and of a network that serves, which is trained again on train
    and validation.

    share: processes' worth of work that is done at once. A network waits for its own pretraining, however many cores
    there are.
    """
    spent, table = Spent(basis, amount, seconds, settings), arms()
    single = sum(table[name].seconds(spent) for name in amount.arms)
    each = len(amount.rates) * single + sum(table[name].seconds_before(spent) for name in amount.arms)
    return max(len(settings.runs) * each / share, spent.pretraining() + spent.training()) + spent.training()


def stage_seconds(plan: Plan, device: str, most: float) -> dict[str, StepTime]:
    """Stage's name, or the arm of a checkpoint, -> what it takes here and now. most: as `step_times` says."""
    slowest: dict[str, StepTime] = {}
    for planned, now in step_times(plan, device, most):
        name = next((arm for arm in planned.arms if arm in foreign_arms()), planned.name)
        basis = slowest.get(name, StepTime(0.0, 0.0))
        slowest[name] = StepTime(max(basis.step, now.step), max(basis.unit, now.unit))
    return slowest
