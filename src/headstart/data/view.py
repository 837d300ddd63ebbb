"""What is seen in the columns of a table, by their cells and their names, before anything is decided of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headstart.data.layout import (
    TEXTS,
    Decision,
    LayoutSpec,
    by_role,
    matching,
    numbered,
    plain,
)
from headstart.data.order import FEW_VALUES, Ordered, changes, clock_name
from headstart.data.subjects import names_splits
from headstart.data.table import Column, Table
from headstart.data.text import looks_like_list, name_files
from headstart.data.times import dated
from headstart.errors import BadInput
from headstart.text import first_few, is_number, many
from headstart.ways import asked

NO_CLASSES = ("id", "file", "name", *TEXTS)
"""Names of texts that are no classes, however few there are."""
TEXT_LETTERS = 12
"""Characters from which on cells of a column without a known name are taken for texts."""


def names_position(name: str) -> bool:
    """Whether a name of a column is a position: a number such as a wavelength, a date or a time."""
    return is_number(name) or is_number(name, ",") or dated([name])


@dataclass
class View:
    """What is known so far: `roles` that are settled (None: there is none), and what was guessed. `aside` are clocks
    and counters that serve nothing, and are no values."""

    table: Table
    spec: LayoutSpec
    roles: dict[str, str | None] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """What messages call the table."""
        return self.table.places.source

    @property
    def names(self) -> str:
        """The first names of columns, for messages."""
        return first_few([repr(name) for name in self.table.columns], 8)

    def take(self, role: str, names: list[str], why: str = "") -> None:
        """Settle a role by a guess: the first of the names, where there is one; `why`: by what stands in the column."""
        if names:
            self.roles[role] = names[0]
            by_name = Decision(role, names[0], f"{names[0]!r} is a name or a place that such columns have")
            self.decisions.append(Decision(role, names[0], why, "content") if why else by_name)

    def ordered(self, columns: list[Column]) -> list[Ordered]:
        """Columns as their order is looked at."""
        return [Ordered(column, "," if self.table.decimal == "," else ".") for column in columns]

    def wanted(self) -> list[str]:
        """Columns that were set as values, patterns spelt out."""
        columns = self.table.columns
        return [
            name
            for value in self.spec.values
            for name in (matching(value, columns) if "*" in value and value not in columns else [value])
        ]

    def free(self) -> list[Column]:
        """Columns without a role so far, not set as values, and not counters beside the id or the time."""
        taken = {*self.roles.values(), *self.wanted(), *self.aside}
        return [column for name, column in self.table.columns.items() if name not in taken]

    def named(self, role: str) -> list[str]:
        """Free columns whose names are those of a role, the likelier first."""
        each = role == "target" and self.spec.window is not None  # lists of labels, one for each position
        free = [c for c in self.free() if c.type not in ("list", "other") or (each and c.has_words)]
        return by_role(role, [column.name for column in free])

    def targets(self) -> list[str]:
        """Free columns whose names are those of targets, without an axis y: one beside x and z, or beside x and a
        column of few texts."""
        plainly = {plain(name) for name in self.table.columns}
        axis = "x" in plainly and ("z" in plainly or any(self.classes(column) for column in self.free()))
        return [name for name in self.named("target") if not (axis and plain(name) == "y" and not self.classes(name))]

    def classes(self, column: Column | str) -> bool:
        """Whether a column holds few texts that may be classes."""
        column = self.table.columns[column] if isinstance(column, str) else column
        text = column.type == "text" or column.boolean
        text = text and plain(column.name) not in NO_CLASSES and self.few(column) and not dated(column.top)
        return text and not names_splits(column)

    def count(self, name: str) -> int:
        """How many different cells a column has."""
        if name not in self._counts:
            self._counts[name] = sum(map(bool, self.table.columns[name].coded[1]))
        return self._counts[name]

    def longest(self, columns: list[Column]) -> list[tuple[str, list[str]]]:
        """The longest runs of numbered columns of numbers, of three or more: (pattern, names)."""
        runs = numbered([column.name for column in columns if column.type in ("number", "empty")])
        size = max(map(len, runs.values()), default=0)
        return [(pattern, names) for pattern, names in runs.items() if len(names) == size > 2]

    def texts(self, columns: list[Column]) -> list[Column]:
        """Columns that may hold texts: by name, or with long cells of many kinds, or alone."""
        return [
            column
            for column in columns
            if column.type == "text"
            and not (self.files(column) or dated(column.top))
            and (
                plain(column.name) in (*TEXTS, "values")
                or len(self.table.columns) == 1
                or (column.mean_length >= TEXT_LETTERS and not self.few(column) and self.count(column.name) > 1)
            )
        ]

    def files(self, column: Column) -> bool:
        """Whether nearly all cells of a column are names of files."""
        return column.type == "text" and name_files(column.top)

    def unique(self) -> list[str]:
        """Free columns of texts without blanks, of which each row has another one, as ids are written."""
        return [
            column.name
            for column in self.free()
            if column.type == "text"
            and self.count(column.name) == self.table.rows > 1
            and not any(" " in (word or " ").strip() for word in column.words)
            and not (dated(column.top) or looks_like_list(column.words))
            and not any(is_number(word or "") for word in column.top)
        ]

    def few(self, column: Column) -> bool:
        """Whether cells repeat as names of classes do."""
        cells, kinds = column.coded
        count, there = self.count(column.name), int(np.array([bool(word) for word in kinds])[cells].sum())
        return 1 < count <= max(FEW_VALUES, there // 10) and 2 * count <= max(there, 4)

    def few_whole(self, column: Column) -> bool:
        """Whether a column holds few different whole numbers."""
        most = min(100, max(self.table.rows // 2, 2))
        return column.type == "number" and column.whole and 1 < self.count(column.name) <= most

    def one_each(self, name: str, of: str | None = None) -> bool:
        """Whether a column of a long table has one value for each sequence, empty cells apart. of: the id."""
        ids = self.table.columns[of or str(self.roles["id"])].coded[0]
        return not len(changes(self.table.columns[name], ids))

    def one_label(self, name: str) -> bool:
        """Whether a column may be the label of a long table: of its sequences, or of windows of them."""
        return self.spec.window is not None or self.one_each(name)

    def repeating(self) -> list[str]:
        """Columns that may be the id of a long table: by name, and with at most half as many values as rows."""
        names = [*self.named("id"), *self.named("group")]
        return [name for name in names if 0 < 2 * self.count(name) <= self.table.rows]

    def readings(self, column: Column, ids: Ordered | None) -> list[str]:
        """Roles that a column may have by its cells, whatever its name. ids: those of a long table, else None."""
        if column.type in ("list", "other"):
            return ["values"] * (column.type == "list")
        ordered, rows, kinds = Ordered(column), self.table.rows, self.count(column.name)
        whole, sequences = ordered.whole and not dated(column.top), ids.kinds if ids else rows
        each = ids is None or ordered.one_within(ids.codes)
        again = ordered.once or column.type == "text" or bool({*self.named("group")} & {column.name})
        clock = (
            ordered.rises_within(ids.codes) if ids else ordered.never_falls or (clock_name(column.name) and rows > 1)
        )
        fits = {
            "id": whole and (kinds == rows if ids is None else each and 2 * kinds <= rows) and 1 < kinds >= sequences,
            "time": bool(clock) and ordered.values is not None,
            "target": each
            and (self.classes(column) or self.few_whole(column) or (column.type == "number" and kinds > 1)),
            "group": whole and each and again and (1 if column.name in self.named("group") else 2) < kinds < sequences,
            "values": column.type in ("number", "empty") or column in self.texts([column]),
        }
        return [role for role, fit in fits.items() if fit]

    def facts(self, column: Column, ids: Ordered | None) -> str:
        """What stands in a column, in words."""
        if column.type in ("list", "other", "empty"):
            empty = "every cell is empty" if column.type == "empty" else "objects, which are not read"
            return "a list in each row" if column.type == "list" else empty
        ordered, rows, kinds = Ordered(column), self.table.rows, self.count(column.name)
        words = "names of files" if self.files(column) else "dates or times" if dated(column.top) else ""
        words = words or ("numbers" if column.type == "number" else "texts")
        if kinds == rows > 1:
            count = f"another one in each of {rows:,} rows"
        else:
            count = f"{kinds:,} different in {rows:,} rows"
        if ids is not None and ids.name != column.name:
            if ordered.one_within(ids.codes):
                return f"{words}, one in each of {many(ids.kinds, 'sequence')}, {kinds:,} different"
            if ordered.rises_within(ids.codes):
                return f"{words} that rise within each of {many(ids.kinds, 'sequence')}"
        elif ordered.once and 1 < kinds < rows:
            return f"{words} in {kinds:,} runs of equal ones"
        elif kinds == rows and ordered.never_falls:
            return f"{words} that count on from row to row"
        return f"{words}, {count}"


def check_no_sensor(view: View, names: Sequence[str]) -> None:
    """Raises: BadInput where columns of a wide table are the axes of a sensor, so that a row is a moment of it."""
    low = {name.strip().lower(): name for name in names}
    axes = next((end for end in low if end.endswith("x") and {f"{end[:-1]}y", f"{end[:-1]}z"} <= {*low}), None)
    labelled = view.roles["target"] is not None or not view.table.header  # tables in memory have labels beside them
    if axes is None or labelled or view.table.rows <= len(names) or view.roles["id"] or view.spec.shape != "auto":
        return
    sensor = ", ".join(repr(low[axes[:-1] + end]) for end in "xyz")
    question = f"{view.source}: {sensor} are the axes of a sensor, so that a row may be a moment of a recording"
    raise BadInput(asked(question, {"window": str(max(1, min(100, view.table.rows // 2)))}, {"shape": "wide"}))
