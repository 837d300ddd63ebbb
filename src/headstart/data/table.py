"""A table as it was read, before its columns have a meaning: Arrow arrays by name, from and to numpy and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from headstart.data.layout import TableShape
from headstart.data.text import list_parts, number_name
from headstart.errors import BadInput, Mistakes, Places, nearest
from headstart.text import counted, first_few, to_float
from headstart.ways import WORDS_WAY, field_name, option

Words = list[str | None]

LARGEST_VALUE = float(np.finfo(np.float32).max)
"""Values are kept in float32."""
SINGLE_CELLS = 64
"""Cells that are read one by one: the functions of Arrow take 0.05 s to import."""
COUNTED_TEXTS = 1_000
"""Different wrong texts that are counted apart; the others are counted together."""

USUAL_GAPS = frozenset(("na", "n/a", "#n/a", "n.a.", "<na>", "null", "none", "nil", "nan()"))
"""Words, in small letters, that stand for a missing number without a doubt."""
FEW_WORDS = 8
"""Different wrong texts that a message names as missing ones."""
NOT_A_NUMBER = "is not a number"
TOO_LARGE = "is infinite, or beyond 3e38"


TOP_CELLS = 200
"""Cells whose form is looked at."""


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
    """One column: an Arrow array of n texts, numbers or lists. A column of the type `number` may hold texts. `unit`:
    of its numbers, where it stands beside them and not in the name."""

    name: str
    type: Type
    data: Any
    unit: str = ""

    @cached_property
    def words(self) -> Words:
        """Cells as texts; whole numbers without a point."""
        if self.type in ("list", "empty", "other"):
            return [None] * len(self.data)
        if is_text(self.data.type):
            return texts_of(self.data)
        if self.boolean:
            return [None if value is None else str(value) for value in self.data.to_pylist()]
        return [None if value is None or value != value else number_name(value) for value in self.data.to_pylist()]

    @cached_property
    def coded(self) -> tuple[np.ndarray, list[str]]:
        """(n,) number of each cell among the different ones, in the order in which they come first, and these: without
        blanks at their ends, "" of an empty cell."""
        if is_text(self.data.type) and len(self.data) > SINGLE_CELLS and self.type != "other":
            data = self.data.combine_chunks() if hasattr(self.data, "combine_chunks") else self.data
            if not hasattr(data, "chunks") and not hasattr(data, "dictionary"):
                encoded = data.dictionary_encode("encode")
                code_of: dict[str, int] = {}
                numbers = [code_of.setdefault((w or "").strip(), len(code_of)) for w in texts_of(encoded.dictionary)]
                return np.array(numbers, dtype=np.int64)[numbers_of(encoded.indices).astype(np.int64)], list(code_of)
        code_of = {}
        cells = [code_of.setdefault((word or "").strip(), len(code_of)) for word in self.words]
        return np.array(cells, dtype=np.int64), list(code_of)

    @property
    def top(self) -> Words:
        """The first cells as texts, which tell their form."""
        return (
            self.words[:TOP_CELLS] if "words" in self.__dict__ else Column("", self.type, self.data[:TOP_CELLS]).words
        )

    @property
    def boolean(self) -> bool:
        """Whether the cells are true or false."""
        import pyarrow as pa

        return bool(pa.types.is_boolean(self.data.type))

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """(n,) of a column of numbers, NaN where one is missing; None where it holds texts."""
        return None if self.type != "number" or is_text(self.data.type) else numbers_of(self.data)

    @cached_property
    @np.errstate(invalid="ignore")  # a signalling NaN, as in a damaged file, is missing like any other
    def floats(self) -> np.ndarray:
        """(n,) float64, NaN where a cell is missing or no number."""
        return parse(self.data) if self.numbers is None else np.asarray(self.numbers, dtype=np.float64)

    @property
    def mean_length(self) -> float:
        """Characters of a cell on the average, of the first 200."""
        words = [word for word in self.words[:200] if word]
        return sum(map(len, words)) / max(len(words), 1)

    @property
    def whole(self) -> bool:
        """Whether every cell is a whole number or missing."""
        there = self.floats[~np.isnan(self.floats)]
        if not (np.isfinite(there) & (there == there.round())).all():
            return False
        return self.numbers is not None or sum(map(bool, self.words)) <= len(there)

    @property
    def has_words(self) -> bool:
        """Whether the cells are lists of texts."""
        return self.type == "list" and is_text(self.data.type.value_type)

    @np.errstate(invalid="ignore")
    def sequences(self, places: Places, channels_first: bool = False) -> Ragged:
        """The lists of all rows, of lists (L, F), or (F, L). Raises: BadInput where numbers of channels differ."""
        import pyarrow as pa

        array = pa.concat_arrays(chunks(self.data))
        tensor = isinstance(array.type, pa.FixedShapeTensorType) and array.type.shape
        array = array.storage if tensor else array
        offsets, flat = ends(array), array.flatten()
        if tensor:
            offsets, rows = offsets // (tensor[1] if len(tensor) > 1 else 1), numbers_of(flat).reshape(-1, *tensor[1:])
            if rows.ndim == 1 or not channels_first:
                return Ragged(rows, offsets)
            return self._turned(offsets, np.arange(len(rows) + 1) * tensor[1], rows.reshape(-1), places)
        if not is_list(flat.type):
            return Ragged(flat if is_text(flat.type) else numbers_of(flat), offsets)
        if channels_first:
            return self._turned(offsets, ends(flat), numbers_of(flat.flatten()), places)
        there = numbers_of(flat.is_valid()).astype(bool)
        widths = np.diff(ends(flat))
        width = int(widths[there][0]) if there.any() else 1
        wrong = np.flatnonzero(there & (widths != width))
        if len(wrong):
            row = int(np.searchsorted(offsets, wrong[0], side="right")) - 1
            raise BadInput(
                f"{places.cell(row, self.name)}: has a position of {widths[wrong[0]]} channels, the first sequence has "
                f"{width} channels; give each position the same, or set channels_first=true where it is a channel"
            )
        values = np.full((len(flat), width), np.nan)
        values[there] = numbers_of(flat.flatten()).reshape(-1, width)
        return Ragged(values, offsets)

    def _turned(self, offsets: np.ndarray, inner: np.ndarray, numbers: np.ndarray, places: Places) -> Ragged:
        """(L, F) of each row out of F lists; one that is shorter than the others is missing from its end on."""
        counts, lengths = np.diff(offsets), np.diff(inner)
        width = int(counts[counts > 0][0]) if counts.any() else 1
        for row in np.flatnonzero((counts > 0) & (counts != width))[:1].tolist():
            raise BadInput(
                f"{places.cell(row, self.name)}: has {counts[row]} channels, the first sequence has {width}; give "
                "each sequence the same"
            )
        longest = np.zeros(len(counts), dtype=np.int64)
        longest[counts > 0] = lengths.reshape(-1, width).max(1)
        out = np.concatenate([[0], np.cumsum(longest)]).astype(np.int64)
        begins = np.repeat(out[:-1], counts) - inner[:-1]
        values = np.full((out[-1], width), np.nan)
        values[
            np.arange(len(numbers)) + np.repeat(begins, lengths), np.repeat(np.arange(len(lengths)) % width, lengths)
        ] = numbers
        return Ragged(values, out)


@dataclass
class Table:
    """Columns in their order, all of `rows` cells.

    `roles` are columns whose meaning the format itself says (a label of a .ts file; "" for none), `shape` is one that
    it says. `notes` say what was done on reading that a person may want to know. `rate`: samples per second of
    recordings of one channel. `thousands`: the mark between thousands, which is no longer in the cells.
    `times`: (n,) of the rows, once they are read. `steps`: (n,) from a position to the next one in each row's sequence,
    in units of `unit` seconds (None where that is not known). `clock`: the column of the times in files of a folder.
    `named`: whether the ids are names of recordings in one file, which tell labels as names of files do.
    `made`: (n,) numbers or words on how each row was recorded, by name, which is no longer in the values. `time_axis`:
    which axis of matrices is time, in files of a folder.
    """

    columns: dict[str, Column]
    rows: int
    places: Places
    written: str = ""
    header: bool | None = None
    decimal: Literal["auto", ".", ","] = "auto"
    shape: TableShape | None = None
    roles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rate: int | float | None = None
    thousands: str = ""
    times: np.ndarray | None = None
    steps: np.ndarray | None = None
    unit: float | None = None
    clock: str | None = None
    named: bool = False
    made: dict[str, np.ndarray] = field(default_factory=dict)
    time_axis: Literal["", "first", "second"] = ""

    def column(self, name: str, setting: str) -> Column:
        """The column of this name. Raises: BadInput naming the setting, and the nearest name or what is not read."""
        if name not in self.columns:
            way = nearest(name, self.columns).removeprefix("no ")
            raise BadInput(f"{self.places.source}: {field_name(setting)}: no column {way}")
        if problem := unread([self.columns[name]]):
            raise BadInput(f"{self.places.source}: {field_name(setting)}: {problem}")
        return self.columns[name]


def unread(columns: Iterable[Column]) -> str:
    """Which of the columns holds what is not read, such as structs, and the way out; "" where none does."""
    import pyarrow as pa

    for column in columns:
        if column.type == "other":
            kind = column.data.type
            what = (
                "objects, or values of several types" if pa.types.is_null(kind) else f"values of type {str(kind)[:80]}"
            )
            way = "write a column for each channel, whose cells are lists of numbers (or numbers, a row per position)"
            if "binary" in str(kind):  # as data sets of Hugging Face do
                way = "write each to a file in a folder for each class, and give the folder that holds these"
            return f"column {column.name!r} holds {what}, which are not read; {way}"
    return ""


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts, kept as bytes or not, or a dictionary of them."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    texts = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
    texts += [getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name)]
    return kind in texts


def is_string(kind: Any) -> bool:
    """Whether an Arrow type is one of texts that are kept as such, and not as bytes."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def chunks(data: Any) -> list[Any]:
    """The parts of an Arrow array, which may be one."""
    return list(data.chunks) if hasattr(data, "chunks") else [data]


