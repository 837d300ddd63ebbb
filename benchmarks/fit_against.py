"""What `headstart fit` serves against the classifiers that a practitioner could have run, on the same rows and core.

    python benchmarks/fit_against.py --data DIR [--work DIR] [--part choosing|reporting|other] [--methods NAME ...] [--seeds N]
                                     [--fit-time SECONDS] [--mantis FOLDER] [--write] [SET ...]

DIR holds ucr/, uea/, biology/, fsdd/, mnist/, cifar10/, imdb/ and listops/ (docs/results/own.md names their sources). fit_against.toml says which sets are for
choosing, which for reporting and which are neither, fit_against.txt what the rivals run with: an environment of their own, made once in
--environment. --mantis names a folder of weights of Mantis or MantisV2, which then is a rival, too: frozen, read by its authors'
own package (fit_mantis.txt, another environment beside the first). Everything runs with one thread. Each (set, method, seed) is one JSON file in the work folder, and what is
there is not done again. `fit` is the command line: `headstart fit` on the train rows alone, then `headstart predict` on the
test rows; seconds are processor seconds of whole processes, start and imports included, for rivals too. --write makes the page of the
reporting sets, docs/benchmarks/fit.md, and all rows beside it as JSON.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from fit_rivals import GIVEN_UP
from harness import (
    CHARACTERS,
    HERE,
    NONE,
    PAGES,
    RESIDUES,
    Set,
    all_sets,
    days_of,
    files_of,
    filled,
    markdown,
    once,
    other_sets,
    parser_of,
    plain_name,
    sets_of,
    write,
)
from scipy import stats

from headstart.checkpoints.read import read_checkpoint
from headstart.data import read_sequences
from headstart.data.sequences import Sequences
from headstart.errors import BadInput
from headstart.runner.machine import machine, version
from headstart.words import listed

PAGE = PAGES / "fit.md"
OURS = "fit"
RIVALS = ("minirocket", "multirocket_hydra", "quant", "boosting", "inception")
MANTIS, NGRAMS = "mantis", "ngrams"
TITLES = {
    OURS: "headstart fit",
    "minirocket": "MiniRocket",
    "multirocket_hydra": "MultiRocket-Hydra",
    "hydra": "Hydra",
    "quant": "QUANT",
    "boosting": "gradient boosting",
    "inception": "InceptionTime (1 network)",
    MANTIS: "Mantis (frozen)",
    NGRAMS: "TF-IDF",
}
NOT_RUN = {
    ("quant", "spoken digits"): "its run was ended, unfinished, after ten processor minutes",
    (
        "inception",
        "spoken digits",
    ): "an epoch of its training would take about 80 processor minutes, and it has two in all",
}
"""Why a method was not run on a set, where it is known."""
SEEN = "Worms"
"""A set for reporting whose test rows were looked at before a default was changed."""
ECG5000 = 4_499
"""Rows of its test file, of whose 4,500 official ones one lacks."""
FEW_EPOCHS = 20
"""Epochs of the network below which its accuracy says little."""
POSITIONS = 1_024
"""Characters of a text that rivals read as a series of numbers."""
LIMIT = 3_600
"""Seconds after which a method is given up on a set, which is noted."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


PARTS = ("choosing", "reporting", "other")
"""Of fit_against.toml."""
LETTERS = ("DNA", "proteins", "text")
"""Families of sets that n-grams can be counted of."""


@dataclass(frozen=True)
class Methods:
    """How methods run: ours with so many seconds, rivals in environments made from their lists of packages.

    mantis: the folder of weights that Mantis reads.
    """

    seconds: float
    environment: Path
    mantis: Path | None = None

    def variant(self, method: str) -> str:
        """What names of result files say beside set, method and seed: the seconds of `fit`, which weights Mantis reads."""
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

    def command(self, method: str, seed: int, arrays: Path, out: Path) -> list[str]:
        """What runs a rival."""
        apart = method == MANTIS
        folder = self.environment.with_name(f"{self.environment.name}-mantis") if apart else self.environment
        python = environment(folder, HERE / ("fit_mantis.txt" if apart else "fit_against.txt"))
        weights = [self.mantis] if apart else []
        return [*map(str, (python, HERE / "fit_rivals.py", method, seed, arrays, out, *weights))]


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


