"""One fault each, at an instant or a place that a seed chooses; every trial ends with the bits of an undisturbed run."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.store import Store
from support.processes import alive
from support.soak.study import ended, forked, perform_study, results, stages
from support.store_content import content, differences

LONGEST = 600.0
"""Seconds of the clock after which a run that does not end is a finding: many times what it takes on a busy machine."""
LEAST, MOST = 16, 400
"""Kibibytes of the small disk: from no room for anything to room for all."""


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its content, its store, and how long it took in a process that was warm."""

    content: Mapping[str, Any]
    root: Path
    seconds: float


class Broken(Exception):
    """What must never happen."""


Trial = Callable[[random.Random, Reference, Path, Counter[str]], None]


def _finish(root: Path, log: Path, workers: int = 0) -> None:
    code = ended(child := forked(root, log, workers=workers), LONGEST)
    if code is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if code != 0:
        raise Broken(f"a run that nothing disturbed ended with {code}: {log.read_text()[-600:]}")


def _compare(root: Path, reference: Reference) -> None:
    if lines := differences(Store(root), reference.content):
        raise Broken("; ".join(sorted(lines)[:5]))
    if states := [*root.glob("*/state-*"), *root.glob("*/.*.tmp")]:
        raise Broken(f"{len(states)} files are left over, {states[0].name}")


class _Once:
    """Notices stages that are done twice: a result that was there is never written again."""

    def __init__(self, root: Path) -> None:
        self.root, self.known = root, results(root)

    def look(self) -> None:
        now = results(self.root)
        for identity, file in self.known.items():
            if now.get(identity) != file:
                raise Broken(f"stage {identity} was {'done twice' if identity in now else 'lost'}")
        self.known = now


