"""Does `headstart fit --time T` end within 1.2 T + 5 s, whatever it is given? 20 made-up files of 20 to 1,000,000 rows.

    python benchmarks/fit_limits.py WORK [--times 10 60 300] [--inputs NAME ...] [--others 2] [--processor]

Writes docs/benchmarks/fit-limits.md: seconds from start to end, memory, and the rows that were read and learnt from; what
was measured is kept in WORK and not measured again. --others: so many other processes want a core meanwhile. --processor:
the clock is the processor's time of one process (`--workers 0`): what a core that is free would take.
"""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from fit_time import others
from harness import PAGES, filled, headstart, made_here, markdown, once, parser_of, with_head, write

INPUTS = {
    **{f"numbers {n} x {length}": ("numbers", n, length, 3) for n, length in ((20, 50), (50, 1_000), (200, 100))},
    **{f"numbers {n} x {length}": ("numbers", n, length, 3) for n, length in ((200, 5_000), (500, 100), (1_000, 300))},
    **{f"numbers {n} x {length}": ("numbers", n, length, 5) for n, length in ((2_000, 30), (5_000, 300), (10_000, 20))},
    **{f"numbers {n} x {length}": ("numbers", n, length, 5) for n, length in ((20_000, 150), (50_000, 300))},
    **{f"numbers {n} x {length}": ("numbers", n, length, 5) for n, length in ((200_000, 10), (1_000_000, 50))},
    "60 classes 3000 x 100": ("numbers", 3_000, 100, 60),
    **{f"amounts {n} x 60": ("numbers", n, 60, 0) for n in (3_000, 30_000)},
    **{f"DNA {n} x {length}": ("dna", n, length, 2) for n, length in ((300, 200), (5_000, 300), (50_000, 100))},
    "words 2000 x 40": ("words", 2_000, 40, 2),
}
"""Kind, rows, positions and classes (0: a number) of each."""
CLOCK = "import sys, time; time.monotonic = time.process_time; from headstart.cli import main; main(sys.argv[1:])"


def write_rows(path: Path, kind: str, rows: int, length: int, classes: int) -> None:
    """Each row has the pattern of its class at a place of its own, in noise."""
    draw, at = np.random.default_rng(0), np.arange(length)
    target = draw.integers(0, classes or 1_000, rows)
    with path.open("wb") as out:
        for first in range(0, rows, 50_000):
            some = target[first : first + 50_000]
            names = some * 0.001 if classes == 0 else np.char.add("c", some.astype(str))
            if kind == "numbers":
                rate = 2 + 0.3 * (some % 60) if classes else 2 + some / 100
                x = np.sin(at * rate[:, None] * 6.28 / 50 + draw.uniform(0, 6.28, (len(some), 1)))
                x = np.round(x + draw.normal(0, 1, x.shape), 3)
                columns = {f"t{i}": x[:, i] for i in range(length)}
            else:
                words = np.array(list("ACGT") if kind == "dna" else [f"w{i}" for i in range(500)])
                drawn = draw.integers(0, len(words) - some[:, None] % 2, (len(some), length))
                columns = {"text": np.array([("" if kind == "dna" else " ").join(row) for row in words[drawn]])}
            with_head = pyarrow.csv.WriteOptions(include_header=first == 0)
            pyarrow.csv.write_csv(pa.table({**columns, "label": names}), out, with_head)


def measured(work: Path, name: str, seconds: int, processor: bool) -> dict[str, Any]:
    """One fit in a process and a store of its own."""
    kind, *sizes = INPUTS[name]
    folder, file = work / "fit", work / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.csv"
    if not file.exists():
        write_rows(file, kind, *sizes)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = ["fit", str(file), "--target", "label", "--time", f"{seconds}s", "-o", "model"]
    words += ["--target-kind", "number" if sizes[-1] == 0 else "class", *(["--kind", "dna"] if kind == "dna" else [])]
    took = headstart(folder, *words, *(["--workers", "0"] if processor else []), code=CLOCK if processor else None)
    text = " ".join(took.output.split())
    ran = {"seconds": took.processor if processor else took.wall, "memory": took.memory}
    for key, pattern in (("read", r"split: ([\d,]+) of [\d,]+ rows"), ("learnt", r"learn from ([\d,]+) of")):
        ran[key] = (re.findall(pattern, text) or ["all"])[0]
    return ran | {"score": re.findall(r"\(predicts\) (\S+)", text)[0], "made": made_here("headstart")}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--times", type=int, nargs="*", default=[10, 60, 300])
    parser.add_argument("--inputs", nargs="*", default=list(INPUTS))
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--processor", action="store_true")
    args = parser.parse_args()
    clock = "processor" if args.processor else f"wall-{args.others}"
    for seconds, name in ((seconds, name) for seconds in args.times for name in args.inputs):
        with others(args.others):
            measure = partial(measured, args.work, name, seconds, args.processor)
            once(args.work / clock / f"{seconds} {name}.json", measure)
    rows, ratios, made = [], {}, ""
    for path in sorted((args.work / clock).glob("*.json"), key=lambda path: [int(path.stem.split()[0]), path.stem]):
        (seconds, _, name), ran = path.stem.partition(" "), json.loads(path.read_text("utf-8"))
        ratio, made = ran["seconds"] / (1.2 * int(seconds) + 5), ran["made"]
        ratios[f"{name} at {seconds} s"] = ratio
        rows.append(
            [
                name,
                seconds,
                f"{ran['seconds']:.0f}",
                f"{ratio:.2f}",
                f"{ran['memory']:.0f}",
                ran["read"],
                ran["learnt"],
                ran["score"],
            ]
        )
    rows.sort(key=lambda row: -float(row[3]))  # what is late comes first
    worst = max(ratios, key=lambda name: ratios[name])
    heads = ["input", "time", "took", "of 1.2 T + 5 s", "MiB", "rows read", "rows of train learnt", "validation"]
    how = {"processor": "processor time of one process, `--workers 0`"}.get(
        clock, f"wall clock, {args.others} other processes busy"
    )
    text = filled("fit-limits", made=made, how=how, worst=f"{ratios[worst]:.2f} ({worst})", table=markdown(heads, rows))
    write(PAGES / "fit-limits.md", with_head((PAGES / "fit-limits.md").read_text("utf-8"), text))


if __name__ == "__main__":
    main()
