"""A model folder as one file that skops reads: the same answers, no pickle, nothing of it trusted unseen."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from support.made_models import made, walks

from headstart import BadInput, SequenceClassifier, SequenceRegressor
from headstart.cli import main
from headstart.estimator import exported
from headstart.estimator.exported import ExportedClassifier, ExportedModel, export_sklearn, trusted_name
from headstart.serve.folder import save_model
from headstart.verbs import predict

skops_io = pytest.importorskip("skops.io", reason="needs the extra [skops]: pip install 'headstart[skops]'")

CLASSES = "headstart.estimator.exported.ExportedClassifier"


def folder_of(path: Path, **more: Any) -> Path:
    save_model(made(walks(channels=2, gaps=True, **more), ("majority", "summary")), path)
    return path


def arrays(n: int = 5) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal((length, 2)) for length in range(8, 8 + n)]


def test_a_classifier_answers_from_the_file_as_from_the_folder(tmp_path: Path) -> None:
    folder, file = folder_of(tmp_path / "model"), tmp_path / "model.skops"
    export_sklearn(folder, file)
    assert skops_io.get_untrusted_types(file=file) == [CLASSES]
    again = skops_io.load(file, trusted=[CLASSES])
    first = SequenceClassifier.from_pretrained(folder)
    assert isinstance(again, ExportedClassifier)
    check_is_fitted(again)
    assert list(again.classes_) == list(first.classes_)
    np.testing.assert_array_equal(again.predict_proba(arrays()), first.predict_proba(arrays()))
    np.testing.assert_array_equal(again.predict(arrays()), first.predict(arrays()))
    np.testing.assert_array_equal(again.transform(arrays()), first.transform(arrays()))
    assert 0 <= again.score(arrays(), first.predict(arrays())) <= 1
    np.testing.assert_array_equal(make_pipeline(again).predict(arrays()), first.predict(arrays()))


def test_numbers_are_answered_in_their_own_unit(tmp_path: Path) -> None:
    folder, file = folder_of(tmp_path / "model", numbers=True), tmp_path / "model.skops"
    again = export_sklearn(folder, file)
    first = SequenceRegressor.from_pretrained(folder)
    np.testing.assert_array_equal(again.predict(arrays()), first.predict(arrays()))
    assert trusted_name(again).endswith("ExportedRegressor")


def test_nothing_in_the_file_is_a_pickle_and_nothing_is_read_without_trust(tmp_path: Path) -> None:
    file = tmp_path / "model.skops"
    export_sklearn(folder_of(tmp_path / "model"), file)
    with zipfile.ZipFile(file) as whole:
        names = whole.namelist()
        assert {Path(name).suffix for name in names} == {".npy", ".json"}
        for name in names:
            if name.endswith(".npy"):
                with whole.open(name) as part:
                    assert np.load(part, allow_pickle=False).dtype == np.uint8
        assert "allow_pickle" not in json.dumps(json.loads(whole.read("schema.json")))
    with pytest.raises(Exception, match="Untrusted types found"):
        skops_io.load(file, trusted=[])


def test_bytes_that_are_no_model_are_refused_as_in_a_folder(tmp_path: Path) -> None:
    again = export_sklearn(folder_of(tmp_path / "model"), tmp_path / "a.skops")
    assert again.files is not None
    damaged = dict(again.files)
    damaged["model.safetensors"] = damaged["model.safetensors"][:-8]
    odd: tuple[Any, ...] = (None, {}, [1], "x", {"config.json": "{}"}, {"config.json": np.array([None])})
    for files, message in ((damaged, "model.safetensors"), *((files, "config.json") for files in odd)):
        with pytest.raises(BadInput, match=message):
            ExportedClassifier(files).predict(arrays())
    outside = {**again.files, "../escaped.txt": np.zeros(3, np.uint8)}
    ExportedClassifier(outside).predict(arrays())
    assert not list(tmp_path.glob("**/escaped.txt"))
    with pytest.raises(BadInput, match="fit: an exported model is fitted already; fit a new SequenceClassifier"):
        again.fit(arrays(), [0] * 5)
    copy = clone(again)
    assert isinstance(copy, ExportedModel)
    np.testing.assert_array_equal(copy.predict(arrays()), again.predict(arrays()))
    with pytest.raises(NotFittedError):
        check_is_fitted(SequenceClassifier())


def test_a_file_that_skops_reads_otherwise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "model")
    monkeypatch.setattr(
        skops_io, "loads", lambda *_, **__: ExportedClassifier({"config.json": 0, "model.safetensors": 0})
    )
    with pytest.raises(BadInput, match="skops does not read what it wrote; nothing is written"):
        export_sklearn(folder, tmp_path / "a.skops")
    assert not (tmp_path / "a.skops").exists()


def test_a_plugins_model_has_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "plugins_of", lambda _: ["mine"])
    with pytest.raises(BadInput, match="needs a plugin, which a file for skops cannot name; `headstart predict` serv"):
        export_sklearn(folder_of(tmp_path / "model"), tmp_path / "a.skops")


def test_the_verb_writes_the_file_and_says_how_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = folder_of(tmp_path / "model"), tmp_path / "m.skops"
    with pytest.raises(SystemExit) as ended:
        main(["export", str(folder), "--sklearn", str(file)])
    assert ended.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"trusted=['{CLASSES}']" in out
    assert len(skops_io.load(file, trusted=[CLASSES]).predict(arrays())) == 5
    monkeypatch.setattr(predict, "find_spec", lambda _: None)
    for words in (["export", str(folder), "--sklearn", str(file)], ["fit", "absent.csv", "--export", "sklearn"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert "skops is not installed; pip install 'headstart[skops]'" in capsys.readouterr().err
