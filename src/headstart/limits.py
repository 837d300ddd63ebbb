"""What this process may use: cores and memory, as the machine, the control groups of Linux and a person allow.

A container with a quota sees all cores and all memory of its machine; the quota stands in the files of its control
group, or of a group above it. Versions 1 and 2 of control groups are read: `cpu.cfs_quota_us`, `cpu.cfs_period_us`,
`memory.limit_in_bytes`, `memory.oom_control` and `cpu.max`, `memory.max`, `memory.events`.
Source: Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; proc_pid_mountinfo(5).
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headstart.errors import BadInput, BadMachine
from headstart.ways import argument

ROOT = Path("/")
"""Where `proc` and the mounts of control groups are looked for."""
ALLOWED = "HEADSTART_MEMORY"
"""The variable that says what this process and those that it starts may take, as `--memory` does."""
LEAST_ALLOWED = 7 * 10**8
"""Bytes that headstart takes with its libraries and a small model: with less nothing is begun."""
_UNBOUNDED = 1 << 60
"""Bytes from which on a limit of version 1 stands for none: the kernel writes the largest multiple of a page."""
_MEGABYTE, _GIGABYTE = 10**6, 10**9


@dataclass(frozen=True)
class FreeMemory:
    """Bytes that this process and its children may still take, and the limit in words where a container has one."""

    size: int
    limit: str = ""


def cores(root: Path = ROOT) -> int:
    """Processor cores that this process may use: the least of its affinity mask and the quotas of its groups.

    A quota of one and a half cores counts as two: both together are kept busy for three quarters of the time.
    """
    mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([mask, *(math.ceil(quota) for quota in _quotas(root))]))


def follow_quota(root: Path = ROOT) -> None:
    """Let libraries that are loaded later start as many threads as the quota has cores, and not one for each core of
    the machine, where nobody has said how many: more of them wait for each other."""
    mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (count := cores(root)) < mask:
        os.environ.setdefault("OMP_NUM_THREADS", str(count))


def _quotas(root: Path) -> Iterator[float]:
    """Cores that each group on the path of this process may use, of those that have a quota."""
    for folder, version in _groups(root, "cpu"):
        if version == 2:
            quota, _, period = _text(folder / "cpu.max").partition(" ")
        else:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):  # "max" and -1 stand for none
            yield int(quota) / int(period)


def memory(root: Path = ROOT) -> FreeMemory | None:
    """The least that the machine and the groups leave free; None where the system does not say (macOS)."""
    rooms = []
    available = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if available:
        rooms.append(FreeMemory(int(available[1]) * 1024))
    for folder, version in _groups(root, "memory"):
        limit, use, cached = (
            ("memory.max", "memory.current", r"^inactive_file (\d+)$")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", r"^total_inactive_file (\d+)$")
        )
        most = _text(folder / limit)
        if most.isdecimal() and int(most) < _UNBOUNDED:
            used = _text(folder / use)
            # What files left in memory is given up before anything is killed.
            freed = re.search(cached, _text(folder / "memory.stat"), re.MULTILINE)
            taken = (int(used) if used.isdecimal() else 0) - (int(freed[1]) if freed else 0)
            rooms.append(
                FreeMemory(max(0, int(most) - max(0, taken)), f"of the {in_words(int(most))} that are allowed here")
            )
    if (text := os.environ.get(ALLOWED)) is not None:
        allowed = memory_size(text)
        rooms.append(FreeMemory(max(0, allowed - _resident(root)), f"of the {in_words(allowed)} that --memory allows"))
    return min(rooms, key=lambda room: room.size, default=None)


def memory_size(size: str | float) -> int:
    """Bytes: `4G`, `4GB`, `500M`, `0.5g`, or their number. Raises: BadInput for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\d+e\d+)\s*([kmgt]?)(i?b)?", str(size).strip().lower())
    if match is None or not math.isfinite(float(match[1])):
        raise BadInput(f"{argument('memory')}: {str(size)!r} is not a size; give one such as 4G or 800M")
    return int(float(match[1]) * 1000 ** " kmgt".index(match[2] or " "))


def allow_memory(size: str | float | None) -> None:
    """Let this process and those that it starts take at most so much. Raises: BadInput where nothing could be done."""
    if size is None:
        return
    if (most := memory_size(size)) < LEAST_ALLOWED:
        small = in_words(most) if most >= _MEGABYTE else f"{most} bytes"
        raise BadInput(
            f"{argument('memory')}: {small} is less than the {in_words(LEAST_ALLOWED)} that headstart takes "
            "with its libraries; give 1G or more"
        )
    os.environ[ALLOWED] = str(most)


@contextmanager
def allowed_memory(size: str | float | None) -> Iterator[None]:
    """The same, within it. Raises: BadInput where nothing could be done."""
    before = os.environ.get(ALLOWED)
    allow_memory(size)
    try:
        yield
    finally:
        if before is not None:
            os.environ[ALLOWED] = before
        elif size is not None:
            del os.environ[ALLOWED]


def _resident(root: Path) -> int:
    """Bytes that this process has in memory, libraries included."""
    pages = _text(root / "proc/self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def give_back(*, cycles: bool = False) -> None:
    """Give memory that nobody uses any more back to the system, where the C library can: what comes next has more.

    cycles: look for objects that only hold each other, too, which takes a tenth of a second."""
    if cycles:
        gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()


def oom_kills(root: Path = ROOT) -> int | None:
    """Processes that the kernel has killed for memory so far: in this one's group, or, where that has no count, on
    the machine; None where nobody counts.
    """
    names = {1: "memory.oom_control", 2: "memory.events"}
    files = [folder / names[version] for folder, version in _groups(root, "memory")]
    for file in (*files, root / "proc/vmstat"):
        count = re.search(r"^oom_kill (\d+)$", _text(file), re.MULTILINE)
        if count:
            return int(count[1])
    return None


def check_memory(what: str, wanted: float, way: str, root: Path = ROOT) -> None:
    """Refuse what would be killed. wanted: bytes. way: out of it, in words.

    Raises: BadInput where there is less memory free than that.
    """
    room = memory(root)
    if room is not None and wanted > room.size:
        raise BadMachine(
            f"{what} takes about {in_words(wanted)} of memory, and {in_words(room.size)}"
            f"{f' {room.limit}' if room.limit else ''} are free; {way}"
        )


def in_words(size: float) -> str:
    """`1.2 GB`, `300 MB`."""
    return f"{size / _GIGABYTE:.3g} GB" if size >= _GIGABYTE else f"{max(1, size / _MEGABYTE):.0f} MB"


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """The folder of this process's control group and those above it, up to the mount, with the version of each."""
    paths = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        paths[1 if controller in names.split(",") else 2 if not names else 0] = path
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2) if after.count(" ") >= 2 else ("", "", "")
        version = 2 if kind == "cgroup2" else 1 if kind == "cgroup" and controller in options.split(",") else 0
        fields = before.split(" ")
        if not version or version not in paths or len(fields) < 5:
            continue
        inside, mount = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), text) for text in fields[3:5])
        top = root / mount.lstrip("/")
        # Of a container the mount may begin at its own group, which the kernel names by the whole path.
        below = os.path.relpath(paths[version], inside) if inside.startswith("/") else "."
        folder = top if below.startswith("..") else Path(os.path.normpath(top / below))
        for group in (folder, *folder.parents):
            yield group, version
            if group == top:
                break


def _text(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text("utf-8").strip()
    return ""
