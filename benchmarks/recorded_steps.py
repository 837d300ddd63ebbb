"""Recorded training steps beside plain ones: do they agree, and how much faster are they?

    python benchmarks/recorded_steps.py [--device auto] [--precision bfloat16] [--steps 200] [--only pretrain,ragged]

Claim: on a GPU, 20 steps of Image's stages (D 64, 3 blocks, 4 heads, L 1,024; made-up pixels) that are played from a
CUDA graph give the losses and weights of 20 plain ones. It is shown in three parts. In float32, a step that reads its
numbers (rates, seed, epoch) from the device, without a recording, is compared with the plain step, and the recorded step
with the one without a recording, both to 1e-5 of scale or three times what two plain runs differ by (a GPU's own kernels
may add in any order). In the precision that is asked for, the weights of recorded and unrecorded steps may be apart by a
quarter of the way that they moved (both as root mean squares). More cannot be asked of bfloat16: it rounds a last bit up
to 2^-8, and AdamW makes a full step of it where a gradient is near 0 (measured on an H200 after 20 steps of Image: 3.6e-3
of scale at the worst weight, where weights moved by 8.5e-3 at most). Then the paces, and where the time of a recorded step goes. On a CPU nothing is recorded: the step is
called, and the paces are those of calls. Not compared: biases of keys. Their gradient is zero but for rounding, and
AdamW makes full steps of rounding.

Beside Image's two phases: `heads`, pretraining with two heads of width 32 in place of four of 16; `listops`, of 12.6 million
parameters in batches of 32; `stack`, a sweep of 15 digits models as one stack beside one of them, with the operations of
both; `ragged`, tokens of 500 to 2,000 positions in pools of like length, which are recorded for
each padded length; `windows`, the same in windows of 256 positions; `fresh`, an endless stream (bit memory), whose
examples are copied to where the recorded step looks for them. Of `ragged` and `windows` the flash kernel's steps
(HEADSTART_FLASH=1) are compared with those of the kernel that takes a mask, and timed, on a GPU in bfloat16.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.tasks.task import Task
from headstart.training.graph import RECORDERS, Recorder
from headstart.training.loop import BudgetSpec
from headstart.training.stack import Stack

STEPS, WARM, PROFILED = 20, 50, 5
PRECISIONS = ("bfloat16", "float32")
LIMIT, SHARE = 1e-5, 0.25
"""What is allowed in float32, and of the way of the weights in the precision that is asked for."""
NOISE = "key.bias"
CALLED = "called (a CPU records none)"
CASES = ("pretrain", "finetune", "heads", "listops", "stack", "ragged", "windows", "fresh")
EPOCHS = {"pretrain": 45_000, "finetune": 45_000, "heads": 45_000, "listops": 96_000}
"""Sequences of an epoch of the task itself."""
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
    """What some steps gave: `losses` (steps,), weights by name, the way that they moved, how they were taken."""

    losses: torch.Tensor
    weights: dict[str, torch.Tensor]
    moved: dict[str, torch.Tensor]
    how: str


@dataclass(frozen=True)
class Agreement:
    """How far apart 20 steps are.

    In float32, largest differences as shares of scale over losses and weights: recorded, of recorded steps and those
    that read their numbers from the device; unrecorded, of the latter and plain ones; floor, of two plain runs; moved,
    the largest way of a weight. share: in the precision of the stage, of recorded and unrecorded steps, as a share of
    the way that the weights moved.
    """

    phase: str
    how: str
    recorded: float
    unrecorded: float
    floor: float
    moved: float
    share: float

    @property
    def problem(self) -> str | None:
        """What is off, or None."""
        if not self.how.startswith(("recorded", CALLED)):
            return f"steps are not recorded ({self.how}); --record off measures plain ones"
        if not self.moved >= MOVED * LIMIT:
            return f"the weights moved by {self.moved:.1e} of scale only: too little to compare"
        for what, far in (
            ("that read their numbers from the device differ from plain ones", self.unrecorded),
            ("recorded differ from those that are not", self.recorded),
        ):
            allowed = max(LIMIT, 3 * self.floor)
            if not far <= allowed:
                return f"steps {what} by {far:.1e} of scale in float32; {allowed:.0e} is allowed"
        if not self.share <= SHARE:
            return f"recorded steps end {self.share:.2f} of the weights' way apart; {SHARE} is allowed"
        return None

    def __str__(self) -> str:
        return (
            f"{self.phase}: {STEPS} steps {self.how}, in float32: {self.recorded:.1e} of scale from unrecorded ones, these "
            f"{self.unrecorded:.1e} from plain ones, plain twice {self.floor:.1e}, weights moved {self.moved:.1e}; in the "
            f"stage's precision {self.share:.2g} of the weights' way from unrecorded ones"
        )


def started(spec: TrainStage, task: Task, device: str, record: Recorder | None, steps: int) -> TrainedRun:
    """A stage from fresh weights at its peak rate at once, with `steps` steps before anything is evaluated."""
    optim = spec.optim.model_copy(update={"schedule": "constant", "warmup_share": 0.0, "warmup_steps": 0})
    budget = BudgetSpec(steps=steps + 1, evaluate_every=10**6)
    changed = {"parent": None, "start": (), "optim": optim, "budget": budget}
    run = TrainedRun(spec.model_copy(update=changed), task, None, device)
    run.setting = replace(run.setting, record=record)
    return run


def taken(spec: TrainStage, task: Task, device: str, record: Recorder | None) -> Taken:
    """Take 20 steps."""
    run = started(spec, task, device, record, STEPS)
    progress, losses = run.progress, [0.0]
    before = {name: tensor.detach().clone() for name, tensor in progress.flat.tensors.items()}
    for _ in itertools.islice(run.steps(), STEPS):
        losses.append(progress.metrics.loss)
    after = {name: tensor.detach().clone() for name, tensor in progress.flat.tensors.items()}
    return Taken(torch.tensor(losses).diff(), after, {name: after[name] - before[name] for name in after}, progress.how)


def largest(tensors: Mapping[str, torch.Tensor]) -> float:
    """Of all numbers but those of `NOISE`; NaN stays NaN."""
    return float(np.max([float(tensor.abs().max()) for name, tensor in tensors.items() if NOISE not in name]))


def norm(tensors: Mapping[str, torch.Tensor]) -> float:
    """Euclidean, of all numbers but those of `NOISE`."""
    parts = [float(tensor.double().square().sum()) for name, tensor in tensors.items() if NOISE not in name]
    return float(np.sqrt(np.sum(parts)))


def between(first: Taken, second: Taken) -> dict[str, torch.Tensor]:
    """Weights of one less those of the other."""
    return {name: first.weights[name] - second.weights[name] for name in first.weights}


def apart(first: Taken, second: Taken) -> float:
    """Largest difference of losses and of weights, each as a share of the largest of them; NaN stays NaN."""
    loss = float((first.losses - second.losses).abs().max() / first.losses.abs().max())
    return float(np.max([loss, largest(between(first, second)) / largest(first.weights)]))


def agreement(phase: str, spec: TrainStage, task: Task, device: str) -> Agreement:
    """Compare the ways to take 20 steps of a stage."""
    exact = spec.model_copy(update={"optim": spec.optim.model_copy(update={"precision": "float32"})})
    plain, again, read, played = (taken(exact, task, device, way) for way in (None, None, by_calling, recorder(device)))
    unrecorded, recorded = (taken(spec, task, device, way) for way in (by_calling, recorder(device)))
    return Agreement(
        phase,
        recorded.how if device in RECORDERS else recorded.how.replace("recorded", CALLED),
        apart(read, played),
        apart(plain, read),
        apart(plain, again),
        largest(plain.moved) / largest(plain.weights),
        norm(between(unrecorded, recorded)) / norm(unrecorded.moved),
    )


def ticks_of(
    specs: Sequence[TrainStage], task: Task, device: str, record: Recorder | None, steps: int
) -> tuple[TrainedRun, Iterator[Any]]:
    """The first of some stages, and the steps of it alone, or of all as a stack, which begins with a tick of its own."""
    runs, stack = [started(spec, task, device, record, steps) for spec in specs], Stack()
    if len(runs) == 1:
        return runs[0], runs[0].steps()
    for run in runs:
        run.join(stack)
    return runs[0], zip(*[run.timed_steps() for run in runs], strict=True)


def pace(specs: Sequence[TrainStage], task: Task, device: str, record: Recorder | None, steps: int) -> float:
    """Seconds of a step of one stage, or of a stack, over `steps` steps after warm ones."""
    warm = min(WARM, steps)
    _, ticks = ticks_of(specs, task, device, record, warm + steps)
    for _ in itertools.islice(ticks, warm):
        pass
    wait_for(device)
    start = time.perf_counter()
    for _ in itertools.islice(ticks, steps):
        pass
    wait_for(device)
    return (time.perf_counter() - start) / steps


def kernels(
    specs: Sequence[TrainStage], task: Task, device: str, record: Recorder | None
) -> list[tuple[str, float, float]]:
    """(kernel, or operation on a CPU; how often in a step; milliseconds of a step), the longest first."""
    _, ticks = ticks_of(specs, task, device, record, 10 + PROFILED)
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


def phases(study: Study) -> dict[str, TrainStage]:
    """One stage of each phase of a study."""
    stages = reversed(list(study.plan.stages.values()))
    return {planned.name: planned.spec for planned in stages if isinstance(planned.spec, TrainStage)}


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


def others(units: int, longest: int, precision: str) -> Iterator[tuple[str, TrainStage, Task]]:
    """(name, stage, task) of ragged sequences, of windows, and of an endless stream."""
    model = {"width": 64, "blocks": 3, "feed_forward": {"width": 128}, "position": {"kind": "rotary"}}
    optim = {"batch_size": 16, "length_pool": 50, "precision": precision}
    for name, mixer in (
        ("ragged", {"kind": "attention", "heads": 4}),
        ("windows", {"kind": "local_attention", "heads": 4, "window": min(256, longest // 4)}),
    ):
        document = {"task": {"kind": "listops"}, "model": {**model, "mixer": mixer}, "optim": optim}
        yield name, read(TrainStage, {**document, **CLASSIFY}), ragged_tokens(units, longest)
    stream = {"kind": "bit_memory", "train": units, "val": 100, "test": 100}
    document = {"task": stream, "model": model, "optim": {"batch_size": 16, "precision": precision}}
    spec = read(TrainStage, {**document, **CLASSIFY})
    yield "fresh", spec, open_task(spec.task, Path())


def larger(
    pretrain: TrainStage, options: argparse.Namespace, words: list[str]
) -> Iterator[tuple[str, TrainStage, Task]]:
    """(name, stage, task): Image's pretraining with heads of width 32, and ListOps in batches of 32."""
    mixer = pretrain.model.mixer.model_copy(update={"heads": 2})
    model = pretrain.model.model_copy(update={"mixer": mixer})
    yield "heads", pretrain.model_copy(update={"model": model}), made_up(options.units, options.length)
    words = ["columns=listops", "seed=[0]", *words, "finetune.optim.batch_size=32"]
    study = Study("coser-1-described", words, scale="paper", absent="open")
    yield "listops", phases(study)["finetune"], ragged_tokens(options.units, options.longest)


