"""From a table and its layout to sequences: values and gaps one after another, labels, ids and groups beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headstart.data.axes import axis_of_all
from headstart.data.clock import as_they_come, ask_unit, step_words
from headstart.data.labels import (
    by_id,
    check_numbers,
    class_names,
    keyed,
    lost_labels,
    position_labels,
    target_kind,
    words_of,
)
from headstart.data.layout import ROLES, SOUNDS, Layout, LayoutSpec
from headstart.data.letters import both_strands, check_symbols, coded, letters_of, one_strand, text_kind
from headstart.data.order import FEW_VALUES, Ordered, clock_name
from headstart.data.padding import fillings
from headstart.data.parts import Parts, in_time, label_changes, numbers_of_columns, unit_of
from headstart.data.sequences import Sequences, as_tokens, needs_double
from headstart.data.subjects import how_recorded, splits_of, subjects_of
from headstart.data.table import (
    Cells,
    Column,
    Table,
    Words,
    arrow_lists,
    arrow_numbers,
    arrow_texts,
    texts_of,
)
from headstart.data.times import times_of
from headstart.data.windows import check_window, cut_windows
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import counted, is_number, many
from headstart.ways import WORDS_WAY, field_name, labels_argument, option


def build(
    table: Table, layout: Layout, mistakes: Mistakes, labels: Any = None, ids: Any = None, groups: Any = None
) -> Sequences:
    """The sequences of a table; `labels`, `ids` and `groups` that are given win over columns.

    Raises: BadInput with up to 20 mistakes, each with its place.
    """
    long = layout.shape == "long"
    if layout.id is not None:
        words = table.columns[layout.id].words
        labels, groups = (
            by_id(values, words, layout.id, what) if long or keyed(values, words, layout.by_format) else values
            for values, what in ((labels, labels_argument()), (groups, "groups"))
        )
    if long and layout.id is not None:
        _check_unused(table, layout, labels is not None)
    spec = layout.spec
    if spec.window is not None and labels is None and label_changes(table, layout):
        layout = replace(layout, spec=spec.model_copy(update={"per_position": True}))
    cells = Cells(table.places, frozenset(layout.spec.na), "." if layout.decimal == "auto" else layout.decimal)
    notes = [*table.notes, *layout.reasons]
    _check_kind(table, layout)
    texts = layout.shape == "text" or _one_of_words(table, layout)
    if texts:
        parts, layout = _written(table, layout, cells, mistakes, notes)
    else:
        parts = _numbers(table, layout, cells, mistakes, notes)
        cells.report(mistakes, notes, layout.spec.kind == "tokens")
    mistakes.check()
    columns = {role: table.columns[name] for role in ROLES if (name := getattr(layout, role)) is not None}
    places = table.places.take(parts.rows)
    if layout.spec.per_position:
        parts.labels = position_labels(labels, columns.get("target"), table.places, parts.offsets, places, mistakes)
        mistakes.check()
    if parts.times is not None:
        parts = in_time(parts, table, layout, notes)
    if not texts:
        parts = _without_padding(parts, layout.spec.padding, notes)
        parts = _cut_ends(parts, layout, table, notes, mistakes)
    words = parts.labels or words_of(labels, columns.get("target"), parts.rows, labels_argument())
    names = class_names(words, cells, fold=layout.spec.label_case == "fold")
    kind = layout.spec.target_kind if layout.spec.target_kind != "auto" else target_kind(names)
    if layout.spec.target_kind == "auto" and not layout.spec.per_position:
        check_numbers(names, columns.get("target"), places)
    begins = parts.rows if parts.begins is None else parts.begins
    values, observed = _observed(parts, layout.spec)
    layout = replace(
        layout,
        target_kind=kind if any(name is not None for name in names) else "none",
        double=values.dtype == np.float64,
        subjects=subjects_of(table, layout, parts.rows, names),
        splits=splits_of(table, layout),
    )
    whole = Sequences(
        values,
        parts.offsets,
        observed,
        labels=tuple(names),
        layout=layout,
        places=places,
        notes=(),
        channels=parts.channels,
        times=None if layout.time is None else _times(table, layout, mistakes)[begins],
        steps=table.steps if parts.steps is None else parts.steps,
        made={name: x[parts.rows] for name, x in (table.made | how_recorded(table, layout)).items()} | parts.made,
        ids=_each(words_of(ids, columns.get("id"), parts.rows, "ids"), "id", layout.id, places, mistakes),
        groups=_each(
            words_of(groups, columns.get("group"), parts.rows, "groups"), "group", layout.group, places, mistakes
        ),
    )
    if kind == "number":
        whole.numbers()
    else:
        notes += lost_labels(words, layout.spec.na)
    mistakes.check()
    if layout.shape != "text" and layout.kind == "numbers":
        whole = as_tokens(whole, notes)
    whole = replace(whole, notes=tuple(notes))
    _check_strand(whole.layout)
    if spec.window is None:
        check_window(table.places.source, spec)
        if spec.rate is not None and not spec.optional and layout.time is None and table.steps is None:
            raise BadInput(
                f"{table.places.source}: {field_name('rate')}: nothing says the times of positions, so that "
                "they cannot be brought to "
                f"{spec.rate:g} a second; name the column of the times with {option('time')}, or leave rate out"
            )
        return whole
    unit = table.unit if layout.time is None else unit_of(table, layout)
    seconds = None if whole.steps is None or unit is None else whole.steps * unit
    if seconds is None and spec.rate is not None:
        seconds = np.full(len(whole), 1 / spec.rate)
    elif seconds is None and whole.steps is not None and isinstance(spec.window, str) and layout.time is not None:
        raise ask_unit(table.places.source, layout.time, np.asarray(table.times))
    return cut_windows(whole, spec, seconds)


def _check_unused(table: Table, layout: Layout, labelled: bool) -> None:
    """Raises: BadInput where a column of few texts that is not used changes within a sequence of a long table, and
    would be its label where none is known, or says what each row of its only channel is."""
    if layout.spec.values or table.columns[layout.channels[0].columns[0]].type == "text":
        return
    unlabelled = layout.target is None and layout.spec.target is None and not labelled
    ids = Ordered(table.columns[str(layout.id)])
    names = [name for name in layout.unused if not clock_name(name)]
    for column in (Ordered(table.columns[name]) for name in names):
        few = (
            column.column.type == "text"
            and column.values is None
            and 1 < column.kinds <= max(FEW_VALUES, table.rows // 10)
        )
        row = column.changes_within(ids.codes) if few else None
        if row is None or not (unlabelled or len(layout.channels) == 1):
            continue
        length = max(2, min(100, int(np.bincount(ids.codes).min()) // 2))
        ways = [
            f"cut recordings into windows with a label each ({option('window', str(length))})",
            f"name with {option('id')} pieces of one label each",
            f"or with {option('target')} another column ('' for none)",
        ]
        if len(layout.channels) == 1:
            ways = ["write a column for each where it names sensors", *(ways if unlabelled else [])]
            ways.append(f"or give {option('values', layout.channels[0].name)} to leave it out")
        raise BadInput(
            f"{table.places.cell(row, column.name)}: {column.column.words[row]!r} is not the first value of "
            f"{column.name!r} in {ids.column.words[row]!r}, so that it is no label of a whole sequence; "
            f"{', '.join(ways)}"
        )


def _each(words: Words, what: str, column: str | None, places: Places, mistakes: Mistakes) -> tuple[str, ...] | None:
    """Ids or groups, which every row has or none."""
    if all(word is None or not word.strip() for word in words):
        return None
    way = f"give each sequence one, or set {what} to another column" if column else "give each sequence one"
    for row, word in enumerate(words):
        if word is None or not word.strip():
            mistakes.add(places.cell(row, column) if column else places.of(row), f"the {what} is empty; {way}")
    return tuple((word or "").strip() for word in words)


def _observed(parts: Parts, spec: LayoutSpec) -> tuple[np.ndarray, np.ndarray | None]:
    """(values, observed): missing numbers become 0 beside a mask. Numbers are in double precision where `spec` or their
    own values ask for it; what reads like other data has the precision of those."""
    if parts.values.dtype.kind != "f":
        return parts.values, None
    there = ~np.isnan(parts.values)
    values, observed = (parts.values, None) if there.all() else (np.where(there, parts.values, 0), there)
    double = spec.double or (not spec.optional and needs_double(values, parts.offsets, observed))
    return values.astype(np.float64 if double else np.float32, copy=False), observed


def _check_kind(table: Table, layout: Layout) -> None:
    """Raises: BadInput where a kind was set that the layout cannot hold."""
    kind, texts = layout.spec.kind, layout.shape == "text"
    if kind != "auto" and texts != (kind in ("text", "dna", "protein")):
        way = WORDS_WAY if kind == "tokens" else f"set another {option('kind')} or {option('shape')}"
        way = f"the model was fitted to {SOUNDS[kind]}; give such" if layout.spec.optional else way
        raise BadInput(
            f"{table.places.source}: kind: {kind!r} does not go with the layout {layout.shape!r}, "
            f"{'a' if texts else 'no'} column of texts; {way}"
        )


def _check_strand(layout: Layout) -> None:
    """Raises: BadInput where a strand is named of what is no DNA."""
    if layout.spec.strand and layout.kind != "dna":
        raise BadInput(
            f"{layout.source}: {option('strand', layout.spec.strand)} is of DNA, and the sequences are "
            f"{SOUNDS.get(layout.kind, layout.kind)}; leave it out, or give {option('kind', 'dna')}"
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
        if layout.spec.strand and kind == "dna":
            flat = one_strand(flat, offsets)
        if layout.spec.strand == "both" and kind == "dna":
            flat, offsets = both_strands(flat, offsets)
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
    if layout.spec.kind == "auto" and not layout.spec.symbols:
        check_symbols(tokens, table.places.source, column.name)
    ids, symbols = coded(tokens, layout.spec.symbols, places, column.name, mistakes)
    long = layout.shape == "long"
    begins, steps = (order[offsets[:-1]], _steps(table, layout, order, offsets, mistakes)) if long else (None, None)
    times = _times(table, layout, mistakes)[order] if long and layout.time else None
    parts = Parts(ids, offsets, rows, (column.name,), begins=begins, steps=steps, times=times)
    return parts, replace(layout, kind="tokens", symbols=symbols)


def _refuse_empty(lengths: np.ndarray, places: Places, column: str, mistakes: Mistakes) -> None:
    for row in np.flatnonzero(lengths == 0).tolist():
        mistakes.add(places.cell(row, column), "the sequence is empty; leave the row out")


def _numbers(table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]) -> Parts:
    channels = tuple(channel.name for channel in layout.channels)
    if layout.shape == "wide":
        longest = max(len(channel.columns) for channel in layout.channels)
        values = np.full((table.rows, longest, len(channels)), np.nan)
        for f, channel in enumerate(layout.channels):
            for i, column in enumerate(numbers_of_columns(cells, [table.columns[name] for name in channel.columns])):
                values[:, i, f] = column
        offsets = np.arange(table.rows + 1, dtype=np.int64) * longest
        return Parts(values.reshape(-1, len(channels)), offsets, np.arange(table.rows), channels)
    if layout.shape == "long":
        order, offsets, rows = in_sequences(table, layout, cells, mistakes, notes)
        flat = np.stack([cells.numbers(table.columns[channel.columns[0]])[order] for channel in layout.channels], 1)
        steps = _steps(table, layout, order, offsets, mistakes)
        times = _times(table, layout, mistakes)[order] if layout.time else None
        return Parts(flat, offsets, rows, channels, begins=order[offsets[:-1]], steps=steps, times=times)
    return _lists(table, layout, cells, mistakes, notes)


def _lists(table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]) -> Parts:
    """Columns whose cells are sequences (L,), each a channel; or one column of (L, F)."""
    spec, names = layout.spec, tuple(channel.columns[0] for channel in layout.channels)
    columns = [cells.sequences(table.columns[name], spec.sideways and not layout.by_format) for name in names]
    wide = columns[0].values.ndim == 2
    if wide and len(columns) > 1:
        mistakes.add(
            table.places.source,
            f"column {names[0]!r} holds several channels itself; name it alone with "
            f"{option('values')}, or one column for each channel",
        )
        mistakes.check()
    lengths = np.stack([np.diff(column.offsets) for column in columns])
    longest = lengths.max(0)
    _refuse_empty(longest, table.places, names[0], mistakes)
    if not longest.any():
        mistakes.check()
    offsets = np.concatenate([[0], np.cumsum(longest)]).astype(np.int64)
    if len(columns) == 1:
        values = columns[0].values.reshape(offsets[-1], -1)
        channels = tuple(f"channel {f + 1}" for f in range(values.shape[1])) if wide else names
        if wide and not (layout.by_format or table.time_axis):
            axis_of_all([(int(length), values.shape[1]) for length in longest], table.places.source, spec, turn=False)
        return Parts(values, offsets, np.arange(table.rows), channels)
    values = np.full((offsets[-1], len(columns)), np.nan)
    for f, column in enumerate(columns):
        values[np.arange(len(column.values)) + np.repeat(offsets[:-1] - column.offsets[:-1], lengths[f]), f] = (
            column.values
        )
    uneven = int((lengths < longest).any(0).sum())
    if uneven:
        notes.append(f"in {many(uneven, 'row')} a channel is shorter than the others, and missing from its end on")
    return Parts(values, offsets, np.arange(table.rows), names)


def _cut_ends(parts: Parts, layout: Layout, table: Table, notes: list[str], mistakes: Mistakes) -> Parts:
    """Sequences without the missing positions at their ends; one without any value is a mistake."""
    there = ~np.isnan(parts.values).all(1)
    starts, ends = parts.offsets[:-1], parts.offsets[1:]
    if there.all() and (ends > starts).all():
        return parts  # without a number for each position
    last = np.maximum.reduceat(np.where(there, np.arange(len(there)), -1), starts)
    empty = last < starts
    for i in np.flatnonzero(empty).tolist():
        mistakes.add(table.places.of(int(parts.rows[i])), "every value of the sequence is missing; leave the row out")
    mistakes.check()
    shorter = int((last + 1 < ends).sum())
    if not shorter or layout.spec.ends == "missing":
        return parts
    notes.append(
        f"{counted(shorter, 'sequence ends', 'sequences end')} in missing values, which are cut off "
        f"({option('ends', 'missing')} keeps them)"
    )
    return _cut(parts, starts, last + 1)


def _cut(parts: Parts, starts: np.ndarray, ends: np.ndarray) -> Parts:
    """Of each sequence the positions from its start on, up to its end."""
    position, lengths = np.arange(len(parts.values)), np.diff(parts.offsets)
    keep = (position >= np.repeat(starts, lengths)) & (position < np.repeat(ends, lengths))
    offsets = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    labels = None if parts.labels is None else [parts.labels[i] for i in np.flatnonzero(keep).tolist()]
    return replace(parts, values=parts.values[keep], offsets=offsets, labels=labels)


def _without_padding(parts: Parts, padding: str, notes: list[str]) -> Parts:
    """Sequences without what filled them up."""
    if not padding or not len(parts.values):
        return parts
    first, last = fillings(parts.values, parts.offsets, padding)
    notes.append(f"padding was cut off {many(int((first + last > 0).sum()), 'sequence')}")
    return _cut(parts, parts.offsets[:-1] + first, parts.offsets[1:] - last)


def in_sequences(
    table: Table, layout: Layout, cells: Cells, mistakes: Mistakes, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order of the rows, offsets (n + 1,), first row of each sequence), sequences as they first come.

    Also writes the one label and group of each sequence into its first row. Mistakes: a row without an id, two rows of
    one id and time, a label or group that changes within a sequence.
    """
    code = _codes(table, layout, mistakes)
    time = _times(table, layout, mistakes, notes, code)
    mistakes.check()
    order = np.lexsort((np.arange(len(code)), time, code))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(code))]).astype(np.int64)
    rows = np.full(len(offsets) - 1, len(code), dtype=np.int64)
    np.minimum.at(rows, code, np.arange(len(code)))
    if layout.time:
        _check_times(table, layout, order, code, time, mistakes, notes)
    for role, name in (("target", layout.target), ("group", layout.group)):
        if name and role == "target" and layout.spec.per_position:
            words = table.columns[name].words
            table.columns[name] = Column(name, "list", arrow_lists([words[i] or "" for i in order.tolist()], offsets))
        elif name:
            table.columns[name] = _one_each(table, name, role, layout, code, rows, cells, mistakes)
    mistakes.check()
    return order, offsets, rows


