"""CSV, TSV and the like as a table: how a file is written is told from its first rows; its columns are read as text."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import reading, unpacked
from headstart.data.csv_form import UNNAMED, CsvForm, all_quoted, end_of_line, escape_of, passed_over, plain_quotes
from headstart.data.exports import (
    COMMENTS,
    REMARKS,
    Surroundings,
    empty_ends,
    is_comment,
    is_footer,
    start_and_rate,
    surroundings,
    unfilled,
    without_labels,
)
from headstart.data.instruments import Head, instrument_table
from headstart.data.layout import LayoutSpec, numbered, plain
from headstart.data.numerals import (
    BRACKETS,
    DECIMAL,
    NUMBER_MARKS,
    RESPELLED,
    check_thousands,
    find_marks,
    later_type,
    respelled,
    spellings_of,
    take_unit,
    ungroup,
    ungrouped,
    unit_of,
)
from headstart.data.rows import list_column
from headstart.data.runs import told_apart
from headstart.data.sizes import check_columns
from headstart.data.summaries import without_summaries
from headstart.data.table import SINGLE_CELLS, Cells, Column, Table, Type, arrow_texts, texts_of
from headstart.data.text import (
    FEW_LINES,
    UTF16_MARKS,
    blank_cells,
    closing_mark,
    cut,
    find_delimiter,
    has_header,
    row_names,
    text_lines,
    unclosed,
    words_above,
    words_alone,
)
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import count_numbers, counted, first_few, is_number, many
from headstart.ways import option

SAMPLE_ROWS = 1_000
"""Rows that are looked at before it is decided how to read the file."""
SAMPLE_SIZE = 2**22
"""Characters of the sample, or a few lines; rows of a wide table may be long."""
SAMPLE_CELLS = 200_000
"""Cells of the sample."""
ROWS_AT_ONCE = 512
"""Rows that become Arrow columns together."""
LEAST_BLOCK, CELL_ROWS = 2**20, 2**12
"""Bytes that Arrow's parser takes at once, and for each column: few rows of many columns would be many short arrays."""
PARSED_BYTES, LARGE_BYTES = 2**20, 2**23
"""Bytes from which on Arrow's parser is worth its import, and its threads: these may abort a process that ends soon."""


