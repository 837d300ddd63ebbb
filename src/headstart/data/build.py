"""From a table and its layout to sequences: values and gaps one after another, labels, ids and groups beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headstart.data.arrow import Words, texts_of
from headstart.data.labels import class_names, given_words, target_kind
from headstart.data.layout import Layout
from headstart.data.letters import coded, letters_of, text_kind
from headstart.data.long_format import in_sequences
from headstart.data.sequences import Sequences
from headstart.data.table import Cells, Places, Table, is_number, number_name
from headstart.errors import BadInput, Mistakes

PLAIN_TOKENS = 10
"""Different whole numbers up to which one channel of numbers is taken for tokens."""


@dataclass
class Parts:
    """Sequences on the way: `values` (S, F) with NaN where missing, or ids (S,); `rows` are the table's rows that stand
    for each sequence (in a long table its first)."""

    values: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    channels: tuple[str, ...]


def build(
    table: Table, layout: Layout, mistakes: Mistakes, labels: Any = None, ids: Any = None, groups: Any = None
) -> Sequences:
    """The sequences of a table; `labels`, `ids` and `groups` that are given win over columns.

    Raises: BadInput with up to 20 mistakes, each with its place.
    """
    cells = Cells(table.places, frozenset(layout.spec.na), "." if layout.decimal == "auto" else layout.decimal)
    notes = list(table.notes)
    _check_kind(table, layout)
    if layout.shape == "text" or _one_of_words(table, layout):
        parts, layout = _written(table, layout, cells, mistakes, notes)
    else:
        parts = _numbers(table, layout, cells, mistakes, notes)
        cells.report(mistakes)
        mistakes.check()
        parts = _cut_ends(parts, layout, table, notes, mistakes)
    mistakes.check()
    places = table.places.take(parts.rows)
    count = len(parts.rows)
    names = class_names(_given(labels, layout.target, table, parts.rows, count, "labels"), cells)
    kind = layout.spec.target_kind if layout.spec.target_kind != "auto" else target_kind(names)
    layout = replace(layout, target_kind=kind if any(name is not None for name in names) else "none")
    whole = Sequences(
        *_observed(parts),
        labels=tuple(names),
        layout=layout,
        places=places,
        notes=(),
        channels=parts.channels,
        ids=_each(_given(ids, layout.id, table, parts.rows, count, "ids"), "id", layout.id, places, mistakes),
        groups=_each(
            _given(groups, layout.group, table, parts.rows, count, "groups"), "group", layout.group, places, mistakes
        ),
    )
    if kind == "number":
        whole.numbers()
    mistakes.check()
    if layout.shape != "text" and layout.kind == "numbers":
        whole = to_tokens(whole, notes)
    return replace(whole, notes=tuple(notes))


def _given(values: Any, column: str | None, table: Table, rows: np.ndarray, count: int, what: str) -> Words:
    if values is not None:
        return given_words(values, count, what)
    if column is None:
        return [None] * count
    words = table.columns[column].words
    return [words[i] for i in rows.tolist()]


def _each(words: Words, what: str, column: str | None, places: Places, mistakes: Mistakes) -> tuple[str, ...] | None:
    """Ids or groups, which every row has or none."""
    if all(word is None or not word.strip() for word in words):
        return None
    for row, word in enumerate(words):
        if word is None or not word.strip():
            mistakes.add(
                places.cell(row, column) if column else places.of(row),
                f"the {what} is empty; give each sequence one, or set {what} to another column",
            )
    return tuple((word or "").strip() for word in words)


def _observed(parts: Parts) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(values, offsets, observed): missing numbers become 0 beside a mask."""
    if parts.values.dtype.kind != "f":
        return parts.values, parts.offsets, None
    there = ~np.isnan(parts.values)
    values = parts.values.astype(np.float32)
    if there.all():
        return values, parts.offsets, None
    values[~there] = 0
    return values, parts.offsets, there


