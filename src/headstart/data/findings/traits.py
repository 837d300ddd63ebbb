"""Traits of sequences that were not measured: length, clock, gaps, settings, and how each was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headstart.data.alphabets import ALPHABETS
from headstart.data.findings.channels import SAME_INSIDE, without
from headstart.data.padding import equal_heads, equal_neighbours, equal_tails
from headstart.data.sequences import Sequences
from headstart.ways import option

SINGLE_DIGITS, OFF_STEP, MOST_BITS = 2e6, 0.2, 23
"""Steps of a value that single precision tells apart, by which share of one it may be off, and bits behind the point of
sound."""
LOOKED_FOR_STEPS, FEWEST_CHANGES, MOST_ROUGH = 500_000, 8, 0.05
"""Values in which the step is looked for, changes of a sequence below which its step says little, and the share of such
sequences."""

LOOKED_FOR_LEVELS, LOOKED_FOR_NAMES, LABEL_ROWS = 2_000, 1_000, 20
"""Values of a channel, or rows, in which levels are counted first, texts in which names are looked for first, and rows
from which on a position may be the label."""
MANY_KINDS, MOSTLY, OF_CLASS = 3, 0.5, 0.9
"""Times as many values as there are classes that other positions have, share of the positions that have them, and share
of the sequences of a class that hold its name, and no other, or begin alike."""
SAME_SYMBOLS = 8
"""Symbols at an end of sequences that are compared."""
NO_LETTER = {"dna": "N", "protein": "X"}
"""Letters that say that nobody knows which one it is."""


@dataclass(frozen=True)
class Trait:
    """Something of each sequence that was not measured: its name with the article, values (n,), and what makes all
    sequences alike in it, empty where no option does. also: (n,) what must tell as much for it to count."""

    name: str
    values: np.ndarray
    way: str = ""
    also: np.ndarray | None = None


def traits(s: Sequences) -> Iterator[list[Trait]]:
    """Traits of these sequences, those of one sort together; the simplest stands first."""
    numbers, shortest = s.kind == "numbers", int(s.lengths.min())
    cut = f"{option('window', str(shortest))} cuts pieces of one length" if s.windows is None and shortest > 1 else ""
    sort = [Trait("the length", s.lengths.astype(np.float64), cut)]
    if numbers:
        values = s.values if s.observed is None else np.where(s.observed, s.values, np.nan)
        same = equal_neighbours(values, s.offsets)
        sides = {"end": equal_tails(values, s.offsets), "beginning": equal_heads(values, s.offsets)}
        ends_alike = (values[s.offsets[:-1]] == values[s.offsets[1:] - 1]).all(1)
        pulses = ends_alike & (sides["end"] > 0) & (sides["beginning"] > 0)  # events above a level at rest
        for side, filling in sides.items() if pulses.mean() <= MOSTLY else ():
            if int(same.sum() - filling.sum()) > SAME_INSIDE["last"] * (len(same) - int(filling.sum())):
                continue
            way = f"{option('padding', 'last')} cuts them off"
            if side == "beginning":
                zeros = not values[s.offsets[:-1][filling > 0]].any()
                way = f"{option('padding', 'front')} cuts them off" if zeros else "cut them off"
            sort.append(Trait(f"the number of equal values at the {side}", filling.astype(np.float64), way))
    yield sort
    if s.steps is not None:
        yield [Trait("the step of time", _rounded(s.steps), f"{option('rate')} brings all onto one clock")]
    if s.observed is not None:
        yield list(_gaps(s))
    if numbers:
        yield [*_settings(s), *_marks(s)]
        yield list(_coded_positions(s))
    if s.kind in ALPHABETS:
        yield list(_unknown_letters(s))
    if not numbers and s.target == "class" and not s.per_position:
        yield [*_same_ends(s), *(_names_inside(s) if s.kind == "text" else ())]
    if s.kind == "text" and s.windows is None:
        yield list(_endings(s))
    yield [*_recorded(s), *(_resolution(s) if numbers else ())]


def _endings(s: Sequences) -> Iterator[Trait]:
    """What of texts nobody sees: carriage returns at the ends of lines, and blanks or empty lines at the end."""
    returns = np.logical_or.reduceat(s.values == ord("\r"), s.offsets[:-1])
    yield Trait(
        "a carriage return at the ends of lines", returns.astype(float), "save all texts with the same line endings"
    )
    blank = np.isin(s.values[s.offsets[1:] - 1], [ord(mark) for mark in " \t\r\n"])
    yield Trait("a blank or an empty line at the end", blank.astype(float), "strip blanks at the ends of the texts")


def _recorded(s: Sequences) -> Iterator[Trait]:
    """What the files say of how each sequence was recorded."""
    for name, facts in s.made.items():
        of_words = facts.dtype.kind != "f"
        values = np.unique(facts, return_inverse=True)[1].astype(float) if of_words else _rounded(facts)
        yield Trait(name, values, "record all classes alike")


def _rounded(values: np.ndarray) -> np.ndarray:
    """To three digits: clocks, and decimals, jitter."""
    return np.array([float(f"{value:.3g}") for value in values.tolist()])


def _gaps(s: Sequences) -> Iterator[Trait]:
    """How much is missing in all and in each channel, and how long the longest gap is."""
    assert s.observed is not None
    gone, first, way = ~s.observed, s.offsets[:-1], "give all sequences the same gaps, or fill them before"
    yield Trait("the share of missing values", np.add.reduceat(gone.mean(1), first) / s.lengths, way)
    none = np.asarray(gone.any(1))
    start = np.minimum.reduceat(np.where(none, np.arange(len(none)), len(none)), first) - first
    yield Trait("the place of the first gap", np.where(start < s.lengths, start, -1).astype(np.float64), way)
    begins = np.flatnonzero(none & ~np.concatenate([[False], none[:-1]]))
    count = np.zeros(len(gone))
    count[begins] = 1
    yield Trait("the number of gaps", np.add.reduceat(count, first), way)
    if gone.shape[1] > 1:
        for f, channel in enumerate(s.channels):
            share = np.add.reduceat(gone[:, f].astype(np.float64), first) / s.lengths
            yield Trait(f"the share of missing values of {channel!r}", share, way)


def _settings(s: Sequences) -> Iterator[Trait]:
    """Channels that do not change within any sequence."""
    rest, within = [], len(s.values) > len(s)
    for f, channel in enumerate(s.channels):
        x = s.values[:, f] if s.observed is None else np.where(s.observed[:, f], s.values[:, f], np.nan)
        changes = x[1:] != x[:-1]
        changes[s.offsets[1:-1] - 1] = False
        if within and not changes.any():
            rest.append((f, channel, x[s.offsets[:-1]].astype(np.float64)))
    still = [f for f, *_ in rest]
    for _, channel, x in rest:
        yield Trait(
            f"the channel {channel!r}, which does not change within any sequence,",
            x,
            without(s, still).removeprefix("; "),
        )


def _marks(s: Sequences) -> Iterator[Trait]:
    """Channels of a few levels beside others, of which two classes or more have one of their own, and all others are in
    every class: marks of a trigger, or an annotation."""
    if s.target != "class" or s.per_position or len(s.channels) < 2:
        return
    codes = s.codes()
    for f, channel in enumerate(s.channels):
        x = s.values[:, f] if s.observed is None else s.values[s.observed[:, f], f]
        if len(np.unique(x[:LOOKED_FOR_LEVELS])) > len(s.classes) + 2:
            continue
        levels, level = np.unique(x, return_inverse=True)
        if not 2 < len(levels) <= len(s.classes) + 2:
            continue
        there = np.arange(len(s.values)) if s.observed is None else np.flatnonzero(s.observed[:, f])
        held = np.zeros((len(s), len(levels)), dtype=bool)
        held[np.searchsorted(s.offsets, there, side="right") - 1, level] = True
        of_class = np.array([held[codes == k].any(0) for k in range(len(s.classes))])
        own = of_class.sum(0) == 1
        if (own | of_class.all(0)).all() and not own.all() and of_class[:, own].any(1).sum() > 1:
            mark = np.where(held[:, own].any(1), held[:, own].argmax(1), -1).astype(np.float64)
            yield Trait(f"which marks stand in the channel {channel!r}", mark, without(s, [f]).removeprefix("; "))


def _coded_positions(s: Sequences) -> Iterator[Trait]:
    """A position of as many values as there are classes, one of each, while others have many; a position that is the
    target, where that is a number."""
    rows, length = np.flatnonzero(s.labelled), int(s.lengths.max())
    if s.target == "none" or s.per_position or s.observed is not None or not (s.lengths == length).all():
        return
    table = s.values.reshape(len(s), -1)
    some = table[rows[: max(LABEL_ROWS, min(LOOKED_FOR_LEVELS, 2 * LOOKED_FOR_STEPS // table.shape[1]))]]
    if len(some) < LABEL_ROWS or table.shape[1] < 2:
        return
    if s.target == "number":
        target = s.numbers()[rows].astype(table.dtype)
        equal = np.flatnonzero((some == target[: len(some), None]).all(0)).tolist()
        positions = [k for k in equal if (table[rows, k] == target).all()]
    else:
        codes, ordered = s.codes()[rows], np.sort(some, axis=0)
        kinds = 1 + (ordered[1:] != ordered[:-1]).sum(0)
        few = np.flatnonzero((kinds > 1) & (kinds <= len(s.classes)))
        many_others = float((kinds > MANY_KINDS * len(s.classes)).mean()) > MOSTLY
        positions = [k for k in few.tolist() if _is_code(table[rows, k], codes)] if many_others else []
    for k in positions[:1]:
        position, f = divmod(k, len(s.channels))
        columns = s.layout.channels[min(f, len(s.layout.channels) - 1)].columns
        column = s.layout.shape == "wide" and position < len(columns)
        name = f"the column {columns[position]!r}" if column else f"position {position + 1:,}"
        yield Trait(name, table[:, k].astype(np.float64), "leave it out")


def _is_code(x: np.ndarray, codes: np.ndarray) -> bool:
    """Whether values (n,) are another name for classes (n,)."""
    pairs = len(np.unique(np.stack([np.unique(x, return_inverse=True)[1], codes]), axis=1).T)
    return pairs == len(np.unique(x)) == len(np.unique(codes))


def _unknown_letters(s: Sequences) -> Iterator[Trait]:
    """The share of letters that say that nobody knows which base or amino acid it is: N, X."""
    unknown = np.isin(s.values, [ALPHABETS[s.kind].index(letter) for letter in NO_LETTER[s.kind]])
    share = np.add.reduceat(unknown.astype(np.float64), s.offsets[:-1]) / s.lengths
    yield Trait(f"the share of {' and '.join(NO_LETTER[s.kind])}", share, "leave sequences out that have many")


def _same_ends(s: Sequences) -> Iterator[Trait]:
    """Symbols at the beginning or the end of nearly all sequences of a class, other ones of another class."""
    rows, codes, step = np.flatnonzero(s.labelled & (s.lengths > SAME_SYMBOLS)), s.codes(), np.arange(SAME_SYMBOLS)
    for side, at in (("first", s.offsets[:-1][rows]), ("last", s.offsets[1:][rows] - SAME_SYMBOLS)):
        _, kind = np.unique(s.values[at[:, None] + step], axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        table = np.zeros((len(s.classes), int(kind.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(table, (codes[rows], kind), 1)
        if (table.max(1) >= OF_CLASS * np.bincount(codes[s.labelled], minlength=len(s.classes))).all():
            of_row = np.full(len(s), -1.0)
            of_row[rows] = kind
            yield Trait(f"what stands in the {side} {SAME_SYMBOLS} places", of_row, "cut them off")


def _names_inside(s: Sequences) -> Iterator[Trait]:
    """Texts that hold the name of their class, nearly all of them, and hardly ever that of another."""
    words = "|".join(re.escape(name.lower()) for name in sorted(s.classes, key=len, reverse=True))
    code_of = {name.lower(): code for code, name in enumerate(s.classes)}
    word = re.compile(rf"(?<![^\W_])({words})(?![^\W_])")
    rows, codes = np.flatnonzero(s.labelled), s.codes()
    inside = np.full(len(s), -1.0)
    for some in (rows[:: len(rows) // LOOKED_FOR_NAMES + 1], rows):
        for row in some.tolist():
            names = {code_of[name] for name in word.findall(s.speak(row).lower())}
            inside[row] = names.pop() if len(names) == 1 else -1.0
        if (inside[some] == codes[some]).sum() < OF_CLASS * len(some):
            return
    yield Trait("the name of a class in a text", inside, "take it out of the texts")


def _resolution(s: Sequences) -> Iterator[Trait]:
    """How coarse the values of each sequence are: the step of which all are multiples, in decimals or bits.

    Where digits are rounded, larger values have a coarser step and as many digits; where decimals are, they have the
    same step and more digits. Only where both differ is one sequence coarser than another.
    """
    values = s.values if s.observed is None else np.where(s.observed, s.values, 0)
    lengths = np.minimum(s.lengths, max(FEWEST_CHANGES, LOOKED_FOR_STEPS // values.size * len(values)))
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    x = values[np.repeat(s.offsets[:-1] - begins, lengths) + np.arange(lengths.sum())].astype(np.float64)
    largest = np.maximum.reduceat(np.abs(x).max(1), begins)
    scale = 10 ** np.floor(np.log10(SINGLE_DIGITS / np.where(largest > 0, largest, 1)))
    step = _common_step(x, begins, lengths, scale, OFF_STEP)
    step[step < np.quantile(1 / scale, 1 - MOST_ROUGH)] = np.nan  # of large values it is not known
    bits = np.isnan(step).mean() > 0.5
    if bits and 2.0**-MOST_BITS < largest.max() <= 1:
        step = _common_step(x, begins, lengths, np.full(len(s), 2.0**MOST_BITS), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        digits = np.log10(largest / step)
        decimals = np.maximum(np.ceil(-np.log10(step) - 1e-6), 0)
        fine = np.floor(np.log2(largest / step) + 1e-6)
    rough = (digits < 1) | (np.add.reduceat(np.abs(np.diff(x, axis=0, prepend=x[:1])).any(1), begins) < FEWEST_CHANGES)
    if np.isnan(step).all() or rough.mean() > MOST_ROUGH:
        return
    way = "write the values of all classes with the same resolution"
    if not bits:
        yield Trait("the number of decimals", decimals, way, np.floor(digits + 1e-6))
    if bits or (decimals == np.median(decimals)).mean() > 1 - MOST_ROUGH:
        yield Trait("the step between values", step, way, fine)


def _common_step(
    x: np.ndarray, begins: np.ndarray, lengths: np.ndarray, scale: np.ndarray, beside: float
) -> np.ndarray:
    """(n,) the largest step of which all values (S, F) of a sequence are multiples, NaN where it is below 1 / scale.
    beside: by which share of that they may be off it."""
    scaled = x * np.repeat(scale, lengths)[:, None]
    whole = np.rint(scaled)
    on = np.logical_and.reduceat((np.abs(scaled - whole) <= beside).all(1), begins)
    common = np.gcd.reduceat(np.gcd.reduce(whole.astype(np.int64), axis=1), begins)
    return np.where(on & (common > 0), common / scale, np.nan)
