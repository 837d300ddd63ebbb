"""Two clocks that run beside each other in one table, as two sensors have: a row of it is no single time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from headstart.data.clock import UNIT_NAMES, step_words
from headstart.data.layout import is_role
from headstart.data.order import WORDS, Ordered, clock_rank, counter_name
from headstart.data.table import Column
from headstart.data.view import View
from headstart.errors import BadInput
from headstart.ways import asked

SECONDS_A_DAY = 86_400.0
_UNITS = (*UNIT_NAMES.values(), *(SECONDS_A_DAY * days for days in (1, 7, 30.44, 365.25)))
NEAR_SPANS, ALL_ROWS = 0.05, 0.9
"""Share by which the spans of one clock in two units may differ; share of the rows in which a clock goes on."""


def check_one_clock(view: View) -> None:
    """Raises: BadInput where a second clock runs beside the time of a long table, in steps of its own."""
    time, ids = view.roles.get("time"), str(view.roles["id"])
    if time is None or view.spec.time is not None or view.spec.optional:
        return
    columns, codes = view.table.columns, Ordered(view.table.columns[ids]).codes
    clocks = view.ordered([columns[time], *view.free()])
    roles = {"shape": "long", "id": ids}
    question = ask_clock(view.source, list(columns.values()), clocks, time, codes == codes[0], roles)
    if question is not None:
        raise question


def ask_clock(
    source: str,
    columns: Sequence[Column],
    clocks: Iterable[Ordered],
    time: str,
    rows: np.ndarray,
    roles: Mapping[str, str],
) -> BadInput | None:
    """What asks which clock is the time, where another one than `time` goes on in another step in these rows of one
    recording, and each has channels of its own. Clocks whose spans are one and the other in another unit are the same.
    roles: what else is to be set.
    """
    named = [clock for clock in clocks if clock_rank(clock.name) == 0 and clock.values is not None]
    first = next((clock for clock in named if clock.name == time), None)
    if first is None or (step := _step(first, rows)) is None:
        return None
    for other in named:
        second = None if other is first or counter_name(other.name) else _step(other, rows)
        if second is None or any(abs(second / step * a / b - 1) < NEAR_SPANS for a in _UNITS for b in _UNITS):
            continue
        both = [clock.name for clock in named]
        channels = {name: _channels(columns, name, both) for name in (time, other.name)}
        if not all(channels.values()):  # a time in two forms, or what was counted till then
            continue
        ways = [dict(roles) | {"values": own, "time": name} for name, own in channels.items()]
        return BadInput(
            asked(
                f"{source}: has two clocks, {time!r} in steps of {step_words(step)} and {other.name!r} in steps of "
                f"{step_words(second)}, so that a row has no single time (or write a file for each sensor)",
                *ways,
            )
        )
    return None


def _step(clock: Ordered, rows: np.ndarray) -> float | None:
    """The mean step of a clock that goes on in nearly all of these rows; None of another column, or a count of rows."""
    assert clock.values is not None
    steps = np.diff(clock.values[rows])
    going = bool(len(steps)) and bool(np.isfinite(steps).all()) and (steps >= 0).all()
    if not going or (steps > 0).mean() < ALL_ROWS or (steps == 1).all():
        return None
    return float(steps.mean())


def _channels(columns: Sequence[Column], clock: str, clocks: Sequence[str]) -> list[str]:
    """The columns of numbers behind a clock up to the next one, else those that share a word with it."""
    numbers = [column.name for column in columns if column.type == "number" and not is_role(column.name)]
    names = [column.name for column in columns]
    behind = names[names.index(clock) + 1 :]
    end = next((i for i, name in enumerate(behind) if name in clocks), len(behind))
    own = [name for name in behind[:end] if name in numbers]
    words = {word.lower() for word in WORDS.findall(clock)}
    alike = [name for name in numbers if name not in clocks and words & {word.lower() for word in WORDS.findall(name)}]
    return own or alike
