"""`store verify` reads every file of the finished stages, and names those that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kept_store import STAGES, command, copied

import headstart


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_sound_store_has_exit_code_0(study: headstart.Study, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("store", "verify", "--store", study.store.root) == 0
    assert f"{STAGES} finished stages, every file as it was written" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["best.safetensors", "last.safetensors", "predictions.safetensors", "records.jsonl", "stage.json"]
)
def test_a_flipped_byte_in_any_file_is_named(
    study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    store = copied(study, tmp_path)
    identity = store.names()[0]
    path = store.folder(identity) / name
    if not path.stat().st_size:
        path.write_bytes(b" ")
    flip(path)
    assert command("store", "verify", "--store", store.root) == 1
    out = capsys.readouterr().out
    assert f"damaged: {path}: its digest does not fit" in out
    assert f"1 of {STAGES} finished stages are damaged" in out
    assert command("store", "verify", identity[:8], "--store", store.root) == 1
    assert command("store", "verify", *store.names()[1:], "--store", store.root) == 0


def test_a_damaged_result_and_a_missing_file_are_named(
    study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copied(study, tmp_path)
    first, second = store.names()[:2]
    flip(store.folder(first) / "result.json")
    (store.folder(second) / "best.safetensors").unlink()
    assert command("store", "verify", "--store", store.root) == 1
    out = capsys.readouterr().out
    assert f"damaged: {store.folder(first)}/result.json: " in out
    assert f"damaged: {store.folder(second)}/best.safetensors: is missing" in out


def test_a_damaged_shared_tensor_is_named_in_the_index_and_in_each_stage(
    study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copied(study, tmp_path)
    path = max((store.root / ".tensors").iterdir(), key=lambda path: path.stat().st_size)
    holders = path.stat().st_nlink - 1
    assert holders == 2
    flip(path)
    assert command("store", "verify", "--store", store.root) == 1
    out = capsys.readouterr().out
    assert out.count("its digest does not fit") == 1 + holders
    assert f"{holders} of {STAGES} finished stages are damaged, and 1 tensors that stages share" in out


def test_frozen_weights_without_their_parent_are_named(
    study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copied(study, tmp_path)
    parent = next(p.identity for p in study.plan.stages.values() if p.name == "pretrain")
    (store.folder(parent) / "result.json").unlink()
    assert command("store", "verify", "--store", store.root) == 1
    assert f"its frozen weights are those of stage {parent}, which is not there" in capsys.readouterr().out


def test_an_unfinished_or_unknown_stage_is_refused(
    study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copied(study, tmp_path)
    identity = store.names()[0]
    (store.folder(identity) / "result.json").unlink()
    assert command("store", "verify", identity, "--store", store.root) == 2
    assert f"stage {identity} is partial; only finished stages have digests" in capsys.readouterr().err
    assert command("store", "verify", "fffffff", "--store", store.root) == 2


def test_a_store_that_is_not_there_is_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("store", "verify", "--store", tmp_path / "nowhere") == 2
    output = capsys.readouterr()
    assert f"verify: there is no store '{tmp_path / 'nowhere'}', and nothing to verify" in output.err
    assert "every file as it was written" not in output.out
