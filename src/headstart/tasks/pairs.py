"""Pairs of sequences: did one source write both? A small stand-in for retrieval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.seeds import below, bits
from headstart.sequence import Examples, Signature
from headstart.spec import Seed
from headstart.tasks.build import each_split, length_range
from headstart.tasks.task import SPLITS, Baseline, Task, TaskSpec, rule

LABELS = ("two sources", "one source")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HABITS = 2
"""Orders of the symbols that a source goes on by."""
EIGHTHS = 3
"""Eighths of the steps that go on by each of them; the others go to a symbol that the source likes."""
_AT_ONCE = 2**21


class PairsSpec(TaskSpec):
    """Two sequences of letters each, of unlike lengths: did one source write both? Rows 2i and 2i + 1 are one pair.

    One example: `ceamldoamf ...` and `djiiinhgoa ...`, label `one source`. A source is a Markov chain: it has two
    orders of all symbols and likes half of them. After a symbol comes the one that follows it in either order, 3/8 of
    the time each, or any that the source likes. So counts of symbols tell a little of it, and what follows what
    nearly all. Half of the pairs have one source, in either place each source is as frequent as any other, and no
    sequence occurs twice.

    sources: how many there are; train, val and test share them.
    symbols: letters there are.
    min_length, max_length: bounds of each sequence's length, both included; lengths are uniform.
    train, val, test: how many pairs. Pair i of a split is the same whatever their numbers are.
    data_seed: seed of sources and pairs (the stage's seed has no part in them).
    Source: our own.
    """

    kind: Literal["pairs"] = "pairs"
    sources: int = Field(default=8, ge=2, le=10_000)
    symbols: int = Field(default=16, ge=8, le=len(LETTERS))
    min_length: int = Field(default=30, ge=16, le=100_000)
    max_length: int = Field(default=60, ge=16, le=100_000)
    train: int = Field(default=2_000, ge=1, le=1_000_000)
    val: int = Field(default=500, ge=1, le=1_000_000)
    test: int = Field(default=1_000, ge=1, le=1_000_000)
    data_seed: Seed = 0

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = (*TaskSpec.baselines, rule("likeness of bigrams"))
    shows_not: ClassVar[str] = "made-up sources stand in for texts: this says nothing of retrieval among real ones."
    generated: ClassVar[bool] = True
    objective: ClassVar[str] = "retrieve"

    @model_validator(mode="after")
    def _in_order(self) -> PairsSpec:
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length: {self.min_length} is more than max_length {self.max_length}; take a smaller one"
            )
        return self

    def load(self, data: Path) -> Task:
        """The whole task, made in memory."""
        del data
        first = {"train": 0, "val": 2 * self.train, "test": 2 * (self.train + self.val)}
        splits = each_split(lambda name: self._examples(name, getattr(self, name), first[name]))
        task = Task(
            Signature("tokens", self.symbols, *length_range(splits), "class", 2, paired=True),
            **splits,
            labels=LABELS,
            notes=(f"the same {self.sources} sources write in train, val and test",),
            text=lambda ids: "".join(LETTERS[i] for i in np.asarray(ids).tolist()),
        )
        return replace(task, baselines=(_by_bigrams(task),))

    def orders(self) -> np.ndarray:
        """(sources, 2, symbols) int64: the symbol that each order puts after each symbol."""
        source = np.arange(self.sources)[:, None, None]
        noise = bits(self.data_seed, "pairs/orders", source, np.arange(HABITS)[:, None], np.arange(self.symbols))
        return np.argsort(noise, axis=-1, kind="stable").astype(np.int64)

    def liked(self) -> np.ndarray:
        """(sources, symbols // 2) int64: the symbols that each source likes."""
        source = np.arange(self.sources)[:, None]
        noise = bits(self.data_seed, "pairs/liked", source, np.arange(self.symbols))
        return np.argsort(noise, axis=-1, kind="stable")[:, : self.symbols // 2].astype(np.int64)

    def writers(self, split: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, 2) sources of both sequences of these pairs, and (n,) labels: of two neighbours one is 1."""
        stream = f"pairs/{split}"
        label = (numbers + bits(self.data_seed, f"{stream}/label", numbers // 2)) & 1
        first = below(self.data_seed, f"{stream}/source", self.sources, numbers)
        other = (first + 1 + below(self.data_seed, f"{stream}/other", self.sources - 1, numbers)) % self.sources
        return np.stack([first, np.where(label == 1, first, other)], 1), label.astype(np.int64)

    def _examples(self, split: str, count: int, first: int) -> Examples:
        """Pairs 0 to `count` of a split; the rows' numbers go on from `first`."""
        writers, label = self.writers(split, np.arange(count))
        row, source = np.arange(2 * count), writers.reshape(-1)
        room = self.max_length - self.min_length + 1
        lengths = self.min_length + below(self.data_seed, f"pairs/{split}/length", room, row)
        parts, step = [], max(1, _AT_ONCE // self.max_length)
        for begin in range(0, 2 * count, step):
            some = slice(begin, begin + step)
            written = self._written(split, row[some], source[some])
            parts.append(written[np.arange(self.max_length) < lengths[some, None]])
        return Examples(
            np.concatenate(parts),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.repeat(label, 2),
            row + first,
            paired=True,
        )

    def _written(self, split: str, row: np.ndarray, source: np.ndarray) -> np.ndarray:
        """(n, max_length) uint8: what the sources write, one symbol of every row at a time."""
        orders, liked = self.orders().reshape(-1), self.liked()
        word = bits(self.data_seed, f"pairs/{split}/steps", np.arange(self.max_length)[:, None], row)
        which, free = word & 7, liked[source, ((word >> 3) * liked.shape[1]) >> 29]
        out = np.empty((self.max_length, len(row)), dtype=np.uint8)
        out[0] = free[0]
        row_of_order = (source * HABITS + np.minimum(which // EIGHTHS, HABITS - 1)) * self.symbols
        goes_on = which < EIGHTHS * HABITS
        for t in range(1, self.max_length):
            out[t] = np.where(goes_on[t], orders[row_of_order[t] + out[t - 1]], free[t])
        return out.T


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
    cells, step = symbols * symbols, max(2, 2 * (_AT_ONCE // (2 * symbols * symbols)))
    for begin in range(0, len(x), step):
        offsets = x.offsets[begin : begin + step + 1]
        values = x.values[offsets[0] : offsets[-1]].astype(np.int64)
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        within = row[1:] == row[:-1]
        at = (row[:-1] * symbols + values[:-1]) * symbols + values[1:]
        counts = np.bincount(at[within], minlength=(len(offsets) - 1) * cells).reshape(-1, 2, cells)
        both = np.sqrt((counts**2).sum(2).prod(1))
        yield (counts[:, 0] * counts[:, 1]).sum(1) / both
