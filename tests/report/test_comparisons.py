"""A page with several comparisons counts them: Holm's correction of differences and of verdicts."""

from pathlib import Path
from typing import Any

from support import made_up

from headstart.report.answer import answer
from headstart.report.claims import claims_note, verdicts
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.collect import task_key
from headstart.study.results.results import Results, TaskFacts

CLAIM = {"says": "Deep is better", "higher": "deep", "lower": "plain"}
STUDY: dict[str, Any] = {
    "name": "comparisons",
    "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}},
    "columns": {"listops": {"task": {"kind": "listops", "train": 40, "val": 20, "test": 20}}},
    "arms": {"plain": {}, "deep": {"model": {"blocks": 3}}},
    "axes": {"model.width": [16, 32, 128], "seed": [0, 1, 2]},
    "claims": [CLAIM],
    "report": {"baselines": False, "against": "plain"},
}


def compared(widths: list[int]) -> Results:
    """500 test examples; deep is 0.1 better: for sure at width 16; at the others p is 0.03, by the spread over seeds."""
    plan = make_plan(read_study({**STUDY, "axes": {"model.width": widths, "seed": [0, 1, 2]}}), Path("nowhere"))
    scores = {}
    for cell in plan.cells:
        width = cell.chain[-1].spec.model.width
        spread = 0.001 if width == 16 else 0.0307
        score = 0.5 + width / 1000 + (0.0 if cell.arm == "plain" else 0.1 + (cell.seed - 1) * spread)
        scores[cell.chain[-1].identity] = made_up.result(cell.chain[-1].identity, score, score)
    facts = TaskFacts("listops", {"test": 500})
    return summarise(plan, scores.get, facts={task_key(plan.cells[0].chain[-1].spec): facts})


def test_differences_that_are_clear_by_themselves_alone_are_listed() -> None:
    (text,) = [caveat.text for caveat in compared([16, 32, 128]).caveats if caveat.kind == "comparisons"]
    assert text.startswith("After Holm's correction for 3 comparisons with plain, 1 of the 3 intervals without 0 still")
    assert text.endswith(
        "undecided then: deep on listops width=32 (p = 0.06) and deep on listops width=128 (p = 0.06). "
        "No permutation test over so few runs reaches p below 0.25."
    )


def test_columns_with_one_size_of_test_set_share_a_caveat() -> None:
    results = compared([16, 32, 128])
    texts = [caveat for caveat in results.caveats if caveat.kind == "test set"]
    assert [caveat.where for caveat in texts] == [()]
    assert "is 0.022, 0.022 and 0.020 at the best" in texts[0].text


def test_caveats_of_several_columns_that_differ_in_numbers_are_one() -> None:
    results = compared([16, 32, 128, 129, 130, 131])
    (edge,) = [caveat for caveat in results.caveats if caveat.kind == "test set"]
    assert "500 examples" in edge.text
    assert "is 0.020 to 0.022 at the best" in edge.text
    assert not edge.where


def test_a_single_comparison_needs_no_correction() -> None:
    results = compared([32])
    assert not [caveat for caveat in results.caveats if caveat.kind == "comparisons"]
    ((part,),) = [verdict.parts for verdict in verdicts(results, None)]
    assert part.outcome == "holds"


def test_verdicts_of_one_page_are_corrected_for_their_number() -> None:
    (verdict,) = verdicts(compared([16, 32, 128]), None)
    assert [part.outcome for part in verdict.parts] == ["holds", "undecided", "undecided"]
    assert [part.uncorrected for part in verdict.parts] == [None, "holds", "holds"]
    why = "clear alone, but not among 3 verdicts (Holm's correction, p = 0.06; no permutation test over so few runs reaches"
    assert f"{why} p below 0.25)" in str(verdict)
    assert "each with its own 95 % t-interval" in claims_note([verdict])
    assert "stands Holm's correction for the number of verdicts" in claims_note([verdict])


def test_the_answer_is_about_the_arm_that_leads_beside_the_one_it_is_held_against() -> None:
    """`wide` leads in one column of three; `plain` leads in the others, where `deep` comes next."""
    arms = {"plain": {}, "wide": {"model": {"blocks": 5}}, "deep": {"model": {"blocks": 3}}}
    plan = make_plan(read_study({**STUDY, "arms": arms, "claims": []}), Path("nowhere"))
    scores = {}
    for cell in plan.cells:
        first = cell.chain[-1].spec.model.width == 16
        score = {"plain": 0.8, "wide": 0.9 if first else 0.3, "deep": 0.7}[cell.arm]
        score += cell.seed / (2000 if cell.arm == "deep" else 1000)
        scores[cell.chain[-1].identity] = made_up.result(cell.chain[-1].identity, score, score)
    assert answer(summarise(plan, scores.get)).startswith("deep is ")
