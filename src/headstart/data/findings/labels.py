"""What may be wrong with labels: names of classes, and targets that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from headstart.data.findings.finding import Finding, short, some
from headstart.data.findings.marks import sentinels
from headstart.data.labels import folded, spaced
from headstart.data.sequences import Sequences, target_doubt
from headstart.data.text import number_name
from headstart.text import counted, first_few, many
from headstart.ways import argument, option

SMALL_CLASS = 5
"""Rows below which a class can hardly be split into train, validation and test."""
# fmt: off
MISSING = frozenset((
    "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "none", "null", "nil", "nul", "missing", "unknown", "undefined",
    "unlabeled", "unlabelled", "?", "-", "--", ".", "...", "n.d.", "n/d", "tbd", "no label", "no data", "not available",
    "not applicable", "not known", "not recorded", "not labelled", "not labeled", "not determined", "undetermined",
    "unspecified", "unassigned",
))
# fmt: on
"""Words, in small letters, that people write where there is no label, with or without brackets."""
LONGEST_WORD = 100
"""Characters of a name that may be such a word."""
_BRACKETS = re.compile(r"[(\[{<](.*\w.*)[)\]}>]")
"""A word in brackets; signs are none: (+) and (-) are classes."""
MORE_ROWS = "give more rows of them, or merge them with other classes"
"""The way out where classes are small."""
FAR_RANGES, FEWEST_BESIDE = 9, 11
"""Ranges of all other targets by which some lie apart, so many at least: of t with 2 degrees of freedom 0.6 % do."""
LIGHT_RANGES, FEWEST_LIGHT, LIGHT_SHARE = 5, 25, 0.95
"""The same of so many others whose range is at most this share of what normal ones reach, beside their middle half."""
FAR_LOG, FAR_LOG_OF_FEW = 0.7, 1.0
"""Ranges of the logarithms of positive targets, of which some must lie apart too, as log-normal ones seldom do."""
NORMAL_MIDDLE = 1.349
"""Range of the middle half of normal numbers, in standard deviations."""
FEW_FAR, FAR_SHARE = 3, 0.01
"""Targets that may lie apart from the others: so many, or this share."""


def class_or_number(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """A target that may be names of classes or numbers."""
    if doubt := target_doubt(s):
        yield Finding(doubt)


def class_sizes(_: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """One class alone, classes of few rows, and classes of very different size."""
    counts = facts["target"].get("classes", {})
    if len(counts) < 2:
        for name in counts:
            yield Finding(
                f"every label is {short(name)!r}; a classifier needs two classes or more; give rows of another class"
            )
        return
    alone = [name for name, count in counts.items() if count == 1]
    few = [name for name, count in counts.items() if 1 < count < SMALL_CLASS]
    if alone:
        yield Finding(
            f"{counted(len(alone), 'class has', 'classes have')} one member ({some(alone)}), which cannot be both "
            f"learned and tested; {MORE_ROWS}"
        )
    if few:
        members = f"fewer than {SMALL_CLASS} members ({some(few)})"
        yield Finding(f"{counted(len(few), 'class has', 'classes have')} {members}; {MORE_ROWS}")
    if max(counts.values()) > 10 * min(counts.values()) and not alone:
        yield Finding(
            "the largest class has more than 10 times the rows of the smallest; read balanced accuracy and "
            f"macro-F1 beside accuracy, or fit with {argument('balanced')}"
        )


def missing_words(_: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Classes whose names are words for a missing label."""
    counts = facts["target"].get("classes", {})
    words = [name for name in counts if _is_missing(name) and name.replace("-", "+") not in {*counts} - {name}]
    if words:
        rows = first_few([f"{short(name)!r} ({counts[name]:,})" for name in words])
        yield Finding.everywhere(
            f"{'the class' if len(words) == 1 else 'the classes'} {rows} may be the absence of a label; where that is "
            f"so, give {option('na', *words[:5])}"
        )


def _is_missing(name: str) -> bool:
    """Whether a name is a word for a missing label, which may stand in brackets."""
    if len(name) > LONGEST_WORD:
        return False
    inner = _BRACKETS.fullmatch(name)
    return not MISSING.isdisjoint((name.lower(), folded(inner[1] if inner else name)))


