"""Recorded training steps beside plain ones: do they agree, and how much faster are they?

    python benchmarks/recorded_steps.py [--device auto] [--precision bfloat16] [--steps 200] [--only pretrain,ragged]

Claim: on a GPU, 20 steps of Image's stages (D 64, 3 blocks, 4 heads, L 1,024; made-up pixels) that are played from a
CUDA graph give the losses and weights of 20 plain ones. It is shown in two parts. A step that reads its numbers (rates,
seed, epoch) from the device, without a recording, is compared with the plain step in float32, to 1e-5 of scale; and the
recorded step with the one without a recording, in the precision that is asked for, to 1e-3 in bfloat16 and 1e-5 in
float32. Each may differ by three times what two plain runs do (a GPU's own kernels may add in any order). bfloat16 alone
would not tell: a GPU divides by a number that it reads another way than by one that Python gives, which moves the last
bit of a weight, and bfloat16 rounds such a bit up to 2^-8 (measured: 1.7e-3 of scale after 20 steps with max pooling,
8e-7 in float32). Then the paces, and where the time of a recorded step goes. On a CPU nothing is recorded: the step is
called, and the paces are those of calls. Not compared: biases of keys. Their gradient is zero but for rounding, and
AdamW makes full steps of rounding.

Beside Image's two phases: `ragged`, tokens of 500 to 2,000 positions in pools of like length, which are recorded for
each padded length; `windows`, the same in windows of 256 positions; `fresh`, an endless stream (bit memory), whose
examples are copied to where the recorded step looks for them. Of `ragged` and `windows` the flash kernel's steps
(HEADSTART_FLASH=1) are compared with those of the kernel that takes a mask, and timed, on a GPU in bfloat16.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from headstart.api import Study
from headstart.bench.machine import setting, wait_for
from headstart.runner.machine import choose_device
from headstart.sequence import Examples, Signature
from headstart.spec import read
from headstart.stage import StageSpec
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.tasks.task import Task
from headstart.training.graph import RECORDERS, Recorder
from headstart.training.loop import BudgetSpec

STEPS, WARM, PROFILED = 20, 50, 5
LIMIT = {"bfloat16": 1e-3, "float32": 1e-5}
NOISE = "key.bias"
CALLED = "called (a CPU records none)"
CASES = ("pretrain", "finetune", "ragged", "windows", "fresh")
CLASSIFY = {"objective": {"kind": "classify"}, "budget": {"steps": 1}}
MOVED = 5
"""Limits that the weights must have moved by, so that agreement means something."""


def by_calling(step: Callable[[], None]) -> Callable[[], None]:
    """A recorder that records nothing: the step is performed, and performed again."""
    step()
    return step


def recorder(device: str) -> Recorder:
    """How steps are recorded on a device."""
    return RECORDERS.get(device, by_calling)


@dataclass(frozen=True)
class Taken:
    """What some steps gave: `losses` (steps,), weights by name, the largest way a weight moved, how they were taken."""

    losses: torch.Tensor
    weights: dict[str, torch.Tensor]
    moved: float
    how: str


@dataclass(frozen=True)
class Agreement:
    """Largest differences as shares of scale, over the losses and the weights of 20 steps.

    recorded: of recorded steps and those that read their numbers from the device, in the precision of the stage; limit:
    what is allowed there. unrecorded: of the latter and plain ones, in float32. floor: of two plain runs in float32.
    moved: the largest way of a weight in the stage's precision.
    """

    phase: str
    how: str
    recorded: float
    unrecorded: float
    floor: float
    moved: float
    limit: float

    @property
    def problem(self) -> str | None:
        """What is off, or None."""
        if not self.how.startswith(("recorded", CALLED)):
            return f"steps are not recorded ({self.how}); --record off measures plain ones"
        if not self.moved >= MOVED * self.limit:
            return f"the weights moved by {self.moved:.1e} of scale only: too little to compare"
        for what, far, limit in (
            ("that read their numbers from the device differ from plain ones", self.unrecorded, LIMIT["float32"]),
            ("recorded differ from those that are not", self.recorded, self.limit),
        ):
            allowed = max(limit, 3 * self.floor)
            if not far <= allowed:
                return f"steps {what} by {far:.1e} of scale; {allowed:.0e} is allowed"
        return None

    def __str__(self) -> str:
        return (
            f"{self.phase}: {STEPS} steps {self.how} against unrecorded ones: {self.recorded:.1e} of scale ({self.limit:.0e} "
            f"is allowed); unrecorded against plain ones in float32: {self.unrecorded:.1e}, plain twice {self.floor:.1e}; "
            f"weights moved {self.moved:.1e}"
        )


def started(spec: StageSpec, task: Task, device: str, record: Recorder | None, steps: int) -> TrainedRun:
    """A stage from fresh weights at its peak rate at once, with `steps` steps before anything is evaluated."""
    optim = spec.optim.model_copy(update={"schedule": "constant", "warmup_share": 0.0, "warmup_steps": 0})
    budget = BudgetSpec(steps=steps + 1, evaluate_every=10**6)
    changed = {"parent": None, "start": (), "optim": optim, "budget": budget}
    run = TrainedRun(spec.model_copy(update=changed), task, None, device)
    run.setting = replace(run.setting, record=record)
    return run


def taken(spec: StageSpec, task: Task, device: str, record: Recorder | None) -> Taken:
    """Take 20 steps."""
    run = started(spec, task, device, record, STEPS)
    progress, losses = run.progress, [0.0]
    before = progress.flat.weights.clone()
    for _ in itertools.islice(run.steps(), STEPS):
        losses.append(progress.metrics.loss)
    after = progress.flat.weights
    return Taken(
        torch.tensor(losses).diff(),
        {name: tensor.detach().clone() for name, tensor in progress.flat.tensors.items()},
        float((after - before).abs().max() / after.abs().max()),
        progress.how,
    )


def apart(first: Taken, second: Taken) -> float:
    """Largest difference of losses and of weights, each as a share of the largest of them; NaN stays NaN."""
    loss = float((first.losses - second.losses).abs().max() / first.losses.abs().max())
    scale = max(float(value.abs().max()) for value in first.weights.values())
    far = [
        float((first.weights[name] - second.weights[name]).abs().max()) for name in first.weights if NOISE not in name
    ]
    return float(np.max([loss, max(far) / scale if not any(map(np.isnan, far)) else np.nan]))


def agreement(phase: str, spec: StageSpec, task: Task, device: str) -> Agreement:
    """Compare the ways to take 20 steps of a stage."""
    exact = spec.model_copy(update={"optim": spec.optim.model_copy(update={"precision": "float32"})})
    plain, again, read = (taken(exact, task, device, way) for way in (None, None, by_calling))
    unrecorded, recorded = (taken(spec, task, device, way) for way in (by_calling, recorder(device)))
    how = recorded.how if device in RECORDERS else recorded.how.replace("recorded", CALLED)
    return Agreement(
        phase,
        how,
        apart(unrecorded, recorded),
        apart(plain, read),
        apart(plain, again),
        unrecorded.moved,
        LIMIT[spec.optim.precision],
    )


def pace(spec: StageSpec, task: Task, device: str, record: Recorder | None, steps: int) -> float:
    """Seconds of a step, over `steps` steps after warm ones."""
    warm = min(WARM, steps)
    ticks = started(spec, task, device, record, warm + steps).steps()
    for _ in itertools.islice(ticks, warm):
        pass
    wait_for(device)
    start = time.perf_counter()
    for _ in itertools.islice(ticks, steps):
        pass
    wait_for(device)
    return (time.perf_counter() - start) / steps


def kernels(spec: StageSpec, task: Task, device: str, record: Recorder | None) -> list[tuple[str, float, float]]:
    """(kernel, or operation on a CPU; how often in a step; milliseconds of a step), the longest first."""
    ticks = started(spec, task, device, record, 10 + PROFILED).steps()
    for _ in itertools.islice(ticks, 10):
        pass
    wait_for(device)
    kind = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[kind]) as profiled:
        for _ in itertools.islice(ticks, PROFILED):
            pass
        wait_for(device)
    spent = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    rows = [
        (event.key, event.count / PROFILED, getattr(event, spent) / 1e3 / PROFILED) for event in profiled.key_averages()
    ]
    return sorted((row for row in rows if row[2] > 0), key=lambda row: -row[2])


def kernel_lines(rows: list[tuple[str, float, float]], most: int = 10) -> Iterator[str]:
    """The longest kernels (on a CPU: torch's operations, those that only look at memory included) in words."""
    total, count = sum(row[2] for row in rows), sum(row[1] for row in rows)
    yield f"  {count:.0f} kernels or operations a step, {total:.3f} ms in them; the longest:"
    for name, often, spent in rows[:most]:
        yield f"  {spent:8.3f} ms  {often:5.0f} x  {name[:90]}"


def phases(study: Study) -> dict[str, StageSpec]:
    """One stage of each phase of a study."""
    return {planned.name: planned.spec for planned in reversed(list(study.plan.stages.values()))}


def made_up(units: int, length: int) -> Task:
    """Random walks of grey levels with Image's signature."""
    draw = np.random.default_rng(0)
    levels = np.clip(draw.normal(0, 8, (units, length)).cumsum(1) + 128, 0, 255).astype(np.uint8)
    signature = Signature(
        "floats", 1, length, length, "class", classes=10, levels=256, level_scale=64.0, level_shift=128.0
    )
    examples = Examples(
        levels.reshape(-1, 1),
        np.arange(units + 1) * length,
        draw.integers(0, 10, units),
        np.arange(units),
        scale=1 / 64,
        shift=-2.0,
    )
    return Task(signature, examples, examples, examples)


def ragged_tokens(units: int, longest: int) -> Task:
    """Tokens of which every seventh decides the class, a quarter of `longest` to all of it long."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(max(longest // 4, 1), longest + 1, units)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = draw.integers(0, 15, offsets[-1])
    target = np.array([values[a:b:7].sum() % 10 for a, b in itertools.pairwise(offsets)])
    signature = Signature("tokens", 15, longest, int(lengths.min()), "class", classes=10)
    examples = Examples(values, offsets, target, np.arange(units))
    return Task(signature, examples, examples, examples)


def others(units: int, longest: int, precision: str) -> Iterator[tuple[str, StageSpec, Task]]:
    """(name, stage, task) of ragged sequences, of windows, and of an endless stream."""
    model = {"width": 64, "blocks": 3, "feed_forward": {"width": 128}, "position": {"kind": "rotary"}}
    optim = {"batch_size": 16, "length_pool": 50, "precision": precision}
    for name, mixer in (
        ("ragged", {"kind": "attention", "heads": 4}),
        ("windows", {"kind": "local_attention", "heads": 4, "window": min(256, longest // 4)}),
    ):
        document = {"task": {"kind": "listops"}, "model": {**model, "mixer": mixer}, "optim": optim}
        yield name, read(StageSpec, {**document, **CLASSIFY}), ragged_tokens(units, longest)
    stream = {"kind": "bit_memory", "train": units, "val": 100, "test": 100}
    document = {"task": stream, "model": model, "optim": {"batch_size": 16, "precision": precision}}
    spec = read(StageSpec, {**document, **CLASSIFY})
    yield "fresh", spec, open_task(spec.task, Path())


def flashing(name: str, spec: StageSpec, task: Task, device: str, steps: int) -> str:
    """The flash kernel beside the one that takes a mask: agreement of 20 plain steps, and paces of recorded ones."""
    outcomes = []
    for word in ("0", "1"):
        os.environ["HEADSTART_FLASH"] = word
        outcomes.append((taken(spec, task, device, None), pace(spec, task, device, recorder(device), steps)))
    os.environ.pop("HEADSTART_FLASH")
    (masked, slow), (flash, fast) = outcomes
    return (
        f"{name}: flash kernel {1e3 * fast:.3f} ms a step, with a mask {1e3 * slow:.3f} ms; "
        f"{apart(masked, flash):.1e} of scale apart after {STEPS} plain steps"
    )


def main() -> int:
    """Compare and print. Exit code 1 where steps do not agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--precision", default="bfloat16", choices=list(LIMIT))
    parser.add_argument("--only", default=",".join(CASES), help="some of " + ", ".join(CASES))
    for name, value in (("steps", 200), ("units", 2000), ("length", 1024), ("longest", 2000), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device, task, wrong = choose_device(options.device), made_up(options.units, options.length), 0
    words = [f"{stage}.optim.precision={options.precision}" for stage in ("pretrain", "finetune")]
    study = Study("coser-1-described", ["columns=image", "seed=[0]", *words], scale="paper", absent="open")
    where: dict[str, Any] = setting(device, options.threads)
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    cases = [(name, spec, task) for name, spec in phases(study).items()]
    for phase, spec, task in (*cases, *others(options.units, options.longest, options.precision)):
        if phase not in options.only.split(","):
            continue
        comparison = agreement(phase, spec, task, device)
        print(comparison)
        if comparison.problem is not None:
            print(f"{phase}: {comparison.problem}")
            wrong = 1
            continue
        plain, played = (pace(spec, task, device, way, options.steps) for way in (None, recorder(device)))
        epoch = f"; an epoch of 45,000 images {45_000 / spec.optim.batch_size * played:.2f} s"
        print(
            f"{phase}: batch {spec.optim.batch_size}, plain {1e3 * plain:.3f} ms a step, {comparison.how} "
            f"{1e3 * played:.3f} ms{epoch if phase in ('pretrain', 'finetune') else ''}"
        )
        if phase in ("ragged", "windows") and device == "cuda" and options.precision == "bfloat16":
            print(flashing(phase, spec, task, device, options.steps))
        print("\n".join(kernel_lines(kernels(spec, task, device, recorder(device)))))
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
