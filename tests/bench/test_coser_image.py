"""The command for Image at the paper's size, on a few made-up images and a CPU."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import coser_image
import recorded_steps

from headstart.cli import app
from headstart.tasks.cifar import BATCHES, RECORD
from headstart.training import graph

SMALL = [
    "--device",
    "cpu",
    "--seeds",
    "0",
    "--pretrain-epochs",
    "4",
    "--finetune-epochs",
    "2",
    "task.val=40",
    "task.patch=64",
    "model.width=16",
    "model.mixer.heads=2",
    "model.blocks=1",
    "pretrain.optim.batch_size=16",
]
"""16 positions of 64 pixels; 80 train images: 5 steps an epoch, in either phase."""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """The official files of CIFAR-10 with 24 images each: 80 remain for training."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "cifar10").mkdir()
    draw = np.random.default_rng(0)
    for name in BATCHES:
        table = draw.integers(0, 200, (24, RECORD)).astype(np.uint8)
        table[:, 0] = np.arange(len(table)) % 10
        (folder / "cifar10" / name).write_bytes(table.tobytes())
    return folder


def call(images: Path, store: Path, *words: str) -> int:
    return coser_image.main(["--data", str(images), "--store", str(store), *SMALL, *words])


@pytest.mark.slow
def test_one_command_checks_trains_times_and_scores(images, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(coser_image, "WARM", 2)
    assert call(images, tmp_path) == 0
    output = capsys.readouterr().out
    assert (tmp_path / "coser-image.log").read_text() == output
    document = json.loads((tmp_path / "coser-image.log.json").read_text())
    rows = {(row["phase"], row["from"]): row for row in document["stages"].values()}
    assert set(rows) == {("pretrain", "fresh"), ("finetune", "fresh"), ("finetune", "pretrained")}
    row = rows["pretrain", "fresh"]
    # Twenty steps, the clock from the second on; it stands for the last of each of four epochs.
    assert (row["per_epoch"], row["timed_steps"], row["epochs"]) == (5, 14, 4)
    assert row["epoch_s"] == pytest.approx(5 * row["step_ms"] / 1e3)
    assert 0 < row["epoch_s"] * 14 / 5 < row["seconds"]
    assert row["how"] == "plain: steps are not recorded on this device"
    assert row["precision"] == "bfloat16"
    assert document["where"]["torch"] in output
    assert "self_pretrained, seed 0: accuracy 0." in output
    assert "(paper: 0.72 (+0.22))" in output
    assert "0.0e+00 of scale" in output
    assert "not the paper's setting: task.val=40" in output
    assert "goal" not in output


def test_the_commands_that_are_printed_are_of_the_very_stages_and_make_their_table(images, tmp_path, capsys):
    assert call(images, tmp_path, "--limit", "0", "--seeds", "0,1") == 1
    output = capsys.readouterr().out
    line, more = re.findall("^the table of these stages: (.*)$", output, re.MULTILINE)
    assert "coser-4 " in more
    assert "coser-1 " in line
    assert f"the same stages as any study: {line.replace(' report ', ' run ', 1)}\n" in output
    headstart, *words = shlex.split(line)
    assert headstart == "headstart"
    study = coser_image.study_of(coser_image.arguments(["--data", str(images), *SMALL, "--seeds", "0,1"]))
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headstart.verbs.run.report_study", lambda bound, *_: seen.append(bound))
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert list(seen[0].plan.stages) == list(study.plan.stages)
    assert seen[0].store.root == tmp_path


def test_the_goal_is_judged_where_the_setting_is_the_papers(tmp_path, capsys):
    row = {
        "phase": "pretrain",
        "images": 45_000,
        "changed": [],
        "epoch_s": 3.0,
        "epochs": 10,
        "from": "fresh",
        "seed": 0,
        "step_ms": 2.1,
        "batch": 32,
        "timed_steps": 9,
        "evaluation_s": None,
        "how": "recorded",
        "peak_gib": 1.0,
        "test": {"r2": 0.5, "loss": None},
        "best_epoch": 10,
    }
    study = SimpleNamespace(plan=SimpleNamespace(stages=["a"], cells=[]), store=SimpleNamespace(result=lambda _: {}))
    log = coser_image.Log(tmp_path / "log")
    log.rows = {"a": row}
    assert coser_image.answer(study, log)
    text = capsys.readouterr().out
    assert "3 s an epoch (2.100 ms a step, batch 32, 9 steps timed; an A100 in the paper: 48 s)" in text
    assert "goal for an epoch of pretraining: 4.8 s, 2.4 s better still: met (3.00 s)" in text
    assert "test r2 0.5000 at epoch 10" in text


@pytest.mark.slow
def test_the_same_command_goes_on_and_keeps_what_was_measured(images, tmp_path, capsys):
    assert call(images, tmp_path, "--limit", "0") == 1
    output = capsys.readouterr().out
    assert "3 of 3 stages are left; the same command goes on" in output
    assert "4 of 4 stages are left; the same command goes on" in output
    assert call(images, tmp_path) == 0
    before = (tmp_path / "coser-image.log.json").read_text()
    capsys.readouterr()
    assert call(images, tmp_path) == 0
    output = capsys.readouterr().out
    assert output.count("finished before") == 3 + 4, "queries and keys alone share three of the stages"
    assert (tmp_path / "coser-image.log.json").read_text() == before
    assert "not timed by this command" not in output


def test_steps_that_differ_are_said_and_nothing_is_trained(images, tmp_path, monkeypatch, capsys):
    def forgetful(step):
        step()
        return lambda: None

    monkeypatch.setitem(graph.RECORDERS, "cpu", forgetful)
    assert call(images, tmp_path) == 1
    assert "nothing is trained" in capsys.readouterr().out
    assert not list(tmp_path.glob("*/result.json"))


def test_steps_that_cannot_be_recorded_are_refused_unless_plain_ones_are_asked_for(
    images, tmp_path, monkeypatch, capsys
):
    def unable(step):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setitem(graph.RECORDERS, "cpu", unable)
    assert call(images, tmp_path) == 1
    assert "not permitted when stream is capturing" in capsys.readouterr().out
    assert call(images, tmp_path, "--record", "off") == 0


@pytest.mark.parametrize("wrong", ["rate", "mask"])
def test_the_comparison_sees_a_rate_or_a_mask_that_stands_still(images, monkeypatch, wrong):
    study = coser_image.study_of(coser_image.arguments(["--data", str(images), *SMALL]))
    spec = recorded_steps.phases(study)["pretrain"]
    task = coser_image.open_task(spec.task, study.data)
    assert recorded_steps.agreement("pretrain", spec, task, "cpu").problem is None
    start_epoch = graph.GraphedStep.start_epoch

    def wrong_tables(self, epoch, *order_and_source):
        start_epoch(self, epoch, *order_and_source)
        if self.record is None:
            return
        if wrong == "rate":
            self.numbers.copy_(torch.tensor(self.numbers_at(0)))
        else:
            self.epoch.fill_(0)

    monkeypatch.setattr(graph.GraphedStep, "start_epoch", wrong_tables)
    assert "differ from plain ones" in str(recorded_steps.agreement("pretrain", spec, task, "cpu").problem)


@pytest.mark.slow
def test_ragged_windowed_and_endless_stages_are_compared_too(monkeypatch):
    monkeypatch.setattr(recorded_steps, "STEPS", 8)
    cases = list(recorded_steps.others(32, 24, "float32"))
    assert [name for name, _, _ in cases] == ["ragged", "windows", "fresh"]
    assert {name for name, _, task in cases if task.fresh is not None} == {"fresh"}
    for name, spec, task in cases:
        agreement = recorded_steps.agreement(name, spec, task, "cpu")
        assert agreement.problem is None
        if name == "fresh":
            assert agreement.recorded == 0.0


@pytest.mark.slow
def test_a_stack_is_compared_with_one_of_its_models(monkeypatch, capsys):
    monkeypatch.setattr(recorded_steps, "STEPS", 3)
    assert recorded_steps.compare_stack("cpu", 1, "seed=[0]") == 0
    printed = capsys.readouterr().out
    assert "stack: 3 models, 3 steps, stacked, 3 models: " in printed
    assert printed.count("kernels or operations a step") == 2


def test_two_runs_that_differ_by_themselves_widen_what_is_allowed_and_no_number_is_never_allowed():
    differences = recorded_steps.Agreement("pretrain", "recorded", 2e-3, 2e-3, 1e-3, 1e-2, 0.2)
    assert differences.problem is None
    for far in (4e-3, float("nan")):
        assert "recorded differ" in str(recorded_steps.Agreement("p", "recorded", far, 0, 1e-3, 1e-2, 0.0).problem)
    for share in (0.3, float("nan")):
        assert "of the weights' way apart" in str(recorded_steps.Agreement("p", "recorded", 0, 0, 0, 1, share).problem)
    assert "too little to compare" in str(recorded_steps.Agreement("p", "recorded", 0, 0, 0, 1e-5, 0.0).problem)


def test_made_up_images_have_the_signature_of_the_task(images):
    study = coser_image.study_of(coser_image.arguments(["--data", str(images), "--device", "cpu", "task.val=40"]))
    spec = recorded_steps.phases(study)["pretrain"]
    real, made = coser_image.open_task(spec.task, study.data).signature, recorded_steps.made_up(4, 1024).signature
    assert (real.input, real.width, real.length, real.target, real.classes, real.levels) == (
        made.input,
        made.width,
        made.length,
        made.target,
        made.classes,
        made.levels,
    )


def test_a_folder_without_the_images_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(SystemExit, match="cifar10"):
        coser_image.main(["--data", str(tmp_path), "--store", str(tmp_path), "--device", "cpu"])