def measure(dataset: Set, method: str, seed: int, work: Path, methods: Methods) -> dict[str, Any]:
    """One method on one set, as JSON material."""
    arrays, test = arrays_of(dataset, work)
    command = [] if method == OURS else methods.command(method, seed, arrays, work / "rival.json")
    begun, used = time.monotonic(), _processor_seconds()
    try:
        if method == OURS:
            predicted, more = _fit(dataset, seed, work, methods.seconds)
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
        more |= _scores(dataset, work, seed, methods.seconds, test)
    right = [a == b for a, b in zip(predicted, test.labels, strict=bool(predicted))]
    sizes = {"test": len(test), "length": int(test.lengths.max()), "classes": len(test.classes)}
    return {
        "set": dataset.name,
        "method": method,
        "seed": seed,
        "accuracy": mean(right) if right else None,
        "seconds": used,
        "wall": took,
        "load": os.getloadavg()[0],
        "headstart": version("headstart"),
        "date": date.today().isoformat(),
        "machine": machine(),
        **({"weights": methods.content} if method == MANTIS else {}),
        **sizes,
        **more,
    }


def _fit(dataset: Set, seed: int, work: Path, seconds: float) -> tuple[list[str], dict[str, Any]]:
    """`headstart fit` on train alone, in a folder of its own, and `headstart predict` on test."""
    train, test = files_of(dataset, work)
    folder = _folder(dataset, work, seed, seconds)
    words = [f"{name}={json.dumps(value)}" for name, value in dataset.layout.model_dump(exclude_unset=True).items()]
    command = [sys.executable, "-m", "headstart"]
    options = ["--test-share", "0", "--time", f"{seconds:g}s", "--workers", "0", "--device", "cpu"]
    options += ["--split-seed", str(seed), "-o", str(folder), "--store", f"{folder}-store"]
    variables = {**os.environ, **ONE_THREAD}
    run: dict[str, Any] = {"check": True, "capture_output": True, "timeout": LIMIT, "env": variables}
    begun = time.monotonic()
    subprocess.run([*command, "fit", str(train), *words, *options], **run)
    fitted = time.monotonic() - begun
    answers = folder.with_suffix(".csv")
    subprocess.run([*command, "predict", str(folder), str(test), "-o", str(answers)], **run)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    with answers.open(newline="", encoding="utf-8") as file:
        predicted = [row["prediction"].removeprefix("'") for row in csv.DictReader(file)]
    return predicted, {"fit_seconds": fitted, "serves": config["serve"], "given": seconds}


def _folder(dataset: Set, work: Path, seed: int, seconds: float) -> Path:
    """Where a fit is written."""
    return work / "fits" / f"{plain_name(dataset.name)}-{seconds:g}s-{seed}"


def _scores(dataset: Set, work: Path, seed: int, seconds: float, test: Sequences) -> dict[str, Any]:
    """Log-loss and calibration error of what a fit serves, and accuracy and log-loss of each of its models, on test.

    Probabilities below 1e-6 count as that. The calibration error is of the answer's own probability, in 15 bins of equal width.
    """
    folder = _folder(dataset, work, seed, seconds)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    classes: list[str] = config["preparation"]["classes"]
    truth = np.array([classes.index(label) for label in test.labels])
    models: dict[str, dict[str, float]] = {}
    for name in ("", *(["network"] if config["network"] else []), *config["classics"]):
        answers = folder.with_name(f"{folder.name}-{name}.csv") if name else folder.with_suffix(".csv")
        if name:
            command = [sys.executable, "-m", "headstart", "predict", str(folder), str(files_of(dataset, work)[1]), "-o", str(answers), "--use", name]
            subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, env={**os.environ, **ONE_THREAD})
        with answers.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        first = next(i for i, column in enumerate(head) if column.startswith("p_"))
        chances = np.array([row[first : first + len(classes)] for row in rows], float)
        top, right = chances.max(1), chances.argmax(1) == truth
        bins = np.minimum((top * 15).astype(int), 14)
        off = sum(abs(float((right[bins == b] - top[bins == b]).sum())) for b in range(15)) / len(truth)
        loss = -float(np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-6)).mean())
        models[name] = {"accuracy": float(right.mean()), "log_loss": loss, "calibration_error": off}
    return {**models.pop(""), "models": models}


