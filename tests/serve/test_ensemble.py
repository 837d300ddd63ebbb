"""A folder that serves the average of its network and a model without one."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_models import made, rewritten, texts, walks

from headstart import SequenceClassifier
from headstart.analysis.occlusion import affordable
from headstart.cli import main
from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.errors import BadInput
from headstart.serve.config import HeldOut, ModelConfig
from headstart.serve.folder import load_model, save_model
from headstart.serve.model import Served
from headstart.spec import read

MEMBERS = ("network", "kernels")
SETS: dict[str, tuple[Sequences, dict[str, Any]]] = {
    "numbers in patches": (walks(channels=2, gaps=True), {"patch": 3}),
    "text": (texts("text"), {}),
    "a target that is a number": (walks(numbers=True), {}),
}


def averaging(s: Sequences, other: str = "kernels", **more: Any) -> Served:
    """A model as `made` makes it, that serves the average."""
    served = made(s, ("summary", "kernels"), **more)
    errors = HeldOut(errors=tuple(np.linspace(0, 0.6, 30).tolist()), source="validation")
    document = served.config.model_dump(mode="json") | {"ensemble": ["network", other], "serve": "ensemble"}
    config = read(ModelConfig, document | {"held_out": {"ensemble": errors.model_dump()}})
    return Served(config, served.network, served.classics)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `model` that serves an average, and `new.csv` with ids and labels."""
    rng = np.random.default_rng(0)
    lines = ["id,kind," + ",".join(f"t{i}" for i in range(12))]
    for i in range(23):
        lines.append(f"s{i},{('calm', 'wild')[i % 2]}," + ",".join(f"{x:.3f}" for x in rng.normal(i % 2, 1, 12)))
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    s = read_sequences(tmp_path / "new.csv", LayoutSpec(target="kind"))
    save_model(averaging(s), tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "model"


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    done = capsys.readouterr()
    return int(ended.value.code or 0), done.out, done.err


def shares(text: str) -> np.ndarray:
    return np.array([[float(row["p_calm"]), float(row["p_wild"])] for row in csv.DictReader(text.splitlines())])


@pytest.mark.parametrize("name", SETS)
def test_it_answers_the_average_of_its_members_by_hand(name: str, tmp_path: Path) -> None:
    s, more = SETS[name]
    save_model(averaging(s, **more), tmp_path)
    served = load_model(tmp_path)
    assert served.choices == ("network", "summary", "kernels", "ensemble")
    first, second = (load_model(tmp_path).predict(s, member) for member in MEMBERS)
    assert np.abs(first - second).max() > 0.01
    np.testing.assert_allclose(served.predict(s), (first + second) / 2, atol=1e-6)
    assert served.predict(s.take(np.zeros(0, dtype=np.int64))).shape == first[:0].shape


def test_a_folder_without_one_has_no_such_model() -> None:
    served = made(walks(), ("kernels",))
    assert "ensemble" not in served.choices
    with pytest.raises(BadInput, match="use: no 'ensemble'"):
        served.predict(walks(), "ensemble")


@pytest.mark.parametrize(
    "change",
    [
        {"ensemble": ["network", "ngrams"]},
        {"ensemble": ["kernels", "kernels"]},
        {"ensemble": ["network"]},
        {"network": None},
    ],
)
def test_a_config_without_both_members_is_refused(change: dict[str, Any]) -> None:
    document = averaging(walks()).config.model_dump(mode="json")
    with pytest.raises(BadInput, match=r"ensemble: .* are not several of"):
        read(ModelConfig, document | change)
    with pytest.raises(BadInput, match="serve: no 'ensemble'"):
        read(ModelConfig, document | {"ensemble": []})


def test_a_member_alone_is_loaded_without_the_other(folder: Path) -> None:
    served = load_model(folder, "kernels", others=False)
    assert served.choices == ("summary", "kernels")
    assert load_model(folder, others=False).choices == ("network", "summary", "kernels", "ensemble")


@pytest.mark.parametrize("member", MEMBERS)
def test_a_damaged_member_is_refused_by_the_name_of_its_file(member: str, folder: Path, capsys: Any) -> None:
    def lose(tensors: dict[str, Any]) -> None:
        del tensors[next(name for name in sorted(tensors) if name.startswith(f"{member}."))]

    rewritten(folder, weights=lose)
    code, out, err = ran(capsys, "predict", "model", "new.csv")
    assert (code, out) == (2, "")
    assert f"model/model.safetensors: lacks '{member}." in err


def test_blocks_are_answered_as_the_whole(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code, whole, err = ran(capsys, "predict", "model", "new.csv")
    assert code == 0
    assert "on the 23 rows with a label: accuracy" in err
    monkeypatch.setattr("headstart.data.sources.BLOCK_BYTES", 5)
    code, blocks, _ = ran(capsys, "predict", "model", "new.csv")
    assert code == 0
    np.testing.assert_allclose(shares(blocks), shares(whole), atol=1e-5)
    first, second = (shares(ran(capsys, "predict", "model", "new.csv", "--use", use)[1]) for use in MEMBERS)
    np.testing.assert_allclose(shares(whole), (first + second) / 2, atol=2e-6)  # six digits are written


def test_it_gives_sets_and_says_where_it_looks(folder: Path, capsys: Any) -> None:
    code, out, err = ran(
        capsys, "predict", "model", "new.csv", "--confidence", "0.8", "--explain", "looks.csv", "-o", "out.csv"
    )
    assert (code, out) == (0, "")
    assert "conformal, by 30 sequences held out (validation)" in err
    assert "where ensemble looks in 23 sequences: looks.csv" in err.replace("\n", " ")
    row = next(csv.DictReader((folder.parent / "out.csv").read_text().splitlines()))
    assert {"in_calm", "in_wild"} <= set(row)
    assert affordable(load_model(folder)) == 200


def test_long_sequences_are_named_as_those_of_the_network(folder: Path, capsys: Any) -> None:
    long = [line + ",1,2,3" for line in (folder.parent / "new.csv").read_text().splitlines()[1:]]
    head = "id,kind," + ",".join(f"t{i}" for i in range(15))
    (folder.parent / "long.csv").write_text("\n".join([head, *long]) + "\n")
    code, _, err = ran(capsys, "predict", "model", "long.csv")
    assert code == 0
    text = "23 of 23 sequences are longer than the 12 positions that network was fitted to; only the first count for it"
    assert text in err.replace("\n", " ")


def test_it_has_no_onnx_form(folder: Path, capsys: Any) -> None:
    code, _, err = ran(capsys, "export", "model", "--onnx", "m.onnx")
    assert code == 2
    assert "serves 'ensemble', which has no ONNX form; --use network exports its network" in err.replace("\n", " ")


def test_the_estimators_answer_as_the_folder(folder: Path, tmp_path: Path) -> None:
    s = read_sequences(folder.parent / "new.csv", LayoutSpec(target="kind"))
    rows = np.array(np.split(s.values[:, 0], len(s)))
    model = SequenceClassifier.from_pretrained(folder)
    np.testing.assert_allclose(model.predict_proba(rows), load_model(folder).predict(s), atol=1e-6)
    model.save_pretrained(tmp_path / "again")
    assert load_model(tmp_path / "again").config.serve == "ensemble"
    pytest.importorskip("skops.io", reason="needs the extra [skops]: pip install 'headstart[skops]'")
    from headstart.estimator.exported import export_sklearn

    exported = export_sklearn(folder, tmp_path / "model.skops")
    np.testing.assert_array_equal(exported.predict_proba(rows), model.predict_proba(rows))
