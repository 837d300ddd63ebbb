"""A disk that loses what was not flushed: what it may hold when the power goes after an operation of a command.

The watched process does what it does, and after each operation the folder is compared with what it was: so the names
that came and went since a folder was flushed are known, and the bytes of each file at its last flush. A disk may keep
any of the names that were not flushed, in any order, and of bytes all, none, a part, or zeros.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

Entries = dict[tuple[int, str], int]
"""(number of a folder, a name in it) -> number of the file or folder of that name."""
ROOT = 0
WAYS = ("nothing else", "names", "bytes", "some", "others")
"""What a disk keeps besides what was flushed: every name, all bytes, or one and another choice among both."""


@dataclass
class Power:
    """Watches the operations on a folder, and writes down after each what a disk may hold then.

    blobs: a folder for the bytes. log: a descriptor, a line for each operation: way -> {path: name in `blobs`}, where
    a folder's is empty and a link's begins with `->`.
    """

    folder: Path
    blobs: Path
    log: int
    owner: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.numbers: dict[int, int] = {}  # of the system -> ours, which are never used twice
        self.next = ROOT
        self.folders: set[int] = set()
        self.bytes: dict[int, bytes] = {}  # as they are, or were when the file was seen last
        self.entries = self._look()
        self.flushed = dict(self.bytes)
        self.kept = dict(self.entries)
        self.pending: list[Entries] = []  # changes of names that were not flushed; -1: the name goes
        self.count = 0

    def __call__(self, operation: Any, act: Callable[[], Any], part: Callable[[], Any] | None) -> Any:
        if os.getpid() != self.owner:
            return act()
        result = act()
        before, self.entries = self.entries, self._look()
        changed = {key: self.entries.get(key, -1) for key in before.keys() | self.entries.keys()}
        changed = {key: number for key, number in changed.items() if before.get(key, -1) != number}
        if changed:
            self.pending.append(changed)
        if operation.kind == "sync":
            self._flush(operation.file)
        states = {way: self._state(way) for way in WAYS}
        os.write(self.log, json.dumps(states).encode() + b"\n")
        self.count += 1
        return result

    def _look(self) -> Entries:
        """The names that are there now, and the bytes of files."""
        out: Entries = {}
        before, self.numbers = self.numbers, {}

        def number_of(inode: int) -> int:
            if inode not in self.numbers:
                self.next += 1
                self.numbers[inode] = before.get(inode, self.next)
            return self.numbers[inode]

        self.numbers[os.stat(self.folder).st_ino] = ROOT
        waiting = [self.folder]
        while waiting:
            folder = waiting.pop()
            number = self.numbers[os.stat(folder).st_ino]
            self.folders.add(number)
            for entry in os.scandir(folder):
                file = out[number, entry.name] = number_of(entry.inode())
                if entry.is_symlink():
                    self.bytes[file] = b"->" + os.fsencode(os.readlink(entry.path))
                elif entry.is_dir():
                    waiting.append(Path(entry.path))
                else:
                    self.bytes[file] = Path(entry.path).read_bytes()
        return out

    def _flush(self, file: int) -> None:
        status = os.fstat(file)
        number = self.numbers.get(status.st_ino)
        if number is None:
            return  # outside the folder, or without a name
        if not stat.S_ISDIR(status.st_mode):
            self.flushed[number] = self.bytes[number]
            return
        left = []
        for change in self.pending:
            for key in [key for key in change if key[0] == number]:
                _apply(self.kept, {key: change.pop(key)})
            left += [change] if change else []
        self.pending = left

    def _state(self, way: str) -> dict[str, str]:
        """The paths that are there after a power cut, with the names of their bytes."""
        random = Random(f"{self.count} {way}")
        names = dict(self.kept)
        for change in self.pending:
            if way == "names" or (way in ("some", "others") and random.random() < 0.5):
                _apply(names, change)
        chosen: dict[int, bytes] = {}
        for number, now in self.bytes.items():
            flushed = self.flushed.get(number, b"")
            if now.startswith(b"->") or way == "bytes":
                chosen[number] = now
            elif way in ("some", "others") and now != flushed:
                chosen[number] = random.choice((flushed, now, now[: len(now) // 2], bytes(len(now))))
            else:
                chosen[number] = flushed
        return dict(self._paths(names, chosen, ROOT, ""))

    def _paths(self, names: Entries, chosen: Mapping[int, bytes], folder: int, path: str) -> Iterator[tuple[str, str]]:
        for (parent, name), number in names.items():
            if parent == folder:
                here = f"{path}/{name}" if path else name
                if number in self.folders:
                    yield here, ""
                    yield from self._paths(names, chosen, number, here)
                else:
                    yield here, self._blob(chosen[number])

    def _blob(self, data: bytes) -> str:
        if data.startswith(b"->"):
            return os.fsdecode(data)
        name = hashlib.sha256(data).hexdigest()
        if not (self.blobs / name).exists():
            (self.blobs / name).write_bytes(data)
        return name


def _apply(names: Entries, change: Mapping[tuple[int, str], int]) -> None:
    for key, number in change.items():
        names.pop(key, None)
        if number >= 0:
            names[key] = number


def put(state: Mapping[str, str], blobs: Path, folder: Path) -> None:
    """Make a folder hold what a disk held; a file that has these bytes stays, with its times."""
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder comes before it
        blob = state.get(path.relative_to(folder).as_posix())
        if path.is_symlink() or not path.is_dir():
            if not blob or path.is_symlink() or hashlib.sha256(path.read_bytes()).hexdigest() != blob:
                path.unlink()
        elif blob != "":
            path.rmdir()
    for name, blob in state.items():
        file = folder / name
        if not blob:
            file.mkdir(exist_ok=True)
        elif blob.startswith("->"):
            file.symlink_to(blob[2:])
        elif not file.exists():
            file.write_bytes((blobs / blob).read_bytes())
