"""Tables of rows: JSON lines, Parquet, Arrow and tab-separated files, tables in memory and columns of Python values."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import reading
from headstart.data.layout import TIME, LayoutSpec, by_role, check_names, plain
from headstart.data.sizes import arrow_file, check_arrow, check_parquet, limited
from headstart.data.table import (
    Column,
    Table,
    Type,
    arrow_lists,
    arrow_numbers,
    arrow_texts,
    chunks,
    ends,
    is_list,
    is_text,
)
from headstart.data.text import lines, number_name
from headstart.errors import BadInput, Mistakes, Places, one_line
from headstart.text import is_number, many

LINE_FORMATS = ("jsonl", "parquet", "tsv")
DEEPEST_OBJECT = 8
"""Objects of JSON that may stand in each other."""
NO_LIST = "is not a list of numbers or of rows of equal length"

RawRow = tuple[str, Mapping[str, Any]]
"""(place, values); the place is `file, row n`, counted from 1."""


def form(name: str) -> str | None:
    """Which of LINE_FORMATS a file has, told by its name (packed as .gz or .xz, or not)."""
    plain = name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((ending for ending in LINE_FORMATS if plain.endswith(f".{ending}")), None)


def read_rows(
    path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]] = ()
) -> Iterator[RawRow]:
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


def _json_lines(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[RawRow]:
    for location, line in lines(path, mistakes):
        row = json_row(line, location, mistakes, f"give one with {' and '.join(columns)}")
        if row is None:
            continue
        if lost := [column for column in columns if column not in row]:
            mistakes.add(location, f"has no {' and no '.join(map(repr, lost))}")
        else:
            yield location, row


def json_row(line: str, location: str, mistakes: Mistakes, way: str) -> dict[str, Any] | None:
    """A line as an object, or None and a mistake."""
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in items]
        if len(set(keys)) < len(keys):
            twice.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(items)

    try:
        row = json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        problem = error if isinstance(error, ValueError) else "nested too deep"
        mistakes.add(location, f"is not JSON ({problem}); give one object a line")
        return None
    if not isinstance(row, dict):
        mistakes.add(location, f"is not a JSON object; {way}")
    elif twice:
        mistakes.add(location, f"has {twice[0]!r} twice; rename one")
    else:
        return row
    return None


def flat(record: Mapping[str, Any], location: str, deep: int = 0) -> dict[tuple[str, ...], Any]:
    """The values of a JSON object by their keys and those of the objects around them; a list of objects is a list for
    each of their keys. Raises: BadInput where objects are nested too deep."""
    if deep > DEEPEST_OBJECT:
        raise BadInput(
            f"{location}: has more than {DEEPEST_OBJECT} objects in each other; write its values as keys of one"
        )
    out: dict[tuple[str, ...], Any] = {}
    for key, value in record.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {
                name: [item.get(name) for item in value] for name in dict.fromkeys(n for item in value for n in item)
            }
        if isinstance(value, dict):
            out |= {(key, *rest): cell for rest, cell in flat(value, location, deep + 1).items()}
        else:
            out[key,] = value
    return out


def flat_names(columns: Mapping[tuple[str, ...], Sequence[Any]], source: str) -> dict[tuple[str, ...], str]:
    """The names of columns: the last key where no other ends so, else all of them, `object.key`. An object that no row
    has is none. Raises: BadInput where a key is an object in one row and a value in another."""
    inner = {key[:depth] for key in columns for depth in range(1, len(key))}
    keys = [key for key, cells in columns.items() if key not in inner or any(cell is not None for cell in cells)]
    if both := [".".join(key) for key in keys if key in inner]:
        raise BadInput(f"{source}: {both[0]!r} holds objects in some rows, and values in others; write all alike")
    last = Counter(key[-1] for key in keys)
    return {key: key[-1] if last[key[-1]] == 1 else ".".join(key) for key in keys}


def _parquet(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[RawRow]:
    import pyarrow.parquet

    with whole_file(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
        check_parquet(path)
        names, count = file.schema_arrow.names, 0
        if lost := [column for column in columns if column not in names]:
            columns_text = ", ".join(map(repr, names[:8]))
            mistakes.add(str(path), f"has no column {' and no '.join(map(repr, lost))} (it has {columns_text})")
            return
        wanted = [*columns, *(name for name in ("id",) if name in names)]
        for batch in limited(file.iter_batches(batch_size=1024, columns=wanted), path):
            # Strings as bytes, as Parquet does not promise that they are UTF-8.
            texts = (pyarrow.string(), pyarrow.large_string())
            parts = [part.cast(pyarrow.large_binary()) if part.type in texts else part for part in batch.columns]
            for values in zip(*(part.to_pylist() for part in parts), strict=True):
                count += 1
                yield f"{path}, row {count}", dict(zip(batch.schema.names, values, strict=True))


def _tsv(path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]]) -> Iterator[RawRow]:
    fields_of: dict[int, Sequence[str]] = {len(layout): layout for layout in layouts}
    for location, line in lines(path, mistakes):
        fields = [_unquoted(field) for field in line.split("\t")]
        if location.endswith(", row 1") and set(columns) <= set(fields):
            fields_of = {len(fields): fields}
        elif len(fields) in fields_of:
            yield location, dict(zip(fields_of[len(fields)], fields, strict=True))
        else:
            sizes = " or ".join(map(str, sorted(fields_of)))
            mistakes.add(location, f"has {len(fields)} fields separated by tabs, not {sizes}")


def _unquoted(field: str) -> str:
    """A field that was quoted because it holds quotes, as it was before."""
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in field[1:-1].replace('""', ""):
        return field[1:-1].replace('""', '"')
    return field


def table_of(columns: Mapping[Any, Any], source: str) -> Table:
    """A mapping of names to columns of equal length. Raises: BadInput naming a column of another length."""
    mistakes, places = Mistakes(), Places(source)
    if not columns:
        raise BadInput(f"{source}: has no columns; give one for each value of a sequence, or one that holds sequences")
    cells = {
        str(name): [cell_of(value, places.cell(i, str(name)), mistakes) for i, value in enumerate(values)]
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
    return Table({name: column_of(name, values, places) for name, values in cells.items()}, rows, places, "a table")


def cell_of(value: Any, location: str, mistakes: Mistakes) -> Any:
    """A cell; a list becomes an array at once, which takes a tenth of its memory."""
    if not isinstance(value, (list, tuple)):
        return value
    array = array_of(value)
    if array is None:
        keys = value[0] if value and isinstance(value[0], dict) else ()
        lists = ", ".join(f'"{key}": [...]' for key in [*keys][:3])
        mistakes.add(
            location, f"holds objects; write a list for each of their keys instead ({lists})" if keys else NO_LIST
        )
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


def column_of(name: str, values: Iterable[Any], places: Places) -> Column:
    """A column of Python values: numbers, texts, arrays, or a mixture that is told by what most of them are."""
    import pyarrow as pa

    cells = [value.item() if isinstance(value, np.generic) else value for value in values]
    arrays = [value for value in cells if isinstance(value, np.ndarray)]
    if arrays:
        whole = all(value is None or isinstance(value, np.ndarray) for value in cells)
        if whole and all(array.dtype.kind in "biufU" and array.ndim in (1, 2) for array in arrays):
            return list_column(name, cells, places)
        return Column(name, "other", pa.nulls(len(cells)))
    words = [_word(value) for value in cells]
    there = [word for word in words if word is not None]
    if any(word is None and value is not None and value == value for word, value in zip(words, cells, strict=True)):
        return Column(name, "other", pa.nulls(len(cells)))
    if there and all(value is None or isinstance(value, bool) for value in cells):
        texts = arrow_texts([None if value is None else str(value).lower() for value in cells])
        return Column(name, "number", texts.cast(pa.bool_()))
    if there and all(value is None or isinstance(value, float) for value in cells):
        return Column(name, "number", arrow_numbers(np.array(cells, dtype=np.float64)))
    numbers = sum(is_number(word) for word in there if word)
    kind: Type = "empty" if not there else "number" if 2 * numbers >= sum(map(bool, there)) else "text"
    return Column(name, kind, arrow_texts(words))


def list_column(name: str, arrays: Sequence[np.ndarray | None] | Sequence[np.ndarray], places: Places) -> Column:
    """A column of sequences (L,) or (L, F), of numbers or texts, or (F, L). Raises: BadInput where widths differ."""
    there = [array for array in arrays if array is not None]
    wide = any(array.ndim == 2 for array in there)
    widths = [None if array is None or not array.size else (*array.shape, 1)[1] for array in arrays]
    first = next((width for width in widths if width is not None), 1)
    row = next((row for row, width in enumerate(widths) if width not in (None, first)), None)
    if (
        row is not None and all(array.ndim == 2 for array in there) and len({len(array) for array in there}) == 1
    ):  # as many channels, of other lengths
        inner = np.cumsum([0, *(array.shape[1] for array in there for _ in array)])
        lists = arrow_lists(np.concatenate([array.reshape(-1) for array in there]), inner)
        ends = np.cumsum([0, *(0 if array is None else len(array) for array in arrays)])
        return Column(name, "list", type(lists).from_arrays(arrow_numbers(ends), lists))
    if row is not None:
        raise BadInput(
            f"{places.cell(row, name)}: has shape {getattr(arrays[row], 'shape', ())}, the first sequence has {first} "
            "channels; give each row the same"
        )
    parts = [array.reshape(-1, first) if wide else array for array in there if array.size]
    ends = np.cumsum([0, *(0 if array is None or not array.size else len(array) for array in arrays)])
    if any(part.dtype.kind in "US" for part in parts):
        texts = [item if isinstance(item, str) else number_name(item) for part in parts for item in part.tolist()]
        return Column(name, "list", arrow_lists(texts, ends))
    return Column(name, "list", arrow_lists(np.concatenate(parts) if parts else np.zeros(0), ends))


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


def read_parquet(path: Path, _: LayoutSpec, __: Mistakes) -> Table:
    """A Parquet file. Raises: BadInput where it is damaged or unpacks to more than such a file may."""
    import pyarrow.parquet

    with whole_file(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
        check_parquet(path)
        # What the file says of its size counts repeated values once: the batches tell.
        table = pyarrow.Table.from_batches(limited(file.iter_batches(batch_size=1024), path), file.schema_arrow)
        table.validate(full=True)
    return arrow_table(table, str(path), "a Parquet table")


def read_arrow(path: Path, _: LayoutSpec, __: Mistakes) -> Table:
    """A file of Arrow's own format (Feather), or its stream. Raises: BadInput where it is damaged or too large."""
    import pyarrow

    with whole_file(path, "Arrow"):
        check_arrow(path)
    with whole_file(path, "Arrow"), arrow_file(path) as file:
        magic = file.read(6)
        file.seek(0)
        reader = pyarrow.ipc.open_file(file) if magic == b"ARROW1" else pyarrow.ipc.open_stream(file)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if magic == b"ARROW1" else reader
        table = pyarrow.Table.from_batches(limited(batches, path), reader.schema)
        table.validate(full=True)
    return arrow_table(table, str(path), "an Arrow table")