def _check_kind(table: Table, layout: Layout) -> None:
    """Raises: BadInput where a kind was set that the layout cannot hold."""
    kind, texts = layout.spec.kind, layout.shape == "text"
    if kind != "auto" and texts != (kind in ("text", "dna", "protein")):
        what = "a column of texts" if texts else "no column of texts"
        raise BadInput(
            f"{table.places.source}: kind: {kind!r} does not go with the layout {layout.shape!r}, which is {what}; set "
            "another --kind or --layout"
        )


def _one_of_words(table: Table, layout: Layout) -> bool:
    """Whether the one channel holds words, each of which is a token."""
    if len(layout.channels) != 1 or layout.shape not in ("list", "long"):
        return False
    if layout.spec.kind == "numbers":
        return False
    column = table.columns[layout.channels[0].columns[0]]
    if layout.shape == "long":
        return column.type == "text"
    if not column.has_words:
        return False
    words = texts_of(column.sequences(table.places).values[:2_500])
    return 2 * sum(is_number(word or "") for word in words) < len(words)


def _written(table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]) -> tuple[Parts, Layout]:
    """Texts, letters, or sequences of words."""
    column = table.columns[layout.channels[0].columns[0]]
    if layout.shape == "text":
        words = column.words
        kind = layout.spec.kind if layout.spec.kind in ("text", "dna", "protein") else text_kind(words)
        flat, offsets = letters_of(words, kind, table.places, column.name, mistakes, notes)
        return (Parts(flat, offsets, np.arange(table.rows), (column.name,)), replace(layout, kind=kind))
    if layout.shape == "long":
        order, offsets, rows = in_sequences(table, layout, cells, mistakes, notes)
        words = column.words
        tokens = [words[i] for i in order.tolist()]
        places = table.places.take(order)
    else:
        values, offsets = column.sequences(table.places)
        rows, tokens = np.arange(table.rows), texts_of(values)
        places = table.places.take(np.repeat(rows, np.diff(offsets)))
        _refuse_empty(np.diff(offsets), table.places, column.name, mistakes)
    ids, symbols = coded(tokens, layout.spec.symbols, places, column.name, mistakes)
    return Parts(ids, offsets, rows, (column.name,)), replace(layout, kind="tokens", symbols=symbols)


def _refuse_empty(lengths: np.ndarray, places: Places, column: str, mistakes: Mistakes) -> None:
    for row in np.flatnonzero(lengths == 0).tolist():
        mistakes.add(places.cell(row, column), "the sequence is empty; leave the row out")


def _numbers(table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]) -> Parts:
    channels = tuple(channel.name for channel in layout.channels)
    if layout.shape == "wide":
        longest = max(len(channel.columns) for channel in layout.channels)
        values = np.full((table.rows, longest, len(channels)), np.nan, dtype=np.float32)
        for f, channel in enumerate(layout.channels):
            for i, name in enumerate(channel.columns):
                values[:, i, f] = cells.numbers(table.columns[name])
        offsets = np.arange(table.rows + 1, dtype=np.int64) * longest
        return Parts(values.reshape(-1, len(channels)), offsets, np.arange(table.rows), channels)
    if layout.shape == "long":
        order, offsets, rows = in_sequences(table, layout, cells, mistakes, notes)
        flat = np.stack([cells.numbers(table.columns[channel.columns[0]])[order] for channel in layout.channels], 1)
        return Parts(flat.astype(np.float32), offsets, rows, channels)
    return _lists(table, layout, cells, mistakes, notes)


