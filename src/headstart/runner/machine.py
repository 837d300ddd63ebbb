"""This machine, as far as results depend on it: device, threads, versions, kind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from headstart.errors import BadInput
from headstart.limits import cores, memory
from headstart.ways import argument

if TYPE_CHECKING:
    import torch

SLOW_BFLOAT16 = (
    "is about ten times slower than float32 on this CPU, which has no bfloat16 instructions (measured: matrix products "
    'at 1.5 against 18.6 GFLOP/s); set precision = "float32"'
)

WORKER = 4 * 10**8
"""Bytes that a worker takes with its libraries, and a small network."""

NO_COMMIT = "commit not known: HEADSTART_COMMIT may name it"
_GIT = 5.0  # seconds that git may take

# Names of glibc's malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_USUAL = 128 << 10
"""What glibc begins with for each of them."""


@contextlib.contextmanager
def torch_settings(threads: int) -> Iterator[int]:
    """Torch computes with so many threads meanwhile, and with its own defaults, whatever a program has set: results
    depend on them.
    """
    import torch

    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.get_float32_matmul_precision())
    device = torch.get_default_device()
    _set(threads, torch.float32, "highest")
    if device.type != "cpu":  # setting one costs time at each call of torch
        torch.set_default_device(None)
    try:
        yield threads
    finally:
        _set(*before)
        if device.type != "cpu":
            torch.set_default_device(device)


def _set(threads: int, dtype: torch.dtype, precision: str) -> None:
    import torch

    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision(precision)


def choose_device(wanted: str) -> str:
    """`cpu`, `cuda` or `cuda:N`. Raises: BadInput where what is wanted is not there."""
    import torch

    if wanted not in ("auto", "cpu", "cuda") and not re.fullmatch(r"cuda:\d+", wanted):
        raise BadInput(f"{argument('device')}: {wanted!r} is none of auto, cpu, cuda, cuda:0, cuda:1 and so on")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted == "auto":
        return "cuda" if count else "cpu"
    if wanted != "cpu" and not count:
        raise BadInput(
            f"{argument('device')}: {wanted}, but torch sees none here; use auto or cpu (see `headstart doctor`)"
        )
    if wanted.startswith("cuda:") and int(wanted.removeprefix("cuda:")) >= count:
        raise BadInput(
            f"{argument('device')}: {wanted}, but torch sees {count} GPU(s) here; the last is cuda:{count - 1}"
        )
    return wanted


def gpus(wanted: str) -> list[str]:
    """The GPUs that a device stands for, as `cuda:N`: all for `cuda`, none for the CPU. Raises: BadInput."""
    import torch

    device = choose_device(wanted)
    if device == "cuda":
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [] if device == "cpu" else [device]


def use_device(device: str) -> None:
    """Make `cuda:N` the GPU of this process: CUDA graphs and random numbers use the current one."""
    if device.startswith("cuda:"):
        import torch

        torch.cuda.set_device(device)


def default_workers(device: str, stages: int | None = None, each: float = 0.0) -> int:
    """One process per GPU, or per core of a CPU, and no more than stages or than memory has room for; 0 where it is
    one: this process. each: bytes that each of them takes beside its libraries, for a checkpoint that it reads.
    """
    room = memory()
    most = sys.maxsize if room is None else max(1, int(room.size // (WORKER + each)))
    slots = min(len(gpus(device)) or cores(), most)
    slots = slots if stages is None else min(slots, stages)
    return slots if slots > 1 else 0


def instructions() -> str:
    """The widest instructions that torch takes here, and what was preloaded, which may be other kernels."""
    import torch

    text = os.environb.get(b"LD_PRELOAD", b"").decode("utf-8", "replace")
    preloaded = " ".join(Path(name).name for name in re.split("[ :]+", text) if name)
    return torch.backends.cpu.get_cpu_capability() + (f" with {preloaded}" if preloaded else "")


def has_bfloat16(info: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether this CPU has bfloat16 instructions; None where the system does not list them (macOS)."""
    with contextlib.suppress(OSError):
        lines = info.read_text("utf-8", errors="replace").splitlines()
        flags = {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}
        return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"}) if flags else None
    return None


