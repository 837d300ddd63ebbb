"""Each operation of a command on the disk fails in turn; another command then ends as an undisturbed one.

Killed before and after it, without power after it, cut short, and refused (no room, an error of the disk, no right, too many files): then all
bits equal, nothing is lost, done twice or left over, and a message names the file and a way out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.points.recorded import look, put_back, state_key
from support.points.trials import DAILY, VERBS

TESTS = Path(__file__).parent
ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A fork of several threads waits for ever."""


def taken(*words: str) -> str:
    """The points of these commands, in a process of their own: they are forks of one that has one thread."""
    command = [sys.executable, "-m", "support.points", *words]
    done = subprocess.run(command, cwd=TESTS, env=ALONE, capture_output=True, text=True, check=False)
    return "" if not done.returncode else done.stdout + done.stderr[-2_000:]


@pytest.mark.timeout(900)
def test_the_points_of_a_tenth_of_all_operations() -> None:
    assert not taken("--stride", str(DAILY))


@pytest.mark.timeout(900)
def test_power_that_goes_after_some_operations_loses_nothing_that_was_finished() -> None:
    """Of what was not flushed a disk keeps nothing, the names, the bytes, or a choice among both."""
    assert not taken("run", "store unpack", "prepare", "--power", "--stride", "50")


ALIKE: dict[str, list[str]] = {}
"""Commands that begin with one folder, which is made once: a process each would make it again."""
for name, verb in VERBS.items():
    if not verb.lacking:
        ALIKE.setdefault(verb.begin.__name__, []).append(name)
ALONE_WRITTEN = {
    folder: [name for name in names if not name.startswith(("run --workers", "run --track"))]
    for folder, names in ALIKE.items()
    if names != ["run --workers"]
}
"""Those whose power is cut: of several workers each writes what one process does, and trackers may lose what they were told."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", ALIKE)
def test_every_point_of_the_commands_that_begin_with_a_folder(folder: str) -> None:
    assert not taken(*ALIKE[folder])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", ALONE_WRITTEN)
def test_more_power_cuts_of_the_commands_that_begin_with_a_folder(folder: str) -> None:
    assert not taken(*ALONE_WRITTEN[folder], "--power", "--stride", "20")


@pytest.mark.slow
def test_files_written_in_place_left_over_unflushed_or_given_up_in_silence_are_found() -> None:
    """The control of these trials: a command with one file of each kind beside a sound one, of which nothing is found."""
    words = [sys.executable, "-m", "support.points.control"]
    done = subprocess.run(words, cwd=TESTS, env=ALONE, capture_output=True, text=True, check=True)
    parts = {line.rpartition(": ")[2] for line in done.stdout.splitlines() if line}
    assert {re.sub(r"[0-9a-f]{16}", "*", part) for part in parts} == {
        "in_place has other bytes",
        ".left_over.*.tmp is left over",
        "unflushed has other bytes",
        "unsaid is not there, though the command ended with 0",
    }


def test_a_folder_is_put_back_with_its_links_rights_and_times(tmp_path: Path) -> None:
    """Also a file that this process holds open, which a fork has deleted: it stays the same file."""
    folder, other = tmp_path / "here", tmp_path / "held"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "file").write_bytes(b"1234")
    os.link(folder / "a" / "file", folder / "second")
    (folder / "open").write_bytes(b"56")
    (folder / "link").symlink_to("a/file")
    (folder / "open").chmod(0o600)
    os.utime(folder / "second", ns=(10**18, 10**18))
    os.link(folder / "open", other)
    before, file = look(folder, {}), (folder / "open").stat().st_ino
    (folder / "a" / "file").write_bytes(b"other")
    (folder / "link").unlink()
    (folder / "open").unlink()
    (folder / "open").mkdir()
    (folder / "new").write_bytes(b"")
    put_back(folder, before, {"open": other})
    assert look(folder, {}) == before
    assert (folder / "open").stat().st_ino == file
    (empty := tmp_path / "empty").mkdir()
    put_back(empty, before)
    assert state_key(look(empty, {})) == state_key(before)
    assert (empty / "second").samefile(empty / "a" / "file")
    assert (empty / "second").stat().st_mtime_ns == 10**18
