"""A store that may be a stranger's: nothing in it leads out of it, nothing in it is waited for, whoever wrote it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headstart.errors import BadInput, Damaged
from headstart.store import Store, publish_json, read_json, unseal
from headstart.store import tensors as shared
from headstart.store.cleaning import read_contents
from headstart.store.files import damages, known_digest, problem
from headstart.store.packing import pack
from headstart.study.language.files import publish_study

ONE, TWO = "0123456789abcdef", "fedcba9876543210"
DOCUMENT = {"name": "pretrain", "spec": {"seed": 0}, "parent": None, "started": "2026-11-27"}
FROZEN = {"encoder.weight": torch.arange(10_000.0)}


def finish(store: Store, identity: str) -> None:
    with store.claim(identity, DOCUMENT) as folder:
        assert folder is not None
        folder.begin()
        folder.append({"step": 1})
        result = {"status": "complete"}
        folder.finish(result, FROZEN, FROZEN, {"val/output": torch.ones(3)}, frozen=FROZEN)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "runs")
    finish(store, ONE)
    return store


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    folder.mkdir()
    for name in ("thesis.tex", f"{'0' * 64}.safetensors"):
        (folder / name).write_text("mine")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def linked(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


FOLDERS = (".tensors", ".locks", ".unpacked", "reports", "plans/a", "data", "tracking", TWO, f"{TWO}/frozen")
LINKS = {
    **dict.fromkeys(FOLDERS, ""),
    **{
        f"{TWO}/{name}": "thesis.tex" for name in ("records.jsonl", "result.json", "state-1.safetensors", "source/a.py")
    },
    f".locks/{TWO}.lock": "thesis.tex",
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_out_of_a_store_is_refused_before_a_byte_is_written(name: str, store: Store, precious: Path) -> None:
    linked(store.root / name, precious / LINKS[name])
    before, there = content(precious), content(store.root)
    with pytest.raises(BadInput, match=rf"{store.root / name}: is a link, and links are not followed there; remove it"):
        store.check([ONE, TWO])
    with pytest.raises(BadInput, match="is a link"):
        finish(store, TWO)
    with pytest.raises(BadInput, match="is a link"):
        read_contents(store)
    assert (content(precious), content(store.root)) == (before, there)


def test_the_store_itself_and_the_folders_above_it_may_be_links(tmp_path: Path, store: Store) -> None:
    (tmp_path / "link").symlink_to(store.root)
    finish(Store(tmp_path / "link"), TWO)
    assert Store(tmp_path / "link").names() == [ONE, TWO]
    assert problem(store.folder(TWO)) is None


@pytest.mark.parametrize("name", ["", "source", "results.md"])
def test_a_report_is_not_written_through_a_link(name: str, store: Store, precious: Path) -> None:
    folder = store.root / "reports" / "study"
    linked(folder / name if name else folder, precious / "thesis.tex" if "." in name else precious)
    before = content(precious)
    with pytest.raises(BadInput, match="is a link"):
        publish_study({"name": "study"}, folder, "")
    assert content(precious) == before


def test_a_folder_of_stages_that_is_a_link_stops_every_listing(store: Store, precious: Path) -> None:
    linked(store.root / TWO, store.root / ONE)
    for verb in (store.names, store.listing, lambda: store.find("0")):
        with pytest.raises(BadInput, match=rf"{TWO}: is a link"):
            verb()


def test_the_index_of_tensors_loses_only_files_of_its_own(store: Store) -> None:
    index = store.root / ".tensors"
    for name in ("notes.txt", f"{'0' * 64}.safetensors"):
        (index / name).write_text("mine")
    shared.prune(store.root)
    assert (index / "notes.txt").exists()
    assert not (index / f"{'0' * 64}.safetensors").exists(), "no stage holds it"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


MEMBERS = ("result.json", "stage.json", "records.jsonl", "best.safetensors", "predictions.safetensors", "frozen")


@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize("name", MEMBERS)
def test_a_pipe_or_a_device_among_the_files_of_a_stage_is_damage(
    name: str, make: Callable[[Path], None], store: Store, tmp_path: Path
) -> None:
    path = store.folder(ONE) / name
    path = next(path.iterdir()) if path.is_dir() else path
    path.unlink()
    make(path)
    (entry,) = store.listing()
    assert (entry.status == "failed") == (name in ("result.json", "stage.json"))
    word = "pipe" if make is pipe else "link"
    assert f"{path}: is a {word}" in "".join(damages(store.folder(ONE)))
    assert f"is a {word}" in (problem(store.folder(ONE)) or "")
    with pytest.raises(Damaged, match=f"is a {word}"):
        pack(store, [ONE], "study", b"", tmp_path / "packed")
    read: dict[str, Callable[[str], Any]] = {
        **{"result": store.result, "stage": store.stage, "records": store.records},
        **{"best": store.weights, "predictions": store.predictions, "frozen": store.weights},
    }
    with pytest.raises(Damaged, match=f"is a {word}"):
        read[name.partition(".")[0]](ONE)


@pytest.mark.parametrize("name", MEMBERS[:4])
def test_a_finished_stage_with_a_pipe_is_set_aside_and_done_again(name: str, store: Store) -> None:
    (store.folder(ONE) / name).unlink()
    os.mkfifo(store.folder(ONE) / name)
    store.check([ONE])
    with store.claim(ONE, DOCUMENT) as folder:
        assert folder is not None
        assert folder.finished() is None
        assert "is a pipe, not a plain file; the damaged stage is kept as" in folder.notices[0]
    finish(store, ONE)
    assert problem(store.folder(ONE)) is None


def test_a_pipe_in_an_unfinished_stage_is_refused(store: Store) -> None:
    (store.root / TWO).mkdir()
    os.mkfifo(store.root / TWO / "records.jsonl")
    with pytest.raises(BadInput, match=r"records\.jsonl: is a pipe, not a plain file; remove it"):
        finish(store, TWO)


@pytest.mark.parametrize("inner", ["../../precious/thesis.tex", "/dev/zero", "frozen/../../x", ""])
def test_names_of_files_in_a_result_do_not_lead_out_of_its_stage(inner: str, store: Store, precious: Path) -> None:
    result = read_json(store.folder(ONE) / "result.json")
    publish_json(store.folder(ONE) / "result.json", {**result, "files": {**result["files"], inner: "0" * 64}}, 2)
    assert f"{inner!r} is not the name of a file in it" in (problem(store.folder(ONE)) or "")
    publish_json(store.folder(ONE) / "result.json", {**result, "tensors": {"encoder.weight": inner}}, 2)
    with pytest.raises(Damaged, match="is not the name of a file in it"):
        store.weights(ONE)


def test_a_file_of_tensors_is_refused_by_its_size_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    head = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head)
    os.truncate(path, 2**40)  # of which the disk holds nothing
    with pytest.raises(Damaged, match=r"cut short or overwritten \(its head asks for other than its 1,099,511,627,776"):
        unseal(path)
    os.truncate(path, 0)
    os.truncate(path, 2**40)
    with pytest.raises(Damaged, match="cut short or overwritten"):
        unseal(path)


def test_a_document_or_records_without_end_are_refused_by_their_size(store: Store) -> None:
    for name, read in (("stage.json", store.stage), ("records.jsonl", store.records)):
        os.truncate(store.folder(ONE) / name, 2**40)
        with pytest.raises(Damaged, match=rf"{name}: has 1,099,511,627,776 bytes, more than "):
            read(ONE)


def test_a_file_that_another_process_deletes_while_it_is_looked_at_is_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store.folder(ONE) / "state-1.safetensors").touch()
    looked = os.lstat

    def lstat(path: Any, **more: Any) -> os.stat_result:
        if str(path).endswith("state-1.safetensors"):
            os.unlink(path)
        return looked(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    assert problem(store.folder(ONE)) is None


@pytest.mark.parametrize("name", ["stage.json", "records.jsonl", "best.safetensors"])
def test_a_file_without_end_is_damage_before_it_is_hashed(name: str, store: Store) -> None:
    os.truncate(store.folder(ONE) / name, 2**40)
    begun = time.process_time()
    assert [line for line in damages(store.folder(ONE)) if "1,099,511,627,776 bytes" in line]
    assert problem(store.folder(ONE)) is not None
    assert time.process_time() - begun < 5


def test_a_disk_that_does_not_say_what_is_there_is_no_stage_that_is_not_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lstat(path: Any, **_: Any) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error", os.fspath(path))

    assert store.status(TWO) == "absent"
    monkeypatch.setattr(os, "lstat", lstat)
    with pytest.raises(OSError, match="Input/output error"):
        store.status(ONE)


def test_an_unfinished_file_without_end_in_the_index_is_not_hashed(store: Store) -> None:
    unfinished = store.root / shared.TENSOR_INDEX / f".{'0' * 64}.safetensors.{'0' * 16}.tmp"
    unfinished.touch()
    os.truncate(unfinished, 2**40)
    begun = time.process_time()
    assert shared.damaged_files(store.root) == []
    with pytest.raises(Damaged, match="1,099,511,627,776 bytes"):
        known_digest(unfinished)
    assert time.process_time() - begun < 5


VERBS: list[Any] = [["ls"], ["store", "verify"], ["show", ONE], ["store", "gc"]]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[-1][:6])
def test_no_verb_waits_for_a_pipe(words: list[str], store: Store) -> None:
    for name in MEMBERS[:5]:
        (store.folder(ONE) / name).unlink()
        os.mkfifo(store.folder(ONE) / name)
    (store.root / "reports" / "study").mkdir(parents=True)
    for name in ("page.html", "study.toml"):
        os.mkfifo(store.root / "reports" / "study" / name)
    os.mkfifo(store.root / ".index")
    command = [sys.executable, "-P", "-m", "headstart", *words, "--store", str(store.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == {"ls": 0, "verify": 1, "gc": 0}.get(words[-1], 2), done.stderr
    assert "Traceback" not in done.stderr
