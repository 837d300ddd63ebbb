"""Tables of fixed widths whose columns touch: cells begin and end at the same place in each line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headstart.data.exports import Surroundings
from headstart.data.instruments import Head
from headstart.errors import BadInput
from headstart.text import is_number
from headstart.ways import option

FEWEST_BELOW, FEWEST_COLUMNS = 5, 3
"""Rows and columns from which on a table is looked for."""
ROWS_ALIKE = 0.9
"""Share of the lines that are rows of numbers, and of cells that are whole ones."""
_TOUCHING = re.compile(r"\d(?<![eE])[-+]\d*\.\d|\.\d+\.\d")
"""Within one word: a number behind another one. Days (1.2.2024) have two points, too, and are no such numbers."""
_DIGITS = re.compile(r"[-+\d.eE]*\d")
_RANGE = re.compile(r"(\d+\.?\d*)-(\d+\.?\d*)")
"""From one number to a larger one: 0.5-1.0."""
_COUNTED = re.compile(r"\s*\(\s*\d[\d.,]*\s[^\d()]*\)\s*")
"""A line below the rows that says how many there are: (20 rows affected)."""
_DAY = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
_RULER = re.compile(r"\s*[-=+|]*[-=]{2,}(?:[ +|]+[-=]{2,})+[-=+|]*\s*")
_DASHES = re.compile(r"[-=]{2,}")
_WORD = re.compile(r"\S+")


@dataclass
class FixedWidth(Surroundings):
    """How lines are cut: each cell ends in front of one of `ends`, the last one at the end of its line."""

    ends: Sequence[int] = ()

    def rows(self, lines: Iterable[str], _: str) -> Iterator[str]:
        """As many lines, their cells with a tab between."""
        for number, line in enumerate(lines):
            whole = number >= self.begin and _is_row(line)
            yield "\t".join(_cells(line, self.ends)) + "\n" if whole else "\n"


class Ruled(Surroundings):
    """Cells between bars, with lines of dashes around the names, as programs of data bases print tables."""

    def rows(self, lines: Iterable[str], _: str) -> Iterator[str]:
        """As many lines, without bars around them."""
        for line in lines:
            yield "\n" if _RULER.fullmatch(line.strip()) else line.strip().strip("|") + "\n"


def ruled(head: Head) -> Ruled | None:
    """A table whose names have a line of dashes and crosses below them."""
    lines = [line.strip() for line in head.lines]
    at = next((k for k, line in enumerate(lines[:20]) if k and "|" in lines[k - 1] and _RULER.fullmatch(line)), 0)
    names = [cell.strip() for cell in lines[at - 1].strip("|").split("|")]
    if not at or "+" not in lines[at] or len(_DASHES.findall(lines[at])) != len(names) or not all(names):
        return None
    return Ruled(at + 1, mark="|", names=names, header=True, notes=["lines of dashes around the names are passed over"])


def fixed(head: Head) -> FixedWidth | None:
    """Lines of numbers some of which touch, cut where the numbers of all lines end, or as a ruler of dashes says.

    Raises: BadInput where the widths cannot be told.
    """
    lines = [(number, line.rstrip("\r\n")) for number, line in enumerate(head.lines) if line.strip()]
    ruler = next((k for k, (_, line) in enumerate(lines[: min(20, len(lines) // 2)]) if _RULER.fullmatch(line)), None)
    last = [line for _, line in lines[len(lines) // 2 :]]
    if len(lines) < 2 * FEWEST_BELOW or any(mark in line for line in last for mark in '\t;|,"'):
        return None
    joined = [word for line in last for word in line.split() if _touches(word)]
    ranges = 2 * len(set(joined)) <= len(joined) and all(map(_is_range, joined))  # names of classes repeat
    touching = "" if ranges or not joined else joined[0]
    uneven = ruler is not None and len({len(line.split()) for _, line in lines[ruler + 1 :]}) > 1
    if not touching and not uneven:
        return None
    last = [line for line in last if _is_row(line)]
    if ruler is None and sum(map(_of_numbers, last)) < ROWS_ALIKE * len(last):
        return None
    among = _is_row if ruler is not None else _of_numbers
    first = next((k for k, (_, line) in enumerate(lines) if k > (-1 if ruler is None else ruler) and among(line)), 0)
    body = [line for _, line in lines[first:] if among(line)]
    if not body:
        return None
    if first and ruler is None and {len(line.split()) for _, line in lines[first - 1 :]} == {len(body[0].split())}:
        return None  # as many words as names
    ends = _ends(body) if ruler is None else [m.end() for m in _DASHES.finditer(lines[ruler][1])]
    what = f"that touch ({touching!r})" if touching else "with empty cells"
    apart = ruler is not None and not any(line[end : end + 1].strip() for line in body for end in ends)
    if len(ends) < FEWEST_COLUMNS or not (apart or _whole([_cells(line, ends) for line in body])):
        raise BadInput(
            f"{head.source}: has columns of fixed widths {what}, and nothing tells where each ends; "
            f"put blanks or another mark between them ({option('delimiter', ',')}), or a line of dashes above the "
            "rows (---- ------), one group as wide as each column"
        )
    width = len(_cells(body[0], ends))
    above = [line for _, line in lines[:first] if not _RULER.fullmatch(line)]
    names = [_cells(above[-1], ends), above[-1].split()] if above else []
    names = [] if head.spec.header is False else names
    named = next((row for row in names if len(row) == width and all(row) and len(set(row)) == width), [])
    how = "as the line of dashes says" if ruler is not None else "where the numbers of all rows end"
    return FixedWidth(
        lines[first][0],
        mark="\t",
        names=named,
        header=bool(named),
        notes=[f"columns of fixed widths {what} are cut {how}"],
        ends=ends,
    )


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not _COUNTED.fullmatch(line) and not _RULER.fullmatch(line)


def _touches(word: str) -> bool:
    plain = is_number(word) or _DAY.fullmatch(word) or (set(word) <= set("0123456789.") and word.count(".") > 2)
    return _TOUCHING.search(word) is not None and _DIGITS.fullmatch(word) is not None and not plain


def _is_range(word: str) -> bool:
    match = _RANGE.fullmatch(word)
    return match is not None and float(match[1]) < float(match[2])


def _of_numbers(line: str) -> bool:
    """Whether most letters of a line are those of numbers."""
    marks = re.sub(r"\s", "", line) if _is_row(line) else ""
    return 3 * len(re.sub(r"[^\d.+-]", "", marks)) >= 2 * len(marks) > 0


def _ends(lines: Sequence[str]) -> list[int]:
    """Where cells end: where the words of many lines do, and behind decimals whose points stand below each other."""
    words = Counter(match.end() for line in lines for match in _WORD.finditer(line) if is_number(match[0]))
    ends = {end for end, count in words.items() if count > 1}
    points = Counter(match.start() for line in lines for match in re.finditer(r"\.(?=\d)", line))
    for at, count in points.items():
        if count >= ROWS_ALIKE * len(lines):
            decimals = min(len(match[0]) for line in lines if (match := re.match(r"\d+", line[at + 1 :])))
            ends.add(at + 1 + decimals)
    return sorted(ends)


def _cells(line: str, ends: Sequence[int]) -> list[str]:
    """The cells of a line: what stands behind the last end is one of its own, where there is any."""
    line = line.rstrip("\r\n")
    cells = [line[begin:end].strip() for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    rest = line[ends[-1] :].strip()
    return [*cells, rest] if rest else cells


def _whole(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows have as many cells, and nearly all cells of a column are numbers, or words without a blank."""
    if len({len(row) for row in rows}) > 1:
        return False
    for column in zip(*rows, strict=True):
        there = [cell for cell in column if cell]
        numbers = sum(map(is_number, there))
        words = sum(" " not in cell and not _touches(cell) for cell in there)
        if numbers < len(there) * (ROWS_ALIKE if 2 * numbers > len(there) else 0) or words < len(there):
            return False
    return True
