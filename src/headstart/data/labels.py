"""Targets as people write them: names of classes as text, or numbers; rows without one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from headstart.data.rows import array_of, column_of
from headstart.data.table import Cells, Column, Words, arrow_numbers, texts_of
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import counted, first_few, is_number, many
from headstart.ways import asked, field_name, labels_argument, option

_WHOLE = re.compile(r"^[+-]?\d+\.0*$|^[+-]?\d+\.\d*[eE][+-]\d{2,}$")
"""Whole numbers as programs write them: 1.0, 1., 1.000e+00. 1E2 is a name."""
MANY_NUMBERS = 20
"""Different numbers from which on a target of numbers is not a class, unless they count up from 0 or 1."""


def check_one_target(source: str, columns: Mapping[str, Words]) -> None:
    """Raises: BadInput where two columns of these may be the target and do not hold the same classes by other names."""
    names = list(columns)
    for name in names[1:]:
        pairs = set(zip(columns[names[0]], columns[name], strict=True))
        if len({first for first, _ in pairs}) < len(pairs) or len({second for _, second in pairs}) < len(pairs):
            question = (
                f"{source}: {field_name('target')}: the columns {names[0]!r} and {name!r} may both be the "
                "target, and differ"
            )
            raise BadInput(asked(question, {"target": names[0]}, {"target": name}, {"target": ""}))


def check_one_group(source: str, name: str, groups: Sequence[str]) -> None:
    """Raises: BadInput where an id that was guessed counts anew in each group, so that rows of several would join."""
    if groups:
        question = f"{source}: a value of {name!r} stands in rows of several values of {groups[0]!r}"
        raise BadInput(f"{question}; name a column that tells sequences apart with {option('id')}")


def class_names(words: Words, cells: Cells, *, fold: bool = False) -> Words:
    """Labels as they are given back: without blanks at their ends, 1.0 as 1, None where there is none; fold: those that
    differ in case or blanks alone as one."""
    if cells.decimal != ".":
        words = [
            word.replace(cells.decimal, ".") if word and is_number(word, cells.decimal) else word for word in words
        ]
    names = [None if cells.missing(word) else class_name(word or "") for word in words]
    return [None if name is None else folded(name) for name in names] if fold else names


def folded(name: str) -> str:
    """The name of a class in small letters, with a blank between its words, without marks that nobody sees and in one
    encoding of its letters: what alike names have in common."""
    letters = "".join(mark if _is_raised(mark) else unicodedata.normalize("NFKC", mark) for mark in name)
    seen = "".join(mark for mark in unicodedata.normalize("NFC", letters) if unicodedata.category(mark) != "Cf")
    return spaced(seen).strip().casefold()


def _is_raised(mark: str) -> bool:
    """Whether a mark is a power or an index, which make another name: 10² is not 102."""
    return unicodedata.decomposition(mark).startswith(("<super>", "<sub>"))


def spaced(name: str) -> str:
    """The name of a class with a blank between its words."""
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", name)


def lost_labels(words: Words, na: Collection[str]) -> list[str]:
    """What is said of classes that are named nan and so are no labels, unless `na` has them."""
    nans = [word.strip() for word in words if word and word.strip().lower() == "nan" and word.strip() not in na]
    if not nans:
        return []
    return [
        f"the label {nans[0]!r} of {many(len(nans), 'row')} is taken for a missing one; where it is a class, give it "
        "another name"
    ]


def class_name(text: str) -> str:
    """One label: a whole number loses its point (1.0 and 1 are one class), everything else stays as it is."""
    text = text.strip()
    if _WHOLE.match(text):
        try:
            value = float(text)
        except ValueError:
            return text
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else text
    return text


def target_kind(names: Sequence[str | None]) -> Literal["class", "number", "none"]:
    """Whether labels look like classes or like numbers.

    Whole numbers are classes where there are at most 20, or where they count up from 0 or 1 and each stands for two
    rows on the average. Numbers of which one has a fraction are numbers.
    """
    there = [name for name in names if name is not None]
    if not there:
        return "none"
    different = set(there)  # of a million rows few
    if not all(map(is_number, different)):
        return "class"
    values = {float(name) for name in different}
    if not all(value.is_integer() for value in values):
        return "number"
    return (
        "class"
        if len(values) <= MANY_NUMBERS or (_counts(values, (0, 1)) and 2 * len(values) <= len(there))
        else "number"
    )


def check_numbers(names: Words, column: Column | None, places: Places) -> None:
    """Raises: BadInput where half of the targets or more are numbers, too many for classes, and others are none; so is
    a number with a % behind it."""
    numbers = [part for name in names if name is not None and is_number(part := name.removesuffix("%"))]
    others = [row for row, name in enumerate(names) if name is not None and not is_number(name)]
    total = sum(name is not None for name in names)
    if others and 2 * len(numbers) >= total and target_kind(numbers) == "number":
        word, row = names[others[0]] or "", others[0]
        raise BadInput(
            f"{places.of(row) if column is None else places.cell(row, column.name)}: the target {word!r} is no number, "
            f"like {len(others):,} of {total:,}; write it as one, give {option('na', word)} where it is missing, "
            f"or take all for classes with {option('target_kind', 'class')}"
        )


def _counts(values: set[float], starts: tuple[int, ...]) -> bool:
    """Whether whole numbers count up from one of `starts` without a gap."""
    return min(values) in starts and max(values) - min(values) + 1 == len(values)


def may_be_either(names: Sequence[str | None]) -> bool:
    """Whether whole numbers look like classes and like numbers.

    That is so where three to 20 of them hardly repeat or do not count up from -1, 0 or 1, and where more than 20 do
    repeat without counting up from 0 or 1.
    """
    there = [name for name in names if name is not None]
    different = set(there)
    if not there or not all(map(is_number, different)) or not all(float(name).is_integer() for name in different):
        return False
    values = {float(name) for name in different}
    repeat = 2 * len(values) <= len(there)
    if target_kind(there) == "class":
        return len(values) > 2 and not (repeat and _counts(values, (-1, 0, 1)))
    return repeat


def words_of(values: Any, column: Column | None, rows: np.ndarray, what: str) -> Words:
    """Labels, ids or groups of the sequences, one for each: those that are given, else those of a column.

    `rows` are the rows of the column that stand for the sequences. Raises: BadInput for another number of values.
    """
    if values is None:
        if column is not None and column.type == "list":
            raise BadInput(
                f"{what}: column {column.name!r} holds a list for each sequence; give one value for each, a column for "
                "each of several targets, or, in a study, set per_position=true where every position has a target"
            )
        return [None if column is None else column.words[i] for i in rows.tolist()]
    if hasattr(values, "to_list"):
        values = values.to_list()
    elif hasattr(values, "to_pylist"):
        values = values.to_pylist()
    elif hasattr(values, "__array__"):
        values = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise BadInput(f"{what}: has shape {values.shape}; give one for each sequence")
        values = values.tolist()
    if isinstance(values, Mapping):
        raise BadInput(f"{what}: is a dict, and sequences without ids cannot be found by its keys; give a list")
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        kind = type(values).__name__
        raise BadInput(f"{what}: is of type {kind}; give a list or an array with one for each sequence")
    if len(values) != len(rows):
        raise BadInput(
            f"{what}: has {counted(len(values), 'entry', 'entries')} for {many(len(rows), 'sequence')}; give one for "
            "each"
        )
    result = column_of(what, values, Places(what))
    if result.type in ("list", "other"):
        raise BadInput(
            f"{what}: holds values that are neither texts nor numbers; give one text or number for each sequence"
        )
    return result.words


def keyed(values: Any, ids: Sequence[str | None], named: bool) -> bool:
    """Whether labels or groups of a row per sequence are told by its ids: those of a mapping are; so are those of a
    series whose index holds one of the ids, where these are names of frames or files (`named`), and no cells."""
    index = getattr(values, "index", None)
    if isinstance(values, Mapping) or not named or index is None or callable(index):
        return isinstance(values, Mapping)
    return not {str(key) for key in index}.isdisjoint(word or "" for word in ids)


def check_order(source: Any, values: Any, what: str, name: str) -> None:
    """Raises: BadInput where a series of pandas has the index of a frame of a row per sequence in another order: rows
    have their labels by place, so that most would have another row's."""
    first: Any = getattr(source, "index", None)
    second: Any = getattr(values, "index", None)
    if not hasattr(first, "equals") or not hasattr(second, "equals"):
        return
    if len(first) == len(second) and not first.equals(second) and set(first) == set(second):
        raise BadInput(
            f"{what}: its index is that of {name} in another order; give {what}.loc[{name}.index], or "
            f"{what}.to_list() where its order is that of the rows"
        )


