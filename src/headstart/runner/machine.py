"""This machine, as far as results depend on it: device, threads, versions, kind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from headstart.errors import BadInput

# Names of glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[int]:
    """Torch computes with so many threads meanwhile: results depend on it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


def choose_device(wanted: str) -> str:
    """`cpu` or `cuda`. Raises: BadInput where what is wanted is not there."""
    import torch

    if wanted not in ("auto", "cpu", "cuda"):
        raise BadInput(f"--device: {wanted!r} is none of auto, cpu, cuda")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device: cuda, but torch sees none here; use auto or cpu (see `headstart doctor`)")
    return ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted


@cache
def version(package: str) -> str:
    """The installed version of a package; of torch with its build."""
    if package == "torch":
        import torch

        return str(torch.__version__)
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def machine() -> str:
    """The kind of machine, without its name."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{sys.platform} {platform.machine()}, {model}, {os.cpu_count()} cores"


def process_age() -> float:
    """Seconds since this process began, where the system says so; else 0."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        after_name = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        begun = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - begun)
    return 0.0


def keep_freed_memory() -> None:
    """Make this process keep memory that it frees, so that a training step faults in no page twice.

    glibc gives freed blocks of a training step back to the kernel, and takes them again in the next: 1,370 page
    faults and a third of the time of a step of the digits model (13.2 to 9.3 ms, 1 thread). It changes no result.
    Does nothing where the C library has no mallopt.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for option, value in ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, value)
