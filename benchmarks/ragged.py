"""Ragged tasks: how much of a batch is padding, how fast a prepared set opens, how much memory training takes.

Usage: python benchmarks/ragged.py [--data FOLDER] [--tasks listops,text]. Each task has a process of its own.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from harness import in_process, parser_of

from headstart.bench.machine import peak_memory

BATCH, POOL = 32, 50


def padding(lengths: np.ndarray, pool: int) -> float:
    """Share of positions of one epoch's batches that hold no data."""
    from headstart.sequence import epoch_batches

    batches = epoch_batches(lengths, BATCH, 0, 0, pool)
    full = sum(len(b) * int(lengths[b].max()) for b in batches)
    return 1 - float(lengths.sum()) / full


def measure(kind: str, data: Path) -> dict[str, float]:
    """Figures of one task, in this process."""
    from headstart.spec import read
    from headstart.stage import TrainStage
    from headstart.stage.trained import TrainedRun
    from headstart.tasks import open_task

    imports = peak_memory("cpu")
    document = {
        "task": {"kind": kind},
        "objective": {"kind": "masked"},
        "budget": {"steps": 30},
        "model": {"width": 16, "blocks": 1, "mixer": {"kind": "linear_attention", "heads": 2}},
        "optim": {"batch_size": BATCH, "length_pool": POOL},
    }
    spec = read(TrainStage, document)
    began = time.perf_counter()
    open_task(spec.task, data)
    first = time.perf_counter() - began
    began = time.perf_counter()
    task = open_task(spec.task, data)
    again = time.perf_counter() - began
    run = TrainedRun(spec, task, None)
    for _ in run.steps():
        pass
    lengths = task.train.unit_lengths
    return {
        "train": task.train.units,
        "first_open_s": first,
        "open_s": again,
        "padding_random": padding(lengths, 0),
        "padding_buckets": padding(lengths, POOL),
        "memory_gb": (peak_memory("cpu") - imports) / 2**30,
    }


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", default="data")
    words.add_argument("--tasks", default="listops,text")
    words.add_argument("--one", help=argparse.SUPPRESS)
    options = words.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, Path(options.data))))
        return
    print("| task | train | first opening | opening | padding, random | padding, buckets | memory beyond imports |")
    print("|---|---|---|---|---|---|---|")
    for kind in options.tasks.split(","):
        f = in_process(__file__, "--data", options.data, "--one", kind)
        opened = f"{f['first_open_s']:.1f} s | {f['open_s']:.2f} s"
        padded = f"{f['padding_random']:.1%} | {f['padding_buckets']:.1%}"
        print(f"| {kind} | {f['train']:,} | {opened} | {padded} | {f['memory_gb']:.2f} GB |")


if __name__ == "__main__":
    main()
