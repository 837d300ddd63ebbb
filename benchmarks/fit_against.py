"""What `headstart fit` serves against the classifiers that a practitioner could have run, on the same rows and core.

    python benchmarks/fit_against.py --data DIR [--work DIR] [--part choosing|reporting|other] [--methods NAME ...]
                                     [--fit-time SECONDS] [--wall] [--mantis FOLDER] [--write] [SET ...]

A set's name with ", labels shuffled" behind it is the set with the labels of its train rows dealt anew.
DIR holds ucr/, uea/, biology/, fsdd/, mnist/, cifar10/, imdb/ and listops/ (docs/results/own.md names their sources). fit_against.toml says which sets are for
choosing, which for reporting and which are neither, fit_against.txt what the rivals run with: an environment of their own, made once in
--environment. --mantis names a folder of weights of Mantis or MantisV2, which then is a rival, too: frozen, read by its authors'
own package (fit_mantis.txt, another environment beside the first). Everything runs with one thread. Each (set, method) is one JSON file in the work folder, and what is
there is not done again. `fit` is the command line: `headstart fit` on the train rows alone, then `headstart predict` on the
test rows; seconds are processor seconds of whole processes, start and imports included, for rivals too. The seconds that are
given are the processor's, too, as if a core were free, or with --wall those of the clock on the wall. --write measures nothing: it puts
what the work folder holds among the rows of docs/benchmarks/fit.json and makes its page (fit_page.py).
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from fit_page import CONTROL, MANTIS, NGRAMS, OURS, PARTS, RIVALS, SHUFFLED, TITLES, gather
from fit_rivals import GIVEN_UP
from harness import CLOCK, HERE, POSITIONS, Set, all_sets, files_of, once, other_sets, parser_of, plain_name, sets_of

from headstart.baselines.measures import reliability
from headstart.checkpoints.read import read_checkpoint
from headstart.data import read_sequences
from headstart.data.sequences import Sequences
from headstart.errors import BadInput
from headstart.runner.machine import machine, version

SEED = 0
"""Of splits, starts and draws, ours and the rivals'."""
LIMIT = 3_600
"""Seconds after which a method is given up on a set, which is noted."""
DRAWN = 400
"""Draws of answers that hold by chance."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LETTERS = ("DNA", "proteins", "text")
"""Families of sets that n-grams can be counted of."""


@dataclass(frozen=True)
class Methods:
    """How methods run: ours with so many seconds, rivals in environments made from their lists of packages.

    wall: whether these seconds are those of the clock on the wall. mantis: the folder of weights that Mantis reads.
    """

    seconds: float
    environment: Path
    mantis: Path | None = None
    wall: bool = True

    def variant(self, method: str) -> str:
        """What names of result files say beside set and method: the seconds of `fit`, which weights Mantis reads."""
        if method == MANTIS:
            return f"-{self.content[:8]}"
        return f"-{self.seconds:g}s" if method == OURS else ""

    @cached_property
    def content(self) -> str:
        """The digest of the weights of Mantis. Raises: BadInput where the folder holds none."""
        if self.mantis is None:
            raise BadInput("--methods: 'mantis' reads weights, which cannot be downloaded here; add --mantis FOLDER")
        checkpoint = read_checkpoint(self.mantis)
        if checkpoint.fields.family not in ("mantis", "mantis_v2"):
            raise BadInput(
                f"--mantis: {str(self.mantis)!r} holds a model of family {checkpoint.fields.family!r}; name a folder with "
                "config.json and model.safetensors of Mantis or MantisV2"
            )
        return checkpoint.content

    def command(self, method: str, arrays: Path, out: Path) -> list[str]:
        """What runs a rival."""
        apart = method == MANTIS
        folder = self.environment.with_name(f"{self.environment.name}-mantis") if apart else self.environment
        python = environment(folder, HERE / ("fit_mantis.txt" if apart else "fit_against.txt"))
        weights = [self.mantis] if apart else []
        return [*map(str, (python, HERE / "fit_rivals.py", method, SEED, arrays, out, *weights))]


@cache
def environment(folder: Path, packages: Path) -> Path:
    """The Python of a rivals' environment, which is made where it is absent or its list of packages has changed."""
    wanted = packages.read_text("utf-8")
    python, mark = folder / "bin" / "python", folder / "made-from.txt"
    if not mark.exists() or mark.read_text("utf-8") != wanted:
        venv.EnvBuilder(with_pip=True, clear=True).create(folder)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", packages], check=True)
        mark.write_text(wanted, "utf-8")
    return python


