"""How often the sets and intervals of `headstart predict --confidence` hold the truth.

    python benchmarks/interval_coverage.py --data DIR [--work DIR] [--time TIME] [SET ...]

DIR holds the data of fit_against.py, whose sets are these (default: all), with its test files; a set of numbers as targets
is made here. The fit sees the train file alone; coverage and the mean size of the sets or intervals are those of the
test file, which nothing else has used. What is finished in the work folder is not done again. Writes docs/benchmarks/coverage.md.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import PAGES, all_sets, days_of, files_of, filled, markdown, once, other_sets, parser_of, sets_of, write

from headstart.data import LayoutSpec, read_sequences
from headstart.runner.machine import machine, version
from headstart.words import listed

PAGE = PAGES / "coverage.md"
LEVELS = (0.8, 0.9)
HEADS = ("set", "train rows", "test rows", "asked", "coverage", "mean size", "judged by")
WAVES = "waves (made)"
REFUSED = "refused"
"""Stands for coverage where too few sequences are held out for that level."""


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


def measured(name: str, files: tuple[Path, Path], layout: LayoutSpec, work: Path, seconds: str) -> Iterator[list[str]]:
    """A line for each level: coverage, its standard error from the test rows, and the mean size."""
    train, test = files
    model, out = work / f"{name}-model", work / f"{name}.csv"
    words = [f"layout.{key}={json.dumps(value)}" for key, value in layout.model_dump(exclude_unset=True).items()]
    limits = ("--time", seconds, "--workers", "0")
    _headstart("fit", str(train), *words, *limits, "-o", str(model), "--store", str(work / "runs"))
    rows_of_train = read_sequences(train, layout)
    rows_of_test = read_sequences(test, rows_of_train.layout.fixed())
    classes, count = rows_of_train.target == "class", len(rows_of_train)
    truth = rows_of_test.labels if classes else rows_of_test.numbers().tolist()
    for level in LEVELS:
        try:
            says = _headstart("predict", str(model), str(test), "-o", str(out), "--confidence", str(level))
        except subprocess.CalledProcessError as error:
            few = re.search(r"is more than (\d+) held-out sequences allow", error.stderr)
            if few is None:
                raise
            yield [
                name,
                f"{count:,}",
                f"{len(rows_of_test):,}",
                str(level),
                REFUSED,
                "\N{EM DASH}",
                f"{few[1]}, too few",
            ]
            continue
        rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
        if classes:
            inside = [row[f"in_{label}"] == "1" for row, label in zip(rows, truth, strict=True)]
            sizes = [sum(value == "1" for key, value in row.items() if key.startswith("in_")) for row in rows]
        else:
            ends = [(float(row["low"]), float(row["high"])) for row in rows]
            inside = [low <= label <= high for (low, high), label in zip(ends, truth, strict=True)]
            sizes = [high - low for low, high in ends]
        share = float(np.mean(inside))
        spread = (share * (1 - share) / len(rows)) ** 0.5
        judged = re.search(r"by ([\d,]+) sequences held out \((\w+)\)", says)
        source = f"{judged[1]} of {judged[2]}" if judged else ""
        unit = "classes" if classes else "Hz"
        yield [
            name,
            f"{count:,}",
            f"{len(rows):,}",
            str(level),
            f"{share:.3f} ± {spread:.3f}",
            f"{np.mean(sizes):.2f} {unit}",
            source,
        ]


def fitted(name: str, files: tuple[Path, Path], layout: LayoutSpec, work: Path, seconds: str) -> dict[str, Any]:
    """The lines of one fit, the load of the machine before it, and the day."""
    shutil.rmtree(work / f"{name}-model", ignore_errors=True)
    load = os.getloadavg()[0]
    lines = list(measured(name, files, layout, work, seconds))
    return {"rows": lines, "load": load, "date": date.today().isoformat()}


def page(rows: list[list[str]], sets: list[str], seconds: str, busy: bool, dates: list[str]) -> str:
    """The page of these rows. busy: other work had the processors, too. dates: when they were measured."""
    answered = [row for row in rows if row[4] != REFUSED]
    shares = {level: sorted(float(row[4].split()[0]) for row in answered if row[3] == str(level)) for level in LEVELS}
    spans = " and ".join(f"{some[0]:.3f} to {some[-1]:.3f} where {level} was asked" for level, some in shares.items())
    low = [row[0] for row in answered if _least(row) < float(row[3])]
    refused = (
        f" `{REFUSED}`: so few sequences were held out that no threshold reaches that level, and `predict` says so."
    )
    shared = "other work had the processors, too, so that networks took fewer steps than they would alone"
    return filled(
        "coverage",
        seconds=seconds,
        waves=WAVES,
        table=markdown(HEADS, rows, rule=["---", *["---:"] * (len(HEADS) - 2), "---"]),
        spans=spans,
        refused=refused if len(answered) < len(rows) else "",
        low=_of_low(list(dict.fromkeys(low))) if low else "",
        command=" ".join(["python benchmarks/interval_coverage.py --data DIR --time", seconds, *sets]),
        where=f"{days_of(dates)}, {machine()}, torch {version('torch')}",
        beside=f"; {shared}." if busy else "; the machine did nothing else.",
    )


def _least(row: list[str]) -> float:
    """Coverage and two standard errors."""
    share, _, spread = row[4].split()
    return float(share) + 2 * float(spread)


def _of_low(names: list[str]) -> str:
    """What it means that coverage is far too low on these sets."""
    text = (
        f"On {listed(names)} coverage was below what was asked by more than two standard errors. A threshold promises what it does "
        "for sequences that come from where the held-out ones came from, and the official test rows of a set may not."
    )
    if "EOGVerticalSignal" in names:
        text += (
            " On EOGVerticalSignal kernels are right on 0.88 of held-out train rows ([fit-features.md](fit-features.md)) and on half "
            "of the test rows ([fit.md](fit.md)): nothing in the train file shows that."
        )
    return text


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("sets", nargs="*", metavar="SET")
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("coverage"))
    words.add_argument("--time", default="20s")
    words.add_argument("--page", type=Path, default=PAGE)
    options = words.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_waves(options.work, {"TRAIN": 400, "TEST": 2_000})
    sets = {each.name: each for each in [*all_sets(options.data, options.work), *other_sets(options.data)]}
    files = {name: files_of(sets[name], options.work) for name in options.sets or sorted(sets_of(None))}
    layouts = {name: sets[name].layout for name in files}
    files[WAVES] = (options.work / f"{WAVES}_TRAIN.tsv", options.work / f"{WAVES}_TEST.tsv")
    layouts[WAVES] = LayoutSpec(header=False, target="1", target_kind="number")
    rows: list[list[str]] = []
    busy, dates = False, set[str]()
    for name, (train, test) in files.items():
        measure = partial(fitted, name, (train, test), layouts[name], options.work, options.time)
        result = once(options.work / f"{name}-{options.time}.json", measure)
        busy |= result["load"] > 1.5  # of this benchmark itself it is 1
        rows += result["rows"]
        dates.add(result["date"])
        print("\n".join(" | ".join(row) for row in result["rows"]), flush=True)
    write(options.page, page(rows, options.sets, options.time, busy, sorted(dates)))


if __name__ == "__main__":
    main()
