"""Means, standard errors, paired intervals, ranks: numbers in, numbers out; torch-free, scipy late."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

LEVEL = 0.95
"""Share of intervals that hold the true value: the one level of all reports."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """A mean over n runs with its standard error; `sem` is None for one run, which has no spread."""

    mean: float
    sem: float | None
    n: int
    values: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Difference:
    """Mean of n paired differences (first less second) and its two-sided t-interval.

    `sem`, `low` and `high` are None for one pair, which says nothing of the spread.
    """

    mean: float
    sem: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high), or None where there is one pair only."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def clear(self) -> bool:
        """The interval is there and does not hold 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, summed exactly. Raises: ValueError if there is no value."""
    if not values:
        raise ValueError("mean: no values")
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1), or None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def standard_error(values: Sequence[float]) -> float | None:
    """Sample standard deviation over the root of n, or None (never 0) for fewer than two values."""
    sd = spread(values)
    return None if sd is None else sd / math.sqrt(len(values))


def estimate(values: Iterable[float]) -> Estimate | None:
    """Mean, standard error and n of the values, or None where there are none."""
    numbers = tuple(float(v) for v in values)
    return Estimate(mean(numbers), standard_error(numbers), len(numbers), numbers) if numbers else None


@cache
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """How many standard errors a two-sided interval of this level reaches to each side (Student's t)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def paired_difference(
    first: Mapping[Key, float], second: Mapping[Key, float], level: float = LEVEL
) -> Difference | None:
    """Differences first - second at the keys (seeds) that both have, or None where they share none."""
    shared = [key for key in first if key in second]
    values = [first[key] - second[key] for key in shared]
    if not values:
        return None
    centre, sem = mean(values), standard_error(values)
    if sem is None:
        return Difference(centre, None, None, None, 1)
    reach = t_quantile(len(values) - 1, level) * sem
    return Difference(centre, sem, centre - reach, centre + reach, len(values))


def p_value(gap: Difference) -> float | None:
    """Two-sided p-value of a paired t-test of the difference being 0, or None for one pair."""
    from scipy.special import stdtr

    if gap.sem is None:
        return None
    if gap.sem == 0:
        return 1.0 if gap.mean == 0 else 0.0
    return float(2 * stdtr(gap.n - 1, -abs(gap.mean) / gap.sem))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, so that the chance of any wrong rejection is kept. Source: Holm 1979."""
    out, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        out[index] = min(largest, 1.0)
    return out


def binomial_error(share: float, n: int) -> float:
    """Standard error of a share in [0, 1] that was measured on n independent examples.

    Raises: ValueError if the share is outside [0, 1] or n below 1.
    """
    if n < 1 or not 0 <= share <= 1:
        raise ValueError(f"binomial_error: a share in [0, 1] of at least 1 example, got {share} of {n}")
    return math.sqrt(share * (1 - share) / n)


def ranks(values: Sequence[float], greater: bool = True) -> list[float]:
    """Rank of each value, 1 the best; equal values share the mean of their ranks."""
    sign = -1 if greater else 1
    out = []
    for value in values:
        before = sum(sign * other < sign * value for other in values)
        equal = sum(other == value for other in values)
        out.append(before + (equal + 1) / 2)
    return out


def mean_ranks(table: Mapping[str, Mapping[str, float]], greater: Mapping[str, bool] | None = None) -> dict[str, float]:
    """Mean rank of each arm over the columns in which every arm has a number; {} where there is none.

    `table` is arm -> column -> score; `greater` says per column whether more is better (default: yes).
    """
    arms = list(table)
    columns = [c for c in (table[arms[0]] if arms else ()) if all(c in table[a] for a in arms)]
    if not columns:
        return {}
    per_column = [ranks([table[a][c] for a in arms], (greater or {}).get(c, True)) for c in columns]
    return {arm: mean([r[i] for r in per_column]) for i, arm in enumerate(arms)}
