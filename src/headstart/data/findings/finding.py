"""One finding, and how places and names are written in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headstart.data.sequences import Sequences
from headstart.data.text import printable


@dataclass(frozen=True)
class Finding:
    """What may be wrong with data, in one line: how often, where first, and what mends it.

    text: for whoever has the file. plain: the same without a row, an id or a file, for pages and models that are handed
    on; empty where the counts there say it already.
    """

    text: str
    plain: str = ""

    @classmethod
    def located(cls, head: str, location: str, tail: str = "") -> Finding:
        """`head (location)tail`, and without the place."""
        return cls(f"{head} ({location}){tail}", f"{head}{tail}")

    @classmethod
    def everywhere(cls, text: str) -> Finding:
        """Of one that names no place."""
        return cls(text, text)


def places(s: Sequences, rows: Sequence[int]) -> str:
    """Where rows stand; of lines of one file the others by their numbers alone."""
    if s.places.lines is None:
        return " and ".join(s.places.of(row) for row in rows)
    return " and ".join([s.places.of(rows[0]), *(str(int(s.places.lines[row])) for row in rows[1:])])


def cell(s: Sequences, position: int, channel: int) -> str:
    """Where a value stands: its row, and its column in a wide table, else its position."""
    row = int(np.searchsorted(s.offsets, position, side="right")) - 1
    step, columns = position - int(s.offsets[row]), s.layout.channels[min(channel, len(s.layout.channels) - 1)].columns
    if s.layout.shape == "wide" and step < len(columns):
        return s.places.cell(row, columns[step])
    return f"{s.places.of(row)}, position {step + 1:,}"


def some(names: Sequence[str], most: int = 5) -> str:
    """The first names, in quotes."""
    return ", ".join(repr(short(name)) for name in names[:most]) + (", ..." if len(names) > most else "")


def short(text: str) -> str:
    """At most 40 characters, without those that a terminal obeys."""
    plain = printable(text)
    return plain if len(plain) <= 40 else plain[:39] + "…"


def share_words(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "under 0.1 %"
