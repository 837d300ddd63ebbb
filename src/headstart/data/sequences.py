"""Sequences that a person brought: values, gaps, labels, ids and groups; and how numbers are standardised."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from headstart.data.alphabets import input_width
from headstart.data.axes import BY_SIZES
from headstart.data.copies import first_copies
from headstart.data.labels import by_id, keyed, may_be_either
from headstart.data.layout import SOUNDS, Layout, SequenceKind
from headstart.data.letters import coded, spoken
from headstart.data.spans import Windows
from headstart.data.table import LARGEST_VALUE
from headstart.data.text import number_name
from headstart.errors import BadInput, Mistakes, Places
from headstart.sequence import IGNORE, Examples
from headstart.text import first_few, in_order, is_number
from headstart.ways import option

Target = Literal["class", "number", "none"]
MOVED = 1e-5
"""Share of a channel's spread by which single precision may move a value: that of a mean of about a hundred spreads."""
COMPARED_VALUES = 10_000
"""First values of which one says that single precision does not hold all."""
COMPARED_PAIRS = 1_000
"""Neighbouring rows that are compared at most."""
OVERLAP_NUMBERS, OVERLAP_SYMBOLS = 4, 16
"""Numbers that two rows must have in common to overlap, and symbols or levels, of which there are few."""
FEW_LEVELS, OVERLAP_CHANGES = 30, 8
"""Different numbers below which they are levels, and changes of level in what two rows have in common."""
PLAIN_TOKENS = 10
"""Different whole numbers up to which one channel of numbers is taken for tokens."""


