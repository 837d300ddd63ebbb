"""Marks in numbers: what stands before decimals and what between thousands, told from the cells."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from headstart.data.layout import numbered
from headstart.data.table import SINGLE_CELLS, Column, Table, numbers_of, texts_of
from headstart.data.text import COMMA, POINTED, THOUSANDS, is_number
from headstart.errors import BadInput
from headstart.ways import option

_SPACED = re.compile("^[+-]?[1-9]\\d{0,2}(?:[ '\u00a0\u2009\u202f\u2019]\\d{3})+(?:[.,]\\d+)?$")
"""A number with blanks or apostrophes between thousands: 1 234,5 or 1'234.5."""
_MAYBE_THOUSANDS = re.compile(r"^[+-]?[1-9]\d{0,2},\d{3}$")
_POINT = r"^\s*[+-]?[1-9]\d{0,2}\.\d{3}\s*$"
_SMALL, _LARGE = r"^\s*[+-]?\d{1,3}\s*$", r"^\s*[+-]?\d{4,}\s*$"
_DECIMAL = r"^\s*[+-]?(?:0\d*\.\d+|\d*\.(?:\d{1,2}|\d{4,})|\d{4,}\.\d*|\.\d+|\d+\.|\d+\.\d*[eE][+-]?\d+)\s*$"
"""A number whose point cannot stand between thousands."""


def find_decimal(rows: Sequence[Sequence[str]], source: str, known: str = "auto") -> Literal[".", ","]:
    """The mark that was set, or `,` where a column of numbers has cells such as 1,5 (or "1,5" between commas).

    Raises: BadInput where a comma stands between thousands, or may.
    """
    commas: list[str] = []
    points = False
    for column in itertools.zip_longest(*rows[1:200], fillvalue=""):
        cells = [cell.strip() for cell in column if cell.strip()]
        spaced = next(filter(_SPACED.match, cells), None)
        if spaced and any(COMMA.match(cell) or is_number(cell) for cell in cells):
            raise BadInput(f"{source}: {spaced!r} has a mark between thousands; write numbers without it")
        if not any("," in cell for cell in cells):
            points = points or any("." in cell and is_number(cell) for cell in cells)
            continue
        numbers = [cell for cell in cells if COMMA.match(cell) or THOUSANDS.match(cell) or is_number(cell)]
        if 2 * len(numbers) >= len(cells) and all(cell in numbers for cell in cells if "," in cell):
            commas += [cell for cell in numbers if "," in cell]
            points = points or any("." in cell for cell in numbers)
    grouped = next(filter(THOUSANDS.match, commas), None)
    if commas and known == "." and not grouped:
        raise BadInput(
            f"{source}: {commas[0]!r} has a decimal comma, and decimal is set to '.'; leave it out, or give "
            f"{option('decimal', ',')}"
        )
    unclear = bool(commas) and known != "," and all(map(_MAYBE_THOUSANDS.match, commas))
    if grouped or (unclear and points):
        raise BadInput(f"{source}: {grouped or commas[0]!r} has a mark between thousands; write numbers without it")
    if unclear:
        whole = commas[0].replace(",", "")
        raise BadInput(
            f"{source}: {commas[0]!r} may be {commas[0].replace(',', '.')} or {whole}; give "
            f"{option('decimal', ',')} for the first, or write numbers without a mark between thousands for the second"
        )
    mark: Literal[".", ","] = "," if known == "," or (commas and known == "auto") else "."
    for column in itertools.zip_longest(*rows[1:200], fillvalue="") if mark == "," else ():
        points_of = [cell.strip() for cell in column if "." in cell and is_number(cell)]
        if points_of and all(map(POINTED.match, points_of)):
            raise BadInput(
                f"{source}: {points_of[0]!r} has a point between thousands, beside decimal commas; write it without"
            )
    return mark


def check_thousands(table: Table) -> None:
    """Look at the points in the numbers of a text file whose decimal mark nobody set.

    One number such as 0.5 says that points are decimal. Else 1.005 beside whole numbers below 1,000, in one column, is
    refused, as it is beside decimal commas; and where semicolons separate cells, numbers such as 15.234 are noted.
    Raises: BadInput naming the first cell.
    """
    columns = [c for c in table.columns.values() if c.type == "number" and c.numbers is None]
    commas = table.decimal == ","
    if not commas and any(_any(_DECIMAL, texts_of(column.data[:SINGLE_CELLS])) for column in columns):
        return
    names = [column.name for column in columns]
    runs = {name: pattern for pattern, run in numbered(names).items() for name in run}
    tallies: dict[str, Counter[str]] = {}
    first: dict[str, Column] = {}
    for column in columns:
        run = runs.get(column.name, column.name)
        tally = tallies.setdefault(run, Counter())
        tally["small"] += _count(column, _SMALL)
        tally["large"] += _count(column, _LARGE)
        if not _count(column, r"\."):
            continue
        decimals, pointed = _count(column, _DECIMAL), _count(column, _POINT)
        if decimals and not commas:
            return
        if pointed and not decimals:
            tally["pointed"] += pointed
            first.setdefault(run, column)
    for run, column in first.items():
        row = int(_matches(column, _POINT).argmax())
        word, cell = (column.words[row] or "").strip(), table.places.cell(row, column.name)
        if commas:
            raise BadInput(f"{cell}: {word!r} has a point between thousands, beside decimal commas; write it without")
        if tallies[run]["small"] and not tallies[run]["large"]:
            raise BadInput(
                f"{cell}: {word!r} may be {word} or {word.replace('.', '')}, as whole numbers stand beside it; give "
                f"{option('decimal', '.')} for the first, or write numbers without a mark between thousands for the "
                "second"
            )
    if first and table.written.startswith("semicolon"):
        table.notes.append(
            f"every number with a point looks like {word}: its point is read as a decimal one; where it stands between "
            "thousands, write numbers without it"
        )


def _any(pattern: str, words: list[str | None]) -> bool:
    return any(re.match(pattern, word) for word in words if word)


def _count(column: Column, pattern: str) -> int:
    """Cells that are like the pattern."""
    return int(_matches(column, pattern).sum())


def _matches(column: Column, pattern: str) -> np.ndarray:
    """(n,) bool."""
    import pyarrow.compute as pc

    return numbers_of(pc.match_substring_regex(column.data, pattern).fill_null(False)).astype(bool)
