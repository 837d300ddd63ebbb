"""Sequences as rows of numbers: flattened, counted or summarised; and their gaps filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from headstart.baselines.fitting import FittedFacts, Shapes, pieces
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature

FLAT_NUMBERS = 8_192
"""Numbers of a flattened example at most; longer ones are summarised."""
COUNTED_TOKENS = 4_096
"""Distinct tokens that are counted each; ids beyond share a column."""
CHUNK_EXAMPLES, CHUNK_POSITIONS = 2_000, 1 << 22
"""Examples, and positions of them, that are summarised at once, which bounds memory."""
MOMENT_NUMBERS = 1 << 24
"""Numbers whose mean and spread are computed at once."""
FeatureTable = tuple[np.ndarray | slice, int, Any]
"""(rows, first column, features (rows, columns)): a part of the features of some sequences."""
FEATURE_NAMES = {"counts": "token counts", "flat": "flat inputs", "summaries": "summaries"}


@dataclass(frozen=True)
class Entries:
    """A sparse table (n, P), row by row: what is not 0, where. A product is all that a prediction needs of it, and
    importing scipy.sparse takes 0.1 s."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    shape: tuple[int, int]

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """(n, K) float64; weights (P, K) float64."""
        out = np.empty((self.shape[0], weights.shape[1]))
        for k, each in enumerate(weights.T):
            out[:, k] = np.bincount(self.row, self.value * each[self.column], self.shape[0])
        return out


class Features(Protocol):
    """What turns sequences into rows of numbers, dense or sparse; its fields that are arrays are what was learned."""

    kind: str
    """In `Facts.features`."""
    threaded: ClassVar[bool] = True
    """Whether several threads may transform sequences at the same time."""

    @property
    def size(self) -> int:
        """P."""
        ...

    @property
    def held(self) -> int:
        """Features of a sequence that a table of `tables` holds."""
        return self.size

    @property
    def sizes(self) -> dict[str, int]:
        """What the facts must say, beside P, for the shapes of the arrays to follow."""
        return {}

    def transform(self, examples: Examples) -> Any:
        """(n, P) of n single sequences."""
        ...

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        """The features of n single sequences in parts; one that is an array is valid until the next is asked for."""
        yield slice(None), 0, self.transform(examples)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that was learned, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        """Of the arrays. Raises: BadInput where the facts contradict each other."""
        ...

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Self:
        """The features again. Raises: BadInput for numbers that cannot be."""
        ...


class Tabled(Features):
    """Dense features that are made in parts, so that whoever sums them up holds little at once."""

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float32, of a block of sequences at a time."""
        out = np.empty((len(examples), self.size), dtype=np.float32)
        for units in pieces(examples, len(examples), CHUNK_POSITIONS):
            block = out[units[0] : units[-1] + 1]
            whole = len(units) == len(examples)
            for rows, first, table in self.tables(examples if whole else examples.take(units)):
                block[rows, first : first + table.shape[1]] = table
        return out


@dataclass(frozen=True)
class Together(Tabled):
    """Several kinds of dense features side by side; names of arrays and sizes begin with the kind of theirs."""

    parts: tuple[Features, ...]
    kind: str = "together"

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def sizes(self) -> dict[str, int]:
        """Those of each, and its P."""
        own = {f"{part.kind}.size": part.size for part in self.parts}
        return own | {f"{part.kind}.{name}": size for part in self.parts for name, size in part.sizes.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"{part.kind}.{name}": array for part in self.parts for name, array in part.arrays().items()}

    @staticmethod
    def facts_of(facts: FittedFacts, kind: str) -> FittedFacts:
        """The facts of one kind."""
        sizes = {name.partition(".")[2]: n for name, n in facts.sizes.items() if name.partition(".")[0] == kind}
        facts.check("size" in sizes, "sizes")
        return facts.model_copy(update={"features": kind, "size": sizes.pop("size"), "sizes": sizes})

    @property
    def held(self) -> int:
        return max(part.held for part in self.parts)

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        before = 0
        for part in self.parts:
            yield from ((rows, before + first, table) for rows, first, table in part.tables(examples))
            before += part.size


@dataclass(frozen=True)
class Plain(Features):
    """Features of which nothing is learned. kind: a key of `FEATURE_NAMES`; count: P.

    Tokens are counted (as shares of the length). Floats are flattened where every example of the task has one length,
    else summarised per feature. A missing value counts as 0 when flattened.
    """

    kind: str
    count: int

    @classmethod
    def of(cls, signature: Signature) -> Plain:
        """What fits a task."""
        if signature.input == "tokens":
            return cls("counts", min(signature.width, COUNTED_TOKENS))
        size = signature.length * signature.width
        if signature.length == signature.shortest and size <= FLAT_NUMBERS:
            return cls("flat", size)
        return cls("summaries", 7 * signature.width + 1)

    @property
    def size(self) -> int:
        return self.count

    @property
    def name(self) -> str:
        """In a title."""
        return FEATURE_NAMES[self.kind]

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        facts.check(facts.features in FEATURE_NAMES, "features")
        return {}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Plain:
        del arrays
        return cls(facts.features, facts.size)

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P). Raises: BadInput where sequences that are flattened have another length."""
        if not len(examples):
            return np.zeros((0, self.size))
        if self.kind == "counts":
            return _counts(examples, self.size)
        if self.kind == "summaries":
            return summaries(examples)
        values = examples.as_seen(examples.values)
        if (examples.lengths * values.shape[1] != self.size).any():
            raise BadInput(
                f"model.features: sequences of {self.size // values.shape[1]} positions were flattened in training, "
                f"got {examples.lengths.min()} to {examples.lengths.max()}; give sequences of that length"
            )
        seen = values if examples.observed is None else np.where(examples.observed, values, 0.0)
        return np.nan_to_num(seen.reshape(len(examples), -1).astype(np.float32))


