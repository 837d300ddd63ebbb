"""How often the sets and intervals of `headstart predict --confidence` hold the truth.

    python benchmarks/interval_coverage.py --data DIR [--work DIR] [--time TIME] SET [SET ...]

DIR holds SET/SET_TRAIN.tsv and SET/SET_TEST.tsv, the label first, as the UCR archive has them; a set of numbers as targets
is made here. The fit sees the train file alone; coverage and the mean size of the sets or intervals are those of the test
file, which nothing else has used. Writes docs/benchmarks/coverage.md.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np

from headstart.runner.machine import machine, version

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "coverage.md"
LEVELS = (0.8, 0.9)
HEADS = ("set", "train rows", "test rows", "asked", "coverage", "mean size", "judged by")
WAVES = "waves (made)"


def _headstart(*words: str) -> str:
    command = [sys.executable, "-m", "headstart", *words]
    return subprocess.run(command, text=True, capture_output=True, check=True).stderr


def write_waves(folder: Path, rows: dict[str, int], length: int = 60) -> None:
    """Noisy waves whose target is their rate, off by a normal error that grows with it."""
    rng = np.random.default_rng(0)
    for part, count in rows.items():
        rate = rng.uniform(2, 8, count)
        phase, size = rng.uniform(0, 2 * np.pi, (count, 1)), rng.uniform(0.5, 1.5, (count, 1))
        waves = size * np.sin(2 * np.pi * rate[:, None] * np.arange(length) / length + phase)
        target = rate + rng.normal(0, 0.05, count) * rate
        values = np.column_stack([target, waves + rng.normal(0, 0.5, waves.shape)])
        np.savetxt(folder / f"{WAVES}_{part}.tsv", values, "%.4f", "\t")


def measured(name: str, data: Path, work: Path, seconds: str) -> Iterator[list[str]]:
    """A line for each level: coverage, its standard error from the test rows, and the mean size."""
    train, test = (data / f"{name}_{part}.tsv" for part in ("TRAIN", "TEST"))
    model, out = work / f"{name}-model", work / f"{name}.csv"
    classes = name != WAVES
    layout = ("--target", "1", "--target-kind", "class" if classes else "number", "layout.header=false")
    limits = ("--time", seconds, "--workers", "0")
    _headstart("fit", str(train), *layout, *limits, "-o", str(model), "--store", str(work / "runs"))
    truth = [float(line.split()[0]) for line in test.read_text("utf-8").splitlines()]
    count = len(train.read_text("utf-8").splitlines())
    for level in LEVELS:
        says = _headstart("predict", str(model), str(test), "-o", str(out), "--confidence", str(level))
        rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
        if classes:
            inside = [row[f"in_{label:g}"] == "1" for row, label in zip(rows, truth, strict=True)]
            sizes = [sum(value == "1" for key, value in row.items() if key.startswith("in_")) for row in rows]
        else:
            ends = [(float(row["low"]), float(row["high"])) for row in rows]
            inside = [low <= label <= high for (low, high), label in zip(ends, truth, strict=True)]
            sizes = [high - low for low, high in ends]
        share = float(np.mean(inside))
        error = (share * (1 - share) / len(rows)) ** 0.5
        judged = re.search(r"by ([\d,]+) sequences held out \((\w+)\)", says)
        source = f"{judged[1]} of {judged[2]}" if judged else ""
        unit = "classes" if classes else "Hz"
        yield [
            name,
            f"{count:,}",
            f"{len(rows):,}",
            str(level),
            f"{share:.3f} ± {error:.3f}",
            f"{np.mean(sizes):.2f} {unit}",
            source,
        ]


def page(rows: list[list[str]], sets: list[str], seconds: str) -> str:
    """The page of these rows."""
    lines = [list(HEADS), ["---"] + ["---:"] * (len(HEADS) - 2) + ["---"], *rows]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    shares = {level: sorted(float(row[4].split()[0]) for row in rows if row[3] == str(level)) for level in LEVELS}
    spans = " and ".join(f"{some[0]:.3f} to {some[-1]:.3f} where {level} was asked" for level, some in shares.items())
    where = f"{date.today().isoformat()}, {machine()}, torch {version('torch')}"
    text = [
        "# Do the sets and intervals of --confidence hold the truth?",
        "",
        f"`headstart fit TRAIN --time {seconds} --workers 0`, then `headstart predict model TEST --confidence A` on test files that "
        f"the fit never saw: official splits of the UCR archive, and `{WAVES}`, whose target is the rate of a noisy wave "
        "in Hz. Coverage is the share of test rows whose true class is in the set, or whose true number is in the interval; "
        "± is its standard error from the number of test rows. The last column says which held-out rows of the train file "
        "set the threshold.",
        "",
        *table,
        "",
        f"Coverage was {spans}.",
        "",
        f"`python benchmarks/interval_coverage.py --data DIR --time {seconds} {' '.join(sets)}`, {where}; other work ran "
        "beside it.",
        "",
        "Each line is one fit. A threshold from n held-out rows leaves coverage with a standard deviation of about "
        "√(A (1 − A) / (n + 2)) over fits, which is 0.04 at 0.9 with 60 rows: on average over fits it is A or a little more, "
        "in one fit it may be that far below. Of folds there is no guarantee: errors of models of four fifths of the rows "
        "stand for those of the model that is served, which is fitted on all of them and errs somewhat less. A set holds "
        "the predicted class at least: where the model is right more often than was asked, coverage is its accuracy.",
        "",
    ]
    return "\n".join(text)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("sets", nargs="+", metavar="SET")
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("coverage"))
    words.add_argument("--time", default="20s")
    words.add_argument("--page", type=Path, default=PAGE)
    options = words.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_waves(options.work, {"TRAIN": 400, "TEST": 2_000})
    rows: list[list[str]] = []
    for name in (*options.sets, WAVES):
        folder = options.work if name == WAVES else options.data / name
        shutil.rmtree(options.work / f"{name}-model", ignore_errors=True)
        for row in measured(name, folder, options.work, options.time):
            rows.append(row)
            print(" | ".join(row), flush=True)
    options.page.write_text(page(rows, options.sets, options.time), "utf-8")
    print(options.page)


if __name__ == "__main__":
    main()
