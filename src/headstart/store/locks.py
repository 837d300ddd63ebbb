"""One process at a time: `flock`, and a heartbeat counter on file systems that refuse it.

A lock file is never deleted while `flock` works, so nobody can hold a lock on a file that is gone. The kernel
frees it when its holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Protocol

BEAT = 1.0
"""Seconds between two beats of a holder."""
STALE = 30.0
"""Seconds by the watcher's own clock without a beat, after which a holder counts as dead. Far above BEAT,
because a network file system may show a write late."""

_REFUSED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class LostLock(Exception):
    """Another process took this lock over while we stood still; nothing more may be written."""


class Lock(Protocol):
    """A held lock."""

    def check(self) -> None:
        """Raises: LostLock if another process has taken it over."""

    def release(self) -> None:
        """Let others have it. Called once."""


class FileLock:
    """A lock of the kernel on an open file; it cannot be lost."""

    def __init__(self, file: int) -> None:
        self._file = file

    def check(self) -> None:
        """Nothing to do: the kernel keeps it."""

    def release(self) -> None:
        """Closing the file frees it."""
        os.close(self._file)


class Locks:
    """The locks in one folder, by name. Remembers the heartbeats it has seen, to tell a dead one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[bytes, float]] = {}

    def acquire(self, name: str) -> Lock | None:
        """The lock, or None while another holds it (ask again; a heartbeat is found dead only by asking)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # `held` of another process takes the lock for a moment, so one refusal is not yet an answer.
            for pause in (0.0, 0.01, 0.05):
                time.sleep(pause)
                if _flock(file, fcntl.LOCK_EX):
                    return FileLock(file)
        except OSError as error:
            os.close(file)
            if error.errno not in _REFUSED:
                raise
            return self._acquire_beat(self.folder / f"{name}.beat")
        os.close(file)
        return None

    def held(self, name: str) -> bool:
        """Whether someone holds it now. Where there is only a heartbeat: whether one was written lately."""
        try:
            file = os.open(self.folder / f"{name}.lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _flock(file, fcntl.LOCK_SH)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            return _beats(self.folder / f"{name}.beat")
        finally:
            os.close(file)

    def _acquire_beat(self, path: Path) -> Lock | None:
        try:
            return Heartbeat(path)
        except FileExistsError:
            pass
        try:
            now = path.read_bytes()
        except FileNotFoundError:
            return None
        before, since = self._seen.get(path, (b"", 0.0))
        if now != before:
            self._seen[path] = (now, time.monotonic())
            return None
        if time.monotonic() - since < STALE:
            return None
        return Heartbeat(path) if _bury(path, now) else None


def _flock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _beats(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < STALE
    except FileNotFoundError:
        return False


def _bury(path: Path, content: bytes) -> bool:
    """Remove a dead holder's file; False if another watcher was quicker (a living one's is put back)."""
    grave = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        os.rename(path, grave)
    except FileNotFoundError:
        return False
    dead = grave.read_bytes() == content
    if not dead:
        with contextlib.suppress(FileExistsError):  # a third holder; ours notices at its next write
            os.link(grave, path)
    grave.unlink(missing_ok=True)
    return dead


class Heartbeat:
    """A lock by a file that only one can create, in which its holder counts while it lives.

    Raises: FileExistsError if another holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = uuid.uuid4().hex
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._count = 0
        self._end = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises: LostLock if the file is no longer ours (this process slept longer than STALE)."""
        try:
            ours = self._path.read_bytes().startswith(self._token.encode())
        except FileNotFoundError:
            ours = False
        if not ours:
            raise LostLock(f"{self._path}: another process has taken this stage over")

    def release(self) -> None:
        """Stop counting and remove the file, unless it is another's by now."""
        self._end.set()
        self._thread.join()
        os.close(self._file)
        try:
            self.check()
        except LostLock:
            return
        self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._end.wait(BEAT):
            self._write()

    def _write(self) -> None:
        # In place and of one size: a full disk cannot refuse it, and a reader sees the old or the new count.
        self._count += 1
        os.pwrite(self._file, f"{self._token} {self._count:012d}\n".encode(), 0)
        os.fsync(self._file)
