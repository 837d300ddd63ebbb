"""`headstart fit` on real sets: from scratch, self-pretrained and without a network; how they rank, and when it helps.

    python benchmarks/own_results.py --data DIR [--work DIR] [--time SECONDS] [--workers N] [SET ...]

DIR holds ucr/, uea/, biology/, fsdd/ and imdb/ (docs/results/own.md names their sources). Each set is fitted with the
defaults and its official test split, where it has one; self-pretraining is taken even where `fit` would leave it out, so
that each set has the comparison. A set that is finished in the work folder is not done again, so that the sets may be
fitted on several days. When all are there, the numbers go to docs/results/own.json, and `make results` makes the page,
docs/results/own.md, of them.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import math
import re
import statistics
import tarfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.stats import t as t_distribution

from headstart.data import LayoutSpec
from headstart.fit.outcome import Candidate, Outcome
from headstart.fit.perform import fit_sequences
from headstart.fit.settings import FitSettings
from headstart.report.figures.style import MARKS, canvas, legend_of, png
from headstart.report.tables.model import Table, text_table, to_markdown
from headstart.runner.machine import machine, version
from headstart.study.statistics import LEVEL, Difference, corrected
from headstart.study.words import duration, listed, score, signed, with_power

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "own.md"
NUMBERS = PAGE.with_suffix(".json")
RIVALS = HERE.parent / "docs" / "benchmarks" / "fit.json"
SIDES = HERE / "fit_against.toml"
MODELS = ("scratch", "self_pretrained", "kernels", "summary", "majority")
NETWORKS = ("scratch", "self_pretrained")
MORE = ("inception", "ensemble")
"""Models that not every set has: the second network, and the average of networks and kernels."""
FILMS = (200, 1_000, 5_000)
FILMS_TEST, FILMS_MORE = 2_000, 1_000
FILMS_TIMES = 4
"""So many times the usual time: in that alone networks would train on film reviews for a hundred steps."""
OTHERS, RESIDUES, CHARACTERS = 1_000, 500, 1_000
"""Rows of train and of test of the sets that `fit_against.py` alone has, and the longest proteins and lists among them."""
PROMOTERS = ("Ecoli", "Bacillus", "Arabidopsis_tata", "Mouse_tata")


@dataclass(frozen=True)
class Set:
    """One set: what prepares its files in a folder and gives train, test and unlabelled, and how they are read.

    times: so many times the usual time.
    """

    name: str
    family: str
    files: Callable[[Path], tuple[Path, Path | None, Path | None]]
    layout: LayoutSpec = field(default_factory=LayoutSpec)
    times: int = 1


def unpack(archive: Path, work: Path) -> Path:
    """The folder of an archive, unpacked once."""
    folder = work / archive.name.partition(".")[0]
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as whole:
            whole.extractall(folder, filter="data")
        (folder / ".done").write_text("")
    return folder


def all_sets(data: Path, work: Path) -> list[Set]:
    """Every set that the data folder has."""
    return [*_ucr(data, work), *_uea(data, work), _spoken(data, work), *_dna(data, work), *_films(data)]


def _ucr(data: Path, work: Path) -> Iterator[Set]:
    folder = unpack(data / "ucr" / "ucr.tar.xz", work)
    for train in sorted(folder.rglob("*_TRAIN.tsv")):
        test = train.with_name(train.name.replace("_TRAIN", "_TEST"))
        for array in train.parent.glob("*_TEST_*.npy") if not test.exists() else ():  # ECG5000, of whose rows one lacks
            np.savetxt(test, np.load(array, allow_pickle=False), "%.9g", "\t")
        yield Set(
            train.name.removesuffix("_TRAIN.tsv"),
            "UCR",
            lambda _, a=train, b=test: (a, b, None),  # type: ignore[misc]
            LayoutSpec(header=False, target="1", target_kind="class"),
        )


def _uea(data: Path, work: Path) -> Iterator[Set]:
    folder = unpack(data / "uea" / "uea_2.tar.xz", work)
    for train in sorted(folder.rglob("*_TRAIN.ts")):
        test = train.with_name(train.name.replace("_TRAIN", "_TEST"))
        yield Set(train.name.removesuffix("_TRAIN.ts"), "UEA", lambda _, a=train, b=test: (a, b, None))  # type: ignore[misc]


def _spoken(data: Path, work: Path) -> Set:
    """Spoken digits, a folder per digit; recordings 0 to 4 of each speaker are the test, as their authors say."""
    folder = unpack(data / "fsdd" / "fsdd_wav.tar.xz", work)

    def files(work: Path) -> tuple[Path, Path, None]:
        for wave in folder.rglob("*.wav"):
            digit, _, number = wave.stem.split("_")
            target = work / ("test" if int(number) < 5 else "train") / digit
            target.mkdir(parents=True, exist_ok=True)
            if not (target / wave.name).exists():
                (target / wave.name).write_bytes(wave.read_bytes())
        return work / "train", work / "test", None

    return Set("spoken digits", "sound", files)


def _dna(data: Path, work: Path) -> Iterator[Set]:
    folder = unpack(data / "biology" / "dna.tar.xz", work)
    splice = next(folder.rglob("uci_splice.tsv"))
    yield Set("splice junctions", "DNA", lambda _: (splice, None, None), LayoutSpec(target="label"))
    for name in PROMOTERS:
        yield Set(
            f"promoters {name}",
            "DNA",
            lambda work, n=name: (_promoters(folder, n, work), None, None),  # type: ignore[misc]
            LayoutSpec(target="label", kind="dna"),
        )


def _promoters(folder: Path, name: str, work: Path) -> Path:
    """One table of promoters and other pieces of one species; pieces with letters besides A, C, G, T are left out."""
    plain = name.partition("_")[0]
    other = {
        "Ecoli": "Ecoli_non_prom",
        "Bacillus": "Bacillus_non_prom",
        "Arabidopsis": "Arabidopsis_non_prom",
        "Mouse": "Mouse_nonprom",
    }[plain]
    first = f"{name}_prom" if plain in ("Ecoli", "Bacillus") else name
    out = work / "pieces.tsv"
    lines = ["label\tsequence"]
    for label, file in (("promoter", first), ("other", other)):
        for piece in _fasta(next(folder.rglob(f"{file}.fa"))):
            if set(piece) <= set("ACGT"):
                lines.append(f"{label}\t{piece}")
    work.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n")
    return out


def _fasta(path: Path) -> Iterator[str]:
    pieces: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            if pieces:
                yield "".join(pieces).upper()
            pieces = []
        else:
            pieces.append(line.strip())
    if pieces:
        yield "".join(pieces).upper()


def _films(data: Path) -> Iterator[Set]:
    """Reviews, so many of them labelled; the first 1,000 others serve self-pretraining alone."""
    for labels in FILMS:
        yield Set(
            f"IMDb, {labels:,} labels",
            "text",
            lambda work, n=labels: _reviews(data, n, work),  # type: ignore[misc]
            LayoutSpec(target="label", values=("text",), target_kind="class"),
            FILMS_TIMES,
        )


def _reviews(data: Path, labels: int, work: Path) -> tuple[Path, Path, Path]:
    work.mkdir(parents=True, exist_ok=True)
    with lzma.open(data / "imdb" / "imdb_train.jsonl.xz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    kinds = [[row for row in rows if row["label"] == label] for label in (0, 1)]
    order = [row for pair in zip(*kinds, strict=True) for row in pair]
    with lzma.open(data / "imdb" / "imdb_test.jsonl.xz", "rt", encoding="utf-8") as file:
        test = [json.loads(line) for line in file]
    step = len(test) // FILMS_TEST
    paths = work / "train.jsonl", work / "test.jsonl", work / "more.jsonl"
    for path, some in zip(paths, (order[:labels], test[::step], order[labels : labels + FILMS_MORE]), strict=True):
        path.write_text("".join(json.dumps({"label": str(r["label"]), "text": r["text"]}) + "\n" for r in some))
    return paths


def other_sets(data: Path) -> list[Set]:
    """Sets of `fit_against.py` alone: images row by row, proteins and nested lists, 1,000 rows for train and for test."""
    tables = {
        "MNIST": ("images", _digits),
        "CIFAR-10": ("images", _pictures),
        "proteins": ("proteins", _proteins),
        "ListOps": ("text", _lists),
    }
    return [
        Set(name, family, lambda work, r=rows: (*_table(work, *r(data)), None), LayoutSpec(target="label"))  # type: ignore[misc]
        for name, (family, rows) in tables.items()
    ]


Rows = Iterator[tuple[str, Sequence[object]]]
"""A label, then a text or numbers."""


def _table(work: Path, *sides: Rows) -> tuple[Path, Path]:
    """Two tables of so many rows each: a label, then a text or numbers."""
    work.mkdir(parents=True, exist_ok=True)
    paths = work / "train.tsv", work / "test.tsv"
    for path, side in zip(paths, sides, strict=True):
        rows = list(islice(side, OTHERS))
        head = ["label", *(["sequence"] if len(rows[0][1]) == 1 else (f"t{i}" for i in range(len(rows[0][1]))))]
        path.write_text(
            "".join("\t".join(map(str, row)) + "\n" for row in [head, *([a, *b] for a, b in rows)]), "utf-8"
        )
    return paths


def _digits(data: Path) -> tuple[Rows, Rows]:
    """784 grey values of a digit."""

    def side(name: str) -> Rows:
        pixels, labels = (
            gzip.decompress((data / "mnist" / f"{name}-{kind}-ubyte.gz").read_bytes())
            for kind in ("images-idx3", "labels-idx1")
        )
        images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 784)
        for image, label in zip(images, labels[8:], strict=True):
            yield f"digit {label}", image.tolist()

    return side("train"), side("t10k")


def _pictures(data: Path) -> tuple[Rows, Rows]:
    """1,024 grey values of a picture, every class in turn."""

    def side(name: str) -> Rows:
        with tarfile.open(data / "cifar10" / "cifar10_jpeg.tar.xz") as archive:
            members = [m for m in archive.getmembers() if m.isfile() and Path(m.name).parts[-3] == name]
            turns = sorted(members, key=lambda m: (int(Path(m.name).stem), Path(m.name).parts[-2]))
            chosen = {m.name: m for m in turns[:OTHERS]}
            for member in sorted(chosen.values(), key=lambda m: m.offset):
                image = Image.open(io.BytesIO(archive.extractfile(member).read()))  # type: ignore[union-attr]
                yield Path(member.name).parts[-2], np.asarray(image.convert("L")).reshape(-1).tolist()

    return side("train"), side("test")


def _proteins(data: Path) -> tuple[Rows, Rows]:
    """Proteins of at most 500 residues and where in the cell they are: the sets of Staerk et al., of which train is not here."""

    def side(name: str) -> Rows:
        with tarfile.open(data / "biology" / "protein.tar.xz") as archive:
            member = next(m for m in archive.getmembers() if m.name.endswith(f"/{name}.fasta"))
            text = archive.extractfile(member).read().decode()  # type: ignore[union-attr]
        rows = []
        for record in text.split(">")[1:]:
            head, _, letters = record.partition("\n")
            sequence = letters.replace("\n", "").upper()
            if len(sequence) <= RESIDUES:
                rows.append((head.split()[1].rpartition("-")[0], [sequence]))
        yield from (rows[number * len(rows) // OTHERS] for number in range(OTHERS))  # the files go from class to class

    return side("deeploc_our_val_set"), side("deeploc_test_set")


def _lists(data: Path) -> tuple[Rows, Rows]:
    """Nested lists of at most 1,000 characters and their value; a file of 10,000 rows without a split."""

    def side(skipped: int) -> Rows:
        with lzma.open(data / "listops" / "test_d20s.tsv.xz", "rt", encoding="utf-8") as file:
            rows = (line.rstrip("\n").split("\t") for line in file)
            for value, text in islice((row for row in rows if len(row[1]) <= CHARACTERS), skipped, None):
                yield f"value {value}", [text]

    return side(0), side(OTHERS)


def measure(dataset: Set, work: Path, seconds: float, workers: int) -> dict[str, Any]:
    """A fit of one set, as JSON material; read again where it is finished."""
    name = "".join(c if c.isalnum() else "-" for c in dataset.name)
    path = work / "fits" / f"{name}.json"
    if path.exists():
        result: dict[str, Any] = json.loads(path.read_text())
        return result
    train, test, unlabelled = dataset.files(work / "files" / name)
    settings = FitSettings(layout=dataset.layout, test=test, unlabelled=unlabelled, time=seconds, pretrain=True)
    begun = time.monotonic()
    outcome = fit_sequences(train, settings, out=work / "fits" / name, store=work / "runs" / name, workers=workers)
    result = {
        "name": dataset.name,
        "family": dataset.family,
        "time": seconds,
        "seconds": round(time.monotonic() - begun, 1),
        "sizes": dict(outcome.sizes),
        "classes": len(outcome.labels),
        "length": outcome.card.facts["lengths"]["median"],
        "serves": outcome.serves,
        "served": outcome.test.scores["accuracy"],
        "plan": list(outcome.plan),
        "models": {c.name: _row(c) for c in outcome.candidates},
        "gain": _gain(outcome),
        "machine": machine(),
        "versions": {package: version(package) for package in ("torch", "headstart")},
        "date": date.today().isoformat(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1))
    return result


def _row(candidate: Candidate) -> dict[str, Any]:
    row = candidate.row
    return {
        "n": row.n,
        "chosen": dict(row.chosen),
        "seconds": round(row.budget.get("seconds", 0.0), 3),
        **{
            split: None if score is None else {"mean": score.mean, "sem": score.sem}
            for split, score in (("val", row.val), ("test", row.test))
        },
    }


def _gain(outcome: Outcome) -> dict[str, Any] | None:
    gap = next((c.row.difference for c in outcome.candidates if c.name == "self_pretrained"), None)
    return None if gap is None else {"mean": gap.mean, "low": gap.low, "high": gap.high, "n": gap.n}


def test_of(result: Mapping[str, Any], model: str) -> float | None:
    """Mean test accuracy of one model of a set, where it was trained."""
    scored = result["models"].get(model, {}).get("test")
    return None if not scored else float(scored["mean"])


def rivals_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Set -> the best test accuracy of another project's classifier there (rows of fit_against.py, seed 0)."""
    best: dict[str, float] = {}
    for row in rows:
        if row["method"] != "fit" and row["seed"] == 0 and row.get("accuracy") is not None:
            best[row["set"]] = max(best.get(row["set"], 0.0), row["accuracy"])
    return best


