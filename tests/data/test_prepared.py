"""Prepared arrays: built once, whole or not at all, opened memory-mapped."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from headstart.cli import app
from headstart.data import prepared as cache
from headstart.data.prepared import (
    PREPARED,
    SPLIT_ARRAYS,
    Builder,
    Writer,
    cache_entries,
    cache_folder,
    prepared,
    progress,
    reading,
)
from headstart.errors import BadInput
from headstart.sequence import Examples
from headstart.tasks.listops import ListOpsSpec
from headstart.tasks.task import fingerprint, open_task

pytestmark = pytest.mark.usefixtures("own_cache")
DOCUMENT = {"size": 3, "version": 1}


def _build(builder: Builder) -> dict[str, int]:
    builder.save("whole", np.arange(6).reshape(2, 3))
    filled = builder.empty("filled", (4,), np.uint8)
    filled[:] = 7
    builder.report(1, 2)
    return {"draws": 9}


def _never(builder: Any) -> Any:
    raise AssertionError(f"{builder} is built again")


def _folders(data: Path) -> list[str]:
    return sorted(p.name for p in (data / "own-cache" / "prepared").iterdir() if p.suffix != ".lock")


def test_what_was_built_is_opened_and_read_only(tmp_path: Path) -> None:
    first = prepared("made-up", DOCUMENT, _build)
    again = prepared("made-up", DOCUMENT, _never)
    assert again.arrays["whole"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again.arrays["filled"].tolist() == [7] * 4
    assert again.facts == {"draws": 9}
    assert again.fingerprint == first.fingerprint
    with pytest.raises(ValueError, match="read-only"):
        again.arrays["filled"][0] = 1


def test_another_document_is_another_folder(tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    prepared("made-up", {**DOCUMENT, "version": 2}, _build)
    assert len(_folders(tmp_path)) == 2


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(builder: Builder) -> dict[str, int]:
        _build(builder)
        raise KeyError("halfway")

    with pytest.raises(KeyError, match="halfway"):
        prepared("made-up", DOCUMENT, fails)
    assert _folders(tmp_path) == []
    prepared("made-up", DOCUMENT, _build)


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    (name,) = _folders(tmp_path)
    folder = tmp_path / "own-cache" / "prepared"
    os.rename(folder / name, folder / f".{name}.1-abc.tmp")
    prepared("made-up", DOCUMENT, _build)
    assert _folders(tmp_path) == [name]


@pytest.mark.parametrize("harm", ["cut", "gone", "unsealed", "scribbled"])
def test_a_damaged_folder_is_built_again(tmp_path: Path, harm: str) -> None:
    first = prepared("made-up", DOCUMENT, _build).fingerprint
    folder = next((tmp_path / "own-cache" / "prepared").glob("made-up-*"))
    if harm == "cut":
        os.truncate(folder / "whole.npy", 130)
    elif harm == "gone":
        (folder / "whole.npy").unlink()
    elif harm == "unsealed":
        (folder / "prepared.json").unlink()
    else:
        (folder / "prepared.json").write_text("{")
    again = prepared("made-up", DOCUMENT, _build)
    assert again.fingerprint == first
    assert again.arrays["whole"].shape == (2, 3)


def test_two_that_ask_at_once_build_once(tmp_path: Path) -> None:
    built, result = [], []

    def slow(builder: Builder) -> dict[str, int]:
        built.append(1)
        time.sleep(0.1)
        return _build(builder)

    def ask() -> None:
        result.append(prepared("made-up", DOCUMENT, slow).fingerprint)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len(set(result)) == 1
    assert len(result) == 4


def test_whoever_watches_is_told_how_far_a_build_is(tmp_path: Path) -> None:
    message: list[tuple[str, int, int]] = []
    before = progress.set(lambda name, done, total: message.append((name, done, total)))
    try:
        prepared("made-up", DOCUMENT, _build)
    finally:
        progress.reset(before)
    assert message == [("made-up", 1, 2)]


def test_a_full_disk_is_said_with_a_way_out(tmp_path: Path) -> None:
    def full(builder: Builder) -> dict[str, int]:
        raise OSError(28, "No space left on device")

    with pytest.raises(BadInput, match="the disk is full; make room, or name folders on another disk"):
        prepared("made-up", DOCUMENT, full)


def _own_folder(tmp_path: Path) -> Path:
    return next((tmp_path / "own-cache" / "prepared").glob("made-up-*"))


def _changed(path: Path) -> None:
    """Its last byte is another; size and time stay."""
    stat, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_changed_numbers_of_the_same_size_are_built_again(tmp_path: Path) -> None:
    first = prepared("made-up", DOCUMENT, _build)
    assert prepared("made-up", DOCUMENT, _never).fingerprint == first.fingerprint
    for name in ("whole", "filled"):
        _changed(_own_folder(tmp_path) / f"{name}.npy")
        again = prepared("made-up", DOCUMENT, _build)
        assert (again.arrays["whole"].tolist(), again.fingerprint) == ([[0, 1, 2], [3, 4, 5]], first.fingerprint)


@pytest.mark.parametrize("sealed", [False, True], ids=["plainly", "as another's"])
def test_changed_facts_and_the_folder_of_another_document_are_built_again(tmp_path: Path, sealed: bool) -> None:
    prepared("made-up", DOCUMENT, _build)
    folder = _own_folder(tmp_path)
    if sealed:
        prepared("made-up", {**DOCUMENT, "version": 2}, lambda builder: {**_build(builder), "draws": 8})
        other = next(path for path in folder.parent.glob("made-up-*") if path != folder)
        shutil.rmtree(folder)
        other.rename(folder)
    else:
        text = (folder / "prepared.json").read_text()
        (folder / "prepared.json").write_text(text.replace('"draws": 9', '"draws": 8'))
    assert prepared("made-up", DOCUMENT, _build).facts == {"draws": 9}


def test_digests_are_taken_once_of_a_content_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared("made-up", DOCUMENT, _build)
    monkeypatch.setattr(cache, "_fingerprint", _never)
    prepared("made-up", DOCUMENT, _never)


@pytest.mark.parametrize("content", ["[]", "[" * 100_000, '{"sizes": 3}', "null", '{"digest": {}}'])
def test_a_seal_of_other_json_is_damage(content: str, tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    (_own_folder(tmp_path) / "prepared.json").write_text(content)
    assert prepared("made-up", DOCUMENT, _build).facts == {"draws": 9}


@pytest.mark.parametrize("name", ["prepared.json", "whole.npy"])
@pytest.mark.parametrize("what", ["pipe", "device", "link"])
def test_a_pipe_a_device_or_a_link_in_the_cache_is_damage(name: str, what: str, tmp_path: Path) -> None:
    first = prepared("made-up", DOCUMENT, _build)
    path, aside = _own_folder(tmp_path) / name, tmp_path / "aside"
    path.rename(aside)
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if what == "device" else aside)
    assert prepared("made-up", DOCUMENT, _build).fingerprint == first.fingerprint
    assert path.is_file()
    assert not path.is_symlink()
    assert aside.is_file()


@pytest.mark.parametrize("name", ["prepared", "prepared/made-up-{key}"])
def test_a_folder_of_the_cache_that_is_a_link_is_refused(name: str, tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    path, away = tmp_path / "own-cache" / name.format(key=_own_folder(tmp_path).name.rpartition("-")[2]), tmp_path / "a"
    path.rename(away)
    path.symlink_to(away)
    before = sorted(away.rglob("*"))
    with pytest.raises(BadInput, match=rf"{path}: is a link, and links are not followed there; remove it"):
        prepared("made-up", DOCUMENT, _never)
    assert sorted(away.rglob("*")) == before


def test_a_note_of_a_digest_that_was_changed_or_moved_is_taken_again(tmp_path: Path) -> None:
    assert cache.remembered({"a": 1}, lambda: "0" * 16) == "0" * 16
    assert cache.remembered({"a": 1}, lambda: "1" * 16) == "0" * 16
    (note,) = (tmp_path / "own-cache" / "fingerprints").iterdir()
    note.write_text(note.read_text().replace("0" * 16, "2" * 16))
    assert cache.remembered({"a": 1}, lambda: "1" * 16) == "1" * 16
    assert cache.remembered({"a": 2}, lambda: "3" * 16) == "3" * 16
    (other,) = (path for path in note.parent.iterdir() if path != note)
    other.rename(note)
    assert cache.remembered({"a": 1}, lambda: "1" * 16) == "1" * 16


def test_the_cache_folder_is_told_when_it_is_first_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "new"))
    prepared("made-up", DOCUMENT, _build)
    assert f"Prepared data are cached in {tmp_path / 'new'}. Set HEADSTART_CACHE" in caplog.text
    caplog.clear()
    prepared("made-up", {**DOCUMENT, "version": 2}, _build)
    assert caplog.text == ""


def test_the_cache_is_in_the_users_cache_folder_where_nothing_else_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADSTART_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().is_relative_to(tmp_path)


def test_a_user_without_a_home_and_an_account_has_a_cache_until_the_process_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(name: str) -> str:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("HEADSTART_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", unknown)
    assert cache_folder().is_dir()
    assert "cached until this ends, since ~/.cache/headstart cannot be written (no home folder)" in caplog.text


def test_a_cache_folder_that_cannot_be_made_is_named_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadInput, match=r"cannot be made .*name another cache folder with HEADSTART_CACHE"):
        prepared("made-up", DOCUMENT, _build)


def test_the_cache_lists_what_it_holds_with_sizes_and_is_emptied(tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    (tmp_path / "own-cache" / "else.txt").write_text("not ours")
    runner = CliRunner()
    message = runner.invoke(app, ["prepare", "--list"]).output
    assert "made-up-" in message
    assert "1 prepared data set, 0.0 MB in all" in " ".join(message.split())
    assert [entry.name.startswith("made-up-") for entry in cache_entries()] == [True]
    assert "1 prepared data set, 0.0 MB removed" in " ".join(runner.invoke(app, ["prepare", "--clear"]).output.split())
    assert cache_entries() == []
    assert (tmp_path / "own-cache" / "else.txt").exists()


def test_a_split_comes_back_while_it_is_built_and_when_it_is_opened(tmp_path: Path) -> None:
    values, offsets, index = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 3]), np.array([7, 8])
    gaps = Examples(values, offsets, None, index, values > 2)
    written: list[Examples] = []

    def build(builder: Builder) -> dict[str, int]:
        builder.save_split("train", gaps)
        writer = Writer(builder, "test", np.int16)
        for sequence in ([1, 2], [3]):
            writer.add(np.array(sequence))
        writer.finish(np.array([0, 1]), np.array([4, 5]))
        Writer(builder, "val").finish(np.zeros(0), np.zeros(0))
        written.extend(builder.written().split(name) for name in ("train", "val", "test"))
        return {}

    ready = prepared("made-up", DOCUMENT, build)
    for before, name in zip(written, ("train", "val", "test"), strict=True):
        after = ready.split(name)
        for part in SPLIT_ARRAYS:
            np.testing.assert_array_equal(getattr(before, part), getattr(after, part))
    train, val, test = written
    assert train.observed is not None
    assert (train.target, train.observed.tolist(), len(val)) == (None, gaps.observed.tolist(), 0)
    assert (test.values.tolist(), test.values.dtype, test.index.tolist()) == ([1, 2, 3], np.int16, [4, 5])
    assert ready.split("test", paired=True).units == 1


def test_a_disk_that_is_full_for_an_array_is_said_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(BadInput, match="the disk is full; make room, or name folders on another disk"):
        prepared("made-up", DOCUMENT, lambda builder: builder.save("whole", np.arange(6)) or {})


def test_a_copy_of_a_persons_own_data_is_theirs_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        prepared("own", DOCUMENT, _build, private=True)
        prepared("made-up", DOCUMENT, _build)
    finally:
        os.umask(before)
    (own,) = (tmp_path / "own-cache" / "prepared").glob("own-????????????????")
    assert own.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in own.iterdir()} == {0o600}


def resealed(folder: Path, array: str, values: np.ndarray) -> None:
    """Other values for an array, with the digests that are right for them: whoever may write there can compute them."""
    np.save(folder / f"{array}.npy", values)
    seal = json.loads((folder / cache.SEAL).read_text())
    files = {file.stem: file for file in folder.glob("*.npy")}
    seal["sizes"] = {name: file.stat().st_size for name, file in files.items()}
    seal["fingerprint"] = cache._fingerprint({name: np.load(file) for name, file in files.items()})
    del seal["digest"]
    (folder / cache.SEAL).write_text(json.dumps({**seal, "digest": cache._digest(seal)}))


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("offsets", lambda x: x[:0]),
        ("offsets", lambda x: x.astype(np.float64)),
        ("offsets", lambda x: x.astype("U8")),
        ("offsets", lambda x: x[:, None]),
        ("offsets", lambda x: np.where(np.arange(len(x)) == 3, 10**9, x)),
        ("tokens", lambda x: x[:-1]),
        ("target", lambda x: x[:3]),
        ("root", lambda x: x[:-1]),
    ],
)
def test_wrong_values_behind_right_digests_are_refused_with_a_way_out_that_works(array: str, change: Any) -> None:
    spec = ListOpsSpec(train=12, val=4, test=4, min_length=5, max_length=12)
    before = fingerprint(open_task(spec, Path()))
    (folder,) = (cache_folder() / PREPARED).glob("listops-*")
    resealed(folder, array, change(np.load(folder / f"{array}.npy")))
    with pytest.raises(BadInput, match=r"task .listops. cannot be made of it.*`headstart prepare --clear`") as refused:
        open_task(spec, Path())
    assert folder.name in str(refused.value)
    cache.clear_cache()
    assert fingerprint(open_task(spec, Path())) == before


@pytest.mark.parametrize("size", [0, 128])
def test_an_array_without_a_head_is_built_again(size: int, tmp_path: Path) -> None:
    prepared("made-up", DOCUMENT, _build)
    (folder,) = (cache_folder() / PREPARED).glob("made-up-*")
    whole = (folder / "whole.npy").read_bytes()
    (folder / "whole.npy").write_bytes(whole.replace(b"}", b"(")[:size])
    seal = json.loads((folder / cache.SEAL).read_text())
    seal["sizes"]["whole"] = size
    del seal["digest"]
    (folder / cache.SEAL).write_text(json.dumps({**seal, "digest": cache._digest(seal)}))
    assert prepared("made-up", DOCUMENT, _build).arrays["whole"].shape == (2, 3)


def test_a_mistake_of_a_task_is_not_laid_to_the_cache() -> None:
    with pytest.raises(IndexError), reading("it"):
        prepared("it", {"a": 1}, lambda builder: builder.save("x", np.zeros(1)) or {}).arrays["x"][7]  # type: ignore[func-returns-value]


def test_a_cache_that_cannot_be_made_is_no_setting_of_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headstart.study.language.estimate import plan_study

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "file"))
    study = {"name": "own", "arms": {"a": {}}, "axes": {"seed": [0]}}
    study["stages"] = {
        "finetune": {
            "task": {"kind": "listops"},
            "objective": {"kind": "classify"},
            "model": {"width": 16, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
            "optim": {"lr": 1e-3},
            "budget": {"steps": 1},
        }
    }
    with pytest.raises(BadInput) as caught:
        plan_study(study, tmp_path, fits=True)
    assert str(caught.value).startswith(f"{tmp_path / 'file'}: cannot be made")
