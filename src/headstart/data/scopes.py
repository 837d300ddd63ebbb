"""Exports of oscilloscopes and cameras: lines and columns about the device around the channels of one recording."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headstart.data.exports import is_unit, start_and_rate
from headstart.data.layout import LayoutSpec
from headstart.errors import BadInput
from headstart.text import counted, first_few, is_number, to_float
from headstart.ways import option

TIMES_NAME = "Time"
"""The name of the column of times, which exports name in many ways or not at all."""
FEWEST_LINES, LINES_ABOUT = 20, 60
"""Lines of a recording at least, and those at its beginning that are about the device."""
SCOPE_WORDS = re.compile(
    r"record|sampl|interval|horizontal|vertical|source|increment|tinc|second|xinc|frame|marker_names|^\d{10}(\.\d+)?\s*(,|$)",
    re.IGNORECASE,
)
"""What the first lines of an export have: one of these words, or a time in seconds since 1970."""
SECTIONS = frozenset(("trajectories", "devices", "joints", "segments", "model outputs", "events"))
"""Lines above the tables of an export of movements, which may be several."""
_SECONDS = frozenset(("second", "seconds"))
_UNITS = frozenset(("value", "volt", "ampere", "amp", "watt", "ampl", "amplitude"))
_AXES = frozenset(("x", "x-axis", "xaxis"))
_START = re.compile(r"t0\s*=\s*([-+.\deE]+)\s*s?$")
_STEP = re.compile(r"tinc\s*=\s*([-+.\deE]+)\s*s?$", re.IGNORECASE)


@dataclass(frozen=True)
class Scope:
    """How the export is written: `begin` lines about it come first; of each other line the cells at `columns` are one
    row, under `names`; `steps` are the time of the first row and that from one to the next where no cell has times."""

    mark: str
    begin: int
    columns: tuple[int, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[float, float] | None = None

    def rows(self, lines: Iterable[str], source: str) -> Iterator[str]:
        """As many lines, of the times and channels alone. Raises: BadInput where another table begins."""
        for number, line in enumerate(lines):
            cells = _cells(line, self.mark)
            if number > self.begin and _is_section(cells):
                raise BadInput(
                    f"{source}:{number + 1}: another table begins here ({cells[0]!r}); save each as a file of its own"
                )
            if number < self.begin or not any(cells):
                yield "\n"
                continue
            row = [cells[i] if i < len(cells) else "" for i in self.columns]
            if self.steps:
                row.insert(0, repr(self.steps[0] + (number - self.begin) * self.steps[1]))
            yield self.mark.join(row) + "\n"


def scope_of(head: Sequence[str], spec: LayoutSpec) -> Scope | None:
    """How the export of an oscilloscope with this beginning is written; None of other files."""
    rated = start_and_rate(head)
    start = "".join(head[:FEWEST_LINES])
    mark = next((mark for mark in "\t;," if mark in start), "," if rated else "")
    if spec.header is False or (spec.skip, spec.units_row, spec.comment) != (None, None, None) or not mark:
        return None
    if len(head) < FEWEST_LINES or spec.delimiter not in (None, mark):
        return None
    rows = [_cells(line, mark) for line in head]
    if rated and to_float(rows[1][0]) > 0:
        way = f"{option('skip', '0')} reads them"
        note = f"lines 1 and 2, a time and a rate of {rows[1][0]} a second, are the clock of the rows ({way})"
        columns = tuple(range(len(rows[0])))
        names = (TIMES_NAME, *(str(i + 1) for i in columns))
        return Scope(mark, rated, columns, names, (note,), (0.0, 1 / to_float(rows[1][0])))
    forms = (_brain, _columns_about, _started, _in_seconds, _stepped, _markers, _sections)
    return next((scope for form in forms if (scope := form(rows, mark)) is not None), None)


def _cells(line: str, mark: str) -> list[str]:
    return [cell.strip().strip('"').strip("\ufeff") for cell in line.rstrip("\r\n").split(mark)]


def _number(cell: str) -> bool:
    return is_number(cell) or is_number(cell, ",")


def _keys(rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """What stands behind the first cell of lines about the device."""
    return {row[0].lower(): [cell for cell in row[1:] if cell] for row in rows if row and row[0]}


def _columns_about(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Columns before the times that hold a name and a value in the first lines, and nothing below."""
    width = max(map(len, rows))
    last = rows[len(rows) - max(len(rows) // 3, 4) :]
    filled = [i for i in range(width) if any(i < len(row) and row[i] for row in last)]
    first = rows[0]
    if len(filled) < 2 or filled[0] == 0 or len(first) <= filled[-1]:
        return None
    about = [row[0] for row in rows if row[0]]
    whole = all(_number(first[i]) for i in filled) and not any(map(_number, about))
    if not whole or len(about) < 2 or len(set(about)) < len(about) or rows[0][0] != about[0]:
        return None
    cells = [[row[i] for row in rows if i < len(row)] for i in filled]
    columns = [i for k, i in enumerate(filled) if cells[k] not in cells[:k]]
    names = [row[i + 1] for i in range(filled[-1]) for row in rows if row[i].lower() == "source" and i + 1 < len(row)]
    note = f"columns before the times hold lines about the device ({first_few(about, 3)}), and are left out"
    return Scope(mark, 0, tuple(columns), _named(names, len(columns) - 1), (note,))


def _named(names: Sequence[str], count: int) -> tuple[str, ...]:
    """The times, and the channels by their names where each has one of its own."""
    channels = [name for name in names if name and not _number(name)]
    alike = len(channels) == count and len(set(channels)) == count
    return TIMES_NAME, *(channels if alike else [f"CH{i + 1}" for i in range(count)])


def _started(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Channels alone, whose header, or the line below it, has the time of the first row and the step."""
    header, second = rows[0], rows[1]
    lower = [cell.lower() for cell in header]
    begin = 1
    first = next((match[1] for cell in header if (match := _START.match(cell))), "")
    step = next((match[1] for cell in header if (match := _STEP.match(cell))), "")
    left_out = [i for i, cell in enumerate(header) if _START.match(cell) or _STEP.match(cell) or not cell]
    if "start" in lower and "increment" in lower:
        at = lower.index("start"), lower.index("increment")
        if len(second) <= max(at) or any(i < len(row) and row[i] for row in rows[2:] for i in at):
            return None
        first, step = second[at[0]], second[at[1]]
        left_out, begin = [*at, *(i for i, cell in enumerate(header) if not cell)], 2
    left_out += [i for i, cell in enumerate(lower) if cell in _AXES or cell.startswith("time")]
    columns = [i for i in range(len(header)) if i not in left_out]
    if not (is_number(first) and is_number(step) and columns) or to_float(step) <= 0:
        return None
    if not all(i < len(rows[begin]) and _number(rows[begin][i]) for i in columns):
        return None
    return _spaced(mark, begin, columns, [header[i] for i in columns], to_float(first), to_float(step))


def _spaced(mark: str, begin: int, columns: Sequence[int], names: Sequence[str], first: float, step: float) -> Scope:
    note = f"times are those of the lines above: from {first:g} s on, {step:g} s apart"
    return Scope(mark, begin, tuple(columns), _named(names, len(columns)), (note,), (first, step))


def _in_seconds(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """A row of units that begins with `Second`, below names or below lines about the device."""
    about = rows[:LINES_ABOUT]
    at = next((i for i, row in enumerate(about[:-1]) if row[0].lower() in _SECONDS and len(row) > 1), None)
    if at is None or not all(_number(cell) for cell in rows[at + 1] if cell) or not _number(rows[at + 1][0]):
        return None
    columns = [i for i, cell in enumerate(rows[at]) if cell]
    if at == 0 or not all(is_unit(rows[at][i]) or rows[at][i].lower() in _UNITS for i in columns[1:]):
        return None
    above = rows[at - 1]
    if above and above[0].lower() in _AXES:
        names = [above[i] if i < len(above) else "" for i in columns[1:]]
    else:
        names = _keys(rows[:at]).get("source", [])
    note = f"{counted(at + 1, 'line above the numbers was', 'lines above the numbers were')} read as names and units"
    return Scope(mark, at + 1, tuple(columns), _named(names, len(columns) - 1), (note,))


def _stepped(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Numbers below a line `Data` or `XY Data`, and lines about the device with the first time and the step."""
    about = rows[:LINES_ABOUT]
    at = next((i for i, row in enumerate(about) if row[0].lower() in ("data", "xy data") and not any(row[1:])), None)
    keys = {} if at is None else _keys(rows[:at])
    if at is None or not {"xinc", "xorg"} <= set(keys) or len(rows) < at + FEWEST_LINES // 2:
        return None
    count = sum(map(bool, rows[at + 1]))
    if rows[at][0].lower() == "xy data":
        note = f"{counted(at + 1, 'line about the device was', 'lines about the device were')} passed over"
        return Scope(mark, at + 1, tuple(range(count)), _named([], count - 1), (note,))
    first, step = keys["xorg"][:1], keys["xinc"][:1]
    if not first or not step or not is_number(first[0]) or not is_number(step[0]):
        return None
    return _spaced(mark, at + 1, range(count), [], to_float(first[0]), to_float(step[0]))


def _markers(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Places of markers below lines about the measurement, which name the markers and the rate."""
    about = rows[:LINES_ABOUT]
    at = next((i for i, row in enumerate(about) if row[0].lower() == "marker_names"), None)
    if at is None or at + 1 >= len(rows) or not _number(rows[at + 1][0]):
        return None
    names, rate = [name for name in rows[at][1:] if name], _keys(rows[:at]).get("frequency", [""])[0]
    each = len(rows[at + 1]) // max(len(names), 1)
    if each not in (2, 3) or len(rows[at + 1]) != each * len(names) or not is_number(rate) or to_float(rate) <= 0:
        return None
    columns = [f"{name} {axis}" for name in names for axis in "XYZ"[:each]]
    note = f"names and the rate of {rate} a second were read from {counted(at + 1, 'line', 'lines')} above the numbers"
    steps = (0.0, 1 / to_float(rate))
    return Scope(mark, at + 1, tuple(range(len(columns))), (TIMES_NAME, *columns), (note,), steps)


def _sections(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Frames below what they hold (`Trajectories`), their rate, names of markers, those of columns, and units."""
    if len(rows) < FEWEST_LINES // 2 or not (_is_section(rows[0]) and is_number(rows[1][0]) and rows[3][0] == "Frame"):
        return None
    header, rate = rows[3], to_float(rows[1][0])
    columns = [i for i, cell in enumerate(header) if cell and not cell.lower().endswith("frame")]
    over, names = "", []
    for i, cell in enumerate(header):
        over = rows[2][i] if i < len(rows[2]) and rows[2][i] else over
        names += [f"{over} {cell}".strip()] if i in columns else []
    if rate <= 0 or len(set(names)) < len(names) or not names:
        return None
    note = f"names and the rate of {rate:g} a second were read from the lines above the numbers"
    return Scope(mark, 5, tuple(columns), (TIMES_NAME, *names), (note,), (0.0, 1 / rate))


def _brain(rows: Sequence[Sequence[str]], mark: str) -> Scope | None:
    """Channels of a brain between a sample index and what else a board counts, below lines with % and, in later
    versions of the program, names. Source: OpenBCI's documentation of the GUI's text files, versions 3 to 6."""
    at = next((i for i, row in enumerate(rows) if not row[0].startswith("%")), 0)
    keys = dict(cell.removeprefix("%").split(" = ") for cell, *_ in rows[:at] if cell.count(" = ") == 1)
    rate, count = keys.get("Sample Rate", "").split(" ")[0], keys.get("Number of channels", "")
    if not rows[0][0].startswith("%OpenBCI") or not is_number(rate) or to_float(rate) <= 0 or at + 1 >= len(rows):
        return None
    header, width = rows[at], len(rows[at + 1])
    named = not any(map(_number, header))
    clocks = sum(":" in cell or to_float(cell) > 1e9 for cell in rows[at + 1][-3:])
    columns = [i for i, cell in enumerate(header) if named and cell.startswith(("EXG", "Accel"))]
    columns = columns or [*range(1, 1 + int(count) if count.isdecimal() else width - clocks - 3)]
    names = [header[i] if named else f"EXG Channel {i - 1}" for i in columns]
    if not columns or columns[-1] >= width or len(set(names)) < len(names):
        return None
    rest = dict.fromkeys(cell for i, cell in enumerate(header) if named and i not in columns)
    left_out = f"; not read: {first_few(list(map(repr, rest)), 8)}" if rest else ""
    note = f"channels and the rate of {rate} a second are those that OpenBCI's program wrote{left_out}"
    return Scope(mark, at + named, tuple(columns), (TIMES_NAME, *names), (note,), (0.0, 1 / to_float(rate)))


def _is_section(cells: Sequence[str]) -> bool:
    return cells[0].lower() in SECTIONS and not any(cells[1:])
