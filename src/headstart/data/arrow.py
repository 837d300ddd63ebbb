"""Parquet and Arrow files, and tables of pandas, polars and Arrow, through Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import TOTAL
from headstart.data.table import Column, Lists, Places, Table, Words, check_names
from headstart.data.text import reading
from headstart.errors import BadInput


def read_parquet(path: Path) -> Table:
    """A Parquet file. Raises: BadInput where it is damaged or unpacks to more than 4 GiB."""
    import pyarrow.parquet

    def load() -> Any:
        with pyarrow.parquet.ParquetFile(path) as file:
            # What the file says of its size counts repeated values once: the batches tell.
            return _limited(file.iter_batches(batch_size=1024), file.schema_arrow, path)

    return arrow_table(_loaded(path, "Parquet", load), str(path), "a Parquet table")


def read_arrow(path: Path) -> Table:
    """A file of Arrow's own format (Feather), or its stream. Raises: BadInput where it is damaged or over 4 GiB."""
    import pyarrow

    def load() -> Any:
        with pyarrow.OSFile(str(path)) as file:
            magic = file.read(6)
            file.seek(0)
            if magic != b"ARROW1":
                stream = pyarrow.ipc.open_stream(file)
                return _limited(stream, stream.schema, path)
            reader = pyarrow.ipc.open_file(file)
            return _limited((reader.get_batch(i) for i in range(reader.num_record_batches)), reader.schema, path)

    return arrow_table(_loaded(path, "Arrow", load), str(path), "an Arrow table")


def _limited(batches: Iterable[Any], schema: Any, path: Path) -> Any:
    """A table of these batches. Raises: BadInput once they hold more than 4 GiB."""
    import pyarrow

    found, size = [], 0
    for batch in batches:
        size += batch.nbytes
        if size > TOTAL:
            raise BadInput(f"{path}: unpacks to more than {TOTAL:,} bytes; give it in parts")
        found.append(batch)
    return pyarrow.Table.from_batches(found, schema)


def _loaded(path: Path, what: str, load: Callable[[], Any]) -> Any:
    import pyarrow

    with reading(path):
        try:
            table = load()
            table.validate(full=True)
        except (pyarrow.ArrowException, ValueError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"{path}: is no whole {what} file ({_short(error)}); write it again") from None
    return table


def frame(given: Any, source: str) -> Table | None:
    """A table of pandas, polars or Arrow, or whatever else gives Arrow a stream; None where it is none of them."""
    if not hasattr(given, "__arrow_c_stream__") or not hasattr(given, "columns"):
        return None
    import pyarrow

    check_names((str(name) for name in getattr(given, "column_names", given.columns)), source)
    try:
        table = given if isinstance(given, pyarrow.Table) else pyarrow.table(given)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise BadInput(
            f"{source}: cannot be read as a table ({_short(error)}); give each column one kind of values"
        ) from None
    return arrow_table(table, source, "a table")


def arrow_table(table: Any, source: str, written: str) -> Table:
    """An Arrow table. Raises: BadInput where it has no row, or a name twice."""
    names = check_names((str(name) for name in table.column_names), source)
    if not table.num_rows:
        raise BadInput(f"{source}: has no row; give one with rows")
    columns = {name: _column(name, table.column(i), source) for i, name in enumerate(names)}
    return Table(columns, table.num_rows, Places(source), written)


def _column(name: str, data: Any, source: str) -> Column:
    import pyarrow as pa

    kinds, kind = pa.types, data.type
    if kinds.is_dictionary(kind):  # by hand: Arrow cannot cast the string views that polars' categories are
        plain = pa.string() if _is_text(kind.value_type) else kind.value_type
        data = pa.chunked_array([pa.array(data.to_pylist(), plain)])
        kind = data.type
    if str(kind).startswith(("list_view<", "large_list_view<")):  # which Arrow casts wrongly in version 26
        data = pa.chunked_array([pa.array(data.to_pylist(), pa.large_list(kind.value_type))])
        kind = data.type
    if data.null_count == len(data):
        return Column(name, "empty", cells=[None] * len(data))
    if kinds.is_boolean(kind) or kinds.is_integer(kind):
        words: Words = [None if value is None else str(int(value)) for value in data.to_pylist()]
        return Column(name, "number", cells=words, numbers=_floats(data))
    if kinds.is_floating(kind) or kinds.is_decimal(kind):
        return Column(name, "number", numbers=_floats(data))
    if _is_text(kind):
        return Column(name, "text", cells=_texts(data, name, source))
    if kinds.is_timestamp(kind) or kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_duration(kind):
        return Column(name, "time", cells=[None if v is None else str(v) for v in data.cast(pa.string()).to_pylist()])
    lists = _lists(data)
    return Column(name, "other", cells=[None] * len(data)) if lists is None else Column(name, "list", lists=lists)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    known = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
    known += [getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name)]
    return kind in known


def _floats(data: Any) -> np.ndarray:
    """(n,) float64 with NaN for nulls."""
    import pyarrow as pa

    kind = data.type
    if pa.types.is_boolean(kind):
        data = data.cast(pa.int8())
    return np.asarray(data.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _texts(data: Any, name: str, source: str) -> Words:
    """Texts; what is kept as bytes must be UTF-8, which Parquet does not promise either."""
    import pyarrow as pa

    out: Words = []
    for row, value in enumerate(data.cast(pa.large_binary()).to_pylist()):
        try:
            out.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            raise BadInput(
                f"{Places(source).cell(row, name)}: is not UTF-8 (byte {value[error.start]:#04x} at "
                f"{error.start}); write texts as UTF-8"
            ) from None
    return out


def _lists(data: Any) -> Lists | None:
    """Sequences (L,) or (L, F) of a column of lists; None where it holds something else."""
    import pyarrow as pa

    array = data.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    if isinstance(array.type, pa.FixedShapeTensorType):
        shape = array.type.shape
        if len(shape) > 2 or list(array.type.permutation or range(len(shape))) != list(range(len(shape))):
            return None
        flat = _members(array.storage)
        return None if flat is None else [None if one is None else one.reshape(shape) for one in flat]
    if not _is_list(array.type):
        return None
    if not _is_list(array.type.value_type):
        return _members(array)
    inner = _members(array.flatten())
    if inner is None or any(one is None or one.dtype.kind == "U" for one in inner):
        return None
    ends = np.cumsum(_sizes(array))
    out: Lists = []
    for first, last, there in zip([0, *ends[:-1]], ends, array.is_valid().to_pylist(), strict=True):
        rows = [one for one in inner[first:last] if one is not None]
        if len({len(one) for one in rows}) > 1:
            return None
        out.append(np.stack(rows) if rows else np.zeros(0) if there else None)
    return out


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _sizes(array: Any) -> np.ndarray:
    import pyarrow.compute as pc

    return np.asarray(pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _members(array: Any) -> Lists | None:
    """Each list (L,) of an array of lists of numbers or texts."""
    import pyarrow as pa

    kind, flat = array.type.value_type, array.flatten()
    if _is_text(kind) or pa.types.is_dictionary(kind):
        values = np.array(["" if one is None else str(one) for one in flat.to_pylist()], dtype=np.str_)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = _floats(pa.chunked_array([flat]))
    else:
        return None
    parts = np.split(values, np.cumsum(_sizes(array))[:-1])
    return [part if there else None for part, there in zip(parts, array.is_valid().to_pylist(), strict=True)]


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