def ends(array: Any) -> np.ndarray:
    """(n + 1,) where the lists of an Arrow array begin and end in what it holds; those that are missing are empty."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(array)
    lengths = lengths.fill_null(0) if lengths.null_count else lengths  # to fill loads pandas, where that is installed
    return np.concatenate([[0], np.cumsum(numbers_of(lengths))]).astype(np.int64)


def numbers_of(data: Any) -> np.ndarray:
    """(n,) numbers of an Arrow array, NaN where one is missing. Arrow's own way would load pandas."""
    import pyarrow as pa

    if pa.types.is_boolean(data.type):
        data = data.cast(pa.int8())
    if data.null_count:
        data = data.cast(pa.float64(), safe=False).fill_null(np.nan)
    parts = [np.from_dlpack(part) for part in chunks(data)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts][len(parts) > 0 :])


def texts_of(data: Any) -> Words:
    """The texts of an Arrow array."""
    texts: Words = data.to_pylist()
    if is_string(data.type):
        return texts
    return [text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text for text in texts]


def arrow_texts(texts: Sequence[str | None]) -> Any:
    """Texts as an Arrow array (bytes where half of a pair of surrogates is among them).

    Arrow's own way would load pandas.
    """
    import pyarrow as pa

    gaps = None in texts
    words: Sequence[Any] = [text or "" for text in texts] if gaps else texts
    kind, joined = pa.large_string(), "".join(words)
    if not joined.isascii():
        try:
            words = [word.encode() for word in words]
        except UnicodeEncodeError:
            kind, words = pa.large_binary(), [word.encode("utf-8", "surrogatepass") for word in words]
    content = joined.encode() if joined.isascii() else b"".join(words)
    ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
    valid = pa.py_buffer(np.packbits([text is not None for text in texts], bitorder="little")) if gaps else None
    return pa.Array.from_buffers(kind, len(words), [valid, pa.py_buffer(ends), pa.py_buffer(content)])


