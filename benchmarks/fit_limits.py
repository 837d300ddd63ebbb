"""Does `headstart fit --time T` end within 1.2 T + 5 s, whatever it is given? 20 made-up files of 20 to 1,000,000 rows.

    python benchmarks/fit_limits.py WORK [--times 10 60 300] [--inputs NAME ...] [--most N] [--again]
                                         [--others 2 [--there]] [--processor]
    python benchmarks/fit_limits.py WORK --goal [--environment FOLDER]

Writes docs/benchmarks/fit-limits.json and its page: seconds from start to end, memory, and the rows that were read and learnt
from. Each input is written as it is measured, and not measured again without --again: --most so many are, the others by the
same command another day (all at 300 s take 100 minutes). --others: so many other processes want a core meanwhile (--there: they run
already, none is started); without, the row has the least and the greatest load of the machine. --processor: the clock is the processor's time of one process (`--workers 0`): what
a core that is free would take. --goal: 100,000 rows of 500 numbers in 600 s within 4 GB, and QUANT of aeon on all of them, in the
environment of fit_against.py; on 10,000 other rows.
"""

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from fit_against import Methods, measure
from fit_time import others
from harness import (
    CLOCK,
    PAGES,
    Set,
    days_of,
    filled,
    headstart,
    made_here,
    markdown,
    once,
    parser_of,
    with_head,
    write,
)

from headstart.data import LayoutSpec

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
GOAL_NOISE = 5
"""Deviation of the noise of the goal, of waves of amplitude 1: with 1 both are always right; chosen by a fit of 30 s on 5,000 rows."""
PAGE, RESULTS = PAGES / "fit-limits.md", PAGES / "fit-limits.json"


def write_rows(path: Path, kind: str, rows: int, length: int, classes: int, noise: float = 1) -> None:
    """Each row has the pattern of its class at a place of its own, in noise of this deviation."""
    draw, at = np.random.default_rng(0), np.arange(length)
    target = draw.integers(0, classes or 1_000, rows)
    with path.open("wb") as out:
        for first in range(0, rows, 50_000):
            some = target[first : first + 50_000]
            names = some * 0.001 if classes == 0 else np.char.add("c", some.astype(str))
            if kind == "numbers":
                rate = 2 + 0.3 * (some % 60) if classes else 2 + some / 100
                x = np.sin(at * rate[:, None] * 6.28 / 50 + draw.uniform(0, 6.28, (len(some), 1)))
                x = np.round(x + draw.normal(0, noise, x.shape), 3)
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


@contextmanager
def loads() -> Iterator[list[float]]:
    """The load of the machine meanwhile, from its beginning to its end: how many processes want a core."""
    seen, over = [os.getloadavg()[0]], threading.Event()

    def look() -> None:
        while not over.wait(5):
            seen.append(os.getloadavg()[0])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def goal_run(work: Path, environment: Path) -> dict[str, Any]:
    """The goal for many rows: what a fit serves and QUANT, each fitted on the same rows, on the same others."""
    both, train, test = (work / f"goal-{name}.csv" for name in ("both", "train", "test"))
    if not test.exists():
        write_rows(both, "numbers", 110_000, 500, 5, GOAL_NOISE)
        with both.open() as lines:
            head, *first = islice(lines, 100_001)
            train.write_text("".join([head, *first]))
            test.write_text("".join([head, *lines]))
    made = Set("goal", "made-up", lambda _: (train, test, None), LayoutSpec(target="label", target_kind="class"))
    quant = once(work / "goal-quant.json", lambda: measure(made, "quant", work, Methods(600, environment)))
    for name in ("runs", "model"):  # of a fit before, which would be gone on with
        shutil.rmtree(work / name, ignore_errors=True)
    words = ["--target", "label", "--time", "600s", "--memory", "4G", "--test-share", "0", "-o", "model"]
    with loads() as seen:
        took = headstart(work, "fit", str(train), *words)
    headstart(work, "predict", "model", str(test), "-o", "answers.csv")
    answers, truth = (pyarrow.csv.read_csv(path) for path in (work / "answers.csv", test))
    right = np.mean(np.array(answers["prediction"]) == np.array(truth["label"]))
    ours = {"seconds": took.wall, "memory": took.memory, "accuracy": float(right), "load": [min(seen), max(seen)]}
    ours["made"] = made_here("headstart")
    return ours | {"quant": {key: quant.get(key) for key in ("seconds", "accuracy", "error")}}