def kill(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """SIGKILL to a run in one process, again and again, until one gets through: soon after another or later."""
    root, log = folder / "runs", folder / "log.txt"
    once = _Once(root)
    longest = numbers.choice((0.1, 0.4, 1.2)) * reference.seconds
    for _ in range(12):
        child = forked(root, log)
        code = ended(child, numbers.uniform(0, longest))
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            counts["SIGKILLs of a run in one process"] += 1
        once.look()
        if code is not None:
            if code != 0:
                raise Broken(f"a run after kills ended with {code}: {log.read_text()[-600:]}")
            break
    _finish(root, log)
    once.look()
    _compare(root, reference)


def kill_workers(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """SIGKILL to the driver, to a worker or to both, of a run with two workers."""
    root, log = folder / "runs", folder / "log.txt"
    once = _Once(root)
    with log.open("ab") as out:
        words = [sys.executable, "-m", "support.soak.study", str(root), "2"]
        process = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
    workers = _workers(process)
    time.sleep(numbers.uniform(0, 6 * reference.seconds))
    who = numbers.choice(("driver", "worker", "both"))
    if process.poll() is None:
        for pid in ([numbers.choice(workers)] if who != "driver" and workers else []) + (
            [process.pid] if who != "worker" else []
        ):
            _kill(pid)
            counts[f"SIGKILLs of a {'driver' if pid == process.pid else 'worker'}"] += 1
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Broken(f"a run whose {who} was killed does not end: {log.read_text()[-600:]}") from None
    deadline = time.monotonic() + 10
    while any(map(alive, workers)):
        if time.monotonic() > deadline:
            raise Broken("workers outlived their driver")
        time.sleep(0.02)
    once.look()
    _finish(root, log)
    once.look()
    _compare(root, reference)


def race(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """Two or four processes perform the study in one store at once."""
    root, log = folder / "runs", folder / "log.txt"
    several = numbers.choice((2, 4))
    children = []
    once = _Once(root)
    for _ in range(several):
        children.append(forked(root, log))
        time.sleep(numbers.uniform(0, 0.3 * reference.seconds))
    _all_end(children, log, once)
    counts[f"races of {several} processes"] += 1
    _compare(root, reference)
    _finish(root, log)
    once.look()


def no_locks(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """Two processes in a folder whose file system refuses locks; one is killed."""
    root, log = folder / "runs", folder / "log.txt"

    def refuse() -> None:
        def flock(*_: object) -> None:
            raise OSError(errno.ENOTSUP, "Operation not supported")

        fcntl.flock = flock

    first = forked(root, log, refuse)
    code = ended(first, numbers.uniform(0, reference.seconds))
    if code is None and numbers.random() < 0.5:
        os.killpg(first, signal.SIGKILL)
        os.waitpid(first, 0)
        code = 0
    second = forked(root, log, refuse)
    _all_end([second, *([first] if code is None else [])], log)
    counts["runs where locks are refused"] += 1
    _compare(root, reference)


def terminate(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """SIGTERM to all processes of a run, and SIGKILL two seconds later, as a scheduler sends them."""
    root, log = folder / "runs", folder / "log.txt"
    child = forked(root, log)
    code = ended(child, numbers.uniform(0, reference.seconds))
    if code is None:
        os.killpg(child, signal.SIGTERM)
        if ended(child, 2.0) is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        counts["SIGTERMs"] += 1
    _finish(root, log)
    _compare(root, reference)


def clock(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """The time of day jumps back and forth by up to a year while a run goes on; it is killed once."""
    root, log = folder / "runs", folder / "log.txt"

    def jump() -> None:
        plain = time.time
        time.time = lambda: plain() + numbers.uniform(-3e7, 3e7)

    child = forked(root, log, jump)
    if ended(child, numbers.uniform(0, 1.5 * reference.seconds)) is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _all_end([forked(root, log, jump)], log)
    counts["runs with a clock that jumps"] += 1
    _compare(root, reference)


def flip(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """A bit of a file of a finished store, or of one that was broken off, is turned."""
    root, log = folder / "runs", folder / "log.txt"
    if numbers.random() < 0.5:
        shutil.copytree(reference.root, root)
    else:
        child = forked(root, log)
        if ended(child, numbers.uniform(0.2, 1) * reference.seconds) is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    files = sorted(path for path in root.glob("*/*") if path.is_file() and path.stat().st_size)
    if not files:
        return
    path = numbers.choice(files)
    whole = bytearray(path.read_bytes())
    whole[numbers.randrange(len(whole))] ^= 1 << numbers.randrange(8)
    path.write_bytes(whole)
    counts[f"flipped bits in {path.stem.partition('-')[0]}{path.suffix}"] += 1
    code = ended(child := forked(root, log), LONGEST)
    if code not in (0, 1):
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise Broken(f"{path.name} was damaged, and the run ended with {code}: {log.read_text()[-600:]}")
    _finish(root, log)
    _compare(root, reference)


def full_disk(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """A disk of so many kibibytes is full at some write; then it gets room."""
    root, log = folder / "disk", folder / "log.txt"
    root.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={numbers.randrange(LEAST, MOST, 4)}k", "tmpfs", str(root))
    try:
        code = ended(child := forked(root / "runs", log), LONGEST)
        if code not in (0, 1, 2):
            if code is None:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            raise Broken(f"on a full disk the run ended with {code}: {log.read_text()[-600:]}")
        counts["full disks" if code else "disks with room enough"] += 1
        once = _Once(root / "runs")
        _mount("-o", "remount,size=64m", str(root))
        _finish(root / "runs", log)
        once.look()
        _compare(root / "runs", reference)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def read_only(numbers: random.Random, reference: Reference, folder: Path, counts: Counter[str]) -> None:
    """The store's disk becomes read-only while a run goes on, and is writable again later."""
    root, log = folder / "disk", folder / "log.txt"
    root.mkdir()
    _mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(root))
    try:
        child = forked(root / "runs", log)
        code = ended(child, numbers.uniform(0, reference.seconds))
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        _mount("-o", "remount,ro", str(root))
        code = ended(child := forked(root / "runs", log), LONGEST)
        if code is None or code == 70 or code < 0:
            if code is None:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            raise Broken(f"in a read-only store the run ended with {code}: {log.read_text()[-600:]}")
        counts["read-only stores"] += 1
        _mount("-o", "remount,rw", str(root))
        _finish(root / "runs", log)
        _compare(root / "runs", reference)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def _all_end(children: list[int], log: Path, once: _Once | None = None) -> None:
    codes: dict[int, int | None] = dict.fromkeys(children)
    deadline = time.monotonic() + LONGEST
    while None in codes.values() and time.monotonic() < deadline:
        codes = {child: ended(child, 0.01) if code is None else code for child, code in codes.items()}
        if once is not None:
            once.look()
    for child, code in codes.items():
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if any(code != 0 for code in codes.values()):
        raise Broken(f"the processes ended with {[*codes.values()]}: {log.read_text()[-600:]}")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def may_mount() -> bool:
    """Whether this process can make a small disk."""
    return os.geteuid() == 0 and shutil.which("mount") is not None and _mounts()


def _mounts() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            _mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", folder)
        except (subprocess.CalledProcessError, OSError):
            return False
        subprocess.run(["umount", "-l", folder], check=True)
    return True


def _workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that a driver has started, once both are there; fewer where it has ended before."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    children: list[int] = []
    while process.poll() is None and time.monotonic() < deadline:
        try:
            children = [int(word) for word in path.read_text().split()]
        except OSError:
            break
        if len(children) >= 2:
            break
        time.sleep(0.01)
    return children


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


TRIALS: dict[str, tuple[Trial, int]] = {
    "kill": (kill, 10),
    "kill_workers": (kill_workers, 5),
    "race": (race, 4),
    "no_locks": (no_locks, 2),
    "terminate": (terminate, 2),
    "clock": (clock, 2),
    "flip": (flip, 6),
    "full_disk": (full_disk, 4),
    "read_only": (read_only, 2),
}
"""Name -> a trial and how often it takes its turn."""
COUNTED = {
    "kill": ("SIGKILLs of a run in one process", 0, 12),
    "kill_workers": ("SIGKILLs of a (driver|worker)", 0, 2),
    "race": ("races of .*", 1, 1),
    "no_locks": ("runs where locks are refused", 1, 1),
    "terminate": ("SIGTERMs", 0, 1),
    "clock": ("runs with a clock that jumps", 1, 1),
    "flip": ("flipped bits in .*", 0, 1),
    "full_disk": ("full disks|disks with room enough", 1, 1),
    "read_only": ("read-only stores", 1, 1),
}
"""Name of a trial -> what it counts, and how much of it in one trial without a finding: at least and at most."""
NEED_A_DISK = ("full_disk", "read_only")


def make_reference(folder: Path) -> Reference:
    """Perform the study undisturbed, twice: the second time tells how long it takes."""
    perform_study(folder / "first")
    began = time.monotonic()
    perform_study(folder / "second")
    return Reference(content(Store(folder / "second"), stages()), folder / "second", time.monotonic() - began)
