"""Rows of text files (JSON lines, Parquet, tab-separated values) and rows of Python values, each value checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import TOTAL
from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Places, Table, is_number, number_name
from headstart.data.text import lines, text_lines
from headstart.errors import BadInput, Mistakes

FORMS = ("jsonl", "parquet", "tsv")
NO_LIST = "is no list of numbers or of rows of equal length"

Row = tuple[str, Mapping[str, Any]]
"""(place, values); the place is `file, row n`, counted from 1."""


def form(name: str) -> str | None:
    """Which of FORMS a file has, told by its name (packed as .gz or .xz, or not)."""
    plain = name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((known for known in FORMS if plain.endswith(f".{known}")), None)


def read_rows(
    path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]] = ()
) -> Iterator[Row]:
    """Each row that has all the `columns`.

    `layouts` name the fields of TSV files without a header, one for each number of fields that is known.
    What is wrong with a row goes to `mistakes`. Raises: BadInput for a file that cannot be read at all.
    """
    what = form(path.name)
    if what == "parquet":
        return _parquet(path, columns, mistakes)
    if what == "tsv":
        return _tsv(path, columns, mistakes, layouts)
    return _json_lines(path, columns, mistakes)


def _json_lines(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[Row]:
    for place, line in lines(path, mistakes):
        row = _json_row(line, place, mistakes, f"give one with {' and '.join(columns)}")
        if row is None:
            continue
        if lost := [column for column in columns if column not in row]:
            mistakes.add(place, f"has no {' and no '.join(map(repr, lost))}")
        else:
            yield place, row


def _json_row(line: str, place: str, mistakes: Mistakes, way: str) -> dict[str, Any] | None:
    """A line as an object, or None and a mistake."""
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in items]
        twice.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(items)

    try:
        row = json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        problem = error if isinstance(error, ValueError) else "nested too deep"
        mistakes.add(place, f"is no JSON ({problem}); give one object a line")
        return None
    if not isinstance(row, dict):
        mistakes.add(place, f"is no JSON object; {way}")
    elif twice:
        mistakes.add(place, f"has {twice[0]!r} twice; rename one")
    else:
        return row
    return None


def _parquet(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if lost := [column for column in columns if column not in names]:
                known = ", ".join(map(repr, names[:8]))
                mistakes.add(str(path), f"has no column {' and no '.join(map(repr, lost))} (it has {known})")
                return
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups))
            if size > TOTAL:
                raise BadInput(f"{path}: unpacks to {size} bytes, more than {TOTAL}; give it in parts")
            wanted, row = [*columns, *(name for name in ("id",) if name in names)], 0
            for batch in file.iter_batches(batch_size=1024, columns=wanted):
                table = {name: _values(batch.column(name)) for name in wanted}
                for i in range(batch.num_rows):
                    row += 1
                    yield f"{path}, row {row}", {name: table[name][i] for name in wanted}
    except BadInput:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"{path}: is no whole Parquet file ({str(error)[:200]}); download it again") from None


def _values(column: Any) -> list[Any]:
    """A column as Python values; strings as bytes, as Parquet does not promise that they are UTF-8."""
    import pyarrow

    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        column = column.cast(pyarrow.large_binary())
    return list(column.to_pylist())


def _tsv(path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]]) -> Iterator[Row]:
    known: dict[int, Sequence[str]] = {len(layout): layout for layout in layouts}
    for place, line in lines(path, mistakes):
        fields = [_unquoted(field) for field in line.split("\t")]
        if place.endswith(", row 1") and set(columns) <= set(fields):
            known = {len(fields): fields}
        elif len(fields) in known:
            yield place, dict(zip(known[len(fields)], fields, strict=True))
        else:
            sizes = " or ".join(map(str, sorted(known)))
            mistakes.add(place, f"has {len(fields)} fields separated by tabs, not {sizes}")


def _unquoted(field: str) -> str:
    """A field that was quoted because it holds quotes, as it was before."""
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in field[1:-1].replace('""', ""):
        return field[1:-1].replace('""', '"')
    return field


def read_json_lines(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One JSON object a line, whose keys are the columns; a key that a row does not have is a missing cell."""
    columns: dict[str, list[Any]] = {}
    begins: list[int] = []
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        if not line.strip():
            continue
        way = 'give one such as {"label": "a", "values": [1, 2, 3]} a line'
        row = _json_row(line, f"{path}:{number}", mistakes, way)
        if row is None:
            continue
        for key, value in row.items():
            cells = columns.setdefault(key, [])
            cells.extend([None] * (len(begins) - len(cells)))
            cells.append(_cell(value, f"{path}:{number} column {key!r}", mistakes))
        begins.append(number)
    for cells in columns.values():
        cells.extend([None] * (len(begins) - len(cells)))
    mistakes.check()
    if not begins:
        raise BadInput(f"{path}: is empty; give one JSON object a line")
    places = Places(str(path), lines=np.array(begins, dtype=np.int64))
    return Table({name: column_of(name, cells) for name, cells in columns.items()}, len(begins), places, "JSON lines")