def page_of(document: dict[str, Any]) -> str:
    """The part of the page above its first section."""
    rows = [{**ran, "ratio": ran["seconds"] / (1.2 * ran["time"] + 5)} for ran in document["fits"].values()]
    rows.sort(key=lambda ran: (-round(ran["ratio"], 2), ran["input"]))  # what is late comes first
    heads = [
        "input",
        "clock",
        "time",
        "took",
        "of 1.2 T + 5 s",
        "MiB",
        "rows read",
        "rows of train learnt",
        "validation",
    ]
    named = {"seconds": "{:.0f}", "ratio": "{:.2f}", "memory": "{:.0f}"}
    keys = ("input", "clock", "time", "seconds", "ratio", "memory", "read", "learnt", "score")
    cells = [[named.get(key, "{}").format(ran[key]) for key in keys] for ran in rows]
    few, many = ([run for run in rows if ("load" in run["clock"]) == busy] for busy in (False, True))
    worst = f"{few[0]['ratio']:.2f} ({few[0]['input']} at {few[0]['time']} s)"
    busy = f"{many[0]['ratio']:.2f} ({many[0]['input']} at {many[0]['time']} s, {many[0]['clock'].partition(', ')[2]})"
    days, machines = zip(*(ran["made"].split(", ", 1) for ran in rows), strict=True)
    made, goal = f"{days_of(days)}, {'; '.join(dict.fromkeys(machines))}", document.get("goal")
    reach = "" if goal is None else (
        f"100,000 rows of 500 numbers (the same waves in noise of {GOAL_NOISE} times the deviation), 600 s, 4 GB: took {goal['seconds']:.0f} s by the clock at a load of "
        f"{goal['load'][0]:.0f} to {goal['load'][1]:.0f} and {goal['memory']:.0f} MiB, accuracy {goal['accuracy']:.3f} on "
        f"10,000 others; QUANT {goal['quant']['accuracy'] or goal['quant']['error']} in "
        f"{goal['quant']['seconds']:.0f} processor seconds ({goal['made']})."
    )  # fmt: skip
    return filled("fit-limits", made=made, worst=worst, busy=busy, table=markdown(heads, cells, 2), goal=reach)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--times", type=int, nargs="*", default=[10, 60, 300])
    parser.add_argument("--inputs", nargs="*", default=list(INPUTS), choices=list(INPUTS))
    parser.add_argument("--most", type=int, default=len(INPUTS) * 3)
    parser.add_argument("--others", type=int, default=0)
    for flag in ("--again", "--processor", "--there", "--goal"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--environment", type=Path, default=Path.home() / ".cache/headstart-benchmarks/fit-against")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    document = json.loads(RESULTS.read_text("utf-8"))
    clock = "processor" if args.processor else f"wall, {args.others or 'no'} others"
    keys = {f"{clock}, {seconds} s, {name}": (seconds, name) for seconds in args.times for name in args.inputs}
    wanted = {key: which for key, which in keys.items() if args.again or key not in document["fits"]}
    for key, (seconds, name) in [] if args.goal else [*wanted.items()][: args.most]:
        with others(0 if args.there else args.others), loads() as seen:
            ran = measured(args.work, name, seconds, args.processor)
        as_it_was = clock if args.processor or args.others else f"wall, load {min(seen):.0f} to {max(seen):.0f}"
        document["fits"][key] = {"input": name, "clock": as_it_was, "time": seconds, **ran}
        RESULTS.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    if args.goal:
        document["goal"] = goal_run(args.work, args.environment)
        RESULTS.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    write(PAGE, with_head(PAGE.read_text("utf-8"), page_of(document)))


if __name__ == "__main__":
    main()
