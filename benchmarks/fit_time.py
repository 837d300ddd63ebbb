"""Does `headstart fit --time T` end within T? 500 made-up rows of length 100, several T, each in a process of its own.

    python benchmarks/fit_time.py [--times 30 60 120] [--workers 1 2 [--steps N]] [--threads-of-others N]

Writes docs/benchmarks/fit-time.md: seconds from the start of the process to its end, steps that were planned and stages
that were left, for T on this machine. `--threads-of-others` keeps so many cores busy meanwhile, as other work would.
`--workers` times one fit of N steps in each training, all of which there is time for, with so many workers: a line each;
`--times` without a number leaves the other table as it stands.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from harness import PAGES, filled, headstart, made_here, markdown, parser_of, with_head, with_section, write

PAGE = PAGES / "fit-time.md"
WORKERS = "Is a fit faster with more workers?"
"""Head of the second section of the page."""


def write_rows(path: Path, count: int = 500, seed: int = 0) -> None:
    """Three classes of noisy waves whose rates differ."""
    rng = np.random.default_rng(seed)
    lines = ["id,label," + ",".join(f"t{i}" for i in range(100))]
    for i in range(count):
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


def fitted(*words: str) -> tuple[float, str]:
    """Seconds of one fit in a new process and a new store, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "train.csv")
        took = headstart(Path(folder), "fit", "train.csv", "--target", "label", *words)
        return took.wall, took.output


def measure_workers(counts: list[int], steps: int) -> list[str]:
    """Lines of the second table: the same fit with each number of workers, and how many times as fast as the first."""
    budgets = (f"finetune.budget.steps={steps}", f"pretrain.budget.steps={steps}")
    walls = []
    for count in counts:
        walls.append(fitted("--time", "10h", "--pretrain", "--workers", str(count), *budgets)[0])
        print(f"{count} workers: {walls[-1]:.1f} s", flush=True)
    rows = [[str(n), f"{wall:.1f} s", f"{walls[0] / wall:.2f}"] for n, wall in zip(counts, walls, strict=True)]
    return markdown(["--workers", "took", "times as fast"], rows, names=0)


def measure(seconds: int) -> list[str]:
    """One line of the table."""
    wall, output = fitted("--time", f"{seconds}s")
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


def times_section(options: argparse.Namespace, made: str) -> str:
    """The table of `--times`, measured."""
    heads = ["--time", "took", "self-pretraining + training steps", "stages left", "gain of self-pretraining"]
    rows = []
    for seconds in options.times:
        rows.append(measure(seconds))
        print(rows[-1], flush=True)
    return filled("fit-time", table=markdown([*heads, "underpowered said"], rows, names=0), made=made)


def workers_section(options: argparse.Namespace, made: str) -> str:
    """The table of `--workers`, measured."""
    counts, table = " ".join(map(str, options.workers)), measure_workers(options.workers, options.steps)
    return filled("fit-time-workers", table=table, counts=counts, steps=options.steps, made=made)


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--times", type=int, nargs="*", default=[30, 60, 120])
    words.add_argument("--workers", type=int, nargs="*", default=[])
    words.add_argument("--steps", type=int, default=600)
    words.add_argument("--threads-of-others", type=int, default=0)
    words.add_argument("--page", type=Path, default=PAGE)
    options = words.parse_args()
    count = options.threads_of_others
    shared = f"{count} other processes wanted a core meanwhile" if count else "the machine did nothing else"
    made = f"{made_here('torch')}; {shared}."
    page = options.page.read_text("utf-8") if options.page.exists() else ""
    with others(count):
        if options.times:
            page = with_head(page, times_section(options, made))
        if options.workers:
            page = with_section(page, WORKERS, workers_section(options, made))
    write(options.page, page)


if __name__ == "__main__":
    main()
