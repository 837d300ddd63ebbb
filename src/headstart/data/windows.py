"""Long recordings cut into windows of equal length."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.sequences import Sequences
from headstart.data.spans import SECONDS, SPAN, Windows
from headstart.errors import BadInput
from headstart.text import counted, first_few, many, percent
from headstart.ways import field_name, option

MOST_IN_WINDOWS = 2**29
"""Values of all windows together: 2 GiB."""


def check_window(source: str, spec: LayoutSpec) -> None:
    """Raises: BadInput for what is of windows, where none are cut."""
    alone = ["step"] * (spec.step is not None) + ["window_label"] * (spec.window_label != "majority")
    if alone and not spec.optional:
        way = f"give {option('window')} with it, or leave it out"
        raise BadInput(f"{source}: {field_name(alone[0])}: is of windows, and none are cut; {way}")


def cut_windows(s: Sequences, spec: LayoutSpec, seconds: np.ndarray | None) -> Sequences:
    """The windows of recordings, from the first position of each on, every `step` positions; what is left at an end is
    no window. Labels of positions (where `s.per_position`) become one of each window.

    spec: has a window. seconds: (n,) between two positions of each recording, None where that is not known.
    Raises: BadInput where a recording is shorter than a window, or seconds are not known and a length is in time.
    """
    length = _positions("window", spec.window, s, seconds)
    step = length if spec.step is None else _positions("step", spec.step, s, seconds)
    _check_lengths(s, length)
    counts = (s.lengths - length) // step + 1
    if int((counts * length).sum()) * s.values[:1].size > MOST_IN_WINDOWS:
        raise BadInput(
            f"{s.layout.source}: its windows would hold more than {MOST_IN_WINDOWS:,} values; give a longer "
            f"{option('step')}, or fewer recordings"
        )
    row = np.repeat(np.arange(len(s)), counts)
    shift = (np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)) * step[row]
    begins, lengths = s.offsets[row] + shift, length[row]
    labels, mixed = _labels(s, spec, begins, lengths)
    keep = np.ones(len(row), dtype=bool)
    dropped = 0
    if spec.window_label == "drop" and not spec.optional:
        keep &= ~mixed
        dropped = int(mixed.sum())
    empty = np.zeros(len(row), dtype=bool)
    if s.observed is not None and not spec.optional:
        there = np.concatenate([[0], np.cumsum(s.observed.any(1))])
        empty = there[begins + lengths] == there[begins]
        keep &= ~empty
    if not keep.any():
        raise BadInput(
            f"{s.layout.source}: no window is left, in each the label changes; give a shorter {option('window')}, or "
            f"another {option('window_label')}"
        )
    row, shift, begins, lengths, labels = row[keep], shift[keep], begins[keep], lengths[keep], labels[keep]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    index = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    unit = np.ones(len(s)) if seconds is None else seconds
    names = tuple(map(str, range(1, len(s) + 1))) if s.ids is None else s.ids
    windows = Windows(
        row,
        tuple(names[i] for i in row.tolist()),
        shift * unit[row],
        (shift + lengths) * unit[row],
        seconds is not None,
    )
    groups = names if s.groups is None else s.groups
    start = None if s.times is None else s.times[row] + (0 if s.steps is None else shift * s.steps[row])
    notes = [*s.notes, _sentence(s, spec, length, step, len(row))]
    rest = int((s.lengths - (counts - 1) * step - length).sum())
    notes += [f"{many(rest, 'position')} at the ends of recordings, too few for a window, are left out"] * bool(rest)
    notes += _notes(spec, int(mixed.sum()), dropped, int(empty.sum()))
    return replace(
        s,
        values=s.values[index],
        offsets=offsets,
        observed=_gaps(s, index),
        labels=tuple(labels.tolist()),
        layout=replace(s.layout, spec=spec),
        places=s.places.take(row),
        ids=_ids(windows),
        groups=tuple(groups[i] for i in row.tolist()),
        times=start,
        steps=None if s.steps is None else s.steps[row],
        made={name: values[row] for name, values in s.made.items()},
        notes=tuple(notes),
        windows=windows,
    )


def _gaps(s: Sequences, index: np.ndarray) -> np.ndarray | None:
    observed = None if s.observed is None else s.observed[index]
    return None if observed is None or observed.all() else observed


def _ids(windows: Windows) -> tuple[str, ...]:
    unit = " s" if windows.seconds else ""
    rows = zip(windows.names, windows.starts.tolist(), windows.ends.tolist(), strict=True)
    return tuple(f"{name} {start:.9g}-{end:.9g}{unit}" for name, start, end in rows)


def _positions(field: str, span: int | str | None, s: Sequences, seconds: np.ndarray | None) -> np.ndarray:
    """(n,) positions of a length in each recording."""
    if isinstance(span, int):
        return np.full(len(s), span, dtype=np.int64)
    match = SPAN.fullmatch(str(span))
    assert match is not None, "the layout has checked it"
    if seconds is None or not np.isfinite(seconds).all():
        clock = f"{option('time')} names the column of the times, or " if s.layout.time is None else ""
        raise BadInput(
            f"{s.layout.source}: {field_name(field)}: {span} is a time, and nothing says how long a position lasts; "
            f"{clock}{option('rate', '50')} says how many there are in a second, or give {option(field, '500')} "
            "in positions"
        )
    out = np.rint(float(match[1]) * SECONDS[match[2]] / seconds).astype(np.int64)
    if (out < 1).any():
        raise BadInput(
            f"{s.layout.source}: {field}: {span} is less than one position, which lasts {seconds.max():.4g} s; give "
            "a longer one"
        )
    return out


def _check_lengths(s: Sequences, length: np.ndarray) -> None:
    short = np.flatnonzero(s.lengths < length).tolist()
    if not short:
        return
    names = [repr(s.ids[i]) if s.ids is not None else s.places.of(i) for i in short]
    some = first_few(
        [f"{name}: {many(int(s.lengths[i]), 'position')}" for name, i in zip(names, short, strict=True)], 3
    )
    least = int(s.lengths.min())
    raise BadInput(
        f"{s.layout.source}: {counted(len(short), 'recording is', 'recordings are')} shorter than a window of "
        f"{many(int(length[short[0]]), 'position')}, of {len(s):,} ({some}); give {option('window', str(least))} or "
        "less, or leave them out"
    )


def _labels(s: Sequences, spec: LayoutSpec, begins: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the label of each window, and whether it holds several; of numbers the majority is their mean."""
    out = np.full(len(begins), None, dtype=object)
    mixed = np.zeros(len(begins), dtype=bool)
    if not s.per_position:
        row = np.searchsorted(s.offsets, begins, side="right") - 1
        out[:] = [s.labels[i] for i in row.tolist()]
        return out, mixed
    numbers = s.numbers() if s.target == "number" else None
    changes = np.array([a != b for a, b in zip(s.labels[:-1], s.labels[1:], strict=True)], dtype=np.int64)
    changed = np.concatenate([[0], np.cumsum(changes)])
    mixed = changed[begins + lengths - 1] > changed[begins]
    for i, (begin, length) in enumerate(zip(begins.tolist(), lengths.tolist(), strict=True)):
        last = s.labels[begin + length - 1]
        if not mixed[i] or spec.window_label == "end":
            out[i] = last
        elif spec.optional and spec.window_label == "drop":
            out[i] = None
        elif numbers is not None:
            part = numbers[begin : begin + length]
            out[i] = None if np.isnan(part).all() else f"{np.nanmean(part):.9g}"
        else:
            there = [label for label in reversed(s.labels[begin : begin + length]) if label is not None]
            out[i] = max(Counter(there).items(), key=lambda pair: pair[1])[0] if there else None  # of equals the last
    return out, mixed


