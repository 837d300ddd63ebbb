"""Recordings of oscilloscopes, cameras, loggers and headsets: lines and columns about the device around the channels.

Each function tells one form of `INSTRUMENTS` by the beginning of a file, and gives None of others.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from headstart.data.exports import is_unit, start_and_rate
from headstart.data.instruments import BLOCK, FEWEST_LINES, TIMES_NAME, Export, Head, begins_table, cells, number
from headstart.errors import BadInput
from headstart.text import counted, first_few, is_number, to_float
from headstart.ways import option

_SECTION = re.compile(r"\s*\[[^\[\]]+\][\s,;]*")
"""A line above a part of an export: [Peak Table(Detector A)]."""
_UNITS = frozenset(("value", "volt", "ampere", "amp", "watt", "ampl", "amplitude"))
_AXES = frozenset(("x", "x-axis", "xaxis"))
_START = re.compile(r"t0\s*=\s*([-+.\deE]+)\s*s?$")
_STEP = re.compile(r"tinc\s*=\s*([-+.\deE]+)\s*s?$", re.IGNORECASE)


class Section(Export):
    """A part of an export, which ends where the next one begins."""

    def rows(self, lines: Iterable[str], source: str) -> Iterator[str]:
        """As many lines as stand above the next part. Raises: BadInput where another one holds a curve, too."""
        yield from super().rows(self._own(lines, source), source)

    def _own(self, lines: Iterable[str], source: str) -> Iterator[str]:
        name, count = "", 0
        for number_of_line, line in enumerate(lines):
            if number_of_line > self.begin and _SECTION.fullmatch(line):
                name, count = line.strip(" \t\r\n,;"), 0
            if not name:
                yield line
                continue
            row = cells(line, self.mark or ",")
            count = count + 1 if len(row) > 1 and all(map(number, row)) else 0
            if count == FEWEST_LINES:
                raise BadInput(f"{source}: {name!r} holds a curve, too; save each as a file of its own")


class Beside(Export):
    """Curves that end at the first line that holds no number."""

    def rows(self, lines: Iterable[str], source: str) -> Iterator[str]:
        """As many lines."""
        head = itertools.islice(lines := iter(lines), self.begin)
        own = itertools.takewhile(lambda line: any(map(number, cells(line, self.mark or ",")[:2])), lines)
        yield from super().rows(itertools.chain(head, own), source)


def sections(head: Head) -> Section | None:
    """Parts with names in brackets above them, one of which holds the curve: rows of numbers below their names.

    Raises: BadInput where several parts hold one.
    """
    at = [k for k, line in enumerate(head.lines) if _SECTION.fullmatch(line)]
    curves: list[tuple[int, int, str]] = []
    others: list[str] = []
    for begin, end in itertools.pairwise([*at, len(head.lines)]):
        rows = head.rows[begin + 1 : end]
        name = head.lines[begin].strip(" \t\r\n,;")
        while rows and not any(rows[-1]):
            rows = rows[:-1]
        count = next(
            (k for k, row in enumerate(reversed(rows)) if len(row) < 2 or not all(map(number, row))), len(rows)
        )
        if count >= FEWEST_LINES:
            curves.append((begin + 1 + len(rows) - count, len(rows[-1]), name))
        elif sum(len(row) > 1 and all(map(number, row)) for row in rows) >= FEWEST_LINES:
            others.append(name)
    if len(at) < 2 or not curves:
        return None
    if len(curves) + len(others) > 1:
        some = first_few([*map(repr, others), *(repr(name) for _, _, name in curves)], 3)
        raise BadInput(f"{head.source}: holds several curves ({some}); save each as a file of its own")
    first, width, name = curves[0]
    above = head.rows[first - 1]
    names = above if len(above) == width and all(above) and not any(map(number, above)) else []
    note = f"of the parts of the export {name!r} is read"
    return Section(first, mark=head.mark, names=names, header=bool(names), notes=[note], columns=range(width))


def logger(head: Head) -> Export | None:
    """Columns without names below a line of one time and one of one rate."""
    begin = start_and_rate(head.lines) if head.starts[:10].isdecimal() and head.rows else 0
    if not begin or to_float(rate := head.rows[1][0]) <= 0:
        return None
    note = f"lines 1 and 2, a time and a rate of {rate} a second, are the clock of the rows"
    note += f" ({option('skip', '0')} reads them)"
    columns = range(len(head.rows[0]))
    return _rated(head, begin, columns, [str(i + 1) for i in columns], rate, note)


def openbci(head: Head) -> Export | None:
    """Channels of a brain between a sample index and what else a board counts, below lines with % and, in later
    versions of the program, names (OpenBCI's documentation of the GUI's text files, versions 3 to 6)."""
    rows = head.rows
    at = next((i for i, row in enumerate(rows) if not row[0].startswith("%")), 0)
    keys = dict(cell.removeprefix("%").split(" = ") for cell, *_ in rows[:at] if cell.count(" = ") == 1)
    rate, count = keys.get("Sample Rate", "").split(" ")[0], keys.get("Number of channels", "")
    if at + 1 >= len(rows) or not rows[0][0].startswith("%OpenBCI"):
        return None
    header, width = rows[at], len(rows[at + 1])
    named = not any(map(number, header))
    clocks = sum(":" in cell or to_float(cell) > 1e9 for cell in rows[at + 1][-3:])
    columns = [i for i, cell in enumerate(header) if named and cell.startswith(("EXG", "Accel"))]
    columns = columns or [*range(1, 1 + int(count) if count.isdecimal() else width - clocks - 3)]
    names = [header[i] if named else f"EXG Channel {i - 1}" for i in columns]
    if not columns or columns[-1] >= width:
        return None
    rest = dict.fromkeys(cell for i, cell in enumerate(header) if named and i not in columns)
    left_out = f"; not read: {first_few(list(map(repr, rest)), 8)}" if rest else ""
    note = f"channels and the rate of {rate} a second are those that OpenBCI's program wrote{left_out}"
    return _rated(head, at + named, columns, names, rate, note)


def columns_about(head: Head) -> Export | None:
    """Columns before the times that hold a name and a value in the first lines, and nothing below."""
    rows = head.rows
    width = max(map(len, rows), default=0)
    last = rows[len(rows) - max(len(rows) // 3, 4) :]
    filled = [i for i in range(width) if any(i < len(row) and row[i] for row in last)]
    if len(filled) < 2 or filled[0] == 0 or len(first := rows[0]) <= filled[-1]:
        return None
    about = [row[0] for row in rows if row[0]]
    whole = all(number(first[i]) for i in filled) and not any(map(number, about))
    if not whole or len(about) < 2 or len(set(about)) < len(about) or first[0] != about[0]:
        return None
    cells = [[row[i] for row in rows if i < len(row)] for i in filled]
    columns = [i for k, i in enumerate(filled) if cells[k] not in cells[:k]]
    names = [row[i + 1] for i in range(filled[-1]) for row in rows if row[i].lower() == "source" and i + 1 < len(row)]
    note = f"columns before the times hold lines about the device ({first_few(about, 3)}), and are left out"
    return _recording(head, 0, columns, _named(names, len(columns) - 1), note)


def start_and_step(head: Head) -> Export | None:
    """Channels alone, whose header, or the line below it, has the time of the first row and the step."""
    if not head.rows:
        return None
    header, second, *below = head.rows
    lower, begin = [cell.lower() for cell in header], 1
    first = next((match[1] for cell in header if (match := _START.match(cell))), "")
    step = next((match[1] for cell in header if (match := _STEP.match(cell))), "")
    left_out = [i for i, cell in enumerate(header) if _START.match(cell) or _STEP.match(cell) or not cell]
    if "start" in lower and "increment" in lower:
        at = lower.index("start"), lower.index("increment")
        if len(second) <= max(at) or any(i < len(row) and row[i] for row in below for i in at):
            return None
        first, step = second[at[0]], second[at[1]]
        left_out, begin = [*at, *(i for i, cell in enumerate(header) if not cell)], 2
    left_out += [i for i, cell in enumerate(lower) if cell in _AXES or cell.startswith("time")]
    columns = [i for i in range(len(header)) if i not in left_out]
    if not all(i < len(head.rows[begin]) and number(head.rows[begin][i]) for i in columns):
        return None
    return _spaced(head, begin, columns, [header[i] for i in columns], first, step)


def waveforms(head: Head) -> Export | None:
    """Channels behind times of day each, below the first time and the step of each waveform of LabVIEW."""
    keys = [row[0].lower() for row in head.rows[:3]]
    at = next((i for i, row in enumerate(head.rows) if row[0].lower().startswith("time[")), 0)
    if keys != ["waveform", "t0", "delta t"] or not at or at + 1 >= len(head.rows):
        return None
    columns = [i for i, cell in enumerate(head.rows[at]) if cell.lower().startswith("y[")]
    steps = {cell.replace(",", ".") for cell in head.rows[2][1:] if cell}
    if len(steps) != 1 or not all(i < len(head.rows[at + 1]) and number(head.rows[at + 1][i]) for i in columns):
        return None
    return _spaced(head, at + 1, columns, [head.rows[at][i] for i in columns], "0", steps.pop())


def beside(head: Head) -> Beside | None:
    """Spectra beside each other, two columns each, below a line of their names, and lines about them at the end."""
    if len(head.rows) < FEWEST_LINES:
        return None
    (over, header), width = head.rows[:2], sum(map(bool, head.rows[1]))
    names = [cell for cell in over[:width] if cell]
    pairs = header[:2] * (width // 2) == header[:width] and width > 2
    if not pairs or len(set(names)) < len(names) or over[:width:2] != names or 2 * len(names) != width:
        return None
    if not all(number(cell) for cell in head.rows[2][:width]):
        return None
    columns = [f"{names[k // 2]}: {cell}" for k, cell in enumerate(header[:width])]
    note = f"{len(names):,} curves stand beside each other; what stands below them is not read"
    return Beside(2, mark=head.mark, names=columns, header=True, notes=[note], columns=range(width))


def jasco(head: Head) -> Beside | None:
    """A spectrum below a line XYDATA, and lines about the device above it and below."""
    rows, at = head.rows, head.line_of("xydata", alone=True)
    keys = head.keys(max(at, 0))
    if at < 0 or not {"xunits", "yunits"} <= set(keys) or not all(map(number, rows[at + 1])):
        return None
    names = [" ".join(keys[key][:1]) for key in ("xunits", "yunits")]
    names += [f"CH{i}" for i in range(2, len(rows[at + 1]))]
    note = "what stands above XYDATA and below the numbers is not read"
    return Beside(at + 1, mark=head.mark, names=names, header=True, notes=[note], columns=range(len(rows[at + 1])))


def in_seconds(head: Head) -> Export | None:
    """A row of units that begins with `Second`, below names or below lines about the device."""
    rows, at = head.rows, head.line_of("second", "seconds")
    if at < 1 or not all(number(cell) for cell in rows[at + 1] if cell) or not number(rows[at + 1][0]):
        return None
    columns = [i for i, cell in enumerate(rows[at]) if cell]
    if not all(is_unit(rows[at][i]) or rows[at][i].lower() in _UNITS for i in columns[1:]):
        return None
    above = rows[at - 1]
    names = head.keys(at).get("source", [])
    if above[0].lower() in _AXES:
        names = [above[i] if i < len(above) else "" for i in columns[1:]]
    note = f"{counted(at + 1, 'line above the numbers was', 'lines above the numbers were')} read as names and units"
    return _recording(head, at + 1, columns, _named(names, len(columns) - 1), note)


def data_below(head: Head) -> Export | None:
    """Numbers below a line `Data` or `XY Data`, and lines about the device with the first time and the step."""
    rows, at = head.rows, head.line_of("data", "xy data", alone=True)
    keys = head.keys(max(at, 0))
    if not {"xinc", "xorg"} <= set(keys) or len(rows) < at + FEWEST_LINES // 2:
        return None
    count = sum(map(bool, rows[at + 1]))
    if rows[at][0].lower() == "xy data":
        note = f"{counted(at + 1, 'line about the device was', 'lines about the device were')} passed over"
        return _recording(head, at + 1, range(count), _named([], count - 1), note)
    return _spaced(head, at + 1, range(count), [], "".join(keys["xorg"][:1]), "".join(keys["xinc"][:1]))


def markers(head: Head) -> Export | None:
    """Positions of markers below lines about the measurement, which name the markers and the rate."""
    rows, at = head.rows, head.line_of("marker_names")
    if at < 0 or not number(rows[at + 1][0]):
        return None
    names, rate = [name for name in rows[at][1:] if name], "".join(head.keys(at).get("frequency", [])[:1])
    each = len(rows[at + 1]) // len(names)
    if each not in (2, 3) or len(rows[at + 1]) != each * len(names):
        return None
    channels = [f"{name} {axis}" for name in names for axis in "XYZ"[:each]]
    return _rated(head, at + 1, range(len(channels)), channels, rate)


def frames(head: Head) -> Export | None:
    """Frames below what they hold (`Trajectories`), their rate, names of markers, those of columns, and units."""
    if not (head.rows and begins_table(head.rows[0]) and head.rows[3][0] == "Frame"):
        return None
    rate, over, header = head.rows[1][0], "", head.rows[3]
    columns = [i for i, cell in enumerate(header) if cell and not cell.lower().endswith("frame")]
    names = []
    for i, cell in enumerate(header):
        over = head.rows[2][i] if i < len(head.rows[2]) and head.rows[2][i] else over
        names += [f"{over} {cell}".strip()] if i in columns else []
    return _rated(head, 5, columns, names, rate)


def labchart(head: Head) -> Export | None:
    """A time, a date or none, and channels, below lines such as `Interval=`; comments stand behind the channels."""
    rows, titles = head.rows, head.line_of("channeltitle=")
    at = next((i for i, row in enumerate(rows) if not row[0].endswith("=")), 0)
    if titles < 0 or titles > at or rows[0][0] != BLOCK:
        return None
    channels = [cell for cell in rows[titles][1:] if cell]
    names = [*(["Date"] if len(rows[at]) > 1 and "/" in rows[at][1] else []), *channels]
    if len(rows[at]) <= len(names):
        return None
    note = "names of columns were read from the line ChannelTitle=; comments behind the channels are not read"
    return _recording(head, at, range(len(names) + 1), names, note)


def _recording(
    head: Head, begin: int, columns: Sequence[int], names: Sequence[str], note: str, first: str = "", step: float = 0
) -> Export | None:
    """A recording below so many lines, whose times are `first` and steps where no cell has them; None where these are
    none, or there are no channels, or two of a name."""
    steps = (to_float(first), step) if first else None
    if not names or len(set(names)) < len(names) or (steps and not (is_number(first) and 0 < step < math.inf)):
        return None
    header = [TIMES_NAME, *names]
    return Export(begin, mark=head.mark, names=header, header=True, notes=[note], columns=columns, steps=steps)


def _rated(
    head: Head, begin: int, columns: Sequence[int], names: Sequence[str], rate: str, note: str = ""
) -> Export | None:
    """Rows of a rate."""
    note = note or f"names and the rate of {to_float(rate):g} a second were read from the lines above the numbers"
    return _recording(head, begin, columns, names, note, "0", 1 / (to_float(rate) or -1))


def _spaced(
    head: Head, begin: int, columns: Sequence[int], names: Sequence[str], first: str, step: str
) -> Export | None:
    """Rows from a time on in steps; None without one."""
    if not first:
        return None
    note = f"times are those of the lines above: from {to_float(first):g} s on, {to_float(step):g} s apart"
    return _recording(head, begin, columns, _named(names, len(columns)), note, first, to_float(step))


def _named(names: Sequence[str], count: int) -> list[str]:
    """The channels by their names, where each has one of its own."""
    channels = [name for name in names if name and not number(name)]
    return channels if len(channels) == len(set(channels)) == count else [f"CH{i + 1}" for i in range(count)]
