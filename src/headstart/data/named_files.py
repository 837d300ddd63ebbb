"""Files that are known by their names, from a folder, the folders in it, or an archive beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from headstart.data.archives import listed, members
from headstart.data.problems import Mistakes
from headstart.data.rows import lines
from headstart.errors import BadInput, nearest

ARCHIVE = re.compile(r"\.(tar|tgz|tar\.(gz|xz|bz2))$")
"""Names of archives that are looked into."""
PACKED = ("", ".gz", ".xz")
"""Endings that a file may have besides its name."""


class Named(NamedTuple):
    """Where files are: each by its own path, or all of them in one of the archives."""

    names: tuple[str, ...]
    paths: Mapping[str, Path]
    archives: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """What is opened on disk."""
        return self.archives or tuple(self.paths[name] for name in self.names if name in self.paths)


def find_named(
    data: Path, task: str, folders: Sequence[str], names: Sequence[str], origin: str, optional: Sequence[str] = ()
) -> Named:
    """Where the files of these names are: in one of the folders or up to two folders deeper, else in an archive.

    A file may be packed as .gz or .xz. `optional` files are read where they are there.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    wanted = (*names, *optional)
    for root in (data / folder for folder in folders):
        there = {name: path for name in wanted if (path := _below(root, name)) is not None}
        if there:
            lost = [name for name in names if name not in there]
            if lost:
                raise BadInput(
                    f"task.kind: {task!r}: {' and '.join(str(root / name) for name in lost)} is missing; "
                    f"{origin}; put it there, or name another data folder with --data"
                )
            return Named(wanted, there, ())
    archives = tuple(
        p for folder in folders for p in sorted((data / folder).glob("*")) if ARCHIVE.search(p.name) and p.is_file()
    )
    if archives:
        return Named(wanted, {}, archives)
    raise BadInput(
        f"task.kind: {task!r} looks for {', '.join(names)}, or a tar archive that holds it, in "
        f"{' or '.join(folders)} of {data}, and none is there; {origin}; name the folder above it with --data or "
        "HEADSTART_DATA"
    )


def texts(named: Named, mistakes: Mistakes, needed: Sequence[str]) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """(name, its lines as (place, text)) of each file, in no promised order; the place is `file, row n`.

    Raises: BadInput where no archive holds one of `needed`.
    """
    for name in named.names:
        if name in named.paths:
            yield name, lines(named.paths[name], mistakes)
    left, seen = set(named.names) if named.archives else set(), set()

    def wanted(member: str) -> bool:
        seen.add(PurePosixPath(member).name)
        return PurePosixPath(member).name in left

    for archive in named.archives:
        for member, content in members(archive, wanted, mistakes):
            name = PurePosixPath(member).name
            left.discard(name)
            yield name, _text_lines(content, f"{archive}, member {member}", mistakes)
            if not left:
                return
    mistakes.check()
    for name in needed:
        if name in left:
            places = " and ".join(map(str, named.archives))
            raise BadInput(f"{places}: {nearest(name, seen)}; name another set, or put the file beside the archive")


def _text_lines(content: bytes, place: str, mistakes: Mistakes) -> Iterator[tuple[str, str]]:
    """(place, text) of each line that is UTF-8."""
    for row, line in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
        try:
            yield f"{place}, row {row}", line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            mistakes.add(
                f"{place}, row {row}",
                f"is not UTF-8 (byte {line[error.start]:#04x} at {error.start}); convert the file to UTF-8",
            )


def _below(root: Path, name: str) -> Path | None:
    for pattern in ("", "*/", "*/*/"):
        for ending in PACKED:
            for path in sorted(root.glob(f"{pattern}{name}{ending}")):
                if path.is_file():
                    return path
    return None


def archives_or_files(root: Path, pattern: re.Pattern[str]) -> tuple[Path, tuple[Path, ...]] | None:
    """(where to read, files on disk) of a folder with files whose names fit, or of its one archive, or None.

    Raises: BadInput where a folder without such files holds several archives.
    """
    if not root.is_dir():
        return None
    there = tuple(root / name for name in listed(root, lambda n: pattern.search(n) is not None))
    if there:
        return root, there
    found = sorted(p for p in root.glob("*") if ARCHIVE.search(p.name) and p.is_file())
    if len(found) > 1:
        raise BadInput(
            f"{root}: holds several archives ({', '.join(p.name for p in found)}); leave the one that is meant"
        )
    return (found[0], (found[0],)) if found else None
