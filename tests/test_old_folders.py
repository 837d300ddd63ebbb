"""What earlier versions wrote (`tests/old`, made by `support.old_folders`) opens with equal predictions, or is refused
with its version."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch
from support.old_folders import MODELS, OLD, STORES, command

import headstart
from headstart.fit.arms import constant_names, without_gradients
from headstart.runner.events import Skipped
from headstart.serve.config import ENSEMBLE, NETWORK
from headstart.store import Store

VERSIONS = sorted(path.name for path in OLD.iterdir())
CLOSE = 1e-5
"""Of a probability: another kind of processor rounds in another way."""


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a version wrote, as the working directory."""
    shutil.copytree(OLD / request.param, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "old"


def test_this_version_is_among_those_that_are_kept() -> None:
    assert headstart.__version__ in VERSIONS
    assert sum(path.stat().st_size for path in OLD.rglob("*")) < 900_000 * len(VERSIONS)


def test_every_kind_of_model_that_is_served_is_among_them() -> None:
    """And letters, numbers, windows, and a number as target; what is served of a fit with a backbone or a start is a network."""
    assert {served for _, _, served, *_ in MODELS.values()} == {NETWORK, ENSEMBLE, *without_gradients()} - {
        *constant_names()
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder_predicts_what_it_did(old: Path, name: str) -> None:
    command("predict", name, MODELS[name][0], "-o", "now.csv")
    before, now = (list(csv.DictReader(Path(file).read_text().splitlines())) for file in (f"{name}.csv", "now.csv"))
    assert len(now) == len(before) == 40
    for row, reference in zip(now, before, strict=True):
        for key, text in reference.items():
            try:
                assert float(row[key]) == pytest.approx(float(text), abs=CLOSE)
            except ValueError:
                assert row[key] == text


@pytest.mark.parametrize("name", ["old", *(pytest.param(name, marks=pytest.mark.slow) for name in ("read", "search"))])
def test_a_store_is_finished_and_sound_and_its_results_are_the_same(
    old: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "search":
        pytest.importorskip("optuna", reason="a search needs the extra [search]")
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(old / "weights"))
    folder, results = STORES[name]
    study = headstart.Study(f"{name}.toml", store=old / folder)
    events = list(study.perform())
    store = Store(old / folder)
    assert len(events) == len(list(store.names()))
    assert all(isinstance(event, Skipped) for event in events)  # the identities are those of the study now, too
    assert {stage: store.problem(stage) for stage in store.names()} == dict.fromkeys(store.names())
    command("ls", f"--store={folder}")
    command("report", f"{name}.toml", f"--store={folder}", "--out=now.md", "--json=now.json")
    before, now = (json.loads(Path(file).read_text()) for file in (results, "now.json"))
    for row in (*before["rows"], *now["rows"]):
        assert row["intervals"].pop("seeds_and_examples", None) is None  # not known of the first of them
    assert now["rows"] == before["rows"]


def test_what_a_checkpoint_became_opens_without_the_checkpoint(old: Path) -> None:
    """A stage that was read holds all of its weights, and one that started from it, too."""
    shutil.rmtree("weights")
    store = Store(old / "read")
    names = {(store.stage(stage) or {})["name"]: stage for stage in store.names()}
    assert set(names) == {"small", "finetune"}
    assert headstart.load(names["finetune"], store="read") is not None
    assert store.weights(names["small"], "last").keys()


def test_a_packed_store_unpacks_to_equal_bits(old: Path) -> None:
    command("store", "unpack", "packed.zip", "--store=new")
    here, there = Store(old / "runs"), Store(old / "new")
    assert sorted(here.names()) == sorted(there.names())
    for name in here.names():
        weights, copies = here.weights(name, "best"), there.weights(name, "best")
        assert all(torch.equal(weights[key], copies[key]) for key in weights)


def test_results_make_a_page(old: Path) -> None:
    command("report", "--from", "results.json", "-o", "page.md")
    assert "frozen" in (old / "page.md").read_text()


REFUSED = [*(f"{name}/config.json" for name in MODELS), *(file for pair in STORES.values() for file in pair)]


@pytest.mark.parametrize("file", REFUSED)
def test_a_newer_one_is_refused_with_its_version(old: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(file) if file.endswith(".json") else next(Path(file).glob("*/stage.json"))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "format": 99}))
    words = ("predict", path.parent.name, MODELS.get(path.parent.name, ("",))[0], "-o", "now.csv")
    if "/" not in file:
        stage = path.name == "stage.json"
        words = ("show", path.parent.name, f"--store={file}") if stage else ("report", "--from", file, "-o", "page.md")
    with pytest.raises(SystemExit) as end:
        command(*words)
    printed = capsys.readouterr()
    assert end.value.code in (1, 2)
    assert "99" in " ".join((printed.out + printed.err).split())
