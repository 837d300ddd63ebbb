"""CSV, TSV and the like as a table: how a file is written is told from its first rows; its columns are read as text."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headstart.data.archives import reading, unpacked
from headstart.data.layout import TEXTS, LayoutSpec, by_role, check_names, is_role, numbered, plain
from headstart.data.numerals import check_thousands, find_decimal
from headstart.data.rows import list_column
from headstart.data.sizes import check_columns
from headstart.data.table import Cells, Column, Table, Type, arrow_texts
from headstart.data.text import (
    DELIMITERS,
    cut,
    find_delimiter,
    is_number,
    mostly_numbers,
    text_lines,
    words_above,
)
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import counted, first_few, many
from headstart.ways import option

SAMPLE_ROWS = 1_000
"""Rows that are looked at before it is decided how to read the file."""
SAMPLE_SIZE = 2**24
"""Characters of the sample; rows of a wide table may be long."""
SAMPLE_CELLS = 200_000
"""Cells of the sample."""
ROWS_AT_ONCE = 512
"""Rows that become Arrow columns together."""
PARSED_BYTES, LARGE_BYTES = 2**20, 2**23
"""Bytes from which on Arrow's parser is worth its import, and its threads: these may abort a process that ends soon."""


@dataclass
class CsvForm:
    """How a file is written, as set or recognised: `mark` separates cells, `names` are of its columns."""

    source: str
    mark: str
    quote: str
    decimal: Literal[".", ","]
    header: bool = False
    names: list[str] = field(default_factory=list)

    def name_columns(self, first: Sequence[str], even: bool, spec: LayoutSpec) -> None:
        """Names of the header, or numbers from 1; none where rows without a header have different widths.

        Rows of one cell less than the layout's own file had are those without the target. Raises: BadInput where
        rows without a header have another width than those, so that columns cannot be told from each other.
        """
        if self.header:
            names = (name.strip() or f"column {i}" for i, name in enumerate(first, 1))
            self.names = check_names(names, f"{self.source}:1")
        elif even:
            count, width, roles = (
                len(first),
                spec.columns or len(first),
                {spec.target, spec.id, spec.group} - {None, ""},
            )
            numbers = [str(i + 1) for i in range(max(count, width))]
            if count == width - 1 and roles == {spec.target}:
                numbers.remove(str(spec.target))
            elif count != width and roles:
                raise BadInput(
                    f"{self.source}:1: has {many(count, 'cell')}, the rows of the file that was fitted have {width:,}, "
                    "and no header says which are which; give rows of as many cells (that of the target may be empty, "
                    "and those at the end of a shorter sequence)"
                )
            self.names = numbers[:count]

    @property
    def text(self) -> str:
        """How the file is written, in words."""
        name = {"": "one cell a row", " ": "separated by blanks"}.get(
            self.mark, f"{DELIMITERS.get(self.mark, repr(self.mark))}-separated"
        )
        decimals = ", decimal commas" if self.decimal == "," else ""
        return f"{name} {'with a header' if self.header else 'without a header'}{decimals}"


