"""Rows of text files: JSON lines, Parquet, tab-separated values; each value is checked where it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headstart.data.archives import DAMAGED, TOTAL, unpacked
from headstart.data.problems import Mistakes
from headstart.errors import BadInput

LINE = 2**26
"""Bytes that one line may have."""

FORMS = ("jsonl", "parquet", "tsv")


def form(name: str) -> str | None:
    """Which of FORMS a file has, told by its name (packed as .gz or .xz, or not)."""
    plain = name.lower().removesuffix(".gz").removesuffix(".xz")
    return next((one for one in FORMS if plain.endswith(f".{one}")), None)


def read_rows(
    path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, values) of each row that has all the `columns`; the place is `file, row n`, counted from 1.

    `layouts` name the fields of TSV files without a header, one for each number of fields that is known.
    What is wrong with a row goes to `mistakes`. Raises: BadInput for a file that cannot be read at all.
    """
    what = form(path.name)
    if what == "parquet":
        yield from _parquet(path, columns, mistakes)
    elif what == "tsv":
        yield from _tsv(path, columns, mistakes, layouts)
    else:
        yield from _json_lines(path, columns, mistakes)


def text_of(value: Any, place: str, mistakes: Mistakes) -> bytes | None:
    """A text as UTF-8, or None and a mistake where it is empty, no text, or cannot be UTF-8."""
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError as error:  # half of a pair of escapes such as \ud83d
            mistakes.add(place, f"character {error.start} of the text is none of its own (a lone surrogate)")
            return None
    if not isinstance(value, bytes):
        mistakes.add(place, f"the text is {str(value)[:40]!r}, of type {type(value).__name__}; give a text")
    elif not value:
        mistakes.add(place, "the text is empty; leave the row out")
    elif _decoded(value, place, mistakes) is not None:
        return value
    return None


def label_of(value: Any, place: str, mistakes: Mistakes) -> str | None:
    """A label as text (whole numbers as `0`, whatever their type), or None and a mistake."""
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, str) and value.strip():
        try:
            number = float(value)
        except ValueError:
            return value.strip()
        return str(int(number)) if number.is_integer() else value.strip()
    mistakes.add(place, f"the label is {value!r}; give a name or a whole number")
    return None


def in_order(labels: set[str]) -> list[str]:
    """Labels in the order of their class numbers: as numbers where all are, else as letters."""
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return sorted(labels, key=int)
    return sorted(labels)


def _decoded(value: bytes, place: str, mistakes: Mistakes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        mistakes.add(
            place, f"is not UTF-8 (byte {value[error.start]:#04x} at {error.start}); convert the file to UTF-8"
        )
        return None


def lines(path: Path, mistakes: Mistakes) -> Iterator[tuple[str, str]]:
    """(place, text) of each line that is UTF-8. Lines end at a newline only."""
    try:
        with unpacked(path) as file:
            row = 0
            while line := file.readline(LINE + 1):
                row, place = row + 1, f"{path}, row {row + 1}"
                if len(line) > LINE:
                    raise BadInput(f"{place}: has more than {LINE} bytes; give one example per line")
                text = _decoded(line.removesuffix(b"\n").removesuffix(b"\r"), place, mistakes)
                if text is not None:
                    yield place, text
    except DAMAGED as error:
        raise BadInput(f"{path}: is cut short or damaged ({error}); download it again") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}); download it again") from None


def _json_lines(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, line in lines(path, mistakes):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            mistakes.add(place, f"is no JSON ({error if isinstance(error, ValueError) else 'nested too deep'})")
            continue
        if not isinstance(row, dict):
            mistakes.add(place, f"is no JSON object; give one with {' and '.join(columns)}")
        elif lost := [column for column in columns if column not in row]:
            mistakes.add(place, f"has no {' and no '.join(map(repr, lost))}")
        else:
            yield place, row


def _parquet(path: Path, columns: Sequence[str], mistakes: Mistakes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if lost := [column for column in columns if column not in names]:
                mistakes.add(
                    str(path),
                    f"has no column {' and no '.join(map(repr, lost))} (it has {', '.join(map(repr, names[:8]))})",
                )
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


def _tsv(
    path: Path, columns: Sequence[str], mistakes: Mistakes, layouts: Sequence[Sequence[str]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    known: dict[int, Sequence[str]] = {len(layout): layout for layout in layouts}
    for place, line in lines(path, mistakes):
        fields = [_unquoted(field) for field in line.split("\t")]
        if place.endswith(", row 1") and set(columns) <= set(fields):
            known = {len(fields): fields}
        elif len(fields) in known:
            yield place, dict(zip(known[len(fields)], fields, strict=True))
        else:
            mistakes.add(
                place, f"has {len(fields)} fields separated by tabs, not {' or '.join(map(str, sorted(known)))}"
            )


def _unquoted(field: str) -> str:
    """A field that was quoted because it holds quotes, as it was before."""
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in field[1:-1].replace('""', ""):
        return field[1:-1].replace('""', '"')
    return field
