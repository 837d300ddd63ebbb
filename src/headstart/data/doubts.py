"""What may be wrong with labels and values although it can be read: words and numbers that stand for a missing one,
names that differ in case alone, and rows that continue each other. No sentence names a place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from headstart.data.sequences import Sequences, shared_with_neighbours
from headstart.data.splits import about_neighbours
from headstart.data.table import Words
from headstart.data.text import number_name, printable
from headstart.text import first_few, many
from headstart.ways import option

# fmt: off
MISSING = frozenset((
    "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "none", "null", "nil", "nul", "missing", "unknown", "undefined",
    "unlabeled", "unlabelled", "?", "-", "--", ".", "...",
))
# fmt: on
"""Words, in small letters, that people write where there is no label."""
LIMITS = frozenset((32_767.0, 32_768.0, 65_535.0, 2_147_483_647.0, 2_147_483_648.0, 1e20, 1e30, 1e35))
"""Ends of the ranges of integers, and other numbers that programs write where there is none; with either sign."""
FAR_RANGES = 10
"""Ranges of all other targets by which one lies apart."""


def label_doubts(counts: Mapping[str, int]) -> Iterator[str]:
    """Classes (with their rows) that may stand for a missing label, and names that differ in case alone."""
    words = [name for name in counts if name.lower() in MISSING]
    if words:
        rows = first_few([f"{_short(name)!r} ({counts[name]:,})" for name in words])
        way = option("na", *words[:5])
        yield (
            f"{'the class' if len(words) == 1 else 'the classes'} {rows} may be the absence of a label; where that is "
            f"so, give {way}"
        )
    alike: dict[str, list[str]] = {}
    for name in counts:
        alike.setdefault(re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", name).casefold(), []).append(name)
    for names in [names for names in alike.values() if len(names) > 1][:5]:
        texts = " and ".join(f"{_short(name)!r} ({counts[name]:,})" for name in names[:4])
        yield f"the classes {texts} differ in case or blanks alone; where they are one, write them alike"


def lost_labels(words: Words, na: Collection[str]) -> list[str]:
    """What is said of classes that are named nan and so are no labels, unless `na` has them."""
    nans = [word.strip() for word in words if word and word.strip().lower() == "nan" and word.strip() not in na]
    if not nans:
        return []
    return [
        f"the label {nans[0]!r} of {many(len(nans), 'row')} is taken for a missing one; where it is a class, give it "
        "another name"
    ]


def target_doubts(numbers: np.ndarray) -> Iterator[str]:
    """What is odd about targets (n,) that are numbers: all the same, sentinels, one far from all others."""
    x = numbers[np.isfinite(numbers)]
    if not len(x):
        return
    if x.min() == x.max():
        yield f"every target is {number_name(float(x[0]))}, so that there is nothing to learn"
        return
    ends = sentinels(x)
    for value, count in ends.items():
        yield f"the target {_sentinel(value, count, 'row')}"
    x = x[~np.isin(x, list(ends))]
    for value, rest in (_end(x, x.min()), _end(x, x.max())):
        if len(rest) > FAR_RANGES and np.ptp(rest) > 0 and _apart(value, rest) > FAR_RANGES * np.ptp(rest):
            yield (
                f"the target {number_name(value)} lies far from all others ({number_name(float(rest.min()))} to "
                f"{number_name(float(rest.max()))}); correct it where it is a mistake"
            )


def value_doubt(name: str, values: np.ndarray) -> Iterator[str]:
    """Sentinels among the values (n,) of a channel."""
    for value, count in sentinels(values).items():
        yield f"channel {_short(name)!r} holds {_sentinel(value, count, 'value')}"


def _sentinel(value: float, count: int, of: str) -> str:
    text = number_name(float(f"{value:.7g}"))
    return (
        f"{text} ({many(count, of)}), far from all others, as programs write what is missing; where that is so, give "
        f"{option('na', text)}"
    )


def sentinels(values: np.ndarray) -> dict[float, int]:
    """Values at an end of all that look like marks of missing ones (999, -9999, -32768 ...) and lie further from the
    others than half of these span, and how often each is there."""
    out: dict[float, int] = {}
    x = values
    while len(x):
        ends = [_end(x, end) for end in (x.min(), x.max())]
        ends = [(value, rest) for value, rest in ends if _is_mark(value) and len(rest)]
        odd = [value for value, rest in ends if 0 < np.ptp(rest) < 2 * _apart(value, rest)]
        if not odd:
            return out
        out |= {odd[0]: int((x == odd[0]).sum())}
        x = x[x != odd[0]]
    return out


def _end(x: np.ndarray, value: np.floating) -> tuple[float, np.ndarray]:
    """A value, and the others."""
    return float(value), x[x != value]


def _apart(value: float, rest: np.ndarray) -> float:
    return float(np.abs(rest - value).min())


def _is_mark(value: float) -> bool:
    size = abs(value)
    digits = f"{size:.6g}".replace(".", "")
    return (size >= 99 and set(digits) == {"9"}) or f"{size:.6g}" == "999.25" or size in LIMITS


def _short(name: str) -> str:
    plain = printable(name)
    return plain if len(plain) <= 40 else plain[:39] + "…"


def doubts(s: Sequences, counts: Mapping[str, int]) -> list[str]:
    """All sentences; `counts` are the rows of each class."""
    out = list(label_doubts(counts))
    if s.target == "number":
        out += target_doubts(s.numbers())
    for f, name in enumerate(s.channels if s.kind == "numbers" else ()):
        out += value_doubt(name, s.values[:, f] if s.observed is None else s.values[s.observed[:, f], f])
    return [*out, *about_neighbours(shared_with_neighbours(s))]
