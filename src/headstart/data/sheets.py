"""Workbooks of Excel and OpenDocument: the cells of one sheet, read as the lines of a text table are."""

from __future__ import annotations

import csv
import datetime
import importlib
import io
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headstart.data.apart import arrays_apart
from headstart.data.archives import SMALL_FILE, most_unpacked
from headstart.data.csv import read_lines
from headstart.data.extras import check_size, library, whole
from headstart.data.layout import SPLIT_WORDS, LayoutSpec, by_role, numbered
from headstart.data.named import Named
from headstart.data.order import WORDS
from headstart.data.table import Table
from headstart.data.text import number_name
from headstart.errors import BadInput, Mistakes, nearest
from headstart.text import first_few, is_number
from headstart.ways import asked, option

MOST_BOOK_BYTES = 2**31
"""Bytes of memory that trying a binary workbook may take."""
MOST_BOOK_CELLS = 2**24
"""Cells of a workbook: a sheet is held as a rectangle, however few of its cells are filled."""
ALL_SHEETS, SHEET = "*", "sheet"
"""The name that stands for all sheets, of one header, and the column of their names."""
_SPLITS = frozenset((*SPLIT_WORDS, "calibration", "prediction"))
"""Words of names of sheets that are splits; those of chemometrics, too."""
ENCRYPTED = b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e\0"
"""A name in the file that Excel puts an encrypted workbook into."""
_ODS_ROW = re.compile(rb"<table:table-row\b([^>]*)(?<!/)>(.*?)</table:table-row>", re.DOTALL)
_ODS_CELL = re.compile(rb"<table:(?:covered-)?table-cell\b[^>]*>")
_ODS_COLUMNS = re.compile(rb"""number-columns-repeated\s*=\s*["'](\d{1,9})["']""")
_ODS_ROWS = re.compile(rb"""number-rows-repeated\s*=\s*["'](\d{1,9})["']""")
_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{1,3})(\d{1,9})["']""")
_CELL = re.compile(rb"<(?:[^\s<>/:]+:)?c(?=[\s/>])")
_BARE = re.compile(rb"<(?:[^\s<>/:]+:)?c(?=[\s/>])(?![^>]*\br\s*=)")
_ROW = re.compile(rb"<(?:[^\s<>/:]+:)?row(?=[\s/>])")
_ROW_PLACE = re.compile(rb"""<(?:[^\s<>/:]+:)?row\b[^>]*?\br\s*=\s*["'](\d{1,9})["']""")
LONGEST_TAG = 2**20
"""Bytes between two tags of a sheet's XML."""
_TEXTS = re.compile(rb"""\buniqueCount\s*=\s*["']\s*(\d+)""")
_TEXT = re.compile(rb"<(?:[^\s<>/:]+:)?si(?=[\s/>])|<table:(?:covered-)?table-cell\b")
_TAG = rb"<(?:[^\s<>/:]+:)?"
_FORMULA = _TAG + rb"f(?=[\s/>])[^>]*(?:/>|>[^<]*</[^>]*>)\s*"
_UNCOMPUTED, _OR_ZERO = (
    re.compile(
        _FORMULA + rb"(?:<[^>/]*/>|<[^>/]*>\s*" + zero + rb"\s*</[^>]*>)?\s*</(?:[^\s<>/:]+:)?c>"
        rb"|<table:table-cell\b(?![^>]*\soffice:value)[^>]*\stable:formula="
    )
    for zero in (b"", b"0?")
)
_ERROR = re.compile(_TAG + rb"""c\s[^>]*\bt\s*=\s*["']e["']""")


