"""Folders and archives of files from strangers: read in order, with limits, and never past their own bounds."""

import contextlib
import gzip
import io
import lzma
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headstart.data.archives as module
from headstart.data.archives import listed, members, tar_members, unpacked
from headstart.errors import MOST_MISTAKES, BadInput, Mistakes


def everything(name):
    return True


def read(root, wanted=everything):
    mistakes = Mistakes()
    return dict(members(root, wanted, mistakes)), mistakes.texts


def tar(path, entries, mode="w"):
    """An archive of (name, content) or TarInfo."""
    with tarfile.open(path, mode) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                archive.addfile(info, io.BytesIO(entry[1]))
    return path


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "set"
    (root / "b").mkdir(parents=True)
    (root / "b" / "2.txt").write_bytes(b"two")
    (root / "a.txt").write_bytes(b"one")
    return root


def test_a_folder_is_read_in_the_order_of_its_names(folder):
    assert list(read(folder)[0].items()) == [("a.txt", b"one"), ("b/2.txt", b"two")]
    assert listed(folder, lambda name: name.endswith("2.txt")) == ["b/2.txt"]


def test_archives_of_any_packing_give_what_the_folder_gives(folder, tmp_path):
    entries = [("./a.txt", b"one"), ("b/2.txt", b"two")]
    for mode in ("w", "w:gz", "w:xz", "w:bz2"):
        assert read(tar(tmp_path / "any.name", entries, mode)) == (read(folder)[0], [])


def test_only_what_is_wanted_is_read(folder, tmp_path):
    some = read(tar(tmp_path / "t", [("x", b"1"), link("y", "/etc/passwd")]), lambda name: name == "x")
    assert some == ({"x": b"1"}, [])
    assert read(folder, lambda name: name == "a.txt")[0] == {"a.txt": b"one"}


def test_a_link_out_of_a_folder_is_not_followed(folder, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "c.txt").symlink_to(tmp_path / "secret")
    (folder / "d.txt").symlink_to("a.txt")
    result, mistakes = read(folder)
    assert set(result) == {"a.txt", "b/2.txt", "d.txt"}
    assert mistakes == [f"{folder / 'c.txt'}: is a link that leads out of its folder; put the file itself there"]


