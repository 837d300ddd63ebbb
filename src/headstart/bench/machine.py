"""What a measurement says of its machine: kind, threads, other work and memory."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import torch

from headstart.limits import memory
from headstart.runner.machine import machine, release, version
from headstart.stage.spec import peak_memory

BUSY = 0.25
"""Load per core above which other work is said aloud to have shared the machine."""


def devices(chosen: str, wanted: str) -> list[str]:
    """Devices to measure on: `auto` means the CPU and, where there is one, the GPU (`chosen`)."""
    return ["cpu", chosen] if wanted == "auto" and chosen != "cpu" else [chosen]


def setting(device: str, threads: int) -> dict[str, Any]:
    """Where and when: what every table of figures begins with."""
    cores = os.cpu_count() or 1
    name = machine() if device == "cpu" else torch.cuda.get_device_name(device)
    return {
        "device": device,
        "machine": name,
        "threads": threads,
        "cores": cores,
        "torch": version("torch"),
        "headstart": release(),
        "date": date.today().isoformat(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def sentence(where: dict[str, Any]) -> str:
    """`setting` in words, with a warning where the machine had other work."""
    load = where["load"]
    shared = load is not None and load > BUSY * where["cores"]
    note = f"; the machine was shared (load {load:g} at the start), so that times may be too long" if shared else ""
    return f"{where['date']}, {where['machine']}, {where['threads']} thread(s), torch {where['torch']}, float32{note}"


def wait_for(device: str) -> None:
    """Until a GPU has done what it was given; a CPU has."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def largest_memory(device: str) -> int:
    """Largest memory so far, bytes: that torch allocated on a GPU, else that this process had resident.

    Linux's own count for the process image is read where there is one: `ru_maxrss` would begin with the parent's.
    """
    resident = _kernel_says("/proc/self/status", "VmHWM") if device == "cpu" else None
    return peak_memory(torch.device(device)) if resident is None else resident


def limit_memory() -> None:
    """Let this process take nine tenths of what is free to it now: what asks for more fails alone, not the machine.

    Does nothing where the system does not say what is free (macOS).
    """
    room, held = memory(), _kernel_says("/proc/self/status", "VmData")
    if room is not None and held is not None:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (held + room.size * 9 // 10, resource.RLIM_INFINITY))


def _kernel_says(file: str, name: str) -> int | None:
    """Bytes of one line of Linux's own tables, or None where there are none."""
    with suppress(OSError):
        for line in Path(file).read_text("utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None