def _counts(x: Examples, kinds: int) -> np.ndarray:
    """(n, kinds) share of each token."""
    row = np.repeat(np.arange(len(x)), x.lengths)
    flat = np.bincount(row * kinds + x.values.astype(np.int64) % kinds, minlength=len(x) * kinds)
    return np.asarray(flat.reshape(len(x), kinds) / x.lengths[:, None])


def summaries(x: Examples) -> np.ndarray:
    """(n, 7 F + 1) mean, deviation, least, greatest, first, last and mean step of each feature; length."""
    return np.concatenate([_summary(x.take(units)) for units in pieces(x, CHUNK_EXAMPLES, CHUNK_POSITIONS)])


def _summary(x: Examples) -> np.ndarray:
    values, begin = x.values.astype(np.float64), x.offsets[:-1]
    seen = observed(x, values)
    count = np.maximum(np.add.reduceat(seen, begin, axis=0, dtype=np.int64), 1)
    zeroed = np.where(seen, values, 0.0)
    mean = np.add.reduceat(zeroed, begin, axis=0) / count
    row = np.repeat(np.arange(len(x)), x.lengths)
    spread = np.sqrt(np.add.reduceat(np.where(seen, values - mean[row], 0.0) ** 2, begin, axis=0) / count)
    least = np.minimum.reduceat(np.where(seen, values, np.inf), begin, axis=0)
    most = np.maximum.reduceat(np.where(seen, values, -np.inf), begin, axis=0)
    step = np.abs(np.diff(zeroed, axis=0, prepend=zeroed[:1]))
    step[begin] = 0.0
    steps = np.add.reduceat(step, begin, axis=0) / count
    ends = [zeroed[begin], zeroed[x.offsets[1:] - 1]]
    out = np.concatenate([mean, spread, least, most, *ends, steps, x.lengths[:, None].astype(np.float64)], axis=1)
    # A feature that was never observed has no least and no greatest value.
    return np.asarray(np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0))


def observed(examples: Examples, values: np.ndarray) -> np.ndarray:
    """(S, F) bool: values that were observed and are numbers."""
    there: np.ndarray = np.isfinite(values)
    return there if examples.observed is None else there & examples.observed


def moments(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """(F,) float64 mean and deviation of each channel over all that was observed.

    A channel that was never observed has mean 0; one that does not vary has deviation 1.
    """
    channels, single = examples.values.shape[1], replace(examples, paired=False)

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        few = examples.values.size <= MOMENT_NUMBERS
        blocks = [examples] if few else map(single.take, pieces(single, len(single), MOMENT_NUMBERS // channels))
        for block in blocks:
            values = block.as_seen(block.values).astype(np.float64)
            yield values, observed(block, values)

    count, total, off = np.zeros(channels, np.int64), np.zeros(channels), np.zeros(channels)
    for values, there in parts():
        count += there.sum(axis=0)
        total += np.where(there, values, 0.0).sum(axis=0)
    count = np.maximum(count, 1)
    mean = total / count
    for values, there in parts():
        off += (np.where(there, values - mean, 0.0) ** 2).sum(axis=0)
    spread = np.sqrt(off / count)
    # Rounding leaves a constant channel a deviation near 1e-16 of its size.
    return mean, np.where(spread > 1e-7 * np.maximum(np.abs(mean), 1e-30), spread, 1.0)


def filled(examples: Examples, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """(S, F) float32 standardised values without gaps.

    A gap is crossed in a straight line between its neighbours of the same sequence and channel; before the first and
    after the last observed value that value stands; a channel of which a sequence shows nothing is at the mean.
    """
    values = examples.as_seen(examples.values)
    there = observed(examples, values)
    out: np.ndarray = ((np.where(there, values, 0.0) - mean) / spread).astype(np.float32)
    for channel in np.flatnonzero(~there.all(axis=0)):
        out[:, channel] = _crossed(out[:, channel], there[:, channel], examples.offsets)
    return out


def _crossed(values: np.ndarray, there: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """One channel (S,) with its gaps crossed within each sequence."""
    position = np.arange(len(values))
    begin = np.repeat(offsets[:-1], np.diff(offsets))
    end = np.repeat(offsets[1:], np.diff(offsets))
    before = np.maximum.accumulate(np.where(there, position, -1))
    after = np.minimum.accumulate(np.where(there, position, len(values))[::-1])[::-1]
    left, right = before >= begin, after < end
    first = np.where(left, before, np.where(right, after, 0))
    last = np.where(right, after, first)
    share = (position - first) / np.maximum(last - first, 1)
    line = values[first] + share * (values[last] - values[first])
    # Left of the first observed value both ends are that value, and `share` multiplies 0.
    return np.asarray(np.where(there, values, np.where(left | right, line, 0.0)), dtype=np.float32)


def steps_of(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(S, F) differences from one position of a sequence to the next, 0 at the first."""
    steps = np.diff(values, axis=0, prepend=values[:1])
    steps[offsets[:-1]] = 0
    return steps


def feature_rows(features: Features, examples: Examples) -> Any:
    """Features of the units of a set: of a pair [a, b] those of a, b, |a - b| and a b."""
    rows = features.transform(replace(examples, paired=False))
    if not examples.paired:
        return rows
    first, second = rows[::2], rows[1::2]
    if isinstance(rows, np.ndarray):
        return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)
    from scipy.sparse import hstack

    return hstack([first, second, abs(first - second), first.multiply(second)], format="csr")
