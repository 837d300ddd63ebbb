"""A command that is performed once, with every fault of each of its operations on the way.

A killed process leaves what is on the disk at that moment, so that kills need no process: the folder is looked at. Where an
operation is refused, a fork goes on from there to its end; then the folder is put back as it was, and the command goes on.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headstart.store.files import NOTES
from support.points.attempts import FAULTS, KILLED, Attempt, Disturbance, Point

ENDS = "ends"
"""The file beside the folder, in which a record is kept."""


class Item(NamedTuple):
    """A file (its bytes), a link (where it leads) or a folder (None) of a disk."""

    data: bytes | str | None
    mode: int = 0
    when: int = 0
    inode: int = 0
    """When it was written, in nanoseconds, and which file it is: of files alone."""


TICK = 1e-4
"""Seconds between two looks at a clock in a command that is recorded: what follows from times is always the same."""
State = dict[str, Item]
"""Path in a folder -> what is there."""
FORK = ctypes.PyDLL(None).fork
"""Without what Python and `filelock` do after a fork: the new process stands for the one that it comes from, locks too."""
End = tuple[Attempt, State]
"""How a disturbed command ended, and what it left."""


def state_key(state: Mapping[str, Item]) -> frozenset[Any]:
    """Equal where two disks hold the same files with the same bytes and rights, whenever they were written; of failures it
    does not matter what they say."""
    texts = {name: item.data if os.path.basename(name) != NOTES["failed"] else b"" for name, item in state.items()}
    return frozenset((name, texts[name], item.mode) for name, item in state.items())


def look(folder: Path, blobs: dict[bytes, bytes]) -> State:
    """What is in a folder. blobs: bytes that were seen, so that equal ones are there once."""
    state: State = {}
    waiting = [(str(folder), "")]
    while waiting:
        path, head = waiting.pop()
        for entry in os.scandir(path):
            name = head + entry.name
            if entry.is_symlink():
                state[name] = Item(os.readlink(entry.path))
                continue
            status = entry.stat(follow_symlinks=False)
            if entry.is_dir():
                state[name] = Item(None, status.st_mode & 0o7777)
                waiting.append((entry.path, f"{name}/"))
            else:
                data = Path(entry.path).read_bytes()
                data = blobs.setdefault(data, data)
                state[name] = Item(data, status.st_mode & 0o7777, status.st_mtime_ns, status.st_ino)
    return state


def put_back(folder: Path, state: Mapping[str, Item], held: Mapping[str, Path] | None = None) -> None:
    """Make a folder hold this again, with its times, and what was one file under several names.

    held: other names of files that this process has open, which stay the same files.
    """
    now = look(folder, {}) if any(folder.iterdir()) else {}
    for name in sorted(now, reverse=True):  # what is in a folder before the folder
        if name not in state or type(now[name].data) is not type(state[name].data):
            (folder / name).rmdir() if now[name].data is None else (folder / name).unlink()
    written: dict[int, Path] = {}
    for name, item in sorted(state.items()):
        path, there = folder / name, now.get(name)
        if isinstance(item.data, bytes):
            _put_file(path, item, there, written, (held or {}).get(name))
        elif there is None and item.data is None:
            path.mkdir()
        elif there is not None and item.data == there.data:
            pass
        else:
            path.unlink(missing_ok=True)
            path.symlink_to(str(item.data))
    for name, item in sorted(state.items(), reverse=True):
        if not isinstance(item.data, str) and (folder / name).stat().st_mode & 0o7777 != item.mode:
            (folder / name).chmod(item.mode)


def _put_file(path: Path, item: Item, there: Item | None, written: dict[int, Path], held: Path | None) -> None:
    """A file under its name, with its bytes and its time."""
    assert isinstance(item.data, bytes)
    same = there is not None and there.inode == item.inode
    if not same:
        path.unlink(missing_ok=True)
        if (other := held or written.get(item.inode)) is not None:
            os.link(other, path)
        else:
            path.write_bytes(item.data)
    if (same and there is not None and there.data != item.data) or (
        held is not None and held.read_bytes() != item.data
    ):
        file = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(file, item.data, 0)
            os.ftruncate(file, len(item.data))
        finally:
            os.close(file)
    if path.lstat().st_mtime_ns != item.when:
        os.utime(path, ns=(item.when, item.when))
    written.setdefault(item.inode, path)


class Own(NamedTuple):
    """Open files of a process: where each descriptor stands and how it is locked, and other names of those files."""

    offsets: dict[int, int]
    locks: dict[int, int]
    names: dict[str, Path]


class Recorder(Disturbance):
    """Watches a command that nothing disturbs, and finds out on the way how each of these points would end."""

    def __init__(self, log: int, folder: Path, points: Collection[Point], seconds: int) -> None:
        super().__init__(log, None)
        self.folder, self.seconds = folder, seconds
        self.wanted: dict[int, list[str]] = {}
        for point in points:
            self.wanted.setdefault(point.number, []).append(point.fault)
        self.ends: dict[Point, End] = {}
        self._bytes: dict[bytes, bytes] = {}
        ticks = itertools.count()
        for name in ("monotonic", "perf_counter", "process_time", "time"):  # what points take, the command does not see
            begun = getattr(time, name)()
            setattr(time, name, lambda begun=begun: begun + TICK * next(ticks))

    def __call__(self, operation: Any, act: Callable[[], Any], part: Callable[[], Any] | None) -> Any:
        if os.getpid() != self.owner:  # a process of the command's own, or one that goes on after a refusal
            return act()
        number, faults = self.number, self.wanted.get(self.number, [])
        if set(faults) - {"killed after"}:
            self._disturb(operation, number, faults, part)
        try:
            return super().__call__(operation, act, part)
        finally:
            if "killed after" in faults:
                self.ends[Point(number, "killed after")] = Attempt(KILLED, ""), look(self.folder, self._bytes)

    def _disturb(self, operation: Any, number: int, faults: Collection[str], part: Callable[[], Any] | None) -> None:
        """How it ends with each of these faults; all is as before then."""
        before = look(self.folder, self._bytes)
        own = self._own_files(before)
        try:
            for fault in faults:
                refusal = FAULTS[fault]
                if fault == "killed before":
                    self.ends[Point(number, fault)] = Attempt(KILLED, ""), before
                elif refusal is not None:
                    name = [] if isinstance(operation.file, int) else [os.path.abspath(operation.file)]
                    attempt = self._refused(OSError(refusal, os.strerror(refusal), *name))
                    self.ends[Point(number, fault)] = attempt, look(self.folder, self._bytes)
                    self._back(before, own)
                elif fault == "cut short" and part is not None:
                    part()
                    self.ends[Point(number, fault)] = Attempt(KILLED, ""), look(self.folder, self._bytes)
                    self._back(before, own)
        finally:
            if self.owner:
                for other in own.names.values():
                    other.unlink()

    def _refused(self, error: OSError) -> Attempt:
        """How the command ends with this error: in a fork, to which it is raised."""
        printed = self.folder.parent / "printed"
        size = printed.stat().st_size
        owner = self.owner
        child: int = FORK()
        if not child:
            self.owner = 0
            os.getpid = lambda: owner
            signal.alarm(self.seconds)
            raise error
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = printed.read_text("utf-8", "replace")
        os.truncate(printed, size)
        return Attempt(code, text)

    def _own_files(self, before: State) -> Own:
        """Those of this process in the folder: a fork moves the offsets, gives back the locks, and may delete the names.

        They are found by their numbers: one that was put back before bears the name that it lost. What is only read needs
        no second name, which would change when the file itself was changed last.
        """
        own, inodes = Own({}, {}, {}), set[int]()
        there = {item.inode for item in before.values() if item.inode}
        for number in map(int, os.listdir("/proc/self/fd")):
            try:
                inode, facts = os.fstat(number).st_ino, Path(f"/proc/self/fdinfo/{number}").read_text()
            except OSError:  # of the list itself
                continue
            if inode in there:
                own.offsets[number] = os.lseek(number, 0, os.SEEK_CUR)
                if "FLOCK" in facts:
                    own.locks[number] = fcntl.LOCK_EX if "WRITE" in facts else fcntl.LOCK_SH
                writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
                inodes |= {inode} if writes or number in own.locks else set()
        for line in Path("/proc/self/maps").read_text().splitlines():
            _, rights, _, _, inode_of, *_ = line.split(maxsplit=5)
            inodes |= {int(inode_of)} if rights[1::2] == "ws" else set()  # shared, not a copy
        for name, item in before.items():
            if item.inode and item.inode in inodes:
                other = own.names[name] = self.folder.parent / f"held-{len(own.names)}"
                os.link(self.folder / name, other)
        return own

    def _back(self, before: State, own: Own) -> None:
        put_back(self.folder, before, own.names)
        for number, offset in own.offsets.items():
            os.lseek(number, offset, os.SEEK_SET)
        for number, how in own.locks.items():
            fcntl.flock(number, how | fcntl.LOCK_NB)

    def close(self) -> None:
        """Keep the record, at the end of the command."""
        (self.folder.parent / ENDS).write_bytes(pickle.dumps(self.ends))


def read_ends(folder: Path) -> dict[Point, End]:
    """The record of a command that was performed in this folder."""
    ends: dict[Point, End] = pickle.loads((folder.parent / ENDS).read_bytes())  # noqa: S301 - our own, of this moment
    return ends
