"""Machines that are not one's own: a store of another user's, no home folder, a terminal of plain letters, few files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.old_folders import OLD

import headstart
from headstart import limits
from headstart.runner.local import FOR_MEMORY

NOBODY = 54321
"""A number that no account has: there is no home to look up, either."""


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
from pathlib import Path
from headstart import cli
mine, theirs, user, *words = sys.argv[1:]
def act():
    if words != ["load"]:
        cli.main(words)
    import headstart
    identity = sorted(file.parent.name for file in Path("runs").glob("*/result.json"))[0]
    print("loaded a", type(headstart.load(identity, store="runs")).__name__)
os.chdir(mine)  # once as oneself: the interpreter may lie where nobody else may read
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
    act()
os.chdir(theirs)
for name in ("HEADSTART_CACHE", "HOME", "XDG_CACHE_HOME"):
    os.environ.pop(name, None)
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
act()
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
        (("load",), "loaded a "),
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
@pytest.mark.parametrize(
    ("kind", "number", "workers", "part"),
    [
        (resource.RLIMIT_NOFILE, 10, 0, "raise the limit of open files (`ulimit -n`)"),
        (resource.RLIMIT_NOFILE, 24, 1, ""),
        (resource.RLIMIT_AS, 400_000_000, 0, "allow more (`ulimit -v`, the container's limit)"),
        (resource.RLIMIT_AS, 1_500_000_000, 1, ""),
    ],
)
def test_a_limit_of_the_shell_is_kept_or_said_in_words(
    own: Path, kind: int, number: int, workers: int, part: str
) -> None:
    command = ("-m", "headstart", *RUN[:3], f"--workers={workers}", "--device=cpu", "seed=[1]")
    code, text = performed(own, command, limited(kind, number), HEADSTART_CACHE=str(own / "cache"))
    assert code in ((1, 2) if part else (0, 1, 2)), text
    assert part in " ".join(text.split())
    assert "Traceback" not in text, text
    code, text = performed(own, ("-m", "headstart", "ls", "--store=runs"))
    assert code == 0, text


def as_user(own: Path, capable: str, variables: Mapping[str, str], *command: str) -> tuple[int, str]:
    """A command as a user to whom the folder belongs, who has no account, and these rights and variables alone."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root may become somebody else, by setpriv")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    user += [f"--inh-caps=-all,{capable}", f"--ambient-caps=-all,{capable}"]
    subprocess.run(["chown", "-R", str(NOBODY), str(own)], check=True)
    for path in [own, *own.parents][:-1]:
        path.chmod(path.stat().st_mode | 0o055)
    always = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*user, *command], cwd=own, env=always | variables, capture_output=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).decode("utf-8", "replace").split())


@pytest.mark.slow
def test_a_limit_of_processes_is_said_in_words(own: Path) -> None:
    """As another user: to root the limit does not apply."""
    command = ["-m", "headstart", *RUN[:3], "--workers=1", "--device=cpu", "seed=[1]"]
    variables = {"HOME": "/nonexistent", "HEADSTART_CACHE": str(own / "cache")}
    rights = "+dac_override,+dac_read_search,+fowner"  # to read what the interpreter's owner alone may
    code, text = as_user(own, rights, variables, "prlimit", "--nproc=1", sys.executable, *command)
    assert (code, "Traceback" in text) == (1, False), text
    assert "headstart: no more processes or threads can be started here: raise the limit (`ulimit -u`)" in text


@pytest.mark.slow
@pytest.mark.parametrize("home", ["unset", "read-only"])
def test_a_person_without_a_home_that_can_be_written_trains_prepares_and_predicts(own: Path, home: str) -> None:
    (own.parent / "home").mkdir(mode=0o555)
    variables = {"HOME": str(own.parent / "home")} if home == "read-only" else {}
    prepare = ("prepare", "listops", "task.train=40", "task.val=10", "task.test=10", "--workers=0")
    train = (*RUN[:2], "--store=new", *RUN[3:], "seed=[1]")
    for words, part in (
        (train if home == "unset" else prepare, "cached until this ends"),
        (("predict", "summary", "train.csv", "-o", "now.csv"), "40 predictions of summary in now.csv"),
    ):
        code, text = as_user(own, "+dac_read_search", variables, sys.executable, "-m", "headstart", *words)
        assert (code, "Traceback" in text, part in text) == (0, False, True), text
    assert not list((own.parent / "home").iterdir())


HOGS = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from headstart.runner.local import WorkerDied, WorkerDone, Workers
from hog import fill
pool, left, out = Workers(2, fill, threads=1), {"a": 1, "b": 1}, []
for key in left:
    pool.start(key, Path(sys.argv[1]))
again = []
while left:
    for report in pool.wait(1):
        if isinstance(report, WorkerDied):
            out.append(report.why)
            again.append(report.key)
        elif isinstance(report, WorkerDone):
            out.append(report.error or "done")
            left.pop(report.key)
    while again and pool.free and len(out) < 5:
        pool.start(again.pop(), Path(sys.argv[1]))
    assert len(out) < 5, out
pool.close()
print(out)
"""
HOG = """
import time
def fill(folder, stop):
    yield "begun"
    data = bytearray(b"1") * 150_000_000
    time.sleep(1)
    yield len(data)
"""


@pytest.fixture
def container() -> Iterator[Callable[[int], Callable[[], None]]]:
    """What makes a control group of so many bytes, and what a process does to enter it."""
    group = next((path for path, _ in limits._groups(Path("/"), "memory")), Path("/nowhere")) / "headstart-test"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")

    def made(size: int) -> Callable[[], None]:
        largest = [group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists()]
        if not largest:
            pytest.skip("control groups here do not limit memory")
        largest[0].write_text(str(size))

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        return enter

    try:
        yield made
    finally:
        group.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("fit", "waves.csv", "--target=label", "--time=5s", "--store=fits", "--out=new"), "model new"),
        (("run", "old.toml", "--store=new", "seed=[1]"), "page new/reports/"),
    ],
)
def test_a_container_of_512_megabytes_is_enough_with_as_many_workers_as_it_has_room_for(
    own: Path, container: Callable[[int], Callable[[], None]], words: Sequence[str], part: str
) -> None:
    command = ("-m", "headstart", *words, "--device=cpu")
    code, text = performed(own, command, container(512 * 2**20), HEADSTART_CACHE=str(own / "cache"))
    assert (code, "Traceback" in text, "killed" in text, part in text) == (0, False, False, True), text


@pytest.mark.slow
def test_workers_that_a_container_has_no_room_for_are_named_by_the_kernels_count_and_end_one_at_a_time(
    tmp_path: Path, container: Callable[[int], Callable[[], None]]
) -> None:
    """Two workers of 150 MB and more each are at work in 330 MB."""
    (tmp_path / "hog.py").write_text(HOG)
    code, text = performed(tmp_path, ("-c", HOGS, str(tmp_path)), container(330_000_000))
    assert code == 0, text
    assert text.strip() == str([FOR_MEMORY, "done", "done"]), text