def arrays_of(dataset: Set, work: Path) -> tuple[Path, Sequences]:
    """The file of (n, F, L) arrays that rivals read, and the test rows.

    Gaps are crossed in straight lines, shorter sequences end in their last value, letters are channels of 0 and 1, and texts the
    codes of their first characters. Letters and texts are there as bytes, too.
    """
    paths = files_of(dataset, work)
    train = read_sequences(paths[0], dataset.layout)
    test = read_sequences(paths[1], train.layout.fixed())
    out = work / "files" / f"{plain_name(dataset.name)}.npz"
    if not out.exists():
        longest = int(max(train.lengths.max(), test.lengths.max()))
        longest = min(longest, POSITIONS) if _is_text(train) else longest
        arrays: dict[str, Any] = {"target": train.codes(train.classes)}
        for side, rows in (("train", train), ("test", test)):
            arrays[side] = _dense(rows, longest)
            if rows.values.ndim == 1:
                arrays[f"{side}_letters"] = _letters(rows)
        out.parent.mkdir(parents=True, exist_ok=True)
        np.savez(out, **arrays)
    return out, test


def shuffled(dataset: Set) -> Set:
    """A table of tab-separated rows, the label first, with the labels of its train rows dealt anew."""

    def files(work: Path) -> tuple[Path, Path, None]:
        train, test = files_of(dataset, work)
        heads = int(dataset.layout.header is not False)
        lines = [line.partition("\t") for line in train.read_text("utf-8").splitlines()]
        order = [*range(heads), *(heads + np.random.default_rng(SEED).permutation(len(lines) - heads)).tolist()]
        text = "".join(f"{lines[i][0]}\t{line[2]}\n" for i, line in zip(order, lines, strict=True))
        work.mkdir(parents=True, exist_ok=True)
        (path := work / f"shuffled{train.suffix}").write_text(text, "utf-8")
        return path, test, None

    return replace(dataset, name=dataset.name + SHUFFLED, files=files)


def _is_text(rows: Sequences) -> bool:
    return rows.values.ndim == 1 and rows.width == 256


def _letters(rows: Sequences) -> np.ndarray:
    """(n,) bytes: those of a text, or a letter for each code."""
    codes = rows.values.astype(np.uint8) + (0 if _is_text(rows) else ord("A"))
    return np.array([codes[a:b].tobytes() for a, b in pairwise(rows.offsets.tolist())])


def _dense(rows: Sequences, longest: int) -> np.ndarray:
    text = _is_text(rows)
    out = np.zeros((len(rows), 1 if text else rows.width, longest), np.float32)
    for row in range(len(rows)):
        values = rows.values[rows.offsets[row] : rows.offsets[row + 1]][:longest]
        if values.ndim == 1:
            wide = values[:, None].astype(np.float32) if text else np.eye(rows.width, dtype=np.float32)[values]
        else:
            wide = values.astype(np.float32)
        if rows.observed is not None:
            there = rows.observed[rows.offsets[row] : rows.offsets[row + 1]]
            position = np.arange(len(wide))
            wide = np.stack(
                [
                    np.interp(position, position[seen], column[seen]) if seen.any() else np.zeros(len(wide))
                    for column, seen in zip(wide.T, there.T, strict=True)
                ],
                axis=1,
            )
        out[row, :, : len(wide)] = wide.T
        out[row, :, len(wide) :] = 0 if values.ndim == 1 else wide.T[:, -1:]
    return out


