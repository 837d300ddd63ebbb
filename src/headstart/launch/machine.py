"""This machine, as far as results depend on it: device, threads, versions, kind."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from headstart.errors import BadInput


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