def _lists(table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]) -> Parts:
    """Columns whose cells are sequences (L,), each a channel; or one column of (L, F)."""
    names = tuple(channel.columns[0] for channel in layout.channels)
    columns = [cells.sequences(table.columns[name]) for name in names]
    wide = columns[0].values.ndim == 2
    if wide and len(columns) > 1:
        mistakes.add(
            table.places.source,
            f"column {names[0]!r} holds several channels itself; name it alone with "
            "--values, or one column for each channel",
        )
        mistakes.check()
    lengths = np.stack([np.diff(column.offsets) for column in columns])
    longest = lengths.max(0)
    _refuse_empty(longest, table.places, names[0], mistakes)
    offsets = np.concatenate([[0], np.cumsum(longest)]).astype(np.int64)
    if len(columns) == 1:
        values = columns[0].values.reshape(offsets[-1], -1).astype(np.float32)
        channels = tuple(f"channel {f + 1}" for f in range(values.shape[1])) if wide else names
        return Parts(values, offsets, np.arange(table.rows), channels)
    values = np.full((offsets[-1], len(columns)), np.nan, dtype=np.float32)
    for f, column in enumerate(columns):
        values[np.arange(len(column.values)) + np.repeat(offsets[:-1] - column.offsets[:-1], lengths[f]), f] = (
            column.values
        )
    uneven = int((lengths < longest).any(0).sum())
    if uneven:
        notes.append(f"in {uneven:,} rows a channel is shorter than the others, and missing from its end on")
    return Parts(values, offsets, np.arange(table.rows), names)


def _cut_ends(parts: Parts, layout: Layout, table: Table, notes: list[str], mistakes: Mistakes) -> Parts:
    """Sequences without the missing positions at their ends; one without any value is a mistake."""
    there = ~np.isnan(parts.values).all(1)
    starts, ends = parts.offsets[:-1], parts.offsets[1:]
    last = np.maximum.reduceat(np.where(there, np.arange(len(there)), -1), starts)
    empty = last < starts
    for i in np.flatnonzero(empty).tolist():
        mistakes.add(table.places.of(int(parts.rows[i])), "every value of the sequence is missing; leave the row out")
    mistakes.check()
    shorter = int((last + 1 < ends).sum())
    if not shorter or layout.spec.ends == "missing":
        return parts
    notes.append(f'{shorter:,} sequences end in missing values, which are cut off (ends="missing" keeps them)')
    position = np.arange(len(there))
    keep = position <= np.repeat(last, ends - starts)
    offsets = np.concatenate([[0], np.cumsum(last + 1 - starts)]).astype(np.int64)
    return replace(parts, values=parts.values[keep], offsets=offsets)


def to_tokens(whole: Sequences, notes: list[str]) -> Sequences:
    """The same as tokens, where that was asked for or is plain: one channel, nothing missing, few whole numbers.

    Raises: BadInput where it was asked for and cannot be, and for numbers that are none of the symbols that were set.
    """
    spec = whole.layout.spec
    asked = spec.kind == "tokens"
    if spec.kind not in ("auto", "tokens"):
        return whole
    if whole.values.shape[1] != 1 or whole.observed is not None:
        if asked:
            what = "a value is missing" if whole.observed is not None else f"there are {whole.values.shape[1]} channels"
            raise BadInput(
                f"{whole.layout.source}: kind: tokens need one channel without gaps, and {what}; set kind to "
                "numbers, or name one channel with --values"
            )
        return whole
    flat = whole.values[:, 0]
    if not asked and not (flat[:1000] == flat[:1000].round()).all():
        return whole
    numbers, first, which = np.unique(flat, return_index=True, return_inverse=True)
    plain = 1 < len(numbers) <= PLAIN_TOKENS and (numbers == numbers.round()).all() and len(flat) >= 20 * len(numbers)
    if not asked and not plain:
        return whole
    names = [number_name(value) for value in numbers.tolist()]
    places = whole.places.take(np.searchsorted(whole.offsets, first, side="right") - 1)
    mistakes = Mistakes()
    codes, symbols = coded(names, spec.symbols or tuple(names), places, whole.channels[0], mistakes)
    mistakes.check()
    if not asked:
        notes.append(
            f"whole numbers with {len(names)} values are read as tokens (--kind numbers reads them as numbers)"
        )
    return replace(whole, values=codes[which], layout=replace(whole.layout, kind="tokens", symbols=symbols))
