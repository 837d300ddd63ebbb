"""Text of Long Range Arena: is a film review of IMDb positive or negative, read byte by byte?

The reviews are read from whatever form they are in: aclImdb folders or archive, JSON lines, Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.archives import absent, incomplete, listed, members
from headstart.data.copies import groups
from headstart.data.labels import label_of
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.rows import read_rows
from headstart.data.splits import copies_note, hold_out, occurs_once
from headstart.data.text import ARCHIVE, text_of
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Signature
from headstart.tasks.build import LONG_RANGE_ARENA, classes_of, prepared_task, size_note, write_split
from headstart.tasks.task import Outline, Task, TaskSpec

IMDB_SIZES = {"train": 25_000, "test": 25_000}
IMDB_ORIGIN = (
    "IMDb's reviews (Maas et al. 2011) are at https://ai.stanford.edu/~amaas/data/sentiment "
    "(aclImdb_v1.tar.gz) and, as Parquet files, at https://huggingface.co/datasets/stanfordnlp/imdb"
)
LABEL_SPELLINGS = ({"0": "0", "1": "1"}, {"neg": "0", "pos": "1"}, {"negative": "0", "positive": "1"})
"""Ways to write the two labels of IMDb."""
_READER, _MAKER = 1, 1
"""Raised when the same files give other reviews, and when the same reviews give other examples."""

_REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos)/([^/]+)\.txt$")
_FILE = re.compile(r"^(?:.*[_.-])?(train|test)(?:[_.-].*)?\.(?:jsonl(?:\.gz|\.xz)?|parquet)$")

END = 255
"""Id of the end of a text among bytes: a byte that UTF-8 never uses."""
RARE_MARK, STOP_MARK = "\ufffd", "∎"
"""What stands for a rare character and for the end where a text is shown."""


class TextSpec(TaskSpec):
    """50,000 film reviews of IMDb with two labels, as bytes or characters and an end symbol.

    One example begins `Story of a man who has unnatural feelings for a pig. ...`, label `negative`. Official
    splits: 25,000 train, 25,000 test; 123 texts stand in both.

    Source: Maas et al. 2011; as a sequence: Tay et al. 2020.
    """

    kind: Literal["text"] = "text"
    symbols: Literal["bytes", "characters"] = "bytes"
    """`bytes` (of UTF-8; 256 ids, the last unused byte is the end) or `characters`: those that occur at least `least`
    times in train, after id 0, which stands for all others; the end is the last id."""
    least: int = Field(default=15, ge=1)
    """Occurrences in the cut texts of train that a character needs to have an id of its own."""
    length: int = Field(default=4096, ge=2)
    """The most symbols of an example, the end among them; longer texts lose their rest."""
    split: Literal["described", "published"] = "described"
    """`described` holds out `val_share` of train, each label in proportion, by `split_seed` (of texts that occur twice
    all copies stay in train); `published`, as the released code has it, validates on test."""
    val_share: float = Field(default=0.1, gt=0, lt=1)
    """Share of the train examples that is held out for validation."""

    shows_not: ClassVar[str] = LONG_RANGE_ARENA

    def outline(self) -> Outline | None:
        """The official 25,000 and 25,000 reviews; 136 characters occur 15 times, a review has 1,150 (median)."""
        val = round(25_000 * self.val_share) if self.split == "described" else 25_000
        width = 256 if self.symbols == "bytes" else 136
        signature = Signature("tokens", width, self.length, min(40, self.length), "class", 2)
        train = 25_000 - (val if self.split == "described" else 0)
        return Outline(signature, train, val, 25_000, min(1_150, self.length))

    def files(self, data: Path) -> tuple[Path, ...]:
        return find(data, self.kind)[1]

    def load(self, data: Path) -> Task:
        ready = self._prepared(data)
        width, text = ready.facts["width"], decoder(ready.facts["characters"])
        return prepared_task(ready, "tokens", width, text=text, val="val" if self.split == "described" else "test")

    def _prepared(self, data: Path) -> Prepared:
        base = reviews(data, self.kind)
        document = self.model_dump(include={"length", "symbols", "split"})
        document |= {"maker": _MAKER, "reviews": base.fingerprint}
        if self.symbols == "characters":
            document["least"] = self.least
        if self.split == "described":
            document |= {"val_share": self.val_share, "seed": self.split_seed}
        return prepared("text", document, lambda builder: _write_splits(builder, self, base))


def decoder(characters: str | None) -> Callable[[np.ndarray], str]:
    """What turns ids back into a text: bytes, or places in `characters` (from id 1)."""
    if characters is None:

        def from_bytes(ids: np.ndarray) -> str:
            parts = np.asarray(ids, dtype=np.uint8).tobytes().split(bytes([END]))
            return STOP_MARK.join(part.decode(errors="replace") for part in parts)

        return from_bytes
    table = np.array([ord(c) for c in RARE_MARK + characters + STOP_MARK], dtype="<u4")
    return lambda ids: table[np.asarray(ids)].tobytes().decode("utf-32-le")


def code_points(text: bytes) -> np.ndarray:
    """UTF-8 -> the numbers of its characters, without one that is cut at the end."""
    return np.frombuffer(text.decode(errors="ignore").encode("utf-32-le"), dtype="<u4")


def vocabulary(sequences: Iterator[np.ndarray], least: int) -> str:
    """Characters that occur at least `least` times in sequences of code points, in their order."""
    counts = np.zeros(0x110000, dtype=np.int64)
    while chunk := list(islice(sequences, 2000)):  # many texts at once, as a count looks at every character there is
        counts += np.bincount(np.concatenate(chunk), minlength=len(counts))
    return "".join(map(chr, np.flatnonzero(counts >= least).tolist()))


def _cut(spec: TextSpec, base: Prepared, row: int) -> np.ndarray:
    """Bytes or code points of one review, without its end, as many as there is room for."""
    first, last = base.arrays["all_offsets"][row : row + 2]
    text = base.arrays["all_values"][first:last]
    if spec.symbols == "bytes":
        return np.asarray(text[: spec.length - 1])
    return code_points(text[: 4 * spec.length].tobytes())[: spec.length - 1]


def _write_splits(builder: Builder, spec: TextSpec, base: Prepared) -> dict[str, Any]:
    """Write each split of the cut and numbered reviews; facts with what a table must say of these texts."""
    train, label, whole = (int(base.facts["train"]), *(np.asarray(base.arrays[n]) for n in ("all_target", "group")))
    group = groups(_cut(spec, base, row).tobytes() for row in range(len(label)))
    rows = {"train": np.arange(train), "val": np.zeros(0, dtype=np.int64), "test": np.arange(train, len(label))}
    if spec.split == "described":
        count, once = round(spec.val_share * train), occurs_once(group[:train])
        rows["val"] = hold_out(label[:train], once, count, spec.split_seed, "task.val_share")
        rows["train"] = np.setdiff1d(rows["train"], rows["val"])
    characters, ids, end = None, None, END
    if spec.symbols == "characters":
        characters = vocabulary((_cut(spec, base, row) for row in rows["train"].tolist()), spec.least)
        if len(characters) > 2**16 - 2:
            raise BadInput(f"task.least: {spec.least} leaves {len(characters)} characters; take a larger number")
        ids, end = np.zeros(0x110000, dtype=np.uint16), len(characters) + 1
        ids[[ord(c) for c in characters]] = np.arange(1, end)
    for name, chosen in rows.items():
        if len(chosen):
            cut = (_cut(spec, base, row) for row in chosen.tolist())
            sequences = (np.append(symbols if ids is None else ids[symbols], end) for symbols in cut)
            write_split(builder, name, sequences, label[chosen], chosen, np.uint8 if end < 256 else np.uint16)
    notes = size_note("IMDb", {"train": train, "test": len(rows["test"])}, IMDB_SIZES, "texts")
    both = len(np.intersect1d(whole[:train], whole[train:]))
    if both:
        notes.append(f"{both} texts stand in both the official train and test files")
    if spec.split == "published":
        notes.append("val is the official test split, as in the released code: what is chosen on val has seen test")
    notes += copies_note(group, rows, "texts")
    return {"width": end + 1, "characters": characters, "labels": base.facts["labels"], "notes": notes}


class Review(NamedTuple):
    """One review: its split, label and text, its number within split and label (-1: not known), where it stands."""

    split: str
    label: str
    number: int
    text: bytes
    where: str


def find(data: Path, task: str) -> tuple[Path | None, tuple[Path, ...]]:
    """The folder or archive of text files, or None where files hold many reviews each; and all files.

    Looked for in `imdb/` and `aclImdb/` of the data folder: folders `train/neg` and so on, then files named
    train and test that end in .jsonl (or .jsonl.gz, .jsonl.xz) or .parquet, then aclImdb's archive.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    folders = [data / "imdb", data / "imdb" / "aclImdb", data / "aclImdb", data / "imdb" / "plain_text"]
    for root in folders:
        if any((root / split / label).is_dir() for split in IMDB_SIZES for label in ("neg", "pos")):
            return root, tuple(root / name for name in listed(root, lambda n: _REVIEW.search(n) is not None))
    for ending in (".jsonl", ".parquet"):
        for root in folders:
            files = sorted((_split(p) == "test", p) for p in root.glob("*") if _split(p) and ending in p.name)
            missing = [root / f"{split}{ending}" for split in IMDB_SIZES if split not in {_split(p) for _, p in files}]
            if files and missing:
                raise incomplete(task, missing, IMDB_ORIGIN)
            if files:
                return None, tuple(path for _, path in files)
    for root in folders:
        for archive in sorted(p for p in root.glob("aclImdb*") if ARCHIVE.search(p.name)):
            return archive, (archive,)
    looks = (
        "train/neg, train/pos, test/neg and test/pos with .txt files, for train and test files (.jsonl, .jsonl.gz, "
        ".jsonl.xz or .parquet), or for aclImdb_v1.tar.gz"
    )
    raise absent(task, data, ("imdb",), looks, IMDB_ORIGIN)


