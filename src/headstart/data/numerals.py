"""Marks in numbers: what stands before decimals and what between thousands, told from the cells."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from headstart.data.exports import is_unit
from headstart.data.layout import numbered
from headstart.data.table import USUAL_GAPS, Cells, Column, Table, Type, numbers_of
from headstart.data.text import COMMA, POINTED, THOUSANDS
from headstart.errors import BadInput, Places
from headstart.text import first_few, is_number
from headstart.ways import option

_BLANKS, _APOSTROPHES = " \u00a0\u2009\u202f", "'\u2019"
_KINDS = {" ": _BLANKS, "'": _APOSTROPHES, ".": ".", ",": ","}
NUMBER_MARKS = re.compile(rf"[,{_BLANKS}{_APOSTROPHES}]|\.\d+\.")
"""What may stand between thousands or before decimals, besides points."""
_SPACED = re.compile("^[+-]?[1-9]\\d{0,2}(?:[ '\u00a0\u2009\u202f\u2019]\\d{3}){1,4}(?:[.,]\\d+)?$")
"""A number with blanks or apostrophes between thousands: 1 234,5 or 1'234.5; more groups are a list."""
_MAYBE_THOUSANDS = re.compile(r"^[+-]?[1-9]\d{0,2},\d{3}$")
_POINT = r"^\s*[+-]?[1-9]\d{0,2}\.\d{3}\s*$"
_SMALL, _LARGE = r"^\s*[+-]?\d{1,3}\s*$", r"^\s*[+-]?\d{4,}\s*$"
_CURRENCY = r"(?:(?:US|R|A|C|S|NZ|HK)?\$|[€£¥₹₽₩₺₪₫฿₴]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|zł|kr\.?)"
_DIGITS = "(?:\\d(?:[\\d.,'\u00a0\u2009\u202f\u2019 ]*[\\d.,])?|[.,]\\d+)(?:[eE][+-]?\\d+)?"
_WITH_UNIT = re.compile(rf"([+-]?{_DIGITS})(\s*)({_CURRENCY}|[^\W\d_][^\d\s]{{0,9}}|[%°µ‰][^\d\s]{{0,9}})")
"""A number and the unit behind it."""
_PRICED = re.compile(rf"([+-]?)({_CURRENCY})\s*([+-]?{_DIGITS})")
"""A number behind its currency."""
_BRACKETED = rf"({_CURRENCY}?)\s*\(\s*([^()]*\d[^()]*?)\s*\)"
BRACKETS = "()"
"""What stands around numbers below 0 in accounts, taken for a unit."""
MANY_VALUES = 12
"""Different whole numbers from which on those with a unit are no names of classes, such as doses."""
DECIMAL = r"^\s*[+-]?(?:0\d*\.\d+|\d*\.(?:\d{1,2}|\d{4,})|\d{4,}\.\d*|\.\d+|\d+\.|\d+\.\d*[eE][+-]?\d+)\s*$"
"""A number whose point cannot stand between thousands."""

RESPELLED = {
    re.compile(r"(?<![\w.])([+-]?\d*\.\d*)[dD]([+-]\d{1,3})(?![\w.])"): (
        r"\1E\2",
        "exponents are written as Fortran writes them, 1.5D+02",
    ),
    re.compile(r"(^|[,;\t]) *([+-]) +(?=[\d.]+(?:[eE][+-]?\d+)?\s*(?:[,;\t]|$))"): (
        r"\1\2",
        "blanks between the sign and a number are passed over",
    ),
    re.compile(r"(?<![\w.])\u2212(?=[\d.])"): ("-", "the minus sign is the typographic one, \u2212"),
}
"""How some programs write numbers: a pattern, what it is read as, and what is said of it."""


def find_marks(
    rows: Sequence[Sequence[str]], source: str, decimal: str = "auto", between: str | None = None
) -> tuple[Literal[".", ","], str]:
    """(mark before decimals, mark between thousands or "") of the cells below the first row.

    decimal, between: what was set. `,` stands before decimals where a column of numbers has cells such as 1,5 (or "1,5"
    between commas). 1.234,5 and 1,234.5, 1 234,5 and 1'234 say both marks; 1,234 and 1.234 alone may be either.
    Raises: BadInput where that is so, or cells disagree.
    """
    columns = [
        [cell.strip() for cell in column if cell.strip()]
        for column in itertools.zip_longest(*rows[1:200], fillvalue="")
    ]
    columns = [_bare(cells) for cells in columns]
    if between is None:
        between = _between(columns, source, decimal)
    if between:
        columns = [[ungrouped(cell, between) for cell in cells] for cells in columns]
        decimal = {",": ".", ".": ","}.get(between, decimal) if decimal == "auto" else decimal
    return _decimal(columns, source, decimal, between), between


