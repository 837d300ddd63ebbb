"""Small trainings that several processes share, and the processes: `python ranks.py FILE` is one rank of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from headstart.models.norms import Tensors
from headstart.spec import merge, read
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.training.distributed import ALONE, Ranks, joined, meeting_place
from support.made_tasks import MadeSpec

ATTENTION = {"kind": "attention", "heads": 2}
BASE: dict[str, Any] = {
    "model": {"width": 8, "blocks": 2, "dropout": 0.1, "norm": "batch", "mixer": ATTENTION},
    "optim": {"lr": 3e-3, "batch_size": 11, "weight_decay": 0.1, "clip": 0.5, "precision": "float64"},
    "budget": {"steps": 20, "evaluate_every": 5},
    "objective": {"kind": "classify"},
}
"""Of 48 ragged sequences: batches of 11, and a last one of 4."""
MADE: dict[str, dict[str, Any]] = {
    "classify": {},
    "float32": {"optim": {"precision": "float32"}},
    "three ranks for one sequence": {"optim": {"batch_size": 47}},
    "weighted": {"objective": {"kind": "classify", "class_weights": (1.0, 5.0), "label_smoothing": 0.1}},
    "masked": {"objective": {"kind": "masked", "mask_rate": 0.3}, "task": {"gaps": True}},
    "masked tokens": {"objective": {"kind": "masked", "mask_rate": 0.3, "loss": "tokens"}, "task": {"tokens": True}},
    "causal tokens": {"objective": {"kind": "causal"}, "task": {"tokens": True}, "model": {"causal": True}},
    "regress": {"objective": {"kind": "regress"}, "task": {"shape": "numbers"}},
    "positions": {"task": {"shape": "positions"}},
    "retrieve": {"objective": {"kind": "retrieve"}, "task": {"shape": "pairs"}, "optim": {"batch_size": 5}},
    "buckets, sgd": {"optim": {"kind": "sgd", "length_pool": 2, "momentum": 0.9}},
    "muon, gates": {"optim": {"kind": "muon"}, "model": {"feed_forward": {"kind": "glu"}, "norm": "rms"}},
    "frozen below": {"trainable": "head", "model": {"dropout": 0.0}},
    "frozen norms": {"trainable": "all-norm"},
    "recurrent": {"model": {"mixer": {"kind": "lstm"}, "norm": "layer"}},
}
"""What is trained on sequences of `made_tasks.MadeSpec`, beside `BASE`."""


def case(name: str) -> TrainStage:
    """A case's stage."""
    table = merge(BASE, MADE[name])
    return read(TrainStage, {**table, "task": MadeSpec(**table.pop("task", {}))})


def trained(spec: TrainStage, ranks: Ranks = ALONE) -> Tensors:
    """Weights, running statistics and scores on the way, after 20 steps."""
    run = TrainedRun(spec, spec.task.load(Path("data")))
    if ranks.count > 1:
        run.share(ranks)
    ticks = run.steps() if ranks.count == 1 else ranks.in_step(run.steps())
    records = [tick.record for tick in ticks if tick.record is not None]
    scores = {
        f"record/{i}/{split}/{name}": torch.tensor(value, dtype=torch.float64)
        for i, record in enumerate(records)
        for split in ("train", "val")
        for name, value in record[split].items()
    }
    return {**{k: v.clone() for k, v in run.model.state_dict().items()}, **scores}


@contextmanager
def processes(words: Sequence[str], count: int, **environment: str) -> Iterator[list[subprocess.Popen[str]]]:
    """`count` ranks of `python WORDS`, in a session each; `ended` waits for them."""
    store, places = meeting_place(count)
    out = []
    for variables in places:
        process = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        out.append(process)
    yield out
    del store  # at which they meet, until here


def ended(ranks: Sequence[subprocess.Popen[str]], seconds: float) -> list[tuple[int, str]]:
    """(exit code, output) of each, when all have ended; whatever happens, nothing is left of them."""
    end = time.monotonic() + seconds
    try:
        return [(p.wait(max(0.1, end - time.monotonic())), p.stdout.read() if p.stdout else "") for p in ranks]
    finally:
        for process in ranks:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()


def main(file: str, *names: str) -> None:
    """Train these cases on these ranks; rank 0 writes what comes of it."""
    torch.set_num_threads(1)
    world, out = joined(), dict[str, torch.Tensor]()
    for name in names:
        with world.group("cpu") as ranks:
            out |= {f"{name}|{key}": value for key, value in trained(case(name), ranks).items()}
    if world.rank == 0:
        save_file(out, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