def by_id(values: Any, ids: Sequence[str | None], column: str | None, what: str) -> Any:
    """Labels or groups of a table, in the order in which its ids (of each row) first come.

    They are a mapping of ids, or a series of pandas whose index holds the ids; None stays. Raises: BadInput for
    anything else, whose order may be another one than that of the table, and for ids without a value.
    """
    if values is None:
        return None
    index = getattr(values, "index", None)
    if isinstance(values, Mapping):
        keys, items = list(values), list(values.values())
    elif index is not None and not callable(index) and hasattr(values, "to_list"):
        keys, items = list(index), values.to_list()
    else:
        raise BadInput(
            f"{what}: is a {type(values).__name__} in some order, and sequences of a table with a row per position "
            f"have theirs by {column!r}: give a series of pandas whose index holds these ids, or a dict of them"
        )
    keys = ["/".join(map(str, key)) if isinstance(key, tuple) else key for key in keys]  # of an index of several levels
    words = column_of(what, keys, Places(what)).words
    label_of = {(word or "").strip(): item for word, item in zip(words, items, strict=True)}
    if len(label_of) < len(items):
        raise BadInput(
            f"{what}: has {counted(len(items), 'entry', 'entries')} for {len(label_of):,} ids; give one for each id"
        )
    wanted = list(dict.fromkeys((word or "").strip() for word in ids))
    lost = [name for name in wanted if name not in label_of]
    if lost:
        raise BadInput(
            f"{what}: has no entry for {len(lost):,} of the {len(wanted):,} ids in {column!r}, such as {lost[0]!r} (it "
            f"has {first_few(list(map(repr, label_of)), 3)}); give one for each, None where there is none, "
            f"or name another column of ids with {option('id')}"
        )
    return [label_of[name] for name in wanted]


