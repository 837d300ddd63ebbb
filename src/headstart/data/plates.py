"""Exports of plate readers: a sequence for each well, in rows or columns beside those of times and temperatures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headstart.data.instruments import Head
from headstart.data.rows import list_column
from headstart.data.table import Cells, Column, Table, arrow_texts
from headstart.data.text import DELIMITERS, cut
from headstart.errors import BadInput, Places
from headstart.text import counted, first_few, is_number

FEWEST_WELLS = 3
"""Wells, and values of a clock, from which on they are some."""
SOME_WELLS, MANY_WELLS = 8, 24
"""Columns that are wells beside a temperature, and without it; fewer may be inputs of one recording (A1, A2)."""
ROWS_WITHOUT_WELLS = 8
"""Rows without names of wells from which on those below a time and a temperature are sequences."""
LEADING = 5
"""Cells that may stand before the values of a row: a well in two parts, what it holds, a name."""
_WELL = re.compile(r"(?:[A-P]|A[A-F])0?(?:[1-9]|[1-3]\d|4[0-8])")
_LETTERS = re.compile(r"[A-P]|A[A-F]")
_TIMES, _COUNTS = "time|zeit|temps|tiempo|tempo|elapsed", "cycles?|zyklus|zyklen|ciclo"
_CLOCK = re.compile(rf"\b(times|{_TIMES}|{_COUNTS}|kinetic)\b", re.IGNORECASE)
_COUNT = re.compile(rf"\b({_COUNTS})\b", re.IGNORECASE)
_BESIDE = re.compile(
    r"^\W*(t°|temp\b|temp\.|temperatur|temperature|temperatura|co2\b|o2\b|humidity|feuchte)", re.IGNORECASE
)
"""Names of what is measured beside wells."""
_HINT = re.compile(r"\b(micro)?plates?\b|\bwells?\b|absorbance|fluorescence|luminescence|\bOD ?\d{3}", re.IGNORECASE)
_DAYTIME = re.compile(r"(?:(\d+)\.)?(\d+):(\d\d)(?::(\d\d(?:[.,]\d+)?))?")
_SPOKEN = re.compile(r"(?:(\d+) ?h)? ?(?:(\d+) ?min)? ?(?:(\d+) ?s)?")
"""0 h 5 min."""
_UNIT = re.compile(r"[\[(/ ](s|sec|min|h|hr|hours?)[\])]?$", re.IGNORECASE)


@dataclass
class Wells:
    """One table of wells: the cells of each (in the order of `clock`), where it stands, and words beside it."""

    label: str
    wells: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    words: dict[str, list[str]] = field(default_factory=dict)
    clock: tuple[str, list[float]] = ("", [])
    seconds: bool = False
    beside: list[str] = field(default_factory=list)
    lines: int = 0
    certain: bool = False


def plate_table(head: Head) -> Table | None:
    """A row for each well of a text table, of all its lines; None of other tables.

    Raises: BadInput where it holds several tables of wells that are not those of one plate.
    """
    if not (mark := _mark(head)):
        return None
    spec, source = head.spec, head.source
    lines = head.whole()[spec.skip or 0 :]
    rows = [[cell.strip().strip("\ufeff") for cell in row] for row in cut(lines, mark, spec.quote)]
    blocks = _blocks(rows, source, spec.skip or 0)
    certain = any(block.certain for block in blocks) or len(blocks) > 1 or spec.shape != "auto"
    if not blocks or not (certain or any(_HINT.search(line) for line in lines[: blocks[0].lines])):
        return None
    return _table(blocks, mark, len([line for line in lines if line.strip()]), head)


def _mark(head: Head) -> str:
    """What separates the cells of wells or clocks in the first lines; "" where none are there."""
    best = ""
    most = FEWEST_WELLS - 1
    for mark in [head.spec.delimiter] if head.spec.delimiter else DELIMITERS:
        rows = [[cell.strip().strip('"') for cell in line.split(mark)] for line in head.lines]
        across = max((sum(map(_is_well, row)) for row in rows), default=0)
        down = sum(len(row) > FEWEST_WELLS and bool(_well(row)[0]) for row in rows)
        clocks = sum(_times_of(row)[0] > 0 for row in rows)
        if (count := max(across, down, FEWEST_WELLS * (clocks > 1))) > most:
            best, most = mark, count
    return best


def _is_well(cell: str) -> bool:
    return _WELL.fullmatch(cell) is not None


def _well(row: Sequence[str]) -> tuple[str, int]:
    """(the well of a row, cells that name it), of A1 or of a letter and a number in cells of their own."""
    if row and _is_well(row[0]):
        return row[0], 1
    if len(row) > 2 and _LETTERS.fullmatch(row[0]) and row[1].isdecimal() and _is_well(row[0] + row[1]):
        return row[0] + row[1], 2
    return "", 0


def _seconds(cell: str) -> float | None:
    """A number, or the seconds of 0:05:00 or 0 h 5 min; None of other cells."""
    if is_number(cell, "," if "," in cell else "."):
        return float(cell.replace(",", "."))
    if match := _DAYTIME.fullmatch(cell):
        days, hours, minutes, seconds = match.groups()
        return (
            86400 * int(days or 0) + 3600 * int(hours) + 60 * int(minutes) + float((seconds or "0").replace(",", "."))
        )
    if cell and (match := _SPOKEN.fullmatch(cell)):
        hours, minutes, seconds = match.groups()
        return 3600.0 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return None


def _times_of(row: Sequence[str]) -> tuple[int, str, list[float]]:
    """(where its values begin, its name, the values) of a row of times or counts; (0, "", []) of others.

    The values rise, and may begin anew for another measurement.
    """
    for start in range(1, min(LEADING, len(row))):
        names = [cell for cell in row[:start] if _CLOCK.search(cell) or cell.lower() in ("well", "wells")]
        if not names or _seconds(row[start]) is None:
            continue
        values = []
        for cell in row[start:]:
            if (value := _seconds(cell)) is None:
                break
            values.append(value)
        if any(row[start + len(values) :]) or len(values) < FEWEST_WELLS:
            return 0, "", []
        falls = sum(b <= a for a, b in itertools.pairwise(values))
        return (start, names[-1], values) if 4 * (falls + 1) <= len(values) or not falls else (0, "", [])
    return 0, "", []


def _blocks(rows: Sequence[Sequence[str]], source: str, above: int) -> list[Wells]:
    """The tables of wells, in their order. above: lines that stand before these."""
    out: list[Wells] = []
    at = 0
    while at < len(rows):
        upright = sum(map(_is_well, rows[at])) >= FEWEST_WELLS
        blocks, end = (_upright if upright else _lying)(rows, at, source, above)
        out += blocks
        at = max(end, at + 1)
    return out


def _upright(rows: Sequence[Sequence[str]], at: int, source: str, above: int) -> tuple[list[Wells], int]:
    """(a table of a column for each well below the header in a line, the line behind it)."""
    header = rows[at]
    wells = [i for i, cell in enumerate(header) if _is_well(cell)]
    others = [i for i in range(len(header)) if i not in wells and (i == 0 or header[i])]
    named = [
        i for i in others if not (_CLOCK.search(header[i]) or _BESIDE.search(header[i]) or (i == 0 and not header[i]))
    ]
    if len({header[i] for i in wells}) < len(wells) or (len(named) > 1 or (named and named != [0])):
        return [], at
    end = next((i for i in range(at + 1, len(rows)) if not any(rows[i]) or len(rows[i]) < len(wells)), len(rows))
    body = [row + [""] * (len(header) - len(row)) for row in map(list, rows[at + 1 : end])]
    words = [row for row in body if not any(_seconds(row[i]) is not None or not row[i].strip("*") for i in wells)]
    words = words if body[: len(words)] == words else []
    values = [row for row in body[len(words) :] if any(row[i].strip("*") for i in wells)]
    clocks = {i: [_seconds(row[i]) for row in values] for i in others if not _BESIDE.search(header[i])}
    clocks = {i: cells for i, cells in clocks.items() if _rises(cells)}
    if len(values) < FEWEST_WELLS or not clocks or any(i not in clocks for i in named):
        return [], at
    clock = next((i for i in clocks if not _COUNT.search(header[i])), next(iter(clocks)))
    block = Wells(_label(rows, at, [header[i] for i in others]), [header[i] for i in wells])
    block.cells = [[row[i].strip("*") for row in values] for i in wells]
    block.places = [f"{source}:{above + at + 1} column {header[i]!r}" for i in wells]
    block.words = {row[0] or f"row {k + 1}": [row[i] for i in wells] for k, row in enumerate(words)}
    block.clock = (header[clock], [value or 0.0 for value in clocks[clock]])
    block.seconds = not is_number(values[0][clock])
    block.beside = [header[i] for i in others if i != clock and header[i]]
    block.lines = len(body) + 1
    letters = {header[i].rstrip("0123456789") for i in wells}
    some = len(wells) >= SOME_WELLS and len(letters) > 1
    block.certain = (some and bool(block.beside)) or (len(wells) >= MANY_WELLS and len(letters) > 2)
    return [block], end


def _rises(values: Sequence[float | None]) -> bool:
    there = [value for value in values if value is not None]
    return len(there) == len(values) and all(b > a for a, b in itertools.pairwise(there))


def _lying(rows: Sequence[Sequence[str]], at: int, source: str, above: int) -> tuple[list[Wells], int]:
    """(tables of a row for each well below rows of times, the line behind them): one for each time that the clock
    begins anew."""
    top, clocks = at, []  # type: int, list[tuple[int, str, list[float]]]
    while top < len(rows) and not _well(rows[top])[0] and len(rows[top]) > FEWEST_WELLS:
        times = _times_of(rows[top])
        names = [cell for cell in rows[top][:LEADING] if cell]
        if times[0]:
            clocks.append(times)
        elif not (names and (_BESIDE.search(names[0]) or names[0].lower().startswith("well"))):
            break
        top += 1
    if not clocks:
        return [], at
    start = max(clock[0] for clock in clocks)
    clock = next((c for c in clocks if not _COUNT.search(c[1])), clocks[0])
    width = len(clock[2])
    end = top
    while end < len(rows) and _is_row(rows[end], start, width) and (_well(rows[end])[0] or not _well(rows[top])[0]):
        end += 1
    names = [_well(row)[0] or row[0] for row in rows[top:end]]
    wells = bool(names) and _is_well(names[0])
    counts = len({c[1] for c in clocks}) > 1
    if len(names) < FEWEST_WELLS or len(set(names)) < len(names):
        return [], at
    if not wells and not (top - at > 1 and (counts or len(names) >= ROWS_WITHOUT_WELLS)):
        return [], at
    heads = next((row for row in rows[at:top] if row[0].lower().startswith("well")), [])
    first = max((_well(row)[1] for row in rows[top:end]), default=1) or 1
    words = {}
    for i in range(first, start):
        cells = [row[i] for row in rows[top:end]]
        if any(cells):
            words[(heads[i] if i < len(heads) else "") or f"column {i + 1}"] = cells
    begins = [0, *(i + 1 for i, (a, b) in enumerate(itertools.pairwise(clock[2])) if b <= a), width]
    out: list[Wells] = []
    for begin, last in itertools.pairwise(begins):
        span = slice(start + begin, start + last)
        block = Wells(_common(heads[span]) or _label(rows, at, []), names, words=words)
        block.cells = [[cell.strip("*") for cell in [*row, *[""] * width][span]] for row in rows[top:end]]
        block.places = [f"{source}:{above + i + 1}" for i in range(top, end)]
        block.clock = (clock[1], clock[2][begin:last])
        block.seconds = any(
            cell[:1].isdecimal() and not is_number(cell, ",") and not is_number(cell) and _seconds(cell) is not None
            for row in rows[at:top]
            for cell in row[start : start + 1]
        )
        block.beside = [name for row in rows[at:top] if (name := _name(row)) and name != clock[1]] if not out else []
        block.lines, block.certain = (end - at) * (not out), True
        out.append(block)
    return out, end


def _name(row: Sequence[str]) -> str:
    """What a row of times or of what is measured beside wells is called."""
    return next((cell for cell in row[:LEADING] if _CLOCK.search(cell) or _BESIDE.search(cell)), "")


def _is_row(row: Sequence[str], start: int, width: int) -> bool:
    """Whether a row has a name and numbers for most of the times."""
    if len(row) <= start or not row[0] or _seconds(row[0]) is not None:
        return False
    cells = [cell for cell in row[start : start + width] if cell.strip("*")]
    return 2 * sum(_seconds(cell) is not None for cell in cells) >= len(cells) and not any(row[start + width :])


def _common(cells: Sequence[str]) -> str:
    """What the names of values have in common, without a number that counts them."""
    if not cells or any(_seconds(cell) is not None for cell in cells):
        return ""
    if len(set(cells)) == 1:
        return cells[0]
    shared = "".join(a[0] for a in itertools.takewhile(lambda c: len(set(c)) == 1, zip(*cells, strict=False)))
    return shared.rstrip(" (_-#").strip()


def _label(rows: Sequence[Sequence[str]], at: int, header: Sequence[str]) -> str:
    """What is measured: a line of one cell above a table, or what follows the temperature in its header."""
    for cell in header:
        if match := re.match(r"T° (\S.*)", cell):
            return match[1]
    for row in reversed(rows[max(at - 3, 0) : at]):
        cells = [cell for cell in row if cell]
        if cells:
            return cells[0].removeprefix("Label:").strip() if len(cells) == 1 and len(cells[0]) < 60 else ""
    return ""


def _table(blocks: Sequence[Wells], mark: str, lines: int, head: Head) -> Table:
    first, spec, source = blocks[0], head.spec, head.source
    labels = ["values"] if len(blocks) == 1 else [block.label for block in blocks]
    alike = all(sorted(b.wells) == sorted(first.wells) and len(b.clock[1]) == len(first.clock[1]) for b in blocks)
    if not alike or len(set(labels)) < len(labels) or "" in labels:
        what = "names above them tell them apart" if alike else "they have the same wells and as many times"
        raise BadInput(
            f"{source}: holds {len(blocks)} tables of wells ({first.places[0]}, {blocks[1].places[0]}), which are "
            f"several measurements of one plate only where {what}; save each as a file of its own"
        )
    decimal = spec.decimal if spec.decimal != "auto" else _decimal(blocks, mark)
    places = Places(source, names=first.places)
    cells = Cells(places, frozenset(spec.na), decimal)
    table = Table({}, len(first.wells), places, f"{DELIMITERS.get(mark, repr(mark))}-separated, from a plate reader")
    table.shape, table.decimal, table.named = "list", decimal, True
    for block, label in zip(blocks, labels, strict=True):
        order = [block.wells.index(well) for well in first.wells]
        named = dict.fromkeys(range(len(block.clock[1])), label)
        arrays = [cells.row(block.cells[k], i, named.__getitem__) for i, k in enumerate(order)]
        table.columns[label] = list_column(label, arrays, places)
    name = "Well" if _is_well(first.wells[0]) else "row"
    table.columns = {name: Column(name, "text", arrow_texts(first.wells))} | table.columns
    for word, column in first.words.items():
        if word not in table.columns:
            table.columns[word] = Column(word, "text", arrow_texts(column))
    table.roles["id"] = name
    table.notes += _notes(blocks, lines)
    cells.report(head.mistakes, table.notes)
    return table


def _decimal(blocks: Sequence[Wells], mark: str) -> Literal[".", ","]:
    """What stands before the decimals of most numbers."""
    some = [cell for block in blocks for row in block.cells[:MANY_WELLS] for cell in row]
    commas = sum("," in cell for cell in some) > sum("." in cell for cell in some)
    return "," if mark != "," and commas else "."


def _notes(blocks: Sequence[Wells], lines: int) -> list[str]:
    name, times = blocks[0].clock
    steps = np.diff(times)
    rest = lines - sum(block.lines for block in blocks)
    out = [f"{counted(rest, 'line around the wells was', 'lines around the wells were')} passed over"] if rest else []
    beside = list(
        dict.fromkeys(
            name
            for block in blocks
            for name in [block.clock[0], *block.beside]
            if name.lower() not in ("", "well", "wells")
        )
    )
    if beside:
        names = first_few(list(map(repr, beside)), 5)
        out.append(f"{names}: times and what was measured beside the wells, which are no sequences")
    unit = _UNIT.search(name)
    what = unit[1] if unit else "s" if blocks[0].seconds else ""
    step = float(np.median(steps))
    if not _COUNT.search(name) and float(np.abs(steps - step).max()) <= 0.05 * step:
        out.append(f"positions are {step:.6g}{f' {what}' if what else ''} apart")
    return out
