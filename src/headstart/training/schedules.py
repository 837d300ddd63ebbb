"""Schedules of the learning rate: shares of its peak from step to step, after the warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RateCourse:
    """What a schedule follows.

    warm: steps of warm-up, which lie behind. final: share of the peak at the end. cooldown: share of all steps over
    which a stable schedule falls.
    """

    warm: int
    total: int
    final: float
    cooldown: float


def cosine(step: int, course: RateCourse) -> float:
    """Half a cosine, from the peak to the final share (Loshchilov and Hutter 2017)."""
    done = (step - course.warm) / max(course.total - course.warm, 1)
    return course.final + (1 - course.final) * 0.5 * (1 + math.cos(math.pi * done))


def constant(step: int, course: RateCourse) -> float:
    """The peak."""
    del step, course
    return 1.0


def linear(step: int, course: RateCourse) -> float:
    """A straight line from the peak to the final share, which the step after the last would have."""
    return 1 - (1 - course.final) * (step - course.warm) / max(course.total - course.warm, 1)


def inverse_sqrt(step: int, course: RateCourse) -> float:
    """With the inverse square root of the step, from the peak at the end of the warm-up (Vaswani et al. 2017)."""
    return math.sqrt(max(course.warm, 1) / (step + 1))


def stable_decay(step: int, course: RateCourse) -> float:
    """The peak, and a straight line to the final share over the last steps (Hu et al. 2024; Haegele et al. 2024)."""
    length = max(round(course.cooldown * course.total), 1)
    return 1 - (1 - course.final) * max(step - (course.total - length), 0) / length


SCHEDULES: Mapping[str, Callable[[int, RateCourse], float]] = {
    "cosine": cosine,
    "constant": constant,
    "linear": linear,
    "inverse_sqrt": inverse_sqrt,
    "stable_decay": stable_decay,
}
ENDLESS = ("constant", "inverse_sqrt")
"""Schedules that do not depend on how long training is, and end at no share that is given."""