def _codes(table: Table, layout: Layout, mistakes: Mistakes) -> np.ndarray:
    """(n,) number of each row's sequence."""
    if layout.id is None:
        mistakes.add(table.places.source, f"no column says which rows are one sequence; name it with {option('id')}")
        mistakes.check()
    name = str(layout.id)
    codes, kinds = table.columns[name].coded
    if "" in kinds:
        for row in np.flatnonzero(codes == kinds.index("")).tolist():
            problem = "the id is empty, so that the row belongs to no sequence; give one"
            mistakes.add(table.places.cell(row, name), problem)
    return codes


def _times(
    table: Table,
    layout: Layout,
    mistakes: Mistakes,
    notes: list[str] | None = None,
    codes: np.ndarray | None = None,
) -> np.ndarray:
    """(n,) float64 to sort by: numbers, seconds, or the rows as they come. notes: takes what is said of them. codes: of
    a long table, the number of each row's sequence."""
    if layout.time is None:
        return np.arange(table.rows, dtype=np.float64)
    if table.times is None:
        table.times = times_of(table, layout, codes, mistakes, [] if notes is None else notes)
    return table.times


def _steps(
    table: Table, layout: Layout, order: np.ndarray, offsets: np.ndarray, mistakes: Mistakes
) -> np.ndarray | None:
    """(n,) the median step of time within each sequence, NaN of a single position; None without a time."""
    if layout.time is None:
        return None
    within, counts = np.ones(len(order) - 1, dtype=bool), np.diff(offsets) - 1
    within[offsets[1:-1] - 1] = False
    steps = np.diff(_times(table, layout, mistakes)[order])[within]
    steps = steps[np.lexsort((steps, np.repeat(np.arange(len(counts)), counts)))]
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    out = np.full(len(counts), np.nan)
    out[counts > 0] = steps[middle[counts > 0]]
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
    if len(twice):
        words, ids = table.columns[str(layout.time)].words, table.columns[str(layout.id)].words
        row, before = int(order[twice[0] + 1]), int(order[twice[0]])
        many = f", and {counted(len(twice) - 1, 'more row is', 'more rows are')} like it" if len(twice) > 1 else ""
        mistakes.add(
            table.places.cell(row, str(layout.time)),
            f"{words[row]!r} is a time that {ids[row]!r} has already ({table.places.of(before)}){many}; give one row "
            f"for each time, name another {option('id')} or {option('time')}, or give "
            f"{as_they_come(table.columns[str(layout.time)], time[order], layout.spec)} to take rows as they come",
        )
    if (np.diff(order)[same] < 0).any():
        notes.append(f"rows were put in the order of {layout.time!r}")
    within = steps[same & (steps > 0)]
    if layout.spec.rate is None and len(within) and within.max() > 1.01 * within.min():
        column = table.columns[str(layout.time)]
        dated = layout.spec.time_unit is None and (column.type == "time" or np.isnan(column.floats).all())
        ends = " to ".join(map(step_words, (within.min(), within.max())))
        notes.append(f"steps of {layout.time!r} are unequal ({ends}{' s' if dated else ''}); only the order is used")


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
    each = f", or cut sequences into windows of a label each ({option('window')})" if role == "target" else ""
    column = table.columns[name]
    words, kinds = column.coded
    words = np.where(np.array([cells.missing(kind) for kind in kinds], dtype=bool)[words], len(kinds), words)
    first = np.full(int(code.max(initial=-1)) + 1, -1, dtype=np.int64)
    there = np.flatnonzero(words < len(kinds))
    first[code[there[::-1]]] = there[::-1]
    for row in there[words[there] != words[first[code[there]]]].tolist():
        before = int(first[code[row]])
        mistakes.add(
            table.places.cell(row, name),
            f"{column.words[row]!r} for {table.columns[str(layout.id)].words[row]!r}, which "
            f"has {column.words[before]!r} ({table.places.of(before)}); a sequence has one {role}: correct it, or name "
            f"another {option(role)}{each}",
        )
    out = np.full(table.rows, len(kinds), dtype=np.int64)
    filled = np.flatnonzero(first >= 0)
    out[rows[filled]] = words[first[filled]]
    return Column(name, "text", arrow_texts([*kinds, None]).take(arrow_numbers(out)))