def _processor_seconds() -> float:
    """Of all processes that were run from here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rival(command: Sequence[str], work: Path, train: Sequences) -> tuple[list[str], dict[str, Any]]:
    variables = {**os.environ, **ONE_THREAD, "PYTHONPATH": "", "NUMBA_CACHE_DIR": str(work / "numba")}
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT, env=variables)
    answer = json.loads((work / "rival.json").read_text("utf-8"))
    return [train.classes[code] for code in answer.pop("predicted")], answer


def averaged(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, float, int]]]:
    """Set -> method -> (mean accuracy over seeds, mean seconds, seeds), of what was measured."""
    out: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        if row["accuracy"] is not None:
            out.setdefault(row["set"], {}).setdefault(row["method"], []).append(row)
    return {
        name: {
            method: (mean(r["accuracy"] for r in some), mean(r["seconds"] for r in some), len(some))
            for method, some in methods.items()
        }
        for name, methods in out.items()
    }


def summary(table: Mapping[str, Mapping[str, tuple[float, float, int]]], methods: Sequence[str]) -> list[list[str]]:
    """Lines of method, mean rank, mean accuracy and median seconds over the sets that have all of these methods."""
    from scipy.stats import rankdata

    whole = [row for row in table.values() if all(method in row for method in methods)]
    if not whole:
        return []
    ranks = np.array([rankdata([-round(row[m][0], 9) for m in methods]) for row in whole])
    lines = [
        (
            float(ranks[:, i].mean()),
            [
                TITLES[m],
                f"{ranks[:, i].mean():.2f}",
                f"{mean(row[m][0] for row in whole):.4f}",
                f"{np.median([row[m][1] for row in whole]):.1f}",
                f"{sum(row[m][1] for row in whole):,.0f}",
            ],
        )
        for i, m in enumerate(methods)
    ]
    return [line for _, line in sorted(lines)]


def lines_of(
    table: Mapping[str, Mapping[str, tuple[float, float, int]]],
    methods: Sequence[str],
    beside: Mapping[str, Mapping[str, float]],
) -> Iterator[list[str]]:
    """A line per set, those where `fit` loses most to the best rival first. beside: published accuracies."""

    def gap(name: str) -> float:
        row = table[name]
        rivals = [row[m][0] for m in methods if m in row and m != OURS]
        return row[OURS][0] - max(rivals) if rivals and OURS in row else 0.0

    for name in sorted(table, key=gap):
        row = table[name]
        best = max(row[m][0] for m in methods if m in row)
        cells = []
        for m in methods:
            text = f"{row[m][0]:.3f} ({row[m][1]:.0f} s)" if m in row else NONE
            cells.append(f"**{text}**" if m in row and row[m][0] == best else text)
        text = f"{gap(name):+.3f}".replace("-", "\N{MINUS SIGN}") if OURS in row and len(row) > 1 else NONE
        yield [name, text, *cells, *(f"{rows[name]:.3f}" if name in rows else NONE for rows in beside.values())]


def against_each(
    table: Mapping[str, Mapping[str, tuple[float, float, int]]], methods: Sequence[str]
) -> list[list[str]]:
    """A line for each rival: over the sets that both have, how often `fit` is more accurate, and by how much."""
    lines = []
    for rival in methods:
        shared = [row for row in table.values() if OURS in row and rival in row]
        if rival == OURS or len(shared) < 2:
            continue
        gains = np.array([row[OURS][0] - row[rival][0] for row in shared])
        seconds = np.array([row[OURS][1] - row[rival][1] for row in shared])
        half = float(stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
        even = np.where(np.abs(gains) < 5e-5, 0.0, gains)  # what is published has four decimals
        chance = float(stats.wilcoxon(even).pvalue) if even.any() else 1.0
        counts = (int((even > 0).sum()), int((even == 0).sum()), int((even < 0).sum()))
        text = f"{gains.mean():+.3f} [{gains.mean() - half:+.3f}, {gains.mean() + half:+.3f}]"
        words = [
            TITLES.get(rival, rival),
            str(len(gains)),
            " / ".join(map(str, counts)),
            text,
            f"{chance:.2f}" if chance >= 0.005 else "< 0.01",
        ]
        lines.append([cell.replace("-", "\N{MINUS SIGN}") if i == 3 else cell for i, cell in enumerate(words)])
        took = float(np.median(seconds))
        lines[-1].append(NONE if np.isnan(took) else f"{took:+.0f} s".replace("-", "\N{MINUS SIGN}"))
    return lines


def as_published() -> dict[str, dict[str, Any]]:
    """Method -> what its authors published: `source`, `other_splits` where it is of other splits, accuracy by set."""
    return tomllib.loads((HERE / "fit_published.toml").read_text("utf-8"))


def against_published(table: Mapping[str, Mapping[str, tuple[float, float, int]]]) -> list[list[str]]:
    """A line for each method that published accuracies on the official test rows."""
    official = {f"{name}, published": rows for name, rows in as_published().items() if "other_splits" not in rows}
    whole = {
        name: {**row, **{title: (rows[name], float("nan"), 1) for title, rows in official.items() if name in rows}}
        for name, row in table.items()
    }
    return against_each(whole, [OURS, *official])


SUMMARY = ("method", "mean rank", "mean accuracy", "median processor seconds", "in all")
AGAINST = ("rival", "sets", "wins / ties / losses", "difference", "p", "more seconds")


def page(
    parts: Mapping[str, Mapping[str, Any]],
    methods: Sequence[str],
    fit_time: float,
    seeds: int,
    measured: Sequence[Mapping[str, Any]],
) -> str:
    """The page: the reporting sets first, losses first, then the choosing sets and the others. measured: a row per result."""
    everywhere, methods = methods, [method for method in methods if method != NGRAMS]
    failed = _lacking({name: parts[name] for name in ("choosing", "reporting")}, methods, measured)
    return filled(
        "fit",
        fit_time=fit_time,
        reporting=_part("reporting", "Sets for reporting", parts["reporting"], methods, failed),
        choosing=_part("choosing", "Sets that defaults were chosen on", parts["choosing"], methods, []),
        other=_others(parts, everywhere, measured),
        seeds=seeds,
        days=_of_days(measured),
        version=version("headstart"),
        epochs=_of_epochs(measured),
        mantis=_of_mantis(methods),
        splits=_of_splits(measured),
        sources="; ".join(f"{name}: {rows['source']}" for name, rows in as_published().items()),
    )


def _part(
    part: str,
    title: str,
    table: Mapping[str, Mapping[str, tuple[float, float, int]]],
    methods: Sequence[str],
    failed: Sequence[str],
) -> str:
    """A section of sets for one purpose. failed: what was not measured."""
    if not table:
        return f"## {title}\n\nNot measured yet."
    letters = [name for name in table if name.startswith(("promoters", "splice"))]
    numbers = {name: row for name, row in table.items() if name not in letters}
    whole = [row for row in table.values() if all(m in row for m in methods)]
    return filled(
        "fit-part",
        title=title,
        measured=len(table),
        sets=len(sets_of(part)),
        whole=len(whole),
        lost=sum(row[OURS][0] < max(v[0] for m, v in row.items() if m != OURS and m in methods) for row in whole),
        summary=markdown(SUMMARY, summary(table, methods)),
        without=_without(SEEN, table, methods) if SEEN in table else "",
        against=markdown(AGAINST, against_each(table, methods)),
        letters=len(letters),
        summary_of_numbers=markdown(SUMMARY, summary(numbers, methods)),
        against_on_numbers=markdown(AGAINST, against_each(numbers, methods)),
        lacking=f"Not measured: {'; '.join(failed)}." if failed else "",
        lines=_lines(table, methods, as_published()),
        published=markdown(AGAINST, lines) if (lines := against_published(table)) else "",
    )


def _lines(
    table: Mapping[str, Mapping[str, tuple[float, float, int]]],
    methods: Sequence[str],
    beside: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[str]:
    """beside: published figures, in columns of their own where there are any of these sets."""
    shown = {name: rows for name, rows in (beside or {}).items() if table.keys() & rows.keys()}
    heads = [f"{name}, {rows.get('other_splits', 'published')}" for name, rows in shown.items()]
    return markdown(["set", "gap", *(TITLES[m] for m in methods), *heads], list(lines_of(table, methods, shown)))


def _without(seen: str, table: Mapping[str, Mapping[str, tuple[float, float, int]]], methods: Sequence[str]) -> str:
    """A sentence: the first two methods by mean rank on the other sets."""
    others = {name: row for name, row in table.items() if name != seen}
    first = [
        f"{title} has a mean rank of {rank} and a mean accuracy of {accuracy}"
        for title, rank, accuracy, *_ in summary(others, methods)[:2]
    ]
    return f"Without {seen}, after a look at whose test rows a default was changed (below): {', '.join(first)}."


def _others(
    parts: Mapping[str, Mapping[str, Any]], methods: Sequence[str], measured: Sequence[Mapping[str, Any]]
) -> str:
    """Images, texts, proteins and lists, with n-grams as a rival of all sets of letters."""
    table = parts["other"]
    if not table:
        return ""
    failed = _lacking({"other": table}, [m for m in methods if m != NGRAMS], measured)
    letters = {name: row for part in parts.values() for name, row in part.items() if NGRAMS in row}
    dna = {name: row for name, row in letters.items() if name not in table}
    return filled(
        "fit-other",
        residues=RESIDUES,
        characters=CHARACTERS,
        positions=POSITIONS,
        lines=_lines(table, methods),
        against=markdown(AGAINST, against_each(table, methods)),
        lacking=f"Not measured: {'; '.join(failed)}." if failed else "",
        dna_title="TF-IDF on the sets of DNA of the two lists above:" if dna else "",
        dna=_lines(dna, (OURS, NGRAMS)) if dna else "",
    )


def _of_days(measured: Sequence[Mapping[str, Any]]) -> str:
    """When and where the rows were measured."""
    machines = listed(sorted({row["machine"] for row in measured}))
    return f"{days_of([row['date'] for row in measured])}, {machines}"


def _lacking(
    parts: Mapping[str, Mapping[str, Any]], methods: Sequence[str], measured: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Which methods have no accuracy on which sets, and why."""
    run = {(row["method"], row["set"]): row.get("error") for row in measured}
    why = {
        pair: NOT_RUN.get(pair, "not run")
        for table in parts.values()
        for name in table
        for pair in product(methods, [name])
    }
    return [
        f"{TITLES[pair[0]]} on {pair[1]} ({text})" for pair, reason in why.items() if (text := run.get(pair, reason))
    ]


