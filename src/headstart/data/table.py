"""A table as it was read, before its columns have a meaning: cells as texts and numbers, and where rows stand."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from headstart.data.layout import Shape
from headstart.errors import MOST, BadInput, Mistakes, nearest

Words = list[str | None]
Lists = list[np.ndarray | None]


LARGEST = float(np.finfo(np.float32).max)
"""Values are kept in float32."""
KINDS = 1_000
"""Different wrong texts that are counted apart; the others are counted together."""

Wrong = Literal["is not a number", "is infinite, or beyond 3e38"]
NOT_A_NUMBER: Wrong = "is not a number"
TOO_LARGE: Wrong = "is infinite, or beyond 3e38"


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


@dataclass
class _Bad:
    """Where a wrong text first stands, and all rows that have it."""

    row: int
    column: str
    rows: set[int]


@dataclass
class Cells:
    """Reads cells as numbers. `na` are the words for a missing value, besides the empty cell and nan."""

    places: Places
    na: frozenset[str] = frozenset()
    decimal: str = "."
    bad: dict[tuple[str, Wrong], _Bad] = field(default_factory=dict)
    others: int = 0

    def __post_init__(self) -> None:
        numbers = np.array([to_float(word) for word in self.na])
        self._na_numbers = numbers[~np.isnan(numbers)]

    def missing(self, text: str | None) -> bool:
        """Whether a cell stands for a missing value."""
        if text is None:
            return True
        text = text.strip()
        return not text or text in self.na or text.lower() == "nan"

    def row(self, words: Sequence[str], row: int, name: Callable[[int], str]) -> np.ndarray:
        """(L,) float64 of the cells of one row, NaN where missing; `name` gives the column of the i-th cell."""
        plain = words if self.decimal == "." else [word.replace(self.decimal, ".") for word in words]
        try:
            values = np.fromiter(map(float, plain), np.float64, len(plain))
        except ValueError:
            values = np.array([to_float(word) for word in plain])
        return self._checked(values, words, lambda i: (row, name(i)))

    def numbers(self, column: Column) -> np.ndarray:
        """(n,) float64 (or float32) of a column, NaN where missing. What is wrong is noted and becomes NaN."""
        if column.numbers is not None:
            return self.finite(column.numbers, column.name)
        values = parse(column.cells, self.decimal, self.na)
        return self._checked(values, column.words, lambda i: (i, column.name))

    def _checked(
        self, values: np.ndarray, words: Sequence[str | None], cell: Callable[[int], tuple[int, str]]
    ) -> np.ndarray:
        wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
        for i in wrong.tolist():
            if not self.missing(words[i]):
                self.refuse(*cell(i), words[i] or "", NOT_A_NUMBER if np.isnan(values[i]) else TOO_LARGE)
        if len(wrong):
            values[wrong] = np.nan
        return self.without_na(values)

    def finite(self, values: np.ndarray, column: str, row: int | None = None) -> np.ndarray:
        """Numbers of a column, or of one row where `row` is given, with NaN where `na` says so.

        What float32 cannot hold is noted. What fits into float32 is given in it, the rest in float64.
        """
        narrow = values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)
        values = self.without_na(np.asarray(values, dtype=np.float32 if narrow else np.float64))
        wrong = np.flatnonzero(np.abs(values.reshape(-1)) > LARGEST)
        for i in wrong.tolist():
            self.refuse(i if row is None else row, column, number_name_of(values.reshape(-1)[i]), TOO_LARGE)
        if len(wrong):
            values = np.where(np.abs(values) > LARGEST, np.nan, values)
        return values

    def lists(self, column: Column) -> Lists:
        """Sequences of a column: as they are, or read from texts such as `[1, 2, 3]` or `1 2 3`."""
        if column.lists is not None:
            return [
                None if one is None else one if one.dtype.kind in "US" else self.finite(one, column.name, i)
                for i, one in enumerate(column.lists)
            ]
        out: Lists = []
        for i, word in enumerate(column.words):
            out.append(None if self.missing(word) else self.row(list_parts(word or ""), i, lambda _: column.name))
        return out

    def without_na(self, values: np.ndarray) -> np.ndarray:
        """The values with NaN for numbers that are among `na`."""
        if len(self._na_numbers):
            hit = np.isin(values, self._na_numbers)
            if hit.any():
                return np.where(hit, np.nan, values)
        return values

    def refuse(self, row: int, column: str, text: str, wrong: Wrong) -> None:
        """Note a cell that is wrong."""
        key = (text.strip(), wrong)
        known = self.bad.get(key)
        if known is None and len(self.bad) >= KINDS:
            self.others += 1
        elif known is None:
            self.bad[key] = _Bad(row, column, {row})
        else:
            known.rows.add(row)
            if row < known.row:
                known.row, known.column = row, column

    def report(self, mistakes: Mistakes) -> None:
        """Hand what was noted to `mistakes`, one line for each text. Raises: BadInput once there are 20."""
        for (text, wrong), bad in sorted(self.bad.items(), key=lambda pair: pair[1].row):
            shown = text if len(text) <= 40 else text[:40] + "..."
            many = f"{len(bad.rows):,} such rows; " if len(bad.rows) > 1 else ""
            way = f"--na {shlex.quote(text)} reads {'them' if len(bad.rows) > 1 else 'it'} as missing"
            if len(text) > 40:
                way = "correct it, or name other columns with --values"
            elif "..." in text:
                way = "whoever wrote the file shortened the list; write it whole"
            mistakes.add(self.places.cell(bad.row, bad.column), f"{shown!r} {wrong} ({many}{way})")
        if self.others and len(mistakes.texts) < MOST:
            mistakes.add(self.places.source, f"{self.others:,} other cells are no numbers either")


def number_name_of(value: float) -> str:
    """A number as text, infinity too."""
    return repr(float(value)) if np.isinf(value) else number_name(value)


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a cell is a number, infinity among them; nan is none here."""
    try:
        value = float(text.replace(decimal, ".") if decimal != "." else text)
    except ValueError:
        return False
    return value == value


def list_parts(text: str) -> list[str]:
    """The members of a list that was written into a cell; two separators side by side hold a missing one."""
    plain = text.strip().strip("[]()")
    for separator in (",", ";", "|"):
        if separator in plain:
            return [part.strip() for part in plain.split(separator)]
    return plain.split()


def looks_like_list(words: Iterable[str | None], most: int = 50) -> bool:
    """Whether cells are lists of numbers written as text: at least two numbers in nine of ten."""
    seen = good = 0
    for word in words:
        if word is None or not word.strip():
            continue
        parts = list_parts(word[:2_000])[:-1] if len(word) > 2_000 else list_parts(word)
        known = sum(is_number(part) or part.lower() in ("nan", "") for part in parts)
        good += len(parts) > 1 and known >= 0.9 * len(parts)
        seen += 1
        if seen == most:
            break
    return seen > 0 and good >= 0.9 * seen
