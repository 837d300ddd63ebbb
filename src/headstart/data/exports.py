"""What an instrument writes around its table: lines above the header, rows of units below it, comments, a header again.

What is certain is passed over and said; what may be read in two ways is refused with an option for each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headstart.data.layout import TARGET, LayoutSpec, is_role, plain
from headstart.data.text import SAME_SHARE, blank_cells, cut, find_delimiter
from headstart.errors import BadInput
from headstart.text import counted, first_few, to_float
from headstart.ways import asked, field_name, option

COMMENTS = ("#", "%", "//")
"""How lines begin that are no rows, where they have another number of cells than the rows."""
LINES_ABOVE, ROWS_BELOW, LINES_LAST = 200, 200, 50
"""Lines among which the header is looked for; rows and columns that are looked at for it; lines whose cells are
counted, from the last part of the sample."""
MOST_LEVELS = 8
"""Lines that name columns together."""
REMARKS = frozenset(("comment", "comments", "note", "notes", "remark", "remarks"))
"""Last names of a header that rows may have no cell for."""
LINES_ALIKE = 10
"""Lines of one number each from which on they are a column."""
FEW_COLUMNS = 3
"""Columns up to which a line above the header may have as many cells as it has."""
LABELLED_COLUMNS, FEW_LABELS = 6, 20
"""Columns from which on words for each of them may be labels, and kinds of labels that there may be."""
_SEPARATOR = re.compile(r"^\ufeff?\"?sep=(.)\"?;*,*\s*$", re.IGNORECASE)
_NUMBER = re.compile("^[+-]?(?:\\d[\\d.,'\u00a0\u2009\u202f\u2019 ]*|[.,]\\d+)(?:[eE][+-]?\\d+)?$")
_LONE = re.compile(r"^\s*[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?\s*$")
_END = re.compile(
    r"^\W*(end[_ ]?of[_ ]?header|begin[_ ](spectral[_ ])?data|(chromatogram[_ ])?data|xydata)\W*$", re.IGNORECASE
)
"""A line behind which the table begins: ***End_of_Header***, [Data]."""
_DIGITS = re.compile(r"\d")
_KEY = re.compile(r"^[A-Za-z]\w*=$")
"""A first cell of a line about the file: Interval=."""
_BELOW_ZERO = re.compile(r"^\([^()]*\d[.,]\d+\s*\)$")
"""A number below 0 in the brackets of an account."""
# fmt: off
_BASES = (r"(?:[pnuµμmcdhkMGT]?(?:s|V|A|W|Hz|N|Pa|g|G|T|K|m|l|L|J|S|F|C|Ω|ohm|Ohm|mol|M|lx|lm|cd|cal|bar|bps|rad|sec|"
    r"px|Nm|deg|gal|eV|bits?|pH)|°[CF]?|º[CF]?|[Dd]eg ?[CF]|[Vv]olts|[Aa]mps|dB[A-Za-z]*|ms|min|hr?|"
    r"hrs|day|days|d|yr|sec|secs|seconds?|minutes?|hours?|"
    r"%|‰|ppm|ppb|psi|mmHg|cmH2O|bpm|rpm|counts?|cts|a\.?u\.?|arb\.?|pixels?|samples?|units?|in|ft|mph|kmh|lb|atm|dps|"
    r"microvolts?|millivolts?|volts?|degrees?|percent|hertz|meters?|metres?|celsius|none|n/?a|1)")
_POWER = r"(?:\^\(?-?[0-9]\)?|[²³⁻¹]+|(?<=[ms])-?[123])?"
_UNIT = re.compile(rf"^{_BASES}{_POWER}(?:\s?[/·*. ]\s?\(?{_BASES}\)?{_POWER})*$")
_AGAINST = re.compile(r"\s+vs\.?\s.*$")
"""What a potential is measured against: V vs. Ref."""
_TYPES = frozenset(("float", "float32", "float64", "double", "int", "int32", "int64", "integer", "string", "str",
    "text", "number", "numeric", "real", "varchar", "char", "bool", "boolean", "datetime", "continuous", "discrete",
    "c", "d", "class", "meta", "ignore", "i", "s", "ts", "rn", "smp", "avg", "tot"))
# fmt: on


@dataclass
class Surroundings:
    """Of a text table: lines before the header (`begin`), rows of units below it (`below`), the mark that the file
    itself names, the names that stand in a comment, what comments begin with, and what is said of all this."""

    begin: int = 0
    below: int = 0
    mark: str | None = None
    names: list[str] = field(default_factory=list)
    comment: str = ""
    header: bool | None = None
    notes: list[str] = field(default_factory=list)


def is_unit(cell: str) -> bool:
    """Whether a cell is a unit of measure, such as mV, (s) or m/s^2, or stands for none."""
    plain = cell.strip().strip("'\"").strip()
    if _BELOW_ZERO.match(plain):
        return False
    plain = _AGAINST.sub("", plain)
    if not plain or set(plain) <= set("-.#") or (plain[0] in "([{<" and plain[-1] in ")]}>" and len(plain) < 24):
        return True
    return _UNIT.fullmatch(plain) is not None


def is_comment(row: Sequence[str], comment: str, width: int) -> bool:
    """Whether a row is a comment: by the mark that was set, or by a usual one beside another number of cells."""
    if comment:
        return row[0].startswith(comment)
    return len(row) != width and row[0].lstrip().startswith(COMMENTS)


def unfilled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether no row has a cell for the last name: each has one less than the header."""
    return len(header) > 2 and bool(rows) and all(len(row) == len(header) - 1 for row in rows)