def _sentence(s: Sequences, spec: LayoutSpec, length: np.ndarray, step: np.ndarray, count: int) -> str:
    """What was cut, and how much neighbours share."""
    share = float(np.maximum(1 - step / length, 0).mean())
    several = len(np.unique(length)) > 1
    positions = "" if several or isinstance(spec.window, int) else f" ({many(int(length[0]), 'position')})"
    size = f"{many(spec.window, 'position')}" if isinstance(spec.window, int) else f"{spec.window}{positions}"
    every = "" if spec.step is None else f" every {spec.step}"
    both = np.maximum(s.lengths - length, 0) // step > 0
    overlap = f"neighbours share {percent(share)} of their positions" if share else "none overlap"
    if share:
        lap = int(((s.lengths - length) // step + 1)[both].sum())
        overlap = f"{lap:,} overlap with a neighbour, and {overlap}"
    single = "; they are all of one recording, so that no split can keep them apart" if len(s) == 1 else ""
    return (
        f"{counted(len(s), 'recording is', 'recordings are')} cut into {many(count, 'window')} of {size}{every}: "
        f"{overlap}; windows of one recording stay in one split{single}"
    )


def _notes(spec: LayoutSpec, mixed: int, dropped: int, empty: int) -> list[str]:
    notes = []
    if mixed and not dropped:
        rule = {"end": "the label of its end", "drop": "none"}.get(spec.window_label, "the most frequent one")
        notes.append(
            f"in {many(mixed, 'window')} the label changes; each has {rule} ({option('window_label')}: majority, end "
            "or drop)"
        )
    if dropped:
        notes.append(f"{counted(dropped, 'window is', 'windows are')} left out, in which the label changes")
    return notes + [f"{counted(empty, 'window is', 'windows are')} left out, in which every value is missing"] * bool(
        empty
    )