def compare_stack(device: str, steps: int, *words: str) -> int:
    """A sweep of digits as one recorded stack, and one of its models: paces, operations and agreement, printed. 1: apart."""
    plan = Study("digits", ["arms=scratch", *words]).plan
    specs = [planned.spec for planned in plan.stages.values() if isinstance(planned.spec, TrainStage)]
    task = open_task(specs[0].task, Path())
    first, ticks = ticks_of(specs, task, device, recorder(device), STEPS)
    for _ in itertools.islice(ticks, STEPS + 1):
        pass
    plain = taken(specs[0], task, device, None)
    weights = {name: tensor.detach() for name, tensor in first.progress.flat.tensors.items()}
    far = largest({name: weights[name] - plain.weights[name] for name in weights}) / largest(plain.weights)
    print(f"stack: {len(specs)} models, {STEPS} steps, {first.progress.how}: {far:.1e} of scale from plain steps alone")
    for name, some in (("one model", specs[:1]), (f"a stack of {len(specs)}", specs)):
        seconds = pace(some, task, device, recorder(device), steps)
        print(f"{name}: {1e3 * seconds:.3f} ms a step, {1e3 * seconds / len(some):.3f} ms a model")
        print("\n".join(kernel_lines(kernels(some, task, device, recorder(device)))))
    return int(not far <= LIMIT)