@dataclass(frozen=True)
class Sequences:
    """n sequences of any length, one after another, with whatever is known of each.

    values: (S, F) float32 of numbers, or float64 where `layout.double`; (S,) ids of text (bytes), dna and protein
        (letters, see data.letters) and tokens (places in `layout.symbols`). A missing number is 0 here and False in
        `observed` (S, F), which is None where nothing is missing.
    offsets: (n + 1,) int64. labels: n names of classes or numbers as text (S of them where `per_position`), None where
        there is none. ids, groups: n
        texts, or None. channels: F names. places: where each row stands, for messages.
    notes: what was done on reading that a person may want to know. times: (n,) float64 of sequences (of a
        long table of their first positions), or None. steps: (n,) the usual step of time within each (NaN of a single
        position), or None. windows: of what recordings these are pieces, None where they are whole. made: (n,) numbers
        or words on how each was recorded, by name.
    """

    values: np.ndarray
    offsets: np.ndarray
    observed: np.ndarray | None
    labels: tuple[str | None, ...]
    ids: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    channels: tuple[str, ...]
    layout: Layout
    places: Places
    notes: tuple[str, ...] = ()
    times: np.ndarray | None = None
    steps: np.ndarray | None = None
    windows: Windows | None = None
    made: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def kind(self) -> SequenceKind:
        """What the values are."""
        return self.layout.kind

    @property
    def target(self) -> Target:
        """Whether labels are names of classes, numbers, or not there."""
        return self.layout.target_kind

    @property
    def per_position(self) -> bool:
        """Whether labels are those of positions."""
        return self.layout.spec.per_position

    @property
    def lengths(self) -> np.ndarray:
        """(n,) positions of each sequence."""
        return np.diff(self.offsets)

    @property
    def labelled(self) -> np.ndarray:
        """(n,) bool: rows with a label (of at least one position)."""
        there = np.array([label is not None for label in self.labels], dtype=bool)
        return np.logical_or.reduceat(there, self.offsets[:-1]) if self.per_position else there

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of their numbers; none where the target is not a class."""
        if self.target != "class":
            return ()
        return tuple(in_order({label for label in self.labels if label is not None}))

    @property
    def width(self) -> int:
        """V of ids, F of numbers."""
        return input_width(self.kind, self.values.shape[-1], len(self.layout.symbols))

    def codes(self, classes: tuple[str, ...] | None = None) -> np.ndarray:
        """(n,) int64 number of each row's class ((S,) of each position's), IGNORE without a label.

        Raises: BadInput naming labels that are none of `classes` (default: those that are here).
        """
        code_of = {name: i for i, name in enumerate(self.classes if classes is None else classes)}
        mistakes = Mistakes()
        for i, label in enumerate(self.labels):
            if label is not None and label not in code_of:
                names = first_few(list(map(repr, code_of)), 8)
                mistakes.add(self._place(i), f"label {label!r} is none of {names}; correct it, or leave it empty")
        mistakes.check()
        return np.array([IGNORE if label is None else code_of[label] for label in self.labels], dtype=np.int64)

    def numbers(self) -> np.ndarray:
        """(n,) float64 of each row's target ((S,) of each position's), NaN without one.
        Raises: BadInput where a label is not a number.
        """
        out, mistakes = np.full(len(self.labels), np.nan), Mistakes()
        classes = not any(is_number(label) for label in self.labels if label is not None)
        way = f"take it for a class with {option('target_kind', 'class')}" if classes else "leave it empty"
        for i, label in enumerate(self.labels):
            if label is None:
                continue
            try:
                out[i] = float(label)
            except ValueError:
                out[i] = np.inf
            if not abs(out[i]) <= LARGEST_VALUE:
                mistakes.add(self._place(i), f"the target {label!r} is not a finite number; correct it, or {way}")
        mistakes.check()
        return out

    def _place(self, i: int) -> str:
        """Where a label stands."""
        if not self.per_position:
            return self.places.of(i)
        row = int(np.searchsorted(self.offsets, i, side="right")) - 1
        return f"{self.places.of(row)}, position {i - int(self.offsets[row]) + 1}"

    @property
    def spelled_numbers(self) -> bool:
        """Whether these are tokens of which each is a number."""
        return self.kind == "tokens" and all(map(is_number, self.layout.symbols))

    @property
    def axes_doubts(self) -> list[str]:
        """What is said of arrays (n, F, L) whose axes their sizes told."""
        return [note for note in self.notes if note.startswith(BY_SIZES)]

    def in_order(self, values: Any, name: str) -> Any:
        """Labels by id in the order of the sequences; others of a row per sequence as they are. Raises: BadInput, by
        `name`, where there are no ids, or some of them are lost."""
        ids = tuple(dict.fromkeys(self.windows.names)) if self.windows else self.ids or ()
        matched = self.layout.shape == "long" or keyed(values, ids, self.layout.by_format)
        return by_id(values, ids, self.layout.id, name) if matched else values

    def take(self, rows: np.ndarray) -> Sequences:
        """These rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        which = np.arange(len(self.labels))
        chosen = Examples(
            self.values, self.offsets, which, np.arange(len(self)), self.observed, per_position=self.per_position
        ).take(rows)
        assert chosen.target is not None
        picked = rows.tolist()
        return replace(
            self,
            values=chosen.values,
            offsets=chosen.offsets,
            observed=chosen.observed,
            places=self.places.take(rows),
            times=None if self.times is None else self.times[rows],
            steps=None if self.steps is None else self.steps[rows],
            made={name: values[rows] for name, values in self.made.items()},
            labels=tuple(self.labels[i] for i in chosen.target.tolist()),
            windows=None if self.windows is None else self.windows.take(rows),
            ids=None if self.ids is None else tuple(self.ids[i] for i in picked),
            groups=None if self.groups is None else tuple(self.groups[i] for i in picked),
        )

    def followed_by(self, other: Sequences) -> Sequences:
        """These rows, then those of another file. Only the first ones keep their places and times.
        Raises: BadInput with the other file's place for a class that these rows lack.
        """
        if self.target == "class":
            other.codes(self.classes)
        observed = [np.ones(x.values.shape, dtype=bool) if x.observed is None else x.observed for x in (self, other)]
        missing = self.observed is not None or other.observed is not None
        return replace(
            self,
            values=np.concatenate([self.values, other.values]),
            offsets=np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            observed=np.concatenate(observed) if missing else None,
            labels=self.labels + other.labels,
            ids=None,
            groups=None if self.groups is None or other.groups is None else self.groups + other.groups,
            steps=None,
            windows=None,
            made={},
        )

    def cut(self, longest: int) -> Sequences:
        """The same rows with at most their first `longest` positions."""
        keep = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths) < longest
        lengths = np.minimum(self.lengths, longest)
        return replace(
            self,
            values=self.values[keep],
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            observed=None if self.observed is None else self.observed[keep],
            labels=tuple(itertools.compress(self.labels, keep)) if self.per_position else self.labels,
        )

    def speak(self, row: int) -> str:
        """A row of text, letters or tokens as a person reads it. Raises: BadInput for numbers."""
        ids = self.values[self.offsets[row] : self.offsets[row + 1]]
        if self.kind == "numbers":
            raise BadInput(f"{self.places.of(row)}: is a sequence of numbers, no text")
        return spoken(self.kind, self.layout.symbols)(ids)

    @property
    def group_numbers(self) -> np.ndarray | None:
        """(n,) number of the group of each row, or None without groups."""
        return None if self.groups is None else np.unique(np.array(self.groups), return_inverse=True)[1]

    def copies(self) -> np.ndarray:
        """(n,) number of the first row that holds the same sequence: equal length, values and gaps."""
        return self._copies

    @cached_property
    def _copies(self) -> np.ndarray:
        return first_copies(Examples(self.values, self.offsets, None, np.arange(len(self)), self.observed))


