"""Pairs of texts with a label from files: LRA's AAN, or any TSV, JSON lines or Parquet file of such rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import stamps
from headstart.data.prepared import Builder, Prepared, Writer, prepared, stored
from headstart.data.problems import Mistakes
from headstart.data.rows import in_order, label_of, read_rows, text_of
from headstart.data.splits import hold_out, occurs_once
from headstart.errors import BadInput
from headstart.tasks.task import SPLITS

LAYOUTS = (("label", "id1", "id2", "text1", "text2"), ("label", "text1", "text2"))
"""Fields of TSV files without a header; the first is AAN's."""
AAN = {"train": "new_aan_pairs.train.tsv", "val": "new_aan_pairs.eval.tsv", "test": "new_aan_pairs.test.tsv"}
AAN_FOLDERS = ("aan", "lra_release/lra_release/tsv_data", "lra_release/tsv_data", "lra/tsv_data")
AAN_ORIGIN = (
    "it is in Long Range Arena's archive lra_release.gz, once at https://storage.googleapis.com/"
    "long-range-arena; AAN's own site no longer gives it"
)
FILES_ORIGIN = (
    "there is no download for it, these are files of your own with fields label, text1 and text2 (see "
    "https://jsonlines.org for .jsonl)"
)
_FILE = re.compile(r"^(train|val|test)\.(?:(?:jsonl|tsv)(?:\.gz|\.xz)?|parquet)$")
_READER = 1
"""Raised when the same files give other arrays."""


def find_aan(data: Path, task: str) -> dict[str, Path]:
    """AAN's three files. Raises: BadInput naming a missing one, the folders, and where it comes from."""
    for folder in AAN_FOLDERS:
        there = {split: data / folder / name for split, name in AAN.items() if (data / folder / name).is_file()}
        if there:
            lost = [str(data / folder / AAN[split]) for split in SPLITS if split not in there]
            if lost:
                raise BadInput(f"task.kind: {task!r}: {' and '.join(lost)} is missing; {AAN_ORIGIN}; put it there")
            return there
    raise BadInput(
        f"task.kind: {task!r} looks for {', '.join(AAN.values())} in {' or '.join(AAN_FOLDERS)} of {data}, and none is "
        f"there; {AAN_ORIGIN}; name another data folder with --data or HEADSTART_DATA, or take task.source "
        "'imdb_films' or 'files'"
    )


def find_files(data: Path, task: str) -> dict[str, Path]:
    """The user's files of `pairs/`: train, test and, where it is there, val. Raises: BadInput as `find_aan`."""
    folder = data / "pairs"
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*")):
        match = _FILE.match(path.name)
        if match is not None and path.is_file():
            if match[1] in found:
                raise BadInput(
                    f"task.kind: {task!r}: {folder} has {found[match[1]].name} and {path.name}; "
                    "leave the one that is meant"
                )
            found[match[1]] = path
    lost = [split for split in ("train", "test") if split not in found]
    if lost:
        raise BadInput(
            f"task.kind: {task!r} looks for {' and '.join(lost)} (.tsv, .jsonl, packed as .gz or .xz, or .parquet) in "
            f"{folder}, and it is not there; {FILES_ORIGIN}; name the folder above it with --data or HEADSTART_DATA"
        )
    return {split: found[split] for split in SPLITS if split in found}


def pairs(data: Path, files: dict[str, Path], length: int, val_share: float, seed: int) -> Prepared:
    """The pairs of these files as bytes, each text cut to `length`: arrays as `stored` reads them.

    Without a val file, `val_share` of train is held out, each label in proportion. Facts: `labels` and
    `shared` (how many test and val pairs stand in earlier splits). Raises: BadInput with up to 20 mistakes.
    """
    drawn = {} if "val" in files else {"val_share": val_share, "seed": seed}
    document = {"reader": _READER, "length": length, "files": stamps(files.values()), **drawn}
    if "val" in files:
        return prepared(data, "pairs", document, lambda builder: _build(builder, files, length))
    whole = prepared(data, "pairs", {**document, "drawn": None}, lambda builder: _build(builder, files, length))
    return prepared(data, "pairs", document, lambda builder: _drawn(builder, whole, val_share, seed))


