"""Frozen backbones: what a step, an epoch and a table cost, beside the plain way. One thread.

Usage: python benchmarks/backbones.py [--write] [SECTION ...]. Prints each section, or writes it into
docs/benchmarks/backbones.md in place of the one of the same heading; the others stay.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from harness import PAGES, with_section, write

from headstart.sequence import Examples, Signature
from headstart.spec import merge, read
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.store import Store
from headstart.study.language.files import built_in_studies
from headstart.tasks import Task
from headstart.tasks.text import TextSpec
from headstart.training import features
from headstart.words import duration

PAGE = PAGES / "backbones.md"
TITLE = "# Backbones: what they cost\n"
POSITIONS, FEATURES = 64, 16
SIZES = {
    "128 x 4": {"width": 128, "blocks": 4, "mixer": {"kind": "attention", "heads": 4}},
    "768 x 12": {"width": 768, "blocks": 12, "mixer": {"kind": "attention", "heads": 12}},
}
COMMON = {"causal": True, "pool": "last", "position": {"kind": "learned"}, "feed_forward": {"activation": "gelu_tanh"}}
FROZEN = "encoder+position+norm+head"


def made_task(train: int, others: int = 16) -> Task:
    """Noise of 64 positions and 16 features, in ten classes."""
    generator = np.random.default_rng(0)

    def split(size: int) -> Examples:
        values = generator.standard_normal((size, POSITIONS, FEATURES), dtype=np.float32)
        return Examples.from_arrays(values, generator.integers(0, 10, size))

    signature = Signature("floats", FEATURES, POSITIONS, POSITIONS, "class", classes=10)
    return Task(signature, split(train), split(others), split(others))


def begun(task: Task, size: str, trainable: str, **changes: Any) -> TrainedRun:
    table = {
        "task": TextSpec(),  # never opened: the task is made here
        "objective": {"kind": "classify"},
        "model": {**SIZES[size], **COMMON},
        "trainable": trainable,
    }
    return TrainedRun(read(TrainStage, merge(table, changes)), task)


def ticks(live: TrainedRun) -> Iterator[float]:
    """Seconds of each tick."""
    steps = live.steps()
    while True:
        began = time.perf_counter()
        if next(steps, None) is None:
            return
        yield time.perf_counter() - began


def head_alone(size: str, batch: int, train: int, epochs: int, plain: int) -> str:
    """A row: seconds of an epoch of the head alone, plain (from some steps) and on features."""
    task = made_task(train)
    changes = {"optim": {"batch_size": batch}, "budget": {"epochs": epochs, "evaluate_every": epochs}}
    limit, features.FEATURE_BYTES = features.FEATURE_BYTES, 0
    try:
        live = ticks(begun(task, size, "head", **changes))
        plainly = median(next(live) for _ in range(plain + 2)) * train / batch
    finally:
        features.FEATURE_BYTES = limit
    run = begun(task, size, "head", **changes)
    assert run.progress.features
    ahead = sum(-(-len(feed.units) // batch) for feed in run.feeds.values())
    seconds = list(ticks(run))
    once, later = sum(seconds[:ahead]), sum(seconds[ahead:]) / epochs
    return f"| {size} | {batch} | {train} | {plainly:.1f} s | {once:.1f} s | {later * 1e3:.1f} ms | {plainly / later:,.0f} |"


def epochs() -> str:
    """Training of the head alone, on features that are computed once."""
    rows = [head_alone("128 x 4", 16, 512, 50, 20), head_alone("768 x 12", 8, 64, 50, 4)]
    return (
        "Only the head trains, of a causal transformer that reads 64 positions of 16 numbers and pools the last one. A\n"
        "plain epoch is the median of some steps (20, and 4 of the large model) times the steps of an epoch; an epoch on\n"
        "features is the mean of 50, with one evaluation among them. `once` is the time of the features of all examples,\n"
        "32 of val and test among them, which is spent before the first step, a single time.\n\n"
        "| width x blocks | batch | examples | plain epoch | once | epoch on features | times faster |\n"
        "|---|---|---|---|---|---|---|\n" + "\n".join(rows)
    )


def step_row(size: str, batch: int, count: int) -> str:
    """A row: seconds of a step with the blocks frozen, and of one that trains all, taken in turns."""
    task = made_task(4 * batch)
    changes = {"optim": {"batch_size": batch}, "budget": {"epochs": 10_000, "evaluate_every": 10_000}}
    live = {name: ticks(begun(task, size, name, **changes)) for name in (FROZEN, "all")}
    pairs = [[next(run) for run in live.values()] for _ in range(count + 2)][2:]
    frozen, full = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(a / b for a, b in pairs)
    return f"| {size} | {batch} | {frozen * 1e3:,.0f} ms | {full * 1e3:,.0f} ms | {ratio:.2f} |"


def steps() -> str:
    """Steps with frozen blocks beside steps that train all."""
    rows = [step_row("128 x 4", 16, 40), step_row("768 x 12", 4, 4)]
    return (
        f"Steps at 64 positions that train `{FROZEN}`, beside steps that train all; both are taken in turns, medians\n"
        "of 40 (4 of the large model).\n\n"
        "| width x blocks | batch | frozen | full | frozen / full |\n|---|---|---|---|---|\n" + "\n".join(rows)
    )


def store() -> str:
    """The space of a table of frozen stages."""
    count, seeds = 40, 2
    task = made_task(32)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for number in range(count):
            live = begun(task, "128 x 4", "head", seed=number % seeds, optim={"batch_size": 16}, budget={"epochs": 1})
            list(live.steps())
            done = live.finish()
            with store.claim(f"{number:016x}", {"name": "frozen", "spec": {}, "parent": None}) as claimed:
                assert claimed is not None
                claimed.begin()
                claimed.finish({"status": done.status}, done.best, done.last, {}, frozen=done.frozen)
        files = {path.stat().st_ino: path.stat().st_size for path in Path(folder).rglob("*.safetensors")}
        head = sum(value.nbytes for name, value in done.best.items() if name not in done.frozen)
        backbone = sum(value.nbytes for value in done.best.values()) - head
        space, plain = sum(files.values()), 2 * count * (backbone + head)
    return (
        f"{count} stages that train the head alone of fresh frozen backbones (128 x 4), {seeds} seeds.\n\n"
        "| distinct backbones | heads, best and last | best and last of all stages | in the store |\n|---|---|---|---|\n"
        f"| {seeds * backbone / 1e6:.1f} MB | {2 * count * head / 1e6:.2f} MB | {plain / 1e6:.0f} MB | "
        f"{space / 1e6:.1f} MB |"
    )


def tiny() -> str:
    """Seconds of all studies of Lu et al. at scale tiny, one command after the other, in one store."""
    names, workers = sorted(name for name in built_in_studies() if name.startswith("lu-")), 2
    with tempfile.TemporaryDirectory() as folder:
        store, began = Store(folder), time.perf_counter()
        for name in names:
            words = (name, "--scale", "tiny", "--workers", str(workers), "--store", folder)
            subprocess.run((sys.executable, "-m", "headstart", "run", *words), check=True, stdout=subprocess.DEVNULL)
        seconds, stages = time.perf_counter() - began, len(store.listing())
    return (
        f"All {len(names)} studies of Lu et al. at scale tiny, one `headstart run --workers {workers}` after the other in one\n"
        "store, so that stages which tables share are trained once.\n\n"
        "| studies | stages in the store | clock, start of each command included | goal |\n|---|---|---|---|\n"
        f"| {len(names)} | {stages} | {duration(seconds)} | 30 min |"
    )


SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "epochs": ("The head alone", epochs),
    "steps": ("Steps with frozen blocks", steps),
    "store": ("A table of frozen stages in the store", store),
    "tiny": ("All tiny studies", tiny),
}


def main() -> None:
    """Measure the sections that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--machine", default=platform.processor() or platform.machine())
    settings = parser.parse_args()
    torch.set_num_threads(1)
    for name in settings.sections or SECTIONS:
        heading, measure = SECTIONS[name]
        text = f"{measure()}\n\n{settings.machine}, torch {torch.__version__}, {datetime.now(UTC).date()}; `python benchmarks/backbones.py {name}`."
        print(f"## {heading}\n\n{text}\n")
        if settings.write:
            page = PAGE.read_text("utf-8") if PAGE.exists() else TITLE
            write(PAGE, with_section(page, heading, text))


if __name__ == "__main__":
    main()