def table_of(columns: Mapping[Any, Any], source: str) -> Table:
    """A mapping of names to columns of equal length. Raises: BadInput naming a column of another length."""
    mistakes, places = Mistakes(), Places(source)
    cells = {
        str(name): [_cell(value, places.cell(i, str(name)), mistakes) for i, value in enumerate(values)]
        for name, values in columns.items()
    }
    sizes = {name: len(values) for name, values in cells.items()}
    if len(set(sizes.values())) > 1:
        first = next(iter(sizes))
        other = next(name for name in sizes if sizes[name] != sizes[first])
        raise BadInput(
            f"{source}: column {other!r} has {sizes[other]:,} cells, {first!r} has {sizes[first]:,}; give "
            "columns of one length"
        )
    mistakes.check()
    rows = next(iter(sizes.values()), 0)
    return Table({name: column_of(name, values) for name, values in cells.items()}, rows, places, "a table")


def _cell(value: Any, place: str, mistakes: Mistakes) -> Any:
    """A cell; a list becomes an array at once, which takes a tenth of its memory."""
    if not isinstance(value, (list, tuple)):
        return value
    array = array_of(value)
    if array is None:
        mistakes.add(place, NO_LIST)
    return array


def array_of(value: Sequence[Any]) -> np.ndarray | None:
    """A sequence as (L,) or (L, F) float64, with NaN for None; or as (L,) texts where one is a text. None: neither."""
    if any(isinstance(item, str) for item in value):
        if any(isinstance(item, (list, tuple, dict)) for item in value):
            return None
        words = ["" if item is None else item if isinstance(item, str) else number_name(float(item)) for item in value]
        return np.array(words, dtype=np.str_)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.ndim in (1, 2) else None


def column_of(name: str, values: Iterable[Any]) -> Column:
    """A column of Python values: numbers, texts, arrays, or a mixture that is told by what most of them are."""
    cells = [value.item() if isinstance(value, np.generic) else value for value in values]
    nothing: list[str | None] = [None] * len(cells)
    arrays = [value for value in cells if isinstance(value, np.ndarray)]
    if arrays:
        good = all(array.dtype.kind in "biufU" and array.ndim in (1, 2) for array in arrays)
        good = good and all(value is None or isinstance(value, np.ndarray) for value in cells)
        return Column(name, "list", lists=cells) if good else Column(name, "other", nothing)
    there = [value for value in cells if value is not None and value == value]
    if not there:
        return Column(name, "empty", nothing)
    if all(isinstance(value, (bool, int, float)) for value in there):
        numbers = np.array([np.nan if value is None else _float(value) for value in cells])
        whole = all(isinstance(value, int) for value in there)
        return Column(name, "number", [_word(value) for value in cells] if whole else None, numbers)
    words = [_word(value) for value in cells]
    if any(_word(value) is None for value in there):
        return Column(name, "other", words)
    numbers_too = 2 * sum(is_number(word) for word in words if word) >= sum(bool(word) for word in words)
    return Column(name, "number" if numbers_too else "text", words)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return float("inf")


def _word(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, (bool, int, float)):
        return None if value != value else number_name(float(value)) if isinstance(value, float) else str(int(value))
    return None
