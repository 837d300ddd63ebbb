"""A fit with a whole model of a person's own: an arm beside the others, saved, served and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from support.own_code import EXAMPLE, OUTPUTS, clean_process, copy_of, fitted_with, headstart

from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier, SequenceRegressor
from headstart.fit.arms import arms, check_names
from headstart.models.own import OwnModel
from headstart.plugins import load_plugins, own_networks
from headstart.plugins.load import load_plugin
from headstart.request.settings import FitSettings
from headstart.serve.folder import load_model

FIT = ["fit", "data.csv", "--target", "label", "--seeds", "1", "--workers", "0"]
SMALL = ["finetune.budget.steps=2", "pretrain.budget.steps=2", "model.width=8", "finetune.optim.lr=1e-3"]
OWN = "arms.my_conv.model.dropout=0.5"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a file, a model of one's own and a fit with it; and what was printed."""
    folder = tmp_path_factory.mktemp("fitted")
    return folder, fitted_with(folder, "my_net.py", EXAMPLE, *FIT, *SMALL, OWN, "--serve", "my_conv", "-o", "model")


@pytest.fixture
def folder(fitted: tuple[Path, str], tmp_path: Path) -> Iterator[Path]:
    with copy_of(fitted[0], tmp_path) as copy:
        yield copy


def test_a_model_of_ones_own_is_an_arm_from_scratch_and_self_pretrained(folder: Path, fitted: tuple[Path, str]) -> None:
    printed = fitted[1]
    assert "my_conv: a model of your own, from scratch and self-pretrained" in printed
    for arm in ("scratch", "self_pretrained", "my_conv_self_pretrained", "kernels", "my_conv"):
        assert arm in printed
    assert "As asked for, predict serves my_conv." in " ".join(printed.split())
    config = json.loads((folder / "model" / "config.json").read_text())
    assert config["network"]["model"] == {"pool": "mean", "kind": "my_conv", "width": 8, "dropout": 0.5}
    assert config["network"]["arm"] == "my_conv"
    assert config["plugins"].keys() == {"my_net"}
    assert (folder / "model" / "source" / "my_net.py").read_text() == EXAMPLE
    card = (folder / "model" / "README.md").read_text()
    assert "your own model, from random weights (my\\_conv, " in card
    assert "--plugin model/source/my_net.py" in card


def test_it_serves_where_a_person_names_the_plugin_and_no_other_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headstart("predict", "model", "data.csv", "-o", "p.csv") == 2
    assert "model/config.json: the plugin my_net (digest" in capsys.readouterr().err
    (folder / "edited.py").write_text(EXAMPLE.replace("torch.relu", "torch.tanh"))
    assert headstart("predict", "model", "data.csv", "-o", "p.csv", "--plugin", "edited.py") == 2
    assert "its code differs" in capsys.readouterr().err
    assert headstart("predict", "model", "data.csv", "-o", "p.csv", "--plugin", "my_net.py") == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 61
    served = load_model("model")
    assert isinstance(served.network, OwnModel)
    assert served.vector_size == 8
    assert SequenceClassifier.from_pretrained("model", plugins=["my_net.py"]).transform(np.zeros((3, 6))).shape == (
        3,
        8,
    )


def test_it_is_exported_where_a_person_names_the_plugin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra [onnx]: make test-onnx")
    assert headstart("export", "model", "--onnx", "m.onnx") == 2
    assert headstart("export", "model", "--onnx", "m.onnx", "--plugin", "my_net.py") == 0
    assert "largest difference to torch" in capsys.readouterr().out


def test_a_folder_cannot_name_a_model_of_a_plugin_that_it_does_not_know_by_its_digest(folder: Path) -> None:
    load_plugin("my_net.py")
    path = folder / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "plugins": {}}))
    with pytest.raises(BadInput, match=r"network\.model\.kind: no 'my_conv'; .* from a plugin whose digest it holds"):
        load_model("model")
    config["network"]["model"] = {"kind": "majority"}
    path.write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"network\.model\.kind: no 'majority'"):
        load_model("model")


BROKEN = [
    ("return x.transpose(1, 2)", "return x", "'my_conv' gives (2, 8, 6) for inputs (2, 6, 1); let it give (B, L, D)"),
    ("x = self.embed(x)", "x = self.embde(x)", "my_net.py, line 35: AttributeError: 'ConvNet' object has no"),
    ("self.dropout = nn", 'self.register_buffer("table", torch.zeros(2, dtype=torch.int16))\n        self.dropout = nn',
     "'table' is of type torch.int16, which a model folder does not hold"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "other", "message"), BROKEN)
def test_a_model_that_cannot_be_trained_or_served_is_refused_before_anything_is_fitted(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, other: str, message: str
) -> None:
    (folder / "my_net.py").write_text(EXAMPLE.replace(text, other))
    assert headstart(*FIT, *SMALL, "-o", "new", "--plugin", "my_net.py", "--store", "other") == 2
    assert message in capsys.readouterr().err
    assert not list((folder / "other").glob("*/result.json"))


def test_names_and_settings_of_such_an_arm_are_checked(folder: Path) -> None:
    (kind,) = own_networks(load_plugins(["my_net.py"]))
    settings = FitSettings(models=(kind,), overrides=("arms.my_conv.model.width=4",))
    assert list(arms()["own"].names_for(settings)) == ["my_conv", "my_conv_self_pretrained"]
    assert arms()["own"].names_for(FitSettings(models=(kind,), pretrain=False, serve="my_conv")) == ("my_conv",)
    assert settings.document() != FitSettings(overrides=settings.overrides[:0]).document()
    with pytest.raises(BadInput, match=r"override: 'arms\.scratch\.model\.width' is not a setting"):
        check_names(FitSettings(models=(kind,), overrides=("arms.scratch.model.width=4",)))
    with pytest.raises(BadInput, match="serve: no 'my_con'; did you mean 'my_conv'"):
        check_names(FitSettings(models=(kind,), serve="my_con"))
    with pytest.raises(BadInput, match="plugin: a fit has a model 'scratch' of its own"):
        check_names(FitSettings(models=("scratch",)))


def test_an_estimator_fits_models_that_give_outputs_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counts.py").write_text(REGRESSION)
    rows = np.random.default_rng(0).normal(size=(40, 5))
    with clean_process():
        model = SequenceRegressor(
            plugins=["counts.py"], seeds=1, epochs=2, pretrain_epochs=1, serve="means", learning_rates=1e-2
        )
        model.fit(rows, rows.sum(1))
        assert {"means", "self_pretrained"} <= {candidate.name for candidate in model.outcome_.candidates}
        assert "means_self_pretrained" not in {candidate.name for candidate in model.outcome_.candidates}
        before = model.predict(rows)
        model.save_pretrained("saved")
        assert np.array_equal(SequenceRegressor.from_pretrained("saved").predict(rows), before)
        with pytest.raises(BadInput, match="gives its outputs itself"):
            model.transform(rows)
    assert torch.isfinite(torch.from_numpy(before)).all()


REGRESSION = (
    OUTPUTS.replace('"counts"', '"means"')
    .replace("nn.functional.one_hot(x, self.layer.in_features).float().sum(1)", "x.mean(1)")
    .replace("signature.classes", "signature.targets")
)