def slow_precision(precisions: Iterable[str], device: str) -> str | None:
    """What to say where stages compute in bfloat16 on a CPU without instructions for it; None where all is well."""
    if device != "cpu" or "bfloat16" not in precisions or has_bfloat16() is not False:
        return None
    return f'optim.precision: "bfloat16" {SLOW_BFLOAT16}'


@cache
def version(package: str) -> str:
    """The installed version of a package; of torch with its build. That of headstart is the code's own, which is known
    where nothing has installed it, too.
    """
    if package == "torch":
        import torch

        return str(torch.__version__)
    if package == "headstart":
        return str(vars(sys.modules["headstart"])["__version__"])
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def release() -> str:
    """What results are made by: the version of headstart, with the commit unless it is installed as that version.

    The commit is that of the checkout (`-dirty` where files differ from it), of what pip installed out of a repository,
    or HEADSTART_COMMIT, for copies of the source that have neither.
    """
    number, package = version("headstart"), Path(__file__).parents[1]
    try:
        installed = metadata.distribution("headstart")
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        alone = Path(str(installed.locate_file("headstart"))).resolve() == package
    except (metadata.PackageNotFoundError, ValueError):
        alone, origin = False, {}
    commit = _checked_out(package.parents[1]) or os.environ.get("HEADSTART_COMMIT", "")
    commit = commit or str(origin.get("vcs_info", {}).get("commit_id", ""))[:12]
    if commit:
        return f"{number} (commit {commit})"
    return number if alone else f"{number} ({NO_COMMIT})"


def _checked_out(folder: Path) -> str:
    """The commit of headstart's own checkout in this folder; empty where it is none, or git does not answer."""
    if not (folder / ".git").exists() or not (folder / "src" / "headstart").is_dir():
        return ""
    words = [
        "git",
        "--no-optional-locks",
        "-C",
        str(folder),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(words, env=own, capture_output=True, text=True, timeout=_GIT, check=True)
        return done.stdout.strip()
    return ""


@cache
def machine(device: str = "cpu") -> str:
    """The kind of machine, without its name; of a GPU that was computed on, its model last."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    words = f"{sys.platform} {platform.machine()}, {model}, {os.cpu_count()} cores"
    if not device.startswith("cuda"):
        return words
    import torch

    return f"{words}, {torch.cuda.get_device_name(device)}"


def interpreter(code: str, *words: str) -> list[str]:
    """The command of a fresh interpreter that runs `code`, with these words in `sys.argv[1:]` and this process's paths.

    The working directory, which may be anybody's, comes last among them: no file in it stands in for a module of Python
    or of a library.
    """
    path = sys.path
    with contextlib.suppress(OSError):  # the working directory may be gone
        here = os.path.realpath(os.curdir)
        path = sorted(sys.path, key=lambda folder: os.path.realpath(folder or os.curdir) == here)
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {path!r}; {code}", *words]


def keep_freed_memory(keep: bool = True) -> None:
    """Make this process keep memory that it frees, so that a training step faults in no page twice; or no longer.

    glibc gives freed blocks of a training step back to the kernel, and takes them again in the next: 1,370 page
    faults and a third of the time of a step of the digits model (13.2 to 9.3 ms, 1 thread). It changes no result.
    Does nothing where the C library has no mallopt.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        sizes = (1 << 30, 2**31 - 1, 64 << 20) if keep else (_USUAL,) * 3
        for option, value in zip((_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD), sizes, strict=True):
            library.mallopt(option, value)


def processes_worth(slots: int) -> float:
    """How many processes' worth of work this machine does with so many of them: 1 to `slots`.

    Matrix products are measured, side by side in threads. Half of a small network's step is the interpreter's own work,
    which two threads of one core do at once: the answer lies half-way between what was measured and `slots`.
    """
    import torch

    if slots <= 1:
        return 1.0
    matrix = torch.randn(192, 192)

    def work(seconds: list[float], times: int = 150) -> None:
        begun = time.perf_counter()
        for _ in range(times):
            torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - begun)

    with torch_settings(1):
        alone: list[float] = []
        for _ in range(3):
            work(alone)
        together: list[float] = []
        threads = [threading.Thread(target=work, args=(together,)) for _ in range(slots)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    products = min(float(slots), max(1.0, slots * min(alone) / max(together)))
    return (products + slots) / 2