def _of_epochs(measured: Sequence[Mapping[str, Any]]) -> str:
    """For how many epochs the network was trained, and where for few."""
    epochs = {row["set"]: row["epochs"] for row in measured if row["method"] == "inception" and "epochs" in row}
    few = [name for name, number in epochs.items() if number < FEW_EPOCHS]
    if not epochs:
        return ""
    return f", which is {min(epochs.values()):,} to {max(epochs.values()):,} epochs" + (
        f" (fewer than {FEW_EPOCHS} on {listed(few)}, where its accuracy says little)" if few else ""
    )


def _of_splits(measured: Sequence[Mapping[str, Any]]) -> str:
    """Which sets are tested on a fifth of the rows."""
    text = "The DNA sets have no official test split; a fifth of the rows is used. "
    tested = {row["test"] for row in measured if row["set"] == "ECG5000"}
    if tested == {ECG5000}:
        text += f"The test file of ECG5000 has {ECG5000:,} of its 4,500 official rows. "
    elif tested:
        text += (
            f"The official test rows of ECG5000 ({ECG5000:,} of 4,500) were not used here: its results are from before they were "
            f"read, on {min(tested)} of its train rows. "
        )
    return text


def _of_mantis(methods: Sequence[str]) -> str:
    if MANTIS not in methods:
        return "Mantis is absent because its weights were not available."
    return (
        "Mantis is read by its authors' package (benchmarks/fit_mantis.txt), not by ours: logistic regression on frozen features "
        "of its third layer, which its authors chose on UCR, whose sets are most of these."
    )


