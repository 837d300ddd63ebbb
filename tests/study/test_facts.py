"""What is known of a task without a model, and the baselines that a plan sets beside its arms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.finished import study
from support.made_tasks import MadeSpec

import headstart
from headstart.api import Study
from headstart.report.tables.scores import make_table
from headstart.sequence import IGNORE
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.results.collect import gather, of_task
from headstart.tasks.recall import SelectiveCopyingSpec
from headstart.tasks.task import open_task

NOWHERE = Path("nowhere")


def planned(tmp_path: Path, **more: Any) -> Plan:
    return make_plan(read_study(study(**more)), tmp_path)


def test_sizes_count_units_and_labels_and_chance_is_that_of_the_target() -> None:
    facts = of_task("made up", open_task(MadeSpec(shape="pairs"), NOWHERE))
    assert set(facts.sizes) == {"train", "val", "test", "labelled"}
    assert facts.sizes["test"] == open_task(MadeSpec(shape="pairs"), NOWHERE).test.units
    assert facts.chance == {"accuracy": 0.5}
    assert facts.tested == facts.sizes["test"], "a target of each unit"
    assert of_task("made up", open_task(MadeSpec(shape="numbers"), NOWHERE)).chance == {"r2": 0.0}
    assert of_task("made up", open_task(MadeSpec(), NOWHERE), scored=False).chance == {}


def test_targets_of_positions_are_counted_where_they_are_there() -> None:
    task = open_task(SelectiveCopyingSpec(train=4, val=4, test=6), NOWHERE)
    facts = of_task("selective_copying", task)
    assert task.test.target is not None
    assert facts.tested == facts.positions == (task.test.target != IGNORE).sum() > facts.sizes["test"] == 6


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_an_objective_without_a_target_counts_the_positions_that_it_scores(kind: str) -> None:
    task = {"kind": "listops", "train": 30, "val": 10, "test": 20, "min_length": 40, "max_length": 60}
    model = {"width": 8, "blocks": 1, "causal": kind == "causal"}
    stages = {"train": {"objective": {"kind": kind}, "budget": {"steps": 1}}}
    table = {"name": "s", "stages": stages, "columns": {"listops": {"task": task, "model": model}}, "arms": {"a": {}}}
    plan = make_plan(read_study(table), NOWHERE)
    (spec,) = {cell.chain[-1].spec for cell in plan.cells}
    (facts,) = gather(plan).values()
    lengths = open_task(spec.task, NOWHERE).test.lengths
    assert facts.sizes["test"] == 20
    if kind == "causal":
        assert facts.tested == facts.asked == (lengths - 1).sum()
    else:
        share = facts.tested / lengths.sum()
        assert abs(share - spec.objective.mask_rate) < 0.05
    assert facts.positions == 0, "targets are not scored"


def test_each_reported_task_has_its_baselines_once_and_they_do_not_count_as_stages_of_arms(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert [cell.arm for cell in plan.baselines] == ["majority", "linear", "nearest"]
    assert not {cell.chain[-1].identity for cell in plan.baselines} & set(plan.stages)
    assert list(plan.every_stage)[: len(plan.stages)] == list(plan.stages)
    assert len(plan.every_stage) == len(plan.stages) + 3
    assert plan.baselines[0].chain[-1].label == "baseline (majority)"
    more = planned(tmp_path, axes={"task.labelled": [100, 200], "seed": [0, 1]}, report={})
    assert len(more.baselines) == 6


def test_a_report_may_do_without_baselines_and_an_objective_without_a_target_has_none(tmp_path: Path) -> None:
    assert planned(tmp_path, report={"baselines": False}).baselines == ()
    masked = {"finetune": {"objective": {"kind": "masked"}, "budget": {"epochs": 2}}}
    assert planned(tmp_path, stages=masked, arms={"scratch": {}}, report={}, axes={}).baselines == ()


def test_baselines_run_with_the_study_and_stand_below_its_arms(tmp_path: Path) -> None:
    table = study(arms={"scratch": {}, "majority": {"model": {"kind": "majority"}}}, axes={"seed": [0, 1]}, report={})
    bound = Study({**table, "stages": {"finetune": table["stages"]["finetune"]}}, store=tmp_path, data=tmp_path)
    results = headstart.run(bound)
    scores = {base.arm: base.test.mean for base in results.baselines if base.test}
    assert list(scores) == [
        "majority class",
        "logistic regression on flat inputs",
        "1-nearest neighbour on flat inputs",
    ]
    assert 0.25 < scores["1-nearest neighbour on flat inputs"] < 0.45
    lines = [(line.kind, line.cells["arm"].text.split(" (")[0]) for line in make_table(results).lines]
    assert lines == [
        ("arm", "scratch"),
        ("arm", "majority"),
        ("baseline", "logistic regression on flat inputs"),
        ("baseline", "1-nearest neighbour on flat inputs"),
    ], "what is an arm already is not told again"
    texts = [str(caveat) for caveat in results.caveats if caveat.kind == "baseline"]
    assert any(
        "no better on test than a trivial baseline: 1-nearest neighbour on flat inputs" in text for text in texts
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert "baselines" not in names
    assert set(bound.plan.every_stage) <= names


def test_rolled_digits_resist_the_methods_that_solve_them_unrolled(tmp_path: Path) -> None:
    task = {"kind": "digits", "labelled": 200, "rolled": False}
    model = study()["columns"]["digits"]["model"]
    stages = {"finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}}
    columns = {"digits": {"task": task, "model": model}}
    plain = study(stages=stages, columns=columns, arms={"scratch": {}}, axes={}, report={})
    scores = {b.arm: b.test.mean for b in headstart.run(plain, store=tmp_path, data=tmp_path).baselines if b.test}
    assert scores["logistic regression on flat inputs"] > 0.85


def test_reading_a_plan_with_baselines_needs_no_scikit_learn() -> None:
    code = "import sys, headstart.study.results.collect; print(sorted({'sklearn', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["root operator", ""])
def test_a_rule_that_a_task_knows_of_itself_is_a_stage(tmp_path: Path, name: str) -> None:
    task = {"kind": "listops", "train": 200, "val": 50, "test": 50, "min_length": 5, "max_length": 30}
    stages = {"finetune": {"objective": {"kind": "classify"}}}
    arms = {"rule": {"model": {"kind": "task", "name": name} if name else {"kind": "task"}}}
    table = {"name": "ruled", "stages": stages, "arms": arms, "columns": {"listops": {"task": task}}}
    results = headstart.run({**table, "report": {"baselines": False}}, store=tmp_path, data=tmp_path)
    (row,) = results.table
    assert row.test is not None
    assert 0 < row.test.mean < 1
    assert row.status == "measured"
