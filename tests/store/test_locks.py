"""One process at a time, however the other ended."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headstart.store import locks
from headstart.store.locks import Locks, LostLock


@pytest.fixture
def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that refuses flock, and a quick heart."""

    def refuse(file: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "BEAT", 0.02)
    monkeypatch.setattr(locks, "STALE", 0.2)


def test_only_one_holds_a_lock_and_the_next_gets_it_after(tmp_path: Path) -> None:
    first = Locks(tmp_path).acquire("x")
    assert first is not None
    assert Locks(tmp_path).held("x")
    assert Locks(tmp_path).acquire("x") is None
    assert Locks(tmp_path).acquire("y") is not None
    first.release()
    assert not Locks(tmp_path).held("x")
    assert Locks(tmp_path).acquire("x") is not None


def test_a_killed_holder_frees_its_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from headstart.store.locks import Locks;"
        "lock = Locks(Path(sys.argv[1])).acquire('x'); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert Locks(tmp_path).acquire("x") is None
        holder.kill()
        holder.wait()
    assert Locks(tmp_path).acquire("x") is not None


@pytest.mark.usefixtures("_refused")
def test_where_flock_is_refused_a_living_heart_keeps_the_stage(tmp_path: Path) -> None:
    mine, other = Locks(tmp_path), Locks(tmp_path)
    held = mine.acquire("x")
    assert held is not None
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        assert other.acquire("x") is None
        assert other.held("x")
        time.sleep(0.02)
    held.check()
    held.release()
    taken = other.acquire("x")
    assert taken is not None
    taken.release()


@pytest.mark.usefixtures("_refused")
def test_where_flock_is_refused_a_stopped_heart_is_taken_over_and_its_owner_notices(tmp_path: Path) -> None:
    held = Locks(tmp_path).acquire("x")
    assert held is not None
    held._lock._stop_heartbeat()  # type: ignore[attr-defined]  # as if the process slept
    other = Locks(tmp_path)
    taken = None
    began = time.monotonic()
    while taken is None and time.monotonic() < began + 5:
        taken = other.acquire("x")
        time.sleep(0.02)
    assert taken is not None
    assert time.monotonic() - began >= locks.STALE
    with pytest.raises(LostLock, match="another process has taken this stage over"):
        held.check()
    held.release()  # must not free what is another's by now
    taken.check()
    taken.release()


def test_a_lock_that_the_system_does_not_tell_of_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Locks(tmp_path / "locks")
    lock = folder.acquire("stage")
    assert lock is not None

    def full(file: int, how: int) -> None:
        raise OSError(errno.EIO, f"no answer for {file} {how}")

    monkeypatch.setattr("headstart.disk.lock", full)
    with pytest.raises(OSError, match=r"stage\.lock"):
        folder.held("stage")
