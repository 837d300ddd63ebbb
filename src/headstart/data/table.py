"""A table as it was read, before its columns have a meaning: Arrow arrays by name, and where rows stand."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from headstart.data.arrow import Words, arrow_texts, chunks, ends, is_list, is_text, numbers_of, texts_of
from headstart.data.layout import Shape
from headstart.errors import MOST, BadInput, Mistakes, nearest

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


class Ragged(NamedTuple):
    """Sequences one after another: `values` are numbers (S,) or (S, F), or texts (S,); `offsets` (n + 1,) int64. A
    sequence that is missing is empty."""

    values: Any
    offsets: np.ndarray


Type = Literal["number", "text", "list", "time", "empty", "other"]
"""What the cells of a column are: `list` (whole sequences), `time` (dates), `empty` (every cell is missing), `other`
(nothing that is read)."""


@dataclass
class Column:
    """One column: an Arrow array of n texts, numbers or lists. A column of the type `number` may hold texts."""

    name: str
    type: Type
    data: Any

    @cached_property
    def words(self) -> Words:
        """Cells as texts; whole numbers without a point."""
        if self.type in ("list", "empty", "other"):
            return [None] * len(self.data)
        if is_text(self.data.type):
            return texts_of(self.data)
        return [None if value is None or value != value else number_name(value) for value in self.data.to_pylist()]

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """(n,) of a column of numbers, NaN where one is missing; None where it holds texts."""
        return None if self.type != "number" or is_text(self.data.type) else numbers_of(self.data)

    @cached_property
    def floats(self) -> np.ndarray:
        """(n,) float64, NaN where a cell is missing or no number."""
        return parse(self.data) if self.numbers is None else np.asarray(self.numbers, dtype=np.float64)

    @property
    def has_words(self) -> bool:
        """Whether the cells are lists of texts."""
        return self.type == "list" and is_text(self.data.type.value_type)

    def sequences(self, places: Places) -> Ragged:
        """The lists of all rows. Raises: BadInput where positions have different numbers of channels."""
        import pyarrow as pa

        array = pa.concat_arrays(chunks(self.data))
        tensor = isinstance(array.type, pa.FixedShapeTensorType) and array.type.shape
        array = array.storage if tensor else array
        offsets, flat = ends(array), array.flatten()
        if tensor:
            offsets = offsets // (tensor[1] if len(tensor) > 1 else 1)
            return Ragged(numbers_of(flat).reshape(-1, *tensor[1:]), offsets)
        if not is_list(flat.type):
            return Ragged(flat if is_text(flat.type) else numbers_of(flat), offsets)
        there = numbers_of(flat.is_valid()).astype(bool)
        widths = np.diff(ends(flat))
        width = int(widths[there][0]) if there.any() else 1
        wrong = np.flatnonzero(there & (widths != width))
        if len(wrong):
            row = int(np.searchsorted(offsets, wrong[0], side="right")) - 1
            raise BadInput(
                f"{places.cell(row, self.name)}: has a position of {widths[wrong[0]]} channels, the first sequence has "
                f"{width} channels; give each position the same"
            )
        values = np.full((len(flat), width), np.nan)
        values[there] = numbers_of(flat.flatten()).reshape(-1, width)
        return Ragged(values, offsets)


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
    """(n,) float64 of an Arrow array of texts, NaN for the words of `missing`, empty cells and what is no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        plain = pc.utf8_trim_whitespace(cells)
        plain = plain if decimal == "." else pc.replace_substring(plain, decimal, ".")
        gaps = pc.is_in(plain, value_set=arrow_texts(["", *missing]).cast(plain.type))
        keep = pc.and_(plain.is_valid(), pc.invert(gaps))
        values = np.full(len(plain), np.nan)
        values[numbers_of(keep).astype(bool)] = numbers_of(plain.filter(keep).cast(pa.float64()))
        return values
    except pa.ArrowException:  # a cell that is no number, or that Python alone takes for one
        return np.array([to_float((word or "").replace(decimal, ".")) for word in texts_of(cells)], dtype=np.float64)


def to_float(text: str) -> float:
    """A text as a number; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def number_name(value: float) -> str:
    """`3` of 3.0, `0.5` of 0.5."""
    whole = isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e16)
    return str(int(value)) if whole else repr(float(value))


def check_names(names: Iterable[str], location: str) -> list[str]:
    """Names of columns, each once. Raises: BadInput naming those that are there twice."""
    seen: dict[str, int] = {}
    wrong = []
    for number, name in enumerate(names, 1):
        if name in seen:
            wrong.append(f"{location}: column {name!r} is there twice (columns {seen[name]} and {number}); rename one")
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
            return self._finite(column.numbers, lambda i: (i, column.name))
        return self._checked(parse(column.data, self.decimal, self.na), column.words, lambda i: (i, column.name))

    def sequences(self, column: Column) -> Ragged:
        """Sequences of numbers of a column: as they are, or read from texts such as `[1, 2, 3]` or `1 2 3`."""
        if column.type != "list":
            parts = [
                np.zeros(0) if self.missing(word) else self.row(list_parts(word or ""), i, lambda _: column.name)
                for i, word in enumerate(column.words)
            ]
            return Ragged(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
        values, offsets = column.sequences(self.places)

        def cell(i: int) -> tuple[int, str]:
            return int(
                np.searchsorted(offsets, i // (values.size // max(len(values), 1)), side="right")
            ) - 1, column.name

        if isinstance(values, np.ndarray):
            return Ragged(self._finite(values, cell), offsets)
        words = texts_of(values)
        values = parse(values, self.decimal, self.na)
        return Ragged(self._checked(values, words, cell), offsets)

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

    def _finite(self, values: np.ndarray, cell: Callable[[int], tuple[int, str]]) -> np.ndarray:
        """Numbers with NaN where `na` says so. What float32 cannot hold is noted; `cell` says where a value stands.

        What fits into float32 is given in it, the rest in float64.
        """
        narrow = values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)
        values = self.without_na(np.asarray(values, dtype=np.float32 if narrow else np.float64))
        wrong = np.flatnonzero(np.abs(values.reshape(-1)) > LARGEST)
        for i in wrong.tolist():
            self.refuse(*cell(i), number_name(values.reshape(-1)[i]), TOO_LARGE)
        return np.where(np.abs(values) > LARGEST, np.nan, values) if len(wrong) else values

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
            short = text if len(text) <= 40 else text[:40] + "..."
            many = f"{len(bad.rows):,} such rows; " if len(bad.rows) > 1 else ""
            way = f"--na {shlex.quote(text)} reads {'them' if len(bad.rows) > 1 else 'it'} as missing"
            if len(text) > 40:
                way = "correct it, or name other columns with --values"
            elif "..." in text:
                way = "whoever wrote the file shortened the list; write it whole"
            mistakes.add(self.places.cell(bad.row, bad.column), f"{short!r} {wrong} ({many}{way})")
        if self.others and len(mistakes.texts) < MOST:
            mistakes.add(self.places.source, f"{self.others:,} other cells are no numbers either")


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
