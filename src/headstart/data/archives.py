"""Files of a data set: out of a folder, or straight out of a tar archive, which is never unpacked to disk.

Whoever made the files is not trusted: nothing outside the folder is read, links that lead out are refused,
and so is what would fill memory (too many files, too large ones, archives that unpack without end).
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from headstart.errors import MORE_MEMORY, BadInput, BadMachine, Mistakes
from headstart.store.plain import leads_out

MEMBERS = 300_000
"""Files that one folder or archive may hold: three times IMDb with its unlabelled reviews."""
FILE_BYTES = 2**26
"""Bytes of one file; one of CIFAR-10's batches has under half of it."""
TOTAL = 2**32
"""Bytes that one compressed file may unpack to: three times the largest of LRA's."""

SMALL_FILE, UNPACKED_RATIO = 2**25, 200
"""Bytes that every file may unpack to, and those for each byte of a larger one: data are packed less tightly."""

TRUSTED = "unpack it where you trust it, and give that"
"""The way out where a file unpacks to more than it may."""

NO_ARCHIVE = "is no archive, whatever its name says; give it the ending of what it is, or get the archive again"
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)
"""What the standard library raises for archives that are cut short or damaged (besides OSError)."""

Wanted = Callable[[str], bool]
"""Whether a file is to be read, told by its name: relative, with `/` between folders."""


def members(root: Path, wanted: Wanted, mistakes: Mistakes) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each wanted file of a folder or a tar archive (plain, .gz, .xz or .bz2).

    A folder is read in the order of the names, an archive in its own. What cannot be read goes to
    `mistakes`. Raises: BadInput for an archive that is cut short or damaged, or more than the limits.
    """
    return _of_folder(root, wanted, mistakes) if root.is_dir() else _of_archive(root, wanted, mistakes)


def listed(root: Path, wanted: Wanted) -> list[str]:
    """Names of the wanted files of a folder, sorted. Raises: BadInput where there are too many files."""
    names: list[str] = []
    for folder, _, files in os.walk(root):
        inner = os.path.relpath(folder, root).replace(os.sep, "/")
        start = "" if inner == "." else f"{inner}/"
        names += [start + name for name in files if wanted(start + name)]
        if len(names) > MEMBERS:
            raise BadInput(f"{root}: more than {MEMBERS} files; name a folder that holds the data set alone")
    return sorted(names)


HEADERS = (".hea", ".vhdr")
"""Endings of headers whose samples stand in files beside them."""
LEADS_OUT = "is a link that leads out of its folder; put the file itself there"


def visible(name: str) -> bool:
    """Whether no part of a file's name within a folder begins with a point."""
    return not any(part.startswith(".") for part in name.split("/"))


def check_link(root: Path, file: Path) -> None:
    """Raises: BadInput where a file of a folder is a link to something outside of it."""
    if file.is_symlink() and leads_out(file, [root]):
        raise BadInput(f"{file}: {LEADS_OUT}")


def files_of(path: Path) -> list[Path]:
    """The file (a header with those of its name), or all that a folder holds besides names that begin with a point."""
    if path.suffix.lower() in HEADERS and path.is_file():
        return sorted(file for file in path.parent.iterdir() if file.stem == path.stem and file.is_file())
    if not path.is_dir():
        return [path]
    return [path / name for name in listed(path, visible)]


def most_unpacked(path: Path, small: int) -> int:
    """Bytes that a file may unpack to. small: what every one may."""
    return min(TOTAL, max(small, UNPACKED_RATIO * path.stat().st_size))


def unpacked(path: Path) -> io.BufferedReader:
    """The content of a file, unpacked where it begins like gzip, xz or bzip2, whatever its name says.

    Reading on past what such a file may unpack to, 4 GiB at most, raises BadInput.
    """
    with path.open("rb") as file:
        start = file.read(6)
    for magic, opener in ((b"\x1f\x8b", gzip.open), (b"\xfd7zXZ\0", lzma.open), (b"BZh", bz2.open)):
        if start.startswith(magic):
            return io.BufferedReader(_Limited(path, opener(path, "rb")), 2**18)
    return path.open("rb")


@contextmanager
def reading(path: Path, smaller: str = "give it in parts") -> Iterator[None]:
    """Whatever keeps a file from being read becomes a BadInput that names it. smaller: how it takes less memory."""
    try:
        yield
    except BadInput:
        raise
    except DAMAGED as error:
        raise BadInput(f"{path}: is cut short or damaged ({error}); give the file again") from None
    except OSError as error:
        if error.errno is None:  # of gzip and bzip2, about content
            raise BadInput(f"{path}: is cut short or damaged ({error}); give the file again") from None
        kind = BadMachine if error.errno in (errno.EMFILE, errno.ENFILE, errno.EIO) else BadInput
        raise kind(
            f"{path}: cannot be read ({error.strerror or error}); give access to it, or name another file"
        ) from None
    except MemoryError:
        raise BadMachine(f"{path}: does not fit into memory; {MORE_MEMORY}, or {smaller}") from None


