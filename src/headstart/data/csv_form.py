"""How a text table is written: what separates its cells, what its columns are called, what stands around it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headstart.data.layout import LayoutSpec, check_names
from headstart.data.own_clocks import numbered_clocks
from headstart.data.text import DELIMITERS
from headstart.errors import BadInput
from headstart.text import many

LINES_AT_ONCE = 1 << 24
"""Bytes whose quotes are looked at together."""
UNNAMED = "column {}"
"""The name of a column that the header leaves without one, by its number."""


@dataclass
class CsvForm:
    """How a file is written, as set or recognised: `mark` separates cells, `closing` ends lines, `names` of columns."""

    source: str
    mark: str
    quote: str
    decimal: Literal[".", ","]
    header: bool = False
    names: list[str] = field(default_factory=list)
    begin: int = 0
    """Lines above the header, or above the first row."""
    top: int = 0
    """Rows that are none: the header, and units below it."""
    extra: int = 0
    """Columns at the end that are passed over: they have neither names nor cells."""
    comment: str = ""
    escape: str = ""
    """What stands before a quote inside of quotes, where it is not doubled."""
    closing: str = ""
    thousands: str = ""
    units: dict[str, str] = field(default_factory=dict)
    """Units that stand in the cells of columns of numbers."""
    below: dict[str, str] = field(default_factory=dict)
    """Cells of a row of units below the header, by column."""
    fixed: bool = False
    """Whether another file told how this one is read."""
    first: list[str] = field(default_factory=list)
    """The cells of the header, which may come again further down."""
    notes: list[str] = field(default_factory=list)

    def name_columns(self, first: Sequence[str], even: bool, spec: LayoutSpec) -> None:
        """Names of the header, or numbers from 1; none where rows without a header have different widths.

        Rows of one cell less than the layout's own file had are those without the target. Raises: BadInput where
        rows without a header have another width than those, so that columns cannot be told from each other.
        """
        if self.header:
            names = [name.strip() or UNNAMED.format(i) for i, name in enumerate(first, 1)]
            self.names = check_names(numbered_clocks(names), f"{self.source}:{self.begin + 1}")
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
                    f"{self.source}:{self.begin + 1}: has {many(count, 'cell')}, the rows of the file that was fitted "
                    f"have {width:,}, and no header says which are which; give rows of as many cells (that of the "
                    "target may be empty, and those at the end of a shorter sequence)"
                )
            self.names = numbers[:count]

    @property
    def text(self) -> str:
        """How the file is written, in words."""
        name = {"": "one cell a row", " ": "separated by blanks"}.get(
            self.mark, f"{DELIMITERS.get(self.mark, repr(self.mark))}-separated"
        )
        decimals = ", decimal commas" if self.decimal == "," else ""
        names = {",": "commas", ".": "points", "'": "apostrophes", " ": "blanks"}
        decimals += f", {names[self.thousands]} between thousands" if self.thousands else ""
        return f"{name} {'with a header' if self.header else 'without a header'}{decimals}"


def all_quoted(lines: Sequence[str]) -> bool:
    """Whether all lines begin with a quote."""
    return all(line.startswith('"') for line in lines if line.strip())


def escape_of(lines: Sequence[str], form: CsvForm) -> str:
    """A backslash where it stands before quotes inside of quotes: rows are alike with it alone; else ""."""
    if form.quote != '"' or not form.mark.strip(" ") or not any('\\"' in line for line in lines):
        return ""
    widths = []
    for more in ({}, {"escapechar": "\\"}):
        try:
            rows = list(csv.reader(lines, delimiter=form.mark, strict=True, **more))  # type: ignore[arg-type]
            widths.append({len(row) for row in rows[1:] if row})  # R's header may have one cell less
        except csv.Error:
            widths.append(set())
    return "\\" if len(widths[1]) == 1 != len(widths[0]) else ""


def plain_quotes(content: bytes, begin: int, top: bytes, form: CsvForm) -> bool:
    """Whether quotes stand from `begin` on around whole cells of one line alone, none of them empty, and never inside;
    and no line begins as the header or a comment does. top: the lines of the header."""
    quote, mark = form.quote.encode(), form.mark.encode()
    starts = [start for name in form.first[:1] for start in (form.quote + name, name + form.mark)]
    starts += [form.quote + form.comment] * bool(form.comment)
    if (
        form.escape
        or len(quote) != 1
        or any(line.count(quote) % 2 for line in top.splitlines())
        or any(content.find(f"\n{start}".encode(errors="surrogateescape"), max(begin - 1, 0)) >= 0 for start in starts)
    ):
        return False
    around = np.frombuffer(b"\n" + mark, np.uint8)
    while begin < len(content):
        end = content.rfind(b"\n", begin, begin + LINES_AT_ONCE) + 1 or content.find(b"\n", begin) + 1 or len(content)
        lines = np.frombuffer(b"\n%b\n" % content[begin:end].replace(b"\r\n", b"\n"), np.uint8)
        quotes, ends, begin = np.flatnonzero(lines == quote[0]), np.flatnonzero(lines == ord("\n")), end
        opens, closes = quotes[::2], quotes[1::2]
        if len(opens) != len(closes) or not (
            np.isin(lines[opens - 1], around).all()
            and np.isin(lines[closes + 1], around).all()
            and (closes > opens + 1).all()
            and (np.searchsorted(ends, opens) == np.searchsorted(ends, closes)).all()
        ):
            return False
    return True


def end_of_line(content: bytes, count: int) -> int:
    """Where so many lines end."""
    at = 0
    for _ in range(count):
        at = content.find(b"\n", at) + 1 or len(content)
    return at


def passed_over(content: bytes, at: int, mark: str, header: Sequence[str], comment: str, width: int) -> bool:
    """Whether a line from `at` on is a comment, the header again, or has no cell."""
    again = mark.join(header).encode(errors="surrogateescape") if len(header) > 1 else b""
    empty = mark.encode() * (width - 1)
    starts = [*([comment.encode()] if comment else []), *([again] if again else [])]
    ends = [empty + end for end in (b"\n", b"\r\n") if empty]
    return any(content.find(b"\n" + start, max(at - 1, 0)) >= 0 for start in [*starts, *ends])
