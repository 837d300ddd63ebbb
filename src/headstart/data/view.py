"""A table as the guess looks at it: which columns are still free, how many values they have, which runs they make."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.names import TEXTS, by_role, matching, numbered, plain
from headstart.data.table import Column, Table

FEW = 20
"""Values that a class may have without a doubt."""
LONG = 12
"""Characters from which on cells of a column without a known name are taken for texts."""


@dataclass
class View:
    """What is known so far: `roles` that are settled (None: there is none), and the names of what was guessed."""

    table: Table
    spec: LayoutSpec
    roles: dict[str, str | None] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """What messages call the table."""
        return self.table.places.source

    def take(self, role: str, name: str) -> None:
        """Settle a role by a guess."""
        self.roles[role] = name
        self.guessed.append(role)

    def wanted(self) -> list[str]:
        """Columns that were set as values, patterns spelt out."""
        names = self.table.columns
        return [
            name
            for one in self.spec.values
            for name in (matching(one, names) if "*" in one and one not in names else [one])
        ]

    def free(self) -> list[Column]:
        """Columns without a role so far, and not set as values."""
        taken = {*self.roles.values(), *self.wanted()}
        return [column for name, column in self.table.columns.items() if name not in taken]

    def named(self, role: str) -> list[str]:
        """Free columns whose names are those of a role, the likelier first."""
        return by_role(role, [column.name for column in self.free() if column.type not in ("list", "other")])

    def count(self, name: str) -> int:
        """How many different cells a column has."""
        if name not in self._counts:
            self._counts[name] = len({word for word in self.table.columns[name].words if word})
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
            and (
                plain(column.name) in (*TEXTS, "values")
                or len(self.table.columns) == 1
                or (mean_length(column) >= LONG and not self.few(column))
            )
        ]

    def few(self, column: Column) -> bool:
        """Whether cells repeat as names of classes do."""
        count, there = self.count(column.name), sum(bool(word) for word in column.words)
        return 1 < count <= max(FEW, there // 10) and 2 * count <= max(there, 4)

    def few_whole(self, column: Column) -> bool:
        """Whether a column holds few different whole numbers."""
        return (
            column.type == "number"
            and whole(column)
            and (1 < self.count(column.name) <= min(100, max(self.table.rows // 2, 2)))
        )

    def named_roles(self) -> set[str]:
        """Columns whose names are those of any role."""
        return {name for role in ("target", "id", "time", "group") for name in by_role(role, self.table.columns)}


def mean_length(column: Column) -> float:
    """Characters of a cell on the average, of the first 200."""
    words = [word for word in column.words[:200] if word]
    return sum(map(len, words)) / max(len(words), 1)


def whole(column: Column) -> bool:
    """Whether every cell is a whole number or missing."""
    there = column.floats[~np.isnan(column.floats)]
    texts = column.numbers is None and sum(map(bool, column.words)) > len(there)
    return not texts and bool((np.isfinite(there) & (there == there.round())).all())


def spread(column: Column) -> float:
    """The largest number of a column less its smallest."""
    values = column.floats[~np.isnan(column.floats)]
    return float(values.max() - values.min()) if len(values) else 0.0


def of_words(column: Column) -> bool:
    """Whether a column of lists holds words."""
    return any(one is not None and one.dtype.kind == "U" for one in column.lists or [])


def column_names(table: Table) -> str:
    """The first names, for messages."""
    names = [repr(name) for name in table.columns]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
