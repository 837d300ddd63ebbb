"""The hub's ways, with a stand-in for its library: what is sent, what is fetched, and what is said where it fails."""

import sys
import types

import numpy as np
import pytest

from headstart import BadInput, SequenceClassifier
from headstart.estimator.hub import is_repository


@pytest.fixture(scope="module")
def fitted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headstart.baselines.kernels.FEATURES", 84)
        X = np.random.default_rng(0).normal(size=(20, 6))
        return SequenceClassifier(epochs=1, pretrain_epochs=1, seeds=1, learning_rates=(3e-3,)).fit(X, [0, 1] * 10)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub of one folder, whose downloads are links out of a cache, as the real one's are."""
    there = types.ModuleType("huggingface_hub")
    there.calls, there.kept = [], tmp_path / "hub"
    there.kept.mkdir()

    class HfApi:
        def __init__(self, token=None):
            there.calls.append(("login", token))

        def create_repo(self, repo_id, *, private, exist_ok, repo_type):
            there.calls.append(("create", repo_id, private, exist_ok, repo_type))
            return f"https://hub/{repo_id}"

        def upload_folder(self, *, repo_id, folder_path, commit_message, repo_type):
            if repo_id.startswith("full/"):
                raise OSError("403 Client Error: no room")
            there.calls.append(("upload", repo_id, commit_message))
            from pathlib import Path

            for path in Path(folder_path).iterdir():
                (there.kept / path.name).write_bytes(path.read_bytes())

    def hf_hub_download(repo_id, filename, *, revision=None, token=None):
        there.calls.append(("download", repo_id, filename, revision, token))
        if repo_id.startswith("gone/"):
            raise OSError("404 Client Error\nrepository not found")
        link = tmp_path / "snapshots" / filename
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(there.kept / filename)
        return str(link)

    there.HfApi, there.hf_hub_download = HfApi, hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", there)
    return there


def test_a_model_goes_to_the_hub_and_comes_back(fitted, hub):
    assert fitted.push_to_hub("me/model", message="first", token="t") == "https://hub/me/model"  # noqa: S106
    assert hub.calls == [("login", "t"), ("create", "me/model", True, True, "model"), ("upload", "me/model", "first")]
    assert {path.name for path in hub.kept.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    X = np.random.default_rng(1).normal(size=(5, 6))
    loaded = SequenceClassifier.from_pretrained("me/model", revision="main")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


def test_only_config_and_weights_are_downloaded(fitted, hub):
    fitted.push_to_hub("me/model", private=False)
    assert hub.calls[1] == ("create", "me/model", False, True, "model")
    (hub.kept / "modeling.py").write_text("raise SystemExit")
    hub.calls.clear()
    SequenceClassifier.from_pretrained("me/model", token="t")  # noqa: S106
    assert hub.calls == [("download", "me/model", name, None, "t") for name in ("config.json", "model.safetensors")]


def test_a_folder_wins_over_a_repository_of_its_name(fitted, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted.save_pretrained("me/model")
    SequenceClassifier.from_pretrained("me/model")
    assert not hub.calls


def test_what_the_hub_refuses_is_said(fitted, hub):
    with pytest.raises(BadInput, match=r"gone/model: config.json cannot be downloaded \(404 Client Error repository"):
        SequenceClassifier.from_pretrained("gone/model")
    with pytest.raises(BadInput, match=r"full/model: the hub does not take it \(403 Client Error: no room\); log in"):
        fitted.push_to_hub("full/model")


def test_without_its_library_the_way_out_is_said(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"me/model: to send it .* pip install 'headstart\[hf\]'"):
        fitted.push_to_hub("me/model")
    with pytest.raises(ImportError, match=r"me/model: is not a folder here.* pip install 'headstart\[hf\]'"):
        SequenceClassifier.from_pretrained("me/model")


def test_paths_are_no_repositories():
    assert is_repository("me/model-1.0")
    for name in ("model", "a/b/c", "./model", "../model", "/model", "me/", "me/my model"):
        assert not is_repository(name)


def test_a_folder_that_is_not_there_is_named(hub):
    with pytest.raises(BadInput, match=r"models/of/mine: there is no such folder; name one that holds"):
        SequenceClassifier.from_pretrained("models/of/mine")
    assert not hub.calls