def same_rows(results: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of rivals that saw the test rows of the fit: of sets with a test file of their own, and all of its rows."""
    own = {result["name"]: result["sizes"]["test"] for result in results if "from its own file" in result["plan"][0]}
    return [row for row in rows if own.get(row["set"]) == row["test"]]


def gain_of(result: Mapping[str, Any]) -> Difference | None:
    """The gain of self-pretraining with its interval over paired runs."""
    gain = result["gain"]
    if gain is None:
        return None
    n, half = gain["n"], None if gain["low"] is None else (gain["high"] - gain["low"]) / 2
    sem = None if half is None else half / float(t_distribution.ppf(0.975, n - 1))
    return Difference(gain["mean"], sem, gain["low"], gain["high"], n)


def late(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sets whose time left less than half of the steps, with the share."""
    out = []
    for result in results:
        for line in result["plan"]:
            share = re.search(r"leaves (\d+)% of the steps", line)
            if share and int(share[1]) < 50:
                out.append(f"{result['name']} ({share[1]} %)")
    return out


def gap_of(result: Mapping[str, Any], rivals: Mapping[str, float]) -> float:
    """What is served less the best of all others on test: our own models and the rivals. Below 0: a loss."""
    others = [
        test for model in result["models"] if model != result["serves"] and (test := test_of(result, model)) is not None
    ]
    return float(result["served"]) - max([*others, *([rivals[result["name"]]] if result["name"] in rivals else [])])


def ranks(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean rank of each model on test over the sets that have all of them; equal scores share a rank."""
    from scipy.stats import rankdata

    rows = [[test_of(result, model) for model in MODELS] for result in results]
    whole = [rankdata([-test for test in row if test is not None]) for row in rows if None not in row]
    return {m: float(sum(row[i] for row in whole) / len(whole)) for i, m in enumerate(MODELS)} if whole else {}


def table(
    results: Sequence[Mapping[str, Any]], rivals: Mapping[str, float], sides: Mapping[str, Sequence[str]]
) -> Table:
    """All sets, those where `fit` loses most first."""
    heads = ["set", "used for", "train labels", "length", "classes", "gap", "served", *MODELS, *MORE, "best rival"]
    lines = []
    for result in sorted(results, key=lambda result: (round(gap_of(result, rivals), 3), result["name"])):
        name = result["name"]
        side = "choosing" if name in sides["choosing"] else "reporting"
        lines.append(
            [
                name,
                side,
                f"{result['sizes']['labelled']:,}",
                f"{result['length']:,.0f}",
                str(result["classes"]),
                signed(gap_of(result, rivals)),
                f"{score(result['served'])} ({result['serves']})",
                *(_cell(result, model) for model in (*MODELS, *MORE)),
                score(rivals[name]) if name in rivals else "\N{EM DASH}",
            ]
        )
    return text_table(heads, lines, names=2)


def _cell(result: Mapping[str, Any], model: str) -> str:
    mean = test_of(result, model)
    if mean is None:
        return "\N{EM DASH}"
    row = result["models"][model]
    spread = f" ± {row['test']['sem']:.3f}" if row["test"]["sem"] is not None else ""
    return score(mean) + spread + (f" (n {row['n']})" if row["n"] < SEEDS else "")


def gains_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """What self-pretraining gained on each set, the greatest loss first."""
    gaps = {result["name"]: gap for result in results if (gap := gain_of(result)) is not None}
    standing, lines = corrected(gaps), []
    for result in sorted((r for r in results if r["name"] in gaps), key=lambda r: r["gain"]["mean"]):
        name, (before, after) = result["name"], (test_of(result, model) for model in NETWORKS)
        steps = next((line.partition(";")[0] for line in result["plan"] if line.startswith("training: ")), "")
        lines.append(
            [
                name,
                with_power(gaps[name]),
                f"{standing[name]:.2g}" if name in standing else "\N{EM DASH}",
                str(gaps[name].n),
                *(score(value) if value is not None else "\N{EM DASH}" for value in (before, after)),
                steps.removeprefix("training: "),
            ]
        )
    return text_table(["set", "gain", "p (Holm)", "n", *NETWORKS, "training"], lines, names=1)


def plot(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Gain of self-pretraining against the number of labels, with intervals."""
    with canvas(False, 7.6, 4.2) as (figure, look):
        axes = figure.add_subplot()
        known = [result for result in results if result["gain"] and result["gain"]["low"] is not None]
        for i, family in enumerate(dict.fromkeys(result["family"] for result in known)):
            some = [result for result in known if result["family"] == family]
            gains = [result["gain"] for result in some]
            reach = [[g["mean"] - g["low"] for g in gains], [g["high"] - g["mean"] for g in gains]]
            labels, means = [result["sizes"]["labelled"] for result in some], [g["mean"] for g in gains]
            axes.errorbar(
                labels, means, reach, fmt=MARKS[i], color=look.colour(i), markersize=5, label=family, alpha=0.85
            )
        axes.axhline(0, color=look.quiet, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_ylim(-0.5, 0.5)
        axes.set_xlabel("labelled train sequences")
        axes.set_ylabel("gain in test accuracy over scratch")
        legend_of(figure, axes)
    path.write_bytes(png(figure, 150))


def page_of(results: Sequence[Mapping[str, Any]]) -> str:
    """The page, of the results of all sets."""
    rivals, sides = rivals_of(same_rows(results, json.loads(RIVALS.read_text()))), tomllib.loads(SIDES.read_text())
    gaps = {result["name"]: round(gap_of(result, rivals), 3) for result in results}
    lost, level = sum(gap < 0 for gap in gaps.values()), sum(gap == 0 for gap in gaps.values())
    order = sorted(ranks(results).items(), key=lambda pair: pair[1])
    gains = {result["name"]: gap for result in results if (gap := gain_of(result)) is not None}
    clear = {name: gap.mean for name, gap in gains.items() if gap.clear}
    above = sum(gain > 0 for gain in clear.values())
    standing = sum(p < 1 - LEVEL for p in corrected(gains).values())
    middle = statistics.median(gap.mean for gap in gains.values()) if gains else math.nan
    ahead = sum(
        max((test for m in (*NETWORKS, "inception") if (test := test_of(result, m)) is not None), default=0.0)
        > (test_of(result, "kernels") or 0.0)
        for result in results
    )
    times = Counter(result["time"] for result in results)
    usual = times.most_common(1)[0][0]
    longer = [(t, sorted({r["family"] for r in results if r["time"] == t})) for t in sorted(times) if t != usual]
    allowed = [
        f"{duration(usual)} a set",
        *(f"{duration(t)} on the {times[t]} of {listed(names)}" for t, names in longer),
    ]
    where = listed(list(dict.fromkeys(result["machine"] for result in results)))
    versions = {f"{name} {value}" for result in results for name, value in result["versions"].items()}
    dates = sorted({result["date"] for result in results})
    parts = [
        "# A person's own data: what `fit` serves, and its networks and models without one",
        f"On {len(results)} sets, `headstart fit` with {listed(allowed)}: what it serves is less "
        f"accurate on test than the best of its other models and of other projects' classifiers on {lost} sets, equal on "
        f"{level} and ahead on {len(results) - lost - level}. A network is ahead of kernels (n-grams) on {ahead}. "
        f"Self-pretraining raises a network's test accuracy clearly on {above} sets and lowers it clearly on "
        f"{len(clear) - above} ({standing} after Holm's correction for {len(gains)} sets); on {len(gains) - len(clear)} the "
        f"interval over runs holds 0. The middle gain is {signed(middle)}.",
        "Mean rank on test, 1 the best: " + ", ".join(f"{name} {rank:.2f}" for name, rank in order) + ".",
        "## What is served",
        to_markdown(table(results, rivals, sides)).strip(),
        NOTE,
        "## What self-pretraining gains",
        to_markdown(gains_table(results)).strip(),
        "![Gain against number of labels](figures/own-gain.png)",
        "Gain of self-pretraining in test accuracy over the labelled train sequences, with 95 % intervals. Detectable: the smallest "
        "true gain that so many runs would show with a chance of 80 %. p: of the t-test, corrected for the number of sets.",
        *([f"The time left less than half of the usual steps on {listed(few)}."] if (few := late(results)) else []),
        "## Defaults, and what they gained on validation",
        "\n".join("| " + " | ".join(line) + " |" for line in (HEADS, ["---"] * len(HEADS), *DEFAULTS)),
        CHOSEN,
        "## What was done",
        f"`python benchmarks/own_results.py --data DIR --time {usual:g}`; each fit ends within its time, so that long "
        f"sequences and many rows train for fewer steps. Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on "
        f"{where}, {', '.join(sorted(versions))}; {duration(sum(result['seconds'] for result in results))} in all.",
        SOURCES,
    ]
    return "\n\n".join(parts) + "\n"


SEEDS = 3
"""Runs of a set that has the usual rows; smaller ones have as many as folds."""
NOTE = (
    "Test accuracy on the official test split (UCR, UEA, spoken digits, 2,084 reviews of IMDb) or on a fifth of the rows. "
    "Served: the run on whose validation rows the served model was chosen, before it is fitted again on train and validation, "
    "as `fit` reports it. The other columns: mean ± standard error over the runs that chose it, at least three (n, where the "
    "time ended before), each on another fold where rows are few. Gap: what is served less the best of all others on test, which nobody can "
    "choose in advance; the sets where it is lowest come first. Columns: the network from random weights, and self-pretrained on the same sequences; "
    "convolution kernels with ridge (DNA and text: a linear model of n-grams); a linear model of summary features; the "
    "commonest class; the second network, where there was time for it, and the average of kernels and networks; the best of the classifiers of other projects that [fit.md](../benchmarks/fit.md) measures, trained on "
    "all rows but those of test, each with the time that it takes (none where they saw other test rows, for want of an official "
    "test file or from before it was read). Used for: which sets are for choosing defaults of `fit` and which for reporting was decided before the first "
    "comparison (benchmarks/fit_against.toml; film reviews are for reporting here). Of the defaults in the table of the "
    "last section, five were chosen with an eye on other rows than validation rows of sets for choosing; three of these involve sets "
    "for reporting: Worms, ItalyPowerDemand and IMDb. Self-pretraining is forced on this page (`pretrain=True` in `measure`), so that the rule of when `fit` "
    "expects it to pay moves none of these rows."
)
NOT = "not measured"
DEFAULTS = (
    (
        "network, and how positions become one vector",
        "attention with rotary positions; the mean",
        "S4D; the largest",
        "four UCR sets",
        "ahead; by how much was not kept",
        "validation rows of train rows",
    ),
    (
        "norm of networks of numbers",
        "layer norm",
        "batch norm",
        "ECG200, ArrowHead, OSULeaf, Trace",
        "+0.034, +0.089, +0.017, 0 (S4D)",
        "three of five folds of train rows",
    ),
    (
        "networks of numbers",
        "S4D",
        "S4D and convolutions (`inception`); validation chooses",
        "the same",
        "convolutions less S4D, both with batch norm: −0.017, 0, +0.050, 0; of the choice between both: " + NOT,
        "three of five folds of train rows",
    ),
    (
        "symbols beyond 512 (not proteins)",
        "cut at 512",
        "up to 8 joined into one",
        "source files of six Python packages; promoters Mouse_tata",
        "+0.057 in the same time; +0.014 and +0.015 (2 and 4 joined, against none; nothing is cut there)",
        "validation rows, one seed ([decision 21](../decisions/0021-joined-tokens.md))",
    ),
    (
        "proteins beyond 512",
        "cut at 512",
        "cut at 512, as joining 3 lost",
        "1,174 proteins",
        "−0.052 by joining",
        "validation rows, two seeds",
    ),
    (
        "positions of networks of aligned letters",
        "none",
        "learned",
        "splice junctions, promoters Bacillus",
        "+0.136 and +0.009 (1,000 steps, two seeds; `fit_choice.py --letters`)",
        "first validation rows of which some are test rows of this page; validation rows of its own split since",
    ),
    (
        "kernels of numbers",
        "random",
        "random and competing",
        "ten sets for choosing",
        "+0.004 [−0.006, +0.014]; first +0.029, +0.015 and +0.010 on ArrowHead, OSULeaf and ECG200 "
        "([fit-features.md](../benchmarks/fit-features.md))",
        "five folds of train rows",
    ),
    (
        "choice below 300 rows",
        "one fold",
        "all five folds, before any network is trained",
        "six sets for choosing",
        "+0.026 [−0.004, +0.056] ([fit-choice.md](../benchmarks/fit-choice.md))",
        "outer folds of train rows; but that folds come first was decided after a look at a test score of Worms",
    ),
    (
        "folds below 300 rows, models without a network",
        "dealt once",
        "dealt anew until at least 300 answers choose, or three times",
        "six sets for choosing",
        "+0.007 [−0.012, +0.026], all of it on Coffee with 28 rows ([fit-choice.md](../benchmarks/fit-choice.md)); the sets of this page "
        "were measured before",
        "outer folds of train rows",
    ),
    (
        "features of kernels that would take more than a third of `--time`",
        "as many as else",
        "no competing kernels, then a quarter of the random ones",
        "none",
        NOT + ": a limit is to be kept",
        "none; no set of this page reaches it in five minutes",
    ),
    (
        "second fit of a model without a network",
        "none",
        "on train and validation",
        "six sets for choosing",
        "+0.011 [−0.013, +0.036] ([fit-choice.md](../benchmarks/fit-choice.md))",
        "outer folds of train rows",
    ),
    (
        "second fit of a network",
        "none",
        "all steps on train and validation",
        "seven sets for choosing",
        "+0.025 [+0.000, +0.051] ([fit-again.md](../benchmarks/fit-again.md))",
        "an outer fifth of train rows",
    ),
    (
        "average of network and kernels (`ensemble`)",
        "no candidate",
        "a candidate like others",
        "ECG200, ArrowHead, SyntheticControl, OSULeaf",
        "0: chosen on none of the four, 0.006 to 0.067 below its better member",
        "folds of train rows",
    ),
    (
        "when a network is served",
        "it is best on validation",
        "its lead on validation is clear (the 95 % interval lies above 0)",
        "ECG200, ArrowHead, ItalyPowerDemand; nine sets for choosing",
        "+0.001 [−0.027, +0.030] ([fit-serving.md](../benchmarks/fit-serving.md))",
        "test rows: an earlier state of this page had shown losses there; outer folds of train rows since",
    ),
    (
        "networks of symbols",
        "always trained",
        "only where there is time for 1,000 steps",
        "IMDb with 200, 1,000 and 5,000 labels",
        "n-grams less the network at 351, 976 and 524 steps: +0.300, +0.268 and +0.233",
        "test rows: in an earlier state of this page networks of 30 steps were at chance; validation rows since",
    ),
    (
        "symbols where the time is short",
        "512 positions, two rates",
        "half or a quarter of the positions, and one rate, before a network takes fewer than 1,000 steps",
        "none",
        NOT,
        "none",
    ),
    (
        "self-pretraining",
        "always",
        "left out with fewer than 300 steps, or where it is not expected to help and the time leaves less than half of the steps",
        "those of this page and of [pretraining-pays.md](pretraining-pays.md)",
        "counts of gains above +0.01 on validation rows alone give the same rule ([pretraining-pays.md](pretraining-pays.md))",
        "test rows of an earlier state of both pages; validation rows since",
    ),
    (
        "change of train sequences (`--augment`)",
        "none",
        "none",
        "ECG200, ArrowHead, OSULeaf",
        "below +0.01 by each way ([fit-augment.md](../benchmarks/fit-augment.md))",
        "three of five folds of train rows",
    ),
)
"""Each default that changed: what it was and is, on which sets that was decided, its gain there, and which rows were seen."""
HEADS = ("default", "before", "now", "on which sets", "gain in validation accuracy", "rows seen")
CHOSEN = (
    "Five were chosen with an eye on other rows than validation rows of sets for choosing. That folds come before a network was decided after a look "
    "at a test score of Worms; the choice over all folds is measured on choosing sets alone in "
    "[fit-choice.md](../benchmarks/fit-choice.md), where it gains +0.026 [−0.004, +0.056]. When self-pretraining is left out rested on "
    "test accuracies of earlier states of two pages; validation rows alone give the same rule, and this page forces it. Positions of letters were chosen on rows of splice "
    "junctions and promoters Bacillus of which some are test rows here; on validation rows of this page's own split they gain as "
    "the table says. That a network is served only where its lead is clear was "
    "decided after an earlier state of this page had shown losses on ECG200, ArrowHead and ItalyPowerDemand; on outer folds of train "
    "rows it neither gains nor costs clearly. That a "
    "network of symbols is trained only where there is time for 1,000 steps was decided after networks of some 30 steps had been at "
    "chance on the test rows of IMDb; on its validation rows they are far below n-grams with more steps, too. That symbols are read at fewer positions before a network takes fewer steps than that was "
    "measured on no row. A gain on several sets stands in their order, or as the mean over sets with its 95 % interval; the sets are "
    "few, and others would gain otherwise."
)
SOURCES = (
    "Sources: UCR archive (Dau et al. 2018), UEA archive (Bagnall et al. 2018), Free Spoken Digit Dataset (Jackson et "
    "al.), splice junctions (UCI), promoters (Umarov and Solovyev 2017), IMDb (Maas et al. 2011)."
)


def publish(folder: Path) -> None:
    """Write the page and its figure of the numbers in a folder."""
    results = json.loads((folder / NUMBERS.name).read_text("utf-8"))
    (folder / "figures").mkdir(exist_ok=True)
    plot(results, folder / "figures" / "own-gain.png")
    (folder / PAGE.name).write_text(page_of(results), "utf-8")


def main() -> None:
    words = argparse.ArgumentParser(description="Fit real sets with the defaults.")
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("own-results"))
    words.add_argument("--time", type=float, default=300.0)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("sets", nargs="*")
    options = words.parse_args()
    every = all_sets(options.data, options.work)
    results = []
    for dataset in every:
        if options.sets and dataset.name not in options.sets:
            continue
        results.append(measure(dataset, options.work, dataset.times * options.time, options.workers))
        text = ", ".join(f"{m} {score(test)}" for m in MODELS if (test := test_of(results[-1], m)) is not None)
        print(f"{dataset.name}: {text} ({duration(results[-1]['seconds'])})", flush=True)
    if len(results) == len(every):  # the same command without names makes the numbers of what is finished
        NUMBERS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        publish(NUMBERS.parent)
        print(PAGE)


if __name__ == "__main__":
    main()
