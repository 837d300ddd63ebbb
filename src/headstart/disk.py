"""Every operation by which the package changes a disk: tests count them here, and let each fail in turn.

Nothing else in the package writes, renames, links, deletes, flushes, locks or makes a folder; a test looks for it.
What libraries write (Parquet, pictures, archives) goes to memory, or to a file of `atomic.published`. Two things are
not seen here: folders of the system for temporary files, and what a tracker's own library writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Operation:
    """One change of the disk: what kind it is, and of which file (or its descriptor)."""

    kind: str
    file: Path | int


class Watch(Protocol):
    """What stands between the package and the disk in a test: it calls `act`, or does not, or calls `part` instead.

    part: does the operation by half, where it can be cut short.
    """

    def __call__(self, operation: Operation, act: Callable[[], T], part: Callable[[], Any] | None) -> T: ...


_watch: Watch | None = None


@contextlib.contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """For tests: every operation of this process goes through `watch` until the end."""
    global _watch
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before


def _perform(kind: str, file: Path | int, act: Callable[[], T], part: Callable[[], Any] | None = None) -> T:
    return act() if _watch is None else _watch(Operation(kind, file), act, part)


def create(path: Path, flags: int, mode: int = 0o644) -> int:
    """The descriptor of a file that may be written; flags: as `os.open` takes them."""
    return _perform("create", path, lambda: os.open(path, flags, mode))


def write(file: int, data: bytes | memoryview) -> None:
    """Write all bytes to a descriptor."""

    def all_of(rest: memoryview) -> None:
        while rest:
            rest = rest[os.write(file, rest) :]

    whole = memoryview(data)
    _perform("write", file, lambda: all_of(whole), lambda: all_of(whole[: len(whole) // 2]))


def write_file(path: Path, data: bytes) -> None:
    """Write a file that nobody reads before it is whole, as in a temporary folder."""
    append(path, data, os.O_TRUNC)


def append(path: Path, data: bytes, more: int = os.O_APPEND) -> None:
    """Add bytes to a file, which is made where it is not there."""
    file = create(path, os.O_WRONLY | os.O_CREAT | more)
    try:
        write(file, data)
    finally:
        os.close(file)


def truncate(file: int, length: int) -> None:
    """Cut a file to so many bytes."""
    _perform("truncate", file, lambda: os.ftruncate(file, length))


def sync(file: int) -> None:
    """Make what was written to a file, or the names in a folder, survive a power cut."""
    _perform("sync", file, lambda: os.fsync(file))


def replace(source: Path, path: Path) -> None:
    """Give a file the name of another, which goes."""
    _perform("replace", path, lambda: os.replace(source, path))


def rename(source: Path, path: Path) -> None:
    """Give a file or folder a name that is free."""
    _perform("rename", path, lambda: os.rename(source, path))


def link(source: Path, path: Path) -> None:
    """Give a file a second name."""
    _perform("link", path, lambda: os.link(source, path))


def unlink(path: Path, *, missing_ok: bool = False) -> None:
    """Delete a file. missing_ok: it may be gone."""
    if not (missing_ok and not os.path.lexists(path)):
        _perform("unlink", path, lambda: path.unlink(missing_ok=missing_ok))


def make_folder(path: Path, mode: int = 0o777, *, new: bool = False) -> None:
    """Make a folder, and those above it. new: it may not be there, and those above it must.

    Its name then survives a power cut with what is flushed in it, as far as the system grants that.
    """
    lacking = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    if new or lacking:
        _perform("make folder", path, lambda: path.mkdir(mode, parents=not new, exist_ok=not new))
    for folder in lacking:
        with contextlib.suppress(OSError):  # some systems cannot, or let nobody read the folder above
            above = os.open(folder.parent, os.O_RDONLY)
            try:
                sync(above)
            finally:
                os.close(above)


def remove_folder(path: Path) -> None:
    """Delete an empty folder."""
    _perform("remove folder", path, path.rmdir)


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Delete a folder with all that is in it. ignore_errors: as much of it as can be."""

    def some() -> None:
        files = sorted(file for file in path.rglob("*") if not file.is_dir() or file.is_symlink())
        for file in files[: (len(files) + 1) // 2]:
            file.unlink()

    if not (ignore_errors and not os.path.lexists(path)):
        _perform("remove tree", path, lambda: shutil.rmtree(path, ignore_errors=ignore_errors), some)


def change_mode(path: Path, mode: int) -> None:
    """Say who may read and write a file."""
    _perform("change mode", path, lambda: path.chmod(mode))


def lock(file: int, how: int) -> None:
    """A lock of the kernel; how: as `fcntl.flock` takes it."""
    _perform("lock", file, lambda: fcntl.flock(file, how))


def locking(path: Path, acquire: Callable[[], T]) -> T:
    """What `acquire` gives, which takes a lock by a file of this name."""
    return _perform("lock", path, acquire)


def new_array(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of this shape in a new file, to be filled in place.

    Raises: OSError where the disk has no room for it: without its blocks the file would be a hole, and a disk that
    fills up later would end the process by a signal.
    """
    import numpy as np

    values = _perform("create", path, lambda: np.lib.format.open_memmap(path, "w+", dtype=np.dtype(dtype), shape=shape))
    if hasattr(os, "posix_fallocate"):
        file = os.open(path, os.O_RDWR)
        try:
            size = os.fstat(file).st_size
            _perform("allocate", path, lambda: os.posix_fallocate(file, 0, size))
        finally:
            os.close(file)
    return values