def publish(path: Path = PAGE) -> None:
    """Write the page of the rows beside it."""
    measured = json.loads(path.with_suffix(".json").read_text("utf-8"))
    parts = {part: averaged([row for row in measured if row["set"] in sets_of(part)]) for part in PARTS}
    methods = [name for name in [OURS, *RIVALS, MANTIS, NGRAMS] if any(row["method"] == name for row in measured)]
    fit_time, seeds = (max(row.get(key, 0) for row in measured) for key in ("given", "seed"))
    write(path, page(parts, methods, fit_time, seeds + 1, measured))


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-against"))
    words.add_argument(
        "--environment", type=Path, default=Path.home() / ".cache" / "headstart-benchmarks" / "fit-against"
    )
    words.add_argument("--part", choices=PARTS)
    words.add_argument("--methods", nargs="*", default=[OURS, *RIVALS, NGRAMS], choices=[*TITLES])
    words.add_argument("--seeds", type=int, default=1)
    words.add_argument("--fit-time", type=float, default=20.0)
    words.add_argument("--mantis", type=Path, metavar="FOLDER", help="weights of Mantis or MantisV2: another rival")
    words.add_argument("--write", action="store_true")
    words.add_argument("sets", nargs="*", metavar="SET")
    options = words.parse_args()
    work = options.work.absolute()
    sets = {dataset.name: dataset for dataset in [*all_sets(options.data, work), *other_sets(options.data)]}
    if options.mantis is not None and MANTIS not in options.methods:
        options.methods.append(MANTIS)
    methods = Methods(options.fit_time, options.environment, options.mantis)
    try:
        variants = {method: methods.variant(method) for method in options.methods}
    except BadInput as error:
        sys.exit(str(error))
    parts: dict[str, dict[str, Any]] = {}
    measured: list[dict[str, Any]] = []
    for part in PARTS:
        rows = []
        for name in sets_of(part):
            asked = part == options.part or (options.part is None and not options.sets) or name in options.sets
            for method in options.methods if asked and not options.write else []:
                for seed in range(options.seeds if method != NGRAMS or sets[name].family in LETTERS else 0):
                    path = work / "results" / f"{plain_name(name)}-{method}{variants[method]}-{seed}.json"
                    row = once(path, partial(measure, sets[name], method, seed, work, methods))
                    shown = "failed" if row["accuracy"] is None else f"{row['accuracy']:.4f}"
                    print(
                        f"{name:28} {method:18} {seed} {shown} {row['seconds']:8.1f} s",
                        row.get("serves", ""),
                        flush=True,
                    )
            for method in options.methods:
                for path in sorted(
                    (work / "results").glob(f"{plain_name(name)}-{method}{variants[method]}-[0-9]*.json")
                ):
                    rows.append(json.loads(path.read_text("utf-8")))
        parts[part] = averaged(rows)
        measured += rows
        print(part)
        for line in summary(parts[part], [m for m in options.methods if m != NGRAMS]):
            print("  ", "  ".join(line))
    if options.write:
        PAGE.with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        write(PAGE, page(parts, options.methods, options.fit_time, options.seeds, measured))


if __name__ == "__main__":
    main()
