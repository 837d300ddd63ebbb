"""Short runs of tokens (n-grams), hashed and counted, by rough place too, and tokens at their places: sparse features.

Hashed in arrays: with a vectorizer of scikit-learn, which makes a string of every run, it takes 2.6 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from headstart.baselines.features import Entries, Features, FeatureTable
from headstart.baselines.fitting import SECONDS_AT_LEAST, FittedFacts, Shapes, pieces
from headstart.baselines.linear import PenalisedSpec
from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.sequence import Examples, Signature
from headstart.spec import neutral

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

HASH_BUCKETS = 1 << 18
"""Runs are hashed into so many, those by rough place into as many more; of two in one the model sees the sum."""
MOST_BUCKETS = 100_000
"""Buckets that are kept, those of the most training sequences first."""
LONGEST_RUN = 16
"""Tokens of a run at most."""
TOKENS_AT_ONCE = 1 << 18
"""Tokens that are hashed at once, which bounds memory."""
SMALL_VOCABULARY = 32
"""Tokens of a small vocabulary (DNA, proteins): longer runs are tried, and tokens at their places."""
PLACED_TOKENS = 8_192
"""Tokens times positions at most, for tokens at their places."""
WINDOW, DOUBLINGS = 8, 5
"""Tokens of a window in which short runs are counted apart, and how often its size doubles from an end on."""
NEAR_RUNS, NEAR_VOCABULARY = (4, 1), 16
"""The longest such run in a vocabulary of up to so many tokens (DNA), and in a larger one (proteins)."""
RUN_SECONDS, ENTRY_SECONDS, COLUMN_SECONDS, PATH_SECONDS = 1e-7, 1.5e-7, 2.5e-6, 0.015
"""Processor seconds of a run of a sequence; of a regression for each class, of an entry and of a column of its table;
and what regressions take at least (2-core AMD EPYC)."""
ENTRY_BYTES = 36.0
"""Memory of an entry as it is reckoned, as measured: of 40,000 x 100 bases 1.2 GB, of 8,000 x 100 residues 0.16 GB."""
NEW_RUNS, RUNS_OF_ROW = 1 / 8, 1 / 2
"""Of the runs of one length of all sequences so many have a column, where there could be as many, and of the runs of
a sequence so many are different."""


@dataclass(frozen=True)
class Ngrams(Features):
    """What is fitted: `columns` (R,) int64, the buckets that are kept, ascending, and `rarity` (R,) float32.

    Runs of 1 to `longest` tokens are counted, and runs of 1 to `near` once more apart by rough place (`_rough`). Where
    `placed` is above 0, each of `width` tokens at each of the first `placed` positions is a feature too.
    """

    longest: int
    columns: np.ndarray
    rarity: np.ndarray
    placed: int = 0
    width: int = 0
    near: int = 0
    kind: str = "ngrams"

    @property
    def size(self) -> int:
        """P = R + placed x width."""
        return len(self.columns) + self.placed * self.width

    @property
    def sizes(self) -> dict[str, int]:
        """The longest run, how many positions count by themselves, and the longest run by rough place."""
        return {"longest": self.longest, "placed": self.placed} | ({"near": self.near} if self.near else {})

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        longest, placed = (facts.sizes.get(name, 0) for name in ("longest", "placed"))
        runs = facts.size - placed * facts.width
        facts.check(0 <= runs <= 2 * HASH_BUCKETS and 1 <= longest <= LONGEST_RUN, "size")
        facts.check(facts.sizes.get("near", 0) <= LONGEST_RUN, "sizes")
        return {"columns": ("int64", (runs,)), "rarity": ("float32", (runs,))}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Ngrams:
        columns, placed, near = arrays["columns"], facts.sizes["placed"], facts.sizes.get("near", 0)
        every = HASH_BUCKETS * (2 if near else 1)
        facts.check(bool(((columns >= 0) & (columns < every)).all() and (np.diff(columns) > 0).all()), "columns")
        return cls(facts.sizes["longest"], columns, arrays["rarity"], placed, facts.width if placed else 0, near)

    def transform(self, examples: Examples) -> csr_matrix:
        """(n, P) float32, see `tables`."""
        from scipy.sparse import csr_matrix

        (_, _, entries), *_ = self.tables(examples)
        return csr_matrix((entries.value, (entries.row, entries.column)), entries.shape)

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        """log(1 + count) x rarity, together of length 1 per row, those by rough place too, then the tokens at their
        places, all at once.

        A row is 0 where nothing is known.
        """
        column = np.full(2 * HASH_BUCKETS, -1, dtype=np.int64)
        column[self.columns] = np.arange(len(self.columns))
        apart, none = np.searchsorted(self.columns, HASH_BUCKETS), np.zeros(0, np.int32)
        parts = [(none, none, none.astype(np.float32))]
        for rows, columns, counts in _counted(examples, self.longest, column, self.near, self.placed):
            values = np.log1p(counts) * self.rarity[columns]
            # Row by row in float64, as scikit-learn's `normalize`, whose import takes longer than a small prediction.
            side = 2 * rows + (columns >= apart)
            norm = np.sqrt(np.bincount(side, np.square(values).astype(np.float64)))
            parts.append((rows, columns, (values / np.where(norm > 0, norm, 1.0)[side]).astype(np.float32)))
        if self.placed:
            rows, places = (each.astype(np.int32) for each in _at_places(examples, self.placed, self.width))
            values = np.full(len(rows), self.placed**-0.5, dtype=np.float32)
            parts.append((rows, len(self.columns) + places, values))
        rows, columns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        yield slice(None), 0, Entries(rows, columns, values, (len(examples), self.size))


def fit_ngrams(examples: Examples, longest: int, placed: int = 0, width: int = 0, near: int = 0) -> Ngrams:
    """Buckets of the runs of these sequences; rarity is 1 + log((1 + n) / (1 + sequences that have it)).

    A run that only one of many sequences has says nothing of others: it is left out where there are 20 or more,
    and some run is of two.
    """
    every = np.arange(2 * HASH_BUCKETS)
    having = np.zeros(len(every), np.int64)
    for _, columns, _ in _counted(examples, longest, every, near, placed):
        having += np.bincount(columns, minlength=len(every))
    least = 2 if len(examples) >= 20 and having.max() > 1 else 1
    buckets = np.flatnonzero(having >= least)
    buckets = np.sort(buckets[np.argsort(-having[buckets], kind="stable")][:MOST_BUCKETS])
    rarity = 1 + np.log((1 + len(examples)) / (1 + having[buckets]))
    arrays = buckets.astype(np.int64), rarity.astype(np.float32)
    return Ngrams(longest, *arrays, placed, width if placed else 0, near)


def best_ngrams(
    train: Examples, signature: Signature, sizes: Mapping[str, int] | None, rough: bool = False
) -> Iterator[Ngrams]:
    """Runs of up to 4; in a small vocabulary of up to 3 or 6, with or without tokens at their places, and `rough`, with
    runs at rough places; or of `sizes`."""
    tried = sizes_tried(signature, train.lengths, rough)
    if sizes is not None:
        tried = [(sizes["longest"], sizes["placed"], sizes.get("near", 0))]
    for longest, placed, near in tried:
        yield fit_ngrams(train, longest, placed, signature.width, near)


def sizes_tried(signature: Signature, lengths: np.ndarray, rough: bool = False) -> list[tuple[int, int, int]]:
    """(the longest run, positions at which tokens count by themselves, the longest run at a rough place) of each of the
    features that are tried."""
    small, length = signature.width <= SMALL_VOCABULARY, int(lengths[0])
    aligned = bool((lengths == length).all()) and length * signature.width <= PLACED_TOKENS
    near = NEAR_RUNS[signature.width > NEAR_VOCABULARY] if small and rough else 0
    places = dict.fromkeys(((0, 0), (length if small and aligned else 0, near)))
    return [(longest, *size) for longest in ((3, 6) if small else (4,)) for size in places]


def ngrams_seconds(labels: int, scored: int, signature: Signature, lengths: np.ndarray, rough: bool = False) -> float:
    """Processor seconds of the features and of the regressions on them, roughly: of texts, DNA, words, lists and
    proteins within 2.5 times what they took. lengths (n,): of train."""
    length, classes, total = float(lengths.mean()), max(signature.classes, signature.targets), 0.0
    for longest, placed, near in sizes_tried(signature, lengths, rough):
        columns, entries = _table_of(labels, signature, length, (longest, placed, near))
        each = ENTRY_SECONDS * entries + COLUMN_SECONDS * (columns + placed * signature.width)
        total += PATH_SECONDS + RUN_SECONDS * (longest + 2 * near) * length * (labels + scored)
        total += each * (1 if classes == 2 else classes)
    return total


def ngrams_bytes(labels: int, signature: Signature, lengths: np.ndarray, rough: bool = False) -> float:
    """Memory of the largest table of features while it is put together."""
    tables = [_table_of(labels, signature, float(lengths.mean()), x) for x in sizes_tried(signature, lengths, rough)]
    return ENTRY_BYTES * max(entries for _, entries in tables)


def _table_of(labels: int, signature: Signature, length: float, size: tuple[int, int, int]) -> tuple[float, float]:
    """Columns of runs, and entries, of the features of so many sequences, roughly."""
    (longest, placed, near), new = size, NEW_RUNS * labels * length
    kinds = [*range(1, longest + 1), *(2 * [*range(1, near + 1)])]
    columns = min(sum(min(float(signature.width) ** run, new) for run in kinds), MOST_BUCKETS)
    return columns, labels * (min(RUNS_OF_ROW * len(kinds) * length, columns) + placed)


def _at_places(examples: Examples, placed: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each token at one of the first places. All are 1 / sqrt(placed): whole rows have length 1."""
    lengths = examples.lengths
    row = np.repeat(np.arange(len(examples)), lengths)
    position = np.arange(len(row)) - examples.offsets[row]
    there = position < placed
    return row[there], (position * width + examples.values.astype(np.int64))[there]