def _pointed_beside_commas(columns: Sequence[Sequence[str]]) -> bool:
    """Whether points stand before decimals in some columns, so that 1,100 in others is 1100."""
    numbers = [cells for cells in columns if cells and all(COMMA.match(cell) or is_number(cell) for cell in cells)]
    commas = [cell for cells in numbers for cell in cells if "," in cell]
    pointed = any(re.match(DECIMAL, cell) for cells in numbers for cell in cells)
    return bool(commas) and pointed and all(map(_MAYBE_THOUSANDS.match, commas))


def texts_to_numbers(table: Table, decimal: str, thousands: str | None) -> None:
    """Texts that are numbers with a comma, as 1,5 where `read_csv` knew of none, become numbers: in tables that say
    nothing of marks. Lists have more than one comma. Raises: BadInput where 1,234 may be either."""
    if table.decimal != "auto" or decimal == ".":
        return
    texts = [column for column in table.columns.values() if column.type == "text" and _has_commas(column)]
    sample = [[column.name, *(word or "" for word in column.words[:200])] for column in texts]
    rows = list(itertools.zip_longest(*sample, fillvalue=""))
    mark, between = find_marks(rows, table.places.source, decimal, thousands) if texts else (".", "")
    if mark != "," and not between:
        return
    table.decimal, table.thousands = mark, between
    names = first_few([repr(column.name) for column in texts], 3)
    commas = "before decimals" if mark == "," else "between thousands"
    table.notes.append(f"texts are read as numbers with commas {commas} in {names}")
    for column in texts:
        if between:
            ungroup(column, between, table)
        column.type = "number"


def _has_commas(column: Column) -> bool:
    """Whether each text is a number, and some have a comma before decimals or between thousands."""
    count = len(column.data) - column.data.null_count
    usual = rf"(?i)^\s*(?:[+-]?{_DIGITS}|{'|'.join(map(re.escape, sorted(USUAL_GAPS)))})?\s*$"
    single = rf"^\s*(?:{COMMA.pattern[1:-1]}|{THOUSANDS.pattern[1:-1]}|[+-]?,\d+)\s*$"
    commas = _matches(column, single)
    return bool(commas.any()) and int((commas | (_matches(column, usual) & ~_matches(column, ","))).sum()) == count


def _between(columns: Sequence[Sequence[str]], source: str, decimal: str) -> str:
    """The mark between thousands that no cell leaves a doubt of. Raises: BadInput where two marks are."""
    marks: dict[str, str] = {}
    for cells in columns:
        spaced = [cell for cell in cells if _SPACED.match(cell)]
        if spaced and all(_SPACED.match(cell) or COMMA.match(cell) or is_number(cell) for cell in cells):
            marks.setdefault("'" if any(mark in spaced[0] for mark in "'\u2019") else " ", spaced[0])
        grouped = [cell for cell in cells if THOUSANDS.match(cell)]
        numbers = [cell for cell in cells if THOUSANDS.match(cell) or COMMA.match(cell) or is_number(cell)]
        if 2 * len(numbers) >= len(cells) and all(cell in numbers for cell in cells if "," in cell):
            for cell in grouped:
                marks.setdefault(next(mark for mark in cell if mark in ",."), cell)
    if not marks and decimal != "," and _pointed_beside_commas(columns):
        return ","
    if len(marks) > 1:
        mark, other = list(marks)[:2]
        raise BadInput(
            f"{source}: {marks[mark]!r} has {mark!r} between thousands, {marks[other]!r} has {other!r}; write them "
            "alike"
        )
    mark = next(iter(marks), "")
    if mark and mark == decimal:
        raise BadInput(
            f"{source}: {marks[mark]!r} has {mark!r} between thousands, and decimal is set to {decimal!r}; leave it out"
        )
    return mark


def ungrouped(cell: str, mark: str) -> str:
    """A number without the mark between its thousands; every other text as it is."""
    marks = _KINDS[mark]
    plain = cell.strip()
    return re.sub(f"[{marks}]", "", plain) if plain and re.match(_grouped(mark), plain) else cell


