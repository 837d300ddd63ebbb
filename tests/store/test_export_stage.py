"""A stage's weights as one file, and a loaded network on plain arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from support.checkpoints import GPT2, saved

import headstart
from headstart.checkpoints.read import read_checkpoint
from headstart.cli import main
from headstart.errors import BadInput
from headstart.sequence import Batch, collate
from headstart.store import export_stage

STUDY: dict[str, Any] = {
    "name": "x",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 2}},
        "finetune": {
            "objective": {"kind": "classify"},
            "budget": {"steps": 2},
            "parent": "pretrain",
            "start": ["take(all-head)"],
            "trainable": "head",
        },
    },
    "columns": {
        "tokens": {"task": {"kind": "listops", "train": 48, "val": 8, "test": 8, "min_length": 5, "max_length": 12}},
        "floats": {"task": {"kind": "digits", "fraction": 0.1}},
    },
    "arms": {"frozen": {"model": {"width": 8, "blocks": 1}}},
    "report": {"baselines": False},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> headstart.Study:
    bound = headstart.Study(STUDY, store=tmp_path_factory.mktemp("runs"))
    list(bound.perform())
    return bound


def last(study: headstart.Study, column: str) -> str:
    return next(cell.chain[-1].identity for cell in study.plan.cells if cell.column == column)


def test_a_frozen_stage_is_exported_whole_with_what_it_is(study: headstart.Study, tmp_path: Path) -> None:
    identity = last(study, "tokens")
    result = study.store.result(identity)
    assert result is not None
    assert result["references"], "its own file lacks what the parent holds"
    file = tmp_path / "weights.safetensors"
    with pytest.raises(SystemExit) as ended:
        main(["export", identity[:6], "-o", str(file), "--store", str(study.store.root)])
    assert not ended.value.code
    weights = load_file(file)
    model = headstart.load(identity, store=study.store.root)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    with safe_open(file, "pt") as opened:
        meta = json.loads(opened.metadata()["headstart"])["meta"]
    assert (meta["identity"], meta["name"], meta["weights"]) == (identity, "finetune", "best")
    assert meta["spec"]["model"]["width"] == 8
    assert meta["scores"] == result["scores"]["best"]


def test_a_stage_whose_frozen_tensors_are_shared_by_content_is_exported_whole(tmp_path: Path) -> None:
    saved(tmp_path / "weights" / "small", {**GPT2, "n_embd": 64, "n_positions": 64})
    source = str(tmp_path / "weights" / "small")
    model = {"like": source}
    table = {
        "name": "shared",
        "stages": {
            "small": {"checkpoint": {"source": source}},
            "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 2}, "trainable": "head"},
        },
        "columns": {"floats": {"task": {"kind": "digits", "fraction": 0.1}, "model": model}},
        "arms": {"random": {}, "taken": {"finetune": {"parent": "small", "start": ["take(backbone)"]}}},
        "report": {"baselines": False},
    }
    bound = headstart.Study(table, store=tmp_path / "runs")
    headstart.run(bound)
    shared = 0
    for planned in bound.plan.stages.values():
        result = bound.store.result(planned.identity)
        assert result is not None
        shared += bool(result.get("tensors"))
        for which in ("best", "last"):
            file = tmp_path / f"{planned.identity}-{which}.safetensors"
            export_stage(bound.store, planned.identity, file, which)  # type: ignore[arg-type]
            whole = bound.store.weights(planned.identity, which)  # type: ignore[arg-type]
            weights = load_file(file)
            assert weights.keys() == whole.keys()
            assert all(torch.equal(weights[name], value) for name, value in whole.items())
    assert shared >= 2, "the checkpoint and the random backbone are files of their content"
    tensors = dict(read_checkpoint(source).tensors())
    (small,) = [planned for planned in bound.plan.stages.values() if planned.name == "small"]
    weights = load_file(tmp_path / f"{small.identity}-best.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in tensors.items())
    for cell in bound.plan.cells:
        identity = cell.chain[-1].identity
        weights = load_file(tmp_path / f"{identity}-best.safetensors")
        model = headstart.load(identity, store=tmp_path / "runs").state_dict()
        assert weights.keys() == model.keys()
        assert all(torch.equal(weights[name], value) for name, value in model.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "export: name one file: --onnx FILE or --sklearn FILE for a model folder, or -o FILE.safetensors for "),
        (["-o", "a.safetensors", "--onnx", "b"], "export: name one file"),
        (["-o", "weights.pt"], "is not a .safetensors file; give one, as in -o weights.safetensors"),
        (["-o", "nowhere/a.safetensors"], "-o: 'nowhere/a.safetensors' is not a file in an existing folder"),
    ],
)
def test_what_cannot_be_exported_is_said(
    study: headstart.Study, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", last(study, "tokens"), *words, "--store", str(study.store.root)])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_model_folder_is_no_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), "-o", str(tmp_path / "a.safetensors")])
    assert ended.value.code == 2
    assert "is a folder, and -o writes a stage; use --onnx or --sklearn for a model" in capsys.readouterr().err


def test_a_stage_without_weights_is_not_exported(tmp_path: Path) -> None:
    arm = {"rule": {"model": {"kind": "task"}}}
    columns = {"tokens": STUDY["columns"]["tokens"]}
    stages = {"finetune": {"objective": {"kind": "classify"}}}
    bound = headstart.Study({**STUDY, "stages": stages, "columns": columns, "arms": arm}, store=tmp_path)
    list(bound.perform())
    (identity,) = bound.plan.stages
    with pytest.raises(BadInput, match="has no weights, only scores"):
        export_stage(bound.store, identity, tmp_path / "a.safetensors")


@pytest.mark.parametrize("column", ["tokens", "floats"])
def test_a_loaded_network_takes_plain_arrays_and_tensors(study: headstart.Study, column: str) -> None:
    identity = last(study, column)
    model = headstart.load(identity, store=study.store.root)
    cell = next(cell for cell in study.plan.cells if cell.column == column)
    test = cell.chain[-1].spec.task.load(study.data).test
    batch = collate(test, np.arange(4))
    whole = model(batch)
    lengths = batch.valid.sum(1)
    assert torch.equal(model(batch.inputs, lengths=lengths), whole)
    assert torch.equal(model(batch.inputs.numpy(), lengths=lengths.tolist()), whole)
    if column == "floats":
        assert torch.equal(model(batch.inputs[:, :, 0].double()), whole)
    assert torch.equal(model(batch.inputs[:1, : lengths[0]]), model(collate(test, np.arange(1))))


def test_missing_values_of_plain_inputs_are_seen() -> None:
    batch = Batch.of(np.array([[1.0, np.nan], [2.0, 3.0]]))
    assert batch.observed is not None
    assert batch.observed[:, :, 0].tolist() == [[True, False], [True, True]]
    assert batch.inputs[0, 1, 0] == 0
    assert Batch.of([[1, 2]], lengths=[1]).valid.tolist() == [[True, False]]
