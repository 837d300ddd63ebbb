"""Machines that are not one's own: a store of another user's, no home folder, a terminal of plain letters, few files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.old_folders import OLD

import headstart

NOBODY = 65534


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A store of another user's, whose folders everybody may read."""
    if os.geteuid():
        pytest.skip("only root may become somebody else")
    shutil.copytree(OLD / headstart.__version__, tmp_path / "theirs")
    for path in [tmp_path, *tmp_path.parents][:-1]:
        path.chmod(path.stat().st_mode | 0o055)
    return tmp_path / "theirs"


AS_NOBODY = """
import contextlib, io, os, sys
from headstart import cli
mine, theirs, user, *words = sys.argv[1:]
os.chdir(mine)  # once as oneself: the interpreter may lie where nobody else may read
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
    cli.main(words)
os.chdir(theirs)
for name in ("HEADSTART_CACHE", "HOME", "XDG_CACHE_HOME"):
    os.environ.pop(name, None)
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
cli.main(words)
"""


def performed(
    folder: Path, command: Sequence[str], change: Callable[[], Any] | None = None, **variables: str
) -> tuple[int, str]:
    """The exit code of a command of Python, and what it printed. change: done before it begins."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        preexec_fn=change,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def as_nobody(theirs: Path, *words: str) -> tuple[int, str]:
    """`headstart WORDS` as a user who owns nothing, in a folder that this one owns."""
    mine = theirs.with_name("mine")
    shutil.copytree(theirs, mine)
    command = ("-c", AS_NOBODY, str(mine), str(theirs), str(NOBODY), *words)
    return performed(theirs, command, HEADSTART_CACHE=str(mine / "cache"))


RUN = ("run", "old.toml", "--store=runs", "--workers=0", "--device=cpu")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (RUN, "no page: store runs cannot be written"),
        pytest.param(
            ("report", "old.toml", "--store=runs"),
            "`headstart report` writes one to --out FOLDER",
            marks=pytest.mark.slow,
        ),
        (("ls", "--store=runs"), "complete"),
    ],
)
def test_a_finished_store_of_another_user_is_read_without_a_home(other: Path, words: Sequence[str], part: str) -> None:
    files = {path: path.stat().st_mtime_ns for path in other.rglob("*")}
    code, text = as_nobody(other, *words)
    assert (code, "Traceback" in text) == (0, False), text
    assert part in " ".join(text.split())
    assert files == {path: path.stat().st_mtime_ns for path in other.rglob("*")}


@pytest.mark.slow
def test_a_store_of_another_user_that_lacks_stages_is_refused_before_anything_is_trained(other: Path) -> None:
    code, text = as_nobody(other, *RUN, "seed=[1]")
    assert (code, "--store: 'runs' cannot be written; name another folder" in text) == (2, True), text


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of such folders."""
    shutil.copytree(OLD / headstart.__version__, tmp_path / "own")
    return tmp_path / "own"


@pytest.mark.parametrize("words", [("ls", "--store=runs"), ("report", "old.toml", "--store=runs", "--out=page.md")])
def test_a_terminal_of_plain_letters_gets_plain_letters(own: Path, words: Sequence[str]) -> None:
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code, text = performed(own, ("-m", "headstart", *words), **plain)
    assert (code, text.isascii()) == (0, True), text


def limited(kind: int, number: int) -> Callable[[], None]:
    """What gives a process this limit."""
    return lambda: resource.setrlimit(kind, (number, number))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), [(resource.RLIMIT_NOFILE, 24), (resource.RLIMIT_AS, 1_500_000_000)])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_limit_of_the_shell_is_kept_or_said_in_words(own: Path, kind: int, number: int, workers: int) -> None:
    command = ("-m", "headstart", *RUN[:3], f"--workers={workers}", "--device=cpu", "seed=[1]")
    code, text = performed(own, command, limited(kind, number))
    assert code in (0, 1, 2), text
    assert "Traceback" not in text, text
    code, text = performed(own, ("-m", "headstart", "ls", "--store=runs"))
    assert code == 0, text
