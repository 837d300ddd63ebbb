"""Where the time of a training step goes: the profiler's operations in a few groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from torch.profiler import ProfilerActivity, profile, record_function

from headstart.bench.machine import wait_for
from headstart.training.batches import Batches
from headstart.training.optim import update_

PRODUCTS, ATTENTION, ELEMENTS = "matrix products", "attention and softmax", "element-wise"
OPTIMISER, DATA, OTHER = "optimiser", "data", "Python and other"
GROUPS = (PRODUCTS, ATTENTION, ELEMENTS, OPTIMISER, DATA, OTHER)

_WORDS = {
    ATTENTION: ("scaled_dot_product", "softmax", "_efficient_attention", "_flash_attention"),
    PRODUCTS: (
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::baddbmm",
        "aten::matmul",
        "aten::linear",
        "mkldnn",
        "conv",
        "aten::_fft",
    ),
}
_SCOPE = "headstart: "


def group_of(operation: str) -> str:
    """The group of one operation by its name, outside data and optimiser."""
    for group, words in _WORDS.items():
        if any(word in operation for word in words):
            return group
    return ELEMENTS if operation.startswith("aten::") else OTHER


def shares(step: Callable[[], Any], batches: Batches, device: str, steps: int) -> dict[str, float]:
    """Share of the wall time of `steps` steps by group; they sum to 1 (on a GPU that is never idle: its kernels').

    `batches.batch` and `update_` are watched meanwhile: what runs in them is `data` and `optimiser`.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device != "cpu" else [])]
    with (
        patch.object(batches, "batch", _scoped(batches.batch, DATA)),
        patch("headstart.training.step.update_", _scoped(update_, OPTIMISER)),
        profile(activities=activities) as trace,
    ):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait_for(device)
        wall = time.perf_counter() - start
    return _sums(trace.events(), device, wall)


def _scoped(function: Callable[..., Any], group: str) -> Callable[..., Any]:
    def inside(*arguments: Any, **named: Any) -> Any:
        with record_function(_SCOPE + group):
            return function(*arguments, **named)

    return inside


def _sums(events: Any, device: str, wall: float) -> dict[str, float]:
    spent = dict.fromkeys(GROUPS, 0.0)
    for event in events:
        # Kernels stand in the list once more by themselves; their time is counted where they were called.
        if str(event.device_type).endswith("CPU"):
            own = event.self_cpu_time_total if device == "cpu" else event.self_device_time_total
            spent[_scope(event) or group_of(event.name)] += own / 1e6
    measured = sum(spent.values()) - spent[OTHER]
    spent[OTHER] = max(wall - measured, 0.0)
    total = measured + spent[OTHER]
    return {group: seconds / total for group, seconds in spent.items()}


def _scope(event: Any) -> str | None:
    """The watched function that an event happened in."""
    while event is not None:
        if event.name.startswith(_SCOPE):
            return str(event.name.removeprefix(_SCOPE))
        event = event.cpu_parent
    return None
