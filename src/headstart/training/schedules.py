"""Schedules of the learning rate: shares of its peak from step to step, after the warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headstart.spec import Entry, Spec, spec_of_kind


class FrozenShares(dict[str, float]):
    """Part = share of the rate, in a frozen spec: nobody changes it, so that it has a hash."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


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


SCHEDULES: dict[str, Entry] = {
    "cosine": Entry("headstart.training.schedules:cosine", "falls along half a cosine", "Loshchilov and Hutter 2017"),
    "constant": Entry("headstart.training.schedules:constant", "stays at the peak"),
    "linear": Entry("headstart.training.schedules:linear", "falls in a straight line"),
    "inverse_sqrt": Entry(
        "headstart.training.schedules:inverse_sqrt", "falls with the square root of the step", "Vaswani et al. 2017"
    ),
    "stable_decay": Entry(
        "headstart.training.schedules:stable_decay", "stays, and falls over the last steps", "Hu et al. 2024"
    ),
}
ENDLESS = ("constant", "inverse_sqrt")
"""Schedules that do not depend on how long training is, and end at no share that is given."""


class ScheduleSpec(Spec):
    """A schedule of a person's own: `schedule = { kind = "...", ... }`, from a plugin that registers it."""

    kind: str

    def factor(self, step: int, course: RateCourse) -> float:
        """Share of the peak rate at this step (from 0) of `course.total`, after the `course.warm` of warm-up."""
        raise NotImplementedError


def read_schedule(value: Any) -> Any:
    """A schedule by its name, or a table of one's own. Raises: ValueError for a table of a built-in one."""
    name = value.get("kind") if isinstance(value, Mapping) else value
    if not isinstance(name, str) or name not in BUILT_IN:
        return spec_of_kind(SCHEDULES, {"kind": value} if isinstance(value, str) else value)
    if isinstance(value, Mapping) and len(value) > 1:
        raise ValueError(f"its settings stand beside it in optim; write schedule = {name!r}")
    return name


BUILT_IN = tuple(SCHEDULES)
"""Schedules that a name alone asks for."""
