"""Made-up stand-ins for signals (sums of sines) and for retrieval (did one source write both sequences?)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, count, islice
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.data.sequences import to_range
from headstart.errors import BadInput
from headstart.seeds import below, bits
from headstart.sequence import Examples
from headstart.tasks.build import GeneratedSpec, signature_of
from headstart.tasks.task import SPLITS, Baseline, Task, TaskSpec, each_split, rule

SINES = 3
"""Sines of each channel."""
CYCLE = 1024
"""Frequencies are whole numbers of 1 / CYCLE cycles per window."""
LOWEST, GAP = 4, 4
"""Cycles per window of the lowest frequency that a class has, and from one to the next."""
DETUNE = 3 * CYCLE // 2
"""Each frequency of an example lies up to 1.5 cycles per window beside its class's."""
SLOWEST, WIDER = (4, 12), (2, 6)
"""Cycles per window, of the slowest sine where it is the target, and from each sine to the next."""
LOUD = 256
"""Amplitudes are whole numbers of 1 / LOUD, from 1/2 to 3/2."""
_STEPS = 4096
# Rounded to whole numbers, like all that follows, so that the examples have the same bits on every machine.
_SINE = np.array([round(_STEPS * math.sin(2 * math.pi * (i + 0.5) / _STEPS)) for i in range(_STEPS)], dtype=np.int64)
_FOUR_BYTES = math.sqrt(4 * (256**2 - 1) / 12)
_AT_ONCE = 2**20