def check_alike(sequences: Sequences, kind: SequenceKind, channels: tuple[str, ...]) -> None:
    """Raises: BadInput where sequences are of another kind, or have other channels, than those a model was made of."""
    source = sequences.layout.source
    if sequences.kind != kind:
        raise BadInput(
            f"{source}: holds {SOUNDS[sequences.kind]}, the model was fitted to {SOUNDS[kind]}; set the kind, or "
            "give data of the same kind"
        )
    if len(sequences.channels) != len(channels):
        way = f"name them with {option('values')}"
        if sequences.layout.by_format:
            turned = bool((sequences.lengths == len(channels)).all())
            sides = ["(channels, positions)", "(positions, channels)"][:: -1 if sequences.layout.spec.sideways else 1]
            way = f"turn each from {' to '.join(sides)}" if turned else "give the same ones"
        raise BadInput(
            f"{source}: has {len(sequences.channels)} channels ({', '.join(map(repr, sequences.channels[:6]))}), the "
            f"model was fitted to {len(channels)} ({', '.join(map(repr, channels[:6]))}); {way}"
        )


def check_ids(sequences: Sequences) -> None:
    """Raises: BadInput where more than half of the sequences share one id and no groups keep them together."""
    if sequences.ids is None or sequences.groups is not None:
        return
    name, count = Counter(sequences.ids).most_common(1)[0]
    if count < 2 or 2 * count <= len(sequences):
        return
    first, second = [row for row, other in enumerate(sequences.ids) if other == name][:2]
    column = sequences.layout.id or "the id"
    raise BadInput(
        f"{sequences.places.of(first)}: {count:,} of {len(sequences):,} sequences have the id {name!r} (the next is at "
        f"{sequences.places.of(second)}), so {column!r} does not tell sequences apart; name the column of the ids with "
        f"{option('id')} ('' for none), or, where rows of one id belong together, give {option('group', column)}"
    )


def target_doubt(sequences: Sequences) -> str:
    """Why the target may be read as a class or as a number, where nobody has said which; "" where there is no doubt."""
    if sequences.layout.spec.target_kind != "auto" or not may_be_either(sequences.labels):
        return ""
    names = in_order({label for label in sequences.labels if label is not None})
    column = f"the target {sequences.layout.target!r}" if sequences.layout.target else "the target"
    return (
        f"{column} has {len(names):,} different whole numbers ({first_few(names)}) in "
        f"{int(sequences.labelled.sum()):,} rows, which may be names of classes or numbers; give "
        f"{option('target_kind', 'class')} or {option('target_kind', 'number')}"
    )


def check_target_kind(sequences: Sequences) -> None:
    """Raises: BadInput where whole numbers may be classes or numbers, and nobody has said which."""
    doubt = target_doubt(sequences)
    if doubt:
        raise BadInput(f"{sequences.layout.source}: {doubt}")


def as_tokens(whole: Sequences, notes: list[str]) -> Sequences:
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
                f"numbers, or name one channel with {option('values')}"
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
            f"whole numbers with {len(names)} values are read as tokens ({option('kind', 'numbers')} reads them as "
            "numbers)"
        )
    layout = replace(whole.layout, kind="tokens", symbols=symbols, double=False)
    return replace(whole, values=codes[which], layout=layout)


def needs_double(values: np.ndarray, offsets: np.ndarray, observed: np.ndarray | None) -> bool:
    """Whether single precision would lose what numbers (S, F) hold: it moves a value by more than 1e-5 of the spread of
    its channel, or makes sequences equal that are not."""
    if values.dtype == np.float32:
        return False
    single = values.astype(np.float32)
    if (single[:COMPARED_VALUES] == values[:COMPARED_VALUES]).all() and (single == values).all():
        return False
    for f in range(values.shape[1]):
        channel = values[:, f] if observed is None else values[observed[:, f], f]
        most = MOVED * _spread(channel) if len(channel) else math.inf
        # Rounding moves a value by this share of it at most, so that most data need not be compared.
        if max(float(channel.max(initial=0)), -float(channel.min(initial=0))) * 2.0**-24 <= most:
            continue
        if float(np.abs(channel - channel.astype(np.float32)).max()) > most:
            return True
    if (firsts := _firsts(single, offsets, observed)) == len(offsets) - 1:
        return False
    return firsts < _firsts(values, offsets, observed)