def reviews(data: Path, task: str) -> Prepared:
    """All reviews as UTF-8, train before test, in the order of their files (of folders: label, then number).

    Arrays: `all_values` (S,) uint8, `all_offsets`, `all_target` (n,), `all_index` (n,) the number within split
    and label or -1, `group` (n,) equal where texts are equal. Facts: `train` (how many of n), `labels`.
    Raises: BadInput with up to 20 mistakes, each with its file and row.
    """
    root, files = find(data, task)
    document = {"reader": _READER, "files": stamps(files)}
    return prepared("imdb", document, lambda builder: _write_reviews(builder, root, files))


def _write_reviews(builder: Builder, root: Path | None, files: tuple[Path, ...]) -> dict[str, Any]:
    mistakes, total = Mistakes(), sum(IMDB_SIZES.values())
    reviews: list[Review] = []
    for review in _from_files(files, mistakes) if root is None else _from_texts(root, mistakes):
        reviews.append(review)
        if len(reviews) % 1000 == 0:
            builder.report(min(len(reviews), total), total)
    reviews.sort(key=lambda review: review.split == "test")
    where = str(root or files[0].parent)
    for split in IMDB_SIZES:
        if not any(review.split == split for review in reviews):
            mistakes.add(where, f"no review of {split}; give all four folders, or both files")
    labels = classes_of(((r.split, r.label, r.where) for r in reviews), "review", where, mistakes)
    mistakes.check()
    sequences = (np.frombuffer(review.text, dtype=np.uint8) for review in reviews)
    target, numbers = np.array([(labels.index(review.label), review.number) for review in reviews]).T
    write_split(builder, "all", sequences, target, numbers)
    builder.save("group", groups(review.text for review in reviews))
    names = ["negative", "positive"] if any(set(labels) == set(same) for same in LABEL_SPELLINGS) else labels
    return {"train": sum(review.split == "train" for review in reviews), "labels": names}


