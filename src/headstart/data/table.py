"""A table as it was read, before it is known what its columns mean: names, cells, and where each row stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headstart.data.layout import Shape
from headstart.errors import BadInput, nearest

Words = list[str | None]
Lists = list[np.ndarray | None]


@dataclass(frozen=True)
class Places:
    """Where rows stand, in a person's words: a file and a line as an editor counts them, a row, or a file alone."""

    source: str
    lines: np.ndarray | None = None
    names: Sequence[str] | None = None
    rows: np.ndarray | None = None

    def of(self, row: int) -> str:
        """`train.csv:1043`, `train.parquet, row 12` (counted from 1), or the file's name."""
        if self.names is not None:
            return self.names[row]
        if self.lines is not None:
            return f"{self.source}:{int(self.lines[row])}"
        return f"{self.source}, row {1 + (row if self.rows is None else int(self.rows[row]))}"

    def cell(self, row: int, column: str) -> str:
        """The place of a cell."""
        return f"{self.of(row)} column {column!r}"

    def take(self, rows: np.ndarray) -> Places:
        """The places of these rows."""
        if self.names is not None:
            return Places(self.source, names=[self.names[i] for i in rows.tolist()])
        if self.lines is not None:
            return Places(self.source, lines=self.lines[rows])
        return Places(self.source, rows=np.asarray(rows) if self.rows is None else self.rows[rows])


@dataclass
class Column:
    """One column, n cells. What its cells are: `number`, `text`, `list` (whole sequences), `time` (dates), `empty`
    (every cell is missing) or `other` (nothing that is read).

    Where it has `words` they are the cells as they stand; `numbers` (n,) float64 has NaN where a cell is missing; of
    `lists` each is (L,) or (L, F), of numbers or of words.
    """

    name: str
    type: Literal["number", "text", "list", "time", "empty", "other"]
    words: Words | None = None
    numbers: np.ndarray | None = None
    lists: Lists | None = None


@dataclass
class Table:
    """Columns in their order, all of `rows` cells.

    `roles` are columns whose meaning the format itself says (a label of a .ts file), `shape` is one that it says.
    `notes` say what was done on reading that a person may want to know.
    """

    columns: dict[str, Column]
    rows: int
    places: Places
    written: str = ""
    header: bool | None = None
    decimal: Literal["auto", ".", ","] = "auto"
    shape: Shape | None = None
    roles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def column(self, name: str, setting: str) -> Column:
        """The column of this name. Raises: BadInput naming the setting and the nearest name."""
        if name not in self.columns:
            raise BadInput(
                f"{self.places.source}: {setting}: no column {nearest(name, self.columns).removeprefix('no ')}"
            )
        return self.columns[name]


def words_of(column: Column) -> Words:
    """Cells as texts; whole numbers without a point."""
    if column.words is not None:
        return column.words
    if column.numbers is None:
        return [None] * len(column.lists or [])
    return [None if value != value else number_name(value) for value in column.numbers.tolist()]


def number_name(value: float) -> str:
    """`3` of 3.0, `0.5` of 0.5."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 else repr(float(value))


def check_names(names: Iterable[str], place: str) -> list[str]:
    """Names of columns, each once. Raises: BadInput naming those that are there twice."""
    seen: dict[str, int] = {}
    wrong = []
    for number, name in enumerate(names, 1):
        if name in seen:
            wrong.append(f"{place}: column {name!r} is there twice (columns {seen[name]} and {number}); rename one")
        seen.setdefault(name, number)
    if wrong:
        raise BadInput("\n".join(wrong[:20]))
    return list(seen)