def flashing(name: str, spec: TrainStage, task: Task, device: str, steps: int) -> str:
    """The flash kernel beside the one that takes a mask: agreement of 20 plain steps, and paces of recorded ones."""
    outcomes = []
    for word in ("0", "1"):
        os.environ["HEADSTART_FLASH"] = word
        outcomes.append((taken(spec, task, device, None), pace([spec], task, device, recorder(device), steps)))
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
    parser.add_argument("--precision", default="bfloat16", choices=PRECISIONS)
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
    cases += larger(phases(study)["pretrain"], options, words)
    for phase, spec, task in (*cases, *others(options.units, options.longest, options.precision)):
        if phase not in options.only.split(","):
            continue
        comparison = agreement(phase, spec, task, device)
        print(comparison)
        if comparison.problem is not None:
            print(f"{phase}: {comparison.problem}")
            wrong = 1
            continue
        plain, played = (pace([spec], task, device, way, options.steps) for way in (None, recorder(device)))
        units = EPOCHS.get(phase, 0)
        epoch = f"; an epoch of {units:,} sequences {units / spec.optim.batch_size * played:.2f} s"
        print(
            f"{phase}: batch {spec.optim.batch_size}, plain {1e3 * plain:.3f} ms a step, {comparison.how} "
            f"{1e3 * played:.3f} ms{epoch if units else ''}"
        )
        if phase in ("ragged", "windows") and device == "cuda" and options.precision == "bfloat16":
            print(flashing(phase, spec, task, device, options.steps))
        print("\n".join(kernel_lines(kernels([spec], task, device, recorder(device)))))
    if "stack" in options.only.split(","):
        wrong |= compare_stack(device, options.steps)
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