@contextmanager
def whole_file(path: Path, what: str) -> Iterator[None]:
    """Whatever keeps a file of Arrow's from being read becomes a BadInput that names it."""
    import pyarrow

    with reading(path):
        try:
            yield
        except (pyarrow.ArrowException, ValueError, SystemError) as error:  # the last one of lengths below zero
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"{path}: is not a whole {what} file ({one_line(error, 200)}); write it again") from None


def frame(data: Any, source: str) -> Table | None:
    """A table of pandas, polars or Arrow, or whatever else gives Arrow a stream; None where it is none of them."""
    if not hasattr(data, "__arrow_c_stream__") or not hasattr(data, "columns"):
        return None
    import pyarrow

    check_names((str(name) for name in getattr(data, "column_names", data.columns)), source)
    try:
        pandas = "pandas" in sys.modules and isinstance(data, sys.modules["pandas"].DataFrame)
        data, roles, notes = _of_pandas(data, source) if pandas else (data, {}, [])
        table = pyarrow.Table.from_pandas(data, preserve_index=False) if pandas else pyarrow.table(data)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        for name in data.columns if pandas else ():
            cells = data[name].dropna().tolist()
            words = [cell for cell in cells if isinstance(cell, str)]
            if 0 < len(words) < len(cells):
                raise BadInput(
                    f"{source}: column {str(name)!r} holds {many(len(words), 'text')} among {len(cells):,} values, "
                    f"such as {words[0][:40]!r}; correct them, or leave them empty (pandas.to_numeric)"
                ) from None
        raise BadInput(
            f"{source}: cannot be read as a table ({one_line(error, 200)}); give each column one kind of values"
        ) from None
    whole = arrow_table(table, source, "a table")
    whole.roles |= roles
    whole.notes += notes
    return whole


