"""Budgets in FLOPs: written out as steps before a stage has an identity."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import headstart
from headstart.api import Study
from headstart.errors import BadInput, DiskFull
from headstart.spec import merge
from headstart.stage.trained import TrainedRun
from headstart.store import Store
from headstart.study.language import budgets
from headstart.study.language.estimate import survey
from headstart.study.language.plan import Cell, Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.results.columns import side_by_side
from headstart.verbs import fit as fit_verb

NOWHERE = Path("no-data-needed")
STUDY: dict[str, Any] = {
    "name": "equal",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 2}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 4, "evaluate_every": 2}},
    },
    "columns": {
        "few": {"task": {"kind": "digits", "labelled": 100}, "model": {"width": 8, "blocks": 1}},
        "all": {"task": {"kind": "digits"}, "model": {"width": 16, "blocks": 2, "mixer": {"kind": "s4"}}},
    },
    "arms": {
        "scratch": {},
        "long": {"finetune": {"budget": {"flops_of": "pretrained"}}},
        "pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
    },
    "axes": {"finetune.optim.lr": [1e-3, 3e-3], "seed": [0, 1]},
    "report": {"against": "scratch", "baselines": False},
}


def plan(*overrides: str, **changes: Any) -> Plan:
    return make_plan(read_study(merge(STUDY, changes), overrides), NOWHERE)


def why(*overrides: str, **changes: Any) -> str:
    with pytest.raises(BadInput) as caught:
        plan(*overrides, **changes)
    return str(caught.value)


def spent(plan: Plan, arm: str, column: str) -> set[float]:
    """FLOPs of each run of an arm, all its stages together."""
    flops = {cost.planned.identity: cost.flops for cost in survey(plan)}
    cells = [cell for cell in plan.cells if (cell.arm, cell.column) == (arm, column)]
    return {sum(flops[planned.identity] for planned in cell.chain) for cell in cells}


def last(plan: Plan, arm: str, column: str = "few") -> Cell:
    return next(cell for cell in plan.cells if (cell.arm, cell.column) == (arm, column))


@pytest.mark.parametrize("column", ["few", "all"])
def test_a_whole_chain_gets_the_flops_of_another_arms_whole_chain(column: str) -> None:
    result = plan()
    (long,), (pretrained,), (short,) = (spent(result, arm, column) for arm in ("long", "pretrained", "scratch"))
    step = short / (4 * (4 if column == "few" else 35))
    assert long == pytest.approx(pretrained, abs=0.6 * step)
    assert long > 1.3 * short


def test_stages_before_the_last_are_subtracted_and_a_share_is_taken_of_the_whole() -> None:
    budget = {"flops_of": "pretrained", "share": 0.9}
    more = {"finetune": {"parent": "pretrain", "start": ["take(all-head)"], "budget": budget}}
    result = plan(arms={"more": more})
    (most,), (pretrained,) = (spent(result, arm, "few") for arm in ("more", "pretrained"))
    assert most == pytest.approx(0.9 * pretrained, rel=0.01)
    assert last(result, "more").chain[0] == last(result, "pretrained").chain[0]


def test_the_same_steps_written_by_hand_are_the_same_stage() -> None:
    stage = last(plan(), "long").chain[-1]
    budget = stage.spec.budget
    assert (budget.flops, budget.flops_of, budget.epochs, budget.share) == (None, None, None, 1.0)
    assert budget.steps is not None
    assert budget.evaluate_every == 2 * 4, "two epochs of 4 steps"
    by_hand = {"epochs": None, "steps": budget.steps, "evaluate_every": 8.0}
    hand = plan('columns=["few"]', arms={"long": {"finetune": {"budget": {**by_hand, "flops_of": None}}}})
    assert last(hand, "long").chain[-1].identity == stage.identity
    few = last(plan("finetune.budget.scored='held_out'", "finetune.budget.patience=3"), "long").chain[-1].spec.budget
    assert few == budget.model_copy(update={"scored": "held_out", "patience": 3})


def test_a_number_of_flops_is_whole_steps_of_a_stage_that_may_be_partly_frozen() -> None:
    whole = plan("finetune.budget.flops=2e8")
    frozen = plan("finetune.budget.flops=2e8", arms={"pretrained": {"finetune": {"trainable": "head"}}})
    steps = last(whole, "pretrained").chain[-1].spec.budget.steps
    assert steps == last(whole, "scratch").chain[-1].spec.budget.steps
    more = last(frozen, "pretrained").chain[-1].spec.budget.steps
    assert steps is not None
    assert more is not None
    assert more > 2 * steps, "a step that trains the head alone costs less than half"
    assert spent(whole, "scratch", "few").pop() == pytest.approx(2e8, rel=0.5 / steps)


def test_what_was_planned_is_what_a_run_records(tmp_path: Path) -> None:
    few = {"columns": {"few": STUDY["columns"]["few"]}, "arms": {"scratch": {}}, "axes": {"seed": [0]}}
    study = Study({**STUDY, **few}, ["finetune.budget.flops=1e9"], store=tmp_path, data=tmp_path)
    headstart.run(study)
    (cost,) = survey(study.plan)
    result = Store(tmp_path).result(cost.planned.identity)
    assert result is not None
    assert result["budget"]["steps"] == cost.steps
    assert result["budget"]["flops"] == pytest.approx(cost.flops, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"arms": {"long": {"finetune": {"budget": {"flops_of": "pretraned"}}}}},
            "arms.long.finetune.budget.flops_of: no 'pretraned'; did you mean 'pretrained'?",
        ),
        (
            {"arms": {"pretrained": {"finetune": {"budget": {"flops_of": "long"}}}}},
            "budget.flops_of: long -> pretrained -> long wait for each other; give one of them a budget of its own",
        ),
        (
            {"stages": {"pretrain": {"budget": {"epochs": None, "flops_of": "scratch"}}}},
            "budget.flops_of: whole chains are made equal in their last stage, 'finetune'; give flops here",
        ),
        (
            {"arms": {"pretrained": {"finetune": {"budget": {"flops_of": "scratch", "share": 0.1}}}}},
            "arms.pretrained.finetune.budget.flops_of: 'scratch' leaves -",
        ),
        (
            {"arms": {"scratch": {"finetune": {"budget": {"flops": 1e3}}}}},
            "arms.scratch.finetune.budget.flops: 1e+03 FLOP, one step costs ",
        ),
    ],
)
def test_a_budget_that_cannot_be_is_refused_where_it_stands(changes: dict[str, Any], message: str) -> None:
    assert message in why(**changes)


def test_flops_of_a_task_whose_sizes_the_data_alone_know_need_the_data(tmp_path: Path) -> None:
    table = {**STUDY, "columns": {"ucr": {"task": {"kind": "ucr", "name": "GunPoint"}}}}
    with pytest.raises(
        BadInput, match=r"budget\.flops_of: what a step on task 'ucr' costs is not known until its data"
    ):
        make_plan(read_study(table), tmp_path, absent="open")


def test_a_budget_that_equals_another_arms_makes_a_column_of_each_of_its_values(tmp_path: Path) -> None:
    stage = {"budget": {"epochs": 2}, "optim": {"batch_size": 16}}
    table = {
        "name": "equal",
        "stages": {
            "pretrain": {**stage, "objective": {"kind": "masked"}},
            "finetune": {**stage, "objective": {"kind": "classify"}},
        },
        "columns": {"a": {"task": {"kind": "waves", "train": 64}, "model": {"width": 8, "blocks": 1}}},
        "arms": {
            "scratch": {},
            "longer": {"finetune": {"budget": {"flops_of": "pretrained"}}},
            "pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
        },
        "axes": {"pretrain.budget.epochs": [1, 8], "seed": [0, 1]},
        "report": {"against": "longer", "choose": [], "baselines": False},
    }
    plan = make_plan(read_study(table), tmp_path)
    runs = [(cell.arm, cell.settings.get("pretrain.budget.epochs"), cell.seed) for cell in plan.cells]
    assert sorted(runs, key=repr) == sorted(
        [(arm, epochs, seed) for arm in ("longer", "pretrained") for epochs in (1, 8) for seed in (0, 1)]
        + [("scratch", None, seed) for seed in (0, 1)],
        key=repr,
    )
    groups, _ = side_by_side(plan)
    steps = {}
    for (column, arm), cells in groups.items():
        assert len(cells) == 2
        steps[column, arm] = {cell.chain[-1].spec.budget.steps for cell in cells}
    assert steps["a epochs=1", "longer"] != steps["a epochs=8", "longer"]
    assert all(len(values) == 1 for values in steps.values())


@pytest.mark.parametrize(
    ("name", "scale"), [("amos-7", "tiny"), ("lu-10", "tiny"), ("which-part", None), ("few-labels", None)]
)
def test_stages_that_share_an_outline_cost_to_the_digit_what_each_costs_by_itself(
    name: str, scale: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = make_plan(read_study(name, scale=scale, data=tmp_path), tmp_path, absent="open")
    together = survey(plan)
    monkeypatch.setattr(TrainedRun, "planned", lambda *_: None)
    monkeypatch.setattr("headstart.models.model.again", deepcopy)
    assert survey(plan) == together


def test_the_files_of_an_absent_task_are_looked_for_once(monkeypatch, tmp_path):
    looked: list[str] = []
    monkeypatch.setattr(budgets, "absence", lambda spec, _: looked.append(spec.kind) or f"{spec.kind} is not there")
    study = {**deepcopy(STUDY), "columns": {"image": {"task": {"kind": "image"}, "model": {"width": 8, "blocks": 1}}}}
    del study["arms"]["long"]
    plan = make_plan(read_study(study), tmp_path, absent="open")
    assert [planned.open for planned in plan.stages.values()] == [True] * 10
    assert looked == ["image"]


def test_a_full_disk_stays_one_at_whatever_setting_it_is_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise DiskFull("/cache")

    study = Study(STUDY, store=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(budgets.Outlines, "size", full)
        with pytest.raises(DiskFull, match=r"^/cache: the disk is full"):
            study.survey()
    monkeypatch.setattr(budgets, "identity", full)
    with pytest.raises(DiskFull, match=r"^/cache: the disk is full"):
        Study(STUDY, store=tmp_path)
    with pytest.raises(DiskFull), fit_verb._in_options():
        full()
