"""How often the sets of `headstart predict --confidence` hold the true class, on official test splits.

    python benchmarks/interval_coverage.py --data DIR [--work DIR] [--time TIME] SET [SET ...]

DIR holds SET/SET_TRAIN.tsv and SET/SET_TEST.tsv, the label first, as the UCR archive has them. The fit sees the train file
alone; coverage and the mean size of the sets are those of the test file, which nothing else has used.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path

LEVELS = (0.8, 0.9)


def _headstart(*words: str) -> str:
    command = [sys.executable, "-m", "headstart", *words]
    return subprocess.run(command, text=True, capture_output=True, check=True).stderr


def _measured(name: str, data: Path, work: Path, seconds: str) -> list[str]:
    """A line for each level: coverage, its standard error from the test rows, and the mean number of classes in a set."""
    train, test = (str(data / name / f"{name}_{part}.tsv") for part in ("TRAIN", "TEST"))
    model, out = str(work / name), work / f"{name}.csv"
    layout = ("--target", "1", "--target-kind", "class", "layout.header=false")
    _headstart("fit", train, *layout, "--time", seconds, "--workers", "0", "-o", model, "--store", str(work / "runs"))
    truth = [f"{float(line.split()[0]):g}" for line in Path(test).read_text("utf-8").splitlines()]
    lines = []
    for level in LEVELS:
        says = _headstart("predict", model, test, "-o", str(out), "--confidence", str(level))
        rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
        inside = sum(row[f"in_{label}"] == "1" for row, label in zip(rows, truth, strict=True)) / len(rows)
        size = sum(value == "1" for row in rows for key, value in row.items() if key.startswith("in_")) / len(rows)
        error = (inside * (1 - inside) / len(rows)) ** 0.5
        source = says.split("held out (")[1].split(")")[0]
        lines.append(f"{name:<20} {level:>5} {inside:>8.3f} ± {error:.3f} {size:>6.2f}  {source}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("coverage"))
    parser.add_argument("--time", default="20s")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"{'set':<20} {'asked':>5} {'coverage':>16} {'size':>6}  held out")
    for name in options.sets:
        print("\n".join(_measured(name, options.data, options.work, options.time)), flush=True)


if __name__ == "__main__":
    main()