def ungroup(column: Column, mark: str, table: Table) -> None:
    """Take the mark out of the numbers of a column. Raises: BadInput naming a number that has it anywhere else."""
    import pyarrow.compute as pc

    column.data = pc.if_else(
        pc.match_substring_regex(column.data, rf"^\s*{_grouped(mark)[1:-1]}\s*$"),
        pc.replace_substring_regex(column.data, f"[{_KINDS[mark]}]", ""),
        column.data,
    )
    for name in ("words", "coded", "numbers", "floats"):
        column.__dict__.pop(name, None)
    wrong = _matches(column, rf"^\s*[+-]?[0-9.,]*[{_KINDS[mark]}][0-9.,]*\s*$")
    if mark in ".," and wrong.any():
        row = int(wrong.argmax())
        raise BadInput(
            f"{table.places.cell(row, column.name)}: {(column.words[row] or '').strip()!r} has {mark!r}, which stands "
            "between thousands in other numbers, and not before three digits here; correct it, or leave the row out"
        )


def _opened(cell: str) -> str:
    """A number of an account: ($5.00) and $(5.00) as -$5.00, others as they are."""
    match = re.fullmatch(_BRACKETED, cell)
    return f"-{match[1]}{match[2]}" if match else cell


def _parts(cell: str) -> tuple[str, str, str] | None:
    """(number, what stands between, unit or currency) of a cell; None where it is not both."""
    if match := _PRICED.fullmatch(cell):
        return match[1] + match[3], "", match[2]
    match = _WITH_UNIT.fullmatch(cell)
    return (match[1], match[2], match[3]) if match else None


def _bare(cells: list[str]) -> list[str]:
    """Numbers without the unit or currency that all of them have; others as they are."""
    if any("(" in cell for cell in cells):
        cells = [_opened(cell) for cell in cells]
    if not cells or is_number(cells[0]) or is_number(cells[0], ","):
        return cells
    parts = [_parts(cell) for cell in cells if cell.lower() not in USUAL_GAPS]
    numbers = [part[0] for part in parts if part]
    alike = len({part[2] for part in parts if part}) == 1 and len(numbers) == len(parts)
    return numbers if alike else cells


def unit_of(cells: Sequence[str], decimal: str, fixed: bool = False, between: str = "") -> str:
    """The unit behind every one of these numbers, as in 47.04 mg, or the currency beside it, where they are measured
    beyond doubt: one has decimals, or there are many with a blank before the unit. "" where there is none.

    fixed: another file told that they are numbers. between: the mark between thousands.
    """
    if not any(map(str.isdigit, cells[0])) and cells[0].lower() not in USUAL_GAPS:
        return ""
    if any("(" in cell and re.fullmatch(_BRACKETED, cell) for cell in cells):
        cells = [_opened(cell) for cell in cells]
        plain = [ungrouped(cell, between) if between else cell for cell in cells if cell.lower() not in USUAL_GAPS]
        if all(is_number(cell, decimal) for cell in plain):
            return BRACKETS
    parts = [_parts(cell) for cell in cells if cell.lower() not in USUAL_GAPS]
    units = {part[2] for part in parts if part}
    if None in parts or len(units) != 1:
        return ""
    unit = units.pop()
    if not (re.fullmatch(_CURRENCY, unit) or is_unit(unit)):
        return ""
    numbers = {ungrouped(part[0], between) if between else part[0] for part in parts if part}
    many = len(numbers) > MANY_VALUES and (all(part[1] for part in parts if part) or not unit.isalpha())
    measured = fixed or many or any(decimal in number for number in numbers)
    return unit if measured and all(is_number(number, decimal) for number in numbers) else ""


def take_unit(column: Column, unit: str) -> None:
    """Take the unit off the numbers of a column; a cell with another one stays as it is. Brackets become a minus."""
    import pyarrow.compute as pc

    column.data = pc.replace_substring_regex(column.data, rf"^\s*{_BRACKETED}\s*$", r"-\1\2")
    number, unit = f"([+-]?{_DIGITS})", re.escape(unit)
    for pattern, rest in ((rf"^\s*{number}\s*{unit}\s*$", r"\1"), (rf"^\s*([+-]?){unit}\s*{number}\s*$", r"\1\2")):
        column.data = pc.replace_substring_regex(column.data, pattern, rest)
    for name in ("words", "coded", "numbers", "floats"):
        column.__dict__.pop(name, None)


def _grouped(mark: str) -> str:
    """A number with this mark between its thousands, or before some of them."""
    decimal = {".": ",", ",": r"\."}.get(mark, "[.,]")
    return rf"^[+-]?[1-9]\d{{0,2}}(?:[{_KINDS[mark]}]\d{{3}})+(?:{decimal}\d*)?$"