def arrow_numbers(values: np.ndarray) -> Any:
    """Numbers (n,) as an Arrow array."""
    import pyarrow as pa

    size = min(values.dtype.itemsize, 8)
    values = np.ascontiguousarray(values, dtype="i1" if values.dtype.kind == "b" else f"={values.dtype.kind}{size}")
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def arrow_lists(values: np.ndarray | Sequence[str], offsets: np.ndarray) -> Any:
    """Sequences one after another as an Arrow array of lists; `values` are numbers (S,) or (S, F), or S texts."""
    import pyarrow as pa

    items = arrow_numbers(values.reshape(-1)) if isinstance(values, np.ndarray) else arrow_texts(values)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        items = pa.FixedSizeListArray.from_arrays(items, values.shape[1])
    return pa.LargeListArray.from_arrays(arrow_numbers(np.asarray(offsets, dtype=np.int64)), items)


def parse(cells: Any, decimal: str = ".", missing: Iterable[str] = ()) -> np.ndarray:
    """(n,) float64 of an Arrow array of texts, NaN for the words of `missing`, empty cells and what is not a number."""
    import pyarrow as pa

    with suppress(pa.ArrowException):  # a cell that is not a number, or that Python alone takes for one
        if len(cells) > SINGLE_CELLS:
            import pyarrow.compute as pc

            plain = pc.utf8_trim_whitespace(cells)
            plain = plain if decimal == "." else pc.replace_substring(plain, decimal, ".")
            words = ["", *(word.replace(decimal, ".") for word in missing)]
            gaps = pc.is_in(plain, value_set=arrow_texts(words).cast(plain.type))
            keep = pc.and_(plain.is_valid(), pc.invert(gaps))
            values = np.full(len(plain), np.nan)
            values[numbers_of(keep).astype(bool)] = numbers_of(plain.filter(keep).cast(pa.float64()))
            return values
    words = [(word or "").strip().replace(decimal, ".") for word in texts_of(cells)]
    return np.array([to_float(word) for word in words], dtype=np.float64)


