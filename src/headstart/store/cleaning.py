"""What a store holds, what of it a set of studies reaches, and the removal of the rest.

A stage is reached by a study that plans it, and as the parent of a stage that stays. Size is what is freed by removing:
a file that stages share counts once, and only where none of those that hold it stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headstart import disk
from headstart.atomic import sync_folder
from headstart.errors import Damaged
from headstart.store import tensors as shared
from headstart.store.files import DONE, RESULT, STAGE, optional_json
from headstart.store.packing import UNPACKING
from headstart.store.plain import check_inside, inside
from headstart.store.stages import UNPACKED, Status, Store

DAY = 86_400.0
"""Seconds for which an unfinished stage that no study reaches is left, since its run may go on."""
REMOVED = ".removed-"
"""Begins the name of a stage that is being removed; after a kill it is nobody's."""

_ASIDE = re.compile(r"[0-9a-f]{16}\.damaged-\d+")
_Inode = tuple[int, int]


@dataclass(frozen=True)
class Occupant:
    """A folder of a store: its files, when one of them last changed, and the stages that it rests on."""

    name: str
    status: Status | None
    changed: float = 0.0
    parents: frozenset[str] = frozenset()
    files: Mapping[_Inode, int] = field(default_factory=dict)
    damage: str = ""


@dataclass(frozen=True)
class Cleaning:
    """What may be removed, and what no study reaches and is left all the same, with the reason."""

    removable: tuple[str, ...]
    left: Mapping[str, str]


@dataclass(frozen=True)
class Contents:
    """All stages of a store, and what is left of earlier ones, as they were when it was read."""

    store: Store
    stages: Mapping[str, Occupant]
    leftovers: Mapping[str, Occupant]

    def with_parents(self, identities: Iterable[str]) -> set[str]:
        """These stages, as far as the store has them, and all that they rest on."""
        reached, open_ = set[str](), list(identities)
        while open_:
            name = open_.pop()
            if name in self.stages and name not in reached:
                reached.add(name)
                open_ += self.stages[name].parents
        return reached

    def size(self, names: Iterable[str]) -> int:
        """Bytes of all files of these folders, a file that several share counted once."""
        return sum({inode: size for name in names for inode, size in self._at(name).files.items()}.values())

    def freed(self, names: Collection[str]) -> int:
        """Bytes that removing these folders sets free: their files that no other folder holds."""
        others = (self.stages.keys() | self.leftovers.keys()) - set(names)
        other_inodes = {inode for name in others for inode in self._at(name).files}
        files = {inode: size for name in names for inode, size in self._at(name).files.items()}
        return sum(size for inode, size in files.items() if inode not in other_inodes)

    def cleaning(self, reached: Collection[str], *, recent: bool = False) -> Cleaning:
        """What can go where these stages are to stay. recent: unfinished stages of the last day too.

        A stage that a process works at stays, and its parents with it. While there is one, finished stages of the
        last day stay as well: they may be those of its run, whose report is not written yet.
        Raises: Damaged where a stage that is to stay does not say which stages it rests on.
        """
        survivors = self.with_parents(reached)
        for name in sorted(survivors):
            if self.stages[name].damage:
                raise Damaged(f"{self.stages[name].damage}, and what it rests on is not known")
        running = any(stage.status == "running" for stage in self.stages.values())
        now = time.time()
        left: dict[str, str] = {}
        for name in self.stages.keys() - survivors:
            stage = self.stages[name]
            young = now - stage.changed < DAY
            if stage.status == "running":
                left[name] = "a process is at work on it"
            elif young and stage.status not in DONE and not recent:
                left[name] = f"{stage.status}, changed within the last day; --recent removes it too"
            elif young and stage.status in DONE and running:
                left[name] = "finished within the last day while another stage runs, perhaps of the same run"
        for name in self.with_parents(left) - survivors - left.keys():
            left[name] = "a stage that is kept starts from it"
        return Cleaning(tuple(sorted((self.stages.keys() - survivors - left.keys()) | self.leftovers.keys())), left)

    def remove(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Remove folders one by one; yields each name with why it was left, or an empty text.

        A stage leaves its name whole before its files are deleted: a kill leaves nothing half there.
        """
        for name in names:
            if name in self.leftovers:
                disk.remove_tree(self.store.root / name, ignore_errors=True)
                yield name, ""
                continue
            with self.store.lock(name) as lock:
                if lock is None:
                    yield name, "a process is at work on it"
                    continue
                if _occupant(self.store.folder(name)).changed != self.stages[name].changed:
                    yield name, "it has changed just now"
                    continue
                aside = self.store.root / f"{REMOVED}{name}"
                disk.remove_tree(aside, ignore_errors=True)
                disk.rename(self.store.folder(name), aside)
                sync_folder(self.store.root)
            disk.remove_tree(aside)
            yield name, ""
        shared.prune(self.store.root)

    def _at(self, name: str) -> Occupant:
        return self.stages[name] if name in self.stages else self.leftovers[name]


def read_contents(store: Store) -> Contents:
    """Read what a store holds, from names, sizes and JSON. Raises: BadInput where a format is newer; OSError."""
    store.check(names := store.names())
    stages = {name: _stage(store, name) for name in names}
    leftovers = {}
    for path in sorted(store.root.iterdir()) if store.root.is_dir() else []:
        if _ASIDE.fullmatch(path.name) or path.name.startswith((REMOVED, UNPACKED)):
            check_inside(store.root, path.name)
            leftovers[path.name] = _occupant(path)
    if store.busy(UNPACKING):
        leftovers.pop(UNPACKED, None)
    return Contents(store, stages, leftovers)


def _stage(store: Store, name: str) -> Occupant:
    folder = store.folder(name)
    parents, damage = set[str](), ""
    for file in (RESULT, STAGE):
        try:
            document = optional_json(inside(folder, file)) or {}
        except Damaged as error:
            damage = str(error)
            continue
        parents |= {source["identity"] for source in document.get("references", {}).values()}
        parents |= {document["parent"]} if document.get("parent") else set()
    return _occupant(folder, store.status(name), frozenset(parents), damage)


def _occupant(
    folder: Path, status: Status | None = None, parents: frozenset[str] = frozenset(), damage: str = ""
) -> Occupant:
    files, changed = {}, 0.0
    for top, _, names in os.walk(folder):
        for path in (top, *(os.path.join(top, name) for name in names)):
            with contextlib.suppress(FileNotFoundError):  # a running stage has replaced it
                stat = os.lstat(path)
                changed = max(changed, stat.st_mtime)
                if path != top:
                    files[stat.st_dev, stat.st_ino] = stat.st_size
    return Occupant(folder.name, status, changed, parents, files, damage)
