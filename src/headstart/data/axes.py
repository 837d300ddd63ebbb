"""Which axis of a matrix is time, and which the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headstart.ways import option

MUCH_LONGER = 8
"""Times that one axis is longer than the other where it is taken for time."""


def time_axis(shapes: Sequence[tuple[int, ...]]) -> Literal["", "first", "second"]:
    """Which axis of the matrices of several recordings is time: the only one whose size differs, else one that is much
    longer in all; "" where neither tells, or each tells another."""
    first, second = ({shape[k] for shape in shapes} for k in (0, 1))
    longer: set[Literal["first", "second"]] = set()
    if min(first) >= MUCH_LONGER * max(second):
        longer.add("first")
    if min(second) >= MUCH_LONGER * max(first):
        longer.add("second")
    if len(second) == 1 < len(first):
        longer.add("first")
    if len(first) == 1 < len(second):
        longer.add("second")
    return longer.pop() if len(longer) == 1 else ""


def other_way(length: int, width: int) -> list[str]:
    """What is said of sequences of more channels than positions; of others nothing."""
    if width <= length:
        return []
    return [
        f"read as {length:,} positions of {width:,} channels; where it is the other way round, set "
        f"{option('channels_first', 'true')}"
    ]