def measure(dataset: Set, method: str, work: Path, methods: Methods) -> dict[str, Any]:
    """One method on one set, as JSON material."""
    arrays, test = arrays_of(dataset, work)
    command = [] if method == OURS else methods.command(method, arrays, work / "rival.json")
    begun, used = time.monotonic(), _processor_seconds()
    try:
        if method == OURS:
            predicted, more = _fit(dataset, work, methods)
        else:
            predicted, more = _rival(command, work, read_sequences(files_of(dataset, work)[0], dataset.layout))
    except subprocess.TimeoutExpired:
        predicted, more = [], {"error": f"took more than {LIMIT:,} s"}
    except subprocess.CalledProcessError as error:
        text = error.stderr.decode(errors="replace")
        last = text.rstrip().rpartition("\n")[2]
        if not last.startswith(GIVEN_UP) and "can't allocate memory" not in text and "MemoryError" not in text:
            sys.exit(f"{dataset.name}, {method}: {error}\n{text[-2000:]}")
        predicted, more = [], {"error": last.removeprefix(GIVEN_UP) if GIVEN_UP in last else "ran out of memory"}
    took, used = time.monotonic() - begun, _processor_seconds() - used
    if method == OURS and predicted:
        more |= _scores(dataset, work, methods.seconds, test)
    right = [a == b for a, b in zip(predicted, test.labels, strict=bool(predicted))]
    sizes = {"test": len(test), "length": int(test.lengths.max()), "classes": len(test.classes)}
    return {
        "set": dataset.name,
        "method": method,
        "seed": SEED,
        "accuracy": mean(right) if right else None,
        "seconds": used,
        "wall": took,
        "load": os.getloadavg()[0],
        "headstart": version("headstart"),
        "date": date.today().isoformat(),
        "machine": machine(),
        **({"clock": "wall" if methods.wall else "processor"} if method == OURS else {}),
        **({"weights": methods.content} if method == MANTIS else {}),
        **sizes,
        **more,
    }


def _headstart(*words: object, start: Sequence[str] = ("-m", "headstart")) -> None:
    """Run the command line with one thread."""
    command = [sys.executable, *start, *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, env={**os.environ, **ONE_THREAD})


def _fit(dataset: Set, work: Path, methods: Methods) -> tuple[list[str], dict[str, Any]]:
    """`headstart fit` on train alone, in a folder of its own, and `headstart predict` on test."""
    train, test = files_of(dataset, work)
    seconds, start = methods.seconds, ("-m", "headstart") if methods.wall else ("-c", CLOCK)
    folder = _folder(dataset, work, seconds)
    words = [f"{name}={json.dumps(value)}" for name, value in dataset.layout.model_dump(exclude_unset=True).items()]
    options = ["--test-share", "0", "--time", f"{seconds:g}s", "--workers", "0", "--device", "cpu"]
    begun = time.monotonic()
    into = ["--split-seed", SEED, "-o", folder, "--store", f"{folder}-store"]
    _headstart("fit", train, *words, *options, *into, start=start)
    fitted = time.monotonic() - begun
    answers = folder.with_suffix(".csv")
    _headstart("predict", folder, test, "-o", answers)
    config, plan = (json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("config", "plan"))
    with answers.open(newline="", encoding="utf-8") as file:
        predicted = [row["prediction"].removeprefix("'") for row in csv.DictReader(file)]
    _, _, readme = (folder / "README.md").read_text("utf-8").partition("\n# ")
    more = {"fit_seconds": fitted, "serves": config["serve"], "given": seconds, "says": readme.split("\n\n")[1]}
    return predicted, {**more, "learnt": plan["learnt"], "made_by": config["made_by"]}


def _folder(dataset: Set, work: Path, seconds: float) -> Path:
    """Where a fit is written."""
    return work / "fits" / f"{plain_name(dataset.name)}-{seconds:g}s-{SEED}"


def _scores(dataset: Set, work: Path, seconds: float, test: Sequences) -> dict[str, Any]:
    """Log-loss and calibration error of what a fit serves, and accuracy and both of each of its models, on test.

    right: a bit for each test row, in hexadecimal digits.
    """
    folder, file = _folder(dataset, work, seconds), files_of(dataset, work)[1]
    config = json.loads((folder / "config.json").read_text("utf-8"))
    models = {}
    for name in [*(["network"] if config["network"] else []), *config["classics"]]:
        answers = folder.with_name(f"{folder.name}-{name}.csv")
        _headstart("predict", folder, file, "-o", answers, "--use", name)
        models[name] = scores_of(answers, config["preparation"]["classes"], test.labels)
        del models[name]["right"]
    return {**scores_of(folder.with_suffix(".csv"), config["preparation"]["classes"], test.labels), "models": models}


