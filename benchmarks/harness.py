"""What the scripts of this folder share: data sets, results that are measured once, tables, and pages of text and numbers.

The texts of pages lie in texts/NAME.md, with the numbers' places in braces.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from scipy import stats

from headstart.data import LayoutSpec, read_sequences
from headstart.data.splits import dealt
from headstart.runner.machine import machine, version

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
PAGES, RESULTS = (HERE.parent / "docs" / name for name in ("benchmarks", "results"))
NONE = "\N{EM DASH}"
"""A cell without a number."""
FILMS = (200, 1_000, 5_000)
FILMS_TEST, FILMS_MORE = 2_000, 1_000
FILMS_TIMES = 4
"""So many times the usual time: in that alone networks would train on film reviews for a hundred steps."""
OTHERS, RESIDUES, CHARACTERS, POSITIONS = 1_000, 500, 1_000, 1_024
"""Rows of train and of test of the sets that `fit_against.py` alone has, the longest proteins and lists among them, and
how many characters of a text rivals read."""
DRAWS = 2_000
"""Bootstrap draws of an interval over sets."""
CLOCK = (
    "import sys, time; time.monotonic = time.perf_counter = time.process_time; from headstart.cli import main; main()"
)
"""The command line by a clock that is the processor's time of one process (`--workers 0`): what a core that is free would take."""
PROMOTERS = ("Ecoli", "Bacillus", "Arabidopsis_tata", "Mouse_tata")


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """The words of a script, whose help is its docstring."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def once(path: Path, measure: Callable[[], Any]) -> Any:
    """What `measure` gives, as JSON material: measured and kept in a file, or read from it where it is there."""
    if not path.exists():
        document = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1), "utf-8")
    return json.loads(path.read_text("utf-8"))


def in_process(script: str, *words: str | int) -> Any:
    """The JSON that a script prints last, in a process of its own; None where that dies, as when memory ran out."""
    done = subprocess.run([sys.executable, script, *map(str, words)], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


class Took(NamedTuple):
    """Seconds of the wall clock and of the processor, MiB at the most, and what was printed."""

    wall: float
    processor: float
    memory: float
    output: str = ""


def headstart(folder: Path, *words: str, source: Path = SOURCE, code: str | None = None) -> Took:
    """Run the command line of the version in `source`, or this code, with its store in the folder. Raises: RuntimeError
    where it fails."""
    environment = {**os.environ, "PYTHONPATH": str(source), "HEADSTART_STORE": str(folder / "runs")}
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # Python keeps its bytecode, as it does unless it is told otherwise
    began, output = time.perf_counter(), folder / "output.txt"
    with output.open("w") as file:
        command = [sys.executable, *(("-m", "headstart") if code is None else ("-c", code)), *words]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
    wall, process.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(output.read_text("utf-8"))
    return Took(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.read_text("utf-8"))


def plain_name(name: str) -> str:
    """The name of a set as part of a file's name."""
    return "".join(c if c.isalnum() else "-" for c in name)


def markdown(
    heads: Sequence[str], lines: Sequence[Sequence[str]], names: int = 1, rule: Sequence[str] | None = None
) -> list[str]:
    """A table in Markdown: its first `names` columns of text, the others of numbers; or as `rule` aligns them."""
    rule = rule or ["---"] * names + ["---:"] * (len(heads) - names)
    return ["| " + " | ".join(line) + " |" for line in (heads, rule, *lines)]


def gain_text(values: np.ndarray) -> str:
    """A mean over sets with its 95 % t-interval."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return interval_text((values.mean(), values.mean() - half, values.mean() + half))


def over_sets(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float]:
    """The mean over sets of (second - first) on the same rows, with its interval by a bootstrap over sets and their rows."""
    rng = np.random.default_rng(0)
    differences = [second - first for first, second in pairs]
    sets = rng.integers(len(differences), size=(DRAWS, len(differences)))
    drawn = [[d[rng.integers(len(d), size=len(d))].mean() for d in (differences[i] for i in draw)] for draw in sets]
    low, high = np.quantile(np.mean(drawn, axis=1), (0.025, 0.975))
    return float(np.mean([d.mean() for d in differences])), float(low), float(high)


def interval_text(interval: tuple[float, float, float], digits: int = 3) -> str:
    """A mean with its interval."""
    text = "{:+.{n}f} [{:+.{n}f}, {:+.{n}f}]".format(*interval, n=digits)
    return text.replace("-", "\N{MINUS SIGN}")


def made_here(package: str) -> str:
    """Today, the machine and the version of a package, as pages say when and where they were measured."""
    return f"{date.today().isoformat()}, {machine()}, {package} {version(package)}"


def days_of(dates: Sequence[str]) -> str:
    """`2026-11-24 to 2026-11-26`, or the one day."""
    return " to ".join(dict.fromkeys((min(dates), max(dates))))


def filled(name: str, /, **fields: Any) -> str:
    """The page of texts/NAME.md with these fields: lists are lines, and paragraphs without anything are left out."""
    lines = {key: "\n".join(value) if isinstance(value, list) else value for key, value in fields.items()}
    text = (HERE / "texts" / f"{name}.md").read_text("utf-8").format(**lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def with_head(page: str, text: str) -> str:
    """A page whose part before its first section is this; the sections stay as they are."""
    _, mark, rest = page.partition("\n## ")
    return text.rstrip() + "\n" + ("\n## " + rest if mark else "")


def with_section(page: str, heading: str, text: str) -> str:
    """A page with this section in the place of the one of its heading, or at its end; other sections stay as they are."""
    parts = re.split(r"(?m)^(?=## )", page)
    section = f"## {heading}\n\n{text.strip()}\n"
    places = [number for number, part in enumerate(parts) if part.startswith(f"## {heading}\n")]
    parts[places[0] if places else len(parts) :] = [section, *(parts[places[0] + 1 :] if places else [])]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def write(path: Path, text: str) -> None:
    """Write a page, and say where it is."""
    path.write_text(text, "utf-8")
    print(path)


def sets_of(part: str | None) -> list[str]:
    """Names of the sets of a part (None: of all), in the order of the list."""
    table = tomllib.loads((HERE / "fit_against.toml").read_text("utf-8"))
    return [name for names in table.values() for name in names] if part is None else list(table[part])


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
            lambda work, n=labels: imdb_reviews(data, n, work),  # type: ignore[misc]
            LayoutSpec(target="label", values=("text",), target_kind="class"),
            FILMS_TIMES,
        )


def imdb_reviews(data: Path, labels: int, work: Path) -> tuple[Path, Path, Path]:
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


def files_of(dataset: Set, work: Path) -> tuple[Path, Path]:
    """The train and the test file; without an official test split a fifth of the rows, each class in proportion."""
    folder = work / "files" / plain_name(dataset.name)
    train, test, _ = dataset.files(folder)
    if test is not None:
        return train, test
    both = folder / f"kept{train.suffix}", folder / f"held{train.suffix}"
    if not all(path.exists() for path in both):
        rows = read_sequences(train, dataset.layout)
        sides = dealt(rows.codes(rows.classes), rows.copies(), {"test": 0.2}, 0)
        lines = train.read_text("utf-8").splitlines(keepends=True)
        head, body = (lines[:0], lines) if dataset.layout.header is False else (lines[:1], lines[1:])
        for path, side in zip(both, ("train", "test"), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join([*head, *(body[row] for row in sides[side].tolist())]), "utf-8")
    return both