def _of_pandas(data: Any, source: str) -> tuple[Any, dict[str, str], list[str]]:
    """A frame whose cells are lists where they were series or frames, and whose index of ids and times, as sktime has
    it, is two columns; which these are; and what is said of another index of several levels."""
    nested = [name for name in data.columns if any(hasattr(cell, "to_numpy") for cell in data[name].head(1_000))]
    if nested:
        data = data.copy(deep=False)
    for name in nested:
        data[name] = [cell.to_numpy().tolist() if hasattr(cell, "to_numpy") else cell for cell in data[name]]
    levels = [None if name is None else str(name) for name in data.index.names]
    if len(levels) == 1:
        return data, {}, []
    timely = levels[-1] is None or plain(levels[-1]).startswith("time") or plain(levels[-1]) in TIME
    if not timely or not len(data):
        index, last = (
            ", ".join(map(repr, levels)),
            [*(name or f"level {i}" for i, name in enumerate(levels[:-1])), "time"],
        )
        way = f"rename_axis({last}) makes its last level the time of positions, and reset_index() columns of all"
        return data, {}, [f"the index ({index}) is not used; {way}"]
    outside = ["instance"] if len(levels) == 2 else [f"level {i}" for i in range(len(levels) - 1)]
    names = [name or default for name, default in zip(levels, [*outside, "time"], strict=True)]
    if twice := sorted({*names} & {*map(str, data.columns)}):
        raise BadInput(
            f"{source}: {twice[0]!r} is a level of its index and a column; rename_axis gives the levels other names"
        )
    if len(levels) == 2:
        return data.rename_axis(names).reset_index(), {"id": names[0], "time": names[1]}, []
    whole, outer, joined = data.rename_axis(names).reset_index(), names[:-1], ",".join(names[:-1])
    whole[joined] = ["/".join(map(str, key)) for key in zip(*(whole[name] for name in outer), strict=True)]
    role = "target" if by_role("target", outer[:1]) else "group"
    roles = {"id": joined, "time": names[-1], role: outer[0]}
    note = f"the levels {', '.join(map(repr, outer))} of the index are the id together, and {outer[0]!r} the {role}"
    return whole.drop(columns=outer[1:]), roles, [note]


