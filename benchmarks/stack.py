"""A sweep as one stack, beside its stages one after another and in two processes.

    python benchmarks/stack.py [--rounds 9] [--stages 15] [--device cuda --models digits,image]

Claim that is tested: stages that differ in numbers alone train faster as a stack than in any other way. Models: that of
the study `digits`, one of 256 positions (width 64, 3 blocks, 4 heads, feed-forward 128), and `image`. Each way lives in
processes of its own, one thread each; they take turns, so that other work on the machine falls on all of them. What a
round measures is one step of all stages, made-up pixels, nothing evaluated or saved: that is the same code in every way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from train_speed import EXAMPLES, OBJECTIVE, Example, made_up

from headstart.atomic import publish
from headstart.bench.machine import sentence, setting, wait_for
from headstart.bench.process import Measurement
from headstart.models.model import build_model
from headstart.runner.machine import keep_freed_memory
from headstart.sequence import Signature
from headstart.spec import read
from headstart.training.batches import Batches
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import OptimSpec, flat_parameters
from headstart.training.stack import Stack

MODELS: dict[str, Example] = {
    "digits": EXAMPLES["digits"],
    "256": replace(EXAMPLES["image"], signature=Signature("floats", 1, 256, 256, "class", classes=10)),
    "image": EXAMPLES["image"],
}
STEPS = {"digits": 2, "256": 1, "image": 1}
"""Steps of each stage in one turn: half a second or two, so that turns fall on like moments."""
LIMIT = 3600.0


def stages(name: str, first: int, last: int, device: str) -> list[tuple[TrainConfig, Progress]]:
    """The stages of a sweep from one number to another: five rates, each with seeds of its own."""
    example, out = MODELS[name], []
    examples = made_up(example)
    feed = Batches(examples, np.arange(examples.units), torch.device(device), torch.float32)
    budget = BudgetSpec(steps=10**6, evaluate_every=10**6)
    for number in range(first, last):
        model = build_model(example.spec, example.signature, OBJECTIVE.output(example.signature), number // 5)
        model.to(device)
        optim = read(OptimSpec, {"lr": 1e-4 * (1 + number % 5), "batch_size": example.batch, "schedule": "constant"})
        flat = flat_parameters(model, [parameter for parameter, _ in model.named_parameters()], optim)
        config = TrainConfig(OBJECTIVE, example.signature, optim, budget, number // 5, feed, feed)
        out.append((config, Progress(model, flat)))
    return out


def work(job: dict[str, Any]) -> Iterator[Any]:
    """Answers: [seconds, processor seconds] of some steps of each stage. size: models of a stack; 1: one by one."""
    keep_freed_memory()
    torch.set_num_threads(1)
    size, steps, device = job["size"], STEPS[job["model"]], job["device"]
    live = stages(job["model"], job["first"], job["last"], device)
    groups: list[list[Iterator[Any]]] = []
    for first in range(0, len(live), size):
        part = live[first : first + size]
        stack = Stack()
        groups.append([stack.ticks(*stage) if size > 1 else train(*stage) for stage in part])
        for ticks in groups[-1] if size > 1 else ():
            next(ticks)  # joins
    while True:
        clocks = time.perf_counter(), time.process_time()
        for group in groups:
            for _ in range(steps):
                for ticks in group:
                    next(ticks)
        wait_for(device)
        yield [time.perf_counter() - clocks[0], time.process_time() - clocks[1]]


def ways(count: int) -> dict[str, list[tuple[int, int, int]]]:
    """The ways: for each of its processes the first and the last stage, and the size of its stacks."""
    half = (count + 1) // 2
    return {
        "one after another": [(0, count, 1)],
        f"as a stack of {count}": [(0, count, count)],
        f"as stacks of {max(2, count // 3)}": [(0, count, max(2, count // 3))],
        "in two processes": [(0, half, 1), (half, count, 1)],
        "in two processes, a stack in each": [(0, half, half), (half, count, half)],
    }


def measured(name: str, count: int, rounds: int, device: str) -> dict[str, list[tuple[float, float]]]:
    """(seconds, processor seconds of all processes) of a step of all stages, by way, for each round."""
    out: dict[str, list[tuple[float, float]]] = {way: [] for way in ways(count)}
    processes = {
        way: [
            Measurement("stack:work", {"model": name, **job}, LIMIT)
            for job in ({"first": p[0], "last": p[1], "size": p[2], "device": device} for p in parts)
        ]
        for way, parts in ways(count).items()
    }
    with ThreadPoolExecutor(2) as pool:
        for number in range(rounds + 2):
            for way, members in processes.items():
                began = time.perf_counter()
                answers = list(pool.map(Measurement.ask, members))
                seconds = time.perf_counter() - began
                if number > 1:  # the first turns are slower
                    out[way].append((seconds / STEPS[name], sum(cpu for _, cpu in answers) / STEPS[name]))
    for members in processes.values():
        for process in members:
            process.__exit__(None, None, None)
    return out


def table(name: str, results: dict[str, list[tuple[float, float]]]) -> list[str]:
    """The rows of a model's table."""
    base = [seconds for seconds, _ in results["one after another"]]
    lines = [
        f"## {name}",
        "",
        "| way | one step of all stages | quartiles | processor time | one after another / this, per round |",
        "| --- | --- | --- | --- | --- |",
    ]
    for way, rounds in results.items():
        seconds, cpu = ([value[i] for value in rounds] for i in range(2))
        low, _, high = quantiles(seconds, n=4)
        ratio = median(first / second for first, second in zip(base, seconds, strict=True))
        lines.append(
            f"| {way} | {median(seconds):.3g} s | {low:.3g} to {high:.3g} | {median(cpu):.3g} s | {ratio:.2f} |"
        )
    return lines


def main() -> None:
    """Measure both models and print, or write, the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--stages", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="digits,256")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    where = setting(options.device, 1)
    lines = [
        "# A sweep as one stack",
        "",
        f"Measured {sentence(where)}. {options.stages} stages of five learning rates; medians of {options.rounds} "
        "rounds, in each of which every way takes its turn.",
        "",
    ]
    for name in options.models.split(","):
        lines += [*table(name, measured(name, options.stages, options.rounds, options.device)), ""]
    lines += ["`python benchmarks/stack.py` makes the tables."]
    text = "\n".join(lines) + "\n"
    if options.out is None:
        print(text)
    else:
        publish(options.out, text.encode())


if __name__ == "__main__":
    main()
