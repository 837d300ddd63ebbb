"""Workers: fresh processes that are watched, and that never outlive their driver."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.processes import alive

from headstart.runner import local
from headstart.runner.local import (
    FOR_MEMORY,
    Inline,
    Pool,
    WorkerDied,
    WorkerDone,
    WorkerMessage,
    WorkerReport,
    Workers,
)

SHADOWING = ("json", "wave", "xml.dom")
"""Modules of Python; the last two are imported by no worker before its job."""


def work(job: Any, stop: Callable[[], str | None]) -> Generator[Any, None, None]:
    """What the jobs of these tests do."""
    match job:
        case "count":
            yield from range(3)
        case "process":
            yield os.getpid()
        case "threads":
            yield os.environ["OMP_NUM_THREADS"]
        case "raise":
            yield "before"
            raise ArithmeticError("of the work")
        case "talk and die":
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(7)
        case "until stopped":
            yield "running"
            while not stop():
                time.sleep(0.01)
            yield f"stopped: {stop()}"
        case "imports":
            yield [importlib.import_module(name).__file__ for name in SHADOWING]
        case "signals":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            yield "still here"


def reports(pool: Pool, until: Callable[[list[WorkerReport]], bool]) -> list[WorkerReport]:
    out: list[WorkerReport] = []
    end = time.monotonic() + 20
    while not until(out):
        assert time.monotonic() < end, out
        out += pool.wait(0.1)
    return out


def idle(pool: Pool) -> Callable[[list[WorkerReport]], bool]:
    return lambda _: not pool.busy


@pytest.fixture
def pool() -> Any:
    pool = Workers(2, work, threads=3)
    yield pool
    pool.close()


def test_a_worker_says_what_the_work_yields_and_then_takes_the_next_job(pool: Workers) -> None:
    for key in ("a", "b"):
        pool.start(key, "count")
        assert (pool.free, pool.busy) == (1, 1)
        assert reports(pool, idle(pool)) == [
            WorkerMessage(key, 0),
            WorkerMessage(key, 1),
            WorkerMessage(key, 2),
            WorkerDone(key),
        ]


def test_a_worker_lives_on_between_jobs_and_two_are_two_processes(pool: Workers) -> None:
    seen: list[set[int]] = []
    for _ in range(2):
        pool.start("a", "process")
        pool.start("b", "process")
        assert pool.free == 0
        seen.append({r.message for r in reports(pool, idle(pool)) if isinstance(r, WorkerMessage)})
    assert len(seen[0]) == 2
    assert seen[0] == seen[1]
    assert os.getpid() not in seen[0]


def test_a_worker_has_its_number_of_threads_before_any_library_is_loaded(pool: Workers) -> None:
    pool.start("a", "threads")
    assert WorkerMessage("a", "3") in reports(pool, idle(pool))


def test_what_the_work_raises_comes_back_as_text_and_the_worker_goes_on(pool: Workers) -> None:
    pool.start("a", "raise")
    message, ended = reports(pool, idle(pool))
    assert message == WorkerMessage("a", "before")
    assert isinstance(ended, WorkerDone)
    assert ended.error.strip().endswith("ArithmeticError: of the work")
    pool.start("b", "count")
    assert len(reports(pool, idle(pool))) == 4


@pytest.mark.parametrize(
    ("job", "why"), [("talk and die", "was killed by SIGKILL"), ("leave", "ended with exit code 7")]
)
def test_a_dead_worker_is_noticed_with_its_last_words_and_replaced(pool: Workers, job: str, why: str) -> None:
    pool.start("a", job)
    died = reports(pool, idle(pool))
    assert died == [WorkerDied("a", why, "last words" if job == "talk and die" else "")]
    pool.start("b", "count")
    assert len(reports(pool, idle(pool))) == 4


def test_after_a_worker_that_was_killed_for_memory_half_as_many_are_at_work_and_idle_ones_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "oom_kills", itertools.count().__next__)
    with closing(Workers(3, work, threads=1)) as pool:
        for key, job in (("a", "until stopped"), ("b", "process"), ("c", "talk and die")):
            pool.start(key, job)
        messages = reports(pool, lambda out: {"b", "c"} <= {r.key for r in out if not isinstance(r, WorkerMessage)})
        assert WorkerDied("c", FOR_MEMORY, "last words") in messages
        pids = [report.message for report in messages if isinstance(report, WorkerMessage) and report.key == "b"]
        assert (pool.busy, pool.free) == (1, 0) or not alive(pids[0])
        pool.stop("enough")
        reports(pool, lambda out: WorkerDone("a") in out)
        assert pool.free in (1, 2)  # 2 where the second one was at work still


def test_an_idle_worker_that_dies_is_replaced_without_a_word(pool: Workers) -> None:
    pool.start("a", "process")
    first = reports(pool, idle(pool))[0]
    assert isinstance(first, WorkerMessage)
    os.kill(first.message, signal.SIGKILL)
    time.sleep(0.1)
    pool.start("b", "count")
    assert len(reports(pool, idle(pool))) in (4, 1)  # 1: it died after it had the job


def test_a_worker_ignores_ctrl_c_and_stops_when_the_driver_says_so(pool: Workers) -> None:
    pool.start("a", "signals")
    assert WorkerMessage("a", "still here") in reports(pool, idle(pool))
    pool.start("b", "until stopped")
    reports(pool, lambda out: WorkerMessage("b", "running") in out)
    pool.stop("enough")
    assert WorkerMessage("b", "stopped: enough") in reports(pool, idle(pool))


def test_closing_ends_a_worker_in_the_midst_of_its_work() -> None:
    pool = Workers(1, work, threads=1)
    pool.start("a", "until stopped")
    reports(pool, lambda out: WorkerMessage("a", "running") in out)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 2
    assert pool.busy == 0


def test_inline_says_the_same_as_a_worker_and_lets_errors_through() -> None:
    pool = Inline(work, lambda: "enough")
    pool.start("a", "count")
    assert reports(pool, idle(pool)) == [
        WorkerMessage("a", 0),
        WorkerMessage("a", 1),
        WorkerMessage("a", 2),
        WorkerDone("a"),
    ]
    pool.start("b", "until stopped")
    assert WorkerMessage("b", "stopped: enough") in reports(pool, idle(pool))
    pool.start("c", "raise")
    pool.wait(0)
    with pytest.raises(ArithmeticError):
        pool.wait(0)


def test_a_worker_runs_no_file_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SHADOWING, "types", "operator"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working directory ran')\n")
    monkeypatch.chdir(tmp_path)
    for first in ("", str(tmp_path), os.curdir):  # as of a notebook, of `python -m`, of a program
        monkeypatch.syspath_prepend(first)
        with closing(Workers(1, work, threads=1)) as pool:
            pool.start("a", "imports")
            message = reports(pool, idle(pool))[0]
        assert isinstance(message, WorkerMessage), message
        assert not any(str(file).startswith(str(tmp_path)) for file in message.message)


DRIVER = """
import sys, time
sys.path[:0] = [sys.argv[1]]
from test_local_hang import hang
from headstart.runner.local import Workers
pool = Workers(2, hang, threads=1)
for key in ("torch", "held"):
    pool.start(key, key)
pids = []
while len(pids) < 2:
    pids += [report.message for report in pool.wait(0.1)]
print(*pids, flush=True)
time.sleep(60)
"""

HANG = """
import ctypes, os
def hang(job, stop):
    if job == "torch":
        import torch
        torch.set_num_threads(1)
        x = torch.rand(6000, 6000)
        yield os.getpid()
        for _ in range(20):
            x = x @ x
    else:
        yield os.getpid()
        ctypes.PyDLL(None).sleep(30)  # holds the interpreter's lock all the while
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent is gone")
def test_workers_end_within_two_seconds_of_a_killed_driver_even_in_a_long_operation(tmp_path: Path) -> None:
    (tmp_path / "test_local_hang.py").write_text(HANG)
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)
        assert all(alive(pid) for pid in pids)
        driver.kill()
        end = time.monotonic() + 2
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)
