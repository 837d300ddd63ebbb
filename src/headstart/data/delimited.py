"""CSV, TSV and the like as a table: every cell in its place, columns of numbers read in bulk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from headstart.data.gathered import OtherWidth, Records, Rows, any_length
from headstart.data.layout import LayoutSpec
from headstart.data.problems import Mistakes
from headstart.data.sniff import Form, bulk_columns, column_types, cut, find_decimal, find_delimiter, has_header
from headstart.data.table import Table
from headstart.data.text import text_lines
from headstart.errors import BadInput

SAMPLE = 1_000
"""Rows that are looked at before it is decided how to read the file."""
SAMPLE_SIZE = 2**24
"""Characters of the sample; rows of a wide table may be long."""
CELLS = 200_000
"""Cells of the sample."""


def read_delimited(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A text table. Raises: BadInput where it is empty or no text; what is wrong with a row goes to `mistakes`."""
    lines = text_lines(path, spec.encoding, mistakes)
    sample = _sample(lines)
    form = _form(path, spec, sample)
    rows = _parsed(sample, form)
    if not rows:
        raise BadInput(f"{path}: is empty; give a file with rows")
    if spec.decimal == "auto":
        form.decimal = find_decimal(rows, form.mark)
    form.header = has_header(rows, form.decimal) if spec.header is None else spec.header
    if form.header and len(rows) == 1:
        raise BadInput(f"{path}: has a header and no row; give rows, or set header=false where the row is data")
    body = rows[1:] if form.header else rows
    body = body[: max(50, CELLS // max(len(rows[0]), 1))]
    form.name_columns(rows[0], len({len(row) for row in body}) == 1)
    if form.names:
        form.types = column_types(form, body)
        form.bulk = bulk_columns(form, body, spec)
        try:
            return Rows(form, spec, mistakes).table(itertools.chain(sample, lines))
        except OtherWidth:
            form.names = []
    return any_length(text_lines(path, spec.encoding, mistakes), form, spec, mistakes)


def _form(path: Path, spec: LayoutSpec, sample: Sequence[str]) -> Form:
    """What separates cells. Raises: BadInput where one was set that cuts nothing, and another would."""
    found = find_delimiter(sample[:50], path.name, spec.quote)
    mark = found if spec.delimiter is None else spec.delimiter
    if spec.delimiter is not None and found not in ("", mark):
        rows = cut(sample[:50], mark, spec.quote)
        if rows and all(len(row) < 2 for row in rows):
            count = len(sample[0].split()) if found == " " else len(cut(sample[:1], found, spec.quote)[0])
            raise BadInput(
                f"{path}: cut at {mark!r} it has one column, cut at {found!r} {count:,}; give --delimiter "
                f"{found!r}, or leave it out"
            )
    return Form(str(path), mark, spec.quote, "." if spec.decimal == "auto" else spec.decimal)


def _sample(lines: Iterator[str]) -> list[str]:
    out, size = [], 0
    for line in lines:
        out.append(line)
        size += len(line)
        if len(out) > SAMPLE or size > SAMPLE_SIZE:
            break
    return out


def _parsed(sample: list[str], form: Form) -> list[list[str]]:
    """Rows of the sample; what follows a row that cannot be read is left to the reading of the whole."""
    rows: list[list[str]] = []
    try:
        for row in Records(iter(sample), form):
            rows.append(row)
    except BadInput:
        if not rows or (len(sample) <= SAMPLE and sum(map(len, sample)) <= SAMPLE_SIZE):
            raise
    return rows
