"""Rows of Python values as a table: JSON lines, and columns that are given as lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.numbers import is_number
from headstart.data.problems import Mistakes
from headstart.data.table import Column, Places, Table, number_name
from headstart.data.text import text_lines
from headstart.errors import BadInput

NO_LIST = "is no list of numbers or of rows of equal length"


def read_json_lines(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One JSON object a line, whose keys are the columns; a key that a row does not have is a missing cell."""
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        if not line.strip():
            continue
        row = _row(line, f"{path}:{number}", mistakes)
        if row is None:
            continue
        for key, value in row.items():
            known = columns.setdefault(key, [])
            known.extend([None] * (len(lines) - len(known)))
            known.append(_value(value, f"{path}:{number} column {key!r}", mistakes))
        lines.append(number)
    for known in columns.values():
        known.extend([None] * (len(lines) - len(known)))
    mistakes.check()
    if not lines:
        raise BadInput(f"{path}: is empty; give one JSON object a line")
    places = Places(str(path), lines=np.array(lines, dtype=np.int64))
    return Table({name: column_of(name, values) for name, values in columns.items()}, len(lines), places, "JSON lines")


def _row(line: str, place: str, mistakes: Mistakes) -> dict[str, Any] | None:
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(found)
        if len(out) < len(found):
            keys = [key for key, _ in found]
            twice.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return out

    try:
        row = json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        mistakes.add(
            place,
            f"is no JSON ({error if isinstance(error, ValueError) else 'nested too deep'}); give one object a line",
        )
        return None
    if not isinstance(row, dict):
        mistakes.add(place, 'is no JSON object; give one such as {"label": "a", "values": [1, 2, 3]} a line')
        return None
    if twice:
        mistakes.add(place, f"has {twice[0]!r} twice; rename one")
        return None
    return row


def _value(value: Any, place: str, mistakes: Mistakes) -> Any:
    """A cell; a list becomes an array at once, which takes a tenth of its memory."""
    if not isinstance(value, list):
        return value
    found = array_of(value)
    if found is None:
        mistakes.add(place, NO_LIST)
    return found


def array_of(value: Sequence[Any]) -> np.ndarray | None:
    """A sequence as (L,) or (L, F) float64, with NaN for None; or as (L,) texts where one is a text. None: neither."""
    if any(isinstance(one, str) for one in value):
        if any(isinstance(one, (list, tuple, dict)) for one in value):
            return None
        return np.array([_text(one) for one in value], dtype=np.str_)
    try:
        found = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.ndim in (1, 2) else None


def _text(one: Any) -> str:
    return "" if one is None else one if isinstance(one, str) else number_name(float(one))


def table_of(columns: Mapping[Any, Any], source: str) -> Table:
    """A mapping of names to columns of equal length. Raises: BadInput naming a column of another length."""
    given = {str(name): list(values) for name, values in columns.items()}
    sizes = {name: len(values) for name, values in given.items()}
    if len(set(sizes.values())) > 1:
        first, *_ = sizes
        other = next(name for name in sizes if sizes[name] != sizes[first])
        raise BadInput(
            f"{source}: column {other!r} has {sizes[other]:,} cells, {first!r} has {sizes[first]:,}; give "
            "columns of one length"
        )
    mistakes, places = Mistakes(), Places(source)
    for name, values in given.items():
        for i, value in enumerate(values):
            if isinstance(value, (list, tuple)):
                values[i] = _value(list(value), places.cell(i, name), mistakes)
    mistakes.check()
    rows = next(iter(sizes.values()), 0)
    return Table({name: column_of(name, values) for name, values in given.items()}, rows, places, "a table")


def column_of(name: str, values: Iterable[Any]) -> Column:
    """A column of Python values: numbers, texts, arrays, or a mixture that is told by what most of them are."""
    cells = [value.item() if isinstance(value, np.generic) else value for value in values]
    there = [value for value in cells if value is not None and value == value] if not _arrays(cells) else cells
    if not there:
        return Column(name, "empty", cells=[None] * len(cells))
    if _arrays(cells):
        good = all(
            value is None or (isinstance(value, np.ndarray) and value.dtype.kind in "biufU" and value.ndim in (1, 2))
            for value in cells
        )
        return Column(name, "list", lists=cells) if good else Column(name, "other", cells=[None] * len(cells))
    if all(isinstance(value, (bool, int, float)) for value in there):
        numbers = np.array([np.nan if value is None else _float(value) for value in cells])
        whole = all(isinstance(value, int) for value in there)
        words = [None if value is None else str(int(value)) for value in cells] if whole else None
        return Column(name, "number", cells=words, numbers=numbers)
    words = [_word(value) for value in cells]
    if any(value is not None and word is None for value, word in zip(there, map(_word, there), strict=True)):
        return Column(name, "other", cells=words)
    numbers_too = 2 * sum(is_number(word) for word in words if word) >= sum(bool(word) for word in words)
    return Column(name, "number" if numbers_too else "text", cells=words)


def _arrays(cells: Sequence[Any]) -> bool:
    return any(isinstance(value, np.ndarray) for value in cells)


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
