"""A fit that starts from another model: what is taken, what is refused, and that it is served without the other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_models import made, rewritten, texts, tokens, walks

from headstart.checkpoints.model_folder import OwnFields
from headstart.checkpoints.read import read_checkpoint
from headstart.cli import main
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier
from headstart.serve.folder import load_model, save_model
from headstart.store import Store

FAST = ["--time", "10h", "--seeds", "1", "--workers", "0", "finetune.budget.steps=0", "pretrain.budget.steps=1"]
FAST += ["finetune.optim.lr=1e-2"]
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers with gaps, in patches": (walks(channels=2, gaps=True), {"patch": 3}),
    "s4d with batch norm": (walks(), {"mixer": "s4d", "model": {"norm": "batch"}}),
    "learned positions": (walks(), {"model": {"position": {"kind": "learned"}}}),
    "dna": (texts("dna"), {}),
    "text": (texts("text"), {}),
    "tokens": (tokens(), {}),
    "joined letters": (texts("text"), {"model": {"encoder": {"patch": 4}, "position": {"kind": "learned"}}}),
}


def wave_table(positions: int, channels: int = 1, count: int = 40) -> str:
    """A wide table; with several channels their columns are t0_a, t0_b, ..."""
    rng = np.random.default_rng(positions)
    names = [f"t{i}" if channels == 1 else f"t{i}_{'abc'[c]}" for i in range(positions) for c in range(channels)]
    rows = [",".join(["ab"[i % 2], *(f"{x:.3f}" for x in rng.normal(i % 2, 1, len(names)))]) for i in range(count)]
    return "\n".join([",".join(["label", *names]), *rows]) + "\n"


def fit(*words: str) -> int:
    try:
        main(["fit", words[0], *FAST, *words[1:]])
    except SystemExit as done:
        return int(done.code or 0)
    return 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of waves in `first`, made by `headstart fit`, and further waves."""
    monkeypatch.setattr("headstart.baselines.kernels.FEATURES", 84)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waves.csv").write_text(wave_table(20))
    (tmp_path / "longer.csv").write_text(wave_table(30))
    assert fit("waves.csv", "-o", "first", "--serve", "network", "finetune.budget.steps=3") == 0
    return tmp_path


@pytest.mark.parametrize("name", KINDS)
def test_the_network_of_a_model_folder_is_read_but_for_its_head(name: str, tmp_path: Path) -> None:
    s, settings = KINDS[name]
    served = made(s, ("majority", "summary"), **settings)
    save_model(served, tmp_path / "model")
    checkpoint = read_checkpoint(tmp_path / "model")
    assert isinstance(checkpoint.fields, OwnFields)
    assert served.network is not None
    wanted = {name: x for name, x in served.network.state_dict().items() if not name.startswith("head.")}
    tensors = dict(checkpoint.tensors())
    assert tensors.keys() == wanted.keys() == checkpoint.fields.shapes().keys()
    assert all(torch.equal(tensors[name], x) for name, x in wanted.items())
    assert set(checkpoint.dropped.values()) == {
        "the head, which answers another question",
        "a model without gradients, which stands beside the network",
    }
    assert checkpoint.fields.kind == s.kind


