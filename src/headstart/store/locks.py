"""One process at a time: a lock of the kernel, and a lease with a heartbeat on file systems that refuse it.

A lock file is never deleted while the kernel's locks work, so nobody can hold a lock on a file that is gone. The kernel
frees it when its holder dies, however it dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart import disk
from headstart.atomic import naming
from headstart.store.plain import check_inside

if TYPE_CHECKING:
    from filelock import BaseFileLock

BEAT = 1.0
"""Seconds between two beats of a holder."""
STALE = 30.0
"""Seconds by the watcher's own clock without a beat, after which a holder counts as dead. Far above BEAT,
because a network file system may show a write late."""

_REFUSED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_PATIENCE = 0.06  # seconds: `held` of another process takes the lock for a moment, so one refusal is not yet an answer


class LostLock(Exception):
    """Another process took this lock over while we stood still; nothing more may be written."""


class Lock:
    """A lock that this process has. `token` names the claim of a lease; a lock of the kernel cannot be lost."""

    def __init__(self, lock: BaseFileLock, token: str | None = None) -> None:
        self._lock, self._token = lock, token

    def check(self) -> None:
        """Raises: LostLock if another process has taken it over (this one slept longer than STALE)."""
        if self._token is None:
            return
        path = Path(self._lock.lock_file)
        try:
            ours = self._token.encode() in path.read_bytes()
        except FileNotFoundError:
            ours = False
        if not ours:
            raise LostLock(f"{path}: another process has taken this stage over")

    def release(self) -> None:
        """Let others have it; a lease that is another's by now stays theirs."""
        self._lock.release()


class Locks:
    """The locks in one folder, by name. Remembers the leases that it has watched, to tell a dead one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._leases: dict[str, Any] = {}

    def acquire(self, name: str) -> Lock | None:
        """The lock, or None while another holds it (ask again; a lease is found dead only by asking)."""
        from filelock import Timeout, UnixFileLock  # slow to import, and `headstart ls` takes no lock

        check_inside(self.folder.parent, *(f"{self.folder.name}/{name}.{ending}" for ending in ("lock", "beat")))
        disk.make_folder(self.folder)
        lock = UnixFileLock(self.folder / f"{name}.lock", thread_local=False, fallback_to_soft=False)
        try:
            disk.locking(Path(lock.lock_file), lambda: lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 4))
        except Timeout:
            return None
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            return self._acquire_lease(name)
        return Lock(lock)

    def _acquire_lease(self, name: str) -> Lock | None:
        from filelock import SoftFileLease, Timeout

        if name not in self._leases:
            path = self.folder / f"{name}.beat"
            self._leases[name] = SoftFileLease(path, lease_duration=STALE, heartbeat_interval=BEAT, thread_local=False)
        lease = self._leases[name]
        try:
            disk.locking(Path(lease.lock_file), lambda: lease.acquire(blocking=False))
        except Timeout:
            return None
        del self._leases[name]
        return Lock(lease, lease.token)

    def held(self, name: str) -> bool:
        """Whether someone holds it now. Where there is only a lease: whether its holder has shown a beat lately."""
        path = self.folder / f"{name}.lock"
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link; `acquire` refuses it
                return False
            raise
        try:
            with naming(path):
                disk.lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            return _beats(self.folder / f"{name}.beat")
        finally:
            os.close(file)
        return False


def _beats(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < STALE
    except FileNotFoundError:
        return False
