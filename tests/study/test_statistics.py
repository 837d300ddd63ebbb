"""The statistics against scipy and against numbers worked out by hand."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from headstart.study.statistics import (
    Difference,
    binomial_error,
    estimate,
    holm,
    mean,
    mean_ranks,
    p_value,
    paired_difference,
    ranks,
    spread,
    standard_error,
    t_quantile,
)


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
    code = "import sys, headstart.study.statistics; print(sorted({'torch', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
