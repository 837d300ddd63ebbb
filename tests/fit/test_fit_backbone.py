"""A fit with a checkpoint as backbone: its arms, its own letter vectors, what is served, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.checkpoints import saved, weights

from headstart.checkpoints.read import read_checkpoint
from headstart.cli import main
from headstart.data.alphabets import ALPHABETS
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier, SequenceRegressor
from headstart.fit import budget
from headstart.fit.arms import check_names
from headstart.fit.arms.backbone import Backbone
from headstart.fit.arms.weights import find_backbone
from headstart.fit.basis import Amount, Basis
from headstart.fit.defaults import LEAST_STEPS
from headstart.request.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.sequence import Signature
from headstart.serve.folder import load_model

SYMBOLS = [
    "<cls>",
    "<pad>",
    "<eos>",
    "<unk>",
    "L",
    "A",
    "G",
    "V",
    "S",
    "E",
    "R",
    "T",
    "I",
    "D",
    "P",
    "N",
    "K",
    "Q",
    "F",
    "Y",
    "M",
    "H",
    "W",
    "C",
    "X",
    "B",
    "U",
    "Z",
    "O",
    ".",
    "-",
    "<null_1>",
    "<mask>",
]
FEW = ["<cls>", "<unk>", "A", "C", "G"]
ESM: dict[str, Any] = {
    **{"model_type": "esm", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 12, "vocab_size": len(SYMBOLS), "position_embedding_type": "rotary"},
    "token_dropout": True,
}
GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64}
BERT: dict[str, Any] = {
    **{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 12, "max_position_embeddings": 64},
}
FAST = ["--time", "10h", "--seeds", "1", "--workers", "0", "finetune.budget.steps=2", "pretrain.budget.steps=2"]
FAST += ["finetune.optim.lr=1e-2"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small checkpoints in `weights` and with files of several kinds; nothing is in the hub's cache."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setenv("HEADSTART_WEIGHTS", "")  # what --weights sets is undone with it
    monkeypatch.delenv("HEADSTART_WEIGHTS")
    monkeypatch.chdir(tmp_path)
    letters(saved(tmp_path / "weights" / "esm", ESM), SYMBOLS)
    letters(saved(tmp_path / "weights" / "few", {**ESM, "vocab_size": len(FEW)}), FEW)
    for name, config in (("small", GPT2), ("both", BERT)):
        saved(tmp_path / "weights" / name, config)
    (tmp_path / "proteins.fasta").write_text(proteins())
    (tmp_path / "waves.csv").write_text(waves(40))
    return tmp_path


def letters(folder: Path, symbols: list[str]) -> Path:
    (folder / "vocab.txt").write_text("\n".join(symbols) + "\n")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return folder


def proteins(alphabet: str = "ACDEFGHIKLMNPQRSTVWY", count: int = 40) -> str:
    rng = np.random.default_rng(0)
    rows = ["".join(rng.choice(list(alphabet), rng.integers(16, 24))) for _ in range(count)]
    return "".join(f">p{i} {'ab'[i % 2]}\n{'KK' * (i % 2)}{row}\n" for i, row in enumerate(rows))


def waves(positions: int, count: int = 40) -> str:
    rng = np.random.default_rng(0)
    head = "label," + ",".join(f"t{i}" for i in range(positions))
    rows = [",".join(["ab"[i % 2], *(f"{x:.3f}" for x in rng.normal(i % 2, 1, positions))]) for i in range(count)]
    return "\n".join([head, *rows]) + "\n"


def headstart(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def basis(backbone: Backbone) -> Basis:
    signature = Signature("tokens", 25, 100, 100, "class", classes=2)
    lengths = np.full(300, 100)
    return Basis({}, "protein", signature, 300, 300, 60, 40, lengths, (), Path("data"), read=(backbone,))


def test_proteins_meet_the_letter_vectors_of_the_checkpoint_and_are_served_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", "proteins.fasta", "--target", "word 2", "--backbone", "esm", "--weights", "weights", "-o", "model"]
    assert headstart(*fit, *FAST, "--serve", "backbone") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "checkpoint esm: ESM-2, with its vectors of amino acids, 2 blocks, width 8; content " in printed
    assert "licence mit" in printed
    assert "20 of 20 symbols of the sequences have vectors of their own in esm" in printed
    assert "backbone: layers of esm, frozen; the head is trained, 2 steps" in printed
    assert "backbone_tuned: layers of esm, frozen but for their norms; input layer and head are trained too" in printed
    assert "Whether the frozen checkpoint helped is undecided with one seed" in printed
    assert "As asked for, predict serves backbone." in printed
    assert "licence mit" in (folder / "model" / "README.md").read_text()
    theirs = dict(read_checkpoint(folder / "weights" / "esm").tensors())
    shutil.rmtree(folder / "weights")
    served = load_model("model").network
    assert served is not None
    ours = served.state_dict()
    for row, letter in enumerate(ALPHABETS["protein"]):
        assert torch.equal(ours["encoder.weight"][row], theirs["encoder.weight"][SYMBOLS.index(letter)]), letter
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs if name != "encoder.weight")
    assert headstart("predict", "model", "proteins.fasta", "-o", "p.csv") == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 41


@pytest.mark.slow
def test_the_study_that_a_fit_writes_is_the_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", "waves.csv", "--target", "label", "--backbone", "small", "-o", "model"]
    assert headstart(*fit, *FAST) == 0
    assert "a new input layer and the head are trained, 2 steps" in " ".join(capsys.readouterr().out.split())
    stages = {path.parent.name for path in folder.glob("runs/*/result.json")}
    assert headstart(*fit, *FAST) == 0, "goes on from its plan"
    (folder / "weights").rename(folder / "elsewhere")
    assert headstart("run", "model/study.toml", "--data", ".", "--weights", "elsewhere", "--workers", "0") == 0
    assert {path.parent.name for path in folder.glob("runs/*/result.json")} == stages
    document = json.loads((folder / "model" / "plan.json").read_text())["study"]
    assert document["stages"]["backbone"] == {
        "checkpoint": {"content": read_checkpoint(folder / "elsewhere/small").content}
    }
    saved(folder / "elsewhere" / "small", GPT2, weights(GPT2, seed=1))
    capsys.readouterr()
    assert headstart(*fit, *FAST, "--weights", "elsewhere") == 2
    assert "plan.json: was made for other data or settings" in capsys.readouterr().err


def test_estimators_have_the_arms_too(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 12))
    model = SequenceRegressor(
        backbone=folder / "weights" / "both", seeds=1, epochs=2, pretrain_epochs=1, learning_rates=1e-2, serve="network"
    )
    model.fit(rows, rows.sum(1))
    names = [candidate.name for candidate in model.outcome_.candidates]
    assert names[:5] == ["scratch", "self_pretrained", "inception", "backbone", "backbone_tuned"]
    tuned = model.outcome_.candidate("backbone_tuned")
    assert tuned.text == "layers of both, frozen but for their norms; input layer, positions and head are trained too"
    assert str(folder) not in model.outcome_.answer + "".join(model.outcome_.plan)
    words = rng.choice(list("ACGX"), size=(30, 12))
    classifier = SequenceClassifier(
        backbone="few", seeds=1, epochs=1, pretrain=False, learning_rates=1e-2, serve="backbone", kind="tokens"
    )
    classifier.fit([list(row) for row in words], (words == "A").sum(1) > 2)
    plan = " ".join(classifier.outcome_.plan)
    assert "3 of 4 symbols of the sequences have vectors of their own in few; 'X' are read as unknown" in plan
    network = classifier.served_.network
    assert network is not None
    theirs = dict(read_checkpoint(folder / "weights" / "few").tensors())["encoder.weight"]
    rows_of = [FEW.index(letter) if letter in FEW else FEW.index("<unk>") for letter in "ACGX"]
    assert torch.equal(network.state_dict()["encoder.weight"], theirs[rows_of])
    assert classifier.transform([list(row) for row in words]).shape == (30, 8)


REFUSED = [
    ("waves.csv", ["--backbone", "gpt2"], "backbone: 'gpt2' is neither a folder nor in weights"),
    ("waves.csv", ["--backbone", "./none"], "backbone: there is no folder './none'; name one that holds config.json"),
    ("waves.csv", ["--backbone", "small", "--weights", "no"], "--weights: 'no' is not a folder"),
    (
        "waves.csv",
        ["--backbone", "both", "finetune.objective.kind=causal"],
        "objective.kind: 'causal' asks for no target",
    ),
    ("waves.csv", ["--backbone", "small", "model.width=4"], "finetune.model.width: 4 here and 8 in checkpoint"),
    ("waves.csv", ["--serve", "backbone"], "--serve: no 'backbone'"),
    ("long.csv", ["--backbone", "both"], "'both' has learned vectors for 64 positions, and networks read up to 80"),
    ("texts.csv", ["--backbone", "small"], "'small' would read a text byte by byte through new vectors"),
    ("dna.csv", ["--backbone", "esm"], "'esm' has vectors of amino acids, and the sequences are DNA"),
    ("digits.csv", ["--backbone", "esm"], "'esm' has a vector for no symbol of the sequences ('1', '2')"),
    ("proteins.csv", ["--backbone", "bare"], "'bare' has no vocab.txt, which says what its vectors stand for"),
]


@pytest.mark.parametrize(("file", "options", "message"), REFUSED)
def test_what_cannot_be_fitted_is_refused_before_anything_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, options: list[str], message: str
) -> None:
    rng = np.random.default_rng(0)
    made = {"texts.csv": ["good", "bad", "film", "was"], "dna.csv": list("ACGT"), "digits.csv": list("12")}
    for name, parts in {**made, "proteins.csv": list("ACDEFGHIKLMNPQRSTVWY")}.items():
        blank = "" if name in ("dna.csv", "proteins.csv") else " "
        rows = [f"{blank.join(rng.choice(parts, 24))},{'ab'[i % 2]}" for i in range(30)]
        (folder / name).write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "long.csv").write_text(waves(80))
    saved(folder / "weights" / "bare", ESM)
    kind = {"digits.csv": ["layout.kind=tokens"]}.get(file, [])
    assert headstart("fit", file, "--target", "label", *options, *kind, "--workers", "0") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert message in error
    assert not list(folder.glob("runs/*/result.json"))


def test_half_of_the_time_at_most_is_the_frozen_arms_and_the_second_arm_has_what_is_left(folder: Path) -> None:
    backbone = find_backbone("weights/esm", "protein", "ACD")
    data, settings = basis(backbone), FitSettings(backbone="esm", rates=(1e-3, 3e-3), pretrain=True)
    seconds = {"finetune": StepTime(0.01, 1e-3), "pretrain": StepTime(0.01, 1e-3)}
    seconds |= {"backbone": StepTime(0.1, 0.01), "backbone_tuned": StepTime(0.2, 0.02)}
    whole = budget.whole_amount(data, settings)
    plain = ("scratch", "self_pretrained", "kernels")
    names = ("scratch", "self_pretrained", "backbone", "kernels")

    def cost(amount: Amount) -> float:
        return budget.cost_of(data, settings, amount, seconds)

    def shared(left: float) -> Amount:
        return budget.shared(data, settings, left, 0.0, cost).amount

    def without_tuned(**steps: int) -> Amount:
        return replace(whole, arms=names, apart={"backbone": steps.get("frozen", whole.steps)})

    assert shared(1e9) == whole
    alone = cost(without_tuned())
    assert shared(alone + 1.0) == without_tuned()
    some = shared((alone + cost(whole)) / 2)
    assert LEAST_STEPS <= some.apart["backbone_tuned"] < whole.steps
    short = shared(100.0)
    assert cost(Amount(whole.rates, apart=short.apart, arms=("backbone",))) <= 50.5
    assert ("backbone_tuned" in short.apart, cost(short) <= 100.5) == (False, True)
    seconds["backbone"] = StepTime(1e3, 1e2)
    slow = shared(100.0)
    assert slow.apart == {"backbone": LEAST_STEPS // 5}, "goes on with the same command"
    others = budget.shared(replace(data, read=()), settings, 50.0, 0.0, cost).amount
    assert slow.steps == others.steps, "others have half of the time anyway"
    seconds["backbone"] = StepTime(0.1, 0.01)
    frozen = [cost(amount) for amount in (replace(whole, arms=plain), without_tuned(frozen=1_000))]
    assert frozen[1] - frozen[0] == pytest.approx(6 * (0.01 * (300 + 60 + 40) + 0.0125 * 1_000)), "passed once"
    fresh = replace(data, read=(replace(backbone, kind="numbers"),))
    each = budget.cost_of(fresh, settings, without_tuned(frozen=1_000), seconds) - frozen[0]
    assert each == pytest.approx(6 * (0.1 * 1_000 + 0.01 * (10 * 60 + 2 * 100))), "a new input layer: at every step"


def test_names_of_its_arms_are_taken_and_its_place_decides_no_plan() -> None:
    with pytest.raises(BadInput, match="plugin: a fit has a model 'backbone' of its own"):
        check_names(FitSettings(models=("backbone",)))
    assert FitSettings(backbone="a").document() == FitSettings(backbone="b").document()
