"""How well the stages that others start from learnt is said beside a table, from its results alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.made_up import make_plan, result, shelf

from headstart.study.paper.snapshot import read_snapshot
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results

PAGES = Path(__file__).parents[2] / "docs" / "results"


def learnt(results: Results) -> list[str]:
    return [str(caveat) for caveat in results.caveats if caveat.kind == "parents"]


def test_each_parent_is_said_with_its_mean_validation_score_and_that_of_a_blind_answer() -> None:
    plan = make_plan(arms={"scratch": False, "a": True, "b": True}, columns={"x": "digits", "y": "mnist"})
    stored = shelf(plan)
    parents = {cell.column: cell.chain[0].identity for cell in plan.cells if len(cell.chain) > 1 and cell.seed == 0}
    stored.results[parents["y"]] = result(parents["y"], 0.5, 0.5, metric="r2")
    assert learnt(summarise(plan, stored.find)) == [
        "x: Stage pretrain, from which a and b start, was trained on digits: validation R² 0.400 ± 0.000 (5 seeds); the "
        "mean has 0.",
        "y: Stage pretrain, from which a and b start, was trained on mnist: validation R² 0.420 ± 0.020 (5 seeds); the "
        "mean has 0.",
    ]
    alone = make_plan(arms={"scratch": False})
    assert not learnt(summarise(alone, shelf(alone).find))


def test_stages_of_one_name_that_differ_by_arm_are_said_in_one_line_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(arms={"scratch": False, "a": True, "b": True}, columns={"x": "digits"})
    stored = shelf(plan)
    identities = tuple(dict.fromkeys(cell.chain[0].identity for cell in plan.cells if cell.arm == "a"))
    each = [("x", "pretrain", identities, [arm]) for arm in ("a", "b")]
    monkeypatch.setattr("headstart.study.paper.learnt._parents", lambda _: iter(each))
    assert learnt(summarise(plan, stored.find)) == [
        "Stage pretrain, another one for each of these arms, was trained on digits: validation R² 0.400 ± 0.000 (a) and "
        "0.400 ± 0.000 (b) (5 seeds each); the mean has 0."
    ]
    for identity in identities:
        stored.results[identity] = result(identity, 0.0, 0.0, metric="r2")
    (text,) = [str(caveat) for caveat in summarise(plan, stored.find).caveats if caveat.kind == "pretraining"]
    assert text.startswith("a (R² 0.000) and b (R² 0.000): stage pretrain learnt next to nothing. On validation it")


def test_a_parent_without_a_score_is_passed_over() -> None:
    plan = make_plan()
    stored = shelf(plan)
    for identity in {cell.chain[0].identity for cell in plan.cells if len(cell.chain) > 1}:
        stored.results[identity] = result(identity, None, None, metric="r2")
    assert not learnt(summarise(plan, stored.find))


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (
            "seeds/lu-2-unscaled",
            [
                "Stage language, from which fpt starts, was trained on text: 2.472 ± 0.015 bits per token on validation "
                "(6 seeds).",
                "Stage bits, from which bit starts, was trained on bit_memory: validation accuracy 0.867 ± 0.000 "
                "(6 seeds); a guess has 0.500.",
                "xor, mnist: Stage pictures, from which vit starts, was trained on cifar_patches: validation accuracy "
                "0.456 ± 0.003 (6 seeds); a guess has 0.100.",
                "cifar10: Stage pictures, from which vit starts, was trained on mnist: validation accuracy "
                "0.931 ± 0.002 (6 seeds); a guess has 0.100.",
            ],
        ),
        ("mqar", []),
    ],
)
def test_a_file_of_results_alone_says_how_well_its_parents_learnt(page: str, lines: list[str]) -> None:
    assert learnt(read_snapshot([PAGES / f"{page}.json"]).results()) == lines