def _from_texts(root: Path, mistakes: Mistakes) -> Iterator[Review]:
    """Reviews of text files `train/neg/<number>_<rating>.txt`."""
    texts = []
    for name, content in members(root, lambda n: _REVIEW.search(n) is not None, mistakes):
        match = _REVIEW.search(name)
        where = str(root / name) if root.is_dir() else f"{root}, member {name}"
        text = text_of(content, where, mistakes)
        if match is not None and text is not None:
            review = Review(match[1], match[2], _number(match[3]), text, where)
            texts.append((review.label, review.number, name, review))
    for split in IMDB_SIZES:
        for label in ("neg", "pos"):
            if not any(review.split == split and review.label == label for *_, review in texts):
                mistakes.add(f"{root}, {split}/{label}", "the label has no text; give the whole data set")
    yield from (review for *_, review in sorted(texts, key=lambda item: item[:3]))


def _from_files(files: tuple[Path, ...], mistakes: Mistakes) -> Iterator[Review]:
    """Reviews of JSON lines or Parquet files with `text`, `label` and, where it is there, `id`."""
    for file in files:
        count = 0
        for where, row in read_rows(file, ("text", "label"), mistakes):
            count += 1
            text, label = text_of(row["text"], where, mistakes), label_of(_plain(row["label"]), where, mistakes)
            if text is not None and label is not None:
                yield Review(_split(file), label, _number(_plain(row.get("id"))), text, where)
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
