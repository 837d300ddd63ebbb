"""Stages without gradients: fitted ones beside networks, and a way of a kind's own, through a whole study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_tasks import MadeSpec

import headstart
from headstart.api import Study
from headstart.errors import BadInput
from headstart.models import MODELS
from headstart.models.model import ModelSpec
from headstart.sequence import IGNORE
from headstart.spec import Entry
from headstart.stage import WAYS, StageOutcome, StageSpec, begin, identity, load_model, read_stage, settings_of_class
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task

NOWHERE = Path("nowhere")
KINDS = ("majority", "nearest", "linear", "summary", "kernels")
CLASSIFY: dict[str, Any] = {"task": MadeSpec(), "objective": {"kind": "classify"}}
SHAPES: dict[str, dict[str, Any]] = {
    "class": CLASSIFY,
    "gaps": {**CLASSIFY, "task": MadeSpec(gaps=True)},
    "tokens": {**CLASSIFY, "task": MadeSpec(tokens=True)},
    "numbers": {"task": MadeSpec(shape="numbers"), "objective": {"kind": "regress"}},
    "pairs": {"task": MadeSpec(shape="pairs"), "objective": {"kind": "retrieve"}},
}
STUDY: dict[str, Any] = {
    "name": "beside",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 1}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "labelled": 200},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
        }
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
        "kernels": {"model": {"kind": "kernels", "features": 84}},
        "nearest": {"model": {"kind": "nearest"}},
    },
    "axes": {"finetune.optim.lr": [1e-3, 3e-3], "seed": [0, 1]},
    "report": {"against": "scratch"},
}


def spec(kind: str, shape: str = "class", **more: Any) -> StageSpec:
    model = {"kind": kind, **({"features": 84} if kind == "kernels" else {})}
    return read_stage(settings_of_class({"model": model, **SHAPES[shape], **more}))


def finished(stage: StageSpec) -> StageOutcome:
    run = begin(stage, open_task(stage.task, NOWHERE), None)
    assert list(run.steps()) == []
    return run.finish()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fitted_stage_leaves_what_a_network_leaves_and_comes_back_from_it(kind: str, shape: str) -> None:
    stage = spec(kind, shape)
    done, task = finished(stage), open_task(stage.task, NOWHERE)
    assert done.status == "complete"
    assert done.scores["best"] == done.scores["last"]
    metric = "r2" if shape == "numbers" else "accuracy"
    assert done.monitor == {"name": metric, "greater": True}
    assert {"loss", metric} <= set(done.scores["best"]["test"])
    assert (done.budget["steps"], done.budget["flops"]) == (0, 0.0)
    assert done.account["total"] == sum(value.numel() for value in done.best.values())
    test = task.test
    assert torch.equal(done.predictions["test/index"], torch.from_numpy(test.index))
    assert len(done.predictions["test/output"]) == test.units
    model = load_model(stage, task, done.best, {"model": done.model})
    predicted, output = model.predict(test), done.predictions["test/output"].numpy()
    table = np.exp(output) if shape != "numbers" else output
    assert table == pytest.approx(predicted.reshape(len(predicted), -1), abs=1e-5)
    if shape != "numbers" and test.target is not None:
        target = test.target[:: 2 if test.paired else 1]
        there = target != IGNORE
        assert done.scores["best"]["test"]["accuracy"] == pytest.approx((predicted.argmax(1) == target)[there].mean())


def test_the_majority_scores_targets_per_position() -> None:
    stage = read_stage({**CLASSIFY, "task": MadeSpec(shape="positions"), "model": {"kind": "majority"}})
    done = finished(stage)
    assert 0 < done.scores["best"]["val"]["accuracy"] < 1
    assert done.predictions["val/output"].ndim == 3
    with pytest.raises(BadInput, match="the task has a target per position; 'linear' needs one class"):
        finished(stage.model_copy(update={"model": spec("linear").model}))


def test_what_only_training_uses_is_no_part_of_a_fitted_stage() -> None:
    plain = spec("linear")
    for more in ({"optim": {"lr": 0.5}}, {"budget": {"epochs": 9}}, {"seed": 3}):
        assert identity(spec("linear", **more), NOWHERE) == identity(plain, NOWHERE)
    smoothed = spec("linear", objective={"kind": "classify", "label_smoothing": 0.1})
    assert identity(smoothed, NOWHERE) == identity(plain, NOWHERE)
    assert identity(spec("kernels", seed=3), NOWHERE) != identity(spec("kernels"), NOWHERE)
    penalised = read_stage({**CLASSIFY, "model": {"kind": "linear", "alpha": 2.0}})
    assert identity(penalised, NOWHERE) != identity(plain, NOWHERE)
    document = plain.model_dump(mode="json")
    assert not {"optim", "budget", "seed", "parent"} & set(document)
    assert read_stage({**document, "task": plain.task}) == plain


def test_a_table_without_a_kind_is_a_network_of_the_same_identity() -> None:
    first, two = (
        {**CLASSIFY, "budget": {"epochs": 1}, "model": {"width": 8, **kind}} for kind in ({}, {"kind": "sequence"})
    )
    assert identity(read_stage(first), NOWHERE) == identity(read_stage(two), NOWHERE)
    assert "kind" not in read_stage(first).document()["model"]
    assert isinstance(read_stage(first).model, ModelSpec)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trainable": "head"}, "trainable: a model of kind 'linear' is not trained and has no use for it"),
        ({"start": ["draw(head, 1)"]}, "start: a model of kind 'linear' is not trained"),
        ({"objective": {"kind": "masked"}}, "objective.kind: 'masked' asks for no target"),
        ({"model": {"kind": "lineer"}}, "model.kind: no 'lineer'; did you mean 'linear'"),
        ({"model": {"kind": "linear", "width": 8}}, "model.width: no 'width'"),
        ({"model": {"kind": "linear", "alpha": 0.0}}, "model.alpha: 0.0 should be greater than 0"),
    ],
)
def test_nonsense_is_refused_with_its_place(more: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        spec("linear", **more) if "model" not in more else read_stage({**CLASSIFY, **more})
    assert message in str(error.value)


def test_no_network_starts_from_a_fitted_model() -> None:
    child = {**CLASSIFY, "budget": {"epochs": 1}, "parent": spec("linear"), "start": ["take(all)"]}
    with pytest.raises(BadInput, match="parent: its model is of kind 'linear', which has no weights to start from"):
        read_stage(child)
    with pytest.raises(BadInput, match="parent: a model of kind 'linear' is not trained"):
        spec("linear", parent=read_stage({**CLASSIFY, "budget": {"epochs": 1}}), start=["take(all)"])


def test_arms_without_gradients_share_stages_over_what_they_do_not_use(tmp_path: Path) -> None:
    plan = make_plan(read_study(STUDY), tmp_path)
    cells = {arm: [cell for cell in plan.cells if cell.arm == arm] for arm in STUDY["arms"]}
    assert {arm: len(result) for arm, result in cells.items()} == {
        "scratch": 4,
        "self_pretrained": 4,
        "kernels": 2,
        "nearest": 2,
    }
    assert len({cell.chain[-1].identity for cell in cells["kernels"]}) == 2
    assert len({cell.chain[-1].identity for cell in cells["nearest"]}) == 1
    assert [cell.seed for cell in cells["nearest"]] == [0, 1]
    assert cells["nearest"][0].settings == {}
    assert cells["scratch"][0].settings == {"finetune.optim.lr": 1e-3}


def test_an_axis_over_a_models_setting_is_for_the_kinds_that_have_it(tmp_path: Path) -> None:
    plan = make_plan(read_study({**STUDY, "axes": {"model.alpha": [0.1, 1.0], "model.width": [4, 8]}}), tmp_path)
    settings = {arm: [dict(c.settings) for c in plan.cells if c.arm == arm] for arm in STUDY["arms"]}
    assert settings["kernels"] == [{"model.alpha": 0.1}, {"model.alpha": 1.0}]
    assert settings["scratch"] == [{"model.width": 4}, {"model.width": 8}]
    assert settings["nearest"] == [{}]
    with pytest.raises(BadInput, match=r"axes\.model\.alhpa: no 'alhpa'; did you mean 'alpha'"):
        make_plan(read_study({**STUDY, "axes": {"model.alhpa": [0.1]}}), tmp_path)


def test_a_study_compares_networks_and_fitted_models_and_resumes_both(tmp_path: Path) -> None:
    study = Study(STUDY, store=tmp_path / "runs", data=tmp_path)
    results = headstart.run(study)
    rows = {row.arm: row for row in results.table}
    assert {row.n for row in rows.values()} == {2}
    difference = rows["kernels"].difference
    assert difference is not None
    assert difference.n == 2
    assert rows["nearest"].test is not None
    assert rows["nearest"].test.sem == 0
    store = Store(tmp_path / "runs")
    before = {name: store.stage(name) for name in study.plan.stages}
    headstart.run(STUDY, store=tmp_path / "runs", data=tmp_path)
    assert {name: store.stage(name) for name in study.plan.stages} == before
    fitted = headstart.load(rows["kernels"].stages[0], store=tmp_path / "runs", data=tmp_path)
    test = open_task(study.plan.cells[0].chain[-1].spec.task, tmp_path).test
    assert fitted.predict(test).shape == (500, 10)


@pytest.mark.slow
def test_a_kind_that_comes_to_its_weights_in_a_way_of_its_own_goes_through_a_whole_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.report.page import write_report

    monkeypatch.setitem(MODELS, "oracle", Entry("support.oracle:OracleSpec", "reads the answers"))
    monkeypatch.setitem(WAYS, "read", Entry("support.oracle:OracleRun", "reads the answers"))
    arms = {**STUDY["arms"], "oracle": {"model": {"kind": "oracle", "right": 0.9}}}
    arms["from_oracle"] = {
        "pretrain": {"model": {"kind": "oracle", "right": 0.9}, "objective": {"kind": "classify"}},
        "finetune": {"parent": "pretrain", "start": ["take(head)"]},
    }
    study = Study({**STUDY, "arms": arms}, store=tmp_path / "runs", data=tmp_path)
    results = headstart.run(study)
    row = results.row("oracle", "digits")
    assert row is not None
    assert row.test is not None
    assert row.test.mean == pytest.approx(0.9, abs=0.01)
    child = results.row("from_oracle", "digits")
    assert child is not None
    assert child.n == 2
    assert [name for name, _ in child.runs[0].stages] == ["pretrain", "finetune"]
    page = write_report(study.plan, results, study.store, tmp_path / "page")
    assert "oracle" in page.read_text()
    assert headstart.load(row.stages[0], store=tmp_path / "runs", data=tmp_path) == 0.9
