"""Files in tables of some rows each, so that a large one need not be held: CSV, JSON lines and Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import reading, unpacked
from headstart.data.csv import column_types, of_lines, recognised, typed
from headstart.data.layout import LayoutSpec
from headstart.data.parquet_footer import column_chunks
from headstart.data.rows import arrow_table, cell_of, column_of, flat, flat_names, json_row, whole_file
from headstart.data.sizes import check_parquet, check_sparse
from headstart.data.table import Table, is_list
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes, Places

BUFFER = 2**16
"""Bytes of a column of a Parquet file that are read at a time."""


def plain_tables(path: Path, spec: LayoutSpec, size: int) -> Iterator[Table | None]:
    """The table in parts of whole lines, about `size` bytes each, of a file that Arrow's parser reads.

    None for a part that it does not read, and at once for a file whose columns have no names or that is not UTF-8.
    """
    try:
        _, form, body = recognised(path, spec, text_lines(path, spec.encoding, Mistakes()))
    except BadInput:  # the whole is read, or refused, as what it is: an export may be more than a table
        yield None
        return
    types, line, rest = column_types(form, body) if form.names else [], 1, b""
    with reading(path), unpacked(path) as file:
        while content := rest + (file.read(size) if types else b""):
            end = content.rfind(b"\n") + 1 if len(content) > len(rest) else len(content)
            content, rest = content[:end], content[end:]
            if not content:  # a line that is longer than that
                break
            table = of_lines(content, form, spec, line, threads=False)
            yield None if table is None else typed(table, types, spec, form)
            line += content.count(b"\n")
        else:
            if types:
                return
    yield None


def read_json_lines(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One JSON object a line, whose keys are the columns; a key that a row does not have is a missing cell."""
    (table,) = _json_tables(path, spec, mistakes, sys.maxsize)
    return table


def _json_tables(path: Path, spec: LayoutSpec, mistakes: Mistakes, size: int) -> Iterator[Table]:
    """The objects in parts of about `size` characters. Raises: BadInput with the mistakes of a part, or for no row."""
    columns: dict[tuple[str, ...], list[Any]] = {}
    begins: list[int] = []
    length = parts = present = 0
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        if not line.strip():
            continue
        row = json_row(
            line, f"{path}:{number}", mistakes, 'give one such as {"label": "a", "values": [1, 2, 3]} a line'
        )
        if row is None:
            continue
        cells_of = flat(row, f"{path}:{number}")
        for key, value in cells_of.items():
            cells = columns.setdefault(key, [])
            cells.extend([None] * (len(begins) - len(cells)))
            cells.append(cell_of(value, f"{path}:{number} column {'.'.join(key)!r}", mistakes))
        begins.append(number)
        present += len(cells_of)
        check_sparse(path, len(columns), len(begins), present)
        length += len(line)
        if length >= size:
            yield _json_table(path, columns, begins, mistakes)
            columns, begins, length, present, parts = {}, [], 0, 0, parts + 1
    if begins or not parts:
        yield _json_table(path, columns, begins, mistakes)
    mistakes.check()


def _json_table(
    path: Path, columns: Mapping[tuple[str, ...], list[Any]], begins: list[int], mistakes: Mistakes
) -> Table:
    mistakes.check()
    if not begins:
        raise BadInput(f"{path}: is empty; give one JSON object a line")
    for cells in columns.values():
        cells.extend([None] * (len(begins) - len(cells)))
    places = Places(str(path), lines=np.array(begins, dtype=np.int64))
    table = {name: column_of(name, columns[key], places) for key, name in flat_names(columns, str(path)).items()}
    return Table(table, len(begins), places, "JSON lines")


def json_tables(path: Path, spec: LayoutSpec, size: int) -> Iterator[Table | None]:
    """The objects in parts of about `size` characters; None from the first part on that cannot stand for itself."""
    return _alike(_json_tables(path, spec, Mistakes(), size))


def parquet_tables(path: Path, _: LayoutSpec, size: int) -> Iterator[Table | None]:
    """The rows in parts of about `size` bytes; None from the first part on that cannot stand for itself."""
    return _alike(_parquet_tables(path, size))


def _parquet_tables(path: Path, size: int) -> Iterator[Table]:
    import pyarrow.parquet

    with whole_file(path, "Parquet"), pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
        check_parquet(path)
        meta, first = file.metadata, 0
        total = sum(chunk.size for chunk in column_chunks(path))
        wide = max(total / max(meta.num_rows, 1), 8 * meta.num_columns)  # a value that repeats may be written once
        for batch in file.iter_batches(max(1, int(size / max(wide, 1))), use_threads=False):
            table = pyarrow.Table.from_batches([batch], batch.schema)
            table.validate(full=True)
            places = Places(str(path), rows=np.arange(first, first + len(batch)))
            yield replace(arrow_table(table, str(path), "a Parquet table"), places=places)
            first += len(batch)


def _alike(tables: Iterable[Table]) -> Iterator[Table | None]:
    """The tables; None in place of one with a mistake, with other columns than the first, or with lists in lists."""
    types = None
    try:
        for table in tables:
            each = {name: (column.type, column.has_words) for name, column in table.columns.items()}
            lists = [column.data.type for column in table.columns.values() if column.type == "list"]
            if each != (types or each) or not all(is_list(kind) and not is_list(kind.value_type) for kind in lists):
                break
            types = each
            yield table
        else:
            return
    except BadInput:
        pass
    yield None