def test_a_link_to_a_folder_is_not_followed(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_bytes(b"secret")
    (folder / "c").symlink_to(tmp_path / "other")
    assert set(read(folder)[0]) == {"a.txt", "b/2.txt"}


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe")
    assert read(folder)[1] == [f"{folder / 'pipe'}: is not a plain file; put a file there"]


def test_members_that_lead_out_and_links_are_named_and_skipped(tmp_path):
    path = tar(
        tmp_path / "t.tar", [("../up", b"1"), ("/root", b"2"), ("a/../../b", b"3"), link("c", "../d"), ("good", b"4")]
    )
    result, mistakes = read(path)
    assert result == {"good": b"4"}
    out = "leads out of the archive's folder; make the archive anew (2 more like it)"
    assert mistakes[0] == f"{path}, member '../up': {out}"
    assert mistakes[1].startswith(f"{path}, member 'c': is a link or no plain file, which is not followed")


def test_more_files_or_larger_ones_than_the_limits_are_refused(folder, tmp_path, monkeypatch):
    path = tar(tmp_path / "t.tar", [("a", b"1" * 9), ("b", b"2"), ("c", b"3")])
    monkeypatch.setattr(module, "FILE_BYTES", 8)
    assert read(path)[1] == [f"{path}, member 'a': has 9 bytes, at most 8 are read"]
    (folder / "a.txt").write_bytes(b"1" * 9)
    assert read(folder)[1] == [f"{folder / 'a.txt'}: has 9 bytes, at most 8 are read"]
    monkeypatch.setattr(module, "MEMBERS", 1)
    for root, words in ((path, "more than 1 members"), (folder, "more than 1 files")):
        with pytest.raises(BadInput, match=words):
            read(root)


def test_what_unpacks_without_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TOTAL", 1000)
    path = tmp_path / "zeros.xz"
    path.write_bytes(lzma.compress(bytes(10**6)))
    with unpacked(path) as file, pytest.raises(BadInput, match=r"zeros\.xz: unpacks to more than 1000 bytes"):
        file.read()
    with unpacked(path) as file, pytest.raises(BadInput, match="unpacks to more than 1000 bytes"):
        file.readline()
    packed = tar(tmp_path / "t", [("zeros", bytes(10**6))], "w:gz")
    with pytest.raises(BadInput, match="t: unpacks to more than 1000 bytes"):
        read(packed)


def test_a_member_of_a_size_that_the_archive_cannot_hold_ends_the_reading(tmp_path):
    """A note in the archive may say any size; tarfile reads on to its end, wherever the file ends."""
    info = tarfile.TarInfo("a")
    info.pax_headers = {"size": "9" * 40}
    with pytest.raises(BadInput, match=r"t\.tar, member 'a': is cut short; get it again"):
        read(tar(tmp_path / "t.tar", [info]))


def test_zeros_that_are_packed_tightly_are_no_fault_of_their_archive(tmp_path):
    """A recording of zeros is packed a thousandfold; a file of holes takes no room in an archive at all."""
    packed = tar(tmp_path / "t.tar.gz", [("zeros", bytes(2 * module.SMALL_FILE))], "w:gz")
    with pytest.raises(BadInput, match=r"member 'zeros': unpacks to more than \d+ bytes; unpack it where you trust it"):
        read(packed)
    holes = tarfile.TarInfo("holes")
    holes.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**31)}
    holes.size = 512
    with tarfile.open(tmp_path / "holes.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(holes, io.BytesIO(b"0\n".ljust(512, b"\0")))
        archive.addfile(tarfile.TarInfo("empty"))
    assert [(member.name, member.size) for _, member in tar_members(tmp_path / "holes.tar")] == [
        ("holes", 2**31),
        ("empty", 0),
    ]


def test_an_archive_that_is_cut_short_is_refused(tmp_path):
    for mode in ("w", "w:gz", "w:xz"):
        path = tar(tmp_path / "t", [("a", os.urandom(5000)), ("b", os.urandom(5000))], mode)
        path.write_bytes(path.read_bytes()[:7000])
        with pytest.raises(BadInput, match=r"t: is cut short or damaged \(.*\); give the file again"):
            read(path)
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(BadInput, match="t: is no archive, whatever its name says"):
        read(path)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=1200), st.sampled_from(["plain", "tar", "gz", "xz"]), st.integers(0, 1200))
def test_any_bytes_are_read_or_refused(content, how, location):
    with tempfile.TemporaryDirectory() as folder:
        path = tar(Path(folder) / "t", [("a", b"x" * 600)])
        whole = path.read_bytes()[:2048]
        mixed = {
            "plain": content,
            "tar": whole[:location] + content + whole[location + len(content) :],
            "gz": gzip.compress(content),
            "xz": lzma.compress(content)[: location + 1],
        }[how]
        path.write_bytes(mixed)
        with contextlib.suppress(BadInput):
            read(path)


def test_twenty_causes_are_gathered_and_then_reading_stops():
    mistakes = Mistakes()
    mistakes.check()
    for i in range(MOST_MISTAKES - 1):
        mistakes.add(f"file, row {i}", f"is {chr(97 + i)}")
    with pytest.raises(BadInput) as caught:
        mistakes.add("file, row 19", "is wrong")
    lines = str(caught.value).splitlines()
    assert lines[:20] == [*(f"file, row {i}: is {chr(97 + i)}" for i in range(19)), "file, row 19: is wrong"]
    assert lines[20].startswith("reading stopped after 20 mistakes")


def test_one_cause_is_one_line_with_its_first_place_and_a_count():
    mistakes = Mistakes()
    for i in range(1234):
        mistakes.add(f"file, row {i}", f"'{i}' has {i:,} cells (column 'a{i}'), not 7; correct it")
    mistakes.add("file, row 9", "is something else")
    assert mistakes.texts == [
        "file, row 0: '0' has 0 cells (column 'a0'), not 7; correct it (1,233 more like it)",
        "file, row 9: is something else",
    ]
    assert len(mistakes) == 1235
