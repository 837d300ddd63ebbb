"""Claim: 100,000 ListOps sequences of LRA's sizes in under 15 s on 2 cores, and open in under 1 s afterwards.

    python benchmarks/listops_generation.py [--count 100000] [--plain 5000] [--workers 2] [--write FILE.md]

Compared with a plain Python generator of the same rules (recursion, one random number at a time, text at the
end), timed in the same run on fewer expressions, as its time is proportional to their number.
"""

from __future__ import annotations

import os
import platform
import random
import resource
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
from harness import filled, parser_of, write

from headstart.tasks.listops import ListOpsSpec
from headstart.tasks.listops.generate import SYMBOLS, encode
from headstart.tasks.task import open_task, prepare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.listops import evaluate

OPERATORS = SYMBOLS[10:14]


def plain_tree(rng: random.Random, depth: int) -> tuple[list[str], int]:
    """Symbols and value of one tree, by recursion."""
    if depth >= 10 or rng.random() > 0.25:
        digit = rng.randrange(10)
        return [str(digit)], digit
    operator = rng.choice(OPERATORS)
    symbols, values = [operator], []
    for _ in range(rng.randint(2, 10)):
        inner, value = plain_tree(rng, depth + 1)
        symbols += inner
        values.append(value)
    symbols.append("]")
    if operator == "[MIN":
        return symbols, min(values)
    if operator == "[MAX":
        return symbols, max(values)
    if operator == "[SM":
        return symbols, sum(values) % 10
    values.sort()
    return symbols, (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2


def plain(count: int) -> tuple[float, np.ndarray]:
    """Seconds for `count` expressions, and their lengths."""
    rng, start = random.Random(0), time.perf_counter()  # noqa: S311 (no secret hangs on it)
    values: dict[str, int] = {}
    while len(values) < count:
        symbols, value = plain_tree(rng, 1)
        if 500 < len(symbols) < 2000:
            values[" ".join(symbols)] = value
    seconds = time.perf_counter() - start
    for text, value in list(values.items())[:100]:
        assert evaluate(encode(text)) == value
    return seconds, np.array([text.count(" ") + 1 for text in values])


def ours(count: int, workers: int, folder: Path) -> tuple[float, float, np.ndarray]:
    """Seconds to prepare and to open `count` expressions, and their lengths."""
    spec = ListOpsSpec(train=count - 4000, val=2000, test=2000)
    start = time.perf_counter()
    prepare(spec, folder, workers)
    between = time.perf_counter()
    task = open_task(spec, folder)
    end = time.perf_counter()
    for i in range(100):
        tokens = task.val.values[task.val.offsets[i] : task.val.offsets[i + 1]]
        assert task.val.target is not None
        assert evaluate(tokens) == task.val.target[i]
    lengths = np.concatenate([task.split(name).lengths for name in ("train", "val", "test")])
    return between - start, end - between, lengths


def main() -> None:
    """Time both, print a table, and write it where a file is named."""
    parser = parser_of(__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--plain", type=int, default=5_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    slow, slow_lengths = plain(options.plain)
    scaled = slow * options.count / options.plain
    with tempfile.TemporaryDirectory() as folder:
        alone, _, _ = ours(options.count, 1, Path(folder) / "alone")
        both, opening, lengths = ours(options.count, options.workers, Path(folder) / "together")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    page = filled(
        "listops-generation",
        count=options.count,
        machine=platform.machine(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        numpy=np.__version__,
        day=date.today(),
        plain=options.plain,
        scaled=scaled,
        plain_length=slow_lengths.mean(),
        alone=alone,
        length=lengths.mean(),
        workers=options.workers,
        both=both,
        opening=opening,
        memory=memory,
    )
    print(page)
    if options.write:
        write(options.write, page)


if __name__ == "__main__":
    main()