def read_csv(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A text table. Raises: BadInput where it is empty or no text; what is wrong with a row goes to `mistakes`."""
    return read_lines(path, lambda: text_lines(path, spec.encoding, mistakes), spec, mistakes, _plain_table)


def read_lines(
    path: Path,
    all_lines: Callable[[], Iterator[str]],
    spec: LayoutSpec,
    mistakes: Mistakes,
    quickly: Callable[[Path, CsvForm, LayoutSpec], Table | None] = lambda *_: None,
) -> Table:
    """As `read_csv`, of the lines of whatever file. quickly: reads it at once, where it can."""
    lines = all_lines()
    sample, form, body = recognised(path, spec, lines)
    if form.names:
        types = column_types(form, body)
        table = quickly(path, form, spec) or _any_table(itertools.chain(sample, lines), form, types, mistakes)
        if table is not None:
            return typed(table, types, spec, form)
    return _uneven_table(all_lines(), form, spec, mistakes)


def recognised(path: Path, spec: LayoutSpec, lines: Iterator[str]) -> tuple[list[str], CsvForm, list[list[str]]]:
    """(first lines, how the file is written, some rows). Raises: BadInput where it is empty, or has no row."""
    sample = _sample(lines)
    if (
        len(sample) > 2
        and sample[0].startswith("@")
        and sample[2].startswith("+")
        and sample[1].strip("\r\n").isalpha()
    ):
        raise BadInput(f"{path}: is FASTQ; give it the ending .fastq, or set format=fastq")
    form = _form(path, spec, sample)
    rows = _parsed(sample, form)
    if not rows:
        raise BadInput(f"{path}: is empty; give a file with rows")
    check_columns(path, len(rows[0]))
    if spec.shape != "list":
        form.decimal = find_decimal(rows, str(path), spec.decimal)
    form.header = has_header(rows, form.decimal) if spec.header is None else spec.header
    if form.header and len(rows) == 1:
        raise BadInput(f"{path}: has a header and no row; give rows, or set header=false where the row is data")
    _check_words(sample, rows, form, spec)
    body = rows[1:] if form.header else rows
    body = body[: max(50, SAMPLE_CELLS // max(len(rows[0]), 1))]
    form.name_columns(rows[0], len({len(row) for row in body}) == 1, spec)
    return sample, form, body


def _check_words(sample: list[str], rows: Sequence[Sequence[str]], form: CsvForm, spec: LayoutSpec) -> None:
    """Raises: BadInput where a row above the numbers holds words: units, or the header below lines about the file."""
    row, words = words_above(rows, int(form.header), form.decimal, spec.na)
    if row is None:
        return
    records = CsvRecords(iter(sample), form)
    line = next(records.line for k, _ in enumerate(records) if k == row)
    what = "a header does; leave out the lines above it"
    if form.header and row == 1 and not (by_role("id", rows[row]) or by_role("target", rows[row])):
        way = option("na", *list(dict.fromkeys(words))[:5])
        what = f"a row of units does; leave it out (or, where they are missing values, give {way})"
    some = first_few([repr(word) for word in dict.fromkeys(words)], 3)
    raise BadInput(f"{form.source}:{line}: holds words ({some}) where the rows below hold numbers, as {what}")


def typed(table: Table, types: list[Type], spec: LayoutSpec, form: CsvForm) -> Table:
    """The table with the types of its columns; one that the sample shows empty has a type from its cells.

    Raises: BadInput where points may stand between thousands.
    """
    for column, kind in zip(table.columns.values(), types, strict=True):
        column.type = kind if kind != "empty" else _later_type(column, spec, form)
    if spec.decimal == "auto":
        check_thousands(table)
    return table


def _form(path: Path, spec: LayoutSpec, sample: Sequence[str]) -> CsvForm:
    """What separates cells. Raises: BadInput where one was set that cuts nothing, and another would."""
    likely = find_delimiter(sample[:50], path.name, spec.quote)
    mark = likely if spec.delimiter is None else spec.delimiter
    if spec.delimiter is not None and likely not in ("", mark):
        rows = cut(sample[:50], mark, spec.quote)
        if rows and all(len(row) < 2 for row in rows):
            count = len(sample[0].split()) if likely == " " else len(cut(sample[:1], likely, spec.quote)[0])
            raise BadInput(
                f"{path}: cut at {mark!r} it has one column, cut at {likely!r} {count:,}; give "
                f"{option('delimiter', likely)}, or leave it out"
            )
    return CsvForm(str(path), mark, spec.quote, "." if spec.decimal == "auto" else spec.decimal)


def _sample(lines: Iterator[str]) -> list[str]:
    out, size = [], 0
    for line in lines:
        out.append(line)
        size += len(line)
        if len(out) > SAMPLE_ROWS or size > SAMPLE_SIZE:
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
    """Rows of cells with the line on which each begins; lines without a cell are passed over and counted."""

    def __init__(self, lines: Iterator[str], form: CsvForm) -> None:
        self.form, self.blank, self.line = form, 0, 1
        if form.mark == " ":
            lines = (" ".join(line.split()) + "\n" for line in lines)
        rules: dict[str, Any] = {"delimiter": form.mark or "\x1f", "strict": True}
        rules |= {"quotechar": form.quote} if form.quote and form.mark != " " else {"quoting": csv.QUOTE_NONE}
        self._reader = csv.reader(lines, **rules)

    def __iter__(self) -> Iterator[list[str]]:
        reader, begin = self._reader, 1
        before = csv.field_size_limit(2**31 - 1)
        try:
            for row in reader:
                self.line, begin = begin, reader.line_num + 1
                if row:
                    yield row
                else:
                    self.blank += 1
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
    """The table by Arrow's parser, where the file is not small, and plain: UTF-8, a line for each row, nothing quoted.

    None otherwise, and where anything is wrong: the reader that knows lines tells what, and where.
    """
    with reading(path), unpacked(path) as file:
        content = file.read()
    return None if len(content) < PARSED_BYTES else of_lines(content, form, spec, threads=len(content) >= LARGE_BYTES)


def of_lines(content: bytes, form: CsvForm, spec: LayoutSpec, first: int = 1, threads: bool = True) -> Table | None:
    """As `_plain_table`, of whole lines, the first of which has this number in its file."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if form.mark == " " or not form.mark.isascii() or codecs.lookup(spec.encoding).name != "utf-8":
        return None
    lines, head = content.count(b"\n") + (not content.endswith(b"\n")), form.header and first == 1
    quoted = bool(form.quote) and form.quote.encode() in content
    marked = first > 1 and content.startswith(codecs.BOM_UTF8)  # which Arrow takes for the beginning of a file
    if quoted or marked or content.count(b"\r") != content.count(b"\r\n"):
        return None
    names = [str(i) for i in range(len(form.names))]
    try:
        columns = arrow_csv.read_csv(  # the header, too: it is the first row, whatever lines are empty
            pa.BufferReader(content),
            arrow_csv.ReadOptions(column_names=names, use_threads=threads),
            arrow_csv.ParseOptions(delimiter=form.mark or "\x1f", quote_char=False),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid:
        return None
    rows = columns.slice(int(head)) if columns.num_rows == lines else None  # otherwise there are empty lines
    return None if rows is None else _table(rows, form, np.arange(first + head, first + lines))


def _any_table(lines: Iterator[str], form: CsvForm, types: list[Type], mistakes: Mistakes) -> Table | None:
    """The table row by row; None for a file of numbers without a header in which a row has another width."""
    import pyarrow as pa

    records = CsvRecords(lines, form)
    begins: list[int] = []
    waiting: list[list[str]] = []
    parts: list[Any] = []
    width, against = len(form.names), "the header" if form.header else "the first row"

    def gather() -> None:
        columns = [arrow_texts(cells) for cells in zip(*waiting, strict=True)]
        parts.append(pa.Table.from_arrays(columns, [str(i) for i in range(len(columns))]))
        waiting.clear()

    for number, row in enumerate(records):
        if form.header and number == 0:
            continue
        if len(row) != width:
            if not form.header and "text" not in types:
                return None
            way = "the row is cut short" if len(row) < width else "a text that holds the separator needs quotes"
            mistakes.add(
                f"{form.source}:{records.line}",
                f"has {many(len(row), 'cell')}, {against} has {width:,}; {way}: correct it, or leave the row out",
            )
            continue
        begins.append(records.line)
        waiting.append(row)
        if len(waiting) == ROWS_AT_ONCE:
            gather()
    if waiting:
        gather()
    mistakes.check()
    return _table(pa.concat_tables(parts), form, np.array(begins), records.blank)


def _table(columns: Any, form: CsvForm, lines: np.ndarray, blank: int = 0) -> Table:
    return Table(
        {name: Column(name, "text", columns.column(i)) for i, name in enumerate(form.names)},
        len(lines),
        Places(form.source, lines=lines.astype(np.int64)),
        form.text,
        form.header,
        form.decimal,
        notes=[f"{counted(blank, 'empty line was', 'empty lines were')} passed over"] if blank else [],
    )


def _later_type(column: Column, spec: LayoutSpec, form: CsvForm) -> Type:
    """The type of a column that was empty in the sample and may have cells later on."""
    cells = Cells(Places(form.source), frozenset(spec.na), form.decimal)
    there = [word or "" for word in column.words if not cells.missing(word)]
    numbers = sum(is_number(word, form.decimal) for word in there)
    return "empty" if not there else "number" if 2 * numbers >= len(there) else "text"


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
    cells.report(mistakes)
    table = _table(
        None, CsvForm(form.source, form.mark, form.quote, form.decimal, form.header), np.array(begins), records.blank
    )
    name = f"{start + 1} and on"
    table.columns = {"1": Column("1", "text", arrow_texts(first))} if start else {}
    table.columns[name] = list_column(name, lists, cells.places)
    if spec.target is None:
        table.roles["target"] = "1"
    table.notes.append(f"{form.source}: rows have {min(map(len, lists)):,} to {max(map(len, lists)):,} values")
    return table


def has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row names the columns, told from what stands under it."""
    head, below = rows[0], rows[1:]

    number = partial(is_number, decimal=decimal)
    numeric = [i for i in range(len(head)) if mostly_numbers([row[i] for row in below if i < len(row)], decimal)]
    named = sum(bool(head[i].strip()) and not number(head[i]) and head[i].strip().lower() != "nan" for i in numeric)
    if 2 * named > len(numeric) > 0:
        return True
    own = [i for i, cell in enumerate(head) if not any(i < len(row) and row[i] == cell for row in below)]
    if any(is_role(head[i]) or plain(head[i]) in TEXTS for i in own if not number(head[i])):
        return True
    words = [i for i, cell in enumerate(head) if not number(cell)]  # a word that comes again is a label
    if below and set(words) <= set(own) and _counts_on(head, decimal) and not _counts_on(below[0], decimal):
        return True
    if numeric or len(head) == 1 or not below:
        return False
    short = all(0 < len(cell.strip()) <= 32 and len(cell.split()) == 1 for cell in head)
    return short and len(set(head)) == len(head) == len(own)


def _counts_on(row: Sequence[str], decimal: str) -> bool:
    """Whether the numbers of a row go on in equal steps, as 0, 1, 2 and 0.0, 0.1, 0.2 do, or grow beside a word."""
    numbers = [float(cell.replace(decimal, ".")) for cell in row if is_number(cell, decimal)]
    steps = {round(b - a, 9) for a, b in itertools.pairwise(numbers)}
    return len(numbers) > 2 and min(steps) > 0 and (len(steps) == 1 or len(numbers) < len(row))


def column_types(form: CsvForm, body: Sequence[Sequence[str]]) -> list[Type]:
    """The type of each column, from the sample: numbers where at least half of its cells are, `empty` without any.

    A column of words in a run of numbered ones that are mostly numbers is one whose numbers are missing.
    """
    out: dict[str, Type] = {}
    for i, name in enumerate(form.names):
        cells = [cell for row in body if i < len(row) and (cell := row[i].strip()) and cell.lower() != "nan"]
        numbers = sum(is_number(cell, form.decimal) for cell in cells)
        out[name] = "empty" if not cells else "number" if 2 * numbers >= len(cells) else "text"
    labels = set() if form.header else {form.names[0], form.names[-1]}  # stand at an end, where no header names them
    for run in numbered(form.names).values():
        if len(run) > 3 and sum(out[name] == "text" for name in run) < len(run) / 4:
            out |= {name: "number" for name in run if out[name] == "text" and name not in labels}
    return list(out.values())
