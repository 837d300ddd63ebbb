"""A fit with a model of series as backbone: one more row without gradients, served without its source."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import saved
from support.series_models import saved_series

from headstart.analysis.occlusion import affordable
from headstart.checkpoints.folder import read_header
from headstart.cli import main
from headstart.errors import BadInput
from headstart.estimator import SequenceRegressor
from headstart.fit.arms import check_names, check_served
from headstart.fit.arms.embedding import FrozenModel
from headstart.fit.arms.weights import find_backbone
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings
from headstart.sequence import Signature
from headstart.serve.folder import load_model

FAST = ["--time", "10h", "--seeds", "1", "--workers", "0", "finetune.budget.steps=2", "pretrain.budget.steps=2"]
FAST += ["finetune.optim.lr=1e-2"]
T5: dict[str, Any] = {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1, "d_ff": 12}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small models in `weights` and with files; nothing is in the hub's cache."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setenv("HEADSTART_WEIGHTS", "weights")  # what --weights sets is undone with it
    monkeypatch.chdir(tmp_path)
    saved_series(tmp_path / "weights" / "bolt", "chronos_bolt")
    saved_series(tmp_path / "weights" / "moment", "moment")
    saved(tmp_path / "weights" / "chronos-t5", {**T5, "chronos_config": {"n_tokens": 4096}})
    (tmp_path / "waves.csv").write_text(waves())
    return tmp_path


def waves(count: int = 40, longest: int = 40) -> str:
    """Two channels, gaps as empty cells, each sequence of another length: a row per position."""
    rng, lines = np.random.default_rng(0), ["id,x,y,label"]
    for i in range(count):
        for t in range(rng.integers(9, longest)):
            x, y = np.sin(t / (2 + 3 * (i % 2))) + rng.normal(0, 0.1), rng.normal()
            lines.append(f"s{i},{x:.3f},{'' if rng.random() < 0.1 else f'{y:.3f}'},{'ab'[i % 2]}")
    return "\n".join(lines) + "\n"


def headstart(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_ragged_series_with_gaps_are_fitted_served_without_the_source_and_repeated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", "waves.csv", "--target", "label", "--backbone", "bolt", "--weights", "weights", "-o", "model"]
    assert headstart(*fit, *FAST, "--serve", "embedding") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "checkpoint bolt: Chronos-Bolt, its encoder of series, 2 blocks, width 16; content " in printed
    assert "licence apache-2.0" in printed
    assert "embedding: frozen features of bolt with logistic regression, 64 of each sequence" in printed
    assert "As asked for, predict serves embedding." in printed
    assert "frozen features of bolt with logistic regression" in (folder / "model" / "README.md").read_text()
    stages = {path.parent.name for path in folder.glob("runs/*/result.json")}
    for path in folder.glob("runs/*/stage.json"):
        if json.loads(path.read_text())["spec"]["model"].get("kind") == "embedding":
            assert read_header(path.with_name("best.safetensors")).keys() == {"weights", "intercept"}
    assert headstart("export", "model", "--onnx", "model.onnx") == 2
    assert "serves 'embedding', which has no ONNX form; --use network exports its network" in capsys.readouterr().err
    shutil.move(folder / "weights", folder / "elsewhere")
    assert headstart("predict", "model", "waves.csv", "-o", "p.csv") == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 41
    served = load_model("model")
    assert served.choices == ("network", "kernels", "summary", "majority", "embedding")
    assert 0 < affordable(served) <= 200
    assert load_model("model", "kernels", others=False).choices == ("kernels", "summary", "majority")
    assert headstart("run", "model/study.toml", "--data", ".", "--weights", "elsewhere", "--workers", "0") == 0
    assert {path.parent.name for path in folder.glob("runs/*/result.json")} == stages
    document = json.loads((folder / "model" / "plan.json").read_text())["study"]
    assert set(document["arms"]["embedding"]["model"]) == {"kind", "content"}, "no place in a plan"
    capsys.readouterr()
    saved_series(folder / "elsewhere" / "bolt", "chronos_bolt", seed=1)
    assert headstart(*fit[:-4], "--weights", "elsewhere", "-o", "model", *FAST, "--serve", "embedding") == 2
    assert "plan.json: was made for other data or settings" in capsys.readouterr().err


def test_a_regression_in_python_has_the_arm_too(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 20)).cumsum(1)
    model = SequenceRegressor(
        backbone=folder / "weights" / "moment",
        seeds=1,
        epochs=1,
        pretrain=False,
        learning_rates=1e-2,
        serve="embedding",
    )
    model.fit(rows, rows.std(1))
    names = [candidate.name for candidate in model.outcome_.candidates]
    assert names == ["scratch", "inception", "kernels", "summary", "majority", "embedding"]
    assert model.outcome_.candidate("embedding").text == "frozen features of moment with ridge regression"
    assert str(folder) not in model.outcome_.answer + "".join(model.outcome_.plan)
    shutil.rmtree(folder / "weights")
    assert model.predict(rows).shape == (30,)
    model.save_pretrained("saved")
    assert np.array_equal(SequenceRegressor.from_pretrained("saved").predict(rows), model.predict(rows))


REFUSED = [
    (
        "waves.csv",
        ["--backbone", "chronos-t5"],
        "backbone: 'chronos-t5' is a Chronos that reads numbers as tokens of its",
    ),
    ("texts.csv", ["--backbone", "bolt"], "backbone: 'bolt' reads series of numbers, and the sequences are text"),
    (
        "waves.csv",
        ["--backbone", "bolt", "--serve", "backbone"],
        "serve: 'backbone' is no model of bolt; it has 'embedding'",
    ),
    ("waves.csv", ["--backbone", "broken"], "no tensor 'shared.weight', which config.json asks for"),
    ("waves.csv", ["--backbone", "MOMENT-1-small"], "`headstart prepare MOMENT-1-small` download it"),
]


@pytest.mark.parametrize(("file", "options", "message"), REFUSED)
def test_what_cannot_be_fitted_is_refused_before_anything_is_fitted(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, options: list[str], message: str
) -> None:
    from safetensors.torch import load_file, save_file

    (folder / "texts.csv").write_text(
        "text,label\n" + "".join(f"a film {i} was good,{'ab'[i % 2]}\n" for i in range(30))
    )
    path = saved_series(folder / "weights" / "broken", "chronos_bolt") / "model.safetensors"
    save_file({name: x for name, x in load_file(path).items() if name != "shared.weight"}, path)
    assert headstart("fit", file, "--target", "label", *options, "--workers", "0") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(folder.glob("runs/*/result.json"))


def test_it_is_left_out_where_its_features_take_more_than_half_of_the_time() -> None:
    backbone = find_backbone("bolt", "numbers")
    assert isinstance(backbone, FrozenModel)
    slow = replace(backbone, seconds=51.0)
    basis = Basis({}, "numbers", Signature("floats", 2, 9, 9, "class"), 9, 9, 9, 9, None, (), Path(), read=(slow,))
    assert replace(backbone, seconds=50.0).fits(100.0)
    assert not slow.fits(100.0)
    assert slow.fits(None)
    with pytest.raises(BadInput, match="serve: there is no time for 'embedding'; give more --time"):
        check_served(FitSettings(backbone="bolt", time=100.0, serve="embedding"), basis)
    text = slow.texts(basis.signature, fits=False)[1]
    assert text.endswith("is left out: to compute them takes some 51 s, more than half of the time")
    with pytest.raises(BadInput, match="a fit has a model 'embedding' of its own"):
        check_names(FitSettings(models=("embedding",)))