def scores_of(answers: Path, classes: Sequence[str], labels: Sequence[str | None]) -> dict[str, Any]:
    """Of a file of predictions. Probabilities below 1e-6 count as that; the calibration error is of the answer's own
    probability, in 15 bins of equal width."""
    with answers.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    first = next(i for i, column in enumerate(head) if column.startswith("p_"))
    chances = np.array([row[first : first + len(classes)] for row in rows], float)
    truth = np.array([classes.index(label) for label in labels])
    right = chances.argmax(1) == truth
    return {
        "accuracy": float(right.mean()),
        "log_loss": -float(np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-6)).mean()),
        "calibration_error": reliability(truth, chances).error,
        "calibration_by_chance": error_by_chance(chances),
        "right": np.packbits(right).tobytes().hex(),
    }


def error_by_chance(chances: np.ndarray) -> float:
    """The mean calibration error of (n, K) probabilities that are right: their answers hold as often as they say."""
    rng, answers, sure = np.random.default_rng(SEED), chances.argmax(1), chances.max(1)
    draws = [np.where(rng.random(len(sure)) < sure, answers, answers - 1) % chances.shape[1] for _ in range(DRAWN)]
    return mean(reliability(truth, chances).error for truth in draws)


def _processor_seconds() -> float:
    """Of all processes that were run from here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rival(command: Sequence[str], work: Path, train: Sequences) -> tuple[list[str], dict[str, Any]]:
    variables = {**os.environ, **ONE_THREAD, "PYTHONPATH": "", "NUMBA_CACHE_DIR": str(work / "numba")}
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, env=variables)
    answer = json.loads((work / "rival.json").read_text("utf-8"))
    return [train.classes[code] for code in answer.pop("predicted")], answer


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-against"))
    words.add_argument(
        "--environment", type=Path, default=Path.home() / ".cache" / "headstart-benchmarks" / "fit-against"
    )
    words.add_argument("--part", choices=PARTS)
    words.add_argument("--methods", nargs="*", default=[OURS, *RIVALS, NGRAMS], choices=[*TITLES])
    words.add_argument("--fit-time", type=float, default=20.0)
    words.add_argument("--wall", action="store_true", help="seconds by the clock on the wall, not by the processor's")
    words.add_argument("--mantis", type=Path, metavar="FOLDER", help="weights of Mantis or MantisV2: another rival")
    words.add_argument("--write", action="store_true")
    words.add_argument("sets", nargs="*", metavar="SET")
    options = words.parse_args()
    work = options.work.absolute()
    if options.mantis is not None and MANTIS not in options.methods:
        options.methods.append(MANTIS)
    methods = Methods(options.fit_time, options.environment, options.mantis, options.wall)
    try:
        variants = {method: methods.variant(method) for method in options.methods}
    except BadInput as error:
        sys.exit(str(error))
    if options.write:
        rows = [json.loads(path.read_text("utf-8")) for path in sorted((work / "results").glob("*.json"))]
        chosen = [row for row in rows if row["method"] in options.methods]
        gather([row for row in chosen if row["method"] != MANTIS or row["weights"] == methods.content])
        return
    sets = {dataset.name: dataset for dataset in [*all_sets(options.data, work), *other_sets(options.data)]}
    sets |= {name: shuffled(sets[name.removesuffix(SHUFFLED)]) for name in CONTROL if name in options.sets}
    parts = [options.part] if options.part else [] if options.sets else PARTS
    for name in dict.fromkeys([*options.sets, *(name for part in parts for name in sets_of(part))]):
        for method in options.methods:
            if method == NGRAMS and sets[name].family not in LETTERS:
                continue
            path = work / "results" / f"{plain_name(name)}-{method}{variants[method]}-{SEED}.json"
            row = once(path, partial(measure, sets[name], method, work, methods))
            score = "failed" if row["accuracy"] is None else f"{row['accuracy']:.4f}"
            print(f"{name:28} {method:18} {score} {row['seconds']:8.1f} s", row.get("serves", ""), flush=True)


if __name__ == "__main__":
    main()
