"""The pooled question over sets: each set counts once, and its seeds alone are drawn anew."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from headstart.statistics import Difference, paired_difference
from headstart.study.paper.compare import Gain, over_sets, over_sets_line
from headstart.study.results.answers import stratified

SETS = {
    "one": [[0.1, 0.2, 0.15, 0.05], [0.0, 0.1, 0.2, 0.0]],
    "two": [[-0.1, -0.05, -0.2]],
    "three": [[0.02, 0.02, 0.02]],
}


def slow(draws: int = 4000) -> tuple[float, float]:
    """Ends of the interval, one seed after another: the columns of a set share the seeds that are drawn."""
    dice, means = random.Random(3), []
    for _ in range(draws):
        of_sets = []
        for columns in SETS.values():
            seeds = [dice.randrange(len(columns[0])) for _ in columns[0]]
            of_columns = [sum(column[seed] for seed in seeds) / len(seeds) for column in columns]
            of_sets.append(sum(of_columns) / len(of_columns))
        means.append(sum(of_sets) / len(of_sets))
    means.sort()
    return means[round(0.025 * (draws - 1))], means[round(0.975 * (draws - 1))]


def test_the_interval_over_sets_is_that_of_drawing_the_seeds_of_each_set_one_by_one() -> None:
    gap = stratified({name: [np.array(columns)] for name, columns in SETS.items()})
    assert gap.mean == pytest.approx((0.1 - 0.35 / 3 + 0.02) / 3)
    assert gap.n == 3
    assert gap.interval == pytest.approx(slow(), abs=0.006)


def test_a_set_with_many_columns_counts_once() -> None:
    few = stratified({"a": [np.full((1, 4), 0.1)], "b": [np.full((1, 4), 0.3)]})
    many = stratified({"a": [np.full((20, 4), 0.1)], "b": [np.full((1, 4), 0.3)]})
    assert few.mean == pytest.approx(0.2)
    assert many.mean == pytest.approx(0.2)
    with pytest.raises(ValueError, match="no sets"):
        stratified({})


def test_pooled_gains_say_what_they_come_to_over_sets() -> None:
    gap = paired_difference({0: 0.5, 1: 0.52, 2: 0.5}, {0: 0.4, 1: 0.4, 2: 0.4})
    assert gap is not None

    def gain(data: str, number: int, difference: Difference) -> Gain:
        pairs = frozenset((f"p{number}{seed}", f"s{number}{seed}") for seed in range(3))
        scores = {0: 0.1, 1: 0.12, 2: 0.1}
        return Gain("s", "a", data, data, "accuracy", 8, 10, 100, difference, pairs, scores)

    every = [gain("mnist", 0, gap), gain("image", 1, gap), gain("image", 1, gap)]
    whole = over_sets(every)
    assert whole is not None
    assert whole.n == 2
    assert whole.clear
    assert over_sets_line(whole).startswith("Over 2 sets of data, each counted once, the gain in accuracy is +0.107 [")
    assert "stratified by set" in over_sets_line(whole)
    assert over_sets([replace(every[0], by_seed={})]) is None
    assert over_sets_line(None) == ""