def _decimal(columns: Sequence[Sequence[str]], source: str, decimal: str, between: str) -> Literal[".", ","]:
    """The mark that was set, or `,` where a column of numbers has cells such as 1,5. Raises: BadInput where a comma may
    stand between thousands."""
    commas: list[str] = []
    points = False
    for cells in columns:
        if not any("," in cell for cell in cells):
            points = points or any("." in cell and is_number(cell) for cell in cells)
            continue
        numbers = [cell for cell in cells if COMMA.match(cell) or is_number(cell)]
        if 2 * len(numbers) >= len(cells) and all(cell in numbers for cell in cells if "," in cell):
            commas += [cell for cell in numbers if "," in cell]
            points = points or any("." in cell for cell in numbers)
    if commas and decimal == ".":
        way = "leave it out" if between == "," else f"leave it out, or give {option('decimal', ',')}"
        raise BadInput(f"{source}: {commas[0]!r} has a decimal comma, and decimal is set to '.'; {way}")
    if commas and decimal != "," and not between and all(map(_MAYBE_THOUSANDS.match, commas)):
        whole = commas[0].replace(",", "")
        raise BadInput(
            f"{source}: {commas[0]!r} may be {commas[0].replace(',', '.')} or {whole}; give "
            f"{option('decimal', ',')} for the first, or {option('thousands', ',')} for the second"
        )
    mark: Literal[".", ","] = "," if decimal == "," or (commas and decimal == "auto") else "."
    for cells in columns if mark == "," and between != "." else ():
        pointed = [cell for cell in cells if "." in cell and is_number(cell)]
        if pointed and all(map(POINTED.match, pointed)):
            raise BadInput(
                f"{source}: {pointed[0]!r} has a point between thousands, beside decimal commas; give "
                f"{option('thousands', '.')}"
            )
    return mark


def check_thousands(table: Table, between: str, thousands: str | None) -> None:
    """Look at the points in the numbers of a text file whose decimal mark nobody set.

    One number such as 0.5 says that points are decimal. Else 1.005 beside whole numbers below 1,000, in one column, is
    refused, as it is beside decimal commas; and where semicolons separate cells, numbers such as 15.234 are noted.
    between, thousands: the mark between thousands, and what was set. Raises: BadInput naming the first cell.
    """
    columns = [c for c in table.columns.values() if c.type == "number" and c.numbers is None]
    commas = table.decimal == ","
    if between == "." or (thousands == "" and not commas):
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
        decimals, pointed = _count(column, DECIMAL), _count(column, _POINT)
        if decimals and not commas:
            return
        if pointed and not decimals:
            tally["pointed"] += pointed
            first.setdefault(run, column)
    for run, column in first.items():
        row = int(_matches(column, _POINT).argmax())
        word, cell = (column.words[row] or "").strip(), table.places.cell(row, column.name)
        if commas:
            raise BadInput(
                f"{cell}: {word!r} has a point between thousands, beside decimal commas; "
                "give --thousands . (thousands in Python and in a layout)"
            )
        if tallies[run]["small"] and not tallies[run]["large"]:
            raise BadInput(
                f"{cell}: {word!r} may be {word} or {word.replace('.', '')}, as whole numbers stand beside it; give "
                f"{option('decimal', '.')} for the first, or {option('thousands', '.')} for the second"
            )
    if first and table.written.startswith("semicolon"):
        table.notes.append(
            f"every number with a point looks like {word}: its point is read as a decimal one; where it stands between "
            f"thousands, give {option('thousands', '.')}"
        )


def _count(column: Column, pattern: str) -> int:
    """Cells that are like the pattern."""
    return int(_matches(column, pattern).sum())


def _matches(column: Column, pattern: str) -> np.ndarray:
    """(n,) bool."""
    import pyarrow.compute as pc

    return numbers_of(pc.match_substring_regex(column.data, pattern).fill_null(False)).astype(bool)


def later_type(column: Column, na: Sequence[str], source: str, decimal: Literal[".", ","]) -> Type:
    """The type of a column that was empty in the sample and may have cells later on."""
    cells = Cells(Places(source), frozenset(na), decimal)
    there = [word or "" for word in column.words if not cells.missing(word)]
    numbers = sum(is_number(word, decimal) for word in there)
    return "empty" if not there else "number" if 2 * numbers >= len(there) else "text"


def spellings_of(lines: Sequence[str]) -> list[re.Pattern[str]]:
    """Which of `RESPELLED` most lines have."""
    return [rule for rule in RESPELLED if 2 * sum(map(bool, map(rule.search, lines))) > len(lines)]


def respelled(lines: Iterable[str], rules: Sequence[re.Pattern[str]]) -> Iterator[str]:
    """Lines whose numbers are written as everywhere."""
    for line in lines:
        for rule in rules:
            line = rule.sub(RESPELLED[rule][0], line)
        yield line
