"""`store pack` and `store unpack`: a study's stages in one file, and other people's files read with care."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import json
import os
import shutil
import stat
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.kept_store import STAGES, STUDY, command, copied, tree

import headstart
from headstart import atomic
from headstart.errors import BadInput, Damaged
from headstart.store import Store, files, publish_json
from headstart.store import packing as packing_module
from headstart.store.packing import pack, unpack
from headstart.study.results.listing import stage_rows

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def packed(study: headstart.Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole study, packed. Tests copy it; none writes to it."""
    file = tmp_path_factory.mktemp("packed") / "kept.zip"
    assert command("store", "pack", study.source, "-o", file, "--store", study.store.root) == 0
    return file


def read(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as source:
        return {info.filename: source.read(info) for info in source.infolist()}


def write(file: Path, members: dict[str, bytes], manifest: dict[str, Any] | None = None) -> Path:
    """A packed file of these members, whose manifest says what they are where it is not another one."""
    body = {name: content for name, content in members.items() if name != "manifest.json"}
    if manifest is None:
        manifest = json.loads(members["manifest.json"])
        manifest["files"] = {
            name: {"size": len(content), "digest": hashlib.sha256(content).hexdigest()}
            for name, content in body.items()
        }
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("manifest.json", json.dumps(manifest))
        for name, content in body.items():
            out.writestr(name, content, zipfile.ZIP_DEFLATED)
    return file


@pytest.mark.slow
def test_a_store_comes_out_as_it_went_in(study: headstart.Study, packed: Path, tmp_path: Path, capsys: Output) -> None:
    other = Store(tmp_path / "other")
    assert command("store", "unpack", packed, "--store", other.root) == 0
    assert f"unpacked {STAGES} of {STAGES} stages" in capsys.readouterr().out
    before, after = tree(study.store.root), tree(other.root)
    report = "reports/kept/study.toml"
    assert after.pop(report)
    assert after == {name: content for name, content in before.items() if not name.startswith("reports/")}
    for name in study.store.names():
        assert other.problem(name) is None
        for key, value in study.store.weights(name).items():
            assert torch.equal(value, other.weights(name)[key])
    assert command("store", "verify", "--store", other.root) == 0
    assert command("run", study.source, "--workers", 0, "--store", other.root) == 0
    assert f"{STAGES} done before" in capsys.readouterr().out
    assert command("report", other.root / report, "--store", other.root) == 0


def test_shared_tensors_travel_once_and_are_shared_again(study: headstart.Study, packed: Path, tmp_path: Path) -> None:
    names = Counter(Path(name).name for name in read(packed) if "frozen" in name or ".tensors" in name)
    assert names
    assert set(names.values()) == {1}
    other = Store(tmp_path / "other")
    unpack(other, packed)
    for path in (other.root / ".tensors").iterdir():
        assert path.stat().st_nlink >= (study.store.root / ".tensors" / path.name).stat().st_nlink


def test_where_there_are_no_links_each_stage_gets_a_copy(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    other = Store(tmp_path)
    assert len(unpack(other, packed).taken) == STAGES
    assert all(other.problem(name) is None for name in other.names())


def test_equal_stages_give_equal_files(study: headstart.Study, packed: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    assert command("store", "pack", study.source, "-o", again, "--store", study.store.root) == 0
    assert again.read_bytes() == packed.read_bytes()


def test_a_part_of_a_study_is_packed_by_its_settings_and_what_is_unfinished_is_said(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    lost = next(cell.chain[-1].identity for cell in study.plan.cells if cell.arm == "scratch")
    shutil.rmtree(store.folder(lost))
    file = tmp_path / "part.zip"
    assert command("store", "pack", study.source, "finetune.optim.lr=[1e-3]", "-o", file, "--store", store.root) == 0
    out = capsys.readouterr().out
    assert "packed 3 stages" in out
    assert "1 stages of the study are not finished" in out
    assert command("store", "pack", study.source, "-o", file, "--store", tmp_path / "none") == 2
    assert "no stage of 'kept' is finished" in capsys.readouterr().err
    assert command("store", "pack", study.source, "-o", tmp_path / "no" / "x.zip", "--store", store.root) == 2


def test_a_damaged_stage_is_not_packed_and_the_file_of_before_stays(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    path = store.folder(store.names()[2]) / "best.safetensors"
    file = tmp_path / "x.zip"
    assert command("store", "pack", study.source, "-o", file, "--store", store.root) == 0
    before = file.read_bytes()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert command("store", "pack", study.source, "-o", file, "--store", store.root) == 2
    assert f"{path}: its digest does not fit" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_a_stage_whose_result_is_damaged_is_not_left_out(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    path = store.folder(store.names()[2]) / "result.json"
    path.write_bytes(path.read_bytes()[:100])
    assert command("store", "pack", study.source, "-o", tmp_path / "x.zip", "--store", store.root) == 2
    assert f"pack: {path}: not readable as JSON" in capsys.readouterr().err
    assert not (tmp_path / "x.zip").exists()


def test_a_study_of_the_same_name_that_is_there_is_not_taken_for_the_packed_one(
    packed: Path, tmp_path: Path, capsys: Output
) -> None:
    root = tmp_path / "runs"
    mine = root / "reports" / "kept" / "study.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text(STUDY)
    for _ in range(2):
        assert command("store", "unpack", packed, "--store", root) == 0
        report = capsys.readouterr().out.partition("`headstart report ")[2].partition("`")[0]
        assert Path(report).parent.parent == mine.parent.parent
        assert Path(report) != mine
        assert Path(report).read_bytes() == read(packed)["reports/kept/study.toml"]
    assert mine.read_text() == STUDY
    assert command("store", "gc", "--yes", "--recent", "--store", root) == 0
    assert len(Store(root).names()) == STAGES


def test_a_stage_that_is_there_is_not_replaced(packed: Path, tmp_path: Path, capsys: Output) -> None:
    store = Store(tmp_path / "runs")
    name = next(name.partition("/")[0] for name in read(packed) if name.endswith("/result.json"))
    with store.claim(name, {"name": "mine", "spec": {}, "parent": None}) as claimed:
        assert claimed is not None
        claimed.begin()
    mine = tree(store.folder(name))
    assert command("store", "unpack", packed, "--store", store.root) == 0
    out = capsys.readouterr().out
    assert f"left as it is: {name} is there already (partial)" in out
    assert f"unpacked {STAGES - 1} of {STAGES} stages" in out
    assert tree(store.folder(name)) == mine


def test_a_stage_that_a_process_is_at_is_not_replaced(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    name = next(name.partition("/")[0] for name in read(packed) if name.endswith("/result.json"))
    store.root.mkdir()
    with Store(store.root).lock(name):
        outcome = unpack(store, packed)
    assert outcome.there == {name: "running"}
    assert not store.folder(name).exists()


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda members: {**members, name: change(members[name])}


@pytest.mark.parametrize("inner", ["best.safetensors", "result.json", "stage.json", "predictions.safetensors"])
def test_a_stage_whose_digests_do_not_fit_is_refused_and_the_others_are_taken(
    packed: Path, tmp_path: Path, inner: str, capsys: Output
) -> None:
    members = read(packed)
    name = next(name for name in reversed(members) if name.endswith(f"/{inner}"))
    content = bytearray(members[name])
    content[len(content) // 2] ^= 1
    file = write(tmp_path / "x.zip", {**members, name: bytes(content)}, json.loads(members["manifest.json"]))
    store = Store(tmp_path / "runs")
    assert command("store", "unpack", file, "--store", store.root) == 1
    identity = name.partition("/")[0]
    assert f"refused: {identity}: {name}: its digest does not fit" in capsys.readouterr().out
    assert len(store.names()) == STAGES - 1
    assert identity not in store.names()
    assert all(store.problem(other) is None for other in store.names())


def test_a_stage_that_was_changed_with_its_manifest_is_refused_by_its_own_digests(packed: Path, tmp_path: Path) -> None:
    members = read(packed)
    name = next(name for name in reversed(members) if name.endswith("/last.safetensors"))
    outcome = unpack(Store(tmp_path / "runs"), write(tmp_path / "x.zip", {**members, name: b"other bytes"}))
    assert outcome.refused == {name.partition("/")[0]: f"{name}: its digest does not fit"}


def test_children_of_a_refused_parent_are_refused(study: headstart.Study, packed: Path, tmp_path: Path) -> None:
    parent = next(p.identity for p in study.plan.stages.values() if p.name == "pretrain")
    members = read(packed)
    file = write(tmp_path / "x.zip", {**members, f"{parent}/best.safetensors": b""})
    outcome = unpack(Store(tmp_path / "runs"), file)
    children = [c.chain[-1].identity for c in study.plan.cells if c.arm == "frozen"]
    assert set(outcome.refused) == {parent, *children}
    assert f"those of stage {parent}, which is not there" in outcome.refused[children[0]]
    assert len(outcome.taken) == STAGES - 3


def test_a_damaged_shared_tensor_refuses_the_stages_that_hold_it(
    study: headstart.Study, packed: Path, tmp_path: Path
) -> None:
    members = read(packed)
    name = max((name for name in members if name.startswith(".tensors/")), key=lambda name: len(members[name]))
    content = members[name][:-1] + bytes([members[name][-1] ^ 1])
    for manifest in (json.loads(members["manifest.json"]), None):
        file = write(tmp_path / "x.zip", {**members, name: content}, manifest)
        root = tmp_path / f"runs-{manifest is None}"
        outcome = unpack(Store(root), file)
        assert set(outcome.refused) == {c.chain[-1].identity for c in study.plan.cells if c.arm == "drawn"}
        assert name not in tree(root)


def test_a_damaged_shared_tensor_of_the_store_is_not_used(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = next(name for name in read(packed) if name.startswith(".tensors/"))
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(b"other bytes")
    assert len(unpack(store, packed).taken) == STAGES
    assert all(store.problem(identity) is None for identity in store.names())
    assert (tmp_path / name).read_bytes() == read(packed)[name]


def entry(name: str, mode: int = stat.S_IFREG | 0o644, system: int = 3) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = system, mode << 16
    return info


EVIL = {
    "a link": (entry("0123456789abcdef/best.safetensors", stat.S_IFLNK | 0o777), b"/etc/passwd", "is a link"),
    "a device": (entry("0123456789abcdef/best.safetensors", stat.S_IFCHR | 0o666), b"", "is a device"),
    "a pipe": (entry("0123456789abcdef/best.safetensors", stat.S_IFIFO | 0o666), b"", "is a pipe"),
    "a folder": (entry("0123456789abcdef/source/", stat.S_IFDIR | 0o755), b"", "is a folder"),
    "an absolute path": (entry("/evil"), b"x", "leads out of the store"),
    "a way up": (entry("../evil"), b"x", "leads out of the store"),
    "a way up inside": (entry("0123456789abcdef/source/../../../evil"), b"x", "leads out of the store"),
    "a backslash": (entry("0123456789abcdef\\..\\evil"), b"x", "a name that is not a plain path"),
    "a hidden file": (entry(".locks/0123456789abcdef.lock"), b"x", "is not a file of a store"),
    "a page": (entry("reports/kept/page.html"), b"<script>", "is not a file of a store"),
    "a hidden report": (entry("reports/.x/study.toml"), b"", "is not a file of a store"),
    "another file of a stage": (entry("0123456789abcdef/run.py"), b"x", "is not a file of a store"),
    "an undeclared file": (entry("0123456789abcdef/source/x.py"), b"x", "is there and not declared"),
}


@pytest.mark.parametrize("name", EVIL)
def test_what_a_packed_file_never_holds_is_refused_before_anything_is_written(
    packed: Path, tmp_path: Path, name: str, capsys: Output
) -> None:
    info, content, message = EVIL[name]
    file = shutil.copy(packed, tmp_path / "x.zip")
    with zipfile.ZipFile(file, "a") as out:
        out.writestr(info, content)
    assert command("store", "unpack", file, "--store", tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert message in error
    assert "nothing of it is used" in error
    assert not (tmp_path / "runs").exists()


def test_members_that_share_their_bytes_and_endless_sources_are_refused(packed: Path, tmp_path: Path) -> None:
    """A megabyte whose members lie in each other would fill a disk."""
    members = read(packed)
    manifest = json.loads(members["manifest.json"])
    for message, size, offset in (("lie in each other", 2**24, True), ("has 16,777,217 bytes", 2**24 + 1, False)):
        names = [f"{manifest['stages'][0]}/source/{letter}.py" for letter in ("ab" if offset else "a")]
        content = os.urandom(size) if offset else bytes(size)
        facts = {"size": size, "digest": hashlib.sha256(content).hexdigest()}
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as out:
            files = manifest["files"] | dict.fromkeys(names, facts)
            out.writestr("manifest.json", json.dumps(manifest | {"files": files}), zipfile.ZIP_STORED)
            for name in members.keys() - {"manifest.json"}:
                out.writestr(name, members[name])
            out.writestr(names[0], content)
            if offset:
                twin = copy.copy(out.getinfo(names[0]))
                twin.filename = twin.orig_filename = names[1]
                out.filelist.append(twin)
                out.NameToInfo[names[1]] = twin
        with pytest.raises(BadInput, match=message):
            unpack(Store(tmp_path / "runs"), tmp_path / "x.zip")
        assert not (tmp_path / "runs").exists()


def test_declared_paths_and_sizes_bind(packed: Path, tmp_path: Path) -> None:
    members = read(packed)
    manifest = json.loads(members["manifest.json"])
    name = next(iter(manifest["files"]))
    cases: dict[str, dict[str, Any]] = {
        "bytes and declares": {"files": {**manifest["files"], name: {**manifest["files"][name], "size": 3}}},
        "declared and not there": {"files": {**manifest["files"], "reports/x/study.toml": {"size": 1, "digest": ""}}},
        "its list of stages": {"stages": manifest["stages"][1:]},
        "cannot be read": {"files": 3},
        "its format is '1'": {"format": "1"},
    }
    for message, change in cases.items():
        file = write(tmp_path / "x.zip", members, {**manifest, **change})
        with pytest.raises(BadInput, match=message):
            unpack(Store(tmp_path / "runs"), file)
    with pytest.raises(BadInput, match=r"format 2 is newer than this headstart reads \(1\); install a newer one"):
        unpack(Store(tmp_path / "runs"), write(tmp_path / "x.zip", members, {**manifest, "format": 2}))
    nested = {**members, "0123456789abcdef/source/a": b"", "0123456789abcdef/source/a/b": b""}
    manifest["stages"].append("0123456789abcdef")
    nested["manifest.json"] = json.dumps(manifest).encode()
    with pytest.raises(BadInput, match="lies in a file"):
        unpack(Store(tmp_path / "runs"), write(tmp_path / "x.zip", nested))
    assert not (tmp_path / "runs").exists()


def test_two_members_of_one_name_and_an_encrypted_one_are_refused(packed: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(packed, tmp_path / "x.zip"))
    name = next(name for name in read(packed) if name.endswith("stage.json"))
    with zipfile.ZipFile(file, "a") as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.writestr(name, b"{}")
    with pytest.raises(BadInput, match="two members of the same name"):
        unpack(Store(tmp_path / "runs"), file)
    content = bytearray(packed.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)
    with pytest.raises(BadInput, match="is encrypted"):
        unpack(Store(tmp_path / "runs"), file)


def test_a_stage_with_a_result_of_a_newer_format_is_refused_in_words(packed: Path, tmp_path: Path) -> None:
    members = read(packed)
    name = next(name for name in reversed(members) if name.endswith("/result.json"))
    document = json.loads(members[name])
    document.pop("digest")
    publish_json(tmp_path / "result.json", document, files.SHARING + 1)
    file = write(tmp_path / "x.zip", {**members, name: (tmp_path / "result.json").read_bytes()})
    (reason,) = unpack(Store(tmp_path / "runs"), file).refused.values()
    assert reason.startswith(f"{name}: format 3 is newer than this headstart reads")


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("stage.json", {"arms": [1]}),
        ("stage.json", {"parent": ["x"]}),
        ("stage.json", {"spec": []}),
        ("result.json", {"scores": {"best": []}}),
        ("result.json", {"budget": {"seconds": "soon"}}),
        ("stage.json", {"spec": {"optim": {"lr": "fast"}}}),
        ("stage.json", {"plugins": ["x"]}),
        ("result.json", {"monitor": {"name": "accuracy", "greater": 1}}),
        ("result.json", {"parameters": {"total": 1, "trainable": -1, "account": []}}),
        ("result.json", {"provenance": "this machine"}),
    ],
)
def test_a_stage_that_a_listing_could_not_read_is_refused_and_the_others_are_listed(
    packed: Path, tmp_path: Path, capsys: Output, file: str, changes: dict[str, Any]
) -> None:
    members = read(packed)
    name = next(name for name in reversed(members) if name.endswith("/result.json")).partition("/")[0]
    for document, change in ((file, changes), ("result.json", {})):  # the result last: it holds the other's digest
        content = json.loads(members[f"{name}/{document}"]) | change
        if document == "result.json":
            content["files"]["stage.json"] = hashlib.sha256(members[f"{name}/stage.json"]).hexdigest()
        content.pop("digest")
        publish_json(tmp_path / document, content, content["format"])
        members[f"{name}/{document}"] = (tmp_path / document).read_bytes()
    assert command("store", "unpack", write(tmp_path / "x.zip", members), "--store", tmp_path / "runs") == 1
    key = next(iter(changes))
    assert f"refused: {name}: {name}/{file}: {key}" in " ".join(capsys.readouterr().out.split())
    assert command("ls", "--store", tmp_path / "runs") == 0
    assert command("store", "gc", "--store", tmp_path / "runs") == 0
    assert len(Store(tmp_path / "runs").names()) == STAGES - 1


def test_stages_that_began_at_no_time_are_listed_beside_others(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    unpack(store, packed)
    name = store.names()[0]
    stage = dict(store.stage(name) or {}, started=None)
    publish_json(store.folder(name) / "stage.json", stage)
    assert len(store.listing()) == len(stage_rows(store)) == STAGES


def test_a_file_larger_than_the_disk_is_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 5, 5))  # type: ignore[attr-defined]
    assert command("store", "unpack", packed, "--store", tmp_path / "runs") == 2
    assert "and the disk of" in capsys.readouterr().err
    assert tree(tmp_path / "runs") == {}


def test_a_disk_that_is_full_on_the_way_leaves_whole_stages_alone(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    store, real, room = Store(tmp_path / "runs"), atomic.write_all, [sum(map(len, read(packed).values())) // 2]

    def write_all(file: int, data: Any) -> None:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        real(file, data)

    monkeypatch.setattr(packing_module, "write_all", write_all)
    assert command("store", "unpack", packed, "--store", store.root) == 1
    assert "the disk is full" in capsys.readouterr().err
    monkeypatch.undo()
    assert 0 < len(store.names()) < STAGES
    assert all(store.problem(name) is None for name in store.names())
    assert not (store.root / ".unpacked").exists()
    unpack(store, packed)
    assert len(store.names()) == STAGES


def test_a_kill_at_any_write_leaves_no_stage_half_there_and_the_next_unpacking_takes_the_rest(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    real, rmtree = os.fsync, shutil.rmtree
    for number in (1, 7, 20, 33, 47):
        store, count = Store(tmp_path / str(number)), [0]

        def fsync(file: int, count: list[int] = count, number: int = number) -> None:
            count[0] += 1
            if count[0] == number:
                raise Killed
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # a kill cleans nothing
        with pytest.raises(Killed):
            unpack(store, packed)
        monkeypatch.setattr(os, "fsync", real)
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        assert all(store.problem(name) is None for name in store.names())
        unpack(store, packed)
        assert len(store.names()) == STAGES
        assert all(store.problem(name) is None for name in store.names())
        assert not (store.root / ".unpacked").exists()


def test_only_one_process_unpacks_into_a_store_at_a_time(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.lock("unpacking"), pytest.raises(BadInput, match="another process unpacks"):
        unpack(Store(tmp_path), packed)


def test_the_source_of_a_plugin_travels_as_text_and_is_never_imported(tmp_path: Path) -> None:
    store, name = Store(tmp_path / "runs"), "0123456789abcdef"
    source = b"raise SystemExit('was imported')\n"
    with store.claim(name, {"name": "own", "spec": {}, "parent": None}) as claimed:
        assert claimed is not None
        claimed.begin()
        claimed.finish({"status": "complete"}, {}, {}, {}, sources={"deep/mine.py": source})
    pack(store, [name], "own", b'name = "own"\n', tmp_path / "own.zip")
    other = Store(tmp_path / "other")
    assert unpack(other, tmp_path / "own.zip").taken == [name]
    path = other.folder(name) / "source" / "deep" / "mine.py"
    assert path.read_bytes() == source
    assert not path.stat().st_mode & 0o111
    assert other.problem(name) is None


def test_a_report_that_is_there_is_not_replaced_and_one_that_is_no_toml_is_refused(
    packed: Path, tmp_path: Path
) -> None:
    members = read(packed)
    store = Store(tmp_path / "runs")
    mine = store.root / "reports" / "kept" / "study.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    unpack(store, packed)
    assert mine.read_text() == "mine"
    outcome = unpack(
        Store(tmp_path / "two"), write(tmp_path / "x.zip", {**members, "reports/kept/study.toml": b"name ="})
    )
    assert list(outcome.refused) == ["reports/kept/study.toml"]
    assert len(outcome.taken) == STAGES


def test_a_study_whose_keys_have_very_many_parts_is_refused_at_once(packed: Path, tmp_path: Path) -> None:
    deep, began = {**read(packed), "reports/kept/study.toml": b"a." * 200_000 + b"a = 1"}, time.process_time()
    outcome = unpack(Store(tmp_path / "runs"), write(tmp_path / "x.zip", deep))
    assert "more than 100 parts" in outcome.refused["reports/kept/study.toml"]
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "x.zip" if kind == "pipe" else Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(file)
    with pytest.raises(BadInput, match=f"unpack: {file}: is a {kind}, not a plain file; name one that"):
        unpack(Store(tmp_path / "runs"), file)


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_packed_file_is_refused_with_a_way_out(tmp_path: Path, content: bytes, capsys: Output) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(content)
    assert command("store", "unpack", file, "--store", tmp_path / "runs") == 2
    assert f"unpack: {file}: " in capsys.readouterr().err
    assert command("store", "unpack", tmp_path / "none.zip") == 2
    assert "no file" in capsys.readouterr().err


def test_a_cut_file_is_refused_whole(packed: Path, tmp_path: Path) -> None:
    content = packed.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        (tmp_path / "x.zip").write_bytes(content[: int(share * len(content))])
        with pytest.raises(BadInput, match="cut short"):
            unpack(Store(tmp_path / "runs"), tmp_path / "x.zip")
    assert not (tmp_path / "runs").exists()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_bytes_are_changed_a_store_stays_whole(packed: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(packed.read_bytes())
    tail = content.index(b"PK\x01\x02")
    for _ in range(data.draw(st.integers(1, 4))):
        low, high = data.draw(st.sampled_from([(0, 5000), (0, len(content) - 1), (tail, len(content) - 1)]))
        content[data.draw(st.integers(low, high))] = data.draw(st.integers(0, 255))
    file, root = tmp_path / "x.zip", tmp_path / "runs"
    file.write_bytes(content)
    shutil.rmtree(root, ignore_errors=True)
    store = Store(root)
    taken = set[str]()
    with contextlib.suppress(BadInput):
        taken = set(unpack(store, file).taken)
    assert set(store.names()) == taken
    assert all(list(files.damages(store.folder(name))) == [] for name in store.names())
    assert not (root / ".unpacked").exists()


def test_a_stage_that_is_gone_while_it_is_packed_is_said(study: headstart.Study, tmp_path: Path) -> None:
    store = copied(study, tmp_path)
    name = store.names()[0]
    (store.folder(name) / "predictions.safetensors").unlink()
    with pytest.raises(Damaged, match=r"predictions.safetensors: is missing"):
        pack(store, [name], "x", b"", tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()