def position_labels(
    values: Any, column: Column | None, source: Places, offsets: np.ndarray, places: Places, mistakes: Mistakes
) -> Words:
    """(S,) label of each position of the sequences that `offsets` bound: those that are given, else those of a column.

    A sequence that has not as many labels as positions is a mistake. Raises: BadInput where there are no lists.
    """
    if values is not None:
        source = places = Places(labels_argument())
        arrays = [array_of(item) if isinstance(item, (list, tuple)) else np.asarray(item) for item in values]
        column = column_of(source.source, arrays, source)
    elif column is None:
        return [None] * int(offsets[-1])
    if column.type != "list":
        raise BadInput(
            f"{source.source}: per_position: {column.name!r} does not hold a list of targets for each sequence; give "
            "lists, or a long table with a target in each row, or leave per_position out"
        )
    labels, ends = column.sequences(source)
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        raise BadInput(f"{source.source}: per_position: {column.name!r} has several targets for a position; give one")
    lengths, counts = np.diff(offsets), np.diff(ends)
    if len(lengths) != len(counts):
        raise BadInput(
            f"{source.source}: has {many(len(counts), 'list')} for {many(len(lengths), 'sequence')}; give one for each"
        )
    for row in np.flatnonzero(lengths != counts).tolist():
        mistakes.add(
            places.cell(row, column.name),
            f"has {many(int(counts[row]), 'target')}, the sequence has "
            f"{many(int(lengths[row]), 'position')}; give one for each (null where "
            "there is none)",
        )
    return (
        Column("labels", "number", arrow_numbers(labels)).words if isinstance(labels, np.ndarray) else texts_of(labels)
    )


def label_of(value: Any, location: str, mistakes: Mistakes) -> str | None:
    """A label as text (whole numbers as `0`, whatever their type), or None and a mistake."""
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, str) and value.strip():
        return class_name(value)
    mistakes.add(location, f"the label is {value!r}; give a name or a whole number")
    return None
