"""A fit with code of a person's own: saved with the digest of the plugin, served where the person names its file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.own_code import OBJECTIVE, REGISTERED, copy_of, fitted_with, headstart

from headstart.api import Study
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier
from headstart.plugins.load import load_plugin
from headstart.serve.folder import load_model

START = ["fit", "data.csv", "--target", "label", "--seeds", "1", "--workers", "0", "--serve", "network"]
FIT = [*START, "-o", "model"]
PRETRAINS = """
from typing import Literal
import headstart
from headstart.objectives import MaskedSpec


class HiddenSpec(MaskedSpec):
    kind: Literal["hidden"] = "hidden"

    def measure(self, output, batch, signature):
        sums = super().measure(output, batch, signature)
        return {**sums, "loss": 2 * sums["loss"]}


headstart.register_objective("hidden", HiddenSpec)
"""
SMALL = ["finetune.budget.steps=2", "pretrain.budget.steps=2", "model.width=8"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a file, a plugin and a model that was fitted with it; and what was printed."""
    folder = tmp_path_factory.mktemp("fitted")
    return folder, fitted_with(folder, "my_mixer.py", REGISTERED, *FIT, *SMALL, 'model.mixer={kind="scale"}')


@pytest.fixture
def folder(fitted: tuple[Path, str], tmp_path: Path) -> Iterator[Path]:
    with copy_of(fitted[0], tmp_path) as copy:
        yield copy


def test_a_model_folder_holds_the_source_and_the_digest_of_its_plugins(folder: Path, fitted: tuple[Path, str]) -> None:
    printed = " ".join(fitted[1].split())
    assert "of scale, width 8" in printed
    assert "--plugin model/source/my_mixer.py" in printed
    assert (folder / "model" / "source" / "my_mixer.py").read_text() == REGISTERED
    for page in ("README.md", "report.html"):
        assert "predictions.csv --plugin model/source/my_mixer.py" in (folder / "model" / page).read_text()
    assert "my_mixer" in json.loads((folder / "model" / "config.json").read_text())["plugins"]
    with pytest.raises(BadInput, match=r"requires\.my_mixer: the plugin my_mixer"):
        Study("model/study.toml")


def test_its_network_serves_where_a_person_names_the_plugin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headstart("predict", "model", "data.csv", "-o", "p.csv") == 2
    assert "model/config.json: the plugin my_mixer (digest" in capsys.readouterr().err
    (folder / "edited.py").write_text(REGISTERED.replace("FACTOR = 1.0", "FACTOR = 2.0"))
    assert headstart("predict", "model", "data.csv", "-o", "p.csv", "--plugin", "edited.py") == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "is needed and edited.py that is loaded has the digest " in printed
    assert ": its code differs; name the file as it was with --plugin" in printed
    assert headstart("predict", "model", "data.csv", "-o", "p.csv", "--plugin", "model/source/my_mixer.py") == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 61


def test_its_network_is_exported_where_a_person_names_the_plugin(folder: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra [onnx]: make test-onnx")
    assert headstart("export", "model", "--onnx", "m.onnx", "--plugin", "my_mixer.py") == 0


def test_an_estimator_takes_the_plugins_of_a_folder(folder: Path) -> None:
    with pytest.raises(BadInput, match="is needed and not loaded"):
        SequenceClassifier.from_pretrained("model")
    model = SequenceClassifier.from_pretrained("model", plugins=["my_mixer.py"])
    assert list(model.classes_) == ["down", "up"]


def test_a_folder_cannot_name_a_kind_of_a_plugin_that_it_does_not_know_by_its_digest(folder: Path) -> None:
    load_plugin("my_mixer.py")
    path = folder / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "plugins": {}}))
    with pytest.raises(BadInput, match=r"network\.model\.mixer\.kind: no 'scale'; .* from a plugin whose digest it"):
        load_model("model")
    path.write_text(json.dumps({**config, "plugins": ["my_mixer"]}))
    with pytest.raises(BadInput, match=r"network\.model\.mixer\.kind: no 'scale'"):
        load_model("model")


def test_what_a_fit_cannot_serve_is_refused_before_anything_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "my_loss.py").write_text(OBJECTIVE)
    assert headstart(*START, *SMALL, "-o", "new", "--plugin", "my_loss.py", "finetune.objective.kind=sure") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "override: finetune: the objective 'sure' comes from a plugin, and what is served must answer with" in error
    assert "name it as pretrain.objective.kind=sure, or compare" in error


def test_an_objective_of_a_plugin_self_pretrains(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my_masked.py").write_text(PRETRAINS)
    words = ("--plugin", "my_masked.py", "pretrain.objective.kind=hidden")
    assert headstart(*START, *SMALL, "-o", "new", *words) == 0
    assert "train sequences, the objective hidden, of your own" in " ".join(capsys.readouterr().out.split())
    assert "my_masked" in tomllib.loads((folder / "new" / "study.toml").read_text())["requires"]
    # What is served was self-pretrained by it, and answers without it.
    assert headstart("predict", "new", "data.csv", "-o", "p.csv") == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("pretrain.objective.kind=causal",), "the objective 'causal' needs a causal model; set model.causal = true"),
        (("pretrain.objective.kind=regress",), "'regress' needs number targets, the task has 'class'"),
        (("--plugin", "my_ahead.py", "pretrain.objective.kind=ahead"), "'ahead' has no method `output`"),
        (("-o", "model", "--balanced"), "plan.json: was made for other data or settings"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_a_model_without_a_network_is_fitted(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    (folder / "my_ahead.py").write_text(PRETRAINS.replace("MaskedSpec", "ObjectiveSpec").replace("hidden", "ahead"))
    (folder / "runs").rename(folder / "before")
    assert headstart(*START, *(() if "-o" in words else ("-o", "new")), *words) == 2
    captured = capsys.readouterr()
    assert text in " ".join(captured.err.split())
    assert "a first usable model" not in captured.out
    assert not list(folder.glob("runs/*/result.json"))