def _build(builder: Builder, files: dict[str, Path], length: int) -> dict[str, Any]:
    """Write each file as a split of its own."""
    mistakes, marks, found, index = Mistakes(), {}, {}, 0
    first_of: dict[tuple[str, str], str] = {}
    for split, file in files.items():
        writer, labels, seen = Writer(builder, split), [], []
        for place, label, texts in _rows(file, mistakes):
            labels.append(label)
            first_of.setdefault((split, label), place)
            cut = [np.frombuffer(text, dtype=np.uint8, count=min(len(text), length)) for text in texts]
            for sequence in cut:
                writer.add(sequence)
            seen.append(mark(*cut))
        if not labels:
            mistakes.add(str(file), "holds no pair; give the file again")
        found[split], marks[split] = (writer, labels, index), seen
        index += 2 * len(labels)
    classes = _classes(first_of, files, mistakes)
    mistakes.check()
    numbers = {label: i for i, label in enumerate(classes)}
    for writer, labels, first in found.values():
        target = np.repeat([numbers[label] for label in labels], 2)
        writer.finish(target, np.arange(first, first + len(target)))
    for split, seen in marks.items():
        builder.save(f"{split}_mark", np.frombuffer(b"".join(seen), dtype=np.uint8).reshape(-1, 16))
    return {"labels": classes, "shared": shared(marks)}


def _classes(first_of: dict[tuple[str, str], str], files: dict[str, Path], mistakes: Mistakes) -> list[str]:
    """The labels of train in order; val and test may have no other. `first_of` is where each first stands."""
    classes = in_order({label for split, label in first_of if split == "train"})
    if len(classes) == 1:
        mistakes.add(str(files["train"]), f"every pair has label {classes[0]!r}; give pairs of two labels or more")
    for (_, label), place in first_of.items():
        if classes and label not in classes:
            mistakes.add(place, f"label {label!r} does not occur in {files['train'].name}")
    return classes


def _rows(file: Path, mistakes: Mistakes) -> Iterator[tuple[str, str, list[bytes]]]:
    """(place, label, both texts) of each row that has nothing wrong."""
    for place, row in read_rows(file, ("label", "text1", "text2"), mistakes, LAYOUTS):
        given = row["label"]
        label = label_of(given.decode(errors="replace") if isinstance(given, bytes) else given, place, mistakes)
        texts = [text_of(row[name], f"{place}, {name}", mistakes) for name in ("text1", "text2")]
        if label is not None and None not in texts:
            yield place, label, [text for text in texts if text is not None]


def mark(one: np.ndarray, two: np.ndarray) -> bytes:
    """16 bytes, equal where both texts are equal."""
    total = blake2b(len(one).to_bytes(8, "little"), digest_size=16)
    total.update(np.ascontiguousarray(one).data)
    total.update(np.ascontiguousarray(two).data)
    return total.digest()


def shared(marks: dict[str, list[bytes]]) -> dict[str, int]:
    """How many pairs of val and test also stand in an earlier split: {"val in train": 3, ...}."""
    known = {split: set(seen) for split, seen in marks.items()}
    names = [split for split in SPLITS if split in marks]
    found = {
        f"{late} in {early}": sum(one in known[early] for one in marks[late])
        for i, late in enumerate(names)
        for early in names[:i]
    }
    return {name: count for name, count in found.items() if count}


def _drawn(builder: Builder, whole: Prepared, val_share: float, seed: int) -> dict[str, Any]:
    """The same pairs with val held out of train; of pairs that occur twice all copies stay in train."""
    every = {split: stored(whole, split, paired=True) for split in ("train", "test")}
    target, seen = every["train"].target, np.asarray(whole.arrays["train_mark"])
    assert target is not None
    _, group = np.unique(seen, axis=0, return_inverse=True)
    units = len(seen)
    val = hold_out(target[::2], occurs_once(group.reshape(-1)), round(val_share * units), seed, "task.val_share")
    chosen = {
        "train": ("train", np.setdiff1d(np.arange(units), val)),
        "val": ("train", val),
        "test": ("test", np.arange(every["test"].units)),
    }
    marks = {}
    for split, (source, some) in chosen.items():
        examples, rows = every[source], every[source].rows(some)
        writer = Writer(builder, split)
        for row in rows:
            writer.add(examples.values[examples.offsets[row] : examples.offsets[row + 1]])
        assert examples.target is not None
        writer.finish(examples.target[rows], examples.index[rows])
        marks[split] = [bytes(line) for line in np.asarray(whole.arrays[f"{source}_mark"])[some]]
    return {"labels": whole.facts["labels"], "shared": shared(marks)}
