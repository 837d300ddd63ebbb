"""The statistics against scipy and against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from headstart.statistics import (
    FEWEST_PAIRS,
    POWER,
    Difference,
    binomial_error,
    corrected,
    detectable,
    difference,
    estimate,
    examples_error,
    holm,
    mean,
    mean_ranks,
    p_value,
    paired_difference,
    ranks,
    seeds_to_halve,
    smallest_p,
    spread,
    standard_error,
    t_quantile,
    unpaired_difference,
    with_examples,
)

FIRST = dict(enumerate([0.44, 0.46, 0.41, 0.47, 0.43]))
SECOND = dict(enumerate([0.31, 0.28, 0.33, 0.35, 0.30]))
OTHERS = {7: 0.31, 8: 0.28, 9: 0.39}
"""Runs of other seeds than those of `FIRST`."""


def test_the_mean_and_standard_error_of_a_hand_worked_sample() -> None:
    result = estimate([1.0, 2.0, 3.0, 6.0])
    assert result is not None
    assert (result.mean, result.n, result.values) == (3.0, 4, (1.0, 2.0, 3.0, 6.0))
    # Squares of deviations: 4 + 1 + 0 + 9 = 14; sd = sqrt(14 / 3); over the root of 4.
    assert result.sem == pytest.approx(math.sqrt(14 / 3) / 2, rel=1e-15)


def test_the_standard_error_equals_scipys() -> None:
    from scipy import stats

    values = np.random.default_rng(0).normal(size=9)
    assert standard_error(list(values)) == pytest.approx(float(stats.sem(values)), rel=1e-13)
    assert spread(list(values)) == pytest.approx(float(np.std(values, ddof=1)), rel=1e-13)


def test_one_value_has_no_standard_error_rather_than_one_of_zero() -> None:
    result = estimate([0.5])
    assert result is not None
    assert result.sem is None
    assert standard_error([]) is None


def test_no_values_have_no_estimate_and_no_mean() -> None:
    assert estimate([]) is None
    with pytest.raises(ValueError, match="no values"):
        mean([])


def test_a_paired_interval_equals_scipys_interval_of_the_differences() -> None:
    from scipy import stats

    first = dict(enumerate([0.44, 0.46, 0.41, 0.47, 0.43]))
    second = dict(enumerate([0.31, 0.28, 0.33, 0.35, 0.30]))
    result = paired_difference(first, second)
    wanted = stats.ttest_rel(list(first.values()), list(second.values())).confidence_interval(0.95)
    assert result is not None
    assert (result.low, result.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
    assert result.n == 5
    assert result.clear


def test_pairs_are_made_by_seed_and_not_by_place() -> None:
    first = {0: 1.0, 1: 2.0, 2: 9.0}
    second = {3: 100.0, 1: 1.5, 0: 0.5}
    result = paired_difference(first, second)
    assert result is not None
    assert (result.mean, result.n, result.interval) == (0.5, 2, (0.5, 0.5))


def test_one_pair_has_a_difference_without_an_interval_and_no_pair_has_none() -> None:
    result = paired_difference({0: 0.5}, {0: 0.25})
    assert result is not None
    assert (result.mean, result.sem, result.interval, result.clear) == (0.25, None, None, False)
    assert paired_difference({0: 0.5}, {1: 0.25}) is None


def test_the_p_value_is_that_of_scipys_paired_test() -> None:
    first, second = {0: 0.5, 1: 0.7, 2: 0.4}, {0: 0.4, 1: 0.65, 2: 0.39}
    gap = paired_difference(first, second)
    assert gap is not None
    expected = stats.ttest_rel(list(first.values()), list(second.values())).pvalue
    assert p_value(gap) == pytest.approx(expected)
    assert p_value(Difference(0.1, None, None, None, 1)) is None
    assert [p_value(Difference(mean, 0.0, mean, mean, 3)) for mean in (0.1, 0.0)] == [0.0, 1.0]


def test_an_unpaired_interval_and_its_p_value_are_those_of_welchs_test_in_scipy() -> None:
    expected = stats.ttest_ind(list(FIRST.values()), list(OTHERS.values()), equal_var=False)
    gap, ends = unpaired_difference(FIRST, OTHERS), expected.confidence_interval(0.95)
    assert gap is not None
    assert (gap.low, gap.high) == pytest.approx((ends.low, ends.high), rel=1e-12)
    assert gap.error()[1] == pytest.approx(expected.df, rel=1e-12)
    assert p_value(gap) == pytest.approx(expected.pvalue, rel=1e-9)
    assert unpaired_difference(FIRST, {7: 0.3}) is None
    least = unpaired_difference({0: 0.0, 1: 1e-160}, {2: 0.0, 3: 3e-160, 4: 1e-160})
    assert least is not None
    assert 1 <= least.error()[1] <= 3


def test_arms_are_paired_where_they_share_two_seeds_whatever_their_scores() -> None:
    shared, apart = difference(FIRST, SECOND), difference(FIRST, OTHERS)
    assert FEWEST_PAIRS == 2
    assert shared == paired_difference(FIRST, SECOND)
    assert apart == unpaired_difference(FIRST, OTHERS)
    assert shared is not None
    assert apart is not None
    assert shared.sides is None
    assert shared.other == unpaired_difference(FIRST, SECOND)
    assert apart.other is None
    single = difference(FIRST, {4: 0.3, 9: 0.2})
    assert single is not None
    assert single.sides is not None
    assert single.other == paired_difference(FIRST, {4: 0.3})
    for scores in itertools.permutations(SECOND.values()):
        turned = difference(FIRST, dict(zip(SECOND, scores, strict=True)))
        assert turned is not None
        assert turned.sides is None
    # A deterministic arm has one run: it can be paired with the one seed that it shares, without an interval.
    assert difference(FIRST, {0: 0.3}) == paired_difference(FIRST, {0: 0.3})
    assert difference(FIRST, {9: 0.3}) is None


@pytest.mark.parametrize("n", [2, 3, 6, 20])
def test_a_detectable_difference_is_shown_in_four_of_five_simulated_runs(n: int) -> None:
    gap = paired_difference(dict.fromkeys(range(n), 0.0) | {0: 1.0, 1: -1.0}, dict.fromkeys(range(n), 0.0))
    least = detectable(gap)
    assert gap is not None
    assert gap.sem is not None
    assert least is not None
    # In standard deviations of a run; t-tests of many repetitions in which the true difference is this large.
    true = least / (gap.sem * math.sqrt(n))
    runs = np.random.default_rng(n).normal(true, 1.0, (40_000, n))
    rejected = stats.ttest_1samp(runs, 0.0, axis=1).pvalue < 0.05
    assert rejected.mean() == pytest.approx(POWER, abs=0.01)


def test_a_detectable_difference_of_unpaired_arms_is_that_of_a_simulated_welch_test() -> None:
    gap = unpaired_difference({i: (-1.0) ** i for i in range(8)}, {i: 2 * (-1.0) ** i for i in range(6)})
    least = detectable(gap)
    assert gap is not None
    assert gap.sides is not None
    assert least is not None
    generator = np.random.default_rng(0)
    first, second = (side.sem * math.sqrt(side.n) for side in gap.sides if side.sem is not None)
    arms = generator.normal(least, first, (40_000, 8)), generator.normal(0.0, second, (40_000, 6))
    rejected = stats.ttest_ind(*arms, axis=1, equal_var=False).pvalue < 0.05
    assert rejected.mean() == pytest.approx(POWER, abs=0.015)


def test_one_pair_could_have_detected_nothing() -> None:
    assert detectable(paired_difference({0: 0.5}, {0: 0.25})) is None
    assert detectable(None) is None


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_the_smallest_p_of_pairs_is_that_of_flipping_every_sign_by_brute_force(n: int) -> None:
    gaps = [0.1 + 0.01 * i for i in range(n)]
    sums = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in itertools.product((1, -1), repeat=n)]
    brute = sum(value >= sum(gaps) - 1e-12 for value in sums) / len(sums)
    gap = paired_difference(dict(enumerate(gaps)), dict.fromkeys(range(n), 0.0))
    assert gap is not None
    assert smallest_p(gap) == brute
    assert (brute < 0.05) == (n >= 6)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (3, 3), (4, 2), (5, 3)])
def test_the_smallest_p_of_unpaired_runs_is_that_of_every_deal_by_brute_force(first: int, second: int) -> None:
    scores = [1.0 + 0.01 * i for i in range(first)] + [0.01 * i for i in range(second)]
    deals = [sum(scores[i] for i in deal) / first for deal in itertools.combinations(range(first + second), first)]
    gaps = [abs(mean - (sum(scores) - first * mean) / second) for mean in deals]
    brute = sum(value >= gaps[0] - 1e-12 for value in gaps) / len(gaps)
    gap = unpaired_difference(dict(enumerate(scores[:first])), dict(enumerate(scores[first:])))
    assert gap is not None
    assert smallest_p(gap) == pytest.approx(brute)


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_so_many_more_seeds_halve_the_interval_and_one_fewer_does_not(n: int) -> None:
    gap = paired_difference({i: (-1.0) ** i for i in range(n)}, dict.fromkeys(range(n), 0.0))
    assert gap is not None
    assert gap.sem is not None
    more, sd = seeds_to_halve(gap), gap.sem * math.sqrt(n)
    assert more is not None

    def width(size: int) -> float:
        return float(stats.t.ppf(0.975, size - 1)) * sd / math.sqrt(size)

    assert width(n + more) <= width(n) / 2 < width(n + more - 1)


def test_more_unpaired_seeds_halve_the_interval_of_welchs_test() -> None:
    spreads = (0.1, 0.3)
    first, second = ({i: spread * (-1.0) ** i for i in range(4)} for spread in spreads)
    gap = unpaired_difference(first, second)
    assert gap is not None
    assert gap.sides is not None
    more, deviations = seeds_to_halve(gap), [(side.sem or 0.0) * math.sqrt(side.n) for side in gap.sides]

    def width(size: int) -> float:
        parts = [sd**2 / size for sd in deviations]
        freedom = sum(parts) ** 2 / sum(part**2 / (size - 1) for part in parts)
        return float(stats.t.ppf(0.975, freedom)) * math.sqrt(sum(parts))

    assert more is not None
    assert width(4 + more) <= width(4) / 2 < width(4 + more - 1)


def test_an_interval_without_width_cannot_be_halved() -> None:
    assert seeds_to_halve(Difference(0.1, 0.0, 0.1, 0.1, 3)) is None
    assert seeds_to_halve(Difference(0.1, None, None, None, 1)) is None


def test_differences_are_corrected_for_those_of_them_that_have_a_p_value() -> None:
    gaps = {"a": paired_difference(FIRST, SECOND), "b": None, "c": paired_difference({0: 0.5}, {0: 0.25})}
    assert gaps["a"] is not None
    assert corrected(gaps) == {"a": p_value(gaps["a"])}
    twice = corrected(gaps | {"d": gaps["a"]})
    assert twice["a"] == pytest.approx(2 * (p_value(gaps["a"]) or 0.0))


def test_holms_correction_is_that_of_its_definition() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_an_interval_that_holds_zero_is_not_clear() -> None:
    result = paired_difference({0: 0.1, 1: -0.1, 2: 0.2}, {0: 0.0, 1: 0.0, 2: 0.0})
    assert result is not None
    assert not result.clear


@pytest.mark.parametrize(("freedom", "tabled"), [(1, 12.7062), (4, 2.7764), (30, 2.0423)])
def test_t_quantiles_are_those_of_the_tables(freedom: int, tabled: float) -> None:
    assert t_quantile(freedom) == pytest.approx(tabled, abs=5e-5)


def test_the_error_of_a_test_set_is_binomial() -> None:
    assert binomial_error(0.5, 100) == pytest.approx(0.05)
    assert binomial_error(0.0, 7) == 0.0
    for share, n in ((1.1, 10), (-0.1, 10), (0.5, 0)):
        with pytest.raises(ValueError, match="share"):
            binomial_error(share, n)


def test_the_draw_of_examples_widens_an_interval_and_no_seed_narrows_it() -> None:
    gap = paired_difference({0: 0.01, 1: 0.02, 2: 0.03}, dict.fromkeys(range(3), 0.0))
    assert gap is not None
    assert gap.sem is not None
    wide = with_examples(gap, 0.02)
    assert wide.sem == pytest.approx(math.hypot(gap.sem, 0.02))
    # Satterthwaite: only the seeds' part has few degrees of freedom.
    assert wide.error()[1] == pytest.approx(2 * wide.sem**4 / gap.sem**4)
    assert wide.error(10**9)[0] == pytest.approx(0.02)
    assert seeds_to_halve(wide) is None
    alone = with_examples(Difference(0.05, 0.0, 0.05, 0.05, 6), 0.01)
    assert alone.interval == pytest.approx((0.05 - 1.96 * 0.01, 0.05 + 1.96 * 0.01), abs=1e-5)
    assert with_examples(Difference(0.05, None, None, None, 1), 0.01).interval is None


def test_an_error_of_examples_is_not_zero_where_all_are_right() -> None:
    assert examples_error(0.5, 10**6) == pytest.approx(0.0005, rel=1e-4)
    # At 95 % nearly the exact bound: 1 - 0.025^(1/500) = 0.0074 below 1.
    assert 0.005 < 1.96 * examples_error(1.0, 500) < 0.0074


def test_ranks_equal_scipys_with_ties_shared() -> None:
    from scipy import stats

    values = [0.3, 0.9, 0.3, 0.1, 0.9, 0.9]
    assert ranks(values) == list(stats.rankdata([-v for v in values]))
    assert ranks(values, greater=False) == list(stats.rankdata(values))


def test_mean_ranks_use_only_columns_that_every_arm_has() -> None:
    table = {"a": {"x": 0.9, "y": 0.1, "z": 0.0}, "b": {"x": 0.5, "y": 0.2}}
    assert mean_ranks(table) == {"a": 1.5, "b": 1.5}
    assert mean_ranks(table, {"y": False}) == {"a": 1.0, "b": 2.0}
    assert mean_ranks({"a": {"x": 1.0}, "b": {}}) == {}
    assert mean_ranks({}) == {}


def test_the_module_needs_neither_torch_nor_scipy_to_be_imported() -> None:
    code = "import sys, headstart.statistics; print(sorted({'torch', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