def empty_ends(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns at the end without a name and without a cell, as a separator at the end of each line makes them."""
    width = len(header)
    longer = [row for row in rows if len(row) == width + 1]
    if width > 1 and 2 * len(longer) > len(rows) and not any(row[-1].strip() for row in longer):
        return 1
    count = 0
    while count < width - 2 and not header[-1 - count].strip():
        if any(len(row) >= width - count and row[width - 1 - count].strip() for row in rows):
            break
        count += 1
    return count


def is_footer(row: Sequence[str], width: int) -> bool:
    """Whether a row that nothing follows is a line about the file, such as `Total rows: 24` or `--- end ---`."""
    cells = [cell.strip() for cell in row if cell.strip()]
    if not cells or len(cells) > (1 if width < 4 else 2):
        return not cells
    return not cells[0][0].isalnum() or " " in cells[0] or ":" in cells[0]


def surroundings(lines: Sequence[str], name: str, source: str, spec: LayoutSpec) -> Surroundings:
    """What stands around the table of these first lines. Raises: BadInput where two lines may be its header."""
    out = Surroundings(comment=spec.comment or "")
    if spec.skip is not None:
        out.begin = spec.skip
        if spec.skip >= len(lines):
            raise BadInput(
                f"{source}: {field_name('skip')}: it has {len(lines):,} lines, and to pass over {spec.skip} leaves none"
            )
    elif match := _SEPARATOR.match(lines[0] if lines else ""):
        out.begin, out.mark = 1, match[1]
    if spec.skip is None and spec.header is not False and (levels := _levels(lines, name, spec)) is not None:
        return levels
    if spec.skip is None and not out.begin:
        out.begin = _behind(lines)
        if start_and_rate(lines):
            out.begin, out.header = 2, False
            rate = lines[1].split(",")[0].strip()
            way = f"{option('skip', '0')} reads them"
            out.notes.append(f"lines 1 and 2, a time and a rate of {rate} a second, were passed over ({way})")
            return out
        if single := _one_column(lines, out.begin):
            out.begin, out.header = single, False
            out.notes.append(_passed(single))
            return out
    begin, mark = out.begin, out.mark
    for _ in range(2):  # lines above the table may hide what separates the cells below them
        rows, cut_at, width = _rows(lines, name, spec, mark)
        if width < 2 or not cut_at:
            return out
        numbers = _numeric(rows, width)
        if spec.skip is None:
            out.begin = begin
            _above(rows, width, numbers, out, spec)
        mark = spec.delimiter or out.mark or find_delimiter(lines[out.begin :][:LINES_LAST], name, spec.quote)
        if mark in (cut_at, ""):
            break
    if spec.skip is None:
        _refuse_rows_above(rows[: out.begin], width, numbers, source)
    _below(rows, numbers, out, source, spec)
    _counts_below(rows, width, out, spec)
    if spec.skip is None and not any(line.strip() for line in lines[: out.begin]):
        out.begin = 0  # empty lines are counted where they are read
    elif spec.skip is None and out.begin > (out.mark is not None):
        out.notes.insert(0, _passed(out.begin))
    return out


def _levels(lines: Sequence[str], name: str, spec: LayoutSpec) -> Surroundings | None:
    """The names of columns of several levels, as pandas writes them: lines of levels, each with a name or none in the
    columns of the index, above one of the names of these columns alone; or with cells for some columns alone, whose
    first line names several of them alike."""
    mark = spec.delimiter or find_delimiter(lines[:LINES_LAST], name, spec.quote)
    rows = (
        [[cell.strip() for cell in row] for row in cut(lines[:MOST_LEVELS], mark, spec.quote)] if mark.strip() else []
    )
    width = len(rows[0]) if rows else 0
    if any(len(row) != width for row in rows):
        return None
    for i, row in enumerate(rows):
        index, levels = _reach(row), rows[:i]
        whole = all(not any(level[1:index]) and all(level[index:]) for level in levels)
        if whole and len(levels) > 1 and 0 < index <= width // 2 + 1 < width and all(row[:index]):
            return _of_levels(levels, row[:index], i + 1, mark)
    lone = [k for k, cell in enumerate(rows[1]) if not cell and rows[0][k]] if len(rows) > 2 else []
    several = [k for k in range(1, width) if k not in lone]
    count = next((i for i, row in enumerate(rows) if i and any(row[k] for k in lone)), 0)
    repeated = len({rows[0][k] for k in several}) < len(several) if rows else False
    if lone and count > 1 and repeated and all(level[k] for level in rows[:count] for k in several):
        return _of_levels(rows[:count], [], count, mark)
    return None


def _of_levels(levels: Sequence[Sequence[str]], index: Sequence[str], begin: int, mark: str) -> Surroundings:
    names = [
        *index,
        *(" ".join(cells).strip() for cells in zip(*(level[len(index) :] for level in levels), strict=True)),
    ]
    note = f"names of columns are those of lines 1 to {len(levels)} together, as {names[-1]!r}"
    return Surroundings(begin, mark=mark, names=names, header=True, notes=[note])


def _counts_below(rows: Sequence[Sequence[str]], width: int, out: Surroundings, spec: LayoutSpec) -> None:
    """Find a row below the header without a first cell, which all others have, that holds one whole number alone: how
    many samples there are."""
    at = out.begin + (not out.names) + out.below
    if spec.units_row is not None or at + LINES_ALIKE > len(rows) or len(rows[at]) < 2:
        return
    cells = {cell.strip() for cell in rows[at][1:] if cell.strip()}
    below = [row for row in rows[at + 1 :] if len(row) >= width - 1]
    if rows[at][0].strip() or len(cells) != 1 or not next(iter(cells)).isdecimal():
        return
    if all(row[0].strip() for row in below) and not any(row[1:] == rows[at][1:] for row in below):
        out.below += 1
        way = f"{option('units_row')} sets how many"
        out.notes.append(f"line {at + 1:,} was passed over, as it counts samples ({next(iter(cells))}; {way})")


def start_and_rate(lines: Sequence[str]) -> int:
    """2 where the first line is a time in seconds since 1970 and the second a rate, each the same in all cells, above
    numbers of another size, as wrist-worn loggers write them; else 0."""
    rows = [[cell.strip() for cell in line.split(",")] for line in lines[:ROWS_BELOW] if line.strip()]
    if len(rows) < LINES_ALIKE or not all(map(_LONE.match, rows[0] + rows[1])):
        return 0
    alike = len(set(rows[0])) == len(set(rows[1])) == 1 and len({len(row) for row in rows}) == 1
    since, rate = to_float(rows[0][0]), to_float(rows[1][0])
    rest = [abs(to_float(row[0])) for row in rows[2:]]
    return 2 * bool(alike and 1e9 < since < 3e9 and 0 < rate <= 1e5 and all(value < 1e8 for value in rest))


def _passed(begin: int) -> str:
    """What is said of lines above a table."""
    count = counted(begin, "line above the table was", "lines above the table were")
    return f"{count} passed over ({option('skip')} sets how many)"


def _behind(lines: Sequence[str]) -> int:
    """The line behind the last one that says that the table begins there; 0 where none does."""
    ends = [i for i, line in enumerate(lines[:LINES_ABOVE]) if _END.match(line.strip())]
    return ends[-1] + 1 if ends and ends[-1] + 1 < len(lines) else 0


def _one_column(lines: Sequence[str], begin: int) -> int:
    """Where a column of numbers begins whose lines hold one each, behind lines of several cells; 0 where none does."""
    count = next((i for i, line in enumerate(reversed(lines)) if not _LONE.match(line)), len(lines))
    start = len(lines) - count
    above = [line for line in lines[begin:start] if line.strip()]
    cut_above = len(above) > 1 and 2 * sum("," in line or "\t" in line or ";" in line for line in above) > len(above)
    return start if begin <= start <= LINES_ABOVE and count >= LINES_ALIKE and cut_above else 0


def _rows(lines: Sequence[str], name: str, spec: LayoutSpec, mark: str | None) -> tuple[list[list[str]], str, int]:
    """Lines cut into cells, the mark between these, and how many most of the last lines have.

    The mark is that of the first lines, or, where it does not cut the last ones alike, that of these. None where a cell
    goes on over several lines.
    """
    last = lines[-max(4, len(lines) // 3) :][:LINES_LAST]
    marks = [spec.delimiter or mark] if spec.delimiter or mark else []
    for likely in marks or [
        find_delimiter(lines[:LINES_LAST], name, spec.quote),
        find_delimiter(last, name, spec.quote),
    ]:
        rows = (
            [blank_cells(line, spec.quote) for line in lines]
            if likely == " "
            else cut(lines, likely, spec.quote)
            if likely
            else []
        )
        if likely and len(rows) == len(lines) and (width := _width(rows)) > 1:
            return rows, likely, width
    return [], "", 0


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Cells of most of the last rows; 0 where they differ."""
    last = [len(row) for row in rows[-max(4, len(rows) // 3) :] if row]
    width, often = Counter(last).most_common(1)[0] if last else (0, 0)
    return width if often >= SAME_SHARE * len(last) else 0


def _reach(row: Sequence[str]) -> int:
    """Cells up to the last one that is not empty."""
    return next((i for i in range(len(row), 0, -1) if row[i - 1].strip()), 0)


def like_number(cell: str) -> bool:
    """Whether a cell is a number, whatever marks stand in it."""
    plain = cell.strip()
    plain = plain[1:-1].strip() if _BELOW_ZERO.match(plain) else plain
    return bool(plain) and (_NUMBER.match(plain) is not None or to_float(plain) == to_float(plain))


def _numeric(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Columns of which most cells of the last rows are numbers."""
    last = [row for row in rows[-max(4, len(rows) // 3) :][:ROWS_BELOW] if len(row) >= width - 1]
    out = []
    for i in range(min(width, ROWS_BELOW)):
        cells = [row[i] for row in last if i < len(row) and row[i].strip()]
        if cells and 2 * sum(map(like_number, cells)) > len(cells):
            out.append(i)
    return out


def _above(
    rows: Sequence[Sequence[str]], width: int, numbers: Sequence[int], out: Surroundings, spec: LayoutSpec
) -> None:
    """Find the first line that has as many cells as the rows."""
    start, seen = out.begin, ""
    full = max(2, (width + 1) // 2)
    keyed = [i for i in range(start, min(len(rows), LINES_ABOVE)) if rows[i] and _KEY.match(rows[i][0])]
    if len(keyed) > 1 and _is_data(rows, keyed[-1] + 1, numbers):
        out.begin = keyed[-1] + 1
        return
    for i in range(start, min(len(rows), LINES_ABOVE)):
        row = rows[i]
        mark = next((mark for mark in COMMENTS if row and row[0].lstrip("\ufeff ").startswith(mark)), "")
        if mark and spec.comment != "":
            cells = _uncommented(row, mark)
            whole = len(cells) == width and not _like_comment(row)
            if whole and not any(map(like_number, cells)) and _is_data(rows, i + 1, numbers):
                out.begin, out.names, out.header = i + 1, cells, True
                out.notes.append(f"names of columns were read from the comment in line {i + 1:,}")
                return
            if len(row) != width or _like_comment(row):
                seen = mark
                continue
        if _reach(row) >= full and width - 1 <= len(row) <= width + 1:
            headed = not _is_data(rows, i, numbers)
            lines = [row for row in rows[start:i] if _reach(row) and not row[0].lstrip("\ufeff ").startswith(COMMENTS)]
            if headed or all(_is_about(row, width) for row in lines):
                out.begin = i
            break
    else:
        return
    if seen:
        out.comment = seen


def _refuse_rows_above(rows: Sequence[Sequence[str]], width: int, numbers: Sequence[int], source: str) -> None:
    """Raises: BadInput where rows of numbers stand above the table, as those of an earlier one."""
    earlier = [i for i, row in enumerate(rows) if width - 1 <= len(row) <= width + 1 and _is_data(rows, i, numbers)]
    if len(earlier) >= LINES_ALIKE:
        raise BadInput(
            f"{source}:{earlier[0] + 1}: rows of numbers stand above another table, which begins in line "
            f"{len(rows) + 1:,}; save each as a file of its own, or give {option('skip', str(len(rows)))} for the last"
        )


def _is_about(row: Sequence[str], width: int) -> bool:
    """Whether a line above rows without a header is about the file: a remark, few cells, or names with their values."""
    return is_footer(row, width) or 2 * _reach(row) < width - 1 or all(":" in cell for cell in row if cell.strip())


def _uncommented(row: Sequence[str], mark: str) -> list[str]:
    first = row[0].lstrip("\ufeff ").removeprefix(mark).strip()
    rest = [cell.strip() for cell in row[1:]]
    return [first, *rest] if first else rest


def _like_comment(row: Sequence[str]) -> bool:  # no second cell, or a name and its value: `#Laser=`, 532 nm
    return _reach(row) < 2 or row[0].rstrip().endswith(("=", ":"))


def _is_data(rows: Sequence[Sequence[str]], i: int, numbers: Sequence[int]) -> bool:
    """Whether a row has numbers in most of the columns of numbers."""
    if i >= len(rows) or not numbers:
        return False
    cells = [rows[i][k] for k in numbers if k < len(rows[i]) and rows[i][k].strip()]
    return 2 * sum(map(like_number, cells)) > len(cells) > 0


def _below(
    rows: Sequence[Sequence[str]], numbers: Sequence[int], out: Surroundings, source: str, spec: LayoutSpec
) -> None:
    """Find rows of units below the header, or a header below other lines. Raises: BadInput where that is unclear."""
    if out.header or len(numbers) < 1 or spec.header is False:
        if out.header is None and spec.units_row:
            out.below = spec.units_row
        return
    begin = out.begin
    if spec.units_row is not None:
        out.below = spec.units_row
        return
    data = next(
        (i for i in range(begin, min(len(rows), begin + LINES_ABOVE)) if _has_values(rows, i, numbers, spec)), None
    )
    if data is None or data - begin < 2:
        return
    words = [i for i in range(begin, data) if _reach(rows[i])]
    words = [i for i in words if i == words[0] or not _is_event(rows[i], rows[data], numbers)]
    sideways = [i for i in words[1:] if is_class_row(rows[i], rows[words[0]], numbers)]
    if sideways and spec.shape == "auto" and plain(rows[sideways[0]][0]) not in TARGET:
        some = first_few([repr(cell.strip()) for cell in dict.fromkeys(rows[sideways[0]][1:])], 3)
        question = f"{source}:{sideways[0] + 1}: holds words ({some}) that may be labels of the columns, or units"
        raise BadInput(asked(question, {"shape": "columns"}, {"shape": "wide", "units_row": str(sideways[0] - begin)}))
    words = [i for i in words if i not in sideways]
    if len(words) < 2:
        return
    units = 0
    while units < len(words) - 1 and _is_units(rows[words[-1 - units]], rows[words[-2 - units]], numbers):
        units += 1
    header = words[-1 - units]
    first = words[0]
    if units:
        out.below = units
        line = words[-units] + 1
        some = first_few([repr(cell.strip()) for cell in dict.fromkeys(rows[words[-units]]) if cell.strip()], 3)
        which = f"line {line:,} was" if units == 1 else f"lines {line:,} to {line + units - 1:,} were"
        out.notes.append(f"{which} passed over as units or types ({some}; {option('units_row')} sets how many)")
    if header == first:
        return
    above, width = [rows[i] for i in words if i < header], len(rows[header])
    doubtful = above if width > FEW_COLUMNS else above[-1:]  # lines about the file have two cells or three
    doubtful = [row for row in doubtful if _reach(row) >= min(_reach(rows[header]), width)]
    if spec.skip is not None or any(_may_be_header(row, width) for row in doubtful):
        first_words = first_few([repr(rows[header][k].strip()) for k in numbers if k < len(rows[header])], 3)
        raise BadInput(
            f"{source}:{header + 1}: holds words ({first_words}) where the rows below hold numbers, and so does line "
            f"{first + 1}; give {option('skip', str(header))} where line {header + 1} is the header, "
            f"{option('units_row', str(header - first))} where line {first + 1} is and the words below it are units, "
            f"or, where they are missing values, {option('units_row', '0')} "
            f"{option('na', *_words(rows[header], numbers))}"
        )
    out.begin = header


def _words(row: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The first different cells in the columns of numbers."""
    return list(dict.fromkeys(row[k].strip() for k in numbers if k < len(row) and row[k].strip()))[:5]


def _has_values(rows: Sequence[Sequence[str]], i: int, numbers: Sequence[int], spec: LayoutSpec) -> bool:
    """Whether a row is one of the table: most of its cells in the columns of numbers are such, or words for missing
    values, which come again further down."""
    row = rows[i]
    cells = [row[k].strip() for k in numbers if k < len(row) and row[k].strip()]
    there = [cell for cell in cells if not like_number(cell) and cell.lower() != "nan"]
    if not there or 2 * (len(cells) - len(there)) > len(numbers):
        return bool(cells)
    again = {r[k].strip() for r in rows[i + 1 : i + ROWS_BELOW] if r != row for k in numbers if k < len(r)}
    return bool((again | set(spec.na)) & set(there)) and not any(map(is_role, row))


def _is_event(row: Sequence[str], data: Sequence[str], numbers: Sequence[int]) -> bool:
    """Whether a row is one of the table without its numbers: the time of a mark, written as that of a row of data."""
    bare = not any(row[k].strip() for k in numbers if k < len(row))
    return bare and bool(row[0].strip()) and _DIGITS.sub("0", row[0]) == _DIGITS.sub("0", data[0]) != data[0]


def _is_units(row: Sequence[str], above: Sequence[str], numbers: Sequence[int]) -> bool:
    """Whether a row holds units or types, and nothing else; so does one of no cell for the columns of numbers, or of
    the same word for several of them alone, below a row that names them."""
    there = [row[k].strip() for k in numbers if k < len(row) and row[k].strip()]
    rest = [cell.strip() for k, cell in enumerate(row) if k not in numbers and cell.strip(" -.")]
    named = _may_be_header(above, len(row))
    units = all(is_unit(cell) or cell.strip("'\" ").lower() in _TYPES for cell in row)
    if units and any(set(cell) - set("-.") for cell in there):
        return True
    alike = len(set(there)) < len(there) and not rest
    typed = bool(there) and all(cell.lower() in _TYPES or is_unit(cell) for cell in there)
    flags = not there and all(cell.lower() in _TYPES for cell in rest)
    return (named or not there) and (alike or flags or (named and typed and len(set(there)) < len(there)))


def is_class_row(row: Sequence[str], header: Sequence[str], numbers: Sequence[int]) -> bool:
    """Whether a row holds words for columns of numbers that come again as labels do, and are neither units nor types,
    so that each column may be a recording of that label. numbers: columns whose cells are numbers elsewhere."""
    cells = [cell.strip() for cell in row[1:]]
    kinds = set(cells)
    few = len(cells) >= LABELLED_COLUMNS and 1 < len(kinds) <= min(FEW_LABELS, len(cells) // 2)
    if not few or "" in kinds or len(row) != len(header) or not _may_be_header(header, len(row)):
        return False
    if any(map(like_number, kinds)) or all(is_unit(cell) or cell.lower() in _TYPES for cell in kinds):
        return False
    return set(range(1, min(len(row), ROWS_BELOW))) <= set(numbers)


def without_labels(rows: Sequence[list[str]]) -> list[list[str]]:
    """Rows without those of labels near the header, which a table on its side has."""
    numbers = range(1, len(rows[0]))
    above = [i for i, row in enumerate(rows[1:LINES_ABOVE], 1) if is_class_row(row, rows[0], numbers)]
    return [row for i, row in enumerate(rows) if i not in above]


def _may_be_header(row: Sequence[str], width: int) -> bool:
    """Whether a row may name the columns: as many cells as these, no number among them, none twice, no `key: value`."""
    cells = [cell.strip() for cell in row if cell.strip()]
    whole = len(cells) >= max(2, width - 1) and len(set(cells)) == len(cells)
    return whole and not any(like_number(cell) or ":" in cell for cell in cells)
