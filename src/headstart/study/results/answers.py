"""Which test examples each run answered rightly, and what another draw of these examples would have scored.

The table of runs by examples is drawn anew in both directions, each with replacement and apart from the other: seeds
are one sample, the examples that every run is tested on are another (Owen 2007, "The pigeonhole bootstrap").
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from headstart.errors import BadInput, Damaged
from headstart.statistics import LEVEL, Difference, mean

EXAMPLE_DRAWS = 2_000
"""Draws of seeds and test examples: an end of an interval is then exact to 6 % of a standard deviation."""
MOST_TESTED = 100_000
"""Test examples beyond which their draw is left out: its standard error is below 0.002 then."""
OUTSIDE = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
"""Shares of draws below the two ends of an interval."""
SAME_SCORE = 1e-6
"""How far the share of right answers may be from the score that a run reports."""

Draws = Mapping[int, np.ndarray]
"""Seed -> (EXAMPLE_DRAWS,) the test score on each draw of the test examples; empty where the answers are not there."""


@dataclass(frozen=True)
class RightAnswers:
    """One bit for each of `count` test examples, in the order of their indices: whether it was answered rightly."""

    count: int
    packed: bytes

    @classmethod
    def of(cls, predictions: Mapping[str, Any]) -> RightAnswers | None:
        """Those of a stage's predictions, or None where they do not hold a class for each test example."""
        if any(f"test/{name}" not in predictions for name in ("output", "target", "index")):
            return None
        output, target, index = (np.asarray(predictions[f"test/{name}"]) for name in ("output", "target", "index"))
        whole = np.issubdtype(target.dtype, np.integer) and target.ndim == 1 and output.ndim == 2
        if not whole or not len(output) == len(target) == len(index) or not 0 < len(target) <= MOST_TESTED:
            return None
        right = (output.argmax(1) == target)[np.argsort(index, kind="stable")]
        return cls(len(right), np.packbits(right).tobytes())

    @classmethod
    def read(cls, document: Mapping[str, Any], location: str) -> RightAnswers:
        """What `document` wrote. Raises: BadInput where it is not of so many examples."""
        count = document["count"]
        try:
            packed = base64.b64decode(document["right"], validate=True)
        except ValueError:
            raise BadInput(f"{location}.answers.right: is not in base 64; write the file again") from None
        if not 0 < count <= MOST_TESTED or len(packed) != -(-count // 8):
            raise BadInput(
                f"{location}.answers.right: holds {len(packed):,} bytes, not those of {count:,} test examples; write "
                "the file again"
            )
        return cls(count, packed)

    def document(self) -> dict[str, Any]:
        """Their number, and the bits in base 64."""
        return {"count": self.count, "right": base64.b64encode(self.packed).decode()}

    @property
    def right(self) -> np.ndarray:
        """(count,) bool."""
        return np.unpackbits(np.frombuffer(self.packed, np.uint8), count=self.count).astype(bool)

    def are_of(self, score: float | None) -> bool:
        """Whether an accuracy is their share of right answers."""
        return score is not None and abs(float(self.right.mean()) - score) < SAME_SCORE


ReadAnswers = Callable[[str], RightAnswers | None]
"""Identity -> the answers of a finished stage."""


def read_answers(predictions: Callable[[str], Mapping[str, Any]]) -> ReadAnswers:
    """The answers by a store's predictions; None of a stage whose file is not there, or damaged."""

    def read(identity: str) -> RightAnswers | None:
        try:
            return RightAnswers.of(predictions(identity))
        except (Damaged, OSError):
            return None

    return read


def over_examples(gap: Difference | None, first: Draws, second: Draws | None = None) -> Difference | None:
    """A difference with its interval over seeds and test examples, where the answers of all of its runs are there.

    first, second: of its two sides, whose seeds are drawn together where they are paired, else apart; or `first` alone
    holds the difference itself.
    """
    if gap is None or gap.low is None or not first or (second is not None and not second):
        return gap
    if gap.sides is not None and second is not None:
        if (len(first), len(second)) != tuple(side.n for side in gap.sides):
            return gap
        sides = [_over_seeds(np.stack([*side.values()]), i) for i, side in enumerate((first, second))]
        return _with_draws(gap, sides[0] - sides[1])
    shared = [seed for seed in first if second is None or seed in second]
    if len(shared) != gap.n:
        return gap
    values = np.stack([first[seed] - (second[seed] if second is not None else 0.0) for seed in shared])
    return _with_draws(gap, _over_seeds(values, 0))


def _over_seeds(values: np.ndarray, side: int) -> np.ndarray:
    """(EXAMPLE_DRAWS,): the mean over seeds that are drawn anew in each draw. values: (n, EXAMPLE_DRAWS)."""
    chosen = _drawn_seeds(len(values), side)
    means: np.ndarray = values[chosen, np.arange(EXAMPLE_DRAWS)].mean(0)
    return means


def stratified(sets: Mapping[str, Sequence[np.ndarray]]) -> Difference:
    """The mean over sets, each counted once, and its bootstrap interval of what other seeds of these sets change.

    sets: name -> tables (comparisons, n) of differences by seed, whose comparisons share their seeds and are drawn
    together; a set is worth the mean of its comparisons. What other sets would change is not in the interval.
    Source: Davison and Hinkley 1997, section 3.2 (strata). Raises: ValueError without a set.
    """
    if not sets:
        raise ValueError("stratified: no sets")
    draw, draws, means = np.random.default_rng(0), [], []
    for tables in sets.values():
        drawn = [draw.integers(table.shape[1], size=(table.shape[1], EXAMPLE_DRAWS)) for table in tables]
        parts = [table[:, chosen].mean(1) for table, chosen in zip(tables, drawn, strict=True)]
        draws.append(np.concatenate(parts).mean(0))
        means.append(float(np.concatenate([table.mean(1) for table in tables]).mean()))
    sample = np.mean(draws, 0)
    low, high = np.quantile(sample, OUTSIDE).tolist()
    return Difference(mean(means), float(sample.std(ddof=1)), low, high, len(means))


def _with_draws(gap: Difference, draws: np.ndarray) -> Difference:
    """The difference with its interval over seeds and test examples, and the wider of the two as its own."""
    low, high = np.quantile(draws, OUTSIDE).tolist()
    wider = gap.low is None or gap.high is None or high - low > gap.high - gap.low
    gap = replace(gap, both=(low, high), both_error=float(draws.std(ddof=1)), alone=gap.interval)
    return replace(gap, low=low, high=high) if wider else gap


@lru_cache(maxsize=64)
def _drawn_seeds(n: int, side: int) -> np.ndarray:
    """(n, EXAMPLE_DRAWS): which of n seeds stand in each draw; of both sides of an unpaired difference, others."""
    return np.random.default_rng([n, side]).integers(n, size=(n, EXAMPLE_DRAWS))


@lru_cache(maxsize=1024)
def scores_on_draws(answers: tuple[RightAnswers, ...]) -> np.ndarray:
    """(n, EXAMPLE_DRAWS): the share of right answers of each run, on draws that are the same for all runs."""
    right = np.stack([each.right for each in answers]).astype(np.float32)
    times = _times(answers[0].count)
    parts = [right @ times[i : i + 250].astype(np.float32).T for i in range(0, EXAMPLE_DRAWS, 250)]
    return np.concatenate(parts, 1).astype(np.float64) / answers[0].count


@lru_cache(maxsize=2)
def _times(count: int) -> np.ndarray:
    """(EXAMPLE_DRAWS, count) uint8: how often each example stands in each draw."""
    draw = np.random.default_rng(count)
    return np.stack(
        [np.bincount(draw.integers(count, size=count), minlength=count).astype(np.uint8) for _ in range(EXAMPLE_DRAWS)]
    )
