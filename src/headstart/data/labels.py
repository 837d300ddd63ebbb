"""Targets as people write them: names of classes as text, or numbers; rows without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from headstart.data.rows import column_of
from headstart.data.table import Cells, Words, is_number
from headstart.errors import BadInput, Mistakes, Places

_WHOLE = re.compile(r"^[+-]?\d+\.0*$|^[+-]?\d+(?:\.\d*)?[eE][+-]?\d+$")
MANY = 20
"""Different numbers from which on a target of numbers is no class, unless they count up from 0 or 1."""


def class_names(words: Words, cells: Cells) -> Words:
    """Labels as they are given back: without blanks at their ends, 1.0 as 1, None where there is none."""
    if cells.decimal != ".":
        words = [
            word.replace(cells.decimal, ".") if word and is_number(word, cells.decimal) else word for word in words
        ]
    return [None if cells.missing(word) else class_name(word or "") for word in words]


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

    Numbers are classes where there are at most 20, or where whole ones count up from 0 or 1 and each stands for two
    rows on the average; with fractions, where there are at most 10.
    """
    there = [name for name in names if name is not None]
    if not there:
        return "none"
    if not all(map(is_number, there)):
        return "class"
    values = {float(name) for name in there}
    if all(value.is_integer() for value in values):
        counted = min(values) in (0, 1) and max(values) - min(values) + 1 == len(values) <= len(there) / 2
        return "class" if len(values) <= MANY or counted else "number"
    return "class" if len(values) <= MANY / 2 and 2 * len(values) <= len(there) else "number"


def may_be_either(names: Sequence[str | None]) -> bool:
    """Whether whole numbers look like classes and like numbers.

    That is so where few of them hardly repeat, and where more than 20 do repeat without counting up from 0 or 1.
    """
    there = [name for name in names if name is not None]
    if not there or not all(map(is_number, there)) or not all(float(name).is_integer() for name in there):
        return False
    values = {float(name) for name in there}
    repeat = 2 * len(values) <= len(there)
    if target_kind(there) == "class":
        return len(values) > 2 and not repeat
    return repeat


def given_words(values: Any, count: int, what: str) -> Words:
    """Labels, ids or groups that are given beside the sequences, one for each. Raises: BadInput for another number."""
    if hasattr(values, "to_list"):
        values = values.to_list()
    elif hasattr(values, "to_pylist"):
        values = values.to_pylist()
    elif hasattr(values, "__array__"):
        values = np.asarray(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise BadInput(f"{what}: has shape {values.shape}; give one for each sequence")
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise BadInput(
            f"{what}: is of type {type(values).__name__}; give a list or an array with one for each sequence"
        )
    if len(values) != count:
        raise BadInput(f"{what}: has {len(values):,} entries for {count:,} sequences; give one for each")
    column = column_of(what, values, Places(what))
    if column.type in ("list", "other"):
        raise BadInput(
            f"{what}: holds values that are neither texts nor numbers; give one text or number for each sequence"
        )
    return column.words


def label_of(value: Any, location: str, mistakes: Mistakes) -> str | None:
    """A label as text (whole numbers as `0`, whatever their type), or None and a mistake."""
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, str) and value.strip():
        return class_name(value)
    mistakes.add(location, f"the label is {value!r}; give a name or a whole number")
    return None


def in_order(labels: set[str]) -> list[str]:
    """Labels in the order of their class numbers: as numbers where all are, else as letters."""
    if all(map(is_number, labels)):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)
