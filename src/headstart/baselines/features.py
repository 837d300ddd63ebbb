"""Sequences as fixed rows of numbers, for methods that know no order: flattened, counted or summarised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headstart.baselines.contract import Facts, Shapes
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature

WIDEST = 8_192
"""Numbers of a flattened example at most; longer ones are summarised."""
KINDS = 4_096
"""Distinct tokens that are counted each; ids beyond share a place."""
CHUNK = 2_000
"""Examples that are summarised at once, which bounds memory."""
NAMES = {"counts": "token counts", "flat": "flat inputs", "summaries": "summaries"}


@dataclass(frozen=True)
class Plain:
    """Features of which nothing is learned. kind: a key of `NAMES`; size: P.

    Tokens are counted (as shares of the length). Floats are flattened where every example of the task has one length,
    else summarised per feature. A missing value counts as 0 when flattened.
    """

    kind: str
    size: int

    @classmethod
    def of(cls, signature: Signature) -> Plain:
        """What fits a task."""
        if signature.input == "tokens":
            return cls("counts", min(signature.width, KINDS))
        size = signature.length * signature.width
        if signature.length == signature.shortest and size <= WIDEST:
            return cls("flat", size)
        return cls("summaries", 7 * signature.width + 1)

    @property
    def sizes(self) -> dict[str, int]:
        """Nothing but P."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """None."""
        return {}

    @staticmethod
    def shapes(facts: Facts) -> Shapes:
        """Of no array."""
        del facts
        return {}

    @staticmethod
    def from_arrays(facts: Facts, arrays: Mapping[str, np.ndarray]) -> Plain:
        """The features again."""
        del arrays
        return Plain(facts.features, facts.size)

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
    return np.concatenate([_summary(x, i, min(i + CHUNK, len(x))) for i in range(0, len(x), CHUNK)])


def _summary(x: Examples, first: int, last: int) -> np.ndarray:
    begin, end = x.offsets[first:last], x.offsets[first + 1 : last + 1]
    start = int(begin[0])
    values = x.values[start : int(end[-1])].astype(np.float64)
    seen = np.isfinite(values)
    if x.observed is not None:
        seen &= x.observed[start : int(end[-1])]
    at = begin - start
    count = np.maximum(np.add.reduceat(seen, at, axis=0, dtype=np.int64), 1)
    zeroed = np.where(seen, values, 0.0)
    mean = np.add.reduceat(zeroed, at, axis=0) / count
    row = np.repeat(np.arange(last - first), end - begin)
    spread = np.sqrt(np.add.reduceat(np.where(seen, values - mean[row], 0.0) ** 2, at, axis=0) / count)
    least = np.minimum.reduceat(np.where(seen, values, np.inf), at, axis=0)
    most = np.maximum.reduceat(np.where(seen, values, -np.inf), at, axis=0)
    step = np.abs(np.diff(zeroed, axis=0, prepend=zeroed[:1]))
    step[at] = 0.0
    steps = np.add.reduceat(step, at, axis=0) / count
    ends = [zeroed[at], zeroed[end - start - 1]]
    length = (end - begin)[:, None].astype(np.float64)
    out = np.concatenate([mean, spread, least, most, *ends, steps, length], axis=1)
    # A feature that was never observed has no least and no greatest value.
    return np.asarray(np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0))
