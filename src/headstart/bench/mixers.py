"""Time and memory of a step of every mixer at several lengths."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from headstart.bench.machine import largest_memory, limit_memory, wait_for
from headstart.bench.process import ProcessFailed, once
from headstart.errors import BadInput, nearest
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec
from headstart.plugins import load_class, load_plugins, own_kinds
from headstart.runner.machine import keep_freed_memory
from headstart.spec import read

LEAST_REPEATS, MOST_REPEATS, ENOUGH_TIME = 3, 30, 1.0
"""A step is timed at least 3 times, and until 1 s or 30 times."""
FIRST_LENGTH = 64
"""Length of a first short step, after which memory is counted: what libraries allocate once is not a mixer's."""


@dataclass(frozen=True)
class BenchCase:
    """One cell: a mixer at a length. `own`: the plugin, or `module:Class`, of a mixer that is not in the table."""

    mixer: str
    length: int
    device: str
    threads: int
    width: int = 128
    batch: int = 1
    own: str | None = None


@dataclass(frozen=True)
class BenchCell:
    """What was measured. seconds: median of `steps`; fastest: the least. memory: bytes beyond the process before.

    flops: closed form, of one forward over one sequence. failed: why there is no time, or None.
    """

    mixer: str
    length: int
    device: str
    parameters: int = 0
    flops: float = 0.0
    seconds: float | None = None
    fastest: float | None = None
    steps: int = 0
    memory: int | None = None
    failed: str | None = None


def read_lengths(text: str) -> list[int]:
    """`256,1024` as numbers in rising order. Raises: BadInput."""
    try:
        lengths = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise BadInput(f"--lengths: {text!r} is not a list of whole numbers; write --lengths 256,1024") from None
    if lengths[0] < 1:
        raise BadInput(f"--lengths: {lengths[0]} is below 1; write --lengths 256,1024")
    return lengths


def read_mixers(text: str | None, own: str | None, plugins: Sequence[str] = ()) -> dict[str, str | None]:
    """Names to measure (all where none is named), each with its plugin or `module:Class`, or None. Raises: BadInput."""
    loaded = load_plugins(plugins)
    added = {kind: word for word, plugin in zip(plugins, loaded, strict=True) for kind in own_kinds([plugin], "mixer")}
    if own is not None:
        added[load_class(own, "--mixer", "mixer")] = own
    names = list(MIXERS) if text is None else [word.strip() for word in text.split(",")]
    for name in names:
        if name not in MIXERS:
            raise BadInput(f"--mixers: {nearest(name, MIXERS)}")
    return {name: added.get(name) for name in dict.fromkeys([*names, *added])}


def spec_of(mixer: str) -> MixerSpec:
    """The mixer with its default settings."""
    spec: MixerSpec = read(MIXERS[mixer].load(), {"kind": mixer}, name=mixer)
    return spec


def check_width(mixers: Sequence[str], width: int) -> None:
    """Raises: BadInput, before anything is measured, where a mixer cannot have this width."""
    if width < 1:
        raise BadInput(f"--width: {width} is below 1; take 128, say")
    for mixer in mixers:
        try:
            spec_of(mixer).build(width, FIRST_LENGTH, False)
        except BadInput as error:
            raise BadInput(
                f"--width: {width} does not suit mixer {mixer!r} ({error}); take another width, "
                f"or leave it out of --mixers"
            ) from None


def survey(cases: Sequence[BenchCase], limit: float) -> Iterator[BenchCell]:
    """Measure case after case, each in its own process of at most `limit` seconds."""
    for case in cases:
        try:
            yield BenchCell(**once("headstart.bench.mixers:measure", asdict(case), limit))
        except ProcessFailed as error:
            yield BenchCell(case.mixer, case.length, case.device, failed=str(error))


def measure(job: dict[str, Any]) -> Generator[dict[str, Any], str, None]:
    """In its own process: one cell."""
    case = BenchCase(**job)
    torch.set_num_threads(case.threads)
    keep_freed_memory()
    if case.own is not None:
        load_plugins([case.own])
    spec = spec_of(case.mixer)
    _step_of(_layer(spec, case, min(FIRST_LENGTH, case.length)), case, min(FIRST_LENGTH, case.length))()
    if case.device == "cpu":
        limit_memory()
    else:
        torch.cuda.reset_peak_memory_stats(case.device)
    before = largest_memory(case.device) if case.device == "cpu" else 0
    layer = _layer(spec, case, case.length)
    seconds = timed(_step_of(layer, case, case.length), case.device)
    parameters = sum(p.numel() for p in layer.parameters())
    yield asdict(
        BenchCell(
            case.mixer,
            case.length,
            case.device,
            parameters,
            spec.flops(case.width, case.length, False),
            statistics.median(seconds),
            min(seconds),
            len(seconds),
            largest_memory(case.device) - before,
        )
    )


def _layer(spec: MixerSpec, case: BenchCase, length: int) -> nn.Module:
    torch.manual_seed(0)
    return spec.build(case.width, length, False).to(case.device)


def _step_of(module: nn.Module, case: BenchCase, length: int) -> Callable[[], None]:
    """Forward + backward of one layer, gradients of its inputs and weights; cleared before each."""
    x = torch.randn(case.batch, length, case.width, device=case.device, requires_grad=True)
    weight = torch.randn_like(x)

    def step() -> None:
        module.zero_grad(set_to_none=True)
        x.grad = None
        (module(x, None) * weight).sum().backward()

    return step


def timed(step: Callable[[], None], device: str) -> list[float]:
    """Seconds of each step, after one that is not counted."""
    step()
    wait_for(device)
    times: list[float] = []
    while len(times) < LEAST_REPEATS or (math.fsum(times) < ENOUGH_TIME and len(times) < MOST_REPEATS):
        start = time.perf_counter()
        step()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return times