def arrow_table(table: Any, source: str, written: str) -> Table:
    """An Arrow table; an index of pandas without a name counts rows, and is left out. Raises: BadInput where it has no
    row, no column, or a name twice."""
    index = re.compile(r"__index_level_\d+__")
    table = table.select([i for i, name in enumerate(table.column_names) if not index.fullmatch(str(name))])
    names = check_names((str(name) for name in table.column_names), source)
    if not (names and table.num_rows):
        absent = "row" if names else "column"
        raise BadInput(f"{source}: has no {absent}; give one with {absent}s")
    each = {key: part for i, n in enumerate(names) for key, part in _spread((n,), table.column(i), source).items()}
    written_as = flat_names(dict.fromkeys(each, ()), source)
    columns = {name: _arrow_column(name, each[key], source) for key, name in written_as.items()}
    return Table(columns, table.num_rows, Places(source), written)


def _spread(key: tuple[str, ...], data: Any, source: str) -> dict[tuple[str, ...], Any]:
    """A column, or those of the fields of its structs; lists of structs are a list for each field. One that holds whole
    files as bytes stays as it is. Raises: BadInput where structs are nested too deep."""
    import pyarrow as pa

    listed = is_list(data.type)
    kind = data.type.value_type if listed else data.type
    if not pa.types.is_struct(kind) or any(pa.types.is_binary(kind.field(i).type) for i in range(kind.num_fields)):
        return {key: data}
    if len(key) > DEEPEST_OBJECT:
        raise BadInput(f"{source}: column {key[0]!r} has structs nested too deep; write its values as columns")
    import pyarrow.compute  # here, as it takes 0.05 s

    whole = pa.concat_arrays(chunks(data))
    inner = whole.flatten() if listed else whole
    out: dict[tuple[str, ...], Any] = {}
    for i in range(kind.num_fields):
        part = pyarrow.compute.struct_field(inner, [i])
        part = pa.LargeListArray.from_arrays(arrow_numbers(ends(whole)), part) if listed else part
        out |= _spread((*key, kind.field(i).name), pa.chunked_array([part]), source)
    return out


