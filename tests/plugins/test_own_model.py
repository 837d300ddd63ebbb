"""Whole models of a person's own: arms of a study, started from parts, resumed to equal bits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.own_code import EXAMPLE, LISTOPS, OUTPUTS, clean_process, study

import headstart
from headstart.errors import BadInput
from headstart.runner.events import Failed, Finished

MODEL = {"kind": "my_conv", "width": 8, "dropout": 0.3}
PRETRAIN = {"objective": {"kind": "masked"}, "budget": {"steps": 2}, "optim": {"batch_size": 8}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text(EXAMPLE)
    with clean_process():
        yield tmp_path


def of_model(model: dict[str, Any] = MODEL, **more: Any) -> dict[str, Any]:
    """A study of one column whose model is a person's own."""
    table = study(**more)
    table["columns"] = {"c": {"task": more.get("task", LISTOPS), "model": model}}
    return table


def performed(table: dict[str, Any]) -> headstart.Study:
    bound = headstart.Study(table, plugins=["my_net.py"])
    failed = [event.message for event in bound.perform() if isinstance(event, Failed)]
    assert not failed
    return bound


def reason(table: dict[str, Any]) -> str:
    """Why the only stage of a study fails."""
    (event,) = [e for e in headstart.Study(table, plugins=["my_net.py"]).perform() if isinstance(e, (Failed, Finished))]
    assert isinstance(event, Failed)
    return event.message


@pytest.mark.slow
def test_a_model_of_ones_own_is_self_pretrained_and_started_by_parts() -> None:
    taken = {"parent": "pretrain", "start": ["take(encoder)"]}
    frozen = {"parent": "pretrain", "start": ["take(all-head)"], "trainable": "head"}
    table = of_model(arms={"scratch": {}, "encoder": {"finetune": taken}, "frozen": {"finetune": frozen}})
    table["stages"] = {"pretrain": PRETRAIN, **table["stages"]}
    bound = performed(table)
    chains = {cell.arm: cell.chain for cell in bound.plan.cells}
    weights = {name: bound.store.weights(chain[-1].identity, "last") for name, chain in chains.items()}
    parent = bound.store.weights(chains["frozen"][0].identity, "best")
    net = [name for name in parent if name.startswith("net.")]
    assert {"net.embed.weight", "net.norms.0.running_mean", "net.norms.0.num_batches_tracked"} <= set(net)
    assert all(torch.equal(weights["frozen"][name], parent[name]) for name in net), "frozen: statistics still, too"
    assert not torch.equal(weights["encoder"]["net.norms.0.running_mean"], parent["net.norms.0.running_mean"])
    result = bound.store.result(chains["encoder"][-1].identity)
    assert result is not None
    account = {row["part"]: row for row in result["parameters"]["account"]}
    assert account.keys() == {"encoder", "mixer_rest", "head"}
    assert account["encoder"]["taken"] == account["encoder"]["total"]
    assert account["mixer_rest"]["taken"] == 0


def test_the_methods_text_says_what_it_is_and_its_settings(folder: Path) -> None:
    (plan,) = headstart.Study(of_model(), plugins=["my_net.py"]).plan.stages.values()
    own = "a model of the authors' own, 'my_conv' (width 8, dropout 0.3), with mean pooling"
    assert plan.spec.model.describe() == own


@pytest.mark.slow
def test_a_stage_that_was_killed_goes_on_to_equal_bits(folder: Path) -> None:
    (folder / "study.json").write_text(json.dumps({**of_model(), "stages": {"finetune": FINETUNE}}))
    (folder / "perform.py").write_text(PERFORM)
    whole, killed = (subprocess.Popen([sys.executable, "perform.py", name]) for name in ("whole", "killed"))
    deadline = time.monotonic() + 120
    while len(list(folder.glob("killed/*/state-*.safetensors"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    killed.kill()
    killed.wait()
    (broken,) = (folder / "killed").glob("*/stage.json")
    assert not broken.with_name("result.json").exists(), "it was killed before its end"
    assert subprocess.run([sys.executable, "perform.py", "killed"], check=False).returncode == 0
    assert whole.wait() == 0
    (result,) = (json.loads(path.read_text()) for path in (folder / "whole").glob("*/result.json"))
    again = json.loads(broken.with_name("result.json").read_text())
    assert again["provenance"]["attempts"] == 2
    for name in ("best.safetensors", "last.safetensors", "predictions.safetensors"):
        assert again["files"][name] == result["files"][name], name
    assert again["scores"] == result["scores"]


FINETUNE = {
    "objective": {"kind": "classify"},
    "budget": {"steps": 60, "evaluate_every": 5},
    "optim": {"batch_size": 8},
}
PERFORM = """
import json, sys
import headstart
from headstart.runner.job import Runtime
from headstart.runner.perform import perform

bound = headstart.Study(json.load(open("study.json")), plugins=["my_net.py"], store=sys.argv[1])
list(perform(bound.plan.stages.values(), bound.store, Runtime(bound.data, "cpu", save_every=0.0)))
"""


def test_a_model_may_give_the_outputs_themselves_and_replace_its_buffers(folder: Path) -> None:
    (folder / "my_net.py").write_text(OUTPUTS)
    bound = performed(of_model({"kind": "counts"}))
    (identity,) = bound.plan.stages
    assert bound.store.weights(identity, "last")["net.seen"] == 16, "two steps of 8"
    model = headstart.load(identity, plugins=["my_net.py"])
    assert type(model.net).__name__ == "Counts"
    table = of_model({"kind": "counts"})
    table["stages"] = {"pretrain": PRETRAIN, "finetune": {**table["stages"]["finetune"], "parent": "pretrain"}}
    table["stages"]["finetune"]["start"] = ["take(all)"]
    with pytest.raises(BadInput, match=r"pretrain: objective: 'masked' needs a head of its own, and .* 'counts' gives"):
        headstart.Study(table, plugins=["my_net.py"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("    width: int = 32\n", ""), "'my_conv' says no width; write `width: int = 64`"),
        (("return x.transpose(1, 2)", "return x"), "'my_conv' gives (1, 8, "),
        (("return x.transpose(1, 2)", "return x.mean(2)"), "let it give (B, L, D) = (4, "),
        (('{"embed": "encoder"}', '{"embed": "encode"}'), "parts: no 'encode'; did you mean 'encoder'?"),
        (
            ('{"embed": "encoder"}', '["embed"]'),
            "model.kind: 'my_conv': parts is ['embed']; write the beginnings of tensors' names",
        ),
        (
            ("return ConvNet(signature, self.width, self.dropout)", "return None"),
            "build gives NoneType; return a torch",
        ),
    ],
)
def test_what_a_model_of_ones_own_must_give_is_said(folder: Path, change: tuple[str, str], message: str) -> None:
    text = EXAMPLE.replace(*change)
    (folder / "my_net.py").write_text(text.replace("self.width", "8") if "width: int" in change[0] else text)
    model = {"kind": "my_conv"} | ({} if "width: int" in change[0] else {"width": 8})
    assert message in reason(of_model(model))


@pytest.mark.slow
def test_such_a_model_is_trained_in_a_worker_and_its_stage_holds_the_source(folder: Path) -> None:
    bound = headstart.Study(of_model(), plugins=["my_net.py"])
    assert [type(event) for event in bound.perform(workers=1) if isinstance(event, (Failed, Finished))] == [Finished]
    (identity,) = bound.plan.stages
    assert (folder / "runs" / identity / "source" / "my_net.py").read_text() == EXAMPLE
    shutil.rmtree(folder / "runs" / identity / "source")
    assert "source/my_net.py" in str(bound.store.problem(identity))