@dataclass
class Cells:
    """Reads cells as numbers. `na` are the words for a missing value, besides the empty cell and nan. `bad`: for each
    wrong text the rows in which it stands, each with its first column."""

    places: Places
    na: frozenset[str] = frozenset()
    decimal: str = "."
    bad: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    others: int = 0

    def __post_init__(self) -> None:
        numbers = np.array([to_float(word.replace(self.decimal, ".")) for word in self.na])
        self._na_numbers = numbers[~np.isnan(numbers)]

    def missing(self, text: str | None) -> bool:
        """Whether a cell stands for a missing value."""
        if text is None:
            return True
        text = text.strip()
        if not text or text in self.na or text.lower() == "nan":
            return True
        return len(self._na_numbers) > 0 and to_float(text.replace(self.decimal, ".")) in self._na_numbers

    def row(self, words: Sequence[str], row: int, name: Callable[[int], str]) -> np.ndarray:
        """(L,) float64 of the cells of one row, NaN where missing; `name` gives the column of the i-th cell."""
        plain = words if self.decimal == "." else [word.replace(self.decimal, ".") for word in words]
        try:
            values = np.fromiter(map(float if "_" not in "".join(plain) else to_float, plain), np.float64, len(plain))
        except ValueError:
            values = np.array([to_float(word) for word in plain])
        return self._checked(values, lambda: words, lambda i: (row, name(i)))

    def numbers(self, column: Column, cell: Callable[[int], tuple[int, str]] | None = None) -> np.ndarray:
        """(n,) float64 (or float32) of a column, NaN where missing. What is wrong is noted and becomes NaN.

        cell: row and name of the i-th cell, where these are of several columns.
        """
        cell = cell or (lambda i: (i, column.name))
        if column.numbers is not None:
            return self._finite(column.numbers, cell)
        return self._checked(parse(column.data, self.decimal, self.na), lambda: column.words, cell)

    def sequences(self, column: Column, channels_first: bool = False) -> Ragged:
        """Sequences of numbers of a column: as they are, or read from texts such as `[1, 2, 3]` or `1 2 3`."""
        if column.type != "list":
            parts = [
                np.zeros(0) if self.missing(word) else self.row(list_parts(word or ""), i, lambda _: column.name)
                for i, word in enumerate(column.words)
            ]
            return Ragged(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
        values, offsets = column.sequences(self.places, channels_first)
        width = values.shape[1] if isinstance(values, np.ndarray) and values.ndim == 2 else 1

        def cell(i: int) -> tuple[int, str]:
            return int(np.searchsorted(offsets, i // width, side="right")) - 1, column.name

        if isinstance(values, np.ndarray):
            return Ragged(self._finite(values, cell), offsets)
        return Ragged(self._checked(parse(values, self.decimal, self.na), lambda: texts_of(values), cell), offsets)

    def _checked(
        self, values: np.ndarray, texts: Callable[[], Sequence[str | None]], cell: Callable[[int], tuple[int, str]]
    ) -> np.ndarray:
        wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
        words = texts() if len(wrong) else ()
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
        written = values.dtype
        narrow = written.itemsize <= (4 if written.kind == "f" else 2)
        values = np.asarray(values, dtype=np.float32 if narrow else np.float64)
        values = self.without_na(values, written if written.kind == "f" else values.dtype)
        wrong = np.flatnonzero(np.abs(values.reshape(-1)) > LARGEST_VALUE)
        for i in wrong.tolist():
            self.refuse(*cell(i), number_name(values.reshape(-1)[i]), TOO_LARGE)
        return np.where(np.abs(values) > LARGEST_VALUE, np.nan, values) if len(wrong) else values

    def without_na(self, values: np.ndarray, written: np.dtype[Any] | type = np.float64) -> np.ndarray:
        """The values with NaN for numbers that are among `na`; written: the type that rounded them in the file."""
        if len(self._na_numbers):
            with np.errstate(over="ignore"):
                numbers = self._na_numbers.astype(written)
            hit = np.isin(values, numbers[np.isfinite(numbers)])
            if hit.any():
                return np.where(hit, np.nan, values)
        return values

    def refuse(self, row: int, column: str, text: str, wrong: str) -> None:
        """Note a cell that is wrong."""
        key = (text.strip(), wrong)
        if key in self.bad or len(self.bad) < COUNTED_TEXTS:
            self.bad.setdefault(key, {}).setdefault(row, column)
        else:
            self.others += 1

    def report(self, mistakes: Mistakes, notes: list[str], tokens: bool = False) -> None:
        """Hand what was noted to `mistakes`, one line for each kind of fault, with the first place and the words, and
        the usual words for a missing value to `notes`. tokens: were asked for."""
        usual = {text: rows for (text, _), rows in self.bad.items() if text.lower() in USUAL_GAPS}
        if usual:
            self.bad = {key: rows for key, rows in self.bad.items() if key[0] not in usual}
            count, words = sum(map(len, usual.values())), first_few(list(map(repr, usual)), 4)
            notes.append(f"{words} in {counted(count, 'row is', 'rows are')} read as missing")
        kinds: dict[str, dict[str, dict[int, str]]] = {}
        for (text, wrong), columns in sorted(self.bad.items(), key=lambda pair: min(pair[1])):
            kinds.setdefault(wrong, {})[text] = columns
        for wrong, texts in kinds.items():
            first, columns = next(iter(texts.items()))
            count, row = sum(map(len, texts.values())), min(columns)
            short = [repr(text if len(text) <= 40 else text[:40] + "...") for text in texts]
            way = f"{option('na', *texts)} reads {'them' if count > 1 else 'it'} as missing"
            if "..." in first:
                way = "whoever wrote the file shortened the list; write it whole"
            elif tokens:
                way = WORDS_WAY
            elif len(texts) > FEW_WORDS or len(first) > 40:
                way = f"correct {'them' if count > 1 else 'it'}, or name other columns with {option('values')}"
            others = f", like {first_few(short[1:], 3)}" if len(short) > 1 else ""
            many = f"{count:,} such rows; " if count > 1 else ""
            mistakes.add(self.places.cell(row, columns[row]), f"{short[0]} {wrong}{others} ({many}{way})")
        if self.others:
            mistakes.add(self.places.source, f"{self.others:,} other cells are not numbers either")
