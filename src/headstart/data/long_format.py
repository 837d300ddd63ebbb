"""Long tables, a row per position: rows gathered into sequences and put in the order of their time."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from headstart.data.arrow import Words, arrow_texts
from headstart.data.layout import Layout
from headstart.data.table import Cells, Column, Table, is_number
from headstart.errors import Mistakes


def in_sequences(
    table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order of the rows, offsets (n + 1,), first row of each sequence), sequences as they first come.

    Also writes the one label and group of each sequence into its first row. Mistakes: a row without an id, two rows of
    one id and time, a label or group that changes within a sequence.
    """
    code = _codes(table, layout, mistakes)
    time = _times(table, layout, mistakes)
    mistakes.check()
    order = np.lexsort((np.arange(len(code)), time, code))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(code))]).astype(np.int64)
    rows = np.full(len(offsets) - 1, len(code), dtype=np.int64)
    np.minimum.at(rows, code, np.arange(len(code)))
    if layout.time:
        _check_times(table, layout, order, code, time, mistakes, notes)
    for role, name in (("target", layout.target), ("group", layout.group)):
        if name:
            table.columns[name] = _one_each(table, name, role, layout, code, rows, cells, mistakes)
    mistakes.check()
    return order, offsets, rows


def _codes(table: Table, layout: Layout, mistakes: Mistakes) -> np.ndarray:
    """(n,) number of each row's sequence."""
    if layout.id is None:
        mistakes.add(table.places.source, "no column says which rows are one sequence; name it with --id")
        mistakes.check()
    name = str(layout.id)
    known: dict[str, int] = {}
    codes = np.zeros(table.rows, dtype=np.int64)
    for row, word in enumerate(table.columns[name].words):
        if word is None or not word.strip():
            mistakes.add(
                table.places.cell(row, name), "the id is empty, so that the row belongs to no sequence; give one"
            )
        else:
            codes[row] = known.setdefault(word.strip(), len(known))
    return codes


def _times(table: Table, layout: Layout, mistakes: Mistakes) -> np.ndarray:
    """(n,) float64 to sort by: numbers, seconds of dates, or the rows as they come."""
    if layout.time is None:
        return np.arange(table.rows, dtype=np.float64)
    column = table.columns[layout.time]
    words = column.words
    there = [word for word in words if word]
    if column.numbers is not None:
        times = np.asarray(column.numbers, dtype=np.float64)
    elif 2 * sum(map(is_number, there[:1000])) > len(there[:1000]):
        times = np.array([float(word) if word and is_number(word) else np.nan for word in words])
    else:
        times = _dates(words)
    for row in np.flatnonzero(~np.isfinite(times)).tolist():
        mistakes.add(
            table.places.cell(row, column.name),
            f"the time {words[row] or ''!r} is neither a number nor a date "
            '(2024-05-01 12:30:00); correct it, or set time="" to take rows as they come',
        )
    return times


def _dates(words: Words) -> np.ndarray:
    first: datetime | None = None
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        try:
            date = datetime.fromisoformat((word or "").strip())
        except ValueError:
            continue
        date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
        first = first or date
        out[row] = (date - first).total_seconds()
    return out


def _check_times(
    table: Table,
    layout: Layout,
    order: np.ndarray,
    code: np.ndarray,
    time: np.ndarray,
    mistakes: Mistakes,
    notes: list[str],
) -> None:
    """Two rows at one time are a mistake; rows out of order and unequal steps are worth a note."""
    same = code[order][1:] == code[order][:-1]
    steps = np.diff(time[order])
    twice = np.flatnonzero(same & (steps == 0))
    words, ids = table.columns[str(layout.time)].words, table.columns[str(layout.id)].words
    if len(twice):
        row, before = int(order[twice[0] + 1]), int(order[twice[0]])
        many = f", and {len(twice) - 1:,} more rows are like it" if len(twice) > 1 else ""
        mistakes.add(
            table.places.cell(row, str(layout.time)),
            f"{words[row]!r} is a time that {ids[row]!r} has already ({table.places.of(before)}){many}; give one row "
            "for each time, or name another --id or --time-column",
        )
    if (np.diff(order)[same] < 0).any():
        notes.append(f"rows were put in the order of {layout.time!r}")
    within = steps[same & (steps > 0)]
    if len(within) and within.max() > 1.01 * within.min():
        notes.append(
            f"steps of {layout.time!r} are unequal ({within.min():.4g} to {within.max():.4g}); only the order is used"
        )


def _one_each(
    table: Table,
    name: str,
    role: str,
    layout: Layout,
    code: np.ndarray,
    rows: np.ndarray,
    cells: Cells,
    mistakes: Mistakes,
) -> Column:
    """The column with each sequence's one label (or group) in its first row."""
    words = table.columns[name].words
    first: dict[int, int] = {}
    for row, word in enumerate(words):
        if cells.missing(word):
            continue
        before = first.setdefault(int(code[row]), row)
        if (words[before] or "").strip() != (word or "").strip():
            mistakes.add(
                table.places.cell(row, name),
                f"{word!r} for {table.columns[str(layout.id)].words[row]!r}, which "
                f"has {words[before]!r} ({table.places.of(before)}); a sequence has one {role}: correct it, or name "
                f"another --{role}",
            )
    out: Words = [None] * len(words)
    for sequence, row in first.items():
        out[int(rows[sequence])] = words[row]
    return Column(name, "text", arrow_texts(out))
