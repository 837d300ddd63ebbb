"""Every operation by which the package changes a disk goes through `headstart.disk`, and a watch sees each."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headstart
from headstart import disk
from headstart.atomic import publish, published, refused

ROOT = Path(headstart.__file__).parent
OF_OS = set(
    re.findall(
        r"\w+",
        """write pwrite writev sendfile copy_file_range replace rename renames unlink remove removedirs mkdir makedirs rmdir
link symlink truncate ftruncate fsync fdatasync chmod fchmod utime mkfifo mknod lockf fdopen posix_fallocate""",
    )
)
METHODS = set(
    re.findall(r"\w+", "write_text write_bytes touch mkdir unlink rmdir hardlink_to symlink_to rename chmod lchmod")
)
LIBRARIES = set(
    re.findall(
        r"\w+",
        """save savez savez_compressed memmap open_memmap write_table ParquetWriter ZipFile save_file tofile dump savefig
flock lockf TemporaryDirectory TemporaryFile NamedTemporaryFile SpooledTemporaryFile mkstemp mkdtemp rmtree copyfile copy
copy2 copytree move FileLock UnixFileLock SoftFileLease""",
    )
)
OTHERWISE = {
    ("bench/process.py", "os.fdopen"): "a pipe",
    ("cli.py", "os.open"): "the null device",
    ("verbs/verb.py", "os.open"): "the null device",
    ("data/sheets.py", "os.open"): "the null device",
    ("verbs/verb.py", "open"): "the null device",
    ("runner/connection.py", "os.fdopen"): "read",
    ("store/plain.py", "os.open"): "read, whatever the flags say else",
    ("data/arrays.py", "ZipFile"): "read",
    ("data/packed_folders.py", "ZipFile"): "read",
    ("data/sheets.py", "ZipFile"): "read",
    ("data/prepared.py", "memmap"): "read",
    ("tasks/language.py", "memmap"): "read",
    ("data/prepared.py", "FileLock"): "taken by `disk.locking`",
    ("store/locks.py", "UnixFileLock"): "taken by `disk.locking`",
    ("store/locks.py", "SoftFileLease"): "taken by `disk.locking`",
    ("store/packing.py", "ZipFile"): "read, or written to a file of `atomic.published`",
    ("store/packing.py", "open"): "a member of that archive",
    ("serve/predictions.py", "write_table"): "written to a file of `atomic.published`",
    ("serve/predictions.py", "ParquetWriter"): "written to a file of `atomic.published`",
    ("data/keeping.py", "write_table"): "memory",
    ("data/part.py", "ParquetWriter"): "memory, or a file of `atomic.published`",
    ("data/part.py", "save"): "memory, or a file of `atomic.published`",
    ("data/part.py", "savez"): "memory, or a file of `atomic.published`",
    ("verbs/run.py", "write_table"): "memory",
    ("report/figures/style.py", "savefig"): "memory",
    ("data/apart.py", "save"): "a temporary folder",
    ("data/apart.py", "TemporaryDirectory"): "a temporary folder",
    ("data/prepared.py", "TemporaryDirectory"): "a temporary folder",
    ("estimator/exported.py", "TemporaryDirectory"): "a temporary folder",
    ("estimator/hub.py", "TemporaryDirectory"): "a temporary folder",
    ("estimator/models.py", "TemporaryDirectory"): "a temporary folder",
    ("fit/perform.py", "TemporaryDirectory"): "a temporary folder",
    ("report/views.py", "TemporaryDirectory"): "a temporary folder",
    ("runner/node.py", "TemporaryDirectory"): "a temporary folder",
    ("runner/local.py", "TemporaryFile"): "a file without a name",
    ("verbs/predict.py", "SpooledTemporaryFile"): "a file without a name",
}
"""(file, call) -> why it need not go through the layer."""
OURS = ("builder", "self", "self.folder", "claim.stage", "made")
"""Objects of the package that have a method `save`."""
OPENED_TO_WRITE = r"""\(.*['"][rbt]*[wax+][bt+]*['"]"""


def ways_around(text: str) -> Iterator[str]:
    """Calls of a module that may change a disk by themselves."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if owner == "disk":
            continue
        memory = (name == "copy" and owner != "shutil") or (name == "save" and not owner)  # of safetensors: bytes
        if name in LIBRARIES and owner not in OURS and not memory:
            yield name
        elif owner == "os" and (name in OF_OS or (name == "open" and not _reads(node))):
            yield f"os.{name}"
        elif owner != "os" and owner and name in METHODS:
            yield f".{name}"
        elif owner and name == "replace" and len(node.args) == 1 and not node.keywords:
            yield ".replace"
        elif name == "open" and owner != "os" and re.search(OPENED_TO_WRITE, ast.unparse(node)):
            yield "open"


def _reads(call: ast.Call) -> bool:
    names = {node.attr for node in ast.walk(call.args[1]) if isinstance(node, ast.Attribute)}
    return "O_RDONLY" in names and not names & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def test_nothing_else_changes_a_disk() -> None:
    calls = {
        (path.relative_to(ROOT).as_posix(), call)
        for path in ROOT.rglob("*.py")
        for call in ways_around(path.read_text("utf-8"))
        if path.name != "disk.py"
    }
    assert calls - OTHERWISE.keys() == set(), "call the function of headstart.disk"
    assert OTHERWISE.keys() - calls == set(), "these are gone"


def test_ways_around_the_layer_are_recognised() -> None:
    wrong = """
import os, shutil, pathlib
os.rename(a, b)
os.open(path, os.O_RDWR)
os.open(path, flags)
open(path, "w")
path.open("r+b")
path.write_text("a")
path.replace(other)
shutil.rmtree(path)
np.save(path, array)
torch.save(weights, path)
"""
    assert len(list(ways_around(wrong))) == 10
    right = "os.open(path, os.O_RDONLY | os.O_NOFOLLOW)\nopen(path)\npath.open('rb')\n'a'.replace('a', 'b')\nreplace(spec, a=1)"
    assert not list(ways_around(right))


def test_a_watch_sees_every_operation_of_a_file_that_is_written_whole_and_may_cut_it_short(tmp_path: Path) -> None:
    seen = []

    def watch(operation: disk.Operation, act: Callable[[], Any], part: Callable[[], Any] | None) -> Any:
        seen.append(operation.kind)
        return part() if operation.kind == "write" and part else act()

    with disk.watched(watch):
        publish(tmp_path / "a", b"1234")
        disk.make_folder(tmp_path / "folder" / "inner")
        disk.make_folder(tmp_path / "folder")
        disk.unlink(tmp_path / "nothing", missing_ok=True)
    publish(tmp_path / "b", b"1234")
    assert seen == ["create", "lock", "write", "sync", "replace", "sync", "make folder", "sync", "sync"]
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"12", b"1234")


def test_a_refused_write_names_its_file_and_leaves_nothing(tmp_path: Path) -> None:
    for kind in ("write", "sync"):

        def watch(operation: disk.Operation, act: Callable[[], Any], _: Any, kind: str = kind) -> Any:
            if operation.kind == kind:
                raise OSError(errno.EIO, "Input/output error")  # as the system says it of a descriptor
            return act()

        with disk.watched(watch), pytest.raises(OSError, match="Input/output error") as caught:
            publish(tmp_path / "a", b"1234")
        assert refused(caught.value).startswith(
            f"{tmp_path / 'a'}: Input/output error; check the disk, or name another"
        )
        assert not list(tmp_path.iterdir())


def test_a_file_that_another_writer_took_for_left_over_before_it_was_locked_is_begun_again(tmp_path: Path) -> None:
    taken = []

    def watch(operation: disk.Operation, act: Callable[[], Any], _: Any) -> Any:
        if operation.kind == "lock" and not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        return act()

    with disk.watched(watch):
        publish(tmp_path / "a", b"1234")
    assert taken
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_killed_writers_left_of_a_file_goes_with_the_next_and_that_of_other_files_and_living_ones_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / f".a.{'0' * 16}.tmp").write_bytes(b"half")
    (tmp_path / f".b.{'0' * 16}.tmp").write_bytes(b"of another")
    with published(tmp_path / "a") as living:
        publish(tmp_path / "a", b"second")
        assert len(list(tmp_path.glob(".a.*.tmp"))) == 1
        os.write(living, b"first")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".b.{'0' * 16}.tmp", "a"]
    assert (tmp_path / "a").read_bytes() == b"first"
