"""Intervals over seeds and test examples against a slow reference, and on the way through a file of results."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import made_up

from headstart.errors import BadInput, Damaged
from headstart.report.claims import claims_note, verdicts
from headstart.report.tables.scores import differences, note
from headstart.statistics import Difference, difference, p_value
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.answers import RightAnswers, over_examples, read_answers
from headstart.study.results.results import Results
from headstart.study.results.rows import Run, draws_of

STUDY: dict[str, Any] = {
    "name": "answers",
    "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}},
    "columns": {"listops": {"task": {"kind": "listops", "train": 40, "val": 20, "test": 20}}},
    "arms": {"plain": {}, "deep": {"model": {"blocks": 3}}},
    "axes": {"seed": [0, 1, 2, 3, 4, 5]},
    "claims": [{"says": "Deep is better", "higher": "deep", "lower": "plain"}],
    "report": {"baselines": False, "against": "plain"},
}


def table_of(share: float, seeds: int, examples: int, seed: int) -> np.ndarray:
    """(seeds, examples) bool: answers of which hard examples are wrong at nearly all seeds."""
    draw = np.random.default_rng(seed)
    ease = draw.beta(share * 2, (1 - share) * 2, examples)
    return np.asarray(draw.random((seeds, examples)) < ease)


def runs_of(right: np.ndarray) -> tuple[Run, ...]:
    bits = [RightAnswers(len(row), np.packbits(row).tobytes()) for row in right]
    return tuple(
        Run(seed, "complete", (("finetune", "0" * 16),), 0.5, float(row.mean()), {}, {}, answers=each)
        for seed, (row, each) in enumerate(zip(right, bits, strict=True))
    )


def slow_interval(first: np.ndarray, second: np.ndarray, paired: bool, draws: int = 1500) -> tuple[float, float]:
    """Ends of the percentile interval: one seed after another, one example after another."""
    random_, means = random.Random(7), []
    for _ in range(draws):
        examples = [random_.randrange(first.shape[1]) for _ in range(first.shape[1])]
        seeds = [random_.randrange(len(first)) for _ in first]
        others = seeds if paired else [random_.randrange(len(second)) for _ in second]
        sides = []
        for table, chosen in ((first, seeds), (second, others)):
            sides.append(sum(sum(int(table[seed][e]) for e in examples) for seed in chosen) / len(chosen))
        means.append((sides[0] - sides[1]) / len(examples))
    means.sort()
    return means[round(0.025 * (draws - 1))], means[round(0.975 * (draws - 1))]


def gap_of(first: tuple[Run, ...], second: tuple[Run, ...]) -> Difference:
    scores = [{run.seed: run.test or 0.0 for run in runs} for runs in (first, second)]
    gap = over_examples(difference(*scores), draws_of(first), draws_of(second))
    assert gap is not None
    return gap


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_is_that_of_drawing_seeds_and_examples_one_by_one(paired: bool) -> None:
    first, second = table_of(0.8, 4, 60, 1), table_of(0.6, 4, 60, 2)
    runs, others = runs_of(first), runs_of(second)
    if not paired:
        others = tuple(replace(run, seed=run.seed + 100) for run in others)
    gap = gap_of(runs, others)
    assert (gap.sides is None) == paired
    assert gap.both is not None
    slow = slow_interval(first, second, paired)
    width = slow[1] - slow[0]
    assert gap.both == pytest.approx(slow, abs=0.1 * width)


def test_the_wider_of_the_two_intervals_is_the_verdicts() -> None:
    """Equal gains at all seeds from few examples: seeds say clear, the examples do not."""
    second = np.zeros((6, 40), bool)
    second[:, :20] = True
    first = second.copy()
    first[:, 20] = True
    first[0, 21] = True  # else the gain would have no spread at all
    gap = gap_of(runs_of(first), runs_of(second))
    assert gap.over_seeds is not None
    assert gap.over_seeds[0] > 0
    assert gap.both is not None
    assert gap.interval == gap.both
    assert not gap.clear
    alone = p_value(replace(gap, both=None, both_error=0.0))
    assert alone is not None
    assert alone < 0.05 < (p_value(gap) or 0.0)


def test_an_interval_over_seeds_that_is_wider_stays() -> None:
    draw = np.random.default_rng(0)
    first = np.stack([draw.random(2000) < share for share in (0.2, 0.9, 0.5)])
    gap = gap_of(runs_of(first), runs_of(np.zeros((3, 2000), bool)))
    assert gap.both is not None
    assert gap.interval == pytest.approx(gap.over_seeds)


def test_a_gain_that_is_the_same_at_all_seeds_has_the_interval_of_its_examples() -> None:
    second = np.zeros((6, 40), bool)
    first = second.copy()
    first[:, :2] = True
    gap = gap_of(runs_of(first), runs_of(second))
    assert not gap.constant
    assert gap.interval == gap.both
    assert gap.both is not None
    assert gap.both[0] < gap.both[1]


def test_without_the_answers_of_one_run_the_interval_is_over_seeds_alone() -> None:
    first, second = runs_of(table_of(0.8, 4, 60, 1)), runs_of(table_of(0.6, 4, 60, 2))
    gap = gap_of(first, (replace(second[0], answers=None), *second[1:]))
    assert gap.both is None
    assert gap.interval == pytest.approx(gap.over_seeds)


def test_answers_are_read_in_the_order_of_the_examples_and_come_back_from_a_file() -> None:
    output = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], np.float32)
    predictions = {"test/output": output, "test/target": np.array([1, 1, 0]), "test/index": np.array([2, 0, 1])}
    answers = RightAnswers.of(predictions)
    assert answers is not None
    assert answers.right.tolist() == [False, False, True]
    assert RightAnswers.read(answers.document(), "stages.x") == answers
    assert answers.are_of(1 / 3)
    assert not answers.are_of(0.5)
    assert RightAnswers.of({**predictions, "test/target": np.array([1.0, 1.0, 0.0])}) is None
    assert RightAnswers.of({"test/output": output}) is None


@pytest.mark.parametrize("right", ["AAAA", "no base 64"])
def test_answers_of_another_number_of_examples_are_refused(right: str) -> None:
    with pytest.raises(BadInput, match=r"stages\.x\.answers\.right: .*write the file again"):
        RightAnswers.read({"count": 3, "right": right}, "stages.x")


def test_damaged_predictions_leave_the_interval_over_seeds() -> None:
    def lost(identity: str) -> dict[str, Any]:
        raise Damaged(identity)

    assert read_answers(lost)("0" * 16) is None


def planned() -> tuple[Plan, dict[str, Any], dict[str, RightAnswers]]:
    """Six seeds, of which each answers two or three more of 40 examples with three blocks than with one."""
    plan = make_plan(read_study(STUDY), Path("nowhere"))
    scores, answers = {}, {}
    for cell in plan.cells:
        lead = 2 + (cell.seed % 3 == 0) if cell.arm == "deep" else 0
        right = np.arange(40) < 20 + cell.seed % 2 + lead + (cell.seed == 5)
        identity = cell.chain[-1].identity
        scores[identity] = made_up.result(identity, float(right.mean()), float(right.mean()))
        answers[identity] = RightAnswers(40, np.packbits(right).tobytes())
    return plan, scores, answers


def test_a_study_of_one_kind_of_machine_judges_no_claim_over_two() -> None:
    table = {**STUDY, "report": {**STUDY["report"], "one_machine": True}}
    plan = make_plan(read_study(table), Path("nowhere"))
    results = []
    for other in ("a CPU", "a GPU"):
        scores = {}
        for cell in plan.cells:
            identity, deep = cell.chain[-1].identity, cell.arm == "deep"
            scores[identity] = made_up.result(identity, 0.5 + 0.1 * deep, 0.5 + 0.1 * deep + 0.01 * cell.seed * deep)
            scores[identity]["provenance"] = {"machine": other if deep else "a CPU"}
        results.append(summarise(plan, scores.get))
    ((alike,), (apart,)) = [verdicts(each, None)[0].parts for each in results]
    assert alike.outcome == "holds"
    assert apart.outcome == "not measured"
    assert apart.why == "its arms on different kinds of machines, and the study asks for one"


def results_of(counted: bool) -> Results:
    plan, scores, answers = planned()
    return summarise(plan, scores.get, answers=answers.get if counted else None)


def test_the_page_says_what_its_intervals_are_of() -> None:
    both, alone = results_of(True), results_of(False)
    kind = "95 % interval (the wider of a t-interval over seeds and a bootstrap of seeds and test examples)"
    for results, text in ((both, kind), (alone, "95 % t-interval over seeds alone")):
        assert f"with a {text} in brackets" in note(results)
        assert f"each with its own {text}" in claims_note(verdicts(results, None))
    counted, left = (differences(results) for results in (both, alone))
    assert counted is not None
    assert left is not None
    assert counted.lines[0].cells["over seeds and examples"].text.startswith("[")
    assert left.lines[0].cells["over seeds and examples"].text == "—"
    assert any("the draw of the test examples too" in caveat.text for caveat in both.caveats)


def test_a_verdict_uses_the_wider_interval() -> None:
    ((part,),) = [verdict.parts for verdict in verdicts(results_of(False), None)]
    assert part.outcome == "holds"
    (verdict,) = verdicts(results_of(True), None)
    assert verdict.parts[0].outcome == "undecided"
    (column,) = verdict.document()["columns"]
    assert column["interval"] == column["intervals"]["seeds_and_examples"]
    assert column["intervals"]["paired"][0] > 0