def read_csv(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A text table. Raises: BadInput where it is empty or no text; what is wrong with a row goes to `mistakes`."""
    table = read_lines(path, lambda: text_lines(path, spec.encoding, mistakes), spec, mistakes, _plain_table)
    with reading(path), unpacked(path) as file:
        table.notes[:0] = ["UTF-16, as the mark at its beginning says"] * file.read(2).startswith(UTF16_MARKS)
    return table


def read_lines(
    path: Path,
    all_lines: Callable[[], Iterator[str]],
    spec: LayoutSpec,
    mistakes: Mistakes,
    quickly: Callable[[Path, CsvForm, LayoutSpec], Table | None] = lambda *_: None,
) -> Table:
    """As `read_csv`, of the lines of whatever file. quickly: reads it at once, where it can."""
    head = Head(all_lines(), spec, str(path), mistakes)
    around = instrument_table(head)
    if isinstance(around, Table):
        return around
    lines: Iterator[str] = itertools.chain(head.lines, head.rest)
    if around is not None:
        lines, quickly = around.rows(lines, str(path)), lambda *_: None
    if spellings := spellings_of(head.lines):
        lines, quickly = respelled(lines, spellings), lambda *_: None
    sample, form, body = recognised(path, spec, lines, around)
    form.notes += [RESPELLED[rule][1] for rule in spellings]
    if form.names:
        types = column_types(form, body)
        table = quickly(path, form, spec) or _any_table(itertools.chain(sample, lines), form, types, mistakes)
        if table is not None:
            return typed(table, types, spec, form)
    return _uneven_table(respelled(all_lines(), spellings), form, spec, mistakes)


def recognised(
    path: Path, spec: LayoutSpec, lines: Iterator[str], around: Surroundings | None = None
) -> tuple[list[str], CsvForm, list[list[str]]]:
    """(first lines, how the file is written, some rows). around: what stands around the table, where it is known.

    Raises: BadInput where it is empty, or has no row.
    """
    sample, closing = _sample(lines), ""
    if spec.delimiter in (None, ",") and (closing := closing_mark(sample)):
        sample = list(unclosed(sample, closing))
    if [line[:1] for line in sample[:3:2]] == ["@", "+"] and sample[1].strip().isalpha():
        raise BadInput(f"{path}: is FASTQ; give it the ending .fastq, or set format=fastq")
    if sample and sample[0].startswith("##TITLE="):
        raise BadInput(f"{path}: is JCAMP-DX; give it the ending .jdx")
    plainly = around is None and _plainly(sample, path.name, spec)
    around = around or (Surroundings() if plainly else surroundings(sample, path.name, str(path), spec))
    form = _form(path, spec, sample[around.begin :], around)
    form.closing, passed = closing, f"the mark {closing!r} at the end of lines is passed over"
    form.notes += [passed] if closing else []
    form.escape = escape_of(sample[around.begin :], form)
    rows = _parsed(sample, form)
    rows = [around.names, *rows] if around.names else rows
    if not rows:
        raise BadInput(f"{path}: is empty; give a file with rows")
    check_columns(path, len(rows[0]))
    below, rows[1 : 1 + around.below] = rows[1 : 1 + around.below], []
    marked = any(NUMBER_MARKS.search(cell) for row in rows[1:200] for cell in row)
    if spec.shape != "list" and (marked or spec.decimal == "," or spec.thousands):
        form.decimal, form.thousands = find_marks(rows, str(path), spec.decimal, spec.thousands)
        rows = [[ungrouped(cell, form.thousands) for cell in row] for row in rows] if form.thousands else rows
    header = True if around.names else spec.header
    form.header = has_header(rows, form.decimal) if header is None else header
    if form.header and len(rows) == 1:
        raise BadInput(f"{path}: has a header and no row; give rows, or set header=false where the row is data")
    form.top = int(form.header and not around.names) + around.below
    if spec.units_row is None:
        _check_words(sample, without_labels(rows) if form.header and not plainly else rows, form, spec)
    if form.header:
        if plain(rows[0][-1]) in REMARKS and unfilled(rows[0], rows[1:]):
            form.notes.append(f"no row has a cell for {rows[0][-1]!r}")
            rows[0] = rows[0][:-1]
        certain = form.mark in (" ", "\t") or all_quoted(sample[around.begin :])
        if row_names(rows[0], rows[1:], certain, 1 if form.fixed and spec.id == UNNAMED.format(1) else 2):
            rows[0] = ["", *rows[0]]
            form.notes.append("the first column, which the header does not name, holds names of rows, as R writes")
        ragged = not rows[0][-1].strip() or any(len(row) != len(rows[0]) for row in rows)
        form.extra = empty_ends(rows[0], rows[1:]) if ragged else 0
        form.first = [] if around.names or any(map(is_number, rows[0])) else rows[0]
        rows[0] = rows[0][: len(rows[0]) - form.extra * (not rows[0][-1].strip())]
        if len(set(rows[0])) < len(rows[0]):
            rows[0] = told_apart(rows[0], cut(sample[: around.begin][-4:], form.mark, spec.quote))
        if form.extra:
            form.notes.append("separators at the end of lines, without a name or a cell behind them, are passed over")
    width = len(rows[0])
    body = [row[:width] for row in rows[form.header :] if row != form.first]
    body = [row for row in body if len(row) == width or not is_comment(row, "", width)]
    body = body[:-1] if len(body) > 1 and len(body[-1]) != width and is_footer(body[-1], width) else body
    body = body[: max(FEW_LINES, SAMPLE_CELLS // max(width, 1))]
    form.name_columns(rows[0], len({len(row) for row in body}) == 1, spec)
    form.below = {name: cell.strip(" ()[]") for row in below[::-1] for name, cell in zip(form.names, row, strict=False)}
    return sample, form, body


def _check_words(sample: list[str], rows: Sequence[Sequence[str]], form: CsvForm, spec: LayoutSpec) -> None:
    """Raises: BadInput where a row above the numbers holds words: units, or the header below lines about the file."""
    row, words = words_above(rows, int(form.header), form.decimal, spec.na)
    if row is None:
        return
    records = CsvRecords(iter(sample), form)
    line = next((records.line for cells in records if cells == rows[row]), form.begin + row + 1)
    some = first_few([repr(word) for word in dict.fromkeys(words)], 3)
    raise BadInput(
        f"{form.source}:{line}: holds words ({some}) where the rows below hold numbers; give "
        f"{option('units_row', str(row))} where they are units, {option('skip', str(line - 1))} where they are the "
        f"header, or, where they are missing values, {option('na', *list(dict.fromkeys(words))[:5])}"
    )


def typed(table: Table, types: list[Type], spec: LayoutSpec, form: CsvForm) -> Table:
    """The table with the types of its columns; one that the sample shows empty has a type from its cells.

    Raises: BadInput where points may stand between thousands.
    """
    for column, kind in zip(table.columns.values(), types, strict=True):
        column.type = kind
    without_summaries(table)
    for column in table.columns.values():
        column.type = column.type if column.type != "empty" else later_type(column, spec.na, form.source, form.decimal)
        column.unit = form.units.get(column.name, form.below.get(column.name, ""))
        if column.name in form.units:
            take_unit(column, form.units[column.name])
        if form.thousands and column.type == "number":
            ungroup(column, form.thousands, table)
    for unit in dict.fromkeys(form.units.values()):
        names = [repr(name) for name, other in form.units.items() if other == unit and name in table.columns]
        what = "minus is written as brackets in" if unit == BRACKETS else f"the unit {unit!r} is left out of"
        table.notes += [f"{what} the numbers of {first_few(names, 3)}"] * bool(names)
    plainly = [column for column in table.columns.values() if column.type == "number"]
    if spec.decimal == "auto" and not (
        table.decimal != ","
        and any(re.match(DECIMAL, word) for column in plainly for word in texts_of(column.data[:SINGLE_CELLS]) if word)
    ):
        check_thousands(table, form.thousands, spec.thousands)
    return table


def _plainly(sample: Sequence[str], name: str, spec: LayoutSpec) -> bool:
    """Whether a header and a row of as many cells come first, most of these numbers, so that nothing is around them."""
    if (spec.skip, spec.units_row, spec.comment) != (None, None, None) or len(sample) < 2:
        return False
    mark = spec.delimiter or find_delimiter(sample[:50], name, spec.quote)
    rows = cut(sample[:2], mark, spec.quote) if mark.strip() else []
    whole = len(rows) == 2 and len(rows[0]) == len(rows[1]) > 1 and all(rows[0]) and not rows[0][0].startswith(COMMENTS)
    return (
        whole
        and len(set(rows[0])) == len(rows[0])
        and 2 * sum(map(is_number, rows[1])) > len(rows[1])
        and not (is_number(rows[0][0]) and start_and_rate(sample))
    )


def _form(path: Path, spec: LayoutSpec, sample: Sequence[str], around: Surroundings) -> CsvForm:
    """What separates cells. Raises: BadInput where one was set that cuts nothing, and another would."""
    likely = around.mark or find_delimiter(sample[:50], path.name, spec.quote)
    mark = likely if spec.delimiter is None else spec.delimiter
    if spec.delimiter is not None and likely not in ("", mark):
        rows = cut(sample[:50], mark, spec.quote)
        if rows and all(len(row) < 2 for row in rows):
            count = len(sample[0].split()) if likely == " " else len(cut(sample[:1], likely, spec.quote)[0])
            raise BadInput(
                f"{path}: cut at {mark!r} it has one column, cut at {likely!r} {count:,}; give "
                f"{option('delimiter', likely)}, or leave it out"
            )
    form = CsvForm(str(path), mark, spec.quote, "." if spec.decimal == "auto" else spec.decimal)
    form.begin, form.comment, form.notes = around.begin, around.comment, list(around.notes)
    form.fixed = spec.optional
    cells = [cell.strip() for cell in sample[0].split(mark)] if mark and sample else []
    if len(cells) > 1 and spec.quote == '"' and all(len(c) > 1 and c[0] == c[-1] == "'" for c in cells):
        form.quote = "'"
    return form


def _sample(lines: Iterator[str]) -> list[str]:
    out, size = [], 0
    for line in lines:
        out.append(line)
        size += len(line)
        if len(out) > SAMPLE_ROWS or (size > SAMPLE_SIZE and len(out) > FEW_LINES):
            break
    return out


def _parsed(sample: list[str], form: CsvForm) -> list[list[str]]:
    """Rows of the sample; what follows a row that cannot be read is left to the reading of the whole."""
    rows: list[list[str]] = []
    try:
        for row in CsvRecords(iter(sample), form):
            rows.append(row)
    except BadInput:
        if not rows or (len(sample) <= SAMPLE_ROWS and sum(map(len, sample)) <= SAMPLE_SIZE):
            raise
    return rows


class CsvRecords:
    """Rows of cells with the line on which each begins; lines without a cell, and comments, are passed over and
    counted."""

    def __init__(self, lines: Iterator[str], form: CsvForm) -> None:
        self.form, self.blank, self.comments, self.line = form, 0, 0, 1
        lines = itertools.islice(lines, form.begin, None)
        if form.mark == " " or form.closing:
            cut_lines = ("\x1f".join(blank_cells(line, form.quote)) + "\n" for line in lines)
            lines = unclosed(lines, form.closing) if form.closing else cut_lines
        rules: dict[str, Any] = {"delimiter": form.mark.strip(" ") or "\x1f", "strict": True}
        rules |= {"escapechar": form.escape} if form.escape else {}
        rules |= {"quotechar": form.quote} if form.quote and form.mark != " " else {"quoting": csv.QUOTE_NONE}
        self._reader = csv.reader(lines, **rules)

    def __iter__(self) -> Iterator[list[str]]:
        reader, above, comment = self._reader, self.form.begin, self.form.comment
        begin = above + 1
        before = csv.field_size_limit(2**31 - 1)
        try:
            for row in reader:
                self.line, begin = begin, above + reader.line_num + 1
                if not row or not (row[0] or len(row) == 1 or any(row)):
                    self.blank += 1
                elif comment and row[0].startswith(comment):
                    self.comments += 1
                else:
                    yield row
        except csv.Error as error:
            problem = f"cannot be cut into cells ({error}); double a quote inside of quotes"
            if "unexpected end of data" in str(error):
                problem = "a quote opens here and never closes; close it"
            raise BadInput(
                f"{self.form.source}:{begin}: {problem}, or give {option('quote', '')} where quotes are part "
                "of the texts"
            ) from None
        finally:
            csv.field_size_limit(before)


def _plain_table(path: Path, form: CsvForm, spec: LayoutSpec) -> Table | None:
    """The table by Arrow's parser, where the file is not small, and plain: UTF-8, a row a line, whole cells quoted.

    None otherwise, and where anything is wrong: the reader that knows lines tells what, and where.
    """
    with reading(path), unpacked(path) as file:
        content = file.read()
    return None if len(content) < PARSED_BYTES else of_lines(content, form, spec, threads=len(content) >= LARGE_BYTES)


def of_lines(content: bytes, form: CsvForm, spec: LayoutSpec, first: int = 1, threads: bool = True) -> Table | None:
    """As `_plain_table`, of whole lines, the first of which has this number in its file."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if form.mark == " " or form.closing or not form.mark.isascii() or codecs.lookup(spec.encoding).name != "utf-8":
        return None
    at = end_of_line(content, form.begin + form.top) if first == 1 else 0
    top = content[end_of_line(content, form.begin) : at]
    count = content.count(b"\n", at) + (not content.endswith(b"\n"))
    quote = form.quote if form.quote and form.quote.encode() in content else ""
    # What Arrow takes for the beginning of a file.
    marked = (first > 1 or at > 0) and content.startswith(codecs.BOM_UTF8, at)
    if (
        content.startswith(UTF16_MARKS)
        or (quote and not plain_quotes(content, at, top, form))
        or marked
        or not all(line.strip(codecs.BOM_UTF8 + f" \t{form.mark}".encode()) for line in top.splitlines())
        or content.count(b"\r") != content.count(b"\r\n")
        or passed_over(content, at, form.mark, form.first, form.comment, len(form.names))
    ):
        return None
    width = len(form.names)
    names = [str(i) for i in range(width + form.extra)]
    block = min(max(LEAST_BLOCK, CELL_ROWS * width), 2**30)
    try:
        columns = arrow_csv.read_csv(
            pa.py_buffer(memoryview(content)[at:]),
            arrow_csv.ReadOptions(column_names=names, use_threads=threads, block_size=block),
            arrow_csv.ParseOptions(delimiter=form.mark or "\x1f", quote_char=quote or False, double_quote=False),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid:
        return None
    if columns.num_rows != count or any(any(columns.column(i).unique().to_pylist()) for i in range(width, len(names))):
        return None  # there are empty lines, or cells where none should be
    begin = first + (form.begin + form.top if first == 1 else 0)
    return _table(columns.select(names[:width]), form, np.arange(begin, begin + count))


def _any_table(lines: Iterator[str], form: CsvForm, types: list[Type], mistakes: Mistakes) -> Table | None:
    """The table row by row; None for a file of numbers without a header in which a row has another width."""
    import pyarrow as pa

    records = CsvRecords(lines, form)
    begins: list[int] = []
    waiting: list[list[str]] = []
    parts: list[Any] = []
    last: list[tuple[int, list[str]]] = []  # rows that may be lines about the file, at its end
    tops: list[list[str]] = []  # the header, and units
    again = comments = 0
    width, against = len(form.names), "the header" if form.header else "the first row"

    def gather() -> None:
        columns = [arrow_texts(cells) for cells in zip(*waiting, strict=True)]
        parts.append(pa.Table.from_arrays(columns, [str(i) for i in range(len(columns))]))
        waiting.clear()

    def refuse(line: int, row: list[str]) -> None:
        way = "the row is cut short" if len(row) < width else "a text that holds the separator needs quotes"
        text = f"has {many(len(row), 'cell')}, {against} has {width:,}; {way}: correct it, or leave the row out"
        mistakes.add(f"{form.source}:{line}", text)

    for number, row in enumerate(records):
        if number < form.top:
            tops += [] if any(map(is_number, row)) else [row]
            continue
        if row in tops:
            again += 1
            continue
        while len(row) > width and not row[-1].strip():
            row.pop()
        if len(row) != width and is_comment(row, "", width):
            comments += 1
            continue
        if len(row) != width and "number" in types and is_footer(row, width):
            last.append((records.line, row))
            continue
        for line, other in last:
            refuse(line, other)
        last.clear()
        if len(row) != width:
            if not form.header and "text" not in types:
                return None
            refuse(records.line, row)
            continue
        begins.append(records.line)
        waiting.append(row)
        if len(waiting) == ROWS_AT_ONCE:
            gather()
    if waiting:
        gather()
    mistakes.check()
    if not begins:
        raise BadInput(f"{form.source}: has a header and no row; give rows")
    comments += records.comments
    counts = {"repeated header": again, "comment": comments, "closing line": len(last)}
    form.notes += [f"{counted(n, f'{what} was', f'{what}s were')} passed over" for what, n in counts.items() if n]
    return _table(pa.concat_tables(parts), form, np.array(begins), records.blank)


def _table(columns: Any, form: CsvForm, lines: np.ndarray, blank: int = 0) -> Table:
    empty = [f"{counted(blank, 'empty line was', 'empty lines were')} passed over"] if blank else []
    return Table(
        {name: Column(name, "text", columns.column(i)) for i, name in enumerate(form.names)},
        len(lines),
        Places(form.source, lines=lines.astype(np.int64)),
        form.text,
        form.header,
        form.decimal,
        thousands=form.thousands,
        notes=[*form.notes, *empty],
    )


def _uneven_table(lines: Iterator[str], form: CsvForm, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """Rows of any length without a header: a label and its values, or values alone, as a label and a list."""
    records, begins = CsvRecords(lines, form), []  # type: tuple[CsvRecords, list[int]]
    cells = Cells(Places(form.source), frozenset(spec.na), form.decimal)
    lists: list[np.ndarray] = []
    first: list[str] = []
    start = 0 if spec.target == "" else 1
    for row in records:
        begins.append(records.line)
        first.append(row[0])
        lists.append(cells.row(row[start:], len(lists), lambda i: str(i + start + 1)))
    cells.places = Places(form.source, lines=np.array(begins, dtype=np.int64))
    table = _table(None, replace(form, names=[]), np.array(begins), records.blank)
    cells.report(mistakes, table.notes)
    name = f"{start + 1} and on"
    table.columns = {"1": Column("1", "text", arrow_texts(first))} if start else {}
    table.columns[name] = list_column(name, lists, cells.places)
    if spec.target is None:
        table.roles["target"] = "1"
    table.notes.append(f"{form.source}: rows have {min(map(len, lists)):,} to {max(map(len, lists)):,} values")
    return table


def column_types(form: CsvForm, body: Sequence[Sequence[str]]) -> list[Type]:
    """The type of each column, from the sample: numbers where at least half of its cells are, `empty` without any.

    A column of words in a run of numbered ones that are mostly numbers is one whose numbers are missing; one of
    numbers with one unit, as in 47.04 mg, is of numbers.
    """
    out: dict[str, Type] = {}
    for i, name in enumerate(form.names):
        cells = [cell for row in body if i < len(row) and (cell := row[i].strip()) and cell.lower() != "nan"]
        numbers = count_numbers(cells, form.decimal)
        out[name] = "empty" if not cells else "number" if 2 * numbers >= len(cells) else "text"
        odd = out[name] == "text" or any(cell[0] == "(" for cell in cells)
        if odd and (unit := unit_of(cells, form.decimal, form.fixed, form.thousands)):
            out[name], form.units[name] = "number", unit
    ends = (0, len(out) - 1)  # where labels stand, if no header names them
    labels = {name for i, name in enumerate(out) if not form.header and (i in ends or words_alone(body, i))}
    for run in numbered(form.names).values():
        if len(run) > 3 and sum(out[name] == "text" for name in run) < len(run) / 4:
            out |= {name: "number" for name in run if out[name] == "text" and name not in labels}
    return list(out.values())