def absent(task: str, data: Path, folders: Sequence[str], looks: str, origin: str, way: str = "") -> BadInput:
    """What to raise where no file of a data set is there: what is looked for, where, its origin and the way out."""
    roots = f"{' or '.join(folders)} of {data}" if len(folders) > 1 else str(data / folders[0])
    return BadInput(
        f"task.kind: {task!r} looks for {looks} in {roots}, and none is there; {origin}; name the folder above it with "
        f"--data or HEADSTART_DATA{way}"
    )


def incomplete(task: str, missing: Iterable[object], origin: str) -> BadInput:
    """What to raise where some files of a data set are there and others not."""
    return BadInput(
        f"task.kind: {task!r}: {' and '.join(map(str, missing))} is missing; {origin}; put it there, or name another "
        "data folder with --data or HEADSTART_DATA"
    )


def find_all(
    task: str, data: Path, folders: Sequence[str], names: Sequence[str], origin: str, way: str = ""
) -> tuple[Path, ...]:
    """The files of these names, all in the first folder that has one of them. Raises: BadInput as the two above."""
    for folder in folders:
        files = tuple(data / folder / name for name in names)
        missing = [file for file in files if not file.is_file()]
        if not missing:
            return files
        if len(missing) < len(files):
            raise incomplete(task, missing, origin)
    raise absent(task, data, folders, ", ".join(names), origin, way)


class _Limited(io.RawIOBase):
    """A reader that stops a file which unpacks to more than TOTAL bytes."""

    def __init__(self, path: Path, file: Any) -> None:
        super().__init__()
        self._path, self._file = path, file
        self._most = self._left = most_unpacked(path, SMALL_FILE)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        content = self._file.read(len(view))
        self._left -= len(content)
        if self._left < 0:
            raise BadInput(f"{self._path}: unpacks to more than {self._most} bytes; {TRUSTED}")
        view[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


def _of_folder(root: Path, wanted: Wanted, mistakes: Mistakes) -> Iterator[tuple[str, bytes]]:
    for name in listed(root, wanted):
        path = root / name
        try:
            if path.is_symlink() and leads_out(path, [root]):
                mistakes.add(str(path), LEADS_OUT)
                continue
            facts = os.stat(path)
            if not stat.S_ISREG(facts.st_mode):
                mistakes.add(str(path), "is not a plain file; put a file there")
            elif facts.st_size > FILE_BYTES:
                mistakes.add(str(path), f"has {facts.st_size} bytes, at most {FILE_BYTES} are read")
            else:
                yield name, path.read_bytes()
        except OSError as error:
            mistakes.add(str(path), f"cannot be read ({error.strerror or error})")


def _of_archive(path: Path, wanted: Wanted, mistakes: Mistakes) -> Iterator[tuple[str, bytes]]:
    with reading(path):
        for count, (archive, member) in enumerate(tar_members(path)):
            if count >= MEMBERS:
                raise BadInput(f"{path}: more than {MEMBERS} members; give the official archive")
            content = _content(archive, member, f"{path}, member {member.name!r}", wanted, mistakes)
            if content is not None:
                yield _plain(member.name), content


def tar_members(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of a tar archive in its order, read once from its beginning, and the archive that each is read from.

    Raises: BadInput for an archive that is cut short or damaged, or unpacks to more than it may.
    """
    with reading(path), unpacked(path) as file:
        try:
            tarfile.TarInfo.frombuf(file.peek(tarfile.BLOCKSIZE)[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError):  # type: ignore[attr-defined]
            raise BadInput(f"{path}: {NO_ARCHIVE}") from None
        except tarfile.HeaderError:  # one without a member
            pass
        yield from _tar_members(path, file)


def _tar_members(path: Path, file: io.BufferedReader) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with tarfile.open(fileobj=file, mode="r|") as archive:
        packed = isinstance(file.raw, _Limited)
        most = most_unpacked(path, SMALL_FILE) if packed else max(SMALL_FILE, path.stat().st_size)
        for member in archive:
            if archive.offset - member.offset_data > most:  # tarfile would read on to its end, wherever the file ends
                what = f"unpacks to more than {most} bytes; {TRUSTED}" if packed else "is cut short; get it again"
                raise BadInput(f"{path}, member {member.name[:80]!r}: {what}")
            yield archive, member


def _content(
    archive: tarfile.TarFile, member: tarfile.TarInfo, location: str, wanted: Wanted, mistakes: Mistakes
) -> bytes | None:
    """The bytes of a wanted member, or None."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        mistakes.add(location, "leads out of the archive's folder; make the archive anew")
    elif wanted(_plain(member.name)) and not member.isdir():
        if not member.isreg():
            mistakes.add(location, "is a link or no plain file, which is not followed; put the file itself there")
        elif member.size > FILE_BYTES:
            mistakes.add(location, f"has {member.size} bytes, at most {FILE_BYTES} are read")
        else:
            file = archive.extractfile(member)
            content = b"" if file is None else file.read()
            if len(content) == member.size:
                return content
            mistakes.add(location, f"is cut short: {len(content)} of {member.size} bytes; download the archive again")
    return None


def _plain(name: str) -> str:
    return name.removeprefix("./")
