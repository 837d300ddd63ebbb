"""What a stage costs, how that grows, and what many stages take besides their training.

    python benchmarks/many_stages.py [--growth] [--stages 10000] [--on local|ray] [--workers 2] [--json FILE]

`--growth`: processor seconds of a training step of an attention model (width 64, 2 blocks, 256 positions, batch 16) as
one size at a time doubles, and of planning as the number of stages does. `--stages N`: so many stages that train for no
step (a budget of 0 steps: made, scored once and stored) on this machine or on a Ray cluster of it, and what each takes:
wall seconds, processor seconds of the driver and of everything else, bytes in the store. What is left of a real stage is
its training, so that this is what a driver can serve: docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import headstart
from headstart.bench.machine import setting
from headstart.spec import read
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task

SEEDS = 100
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray finds a cluster under 127.0.0.1 only so."""
SIZES: dict[str, tuple[int, ...]] = {
    "length": (128, 256, 512, 1024),
    "width": (32, 64, 128, 256),
    "batch": (8, 16, 32, 64),
    "blocks": (1, 2, 4, 8),
}
COUNTS = (100, 1_000, 10_000)


def no_op_study(stages: int) -> dict[str, Any]:
    """A study of so many stages (a multiple of 100) that train for no step."""
    task = {"kind": "mqar", "vocabulary": 64, "length": 16, "pairs": 2, "train": 64, "val": 16, "test": 16}
    return {
        "name": "many",
        "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 0}}},
        "columns": {"mqar": {"task": task, "model": {"width": 8, "blocks": 1}}},
        "arms": {"untrained": {}},
        "axes": {
            "finetune.optim.lr": [1e-4 * (1 + i / 1000) for i in range(stages // SEEDS)],
            "seed": list(range(SEEDS)),
        },
        "report": {"baselines": False},
    }


def step_seconds(length: int = 256, width: int = 64, batch: int = 16, blocks: int = 2) -> float:
    """Processor seconds of one training step: the least of three rounds of four steps after a warm one."""
    document = {
        "task": {"kind": "waves", "length": length, "train": 128, "val": 16, "test": 16},
        "objective": {"kind": "classify"},
        "budget": {"steps": 1000, "evaluate_every": 1000},
        "optim": {"batch_size": batch},
        "model": {"width": width, "blocks": blocks, "position": {"kind": "rotary"}, "mixer": {"kind": "attention"}},
    }
    spec = read(TrainStage, document)
    ticks = TrainedRun(spec, open_task(spec.task, Path())).steps()
    next(ticks)
    rounds = []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(4):
            next(ticks)
        rounds.append((time.process_time() - begun) / 4)
    return min(rounds)


def growth() -> dict[str, Any]:
    """Seconds of a step by each size, and of planning by the number of stages."""
    rows: dict[str, Any] = {
        name: {str(size): step_seconds(**{name: size}) for size in sizes} for name, sizes in SIZES.items()
    }
    plans = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in COUNTS:
            begun = time.process_time()
            headstart.Study(no_op_study(count), store=Path(folder))
            plans[str(count)] = time.process_time() - begun
    return {"step": rows, "plan": plans}


def perform(stages: int, on: str, workers: int) -> dict[str, Any]:
    """Seconds and bytes of so many stages."""
    with tempfile.TemporaryDirectory() as folder:
        study = headstart.Study(no_op_study(stages), store=Path(folder) / "runs")
        before, wall, own = _processor(resource.RUSAGE_CHILDREN), time.perf_counter(), time.process_time()
        failed = [event for event in study.perform(workers=workers, on="" if on == "local" else on) if _failed(event)]
        wall, own = time.perf_counter() - wall, time.process_time() - own
        done = sum(study.store.status(name) == "complete" for name in study.plan.stages)
        assert done == stages, f"{done} of {stages} stages are complete; first failure: {failed[:1]}"
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        again = time.process_time()
        assert not [event for event in study.perform(workers=workers) if _failed(event)]
        return {
            "stages": stages,
            "on": on,
            "workers": workers,
            "wall": wall,
            "driver": own,
            "others": _processor(resource.RUSAGE_CHILDREN) - before,
            "bytes": size,
            "nothing_left": time.process_time() - again,
        }


def _failed(event: Any) -> bool:
    return type(event).__name__ == "Failed"


def _processor(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def on_ray(stages: int, workers: int) -> dict[str, Any]:
    """The same on a Ray cluster of one node on loopback, started here and ended here."""
    from importlib import import_module

    os.environ.update(LOOPBACK)
    cluster = import_module("ray.cluster_utils").Cluster()
    cluster.add_node(num_cpus=workers, node_ip_address="127.0.0.1", object_store_memory=200_000_000)
    try:
        command = [sys.executable, __file__, "--stages", str(stages), "--on", "inside", "--workers", str(workers)]
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        # What the nodes' processes take is not counted here: they are no children of the driver.
        return {**json.loads(done.stdout.splitlines()[-1]), "on": "ray", "others": None}
    finally:
        cluster.shutdown()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--stages", type=int, default=0)
    parser.add_argument("--on", choices=["local", "ray", "inside"], default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    torch.set_num_threads(1)
    if words.on == "inside":
        print(json.dumps(perform(words.stages, "ray", words.workers)))
        return
    document: dict[str, Any] = {"measured": setting("cpu", 1)}
    if words.json and words.json.exists():
        document |= json.loads(words.json.read_text())
    if words.growth:
        document["growth"] = growth()
    if words.stages:
        run = (
            on_ray(words.stages, words.workers) if words.on == "ray" else perform(words.stages, "local", words.workers)
        )
        document.setdefault("runs", []).append(run)
    print(json.dumps(document, indent=1))
    if words.json:
        words.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
