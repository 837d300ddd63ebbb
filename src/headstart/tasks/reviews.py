"""IMDb's 50,000 reviews from whatever form they are in: aclImdb folders or archive, JSON lines, Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headstart.data.archives import listed, members, stamps
from headstart.data.prepared import Builder, Prepared, Writer, prepared
from headstart.data.problems import Mistakes
from headstart.data.rows import in_order, label_of, read_rows, text_of
from headstart.data.splits import groups
from headstart.errors import BadInput

OFFICIAL = {"train": 25_000, "test": 25_000}
ORIGIN = (
    "IMDb's reviews (Maas et al. 2011) are at https://ai.stanford.edu/~amaas/data/sentiment "
    "(aclImdb_v1.tar.gz) and, as Parquet files, at https://huggingface.co/datasets/stanfordnlp/imdb"
)
SAME = ({"0": "0", "1": "1"}, {"neg": "0", "pos": "1"}, {"negative": "0", "positive": "1"})
"""Ways to write the two labels of IMDb."""
_READER = 1
"""Raised when the same files give other arrays."""

_REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos)/([^/]+)\.txt$")
_FILE = re.compile(r"^(?:.*[_.-])?(train|test)(?:[_.-].*)?\.(?:jsonl(?:\.gz|\.xz)?|parquet)$")
_ARCHIVE = re.compile(r"^aclImdb.*\.(?:tar|tgz|tar\.gz|tar\.xz|tar\.bz2)$")


class Review(NamedTuple):
    """One review: its split, label and text, its number within split and label (-1: not known), its place."""

    split: str
    label: str
    number: int
    text: bytes
    place: str


def find(data: Path, task: str) -> tuple[Path | None, tuple[Path, ...]]:
    """The folder or archive of text files, or None where files hold many reviews each; and all files.

    Looked for in `imdb/` and `aclImdb/` of the data folder: folders `train/neg` and so on, then files named
    train and test that end in .jsonl (or .jsonl.gz, .jsonl.xz) or .parquet, then aclImdb's archive.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    folders = [data / "imdb", data / "imdb" / "aclImdb", data / "aclImdb", data / "imdb" / "plain_text"]
    for root in folders:
        if any((root / split / label).is_dir() for split in OFFICIAL for label in ("neg", "pos")):
            files = tuple(root / name for name in listed(root, lambda n: _REVIEW.search(n) is not None))
            return root, files
    for ending in (".jsonl", ".parquet"):
        for root in folders:
            some = sorted(p for p in root.glob("*") if _FILE.match(p.name) and ending in p.name)
            if some:
                lost = [split for split in OFFICIAL if not any(_split(p) == split for p in some)]
                if lost:
                    raise BadInput(
                        f"task.kind: {task!r}: {root} has {some[0].name} and no file named "
                        f"{' or '.join(lost)} beside it; {ORIGIN}; put it there"
                    )
                return None, tuple(sorted(some, key=lambda p: (_split(p) == "test", p.name)))
    for root in folders:
        for archive in sorted(p for p in root.glob("*") if _ARCHIVE.match(p.name)):
            return archive, (archive,)
    raise BadInput(
        f"task.kind: {task!r} looks for train/neg, train/pos, test/neg and test/pos with .txt files, for train and "
        f"test files (.jsonl, .jsonl.gz, .jsonl.xz or .parquet), or for aclImdb_v1.tar.gz in {folders[0]}, and none "
        f"is there; {ORIGIN}; name the folder above it with --data or HEADSTART_DATA"
    )


def reviews(data: Path, task: str) -> Prepared:
    """All reviews as UTF-8, train before test, in the order of their files (of folders: label, then number).

    Arrays: `all_values` (S,) uint8, `all_offsets`, `all_target` (n,), `all_index` (n,) the number within split
    and label or -1, `group` (n,) equal where texts are equal. Facts: `train` (how many of n), `labels`.
    Raises: BadInput with up to 20 mistakes, each with its file and row.
    """
    root, files = find(data, task)
    document = {"reader": _READER, "files": stamps(files)}
    return prepared(data, "imdb", document, lambda builder: _build(builder, root, files))


def _build(builder: Builder, root: Path | None, files: tuple[Path, ...]) -> dict[str, Any]:
    mistakes, found, total = Mistakes(), [], sum(OFFICIAL.values())
    for review in _from_files(files, mistakes) if root is None else _from_texts(root, mistakes):
        found.append(review)
        if len(found) % 1000 == 0:
            builder.report(min(len(found), total), total)
    found.sort(key=lambda review: review.split == "test")
    labels = _labels(found, root or files[0].parent, mistakes)
    mistakes.check()
    writer = Writer(builder, "all")
    for review in found:
        writer.add(np.frombuffer(review.text, dtype=np.uint8))
    numbers = {label: i for i, label in enumerate(labels)}
    writer.finish(np.array([numbers[review.label] for review in found]), np.array([r.number for r in found]))
    builder.save("group", groups(review.text for review in found))
    names = ["negative", "positive"] if any(set(labels) == set(same) for same in SAME) else labels
    return {"train": sum(review.split == "train" for review in found), "labels": names}


def _labels(found: list[Review], place: Path, mistakes: Mistakes) -> list[str]:
    """The labels of train, in the order of their numbers; a test review must have one of them."""
    labels = in_order({review.label for review in found if review.split == "train"})
    for split in OFFICIAL:
        if not any(review.split == split for review in found):
            mistakes.add(str(place), f"no review of {split}; give all four folders, or both files")
    if any(review.split == "train" for review in found):
        if len(labels) < 2:
            mistakes.add(str(place), f"every train review has label {labels[0]!r}; give both labels")
        for review in found:
            if review.label not in labels:
                mistakes.add(review.place, f"label {review.label!r} does not occur in train")
    return labels


def _from_texts(root: Path, mistakes: Mistakes) -> Iterator[Review]:
    """Reviews of text files `train/neg/<number>_<rating>.txt`."""
    found = []
    for name, content in members(root, lambda n: _REVIEW.search(n) is not None, mistakes):
        match = _REVIEW.search(name)
        place = str(root / name) if root.is_dir() else f"{root}, member {name}"
        text = text_of(content, place, mistakes)
        if match is not None and text is not None:
            review = Review(match[1], match[2], _number(match[3]), text, place)
            found.append((review.label, review.number, name, review))
    for split in OFFICIAL:
        for label in ("neg", "pos"):
            if not any(review.split == split and review.label == label for *_, review in found):
                mistakes.add(f"{root}, {split}/{label}", "the label has no text; give the whole data set")
    yield from (review for *_, review in sorted(found, key=lambda item: item[:3]))


def _from_files(files: tuple[Path, ...], mistakes: Mistakes) -> Iterator[Review]:
    """Reviews of JSON lines or Parquet files with `text`, `label` and, where it is there, `id`."""
    for file in files:
        count = 0
        for place, row in read_rows(file, ("text", "label"), mistakes):
            count += 1
            text, label = text_of(row["text"], place, mistakes), label_of(_plain(row["label"]), place, mistakes)
            if text is not None and label is not None:
                yield Review(_split(file), label, _number(_plain(row.get("id"))), text, place)
        if not count:
            mistakes.add(str(file), "holds no review; download it again")


def _split(file: Path) -> str:
    match = _FILE.match(file.name)
    return match[1] if match is not None else ""


def _plain(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _number(name: Any) -> int:
    """The number that an id such as `127_9` (number, rating) begins with, or -1."""
    match = re.match(r"(\d{1,9})_\d+$", name) if isinstance(name, str) else None
    return int(match[1]) if match is not None else -1
