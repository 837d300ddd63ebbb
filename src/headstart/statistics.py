"""Means, standard errors, intervals of differences, power, ranks: numbers in, numbers out; torch-free, scipy late."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

LEVEL = 0.95
"""Share of intervals that hold the true value: the one level of all reports."""
POWER = 0.8
"""How often a run would show a true difference as large as the one that it is said to be able to detect."""
FEWEST_PAIRS = 2
"""Two arms that share at least so many seeds are compared in pairs: fewer have no interval."""

ROUNDING = 1e-13
"""Scores are of single precision: a number this small is what rounding leaves of a difference that is 0."""
MOST_FREEDOM = 1e6
"""Degrees of freedom from which on a t-interval is a normal one."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """A mean over n runs with its standard error; `sem` is None for one run, which has no spread."""

    mean: float
    sem: float | None
    n: int
    values: tuple[float, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Two-sided t-interval of the mean, or None for one run."""
        if self.sem is None:
            return None
        reach = t_quantile(self.n - 1) * self.sem
        return self.mean - reach, self.mean + reach


@dataclass(frozen=True)
class Difference:
    """Mean difference (first less second) and its two-sided t-interval: of n pairs of one seed, or of two samples.

    `sem`, `low` and `high` are None for one pair, which says nothing of the spread. `sides`: the two arms where they
    are not paired; n is then the runs of the smaller one. `other`: the same by the way that the rule of `difference`
    leaves out, where there is one. examples: what of `sem` is of the draw of the test examples, which no seed lowers.
    both: an interval over seeds and test examples, from draws of both, where the answers of each run are there, and
    both_error the deviation of these draws; `low` and `high` are then the wider interval, `alone` that over seeds.
    """

    mean: float
    sem: float | None
    low: float | None
    high: float | None
    n: int
    sides: tuple[Estimate, Estimate] | None = None
    other: Difference | None = field(default=None, compare=False, repr=False)
    examples: float = 0.0
    both: tuple[float, float] | None = None
    both_error: float = 0.0
    alone: tuple[float, float] | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high), or None where there is one pair only."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def clear(self) -> bool:
        """The interval is there and does not hold 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def over_seeds(self) -> tuple[float, float] | None:
        """The t-interval over seeds, whether or not the one over seeds and test examples is wider."""
        return self.alone or self.interval

    @property
    def constant(self) -> bool:
        """It is the same at all of several seeds, and on draws of test examples: it has no spread for an interval."""
        return self.sem is not None and self.sem < ROUNDING and self.both_error < ROUNDING

    @property
    def level(self) -> bool:
        """So it is but for the draw of the test examples."""
        return self.sem is not None and self.sem**2 - self.examples**2 < ROUNDING**2

    def error(self, more: int = 0) -> tuple[float, float]:
        """Standard error and degrees of freedom, with so many more seeds (in both arms) if the spread stays as it is.

        Raises: ValueError for one pair. Source: Welch 1947, of two samples.
        """
        if self.sem is None:
            raise ValueError("error: one pair has none")
        if self.examples:
            of_seeds = max(self.sem**2 - self.examples**2, 0.0) * self.n / (self.n + more)
            whole = of_seeds + self.examples**2
            least = whole**2 / MOST_FREEDOM
            return math.sqrt(whole), whole**2 / max(of_seeds**2 / (self.n + more - 1), least)
        if self.sides is None:
            return self.sem * math.sqrt(self.n / (self.n + more)), self.n + more - 1
        sizes = [side.n + more for side in self.sides]
        parts = [(side.sem or 0.0) ** 2 * side.n / size for side, size in zip(self.sides, sizes, strict=True)]
        total = sum(parts)
        scale = math.ldexp(1.0, min(-math.frexp(total)[1], 1000))  # a power of two: no square is beyond all floats
        below = sum((scale * part) ** 2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        return math.sqrt(total), (scale * total) ** 2 / below if below else sum(sizes) - 2


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
def t_quantile(freedom: float, level: float = LEVEL) -> float:
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


def unpaired_difference(
    first: Mapping[Key, float], second: Mapping[Key, float], level: float = LEVEL
) -> Difference | None:
    """Mean of first less mean of second with Welch's interval, or None where a side has fewer than two values."""
    sides = estimate(first.values()), estimate(second.values())
    if sides[0] is None or sides[1] is None or min(side.n for side in sides if side) < 2:
        return None
    gap = Difference(sides[0].mean - sides[1].mean, 0.0, None, None, min(sides[0].n, sides[1].n), (sides[0], sides[1]))
    sem, freedom = gap.error()
    reach = t_quantile(freedom, level) * sem
    return replace(gap, sem=sem, low=gap.mean - reach, high=gap.mean + reach)


