"""A table as it was read, before it is known what its columns mean: names, cells, and where each row stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

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


Type = Literal["number", "text", "list", "time", "empty", "other"]
"""What the cells of a column are: `list` (whole sequences), `time` (dates), `empty` (every cell is missing), `other`
(nothing that is read)."""


@dataclass
class Column:
    """One column, n cells.

    `cells` are texts as they stand, in a list or an Arrow array; `numbers` (n,) float64 has NaN where one is missing;
    of `lists` each is (L,) or (L, F), of numbers or of words. A column has one of the three, or texts and numbers.
    """

    name: str
    type: Type
    cells: Any = None
    numbers: np.ndarray | None = None
    lists: Lists | None = None

    @cached_property
    def words(self) -> Words:
        """Cells as texts; whole numbers without a point."""
        if self.cells is not None:
            return self.cells if isinstance(self.cells, list) else self.cells.to_pylist()
        if self.numbers is None:
            return [None] * len(self.lists or [])
        return [None if value != value else number_name(value) for value in self.numbers.tolist()]

    @cached_property
    def floats(self) -> np.ndarray:
        """(n,) float64, NaN where a cell is missing or no number."""
        return parse(self.cells) if self.numbers is None else self.numbers


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


def parse(cells: Any, decimal: str = ".", missing: Iterable[str] = ()) -> np.ndarray:
    """(n,) float64 of texts, NaN for the words of `missing`, empty cells and whatever is no number."""
    if not isinstance(cells, list):
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            plain = pc.utf8_trim_whitespace(cells)
            plain = plain if decimal == "." else pc.replace_substring(plain, decimal, ".")
            gaps = pc.is_in(plain, value_set=arrow_texts(["", *missing]).cast(plain.type))
            keep = pc.and_(plain.is_valid(), pc.invert(gaps))
            values = np.full(len(plain), np.nan)
            values[_numpy(keep.cast(pa.int8())).astype(bool)] = _numpy(plain.filter(keep).cast(pa.float64()))
            return values
        except pa.ArrowInvalid:  # a cell that is no number, or that Python alone takes for one
            cells = cells.to_pylist()
    return np.array([to_float((word or "").replace(decimal, ".")) for word in cells], dtype=np.float64)


def _numpy(column: Any) -> np.ndarray:
    """A chunked Arrow array of numbers without gaps. Arrow's own way would load pandas."""
    parts = [np.from_dlpack(part) for part in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0)


def arrow_texts(texts: Sequence[str]) -> Any:
    """Texts as an Arrow array. Arrow's own way would load pandas."""
    import pyarrow as pa

    content = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, content)], dtype=np.int64)
    return pa.Array.from_buffers(
        pa.large_string(), len(content), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(content))]
    )


def to_float(text: str) -> float:
    """A text as a number; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


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
