"""Files that are whole or absent: one atomic write, and what tells that a file has changed since."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import io
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headstart import disk
from headstart.errors import BadInput, DiskFull

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of copies of a person's own data, whatever the mode of the file that they are of."""
UNFINISHED = r"\.([^/]+)\.[0-9a-f]{16}\.tmp$"
"""The name of a file that is being written, with the one that it gets when it is whole."""
_WAYS = {
    errno.EIO: "check the disk, or name another folder, and give the same command again",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), and give the same command again",
    errno.ENFILE: "close other programs, and give the same command again",
}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no room (disk, quota or limit of a file's size)."""
    return isinstance(error, OSError) and error.errno in _FULL


@contextlib.contextmanager
def writing(path: Path, what: str = "", other: str = "file") -> Iterator[None]:
    """Raises: BadInput where the system lets nobody write `path`, DiskFull among it. what, other: of the message."""
    try:
        yield
    except OSError as error:
        if disk_full(error):
            raise DiskFull(path) from None
        raise BadInput(
            f"{path}: {what}cannot be written ({error.strerror or error}); "
            f"{way_out(error, f'give access there, or name another {other}')}"
        ) from None


def way_out(error: OSError, otherwise: str) -> str:
    """What helps against what the system refused."""
    return _WAYS.get(error.errno or 0, otherwise)


def refused(error: OSError) -> str:
    """What the system refused, in words: the file by the name that it has in the end, why, and a way out."""
    name = re.sub(UNFINISHED, r"\1", str(error.filename))  # it is written beside its place first
    return f"{name}: {error.strerror}; {way_out(error, 'give access there, or name another folder')}"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of a descriptor say of which file they are: they have no name of their own."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all bytes to a file descriptor; every byte the store writes goes through here."""
    disk.write(file, data)


def publish(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old one or the new one whole.

    mode: of the new one.
    Raises: OSError (a full disk, say); the old file is then untouched and nothing is left beside it.
    """
    with published(path, mode) as file:
        write_all(file, data)


def check_place(path: Path) -> None:
    """Raises: BadInput where a pipe, a device or a stream of the system has this name: the new file would take it from
    all who use it."""
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        stream = path.is_symlink() and os.readlink(path).startswith(("/dev/", "/proc/"))
        if stream or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise BadInput(f"{path}: is a pipe, a device or a stream, which no file replaces; name a file")


@contextlib.contextmanager
def published(path: Path, mode: int = 0o644) -> Iterator[int]:
    """The descriptor of a new file, to be written bit by bit; it gets its name, as in `publish`, at the end.

    Until then it has one that nobody can guess: no link waits there, and no other writer has it, in whatever container.
    What processes that were killed left of the same file is deleted.
    """
    check_place(path)
    temporary, file = _begun(path, mode)
    try:
        _remove_unfinished(path, temporary)
        with naming(path):
            yield file
            disk.sync(file)
        disk.replace(temporary, path)
    except BaseException:
        disk.unlink(temporary, missing_ok=True)
        raise
    finally:  # last: without its lock a file of that name is taken for left over
        os.close(file)
    sync_folder(path.parent, path)


def _begun(path: Path, mode: int) -> tuple[Path, int]:
    """The name and descriptor of a file that is being written, locked while its writer lives."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        file = disk.create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            disk.lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = not os.fstat(file).st_nlink
        except BlockingIOError:
            taken = True
        except OSError:  # a file system without locks: nothing says who is alive
            taken = False
        if not taken:
            return temporary, file
        os.close(file)  # another writer took it for left over before it was locked, and removes it


def holds_files(folder: Path) -> bool:
    """Whether a folder holds something besides what a process that was killed left unfinished of a new file."""
    return folder.is_dir() and not all(re.fullmatch(UNFINISHED, path.name) for path in folder.iterdir())


def _remove_unfinished(path: Path, own: Path) -> None:
    """Remove what processes that were killed left of `path`: files like our `own` that nobody has locked."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"):
        with contextlib.suppress(OSError):  # another one is at it, or has just removed it; or there are no locks
            if left != own:
                other = disk.create(left, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    disk.lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    disk.unlink(left)
                finally:
                    os.close(other)


class Writable(io.RawIOBase):
    """The descriptor of `published` as a file, for what writes to one."""

    def __init__(self, file: int) -> None:
        self.descriptor = file

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is: an archive's heads are written when its members are."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """The new place, as `os.lseek` gives it."""
        return os.lseek(self.descriptor, offset, whence)

    def write(self, data: Any) -> int:
        """All of the bytes."""
        write_all(self.descriptor, data)
        return len(data)


def sync_folder(folder: Path, file: Path | None = None) -> None:
    """Make names that were added to or removed from a folder survive a power cut. file: that an error names instead."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with naming(file or folder):
            disk.sync(descriptor)
    except OSError as error:  # some network file systems cannot; the names are then as safe as they get
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def stamps(files: Iterable[Path]) -> list[tuple[str, int, int, int]]:
    """(path, size, two times) of each file: what tells that nothing was changed since it was read.

    A program may set back the time of a change to the content, but not that of a change to the file.
    """
    out = []
    for file in files:
        status = os.stat(file)
        out.append((os.path.abspath(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return out
