"""Does `headstart fit --time T` end within T? 500 made-up rows of length 100, several T, each in a process of its own.

    python benchmarks/fit_time.py [--times 30 60 120] [--threads-of-others N]

Writes docs/benchmarks/fit-time.md: seconds from the start of the process to its end, steps that were planned and stages
that were left, for T on this machine. `--threads-of-others` keeps so many cores busy meanwhile, as other work would.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import numpy as np

from headstart.runner.machine import machine, version

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "fit-time.md"


def write_rows(path: Path) -> None:
    """Three classes of noisy waves whose rates differ."""
    rng = np.random.default_rng(0)
    lines = ["id,label," + ",".join(f"t{i}" for i in range(100))]
    for i in range(500):
        wave = np.sin(2 * np.pi * np.arange(100) * (3 + 0.7 * (i % 3)) / 100 + rng.uniform(0, 6.28))
        values = wave * rng.uniform(0.5, 1.5) + rng.normal(0, 0.8, 100)
        lines.append(f"s{i},{('rest', 'walk', 'run')[i % 3]}," + ",".join(f"{x:.3f}" for x in values))
    path.write_text("\n".join(lines) + "\n")


def busy() -> None:
    """Other work."""
    while True:
        sum(range(10_000))


@contextmanager
def others(count: int) -> Iterator[None]:
    """So many other processes that want a core."""
    running = [multiprocessing.get_context("spawn").Process(target=busy, daemon=True) for _ in range(count)]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()


def measure(seconds: int) -> list[str]:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "train.csv")
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "headstart", "fit", "train.csv", "--target", "label", "--time", f"{seconds}s"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        wall = time.perf_counter() - begun
    output = done.stdout
    steps = [match[1] for match in re.finditer(r"training: ([\d,]+) steps", output)][::-1]
    left = re.search(r"before (\d+) stages? ", output)
    gap = re.search(r"(\S+ \[[^\]]+\]) test accuracy over training from scratch", output)
    return [
        f"{seconds} s",
        f"{wall:.1f} s",
        " + ".join(steps),
        left[1] if left else "0",
        gap[1] if gap else "",
        "yes" if "underpowered" in output else "no",
    ]


def main() -> None:
    words = argparse.ArgumentParser(description="Whether a fit ends within its time.")
    words.add_argument("--times", type=int, nargs="*", default=[30, 60, 120])
    words.add_argument("--threads-of-others", type=int, default=0)
    options = words.parse_args()
    heads = [
        "--time",
        "took",
        "self-pretraining + training steps",
        "stages left",
        "gain of self-pretraining",
        "underpowered said",
    ]
    rows = []
    with others(options.threads_of_others):
        for seconds in options.times:
            rows.append(measure(seconds))
            print(rows[-1], flush=True)
    shared = (
        f"{options.threads_of_others} other processes wanted a core meanwhile"
        if options.threads_of_others
        else ("the machine did nothing else")
    )
    lines = [heads, ["---:"] * len(heads), *rows]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    where = f"{date.today().isoformat()}, {machine()}, torch {version('torch')}"
    text = "\n".join(
        [
            "# Does a fit end within its time?",
            "",
            "`headstart fit train.csv --target label --time T` on 500 rows of length 100 in three classes: seconds from "
            "the start of the process to its end, report page included.",
            "",
            *table,
            "",
            f"`python benchmarks/fit_time.py`, {where}; {shared}.",
            "",
            "The plan takes 0.7 of what is left after reading and the models without a network, from a few timed steps; "
            "whatever it promised, training stops in time for the report, and the same command goes on with what is left.",
            "",
        ]
    )
    PAGE.write_text(text, "utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
