"""Short runs of tokens (n-grams), hashed and counted, and tokens at their places, as sparse features of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headstart.baselines.contract import Facts, Shapes, check_facts, facts_of
from headstart.baselines.linear import Linear, PenalisedSpec, split_of
from headstart.baselines.measures import log_loss, softmax
from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.sequence import Examples, Signature

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BUCKETS = 1 << 18
"""Runs are hashed into so many; of two that share one, the model sees the sum."""
MOST = 100_000
"""Buckets that are kept, those of the most training sequences first."""
AT_ONCE = 1 << 22
"""Tokens that are hashed at once, which bounds memory."""
SMALL = 32
"""Tokens of a small vocabulary (DNA, proteins): longer runs are tried, and tokens at their places."""
WIDEST = 8_192
"""Tokens times positions at most, for tokens at their places."""


@dataclass(frozen=True)
class Ngrams:
    """What is fitted: `columns` (R,) int64, the buckets that are kept, ascending, and `rarity` (R,) float32.

    Runs of 1 to `longest` tokens are counted. Where `placed` is above 0, each of `width` tokens at each of the first
    `placed` positions is a feature too.
    """

    longest: int
    columns: np.ndarray
    rarity: np.ndarray
    placed: int = 0
    width: int = 0

    @property
    def size(self) -> int:
        """P = R + placed x width."""
        return len(self.columns) + self.placed * self.width

    @property
    def sizes(self) -> dict[str, int]:
        """The longest run, and how many positions count by themselves."""
        return {"longest": self.longest, "placed": self.placed}

    def arrays(self) -> dict[str, np.ndarray]:
        """`columns` and `rarity`."""
        return {"columns": self.columns, "rarity": self.rarity}

    @staticmethod
    def shapes(facts: Facts) -> Shapes:
        """Of the arrays. Raises: BadInput where the facts contradict each other."""
        runs = facts.size - facts.placed * facts.width
        check_facts(facts, 0 <= runs <= BUCKETS and facts.longest >= 1, "size")
        return {"columns": ("int64", (runs,)), "rarity": ("float32", (runs,))}

    @staticmethod
    def from_arrays(facts: Facts, arrays: Mapping[str, np.ndarray]) -> Ngrams:
        """The n-grams again. Raises: BadInput for numbers that cannot be."""
        columns = arrays["columns"]
        right = ((columns >= 0) & (columns < BUCKETS)).all() and (np.diff(columns) > 0).all()
        check_facts(facts, bool(right), "columns")
        return Ngrams(facts.longest, columns, arrays["rarity"], facts.placed, facts.width if facts.placed else 0)

    def transform(self, examples: Examples) -> csr_matrix:
        """(n, P) float32: log(1 + count) x rarity, together of length 1 per row, then the tokens at their places, too.

        A row is 0 where nothing is known.
        """
        from scipy.sparse import hstack

        column = np.full(BUCKETS, -1, dtype=np.int64)
        column[self.columns] = np.arange(len(self.columns))
        out = _counted(examples, self.longest, column, len(self.columns))
        out.data = np.log1p(out.data) * self.rarity[out.indices]
        row = np.repeat(np.arange(len(examples)), np.diff(out.indptr))
        length = np.sqrt(np.bincount(row, out.data.astype(np.float64) ** 2, minlength=len(examples)))
        out.data = (out.data / np.maximum(length, 1e-12)[row]).astype(np.float32)
        return hstack([out, _at_places(examples, self.placed, self.width)], format="csr") if self.placed else out


def fit_ngrams(examples: Examples, longest: int, placed: int = 0, width: int = 0) -> Ngrams:
    """Buckets of the runs of these sequences; rarity is 1 + log((1 + n) / (1 + sequences that have it)).

    A run that only one of many sequences has says nothing of others: it is left out where there are 20 or more.
    """
    counted = _counted(examples, longest, np.arange(BUCKETS), BUCKETS)
    having = np.bincount(counted.indices, minlength=BUCKETS)
    least = 2 if len(examples) >= 20 else 1
    kept = np.flatnonzero(having >= least)
    kept = np.sort(kept[np.argsort(-having[kept], kind="stable")][:MOST])
    rarity = 1 + np.log((1 + len(examples)) / (1 + having[kept]))
    return Ngrams(longest, kept.astype(np.int64), rarity.astype(np.float32), placed, width if placed else 0)


def _at_places(examples: Examples, placed: int, width: int) -> csr_matrix:
    """(n, placed x width) float32: 1 / sqrt(placed) where a token stands, so that whole rows have length 1."""
    from scipy.sparse import csr_matrix

    lengths = examples.lengths
    place = np.arange(int(lengths.sum())) - np.repeat(examples.offsets[:-1], lengths)
    there = place < placed
    column = (place * width + examples.values.astype(np.int64))[there]
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, placed))])
    ones = np.full(len(column), placed**-0.5, dtype=np.float32)
    return csr_matrix((ones, column, starts), shape=(len(examples), placed * width))


def _counted(examples: Examples, longest: int, column: np.ndarray, width: int) -> csr_matrix:
    """(n, width) float32 counts of runs; `column` (BUCKETS,) is each bucket's, or -1."""
    from scipy.sparse import csr_matrix, vstack

    pieces, first = [], 0
    while first < len(examples):
        ahead = int(np.searchsorted(examples.offsets, examples.offsets[first] + AT_ONCE, side="right")) - 1
        last = min(max(first + 1, ahead), len(examples))
        offsets = examples.offsets[first : last + 1]
        tokens = examples.values[offsets[0] : offsets[-1]].astype(np.int64)
        total: Any = csr_matrix((last - first, width), dtype=np.float32)
        for length in range(1, longest + 1):
            total = total + _of_length(tokens, offsets - offsets[0], length, column, width)
        pieces.append(total)
        first = last
    out = vstack(pieces, format="csr") if pieces else csr_matrix((0, width), dtype=np.float32)
    out.sum_duplicates()
    return out