def _arrow_column(name: str, data: Any, source: str) -> Column:
    """A column of Arrow's, its texts as UTF-8."""
    import pyarrow as pa

    kinds, kind = pa.types, data.type
    if kinds.is_dictionary(kind):  # by hand: Arrow cannot cast the string views that polars' categories are
        plain = pa.string() if is_text(kind.value_type) else kind.value_type
        data = pa.chunked_array([pa.array(data.to_pylist(), plain)])
    elif str(kind).startswith(("list_view<", "large_list_view<")):  # which Arrow casts wrongly in version 26
        data = pa.chunked_array([pa.array(data.to_pylist(), pa.large_list(kind.value_type))])
    elif kinds.is_decimal(kind):
        data = data.cast(pa.float64())
    kind = data.type
    if data.null_count == len(data):
        return Column(name, "empty", data)
    if is_numeric(kind):
        return Column(name, "number", data)
    if is_text(kind):
        return Column(name, "text", _utf_8(data, name, source))
    if kinds.is_temporal(kind):
        return Column(name, "time", data.cast(pa.large_string()))
    return Column(name, "list" if _has_sequences(kind) else "other", data)


def _has_sequences(kind: Any) -> bool:
    """Whether the cells of an Arrow type are sequences (L,) of numbers or texts, or (L, F) of numbers."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        in_order = list(kind.permutation or range(len(kind.shape))) == list(range(len(kind.shape)))
        return len(kind.shape) < 3 and in_order
    if not is_list(kind):
        return False
    item = kind.value_type
    return is_text(item) or is_numeric(item) or (is_list(item) and is_numeric(item.value_type))


def _utf_8(data: Any, name: str, source: str) -> Any:
    """Texts; what is kept as bytes must be UTF-8, which Parquet does not promise either."""
    import pyarrow as pa

    content = data.cast(pa.large_binary())
    try:
        return content.cast(pa.large_string())
    except pa.ArrowInvalid:
        for row, value in enumerate(content.to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as error:
                raise BadInput(
                    f"{Places(source).cell(row, name)}: is not UTF-8 (byte {value[error.start]:#04x} at "
                    f"{error.start}); write texts as UTF-8"
                ) from None
        raise


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers, or of true and false."""
    import pyarrow as pa

    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))
