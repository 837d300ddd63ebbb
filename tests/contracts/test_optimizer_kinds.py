"""One contract for every optimiser and schedule of the tables, and for those that a plugin registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import headstart
from headstart.cli import app
from headstart.spec import read
from headstart.training.optim import OptimSpec
from headstart.training.optimizer_contract import OPTIMIZER_CHECKS, SCHEDULE_CHECKS
from headstart.training.optimizers import OPTIMIZERS
from headstart.training.schedules import SCHEDULES

OWN = """
from typing import Literal

from headstart import register_optimizer, register_schedule
from headstart.training.optim import OwnOptimSpec
from headstart.training.schedules import ScheduleSpec

STEPS = []


class LionSpec(OwnOptimSpec):
    \"\"\"The sign of a running mean (Chen et al. 2023).\"\"\"

    kind: Literal["lion"] = "lion"
    inner: float = 0.9

    def update(self, weights, first, second, grad, rate, step):
        weights.sub_(rate * (self.inner * first + (1 - self.inner) * grad).sign())
        first.lerp_(grad, 0.01)


class StairsSpec(ScheduleSpec):
    \"\"\"Halves of the rate.\"\"\"

    kind: Literal["stairs"] = "stairs"
    every: int = 4

    def factor(self, step, course):
        return 0.5 ** ((step - course.warm) // self.every)


register_optimizer("lion", LionSpec)
register_schedule("stairs", StairsSpec)
"""
STUDY = """
name = "mine"
[stages.train]
objective = { kind = "classify" }
budget = { steps = 6, evaluate_every = 3 }
optim = { kind = "lion", inner = 0.8, batch_size = 16, schedule = { kind = "stairs", every = 2 } }
[columns.digits]
task = { kind = "digits", labelled = 60 }
model = { width = 16, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.plain]
[axes]
seed = [0]
[report]
baselines = false
"""


@pytest.mark.parametrize("check", OPTIMIZER_CHECKS)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimiser_holds_to_the_contract(kind: str, check: str) -> None:
    for table in ({}, {"weight_decay": 0.1, "decay": "all", "clip": 0.5}):
        OPTIMIZER_CHECKS[check](read(OptimSpec, {"kind": kind, "lr": 0.01, **table}))


@pytest.mark.parametrize("check", SCHEDULE_CHECKS)
@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_holds_to_the_contract(kind: str, check: str) -> None:
    SCHEDULE_CHECKS[check](read(OptimSpec, {"schedule": kind, "warmup_steps": 1}))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plugin of an optimiser and a schedule, and a study of both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "mine.toml").write_text(STUDY)
    return tmp_path


def test_an_optimiser_and_a_schedule_of_ones_own_train_a_stage_and_count_in_its_identity(own: Path) -> None:
    study = headstart.Study("mine.toml", store=own / "runs", plugins=["mine.py"])
    (stage,) = study.plan.every_stage.values()
    document = stage.spec.document()["optim"]
    assert {document["kind"], document["schedule"]["kind"]} == {"lion", "stairs"}
    assert document["source digest"] == document["schedule"]["source digest"]
    assert [stage.spec.optim.factor(step, 6) for step in range(6)] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    list(study.perform(workers=0))
    other = headstart.Study("mine.toml", ["train.optim.inner=0.7"], store=own / "runs", plugins=["mine.py"])
    assert set(other.plan.every_stage) != set(study.plan.every_stage)
    assert study.store.status(stage.identity) == "complete"


def test_a_kind_without_its_plugin_is_refused_with_the_way_out(own: Path) -> None:
    (own / "other.toml").write_text(STUDY.replace("lion", "tiger").replace("stairs", "steps"))
    with pytest.raises(headstart.BadInput) as caught:
        headstart.Study("other.toml", store=own / "runs")
    assert "optim.kind: no 'tiger'" in str(caught.value)
    assert "--plugin FILE.py" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("", "", ""),
        ("weights.sub_(", "weights.add_(", "go against the gradient"),
        ("first.lerp_(grad, 0.01)", "STEPS.append(0); weights.sub_(1e-4 * len(STEPS))", "keep all that changes"),
        ("weights.sub_(", "weights[0] += 0.1; weights.sub_(", "each weight alone"),
        ("return 0.5 **", "return -0.5 **", "give one from 0 to 1"),
    ],
    ids=["sound", "uphill", "memory", "by place", "negative"],
)  # fmt: skip
def test_check_says_what_an_optimiser_or_a_schedule_breaks(own: Path, old: str, new: str, what: str) -> None:
    (own / "mine.py").write_text(OWN.replace(old, new, 1) if old else OWN)
    result: Any = CliRunner().invoke(app, ["check", "--plugin", "mine.py"], env={"COLUMNS": "300"})
    assert (result.exit_code == 0) == (not what), result.output
    assert what in " ".join(result.output.split())


def test_optimisers_and_schedules_are_listed(own: Path) -> None:
    for noun, name in (("optimizers", "muon"), ("schedules", "stable_decay")):
        assert name in CliRunner().invoke(app, ["ls", noun]).output


def test_kinds_of_a_plugin_are_listed_shown_and_in_the_schema(own: Path) -> None:
    plugin = ["--plugin", "mine.py"]
    assert "lion" in CliRunner().invoke(app, ["ls", "optimizers", *plugin]).output
    shown = CliRunner().invoke(app, ["show", "stairs", *plugin])
    assert shown.exit_code == 0
    assert 'optim.schedule = { kind = "stairs" }' in shown.output
    assert "every" in shown.output
    assert CliRunner().invoke(app, ["schema", *plugin]).exit_code == 0


def test_moments_of_an_own_optimiser_are_float_tensors_of_the_state(own: Path) -> None:
    from headstart.training.optimizer_contract import begun, stepped

    headstart.Study("mine.toml", store=own / "runs", plugins=["mine.py"])
    spec = read(OPTIMIZERS["lion"].load(), {"kind": "lion", "lr": 0.1})
    weights, moments = stepped(spec, begun(), 0, 1)
    slow = begun()[0]
    grad = torch.linspace(0.5, 2.0, len(slow), dtype=slow.dtype) * slow
    assert torch.allclose(weights, slow - 0.1 * (0.1 * grad).sign())
    assert torch.allclose(moments.first, 0.01 * grad)
