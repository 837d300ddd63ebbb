"""What a store, a cache or the folder of a model may hold: folders and plain files, and nothing that leads out of it.

Such a folder may come from a stranger. What is written or deleted behind a link is somebody else's; a pipe is waited
for, and a device read, without end. The folder itself is a person's own choice and may be a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath

from headstart.errors import BadInput, Damaged

JSON_BYTES = 2**26
"""Bytes of a JSON file that are read into memory."""
MOST_RECORDS = 2**30
"""Bytes of records that are read."""

_KINDS = {
    stat.S_IFLNK: "a link, and links are not followed there",
    stat.S_IFIFO: "a pipe, not a plain file",
    stat.S_IFSOCK: "a socket, not a plain file",
    stat.S_IFCHR: "a device, not a plain file",
    stat.S_IFBLK: "a device, not a plain file",
}


def inside(folder: Path, name: str) -> Path:
    """The path of a file of a folder; the folders on the way to it, and itself if it is there, lie in the folder.

    Raises: Damaged where one of them is a link, a pipe or a device, or the name leads out of the folder.
    """
    if wrong := _wrong(folder, name):
        raise Damaged(wrong)
    return folder / name


def check_inside(folder: Path, *names: str) -> None:
    """Raises: BadInput where, on the way to these names of a folder, or at its end, is a link, a pipe or a device."""
    for name in names:
        if wrong := _wrong(folder, name):
            raise _refused(wrong)


def check_tree(folder: Path, name: str, *, links: bool = False) -> None:
    """As `check_inside`, of all that lies in this part of a folder too. links: only these are refused."""
    check_inside(folder, name)
    waiting = [folder / name]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):  # which asks the disk for nothing more
                        kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
                        if kind == stat.S_IFLNK or not links:
                            raise _refused(f"{entry.path}: is {_KINDS[kind]}")
        except (FileNotFoundError, NotADirectoryError):  # never there, or gone meanwhile
            continue


def leads_out(path: Path, roots: Iterable[Path]) -> Path | None:
    """Where a path ends if that is in none of these folders (whose own links are followed); else None."""
    target = Path(os.path.realpath(path))  # not `resolve`, which a link to itself stops with another error
    return None if any(target.is_relative_to(os.path.realpath(root)) for root in roots) else target


@contextmanager
def opened(path: Path, *, follow: bool = False) -> Iterator[BufferedReader]:
    """A plain file, to be read; nothing waits, whatever lies there. follow: it may be a link, which a person named.

    Raises: FileNotFoundError; Damaged where it is no plain file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    _check_plain(path, os.stat(path, follow_symlinks=follow).st_mode)  # before a device notices that it is opened
    try:
        file = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise Damaged(f"{path}: is {_KINDS[stat.S_IFLNK]}") from None
        raise
    with open(file, "rb") as stream:
        _check_plain(path, os.fstat(file).st_mode)
        yield stream


def read_plain(path: Path, most: int | None = JSON_BYTES, *, follow: bool = False) -> bytes:
    """All of a plain file of at most so many bytes (None: of any size).

    Raises: as `opened`; Damaged where it has more.
    """
    with opened(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise Damaged(f"{path}: has {size:,} bytes, more than {most:,}")
        return file.read()


def _check_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Damaged(f"{path}: is {_KINDS.get(stat.S_IFMT(mode), 'a folder, not a plain file')}")


def _wrong(folder: Path, name: str) -> str:
    """Why a name of a folder is none of a file in it, or nothing."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        return f"{folder}: {name!r} is not the name of a file in it"
    path = folder
    for part in parts:
        path = path / part
        try:
            kind = stat.S_IFMT(os.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        if kind in _KINDS:
            return f"{path}: is {_KINDS[kind]}"
    return ""


def _refused(wrong: str) -> BadInput:
    return BadInput(f"{wrong}; remove it, put a plain file or folder in its place, or name another folder")