def _of_length(tokens: np.ndarray, offsets: np.ndarray, length: int, column: np.ndarray, width: int) -> csr_matrix:
    """Counts of runs of one length, none across two sequences."""
    from scipy.sparse import csr_matrix

    runs = max(len(tokens) - length + 1, 0)
    hashed = bits(length, "classic/ngram", *(tokens[i : i + runs] for i in range(length)))
    found = column[hashed % BUCKETS]
    end = np.repeat(offsets[1:], np.diff(offsets))[:runs]
    there = (np.arange(runs) + length <= end) & (found >= 0)
    before = np.concatenate([[0], np.cumsum(there)])
    starts = before[np.minimum(offsets, runs)]
    out = csr_matrix(
        (np.ones(int(before[-1]), dtype=np.float32), found[there], starts), shape=(len(offsets) - 1, width)
    )
    out.sum_duplicates()
    return out


class NgramsSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on n-grams of tokens.

    Tokens are runs of up to 4; in a vocabulary of up to 32, of up to 3 or 6, with or without tokens at their places
    where all train sequences have one length, as the loss on val has it.
    """

    kind: Literal["ngrams"] = "ngrams"

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Linear:
        """Nothing depends on the seed."""
        del seed
        if signature.input != "tokens":
            raise BadInput(
                "model.kind: 'ngrams' counts runs of tokens, the task has floats; use 'kernels' or 'summary'"
            )
        return fit_best_ngrams("ngrams", train, val, signature, class_weights, self.alpha)

    def describe(self) -> str:
        """In a sentence."""
        return "a logistic regression (ridge for numbers) on n-grams"


def fit_best_ngrams(
    method: str,
    train: Examples,
    val: Examples,
    signature: Signature,
    class_weights: np.ndarray | None,
    alpha: float | None,
    lengths: tuple[int, ...] = (),
) -> Linear:
    """The n-grams with the least loss on val. lengths: the longest runs to try, without tokens at their places."""
    facts = facts_of(method, "ngrams", train, signature)
    tried = [fit_ngrams(train, longest) for longest in lengths] or list(_candidates(train, signature))
    models = [Linear.fit(facts, made, train, val, class_weights, alpha=alpha) for made in tried]
    if len(models) == 1:
        return models[0]
    losses = [_loss(model, val) for model in models]
    # Of equals the first is kept: the simpler come first.
    return models[losses.index(min(losses))]


def _candidates(train: Examples, signature: Signature) -> list[Ngrams]:
    lengths, small = train.lengths, signature.width <= SMALL
    aligned = bool((lengths == lengths[0]).all()) and int(lengths[0]) * signature.width <= WIDEST
    out = []
    for longest in (3, 6) if small else (4,):
        out.append(fit_ngrams(train, longest))
        if aligned and small:
            out.append(fit_ngrams(train, longest, int(lengths[0]), signature.width))
    return out


def _loss(model: Linear, val: Examples) -> float:
    """Log loss or mean squared error on val; 0 where nothing can be compared."""
    held = split_of(model.features, val, model.facts)
    if not len(held.target):
        return 0.0
    scores = model.readout.scores(held.features)
    if model.facts.classes:
        return log_loss(held.target, softmax(scores, model.facts.temperature))
    return float(np.nanmean((scores - held.target) ** 2))
