"""What claims ask of records and weights is read of every seed of the arms that they name, and of no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_figures_of_weights import STUDY

import headstart
from headstart.analysis.stages import opened
from headstart.analysis.weights import kernels
from headstart.report.claims import verdicts
from headstart.report.measures import MEASURES, measured
from headstart.store import Store
from headstart.study.language.papers import MEASURED_QUANTITIES as KNOWN
from headstart.study.results.collect import converged_at, curve

CLAIMS = [{"says": f"It has {name}", "higher": "self_pretrained", "than": 0.0, "quantity": name} for name in KNOWN]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> headstart.Study:
    arms = {name: STUDY["arms"][name] for name in ("scratch", "self_pretrained")}
    changed: dict[str, Any] = {
        **STUDY,
        "name": "measured",
        "arms": arms,
        "axes": {"seed": [3, 4]},
        "claims": CLAIMS,
        "columns": {"spaces": STUDY["columns"]["spaces"]},
    }
    changed["stages"] = {
        name: {**item, "budget": {"steps": 6, "evaluate_every": 2}} for name, item in STUDY["stages"].items()
    }
    bound = headstart.Study(changed, store=tmp_path_factory.mktemp("measured") / "runs")
    headstart.run(bound)
    return bound


def test_every_measure_has_its_reader() -> None:
    assert tuple(MEASURES) == KNOWN


def test_each_seed_is_read_before_finetuning_and_only_of_the_arms_that_are_claimed(study: headstart.Study) -> None:
    results = study.results(baselines=False)
    scratch, pretrained = results.table
    assert scratch.measures == {}
    assert set(pretrained.measures) <= set(KNOWN)
    kernel = [name for name in KNOWN if name != "parent_left"]
    assert {name: set(pretrained.measures[name]) for name in kernel} == {name: {3, 4} for name in kernel}
    parent = pretrained.runs[1].stages[0][1]
    stage = opened(parent, study.store, study.data)
    shorter = [
        first.distance - now.distance
        for now, first in zip(kernels(stage.model, 64), kernels(stage.start, 64), strict=True)
    ]
    assert pretrained.by_seed("kernel_narrowing")[4] == pytest.approx(sum(shorter) / 2)
    result = study.store.result(parent)
    assert result is not None
    steps = converged_at(curve(study.store.records(parent), result["monitor"]["name"]), result["monitor"]["greater"])
    assert pretrained.by_seed("parent_left").get(4, 0.0) == pytest.approx(1 - steps / 6)


@pytest.mark.parametrize(
    ("scores", "left"), [([0.1, 0.6, 0.601], 1 / 3), ([0.6, 0.5, 0.4], 2 / 3), ([0.1, 0.2, 0.3], None), ([], None)]
)
def test_what_is_left_of_a_pretraining_is_known_where_it_had_converged(scores: list[float], left: float | None) -> None:
    records = [{"step": 10 * (i + 1), "val": {"r2": value}} for i, value in enumerate(scores)]
    result = {"identity": "parent", "monitor": {"name": "r2", "greater": True}}
    store: Any = SimpleNamespace(
        entry=lambda identity: SimpleNamespace(result=result if identity == "parent" else None),
        records=lambda identity: records if identity == "parent" else None,
    )
    run: Any = SimpleNamespace(stages=(("pretrain", "parent"), ("finetune", "child")))
    plan: Any = None
    output = MEASURES["parent_left"](plan, store, run)
    assert output == (None if left is None else pytest.approx(left))


def test_a_claim_is_answered_by_what_was_read(study: headstart.Study) -> None:
    results = study.results(baselines=False)
    output = verdicts(results, None)
    kernel = [verdict.parts[0] for verdict in output if verdict.claim.quantity != "parent_left"]
    assert [part.difference is not None for part in kernel] == [True] * 3
    narrowing = results.table[1].estimate("kernel_narrowing")
    assert narrowing is not None
    assert output[1].parts[0].difference is not None
    assert output[1].parts[0].difference.mean == pytest.approx(narrowing.mean)
    assert "2 seeds" in str(output[1])


def test_what_cannot_be_read_is_not_measured(study: headstart.Study, tmp_path: Path) -> None:
    results = study.results(baselines=False)
    gone = measured(study.plan, results, Store(tmp_path / "empty"))
    assert gone.table[1].measures == {}
    assert "not measured on spaces (no " in str(verdicts(gone, None)[1])
    unasked = replace(results, claims=())
    assert measured(study.plan, unasked, study.store) is unasked
