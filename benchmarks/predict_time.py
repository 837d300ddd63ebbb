"""What `headstart predict` takes: seconds, processor time and memory of the whole process, for each kind of model.

    python benchmarks/predict_time.py [--before FOLDER] [--times N] [--rows 2 10000 100000] [--shared]

Fits 500 made-up rows of 100 positions, of numbers and of letters, and predicts others. Rewrites the first table of
docs/benchmarks/predict.md. FOLDER holds another version (its `src`), which is measured in turn with this one; `--shared`
says on the page that other work had the cores, too.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from fit_time import write_rows
from harness import PAGES, SOURCE, Took, filled, headstart, made_here, markdown, parser_of, with_head, write

PAGE = PAGES / "predict.md"
AIMS = {
    ("2", "kernels"): 0.5,
    ("2", "n-grams"): 0.5,
    ("10,000", "kernels"): 3.0,
    ("10,000", "s4d"): 3.0,
    ("10,000", "n-grams"): 3.0,
}
"""Rows and model -> seconds that `predict` shall take at most."""


def write_letters(path: Path, count: int, seed: int) -> None:
    """Random DNA of 100 letters; of every second row six of them are a motif."""
    rng = np.random.default_rng(seed)
    lines = ["id,label,dna"]
    for i in range(count):
        letters, first = rng.choice(list("ACGT"), 100), int(rng.integers(0, 94))
        if i % 2:
            letters[first : first + 6] = list("TATAAT")
        lines.append(f"s{i},{('other', 'promoter')[i % 2]},{''.join(letters)}")
    path.write_text("\n".join(lines) + "\n")


def in_words(runs: list[Took]) -> list[str]:
    """The least of each, since what else the machine does only adds to it; of the seconds the median of several, too."""
    least = Took(*(min(values) for values in zip(*(took[:3] for took in runs), strict=True)))
    middle = f" ({median(took.wall for took in runs):.2f})" if len(runs) > 1 else ""
    return [f"{least.wall:.2f} s{middle}", f"{least.processor:.2f} s", f"{least.memory:.0f} MiB"]


def aims(lines: list[list[str]]) -> str:
    """Which aims were reached, by the least of the runs: a model's seconds are the third cell from the right."""
    texts = []
    for line in lines:
        if (aim := AIMS.get((line[0], line[1]))) is not None:
            over = float(line[-3].partition(" ")[0]) - aim
            outcome = f"missed by {over:.2f} s" if over > 0 else "reached"
            texts.append(f"{line[1]}, {line[0]} rows, {aim:g} s: {outcome}")
    return f"Aims, by the least run: {'; '.join(texts)}." if texts else ""


def measure(folder: Path, options: argparse.Namespace) -> list[list[str]]:
    """Lines of the table."""
    versions = [SOURCE] if options.before is None else [options.before / "src", SOURCE]
    write_rows(folder / "numbers.csv")
    write_letters(folder / "letters.csv", 500, 0)
    served = {"kernels": ("numbers", "kernels"), "s4d": ("numbers", "network"), "n-grams": ("letters", "kernels")}
    for name, (kind, serve) in served.items():
        headstart(
            folder, "fit", f"{kind}.csv", "--target=label", "--time=1m", "--device=cpu", f"--serve={serve}", "-o", name
        )
    lines = []
    for rows in options.rows:
        write_rows(folder / "new-numbers.csv", rows, 1)
        write_letters(folder / "new-letters.csv", rows, 1)
        for name, (kind, _) in served.items():
            words = ("predict", name, f"new-{kind}.csv", "-o", "out.csv")
            runs: list[list[Took]] = [[] for _ in versions]
            for _ in range(options.times if rows < 50_000 else 1):
                for own, source in zip(runs, versions, strict=True):
                    own.append(headstart(folder, *words, source=source))
            lines.append([f"{rows:,}", name, *(cell for own in runs for cell in in_words(own))])
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--before", type=Path)
    words.add_argument("--times", type=int, default=5)
    words.add_argument("--rows", type=int, nargs="+", default=[2, 10_000, 100_000])
    words.add_argument("--shared", action="store_true")
    words.add_argument("--page", type=Path, default=PAGE)
    options = words.parse_args()
    heads = ["seconds", "processor", "memory"]
    if options.before is not None:
        heads = [f"{head}, {when}" for when in ("before", "now") for head in heads]
    heads = ["rows", "model", *heads]
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(Path(folder), options)
    others = "other work had the cores, too" if options.shared else "the machine did nothing else"
    text = filled(
        "predict",
        times=options.times,
        table=markdown(heads, lines, rule=["---:", "---", *["---:"] * (len(heads) - 2)]),
        aims=aims(lines),
        made=made_here("torch"),
        others=others,
    )
    page = options.page.read_text("utf-8") if options.page.exists() else ""
    write(options.page, with_head(page, text))


if __name__ == "__main__":
    main()
