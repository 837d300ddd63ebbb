"""JSON documents: a list of records, records by name, or columns; what stands in objects is a column of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headstart.data.archives import reading, unpacked
from headstart.data.arrays import list_table
from headstart.data.blocks import read_json_lines
from headstart.data.layout import LayoutSpec
from headstart.data.rows import cell_of, column_of, flat, flat_names, table_of
from headstart.data.sizes import check_columns, check_sparse
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.text import check_text, true_encoding
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few

RECORDS_WAY = 'give a list of records, such as [{"label": "a", "values": [1, 2, 3]}, ...], or one a line as .jsonl'


def read_json(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The records of a document: `[{...}, ...]`, such a list under a key, `{"r1": {...}, ...}`, `{"x": [...], ...}`, a
    list of sequences, what pandas writes, or one object a line.

    Raises: BadInput where it is not JSON, or holds none of these.
    """
    with reading(path), unpacked(path) as file:
        content = file.read()
    encoding = true_encoding(content[:4096], spec.encoding)
    check_text(path, content[:4096], encoding)
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in items)
        twice.extend(key for key, count in counts.items() if count > 1)
        return dict(items)

    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
        document = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text[: error.pos].lstrip()[:1] == "{":
            return read_json_lines(path, spec, mistakes)
        raise BadInput(
            f"{path}:{error.lineno}: is not JSON ({error.msg}, column {error.colno}); {RECORDS_WAY}"
        ) from None
    except (ValueError, RecursionError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)[:120]
        raise BadInput(f"{path}: is not JSON ({problem}); {RECORDS_WAY}") from None
    if twice:
        raise BadInput(f"{path}: an object has {twice[0]!r} twice; rename one")
    return _table(document, str(path), spec, mistakes)


def _table(document: Any, source: str, spec: LayoutSpec, mistakes: Mistakes, notes: Sequence[str] = ()) -> Table:
    if isinstance(document, list) and document:
        if all(isinstance(item, dict) for item in document):
            return records_table(document, Places(source), "JSON", mistakes, notes)
        if all(isinstance(item, list) for item in document):
            return _of_lists(document, source, spec, mistakes, notes)
    elif isinstance(document, dict):
        return _of_object(document, source, spec, mistakes, notes)
    raise BadInput(f"{source}: holds no records; {RECORDS_WAY}")


def _of_lists(
    document: list[list[Any]], source: str, spec: LayoutSpec, mistakes: Mistakes, notes: Sequence[str]
) -> Table:
    """Rows of a table without a header, or sequences; a word before numbers of any count is their label."""
    texts = {i for row in document for i, cell in enumerate(row) if isinstance(cell, str)}
    if texts == {0} and len(set(map(len, document))) > 1 and all(row and isinstance(row[0], str) for row in document):
        document = [[row[0], row[1:]] for row in document]
    mixed = any(isinstance(cell, list) for row in document for cell in row)
    if len(set(map(len, document))) == 1 and (0 < len(texts) < len(document[0]) or (texts and mixed)):
        records = [{str(i): cell for i, cell in enumerate(row, 1)} for row in document]
        table = records_table(records, Places(source), "JSON", mistakes, notes)
        table.header = False
        return table
    table = list_table(document, source, spec)
    table.notes += notes
    return table


def _of_object(
    document: dict[str, Any], source: str, spec: LayoutSpec, mistakes: Mistakes, notes: Sequence[str]
) -> Table:
    values = list(document.values())
    if isinstance(document.get("columns"), list) and isinstance(document.get("data"), list):  # pandas, "split"
        names = list(map(str, document["columns"]))
        if all(isinstance(row, list) and len(row) == len(names) for row in document["data"]):
            document = {"data": [dict(zip(names, row, strict=True)) for row in document["data"]]}
    lists = [key for key, value in document.items() if _of_records(value)]
    if len(lists) == 1:
        rest = [repr(key) for key in document if key != lists[0]]
        unused = [f"the records are in {lists[0]!r}; {first_few(rest, 5)} {'is' if len(rest) == 1 else 'are'} not used"]
        return _table(document[lists[0]], source, spec, mistakes, [*notes, *unused * bool(rest)])
    if values and all(isinstance(value, dict) and value for value in values):
        inner = {key for value in values for key in value}
        if all(key.isdecimal() for key in inner):  # pandas, by columns
            rows = sorted(inner, key=int)
            document = {name: [cells.get(row) for row in rows] for name, cells in document.items()}
            values = list(document.values())
        else:
            table = records_table(values, Places(source), "JSON, a record for each name", mistakes, notes)
            return _by_name(table, list(document))
    if values and all(isinstance(value, list) and value for value in values):
        if len(set(map(len, values))) == 1:
            table = table_of(document, source)
        else:
            table = _by_name(list_table(values, source, spec), list(document))
        table.written, table.notes = "JSON", [*table.notes, *notes]
        return table
    lone = [key for key, value in document.items() if isinstance(value, dict) and value]
    if len(lone) == 1 and len(document) > 1 and not any(isinstance(value, list) for value in values):
        return _table(document[lone[0]], source, spec, mistakes, notes)
    if any(isinstance(value, list) and value for value in values):  # one record
        return records_table([document], Places(source), "JSON, one record", mistakes, notes)
    raise BadInput(f"{source}: holds no records; {RECORDS_WAY}")


def _of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _by_name(table: Table, names: list[str]) -> Table:
    """The table, whose rows have these ids, which tell labels as names of files do."""
    if "id" not in table.columns:
        table.columns = {"id": Column("id", "text", arrow_texts(names)), **table.columns}
        table.roles["id"], table.named = "id", True
    return table


def records_table(
    records: Sequence[Mapping[str, Any]], places: Places, written: str, mistakes: Mistakes, notes: Iterable[str] = ()
) -> Table:
    """A row for each record, a column for each key; objects in it are opened (see `flat`). What a record
    does not have is missing."""
    rows = [flat(record, places.of(row)) for row, record in enumerate(records)]
    keys = dict.fromkeys(key for row in rows for key in row)
    check_columns(Path(places.source), len(keys))
    check_sparse(Path(places.source), len(keys), len(rows), sum(map(len, rows)))
    columns = {}
    values = {key: [row.get(key) for row in rows] for key in keys}
    for key, name in flat_names(values, places.source).items():
        cells = [cell_of(value, places.cell(i, name), mistakes) for i, value in enumerate(values[key])]
        columns[name] = column_of(name, cells, places)
    mistakes.check()
    return Table(columns, len(rows), places, written, notes=list(notes))
