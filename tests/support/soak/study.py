"""A study of seconds, performed in forked processes, and what it writes."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from headstart.runner.events import Failed
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study

STUDY: dict[str, Any] = {
    "name": "soak",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 10, "evaluate_every": 5}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 10, "evaluate_every": 5}},
    },
    "columns": {
        "listops": {
            "task": {"kind": "listops", "min_length": 10, "max_length": 20, "train": 60, "val": 20, "test": 20},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}, "dropout": 0.1},
        }
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
        "frozen": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"], "trainable": "head"}},
        "kernels": {"model": {"kind": "ngrams"}, "finetune": {}},
    },
    "axes": {"pretrain.optim.lr": [3e-3], "finetune.optim.lr": [3e-3], "seed": [0]},
    "report": {"choose": ["finetune.optim.lr"], "against": "scratch", "baselines": False},
}


@cache
def stages() -> Mapping[str, Any]:
    """Identity -> the study's stages, parents first."""
    return make_plan(read_study(STUDY, []), Path("data")).every_stage


def perform_study(root: Path, workers: int = 0) -> int:
    """Perform all stages; the number that failed."""
    runtime = Runtime(device="cpu", workers=workers, save_every=0.0)
    return sum(isinstance(event, Failed) for event in perform(stages().values(), Store(root), runtime))


def forked(root: Path, log: Path, change: Callable[[], None] | None = None, workers: int = 0) -> int:
    """The process id of a child of this process that performs the study after `change`; it ends with 1 where one failed."""
    child = os.fork()
    if child:
        os.setpgid(child, child)  # here too: it may be killed before it has begun
        return child
    code = 70
    try:
        os.setpgid(0, 0)
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            signal.signal(number, handler)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        if change is not None:
            change()
        code = 1 if perform_study(root, workers) else 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a child (negative: the signal that ended it), or None where it runs on after so long."""
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


def results(root: Path) -> dict[str, tuple[int, int]]:
    """Identity -> which file holds the result, and since when: a stage that is done twice has another one."""
    out = {}
    for path in root.glob("*/result.json"):
        stat = path.stat()
        out[path.parent.name] = stat.st_ino, stat.st_mtime_ns
    return out


if __name__ == "__main__":  # a process of its own, with workers: python -m support.soak.study ROOT WORKERS
    sys.exit(1 if perform_study(Path(sys.argv[1]), int(sys.argv[2])) else 0)