def alike_names(_: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Names of classes that differ in case or blanks alone."""
    counts = facts["target"].get("classes", {})
    alike: dict[str, list[str]] = {}
    for name in counts:
        alike.setdefault(folded(name), []).append(name)
    for names in [names for names in alike.values() if len(names) > 1][:5]:
        texts = " and ".join(f"{short(name)!r} ({counts[name]:,})" for name in names[:4])
        seen = len({spaced(name).casefold() for name in names}) == 1
        how = "in case or blanks alone" if seen else "in marks that nobody sees, or in how letters are encoded"
        yield Finding.everywhere(
            f"the classes {texts} differ {how}; where they are one, give {option('label_case', 'fold')}"
        )


def odd_targets(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Targets that are numbers: all the same, marks of missing ones, a few far from all others."""
    if s.target != "number":
        return
    numbers = s.numbers()
    x = numbers[np.isfinite(numbers)]
    if not len(x):
        return
    if x.min() == x.max():
        yield Finding.everywhere(
            f"every target is {number_name(float(x[0]))}, so that there is nothing to learn; name another "
            f"with {option('target')}"
        )
        return
    marks = sentinels(x)
    for value, count in marks.items():
        text = number_name(float(f"{value:.7g}"))
        yield Finding.located(
            f"the target is {text} in {many(count, 'row')}",
            _row(s, numbers, value),
            f", far from all others, as programs write what is missing: {option('na', text)} reads it so",
        )
    x = np.sort(x[~np.isin(x, list(marks))])
    for ends, rest in far_ends(x):
        text = number_name(float(ends[-1]))
        lies = f"the target {text} lies" if len(ends) == 1 else f"{len(ends):,} targets, such as {text}, lie"
        span = f"{number_name(float(rest.min()))} to {number_name(float(rest.max()))}"
        yield Finding.located(
            f"{lies} far from all others",
            f"{_row(s, numbers, float(ends[-1]))}; the others are {span}",
            "; correct it where it is a mistake, or read it as missing with "
            f"{option('na', *(number_name(float(value)) for value in ends[-FEW_FAR:]))}",
        )


def far_ends(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(those, the others) of sorted numbers of which a few at an end lie far from the others; the farthest is last."""
    most = min(max(FEW_FAR, int(FAR_SHARE * len(x))), len(x) - FEWEST_BESIDE)
    for y in (-x[::-1], x):
        sign = 1 if y is x else -1
        counts = np.arange(most, 0, -1)
        lasts = y[len(y) - counts - 1]  # of the others; in most sets no gap is wide, and no more is looked at
        for count in counts[y[len(y) - counts] - lasts > LIGHT_RANGES * (lasts - y[0])].tolist():
            ends, rest = y[len(y) - count :], y[: len(y) - count]
            if ends[0] - rest[-1] > _bar(rest) * np.ptp(rest) > 0 and _beyond(rest, ends[0]):
                yield np.unique(sign * ends)[::sign], sign * rest
                break


def _bar(rest: np.ndarray) -> int:
    """Ranges of sorted numbers from which on the next is odd: fewer where they have no heavy tail for their count."""
    normal = 2 * np.sqrt(2 * np.log(len(rest))) / NORMAL_MIDDLE
    light = np.ptp(rest) <= LIGHT_SHARE * normal * np.subtract(*np.quantile(rest, [0.75, 0.25]))
    return LIGHT_RANGES if light and len(rest) >= FEWEST_LIGHT else FAR_RANGES


def _beyond(rest: np.ndarray, end: float) -> bool:
    """Whether the next of sorted numbers is odd among logarithms too, where all are positive or 0."""
    logs = np.log(rest[rest > 0])
    of_few = FAR_LOG if len(rest) >= FEWEST_LIGHT else FAR_LOG_OF_FEW
    return bool(rest[0] < 0 or np.log(end) - logs[-1] > of_few * np.ptp(logs))


def _row(s: Sequences, numbers: np.ndarray, value: float) -> str:
    """Where a target stands first."""
    i = int(np.flatnonzero(numbers == value)[0])
    if s.per_position:
        i = int(np.searchsorted(s.offsets, i, side="right")) - 1
    return s.places.cell(i, s.layout.target) if s.layout.target else s.places.of(i)