def started(folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the served network of a folder."""
    served = load_model(folder)
    assert served.network is not None
    assert served.config.network is not None
    assert served.config.network.arm == "started"
    return served.network.state_dict()


@pytest.mark.slow
def test_an_arm_begins_with_the_weights_of_the_other_model_and_is_served_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit("longer.csv", "-o", "second", "--start", "first", "--serve", "started") == 0
    out = capsys.readouterr().out
    assert "started: weights of first; all of it trains (2 blocks" in out
    first = load_model(folder / "first").network
    assert first is not None
    taken, theirs = started(folder / "second"), first.state_dict()
    for name, tensor in taken.items():
        assert torch.equal(tensor, theirs[name]) != name.startswith("head."), name
    shutil.rmtree(folder / "first")
    with pytest.raises(SystemExit) as ended:
        main(["predict", "second", "longer.csv"])
    assert ended.value.code == 0


@pytest.mark.slow
def test_other_channels_have_a_new_input_layer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    np.savez(folder / "two.npz", X=draw.standard_normal((40, 25, 2)), y=np.arange(40) % 2)
    assert fit("two.npz", "-o", "second", "--start", "first", "--serve", "started", "--target", "y") == 0
    assert "started: weights of first under a new input layer; all of it trains" in capsys.readouterr().out
    first = load_model(folder / "first").network
    assert first is not None
    theirs = first.state_dict()
    for name, tensor in started(folder / "second").items():
        fresh = name.startswith(("head.", "encoder."))
        assert (tensor.shape == theirs[name].shape and torch.equal(tensor, theirs[name])) != fresh, name


@pytest.mark.slow
def test_a_stage_of_the_store_is_a_start_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(folder / "runs")
    stage = next(entry for entry in store.listing() if (entry.stage or {}).get("name") == "pretrain")
    assert fit("longer.csv", "-o", "second", "--start", stage.identity, "--serve", "started") == 0
    assert f"weights of stage {stage.identity} (pretrain); all of it trains" in capsys.readouterr().out
    theirs = store.weights(stage.identity)
    taken = started(folder / "second")
    assert all(torch.equal(taken[name], x) for name, x in theirs.items() if not name.startswith("head."))


def long_texts(count: int = 30) -> tuple[list[str], list[str]]:
    """Texts of 1,100 to 1,129 letters, of which those from 1,000 on say the class, but for the last ten."""
    draw = np.random.default_rng(0)
    bodies = ["".join(draw.choice(list("abcd "), 1_010 + i)) for i in range(count)]
    texts = [body[:-10] + "xy"[i % 2] * 90 + body[-10:] for i, body in enumerate(bodies)]
    return texts, ["ab"[i % 2] for i in range(count)]


def test_a_fit_of_long_texts_joins_letters_is_served_whole_and_is_a_start(tmp_path: Path) -> None:
    X, y = long_texts()
    quick: dict[str, Any] = {"seeds": 1, "epochs": 1, "pretrain_epochs": 1, "learning_rates": 1e-9}
    first = SequenceClassifier(kind="text", serve="network", pretrain=True, **quick).fit(X, y)
    first.save_pretrained(tmp_path / "first")
    served = load_model(tmp_path / "first")
    assert served.network is not None
    assert served.network.patch == 3
    assert served.config.network is not None
    assert served.limit("network") == served.config.network.length == 1_129
    loaded = SequenceClassifier.from_pretrained(tmp_path / "first")
    answers = loaded.predict_proba(X)
    np.testing.assert_allclose(answers, first.predict_proba(X), atol=1e-6)
    ends = [text[:1_000] + "z" * (len(text) - 1_000) for text in X]
    assert np.abs(loaded.predict_proba(ends) - answers).max() > 1e-6  # what a cut at 512 would not see
    short = [text[:300] for text in X]
    later = SequenceClassifier(kind="text", serve="started", start=tmp_path / "first", pretrain=False, **quick)
    network = later.fit(short, y).served_.network
    for name, theirs in served.network.encoder.state_dict().items():
        torch.testing.assert_close(network.encoder.state_dict()[name], theirs, rtol=0, atol=1e-6)


def test_symbols_meet_their_own_vectors(tmp_path: Path) -> None:
    save_model(made(tokens(symbols=("9", "3", "5", "7"))), tmp_path / "model")
    draw = np.random.default_rng(0)
    X = [[str(word) for word in draw.choice(["3", "5", "7", "9"], 8)] for _ in range(24)]
    y = [row[0] for row in X]
    quick = {"seeds": 1, "epochs": 1, "pretrain": False, "learning_rates": 1e-9, "serve": "started"}
    model = SequenceClassifier(kind="tokens", start=tmp_path / "model", **quick).fit(X, y)
    other = load_model(tmp_path / "model")
    assert other.network is not None
    theirs = dict(zip(other.config.preparation.symbols, other.network.state_dict()["encoder.weight"], strict=True))
    ours = model.served_.network.state_dict()["encoder.weight"]
    for symbol, vector in zip(model.served_.config.preparation.symbols, ours, strict=True):
        torch.testing.assert_close(vector, theirs[symbol], rtol=0, atol=1e-6)


def without_network(folder: Path) -> None:
    save_model(made(walks(), ("majority",), network=False), folder / "first")


def plugin(folder: Path) -> None:
    rewritten(folder / "first", lambda config: config["network"]["model"].update(kind="mine"))


def damaged(folder: Path) -> None:
    rewritten(folder / "first", lambda config: config["preparation"].pop("channels"))


def foreign(folder: Path) -> None:
    (folder / "first" / "config.json").write_text(json.dumps({"model_type": "gpt3"}))


def of_letters(folder: Path) -> None:
    save_model(made(texts("dna")), folder / "first")


REFUSED = {
    "no folder": ("nowhere", None, "start: there is no folder 'nowhere', and no such stage: store "),
    "no model": (".", None, "start: '.' holds no config.json; name a folder that `headstart fit` wrote, or a stage's"),
    "no network": ("first", without_network, "the model has no network whose weights could be taken; fit one with"),
    "a plugin": ("first", plugin, "the network is a model of a plugin, whose parts are not known here"),
    "damaged": ("first", damaged, "what it says of the network is incomplete (KeyError('channels')); save the mode"),
    "unknown family": ("first", foreign, "model_type: no 'gpt3'; did you mean 'gpt2'"),
    "another kind": ("first", of_letters, "start: 'first' was fitted to DNA, letter by letter, and these sequences ar"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_started_from_is_refused_before_training(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, change, message = REFUSED[case]
    if change is not None:
        shutil.rmtree(folder / "first") if change in (without_network, of_letters) else None
        change(folder)
    stages = len(Store(folder / "runs").listing())
    assert fit("longer.csv", "-o", "second", "--start", source) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert len(Store(folder / "runs").listing()) == stages


def test_an_arm_that_is_not_there_is_not_served() -> None:
    with pytest.raises(BadInput, match="serve: no 'started'"):
        SequenceClassifier(serve="started").fit(np.zeros((8, 5)), [0, 1] * 4)
