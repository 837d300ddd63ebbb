"""Which axis of a matrix is time, and which the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headstart.data.layout import LayoutSpec
from headstart.errors import BadInput
from headstart.text import first_few
from headstart.ways import asked, option

MUCH_LONGER = 8
"""Times that one axis is longer than the other where it is taken for time."""

LONG_ENOUGH = 2
"""Times that the first axis of arrays (n, L, F) is longer than the second where it is taken for time, as documented."""
BY_SIZES = "read as channels by positions"
"""How a note begins that says so of sequences whose axes their sizes told."""


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


def axis_of_all(
    shapes: Sequence[tuple[int, ...]], source: str, spec: LayoutSpec, turn: bool = True
) -> tuple[Literal["first", "second"], list[str]]:
    """Which axis of the sequences (L, F) or (F, L) of one array or list is time, and what is said of it.

    shapes: of the sequences; of an array the one of all. Others write (n, F, L) where this package has (n, L, F): what
    was set decides, then sizes; (L, F) is taken where L is at least `LONG_ENOUGH` times F. turn: (F, L) may be
    told by sizes; else it is asked about.
    Raises: BadInput with both settings where nothing tells.
    """
    chosen = spec.time_axis or ("second" if spec.channels_first else "")
    if chosen or spec.optional or "channels_first" in spec.model_fields_set:
        return chosen or "first", []
    axis = time_axis(shapes)
    if axis == "first" or (axis and turn):
        note = (
            f"{BY_SIZES}, as the second size ({max(shape[1] for shape in shapes):,}) is the longer "
            f"one, or the one that differs ({option('time_axis', 'first')}: it is not)"
        )
        return axis, [note] * (axis == "second")
    uneven = all(len({shape[k] for shape in shapes}) > 1 for k in (0, 1))  # which is told when they are read
    if uneven or min(shape[0] for shape in shapes) >= LONG_ENOUGH * max(shape[1] for shape in shapes):
        return "first", []
    some = first_few([" x ".join(map(str, shape)) for shape in sorted(set(shapes))], 3)
    raise BadInput(
        asked(
            f"{source}: each sequence is a matrix ({some}) whose sizes do not tell which axis is time",
            {"time_axis": "first"},
            {"time_axis": "second"},
        )
    )


def other_way(length: int, width: int) -> list[str]:
    """What is said of sequences of more channels than positions; of others nothing."""
    if width <= length:
        return []
    return [
        f"read as {length:,} positions of {width:,} channels; where it is the other way round, set "
        f"{option('channels_first', 'true')}"
    ]
