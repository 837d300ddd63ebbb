"""Files of arrays by name that hold an array, or a group of arrays, for each recording: `p01/trial3/acc`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from headstart.data.arrays import ARRAY_NAMES
from headstart.data.axes import other_way, time_axis
from headstart.data.class_folders import class_folders, person_folders
from headstart.data.file_labels import PERSON, holds_labels
from headstart.data.layout import SPLIT_WORDS, LayoutSpec, by_role, plain
from headstart.data.named import Named
from headstart.data.order import WORDS, counter_name
from headstart.data.rows import column_of, list_column
from headstart.data.table import Column, Table, arrow_texts
from headstart.errors import BadInput, Places
from headstart.text import first_few
from headstart.ways import option

FEWEST_GROUPS, MANY_GROUPS = 3, 10
"""Groups with numbers in their names from which on each may be a recording, and without; a file that is served may have
fewer."""
NEARLY_ALL = 0.9
"""Share of the recordings that have an array."""
RATE_NAMES = ("fs", "rate", "samplingrate", "samplerate", "sfreq", "samplingfrequency", "samplefrequency", "srate")
"""Names, without case and marks, of positions a second."""
ID, ALL, TIMES = "recording", "values", "time"
"""Columns: the names of recordings, what is one array alone, and times that a rate tells."""

_Path = tuple[str, ...]


def recordings_of(named: Named, spec: LayoutSpec) -> Table | None:
    """A row for each recording, a column for each of its arrays, its attributes and those of the groups around it; None
    of a file whose arrays have a row for each sequence, or are the channels of one recording.

    Raises: BadInput where a recording lacks an array of the others.
    """
    if set(spec.values) & set(named.arrays):
        return None
    deepest = max((name.count("/") + 1 for name in named.arrays), default=0)
    levels = [_level(named, depth) for depth in range(deepest, 0, -1)]
    levels = [level for level in levels if level and _may_be_recordings(level, spec)]
    labelled = [level for level in levels if all(_is_labelled(path, own, named) for path, own in level.items())]
    level = next(iter(labelled or filter(_are_recordings, levels) if not spec.values else levels), None)
    if level is None:
        return None
    table = arrays_table(level, signals_of(level), named, spec)
    _label(table, [path[:-1] for path in sorted(level, key=_in_order)], spec)
    parts = {"/".join((*path, *([name] if name else []))) for path, own in level.items() for name in own}
    left = [repr(name) for name in named.arrays if name not in parts]
    table.notes += [f"not used: {first_few(left, 5)}"] * bool(left) + named.notes
    return table


def arrays_table(
    level: Mapping[_Path, Mapping[str, np.ndarray]], signals: Sequence[str], named: Named, spec: LayoutSpec
) -> Table:
    """A row for each recording, by its path, with its arrays of these names, and what else is known of it.

    Raises: BadInput where a recording lacks an array of the others, or where nothing tells which axis is time.
    """
    paths, source = sorted(level, key=_in_order), str(named.path)
    ids = ["/".join(path) for path in paths]
    for path in paths:
        if lost := [name for name in signals if name not in level[path]]:
            raise BadInput(
                f"{source}: {'/'.join(path)!r} has no {lost[0]!r}, which the other recordings have; give all the same "
                "arrays, or leave this one out"
            )
    places = Places(source, names=[f"{source}: {name}" for name in ids])
    table = Table({ID: Column(ID, "text", arrow_texts(ids))}, len(ids), places, "recordings by name", shape="list")
    table.roles["id"] = ID
    axes = set()
    for signal in signals:
        name, arrays = signal or ALL, [level[path][signal] for path in paths]
        axis = _time_axis(arrays, name, table, spec)
        axes |= {axis} if any(array.ndim == 2 for array in arrays) else set()
        cells = [array.T if array.ndim == 2 and axis == "second" else array for array in arrays]
        table.columns[name] = list_column(name, cells, places)
    table.time_axis = axes.pop() if len(axes) == 1 else ""
    facts = [_facts(path, level[path], named) for path in paths]
    for name in dict.fromkeys(name for own in facts for name in own if name not in table.columns):
        table.columns[name] = column_of(name, [own.get(name) for own in facts], places)
    _count_times(table, [name or ALL for name in signals], facts, named, spec)
    return table


def _level(named: Named, depth: int) -> dict[_Path, dict[str, np.ndarray]]:
    """The arrays of each recording by their own names, where recordings stand so deep; "" of one that is an array."""
    out: dict[_Path, dict[str, np.ndarray]] = defaultdict(dict)
    for name, array in named.arrays.items():
        parts = tuple(name.split("/"))
        if len(parts) >= depth:
            out[parts[:depth]]["/".join(parts[depth:])] = array
    return dict(out)


def signals_of(level: Mapping[_Path, Mapping[str, np.ndarray]]) -> list[str]:
    """The names of the arrays of numbers that most recordings have."""
    counts: dict[str, int] = defaultdict(int)
    for arrays in level.values():
        for name, array in arrays.items():
            counts[name] += array.ndim in (1, 2) and array.size > 1 and array.dtype.kind in "biuf"
    return [name for name, count in counts.items() if count >= NEARLY_ALL * len(level)]


def _may_be_recordings(level: Mapping[_Path, Mapping[str, np.ndarray]], spec: LayoutSpec) -> bool:
    """Whether groups have the same arrays, those that were named, and are neither splits nor what arrays are called."""
    signals, names = signals_of(level), {path[-1] for path in level}
    usual = {name for names in ARRAY_NAMES.values() for name in names}
    words = [{plain(word) for word in WORDS.findall(name)} for name in names]
    arrays = any(name.lower() in usual or word & set(SPLIT_WORDS) for name, word in zip(names, words, strict=True))
    if not signals or arrays:
        return False
    if spec.values:
        columns = [name or ALL for name in signals]
        return all(value in columns or value.rpartition(" ")[0] in columns for value in spec.values)
    return len(level) >= FEWEST_GROUPS


def _is_labelled(path: _Path, arrays: Mapping[str, np.ndarray], named: Named) -> bool:
    """Whether a label stands beside the arrays of a recording."""
    single = [name for name, array in arrays.items() if array.size == 1]
    return bool(by_role("target", [*named.attributes.get("/".join(path), {}), *single]))


def _are_recordings(level: Mapping[_Path, Mapping[str, np.ndarray]]) -> bool:
    """Whether names and shapes say that groups, or arrays, are recordings rather than channels of one."""
    names = [path[-1] for path in level]
    numbered = all(re.search(r"\d", name) for name in names)
    groups, signals = any("" not in arrays for arrays in level.values()), signals_of(level)
    if groups:
        alone = len(set(names)) == len(names) >= MANY_GROUPS
        lengths = [{len(arrays[name]) for name in signals if name in arrays} for arrays in level.values()]
        wide = any(arrays[name].ndim == 2 for arrays in level.values() for name in signals if name in arrays)
        return (numbered or alone) and (wide or all(len(each) == 1 for each in lengths))
    shapes: dict[_Path, set[int]] = defaultdict(set)
    for path, arrays in level.items():
        shapes[path[:-1]].add(arrays[""].size)
    counted = all(name.isdecimal() or counter_name(name) or PERSON.fullmatch(name) for name in names)
    return numbered and (counted or 1 < len(shapes) < FEWEST_GROUPS or max(map(len, shapes.values())) > 1)


def _in_order(path: _Path) -> list[list[tuple[int, str]]]:
    """A key that puts 2 before 10."""
    return [[(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)] for name in path]


def _time_axis(
    arrays: Sequence[np.ndarray], name: str, table: Table, spec: LayoutSpec
) -> Literal["", "first", "second"]:
    """Which axis of matrices is time, as it was set or as their sizes tell; "" where nothing does."""
    shapes = [array.shape for array in arrays if array.ndim == 2]
    if not shapes:
        return ""
    wanted = spec.time_axis or ("second" if spec.channels_first else "")
    axis = wanted or time_axis(shapes)
    if axis == "second" and not wanted:
        alone = len({shape[0] for shape in shapes}) == 1 < len({shape[1] for shape in shapes})
        why = "as the second size alone differs between recordings" if alone else "as the second size is much larger"
        table.notes.append(f"{name!r} is channels by positions, {why} ({option('time_axis', 'first')}: it is not)")
    elif not axis:
        table.notes += other_way(max(shape[0] for shape in shapes), min(shape[1] for shape in shapes))
    return axis


def _facts(path: _Path, arrays: Mapping[str, np.ndarray], named: Named) -> dict[str, Any]:
    """What is known of a recording: attributes of it and of the groups around it, single values, and texts."""
    out: dict[str, Any] = {}
    for depth in range(1, len(path) + 1):
        out |= named.attributes.get("/".join(path[:depth]), {})
    for name, array in arrays.items():
        if array.size == 1:
            out[name] = array.reshape(-1)[0].item()
        elif array.dtype.kind in "US" and array.ndim == 1:
            out[name] = array
    return out


def _count_times(
    table: Table, signals: Sequence[str], facts: Sequence[Mapping[str, Any]], named: Named, spec: LayoutSpec
) -> None:
    """Add the times of positions where a rate is known and no times are."""
    names = [name for name in table.columns if plain(name) in RATE_NAMES]
    root = next((value for name, value in named.attributes.get("", {}).items() if plain(name) in RATE_NAMES), None)
    rates = [own.get(names[0]) if names else root for own in facts]
    for name in names:
        del table.columns[name]
    if spec.time is not None or by_role("time", signals):
        return
    if not all(isinstance(rate, (int, float)) and 0 < rate < np.inf for rate in rates):
        return
    ends = [int(table.columns[signals[0]].data.value_lengths()[row].as_py()) for row in range(table.rows)]
    times = [np.arange(end) / float(rate or 1) for end, rate in zip(ends, rates, strict=True)]
    table.clock = TIMES
    table.columns[TIMES] = list_column(TIMES, times, table.places)
    table.notes.append(f"times are counted by {(names or ['the rate'])[0]!r}")


def _label(table: Table, groups: Sequence[_Path], spec: LayoutSpec) -> None:
    """Take labels from attributes, else from groups as from folders, else from the names of recordings."""
    facts = {name: c for name, c in table.columns.items() if c.type != "list" and name != ID}
    labelled = spec.target in facts or bool(by_role("target", facts))
    persons = all(path and PERSON.fullmatch(path[0]) for path in groups)
    labelled = labelled or (persons and holds_labels(facts, spec))
    if labelled or spec.label_from is not None:
        person_folders(table, groups, spec)
    elif any(groups):
        class_folders(table, groups, spec)
    if table.roles.get("target") == "":
        del table.roles["target"]
    table.named = not labelled and "target" not in table.roles and not holds_labels(facts, spec)