def read_workbook(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One sheet of a workbook, as a text table. Raises: BadInput where several sheets hold cells and none is named,
    and for a workbook that is encrypted or damaged."""
    calamine = library("python_calamine", path, "a workbook of Excel")
    uncounted, remarks = _check(path)
    if uncounted:
        arrays_apart("headstart.data.sheets:try_binary", path, "workbook")
    others: list[str] = []
    labelled, plain = False, spec.model_copy(update={"delimiter": ",", "quote": '"'})
    with _silent(), whole(path, "workbook"), calamine.CalamineWorkbook.from_path(str(path)) as book:
        sheets = {} if spec.sheet in book.sheet_names else _alike(book)
        labelled = bool(sheets) and spec.sheet is None and not spec.optional and _is_a_class(path, sheets)
        if sheets and (labelled or spec.sheet == ALL_SHEETS):
            name, start = ALL_SHEETS, 0
            rows = [[*next(iter(sheets.values()))[0], SHEET]]
            rows += [[*row, title] for title, own in sheets.items() for row in own[1:] if any(map(_word, row))]
        else:
            name, sheet, others = _chosen(path, book, spec)
            start = sheet.start[0] if sheet.start else 0
            rows = sheet.to_python()
    if not rows:
        raise BadInput(f"{path}: sheet {name!r} is empty; give one with rows")
    table = read_lines(path, lambda: _lines(rows, start), plain, mistakes)
    table.notes += remarks
    if name == ALL_SHEETS:
        table.notes.append(
            f"all sheets are read as one table, with their names in {SHEET!r} ({option('sheet')} names one)"
        )
        table.roles |= {"target": SHEET} if labelled and spec.target is None else {}
    table.written = (
        f"{'all sheets' if name == ALL_SHEETS else f'sheet {name!r}'} {table.written.replace('comma-separated ', '')}"
    )
    if others:
        table.notes.append(
            f"the sheets {first_few([repr(other) for other in others], 3)} are not read ({option('sheet')})"
        )
    return table


def _alike(book: Any) -> dict[str, list[list[Any]]]:
    """The rows of all sheets that hold cells, by name, where there are several of one header; else none."""
    tables = [meta.name for meta in book.sheets_metadata if "WorkSheet" in str(meta.typ)]
    sheets = {name: sheet for name in tables if (sheet := book.get_sheet_by_name(name)).start is not None}
    widths = {sheet.width for sheet in sheets.values()}
    if len(sheets) < 2 or len(widths) > 1 or widths == {1}:
        return {}
    rows = {name: sheet.to_python() for name, sheet in sheets.items()}
    headers = {tuple(map(_word, own[0])) for own in rows.values()}
    words = [word for word in next(iter(headers)) if word and not is_number(word)]
    return rows if len(headers) == 1 and words and SHEET not in words and min(map(len, rows.values())) > 1 else {}


def _is_a_class(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bool:
    """Whether each of several sheets of one header holds the sequences of a class, by which it is named.

    Raises: BadInput with the settings where a sheet may be a class, or a recording.
    """
    header = [_word(cell) for cell in next(iter(sheets.values()))[0]]
    some = first_few([repr(name) for name in sheets], 6)
    if any(word.lower() in _SPLITS for name in sheets for word in WORDS.findall(name)):
        return False
    targets = [name for name in by_role("target", header) if name != "y" or "x" not in header]
    runs = [name for names in numbered(header).values() if len(names) > 2 for name in names]
    rest = {*header} - {*runs, "", *by_role("id", header)}  # which may be the target, whatever its name
    if runs and not (targets or rest) and not any(re.search(r"\d", name) for name in sheets):
        return True
    question = f"{path}: several sheets of one header hold cells ({some}); each may be a class, a recording, or a table"
    every: dict[str, str] = {"sheet": ALL_SHEETS}
    ways = [every] if targets else [every | {"target": SHEET}]
    raise BadInput(asked(question, *ways, every | {"shape": "long", "id": SHEET}, {"sheet": next(iter(sheets))}))


def _chosen(path: Path, book: Any, spec: LayoutSpec) -> tuple[str, Any, list[str]]:
    """(name, sheet, names of the others that hold cells) of the sheet that is named, or is the only one with cells."""
    names = list(book.sheet_names)
    if spec.sheet is not None and spec.sheet in names:
        return spec.sheet, book.get_sheet_by_name(spec.sheet), []
    if spec.sheet is not None and not spec.optional:
        raise BadInput(f"{path}: sheet: {nearest(spec.sheet, names)}")
    tables = [meta.name for meta in book.sheets_metadata if "WorkSheet" in str(meta.typ)]
    sheets = {name: sheet for name in tables if (sheet := book.get_sheet_by_name(name)).start is not None}
    if not sheets:
        raise BadInput(f"{path}: no sheet holds a cell; give a workbook with rows")
    first = next(iter(sheets))
    if len(sheets) > 1:
        raise BadInput(
            f"{path}: several sheets hold cells ({first_few([repr(name) for name in sheets], 6)}); name one with "
            f"{option('sheet', first)}"
        )
    return first, sheets[first], []


def try_binary(path: Path) -> Named:
    """Open every sheet of a workbook whose cells, or their text, are not counted, in a process that may end for lack of
    memory. Raises: BadInput for more text than a file of its size may hold."""
    with suppress(ImportError):  # elsewhere memory ends it
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BOOK_BYTES, MOST_BOOK_BYTES))
    calamine = importlib.import_module("python_calamine")
    with whole(path, "workbook"), calamine.CalamineWorkbook.from_path(str(path)) as book:
        rows = [row for name in book.sheet_names for row in book.get_sheet_by_name(name).to_python()]
    text = sum(len(cell) for row in rows for cell in row if isinstance(cell, str))
    check_size(path, text, "the text of its cells", SMALL_FILE)
    return Named(path)


@contextmanager
def _silent() -> Iterator[None]:
    """What a library of Rust writes to standard error when it fails is not seen: the refusal has its reason."""
    try:
        stream = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stream, 2)
        os.close(null)
        os.close(stream)


def _check(path: Path) -> tuple[bool, list[str]]:
    """(whether a workbook's cells, as in .xls and .xlsb, or their text, that many may share, are not all counted here;
    what is to be said of cells without a value).

    Raises: BadInput for one that is encrypted, no workbook, or larger in memory than it may be.
    """
    with whole(path, "workbook"):
        with path.open("rb") as file:
            content = file.read(2**16)
        if not content.startswith(b"PK"):
            if ENCRYPTED in content or ENCRYPTED in path.read_bytes():
                raise BadInput(f"{path}: is an encrypted workbook; save it without a password")
            if path.suffix.lower() != ".xls":
                raise BadInput(f"{path}: is not a workbook (.xlsx); save it again from the program that made it")
            return True, []
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            check_size(path, sum(part.file_size for part in parts), "the workbook")
            cells, binary = 0, any(part.filename.lower().endswith("workbook.bin") for part in parts)
            longest, absent, errors = 0, 0, 0
            books = [archive.read(part) for part in parts if part.filename.lower().endswith("workbook.xml")]
            pattern = _OR_ZERO if any(b'fullCalcOnLoad="1"' in book for book in books) else _UNCOMPUTED
            for part in parts:  # a sheet may have any name, as the workbook says
                name = part.filename.lower()
                if name.endswith(("strings.xml", "content.xml")):
                    content = archive.read(part)
                    if (number := max(map(int, _TEXTS.findall(content)), default=0)) > len(content):
                        raise BadInput(
                            f"{path}: {name} says that it has {number:,} texts in {len(content):,} bytes; save it again"
                        )
                    longest = max(longest, *map(len, _TEXT.split(content)))
                for rows in _rows_of(archive, part) if name.endswith(".xml") else ():
                    absent += len(pattern.findall(rows))
                    errors += len(_ERROR.findall(rows))
                with archive.open(part) as file:
                    if name == "content.xml":
                        cells += _repeated(file.read())
                    elif name == "xl/calcchain.xml":  # the places of cells with a formula, once more
                        cells = max(cells, _extent(path, file))
                    elif name.startswith("xl/worksheets/") and name.endswith(".bin"):
                        cells += _extent_of_records(file.read())
                    else:
                        cells += _extent(path, file)
    if cells > MOST_BOOK_CELLS:
        raise BadInput(
            f"{path}: its sheets reach over {cells:,} cells, and at most {MOST_BOOK_CELLS:,} are read; save the sheet "
            "as CSV"
        )
    remarks = [
        f"{absent:,} {'cell holds a formula whose value' if absent == 1 else 'cells hold formulas whose values'} no "
        "program has computed (there is none, or a 0 in its place); open the workbook in one and save it: nothing is "
        "computed here"
    ] * bool(absent)
    remarks += [
        f"{errors:,} {'cell holds' if errors == 1 else 'cells hold'} an error such as #REF!, read as missing"
    ] * bool(errors)
    return binary or cells * longest > most_unpacked(path, SMALL_FILE), remarks


def _rows_of(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> Iterator[bytes]:
    """A sheet's XML in pieces that end with a cell."""
    rest = b""
    with archive.open(part) as file:
        while data := file.read(2**20):
            data = rest + data
            end = max(data.rfind(b"c>") + 2, data.rfind(b"-cell>") + 6)
            yield data[:end]
            rest = data[end:][-LONGEST_TAG:]
    yield rest


def _extent(path: Path, file: Any) -> int:
    """Cells of the rectangle that holds all cells of a sheet, by the places that its XML names, and by their order."""
    columns: set[bytes] = set()
    last = rows = width = count = 0
    rest, part = b"", b" "
    while part:
        part = file.read(2**20)
        data = rest + part
        end = data.rfind(b"<") if part else len(data)
        data, rest = data[: max(end, 0)], data[max(end, 0) :]
        rest = rest if b"<" in rest else b""
        if len(rest) > LONGEST_TAG:
            raise BadInput(f"{path}: holds a tag of more than {LONGEST_TAG:,} bytes; save it again")
        places = _PLACE.findall(data)
        columns |= {column.upper() for column, _ in places}
        last = max([last, *map(int, {row for _, row in places}), *map(int, _ROW_PLACE.findall(data))])
        if width or _BARE.search(data):  # cells without a place come one after another
            for number, row in enumerate(_ROW.split(data)):
                rows, count = (rows + 1, 0) if number else (rows, count)
                count += len(_CELL.findall(row))
                width = max(width, count)
    return max(last, rows) * (width + max(map(_number, columns), default=0))


def _repeated(content: bytes) -> int:
    """Cells of the sheets of an OpenDocument, up to the last one in a row that is not empty, with repeats."""
    total = 0
    for row in _ODS_ROW.finditer(content):
        count = width = 0
        for cell in _ODS_CELL.finditer(row[2]):
            count += _times(_ODS_COLUMNS, cell[0])
            width = count if b"office:value" in cell[0] or b"calcext:value" in cell[0] else width
        total += width * _times(_ODS_ROWS, row[1])
    return total


def _times(pattern: re.Pattern[bytes], tag: bytes) -> int:
    match = pattern.search(tag)
    return int(match[1]) if match else 1


def _extent_of_records(content: bytes) -> int:
    """As `_extent`, of a sheet of records in binary form: a type and a size in 7 bits a byte, and its content.

    Source: [MS-XLSB] 2.1.4: type 0 begins a row with its number, types 1 to 11 are cells with that of their column.
    """
    at = last = widest = 0
    while at < len(content):
        kind, at = _bits(content, at, 2)
        size, at = _bits(content, at, 4)
        number = int.from_bytes(content[at : at + 4], "little")
        last, widest = (max(last, number), widest) if kind == 0 else (last, max(widest, number * (0 < kind < 12)))
        at += size
    return (last + 1) * (widest + 1)


def _bits(content: bytes, at: int, most: int) -> tuple[int, int]:
    """(a number of 7 bits a byte, the last of which has no eighth, where it ends)."""
    number = 0
    for i in range(most):
        byte = content[at] if at < len(content) else 0
        number, at = number | (byte & 127) << 7 * i, at + 1
        if byte < 128:
            break
    return number, at


def _number(letters: bytes) -> int:
    """A column's number: A is 1, Z 26, AA 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _lines(rows: Sequence[Sequence[Any]], start: int) -> Iterator[str]:
    """Rows as lines of a text table, a line each, behind as many empty ones as stand above them."""
    yield from ["\n"] * start
    for row in rows:
        words = [_word(cell) for cell in row]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(words if any(words) else [])
        yield text.getvalue()


def _word(cell: Any) -> str:
    """A cell as a person reads it; what no line can hold becomes a blank."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, (int, float)):
        return number_name(float(cell)) if cell == cell else ""
    if isinstance(cell, datetime.timedelta):
        return number_name(cell.total_seconds())
    if isinstance(cell, (datetime.date, datetime.time)):
        return cell.isoformat(" ") if isinstance(cell, datetime.datetime) else cell.isoformat()
    return " ".join(str(cell).splitlines()) if cell else ""
