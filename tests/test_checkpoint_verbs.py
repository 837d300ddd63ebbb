"""Checkpoints on the command line: where they are found, what is shown, what is downloaded and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.checkpoints import saved, started_study, weights

from headstart.checkpoints import source
from headstart.checkpoints.read import read_checkpoint
from headstart.checkpoints.released import RELEASED, RELEASED_SERIES, REPOSITORIES
from headstart.cli import main
from headstart.errors import one_line

GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64}


class Hub:
    """What is used of huggingface_hub: repositories that can be had, and a cache in its layout."""

    def __init__(self, folder: Path, **repositories: Path) -> None:
        self.folder, self.repositories = folder, repositories
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def import_module(self, name: str) -> Any:
        return SimpleNamespace(HF_HUB_CACHE=str(self.folder)) if name.endswith("constants") else self

    def snapshot_download(self, repository: str, **words: Any) -> str:
        self.calls.append((repository, words))
        cached = self.folder / f"models--{repository.replace('/', '--')}"
        if words.get("local_files_only"):
            if not (cached / "refs").is_dir():
                raise FileNotFoundError("not in the cache")
        elif repository in self.repositories:
            put(cached, self.repositories[repository])
        else:
            raise OSError("no connection")
        return str(cached / "snapshots" / "abc123")


def put(cached: Path, folder: Path) -> Path:
    """A folder as a version in the hub's cache: links to blobs."""
    snapshot = cached / "snapshots" / "abc123"
    for path in (cached / "blobs", cached / "refs", snapshot):
        path.mkdir(parents=True, exist_ok=True)
    (cached / "refs" / "main").write_text("abc123")
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.copy(path, cached / "blobs" / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    return snapshot


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, without weights and without a hub."""
    monkeypatch.setenv("HEADSTART_WEIGHTS", "weights")
    monkeypatch.chdir(tmp_path)
    no_hub(monkeypatch)
    return tmp_path


def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    source.forget_hub()
    monkeypatch.setattr(source, "import_module", missing)


def with_hub(monkeypatch: pytest.MonkeyPatch, folder: Path, **repositories: Path) -> Hub:
    hub = Hub(folder, **repositories)
    source.forget_hub()
    monkeypatch.setattr(source, "import_module", hub.import_module)
    return hub


def headstart(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    out, err = capsys.readouterr()
    assert end.value.code == code, out + err
    return err if code else out


def test_the_tensors_that_are_used_and_left_out_are_shown(capsys: Any, home: Path) -> None:
    more = {"lm_head.weight": torch.ones(5, 8), "h.0.attn.bias": torch.ones(1, 1), "h.1.attn.bias": torch.ones(1, 1)}
    folder = saved(home / "weights" / "mine", GPT2, {**weights(GPT2), **more})
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    text = headstart(capsys, "show", "mine")
    assert "licence  mit" in text
    assert f"content  {read_checkpoint(folder).content}" in text
    assert "at most 64 positions" in text
    rows = [line.split() for line in text.splitlines()]
    total = sum(x.numel() for x in weights(GPT2).values())
    assert ["all", "35", f"{total:,}"] in rows
    assert ["blocks.{i}.mixer.key.bias", "8", "2", "h.{i}.attn.c_attn.bias"] in rows
    assert ["lm_head.weight", "1", "a", "head"] in rows
    assert ["h.{i}.attn.bias", "2", "a", "mask"] in rows
    assert headstart(capsys, "show", "weights/mine").splitlines()[1:-1] == text.splitlines()[1:-1]
    assert "mine is ready" in headstart(capsys, "prepare", "mine")


def test_a_model_folder_of_a_fit_is_no_checkpoint(capsys: Any, home: Path) -> None:
    (home / "model").mkdir()
    (home / "model" / "config.json").write_text('{"format": 1}')
    assert "norm_epsilon" in headstart(capsys, "show", "model"), "the keys of a network"


@pytest.mark.parametrize(("text", "message"), [("{}", "model_type: is missing"), ("{,", "is not JSON")])
def test_a_folder_with_weights_is_a_checkpoint_whatever_its_config_says(
    capsys: Any, home: Path, text: str, message: str
) -> None:
    (saved(home / "mine", GPT2) / "config.json").write_text(text)
    shown = headstart(capsys, "show", "mine", code=2)
    assert f"mine/config.json: {message}" in shown
    assert len(shown.splitlines()) == 1


def test_the_number_of_the_block_alone_is_left_open(capsys: Any, home: Path) -> None:
    config = {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 2, "d_ff": 12}
    saved(home / "mine", {**config, "feed_forward_proj": "gated-gelu"})
    rows = [line.split() for line in headstart(capsys, "show", "mine").splitlines()]
    layer = "encoder.block.{i}.layer"
    assert ["blocks.{i}.norm_mixer.weight", "8", "2", f"{layer}.0.layer_norm.weight"] in rows
    assert ["blocks.{i}.norm_feed_forward.weight", "8", "2", f"{layer}.1.layer_norm.weight"] in rows
    into = next(row for row in rows if row[:1] == ["blocks.{i}.feed_forward.into.weight"])
    assert f"{layer}.1.DenseReluDense.wi_1.weight" in " ".join(into)
    rows = [line.split() for line in headstart(capsys, "show", "Mantis-8M").splitlines()]
    assert ["tokgen_unit.scalar_encoders.{i}.encoders.{i}.w", "1", "x", "32", "18"] in rows
    assert ["transformer.layers.{i}.1.fn.net.3.bias", "256", "6"] in rows


def test_a_known_checkpoint_that_is_absent_shows_its_sizes_and_where_to_put_it(capsys: Any) -> None:
    text = headstart(capsys, "show", "gpt2")
    assert "85,842,432" in text
    assert "`headstart prepare gpt2`" in text
    assert "licence" not in text
    listed = headstart(capsys, "ls", "checkpoints")
    every = RELEASED.keys() | RELEASED_SERIES.keys()
    assert all(name in listed for name in every)
    assert listed.count(" absent") == len(every)
    assert every == REPOSITORIES.keys()


def test_a_folder_of_weights_is_an_option_of_the_command(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(home / "elsewhere" / "gpt2", GPT2)
    assert str(folder.relative_to(home)) in headstart(capsys, "ls", "checkpoints", "--weights", "elsewhere")
    assert "--weights: 'nowhere' is not a folder" in headstart(capsys, "show", "gpt2", "--weights", "nowhere", code=2)
    monkeypatch.setenv("HEADSTART_WEIGHTS", "weights")
    (home / "s.toml").write_text(started_study("gpt2", "gpt2", "gpt2", steps=2))
    assert "is sound" in headstart(capsys, "check", "s.toml", "--weights", "elsewhere")
    assert "weights" in headstart(capsys, "doctor")


def test_what_is_in_the_hubs_cache_is_found_offline(capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = saved(home / "plain", GPT2)
    cached = home / "cache" / "models--openai-community--gpt2"
    put(cached, plain)
    hub = with_hub(monkeypatch, home / "cache")
    for name in ("gpt2", "openai-community/gpt2"):
        text = headstart(capsys, "show", name)
        assert "revision abc123" in text
        assert read_checkpoint(plain).content in text
    assert {words["local_files_only"] for _, words in hub.calls} == {True}
    assert "show: 'some/body' is neither a folder nor in weights" in headstart(capsys, "show", "some/body", code=2)
    (cached / "snapshots" / "abc123" / "model.safetensors").unlink()
    source.forget_hub()
    assert "absent " in headstart(capsys, "show", "gpt2"), "a version without weights, as a tokeniser leaves it"


def test_the_library_itself_finds_what_its_cache_holds(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    import importlib

    put(home / "cache" / "models--owner--small", saved(home / "plain", GPT2))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "cache"))
    monkeypatch.setattr(source, "import_module", importlib.import_module)
    source.forget_hub()
    assert "revision abc123" in headstart(capsys, "show", "owner/small")
    assert source.find_folder("owner/other") is None


def test_only_prepare_downloads_and_only_what_is_read(capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = with_hub(monkeypatch, home / "cache", **{"owner/small": saved(home / "plain", GPT2)})
    (home / "s.toml").write_text(started_study("gpt2", "owner/small", str(home / "plain"), steps=2))
    for words in (("check", "s.toml"), ("run", "s.toml", "--dry-run")):
        assert "owner/small" in headstart(capsys, *words)
    for words in (("show", "owner/small"), ("run", "s.toml")):
        assert "`headstart prepare owner/small`" in headstart(capsys, *words, code=2)
    assert not hub.calls
    assert "owner/small is ready" in headstart(capsys, "prepare", "owner/small")
    repository, words = hub.calls[0]
    assert repository == "owner/small"
    assert set(words) == {"allow_patterns"}
    assert not any(pattern.endswith((".bin", ".py", ".pt", "*")) for pattern in words["allow_patterns"])
    assert "ready" in headstart(capsys, "prepare", "owner/small")
    assert [words.get("local_files_only") for _, words in hub.calls] == [None, True]
    assert "one draw" in headstart(capsys, "run", "s.toml", "--workers", "0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("prepare", "gpt2"),
            "takes the package huggingface_hub: pip install 'headstart[hf]'; or put the model's folder",
        ),
        (("prepare", "some/body"), "'some/body' takes the package huggingface_hub"),
        (("prepare", "gpt22"), "prepare: no 'gpt22'; did you mean 'gpt2'?"),
        (("prepare", "gpt2", "fraction=0.1"), "'fraction=0.1' is a setting, and 'gpt2' a checkpoint"),
        (("show", "some/body"), "the cache of the hub, which takes the package huggingface_hub"),
        (("run", "s.toml"), "checkpoint.source: 'some/body' is neither a folder nor in weights"),
        (("check", "s.toml", "model.like=some/body"), "model.like: 'some/body' is neither a folder nor in weights"),
        (("check", "s.toml", "gpt2.checkpoint.source=./none"), "absent weights: checkpoint.source: there is no folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(capsys: Any, home: Path, words: tuple[str, ...], message: str) -> None:
    (home / "s.toml").write_text(started_study("gpt2", "some/body", "gpt2", steps=2))
    code = 0 if message.startswith("absent") else 2
    text = headstart(capsys, *words, code=code)
    assert message in text
    assert "Traceback" not in text
    assert code == 0 or len(text.splitlines()) == 1


def test_without_a_connection_the_way_out_is_a_folder(capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_hub(monkeypatch, home / "cache")
    text = headstart(capsys, "prepare", "gpt2", code=2)
    assert (
        "openai-community/gpt2 cannot be downloaded (no connection); check the name and the connection, or put" in text
    )


def test_a_model_like_a_folder_that_lacks_its_blocks_is_refused_before_any_is_built(capsys: Any, home: Path) -> None:
    folder = saved(home / "short", GPT2)
    (folder / "config.json").write_text(json.dumps({**GPT2, "n_layer": 4000}))
    (home / "s.toml").write_text(started_study("gpt2", "gpt2", "./short", steps=2))
    text = headstart(capsys, "check", "s.toml", code=2)
    assert "asks for 4,000 blocks, and the files hold 27 tensors; download the model as a whole" in text
    assert len(text.splitlines()) == 1


def test_a_long_error_is_cut_between_two_words() -> None:
    text = one_line(ValueError("first\nsecond " + "words " * 40), 40)
    assert (text, len(text) <= 40) == ("first second words words words words ...", True)
    assert one_line(ValueError("short"), 5) == "short"
    assert one_line(ValueError("x" * 50), 20) == "x" * 16 + " ..."


def test_a_plan_without_weights_says_what_is_absent_and_what_it_costs(capsys: Any, home: Path) -> None:
    (home / "s.toml").write_text(started_study("gpt2", "gpt2", "gpt2", steps=2))
    checked = headstart(capsys, "check", "s.toml")
    assert "started is sound: 1 run of 2 distinct stages" in checked
    assert "data are not in" not in checked
    assert "absent weights: checkpoint.source: 'gpt2' is neither a folder nor in weights" in " ".join(checked.split())
    planned = headstart(capsys, "run", "s.toml", "--dry-run")
    assert planned.count("no weights") == 2
    assert "85,842,432" in planned
    assert "are not in data" not in planned
    saved(home / "weights" / "gpt2", GPT2)
    assert "absent" not in headstart(capsys, "check", "s.toml")
    ran = headstart(capsys, "run", "s.toml", "--workers", "0")
    assert "one draw" in ran
    listed = headstart(capsys, "ls", "stage=gpt2*")
    assert "gpt2 (checkpoint)" in listed
    shown = headstart(capsys, "show", next(path.name for path in (home / "runs").iterdir() if len(path.name) == 16))
    assert "spec" in shown


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            "pickled weights are not read",
        ),
        (lambda folder: (folder / "config.json").write_text("{}"), "model_type: is missing"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "gpt3"}'), "no 'gpt3'"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"short"), "is cut short"),
    ],
)
def test_what_a_reader_refuses_reaches_the_command_line(capsys: Any, home: Path, damage: Any, message: str) -> None:
    (home / "s.toml").write_text(started_study("gpt2", "mine", "gpt2", steps=2))
    damage(saved(home / "weights" / "mine", GPT2))
    for words in (("show", "mine"), ("check", "s.toml"), ("run", "s.toml"), ("prepare", "mine")):
        text = headstart(capsys, *words, code=2)
        assert message in text
        assert len(text.splitlines()) == 1