class WavesSpec(GeneratedSpec):
    """Windows of three sines of unlike frequencies and noise; phases and amplitudes are each channel's own.

    One example is `length` positions of width `channels`; the first begins `0.44 -0.23 0.51 1.07 ...`, label `4, 8 and
    12 cycles`. Phases are uniform, so that the mean window is flat whatever the answer: no single position tells it.
    Frequencies are counted in cycles per window, amplitudes lie from 1/2 to 3/2, and values have a deviation near 1.

    Source: our own.
    """

    kind: Literal["waves"] = "waves"
    target: Literal["class", "number"] = "class"
    """`class`, which set of three frequencies? The sets are drawn from as few frequencies as there can be (4 for up to
    4 classes, 5 for up to 10), 4 cycles per window apart, so that they overlap; an example's frequencies lie up to 1.5
    cycles beside them. `number`, the frequency of the slowest sine, 4 to 12 cycles per window; scored by R2."""
    length: int = Field(default=256, ge=96, le=2**20)
    """Positions of a window, numbers per position."""
    channels: int = Field(default=1, ge=1, le=64)
    """Positions of a window, numbers per position."""
    classes: int = Field(default=4, ge=2, le=1000)
    """Sets of frequencies; only `class` has them."""
    noise: float = Field(default=0.5, ge=0, le=10)
    """Deviation of the noise, where a sine has an amplitude of 1 on average."""
    scale_target: bool = True
    """Of `number`: the smallest and largest target of train stand as -1 and 1. `false` leaves cycles per window."""

    shows_not: ClassVar[str] = "sums of three sines stand in for signals: this says nothing of recorded ones."
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"

    @property
    def objective(self) -> str:  # type: ignore[override]
        """Default objective of the last stage, by the target."""
        return "classify" if self.target == "class" else "regress"

    @model_validator(mode="after")
    def _room(self) -> WavesSpec:
        highest = (frequencies(self.classes).max() + DETUNE) // CYCLE + 1
        if self.target == "class" and 4 * highest > self.length:
            raise ValueError(
                f"classes: {self.classes} sets reach up to {highest} cycles per window, and a cycle takes "
                f"4 of its {self.length} positions; take fewer, or a length of at least {4 * highest}"
            )
        return self

    def load(self, data: Path) -> Task:
        """The whole task, made in memory. Raises: BadInput where no range of train can be scaled."""
        splits = each_split(self._examples)
        labels = tuple(map(_named, frequencies(self.classes))) if self.target == "class" else ()
        task = Task(signature_of(splits, len(labels)), **splits, labels=labels)
        return _scaled(task) if self.target == "number" and self.scale_target else task

    def _examples(self, split: str) -> Examples:
        """The windows of a split."""
        count = getattr(self, split)
        numbers = np.arange(count)
        if self.target == "class":
            target = balanced(self.data_seed, f"waves/{split}/label", self.classes, numbers)
            centre = frequencies(self.classes)[target]
            detune = below(self.data_seed, f"waves/{split}/detune", 2 * DETUNE + 1, numbers[:, None], np.arange(SINES))
            frequency = centre + detune - DETUNE
        else:
            frequency = self._spread(split, numbers)
            target = (frequency[:, 0] / CYCLE).astype(np.float32)
        values = np.empty((count, self.length, self.channels), dtype=np.float32)
        step = max(1, _AT_ONCE // (self.length * self.channels))
        for begin in range(0, count, step):
            some = slice(begin, begin + step)
            values[some] = self._windows(split, numbers[some], frequency[some])
        return Examples(
            values.reshape(-1, self.channels),
            np.arange(count + 1, dtype=np.int64) * self.length,
            target,
            numbers + self.firsts[split],
        )

    def _spread(self, split: str, numbers: np.ndarray) -> np.ndarray:
        """(n, 3) frequencies, the slowest first, each of the others a random way above the one before."""
        low = np.array([SLOWEST[0]] + [WIDER[0]] * (SINES - 1)) * CYCLE
        high = np.array([SLOWEST[1]] + [WIDER[1]] * (SINES - 1)) * CYCLE
        noise = bits(self.data_seed, f"waves/{split}/frequency", numbers[:, None], np.arange(SINES))
        return np.asarray(np.cumsum(low + ((noise * (high - low + 1)) >> 32), axis=1))

    def _windows(self, split: str, numbers: np.ndarray, frequency: np.ndarray) -> np.ndarray:
        """(n, length, channels) float32: whole numbers until the last step."""
        number, channel, t = numbers[:, None, None], np.arange(self.channels), np.arange(self.length)[:, None]
        seed, stream = self.data_seed, f"waves/{split}"
        weight = round(self.noise * LOUD * _STEPS / _FOUR_BYTES)
        total = np.zeros((len(numbers), self.length, self.channels), dtype=np.int64)
        if weight:
            word = bits(seed, f"{stream}/noise", number, t, channel)
            for byte in range(4):  # the sum of four bytes is nearly normal
                total += (word >> 8 * byte) & 255
            total = (total - 510) * weight
        for sine in range(SINES):
            start = bits(seed, f"{stream}/phase", number, sine, channel)  # in 2**-32 turns
            per_step = frequency[:, sine, None, None] * 2**32 // (CYCLE * self.length)
            loud = LOUD // 2 + below(seed, f"{stream}/amplitude", LOUD + 1, number, sine, channel)
            total += loud * _SINE[((start + per_step * t) >> 20) & (_STEPS - 1)]
        expected = math.sqrt(SINES * (1 + 1 / 12) / 2 + self.noise**2)
        return total.astype(np.float32) * np.float32(1 / (LOUD * _STEPS * expected))


def frequencies(classes: int) -> np.ndarray:
    """(classes, 3) frequencies of each class, in 1 / CYCLE cycles per window: the first sets of three out of as few
    frequencies as have that many."""
    pool = next(n for n in count(SINES + 1) if math.comb(n, SINES) >= classes)
    steps = np.array(list(islice(combinations(range(pool), SINES), classes)))
    return np.asarray((LOWEST + GAP * steps) * CYCLE)


def balanced(seed: int, stream: str, classes: int, numbers: np.ndarray) -> np.ndarray:
    """(n,) int64 labels: each run of `classes` numbers from 0 on holds every label once, in a random order."""
    label = np.arange(classes)
    noise = bits(seed, stream, (numbers // classes)[:, None], label)
    mine = np.take_along_axis(noise, (numbers % classes)[:, None], 1)
    # Equal bits keep the order of the labels.
    before = (noise < mine) | (noise == mine) & (label < (numbers % classes)[:, None])
    return np.asarray(before.sum(1), dtype=np.int64)


def _named(some: np.ndarray) -> str:
    """A set of frequencies in words."""
    *first, last = (f"{value / CYCLE:g}" for value in some)
    return f"{', '.join(first)} and {last} cycles"


def _scaled(task: Task) -> Task:
    """The task with all targets on the scale of train's range."""
    numbers = np.asarray(task.train.target, dtype=np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        raise BadInput(
            f"task.train: every one of the {len(numbers)} train windows has a target of {low:g}, which leaves "
            "no range to scale by; take more, or scale_target = false"
        )

    def scaled(name: str) -> Examples:
        return replace(task.split(name), target=to_range(np.asarray(task.split(name).target), low, high))

    note = f"slowest frequencies of {low:.4g} to {high:.4g} cycles per window, the range of train, stand as -1 to 1"
    return replace(task, **each_split(scaled), notes=(note,))


SOURCE_LABELS = ("two sources", "one source")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
EIGHTHS = 6
"""Eighths of the steps that go on by an order of the source, by each as often; the others go to a symbol it likes."""
_LETTERS_AT_ONCE = 2**21


class _ChainsSpec(GeneratedSpec):
    """What the tasks of made-up sources share: Markov chains that write letters."""

    sources: int = Field(default=8, ge=2, le=10_000)
    """How many there are (each a class, where sequences are classified); train, val and test share them."""
    symbols: int = Field(default=16, ge=8, le=len(LETTERS))
    """Letters there are."""
    min_length: int = Field(default=30, ge=16, le=100_000)
    """Bounds of the length of a sequence, both included; lengths are uniform."""
    max_length: int = Field(default=60, ge=16, le=100_000)
    """Bounds of the length of a sequence, both included; lengths are uniform."""
    habits: ClassVar[int]
    """Orders of the symbols that a source goes on by; 3/4 of the steps are theirs."""

    @model_validator(mode="after")
    def _in_order(self) -> _ChainsSpec:
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length: {self.min_length} is more than max_length {self.max_length}; take a smaller one"
            )
        return self

    def orders(self) -> np.ndarray:
        """(sources, habits, symbols) int64: the symbol that each order puts after each symbol."""
        source, habit = np.arange(self.sources)[:, None, None], np.arange(self.habits)[:, None]
        noise = bits(self.data_seed, f"{self.kind}/orders", source, habit, np.arange(self.symbols))
        return np.argsort(noise, axis=-1, kind="stable").astype(np.int64)

    def liked(self) -> np.ndarray:
        """(sources, symbols // 2) int64: the symbols that each source likes."""
        source = np.arange(self.sources)[:, None]
        noise = bits(self.data_seed, f"{self.kind}/liked", source, np.arange(self.symbols))
        return np.argsort(noise, axis=-1, kind="stable")[:, : self.symbols // 2].astype(np.int64)

    def _sequences(self, split: str, source: np.ndarray, lag: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Values (S,) and offsets (n + 1,) of a split's sequences, which these sources (n,) write.

        A symbol goes on from the one `lag` positions before.
        """
        row, room = np.arange(len(source)), self.max_length - self.min_length + 1
        lengths = self.min_length + below(self.data_seed, f"{self.kind}/{split}/length", room, row)
        parts, step = [], max(1, _LETTERS_AT_ONCE // self.max_length)
        for begin in range(0, len(row), step):
            some = slice(begin, begin + step)
            written = self._written(split, row[some], source[some], lag)
            parts.append(written[np.arange(self.max_length) < lengths[some, None]])
        return np.concatenate(parts), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def _written(self, split: str, row: np.ndarray, source: np.ndarray, lag: int) -> np.ndarray:
        """(n, max_length) uint8: what the sources write, one symbol of every row at a time."""
        orders, liked = self.orders().reshape(-1), self.liked()
        word = bits(self.data_seed, f"{self.kind}/{split}/steps", np.arange(self.max_length)[:, None], row)
        which, free = word & 7, liked[source, ((word >> 3) * liked.shape[1]) >> 29]
        out = np.empty((self.max_length, len(row)), dtype=np.uint8)
        out[:lag] = free[:lag]
        goes_on = which < EIGHTHS
        row_of_order = (source * self.habits + np.where(goes_on, which * self.habits // EIGHTHS, 0)) * self.symbols
        for t in range(lag, self.max_length):
            out[t] = np.where(goes_on[t], orders[row_of_order[t] + out[t - lag]], free[t])
        return out.T


def _text(ids: np.ndarray) -> str:
    return "".join(LETTERS[i] for i in np.asarray(ids).tolist())


class SourcesSpec(_ChainsSpec):
    """One sequence of letters: which of some made-up sources wrote it?

    One example: `efmhbjnbak ...`, label `source 6`. A source is a Markov chain: by its order each symbol is followed by
    one other. 3/4 of the time a symbol follows by it from the one `lag` positions before, else it is any. So a model
    that can guess a hidden symbol has learnt who writes. Over all its sequences a source writes each symbol equally
    often; but orders have short cycles, which repeat their symbols, so that the counts of a sequence tell a little of
    its source, and what stands `lag` positions after what nearly all. Each source writes equally many sequences.

    Source: our own.
    """

    kind: Literal["sources"] = "sources"
    lag: int = Field(default=3, ge=1, le=16)
    """Positions between a symbol and the one that follows from it."""

    habits: ClassVar[int] = 1
    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ({"kind": "majority"}, {"kind": "nearest"}, {"kind": "ngrams"})
    shows_not: ClassVar[str] = "made-up sources of letters: this says nothing of language."

    def load(self, data: Path) -> Task:
        splits = each_split(self._examples)
        labels = tuple(f"source {number}" for number in range(1, self.sources + 1))
        return Task(signature_of(splits, self.sources, self.symbols), **splits, labels=labels, text=_text)

    def liked(self) -> np.ndarray:
        """(sources, symbols) int64: no source likes a symbol more than another."""
        return np.tile(np.arange(self.symbols), (self.sources, 1))

    def _examples(self, split: str) -> Examples:
        """The sequences of a split."""
        number = np.arange(getattr(self, split))
        source = balanced(self.data_seed, f"sources/{split}/label", self.sources, number)
        values, offsets = self._sequences(split, source, self.lag)
        return Examples(values, offsets, source, number + self.firsts[split])


class PairsSpec(_ChainsSpec):
    """Two sequences of letters each, of unlike lengths: did one source write both? Rows 2i and 2i + 1 are one pair.

    One example: `ceamldoamf ...` and `djiiinhgoa ...`, label `one source`. A source is a Markov chain: it has two
    orders of all symbols and likes half of them. After a symbol comes the one that follows it in either order, 3/8 of
    the time each, or any that the source likes. So counts of symbols tell a little of it, and what follows what
    nearly all. Half of the pairs have one source, in either place each source is as frequent as any other, and no
    sequence occurs twice.

    Source: our own.
    """

    kind: Literal["pairs"] = "pairs"

    habits: ClassVar[int] = 2
    baselines: ClassVar[tuple[Mapping[str, str], ...]] = (*TaskSpec.baselines, rule("likeness of bigrams"))
    shows_not: ClassVar[str] = "made-up sources stand in for texts: this says nothing of retrieval among real ones."
    objective: ClassVar[str] = "retrieve"

    def load(self, data: Path) -> Task:
        splits = each_split(self._examples)
        task = Task(
            signature_of(splits, 2, self.symbols),
            **splits,
            labels=SOURCE_LABELS,
            notes=(f"the same {self.sources} sources write in train, val and test",),
            text=_text,
        )
        return replace(task, baselines=(_by_bigrams(task),))

    def writers(self, split: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, 2) sources of both sequences of these pairs, and (n,) labels: of two neighbours one is 1."""
        stream = f"pairs/{split}"
        label = (numbers + bits(self.data_seed, f"{stream}/label", numbers // 2)) & 1
        first = below(self.data_seed, f"{stream}/source", self.sources, numbers)
        other = (first + 1 + below(self.data_seed, f"{stream}/other", self.sources - 1, numbers)) % self.sources
        return np.stack([first, np.where(label == 1, first, other)], 1), label.astype(np.int64)

    def _examples(self, split: str) -> Examples:
        """The pairs of a split."""
        count = getattr(self, split)
        writers, label = self.writers(split, np.arange(count))
        values, offsets = self._sequences(split, writers.reshape(-1))
        index = np.arange(2 * count) + 2 * self.firsts[split]
        return Examples(values, offsets, np.repeat(label, 2), index, paired=True)


def _by_bigrams(task: Task) -> Baseline:
    """Say one source where the shares of bigrams of both sequences are alike enough, by a threshold from train."""
    alike = {name: np.concatenate(list(_alike(task.split(name), task.signature.width))) for name in SPLITS}
    label = {name: np.asarray(task.split(name).target)[::2] for name in SPLITS}
    order = np.argsort(alike["train"], kind="stable")
    ones = label["train"][order]
    # Right answers where the first i pairs of the order are said to have two sources.
    right = np.concatenate([[0], np.cumsum(ones == 0)]) + ones.sum() - np.concatenate([[0], np.cumsum(ones)])
    ranked = np.concatenate([[-1.0], alike["train"][order]])
    threshold = ranked[right.argmax()]
    scores = [float(((alike[name] > threshold) == label[name]).mean()) for name in ("val", "test")]
    return Baseline("likeness of bigrams", scores[0], scores[1], "cosine of bigram counts, threshold from train")


def _alike(x: Examples, symbols: int) -> Iterator[np.ndarray]:
    """Cosines of the bigram counts of each pair, in chunks of pairs."""
    cells, step = symbols * symbols, max(2, 2 * (_LETTERS_AT_ONCE // (2 * symbols * symbols)))
    for begin in range(0, len(x), step):
        offsets = x.offsets[begin : begin + step + 1]
        values = x.values[offsets[0] : offsets[-1]].astype(np.int64)
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        within = row[1:] == row[:-1]
        at = (row[:-1] * symbols + values[:-1]) * symbols + values[1:]
        counts = np.bincount(at[within], minlength=(len(offsets) - 1) * cells).reshape(-1, 2, cells)
        both = np.sqrt((counts**2).sum(2).prod(1))
        yield (counts[:, 0] * counts[:, 1]).sum(1) / both
