"""What every optimiser and every schedule must hold to: checks that say in words what fails, for a person's own too."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from headstart.errors import Broken
from headstart.seeds import normal
from headstart.training.objective_contract import problems_of
from headstart.training.optim import Group, Moments, OptimSpec, step_numbers, update_
from headstart.training.schedules import RateCourse

CONTRACT_WEIGHTS, CONTRACT_STEPS = 12, 40
"""Weights that an optimiser changes, and steps that it takes."""
RATE_COURSES = (RateCourse(0, 40, 0.0, 0.2), RateCourse(10, 40, 0.1, 0.2), RateCourse(1, 2, 0.0, 1.0))
LARGEST_SHARE = 1e3
"""Of the peak rate."""

Stepped = tuple[torch.Tensor, Moments]


def begun() -> Stepped:
    """Weights drawn at random, and empty moments."""
    weights = torch.from_numpy(normal(0, "contract/weights", torch.arange(CONTRACT_WEIGHTS).numpy()))
    return weights, Moments(torch.zeros_like(weights), torch.zeros_like(weights))


def stepped(spec: OptimSpec, run: Stepped, first: int, last: int, order: torch.Tensor | None = None) -> Stepped:
    """Steps `first` to `last` downhill on a bowl, whose sides differ in steepness. order: of the weights."""
    weights, moments = run
    steep = torch.linspace(0.5, 2.0, CONTRACT_WEIGHTS, dtype=weights.dtype)
    steep = steep if order is None else steep[order]
    groups = [Group(0, CONTRACT_WEIGHTS, None, spec.weight_decay > 0)]
    for step in range(first, last):
        update_(weights, moments, steep * weights, step_numbers(spec, groups, CONTRACT_STEPS, step), spec, groups)
    return weights, moments


def check_learns(spec: OptimSpec) -> None:
    """The bowl is lower after the steps than before, and all is a number."""
    before = begun()[0].norm()
    weights, _ = stepped(spec, begun(), 0, CONTRACT_STEPS)
    if not bool(weights.isfinite().all()):
        raise Broken("weights become infinite or NaN on a bowl at the rate of its spec; lower the default of lr")
    if not float(weights.norm()) < float(before):
        raise Broken("weights do not come nearer to the bottom of a bowl; let update go against the gradient")


def check_goes_on(spec: OptimSpec) -> None:
    """From a copy of weights and moments it goes on to equal bits: nothing is kept elsewhere."""
    whole = stepped(spec, begun(), 0, 6)
    weights, moments = stepped(spec, begun(), 0, 3)
    copies = weights.clone(), Moments(*(x.clone() for x in moments))
    stepped(spec, (weights, moments), 3, 5)
    fresh = type(spec).model_validate({name: getattr(spec, name) for name in type(spec).model_fields})
    again = stepped(fresh, copies, 3, 6)
    for ours, theirs in zip((whole[0], *whole[1]), (again[0], *again[1]), strict=True):
        if not torch.equal(ours, theirs):
            raise Broken(
                "steps that were broken off do not go on to equal bits; keep all that changes in first and second"
            )


def check_each_alone(spec: OptimSpec) -> None:
    """The order of the weights, which lie in one buffer, means nothing."""
    order = torch.arange(CONTRACT_WEIGHTS).flip(0)
    plain, _ = stepped(spec, begun(), 0, 4)
    weights, moments = begun()
    turned, _ = stepped(spec, (weights[order].clone(), moments), 0, 4, order)
    if not torch.allclose(plain[order], turned, rtol=1e-9, atol=1e-12):
        raise Broken("a weight moves by where it stands in the buffer; let update look at each weight alone")


def check_still(spec: OptimSpec) -> None:
    """Without a gradient from the start on nothing becomes NaN."""
    weights, moments = begun()
    groups = [Group(0, CONTRACT_WEIGHTS, None, False)]
    update_(weights, moments, torch.zeros_like(weights), step_numbers(spec, groups, 4, 0), spec, groups)
    if not bool(weights.isfinite().all()):
        raise Broken("a gradient of 0 makes NaN; add epsilon to what is divided by")


def check_shares(spec: OptimSpec) -> None:
    """Shares of the peak are numbers from 0 on, and the same whenever they are asked for."""
    for course in RATE_COURSES:
        steps = range(course.warm, course.total)
        share = _share(spec, course)
        shares = {step: share(step) for step in steps}
        for step, value in shares.items():
            if not (math.isfinite(value) and 0 <= value <= LARGEST_SHARE):
                raise Broken(f"the share of the peak at step {step} of {course.total} is {value}; give one from 0 to 1")
        if {step: share(step) for step in reversed(steps)} != shares:
            raise Broken("the share of a step is another one when it is asked for again; let it follow from the step")


def _share(spec: OptimSpec, course: RateCourse) -> Callable[[int], float]:
    changed = {"warmup_steps": course.warm, "warmup_share": 0.0}
    own = spec.model_copy(update=changed)
    return lambda step: own.factor(step, course.total)


OPTIMIZER_CHECKS: dict[str, Callable[[OptimSpec], None]] = {
    "learning": check_learns,
    "going on": check_goes_on,
    "each weight": check_each_alone,
    "standing still": check_still,
}
SCHEDULE_CHECKS: dict[str, Callable[[OptimSpec], None]] = {"shares": check_shares}


def check_optimizer(spec: OptimSpec) -> dict[str, str | None]:
    """All checks of an optimiser: what is wrong with each, or None."""
    return problems_of(OPTIMIZER_CHECKS, [spec])


def check_schedule(spec: OptimSpec) -> dict[str, str | None]:
    """All checks of the schedule of an optimiser: what is wrong with each, or None."""
    return problems_of(SCHEDULE_CHECKS, [spec])
