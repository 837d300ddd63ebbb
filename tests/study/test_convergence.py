"""Steps to a score and to convergence, against slow and obvious references."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.made_up import LR, Plan, make_plan, shelf

from headstart.errors import Damaged
from headstart.study.paper.summary import summarise
from headstart.study.results.collect import converged_at, curve, first_at, mean_curve
from headstart.study.results.results import Results
from headstart.study.results.rows import Match


def line(scores: list[float | None], metric: str = "accuracy", every: int = 10) -> list[dict[str, Any]]:
    """Records with these validation scores, one every so many steps."""
    return [
        {"step": every * (i + 1), "epoch": float(i), "train": {"loss": 1.0}, "val": {"loss": 9.0, metric: score}}
        for i, score in enumerate(scores)
    ]


def slow_reach(scores: list[float], target: float, greater: bool, every: int = 10) -> int | None:
    for index in range(len(scores)):
        if (greater and scores[index] >= target) or (not greater and scores[index] <= target):
            return every * (index + 1)
    return None


def slow_converge(scores: list[float], greater: bool) -> int:
    best = sorted(scores)[-1 if greater else 0]
    gaps = [best - score if greater else score - best for score in scores]
    near = [index for index, gap in enumerate(gaps) if gap <= 0.01 * abs(best)]
    return 10 * (near[0] + 1)


@pytest.mark.parametrize("greater", [True, False])
def test_steps_agree_with_a_slow_reference_on_random_curves(greater: bool) -> None:
    drawn = random.Random(7)
    reached = 0
    for _ in range(200):
        scores = [round(drawn.uniform(-1, 1), 2) for _ in range(drawn.randint(1, 12))]
        target = round(drawn.uniform(-1, 1), 2)
        records = line(list(scores))
        reached += slow_reach(scores, target, greater) is not None
        assert first_at(curve(records, "accuracy"), target, greater) == slow_reach(scores, target, greater)
        assert converged_at(curve(records, "accuracy"), greater) == slow_converge(scores, greater)
    assert 20 < reached < 200


def test_the_first_evaluation_that_is_as_good_as_the_target_counts_even_if_the_curve_falls_again() -> None:
    records = line([0.1, 0.5, 0.2, 0.9])
    assert first_at(curve(records, "accuracy"), 0.5, True) == 20
    assert first_at(curve(records, "accuracy"), 0.91, True) is None


def test_converged_means_within_one_percent_of_the_best_whenever_that_comes() -> None:
    assert converged_at(curve(line([0.5, 0.791, 0.793, 0.8]), "accuracy"), True) == 30
    assert converged_at(curve(line([0.5, 0.791, 0.793, 0.8]), "accuracy"), True, within=0.02) == 20
    # Of a best R2 below 0 the share is taken of its size, so that the best itself always counts.
    assert converged_at(curve(line([-2.0, -1.005, -1.0], "r2"), "r2"), True) == 20
    assert converged_at(curve(line([2.0, 1.005, 1.0], "loss"), "loss"), False) == 20


def test_an_evaluation_without_a_number_is_passed_over_and_a_run_without_any_has_no_steps() -> None:
    records = [*line([None, float("nan"), 0.5]), {"step": 40, "epoch": 4.0, "train": {"loss": None}}]
    assert curve(records, "accuracy") == {30: 0.5}
    assert curve(line([None]), "accuracy") == {}
    assert first_at({}, 0.0, True) is None
    with pytest.raises(ValueError, match="empty"):
        converged_at({}, True)


def test_a_mean_curve_stands_where_every_run_was_evaluated() -> None:
    assert mean_curve([{10: 0.1, 20: 0.3}, {10: 0.3, 20: 0.5, 30: 1.0}]) == pytest.approx({10: 0.2, 20: 0.4})
    assert mean_curve([]) == {}


# ---------------------------------------------------------------- in the rows of a study

CURVES = {"scratch": [[0.1, 0.3, 0.4], [0.1, 0.1, 0.6]], "self_pretrained": [[0.2, 0.5, 0.5], [0.2, 0.4, 0.45]]}


def paced(match: str | None = "scratch") -> tuple[Plan, Results]:
    plan = make_plan(rates=(1e-3,), seeds=(0, 1), match=match)
    records = {cell.chain[-1].identity: line(list(CURVES[cell.arm][cell.seed])) for cell in plan.cells}
    return plan, summarise(plan, shelf(plan).find, records=lambda identity: records.get(identity, []))


def test_the_mean_curve_is_held_against_the_best_mean_and_the_seeds_against_it_by_themselves() -> None:
    scratch, pretrained = paced()[1].table
    assert pretrained.pace is not None
    assert pretrained.pace.reach is not None
    # The mean of scratch is best at step 30: (0.4 + 0.6) / 2. The mean of the other is at most 0.475.
    assert pretrained.pace.reach == Match(pytest.approx(0.5), {0: 20}, None)
    assert pretrained.pace.seeds == 2
    assert pretrained.estimate("reach") is not None
    assert (pretrained.estimate("reach").mean, pretrained.estimate("reach").sem, pretrained.estimate("reach").n) == (
        20.0,
        None,
        1,
    )
    assert scratch.match() == Match(pytest.approx(0.5), {1: 30}, 30)
    assert scratch.estimate("converge") is not None
    assert (scratch.estimate("converge").mean, scratch.estimate("converge").n) == (30.0, 2)
    assert pretrained.by_seed("converge") == {0: 20.0, 1: 30.0}


def test_the_arm_that_is_matched_may_be_reached_sooner_by_another() -> None:
    scratch, pretrained = paced("self_pretrained")[1].table
    here, there = scratch.match(), pretrained.match()
    assert here is not None
    assert there is not None
    assert there.target == pytest.approx(0.475)
    assert (here.together, there.together) == (30, 30)
    assert scratch.document()["reach"] == 30
    assert scratch.document()["converge"] == 30.0


def test_without_an_arm_to_match_there_is_convergence_alone_and_without_records_neither() -> None:
    plan, results = paced(None)
    assert results.table[0].estimate("reach") is None
    assert results.table[0].estimate("converge") is not None
    assert results.table[0].pace is not None
    assert results.table[0].match() is None
    bare = summarise(plan, shelf(plan).find)
    assert all(row.pace is None and row.estimate("converge") is None for row in bare.table)


def test_damaged_records_cost_the_steps_and_nothing_else() -> None:
    def damaged(_: str) -> list[dict[str, Any]]:
        raise Damaged("records.jsonl: not readable")

    plan = make_plan(match="scratch")
    results = summarise(plan, shelf(plan).find, records=damaged)
    assert all(row.pace is None and row.test is not None for row in results.table)


def test_only_the_records_of_the_chosen_settings_are_read() -> None:
    plan = make_plan()
    asked: list[str] = []

    def records(identity: str) -> list[dict[str, Any]]:
        asked.append(identity)
        return line([0.1])

    results = summarise(plan, shelf(plan).find, records=records)
    chosen = {cell.chain[-1].identity for cell in plan.cells if cell.settings[LR] == 3e-3}
    assert set(asked) == chosen
    assert all(row.pace for row in results.table)


def test_the_report_says_how_steps_to_match_were_read() -> None:
    texts = [str(c) for c in paced()[1].caveats if c.kind == "steps"]
    assert len(texts) == 1
    assert "test is not read" in texts[0]
    assert not [c for c in paced(None)[1].caveats if c.kind == "steps"]