def _counted(
    examples: Examples, longest: int, column: np.ndarray, near: int = 0, placed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Row, column (int32) and float32 count of each run of some sequences at a time, none across two sequences;
    `column` (2 HASH_BUCKETS,) is each bucket's, or -1. Rows ascend, and so do the columns of one."""
    alone = replace(examples, paired=False)
    for units in pieces(alone, len(alone), TOKENS_AT_ONCE * longest // (longest + 2 * near)):
        part = alone.take(units)
        tokens, row = part.values.astype(np.int64), np.repeat(units, part.lengths)
        keys = []
        for most, stream, rough in ((longest, "classic/ngram", None), *_rough(part, near, placed)):
            for length in range(1, most + 1):
                runs = max(len(tokens) - length + 1, 0)
                where = () if rough is None else (rough[:runs],)
                hashed = bits(length, stream, *(tokens[i : i + runs] for i in range(length)), *where)
                inside = column[hashed % HASH_BUCKETS + (0 if rough is None else HASH_BUCKETS)]
                there = (row[:runs] == row[length - 1 :]) & (inside >= 0)
                there &= True if rough is None else rough[:runs] >= 0
                keys.append(row[:runs][there] * len(column) + inside[there])
        key, count = np.unique(np.concatenate(keys), return_counts=True)
        rows, columns = np.divmod(key, len(column))
        yield rows.astype(np.int32), columns.astype(np.int32), count.astype(np.float32)


def _rough(part: Examples, near: int, placed: int) -> Iterator[tuple[int, str, np.ndarray]]:
    """(longest run, name, (S,) the rough place of each token, -1 for none), twice: windows of the first `placed`
    positions, and those that lie half a window beside; without `placed` the distance from the first and from the last
    token, in steps that double."""
    if not near:
        return
    begin = np.repeat(part.offsets[:-1], part.lengths)
    first = np.arange(len(begin)) - begin
    if placed:
        for shift in (0, WINDOW // 2):
            yield near, f"classic/ngram/{shift}", np.where(first < placed, (first + shift) // WINDOW, -1)
        return
    for name, distance in (("first", first), ("last", np.repeat(part.lengths, part.lengths) - 1 - first)):
        # The bits of a whole number count its doublings exactly, where a logarithm is rounded.
        yield near, f"classic/ngram/{name}", np.minimum(np.frexp(distance // WINDOW + 1)[1] - 1, DOUBLINGS)


class NgramsSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on n-grams of tokens.

    Tokens are runs of up to 4; in a vocabulary of up to 32, of up to 3 or 6, with or without tokens at their places
    where all train sequences have one length, as the loss on val has it.
    """

    version: ClassVar[int] = 2
    kind: Literal["ngrams"] = "ngrams"
    rough: bool = neutral(False)
    """In a vocabulary of up to 32, runs of up to 4 (above 16 tokens: single ones) are tried apart by rough place, too:
    windows of eight tokens where all train sequences have one length, else distances from either end."""
    reads: ClassVar[Mapping[str, type[Features]]] = {"ngrams": Ngrams}

    def seconds(self, labels: int, scored: int, signature: Signature, lengths: np.ndarray) -> float:
        """Of the features and of the regressions on them."""
        return SECONDS_AT_LEAST + ngrams_seconds(labels, scored, signature, lengths, self.rough)

    def memory(self, labels: int, signature: Signature, lengths: np.ndarray) -> float:
        """Of the features."""
        return ngrams_bytes(labels, signature, lengths, self.rough)

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        """Raises: BadInput for floats."""
        if signature.input != "tokens":
            raise BadInput(
                "model.kind: 'ngrams' counts runs of tokens, the task has floats; use 'kernels' or 'summary'"
            )
        return best_ngrams(train, signature, self.sizes, self.rough)

    def describe(self) -> str:
        return "a logistic regression (ridge for numbers) on n-grams"