def with_examples(gap: Difference, error: float) -> Difference:
    """A difference from a fixed number where the draw of the test examples, of this standard error, counts too.

    Unchanged for one seed, which has no spread. Source: Welch 1947, Satterthwaite 1946, of degrees of freedom.
    """
    if gap.sem is None or not error:
        return gap
    wider = replace(gap, sem=math.hypot(gap.sem, error), examples=error)
    sem, freedom = wider.error()
    reach = t_quantile(freedom) * sem
    return replace(wider, low=gap.mean - reach, high=gap.mean + reach)


def difference(first: Mapping[Key, float], second: Mapping[Key, float]) -> Difference | None:
    """First less second: in pairs where both share at least `FEWEST_PAIRS` seeds, else of two samples where each has
    two.

    The rule reads which seeds there are and no score. `other` holds what the other way says.
    """
    paired, unpaired = paired_difference(first, second), unpaired_difference(first, second)
    if paired is None or (paired.n < FEWEST_PAIRS and unpaired is not None):
        return unpaired if unpaired is None or paired is None else replace(unpaired, other=paired)
    return replace(paired, other=unpaired)


def p_value(gap: Difference) -> float | None:
    """Two-sided p-value of a t-test of the difference being 0 (Welch's where it is unpaired), or None for one pair.

    Where there are draws of seeds and test examples, that of a normal test with their spread, if it is greater.
    """
    from scipy.special import ndtr, stdtr

    if gap.sem is None:
        return None
    if gap.mean == 0 and max(gap.sem, gap.both_error) == 0:
        return 1.0
    of_seeds = float(2 * stdtr(gap.error()[1], -abs(gap.mean) / gap.sem)) if gap.sem else 0.0
    return max(of_seeds, float(2 * ndtr(-abs(gap.mean) / gap.both_error)) if gap.both_error else 0.0)


def smallest_p(gap: Difference) -> float:
    """Smallest two-sided p-value that a test without assumptions on the spread can reach with so many runs.

    2 / 2^n of n pairs, whose signs are flipped; 1 over the ways to deal the runs out to the two arms of unpaired ones,
    twice that where both have as many.
    """
    if gap.sides is None:
        return float(2 / 2**gap.n)
    first, second = (side.n for side in gap.sides)
    return (2 if first == second else 1) / math.comb(first + second, first)


@cache
def _detected(freedom: float, power: float, level: float) -> float:
    """Standard errors from 0 at which a two-sided t-test shows a difference so often (noncentral t)."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(freedom, 1 - power, t_quantile(freedom, level)))


def detectable(gap: Difference | None, power: float = POWER, level: float = LEVEL) -> float | None:
    """Smallest true difference that so many runs of this spread show so often, or None where they have no spread."""
    if gap is None or gap.sem is None or gap.sem < ROUNDING:
        return None
    sem, freedom = gap.error()
    return _detected(freedom, power, level) * sem


def seeds_to_halve(gap: Difference) -> int | None:
    """How many more seeds (in both arms) would halve the interval if the spread stays; None where none would."""
    if not gap.sem:
        return None

    def width(more: int) -> float:
        sem, freedom = gap.error(more)
        return t_quantile(freedom) * sem

    if gap.examples and t_quantile(MOST_FREEDOM) * gap.examples >= width(0) / 2:
        return None
    return next(more for more in itertools.count(1) if width(more) <= width(0) / 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, so that the chance of any wrong rejection is kept. Source: Holm 1979."""
    out, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        out[index] = min(largest, 1.0)
    return out


def corrected(gaps: Mapping[Key, Difference | None]) -> dict[Key, float]:
    """p-value of each difference that has one, corrected for how many these are (`holm`)."""
    tested = {key: p for key, gap in gaps.items() if gap is not None and (p := p_value(gap)) is not None}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def binomial_error(share: float, n: int) -> float:
    """Standard error of a share in [0, 1] that was measured on n independent examples.

    Raises: ValueError if the share is outside [0, 1] or n below 1.
    """
    if n < 1 or not 0 <= share <= 1:
        raise ValueError(f"binomial_error: a share in [0, 1] of at least 1 example, got {share} of {n}")
    return math.sqrt(share * (1 - share) / n)


def examples_error(share: float, n: int) -> float:
    """Standard error of a share of n independent examples that is not 0 where all are right, or all wrong.

    Two right and two wrong are added, as in intervals of such shares. Source: Agresti and Coull 1998.
    """
    return binomial_error((share * n + 2) / (n + 4), n + 4)


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