def _spread(channel: np.ndarray) -> float:
    """Half of what the middle half of the values spans, or their deviation where that is 0; infinite for a constant."""
    some = channel[:: len(channel) // 100_000 + 1]
    low, high = np.quantile(some, [0.25, 0.75])
    if low < high:
        return float(high - low) / 2
    return float(channel.std()) if channel.min() < channel.max() else math.inf


def _firsts(values: np.ndarray, offsets: np.ndarray, observed: np.ndarray | None) -> int:
    """How many different sequences there are."""
    return len(np.unique(first_copies(Examples(values, offsets, None, np.arange(len(offsets) - 1), observed))))


def shared_with_neighbours(s: Sequences) -> float:
    """Share of its values that a row has in common with the row before it, the end of one being the beginning of the
    other, as windows of one recording have that overlap: 0 to 1, over at most a thousand pairs; 0 with groups."""
    pairs = np.arange(len(s) - 1)
    pairs = pairs[:: len(pairs) // COMPARED_PAIRS + 1]
    if len(pairs) < 2 or s.groups is not None:
        return 0.0
    levels = s.kind == "numbers" and len(np.unique(s.values[:10_000])) < FEW_LEVELS
    least = OVERLAP_NUMBERS if s.kind == "numbers" and not levels else OVERLAP_SYMBOLS
    changes = OVERLAP_CHANGES if levels else 1
    rows = [s.values[begin:end] for begin, end in zip(s.offsets[:-1], s.offsets[1:], strict=True)]
    total = 0.0
    for i in pairs.tolist():
        first, second = rows[i], rows[i + 1]
        total += max(_joined(first, second, least, changes), _joined(second, first, least, changes)) / max(
            len(first), len(second)
        )
    return total / len(pairs)


def _joined(first: np.ndarray, second: np.ndarray, least: int, changes: int) -> int:
    """Positions of the end of one row that are the beginning of another; 0 of rows that repeat themselves, or are
    equal."""
    least = max(least, min(len(first), len(second)) // 20)
    count = len(first) - least + 1
    if count < 1 or len(second) < least:
        return 0
    same = np.ones(count, dtype=bool)
    for step in range(min(least, 8)):
        equal = first[step : step + count] == second[step]
        same &= equal if equal.ndim == 1 else equal.all(1)
    begins = [b for b in np.flatnonzero(same).tolist() if len(first) - b <= len(second)][:50]
    ends = [first[b:] for b in begins if b or len(first) < len(second)]
    ends = [end for end in ends if np.array_equal(end, second[: len(end)]) and (end[1:] != end[:-1]).sum() >= changes]
    return len(ends[0]) if len(ends) == 1 else 0


def moments(counts: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of levels 0..len(counts) - 1 that occur `counts` times; the deviation may be 0.

    The sums are whole numbers of any size, so no order of summation, and no processor, can change them.
    """
    total = sum(int(count) for count in counts)
    first = sum(level * int(count) for level, count in enumerate(counts))
    second = sum(level * level * int(count) for level, count in enumerate(counts))
    return first / total, math.sqrt((total * second - first * first) / (total * total))


def channel_moments(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean (float64) and deviation (float32), (F,), of what is there; the deviation of a constant channel is 1.

    Rounded to 6 digits, so that no processor's order of summation shows in the examples; a mean of more than a hundred
    deviations has as many digits more as it is larger.
    """
    width = values[0].shape[1]
    count, total, square = np.zeros(width), np.zeros(width), np.zeros(width)
    for part in values:  # one by one: all of them in float64 would take four times their memory
        count += (~np.isnan(part)).sum(0)
        total += np.nansum(part, 0, dtype=np.float64)
    mean = total / np.maximum(count, 1)
    for part in values:
        square += np.nansum((part.astype(np.float64) - mean) ** 2, 0)
    spread = np.sqrt(square / np.maximum(count, 1))
    deviation = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-30), spread, 1.0)
    more = np.ceil(np.log10(np.maximum(np.abs(mean) / (100 * deviation), 1))).astype(int)
    rounded = np.array([float(f"{value:.{6 + min(digits, 9)}g}") for value, digits in zip(mean, more, strict=True)])
    short = np.array([float(f"{value:.6g}") for value in deviation], dtype=np.float32)
    return np.where(more > 0, rounded, rounded.astype(np.float32)), short


def two_parts(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mean in float64 as the sum of two float32 numbers, the second 0 where the first is all of it."""
    high = np.asarray(mean, dtype=np.float32)
    return high, (mean - high.astype(np.float64)).astype(np.float32)


def to_range(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers of any shape as float32, on the scale on which `low` is -1 and `high` is 1."""
    return np.asarray((2 * (x.astype(np.float64) - low) / (high - low) - 1).astype(np.float32))


def standardised(
    values: np.ndarray, observed: np.ndarray | None, mean: np.ndarray, deviation: np.ndarray
) -> np.ndarray:
    """(S, F) float32 values less the mean, over the deviation, of each channel (F,); 0 where nothing was observed."""
    high, low = two_parts(mean)
    scaled = values - high
    scaled = scaled - low if low.any() else scaled
    scaled = np.divide(scaled, deviation, out=scaled).astype(np.float32, copy=False)
    return scaled if observed is None else np.where(observed, scaled, np.float32(0))
