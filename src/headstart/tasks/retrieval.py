"""Retrieval of Long Range Arena: do two texts belong together? Both are read by one encoder.

Pairs are read from LRA's AAN, or from any TSV, JSON lines or Parquet file of such rows, or made of IMDb's reviews.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.labels import label_of
from headstart.data.prepared import Builder, Prepared, Writer, prepared, stored
from headstart.data.rows import read_rows
from headstart.data.splits import hold_out, occurs_once
from headstart.data.text import text_of
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Signature
from headstart.tasks.build import classes_of, mark, prepared_task, shared
from headstart.tasks.films import films, films_files
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Outline, Task, TaskSpec
from headstart.tasks.text import decoder

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


class RetrievalSpec(TaskSpec):
    """Pairs of texts as bytes, up to 4,000 each, and a label of the pair; rows 2i and 2i + 1 are one pair.

    One example: `Robert DeNiro plays the most ...` and `this film is ...`, label `two films`.

    source: `aan`, Long Range Arena's files: does one paper cite the other? 147,086 train pairs.
        `imdb_films`, built from IMDb's reviews and their films' addresses: are two reviews of one film? Every
        review is in one pair of one film and in one of two films, so no text alone tells the answer; splits
        share no film; reviews that occur twice are left out.
        `files`, your own in `pairs/`: train, test and optionally val as .tsv (a header with label, text1,
        text2; or AAN's five fields; or these three), .jsonl or .parquet.
    length: the most bytes of a text; longer ones lose their rest.
    val_share: share of train that is held out by `split_seed` where there is no val file: pairs, each label
        in proportion, or films.
    Source: Radev et al. 2013, Tay et al. 2020; reviews: Maas et al. 2011.
    """

    kind: Literal["retrieval"] = "retrieval"
    source: Literal["aan", "imdb_films", "files"] = "aan"
    length: int = Field(default=4000, ge=1)
    val_share: float = Field(default=0.1, gt=0, lt=1)

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    objective: ClassVar[str] = "retrieve"

    def outline(self) -> Outline | None:
        """The 147,086 train, 18,090 val and 17,437 test pairs of AAN."""
        if self.source != "aan":
            return None
        signature = Signature("tokens", 256, self.length, min(200, self.length), "class", 2, paired=True)
        return Outline(signature, 147_086, 18_090, 17_437, self.length)

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        if self.source == "imdb_films":
            return films_files(data, self.kind)
        return tuple(self._find(data).values())

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        ready = self._prepared(data)
        labels = tuple(ready.facts["labels"])
        if self.source == "aan" and labels == ("0", "1"):
            labels = ("no citation", "citation")
        copies = [f"{n} of {name.replace(' in ', ' also stand in ')}" for name, n in ready.facts["shared"].items()]
        task = prepared_task(ready, "tokens", 256, labels, decoder(None), paired=True)
        return replace(task, notes=(f"equal pairs in two splits: {', '.join(copies)}",) if copies else ())

    def _prepared(self, data: Path) -> Prepared:
        if self.source == "imdb_films":
            return films(data, self.kind, self.length, self.val_share, self.split_seed)
        return pairs(data, self._find(data), self.length, self.val_share, self.split_seed)

    def _find(self, data: Path) -> dict[str, Path]:
        return find_aan(data, self.kind) if self.source == "aan" else find_files(data, self.kind)


def find_aan(data: Path, task: str) -> dict[str, Path]:
    """AAN's three files. Raises: BadInput naming a missing one, the folders, and where it comes from."""
    for folder in AAN_FOLDERS:
        paths = {split: data / folder / name for split, name in AAN.items()}
        missing = [str(path) for path in paths.values() if not path.is_file()]
        if missing and len(missing) < len(paths):
            raise BadInput(f"task.kind: {task!r}: {' and '.join(missing)} is missing; {AAN_ORIGIN}; put it there")
        if not missing:
            return paths
    raise BadInput(
        f"task.kind: {task!r} looks for {', '.join(AAN.values())} in {' or '.join(AAN_FOLDERS)} of {data}, and none is "
        f"there; {AAN_ORIGIN}; name another data folder with --data or HEADSTART_DATA, or take task.source "
        "'imdb_films' or 'files'"
    )


def find_files(data: Path, task: str) -> dict[str, Path]:
    """The user's files of `pairs/`: train, test and, where it is there, val. Raises: BadInput as `find_aan`."""
    folder = data / "pairs"
    files: dict[str, Path] = {}
    for path in sorted(folder.glob("*")):
        match = _FILE.match(path.name)
        if match is None or not path.is_file():
            continue
        twin = files.setdefault(match[1], path)
        if twin != path:
            raise BadInput(
                f"task.kind: {task!r}: {folder} has {twin.name} and {path.name}; leave the one that is meant"
            )
    missing = [split for split in ("train", "test") if split not in files]
    if missing:
        raise BadInput(
            f"task.kind: {task!r} looks for {' and '.join(missing)} (.tsv, .jsonl, packed as .gz or .xz, or .parquet) "
            f"in {folder}, and it is not there; {FILES_ORIGIN}; name the folder above it with --data or HEADSTART_DATA"
        )
    return {split: files[split] for split in SPLITS if split in files}


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
    mistakes, writers = Mistakes(), {}
    marks: dict[str, list[bytes]] = {}
    rows: list[tuple[str, str, str]] = []
    for split, file in files.items():
        writers[split], marks[split] = Writer(builder, split), []
        for place, label, texts in _rows(file, mistakes):
            rows.append((split, label, place))
            cut = [np.frombuffer(text, dtype=np.uint8, count=min(len(text), length)) for text in texts]
            for sequence in cut:
                writers[split].add(sequence)
            marks[split].append(mark(*cut))
        if not marks[split]:
            mistakes.add(str(file), "holds no pair; give the file again")
    firsts: dict[tuple[str, str], tuple[str, str, str]] = {}
    for row in rows:
        firsts.setdefault(row[:2], row)
    classes = classes_of(firsts.values(), "pair", str(files["train"]), mistakes)
    mistakes.check()
    target = np.repeat([classes.index(label) for _, label, _ in rows], 2)
    first = 0
    for split, writer in writers.items():
        last = first + len(writer)
        writer.finish(target[first:last], np.arange(first, last))
        builder.save(f"{split}_mark", np.frombuffer(b"".join(marks[split]), dtype=np.uint8).reshape(-1, 16))
        first = last
    return {"labels": classes, "shared": shared(marks)}


def _rows(file: Path, mistakes: Mistakes) -> Iterator[tuple[str, str, tuple[bytes, bytes]]]:
    """(place, label, both texts) of each row that has nothing wrong."""
    for place, row in read_rows(file, ("label", "text1", "text2"), mistakes, LAYOUTS):
        raw = row["label"]
        label = label_of(raw.decode(errors="replace") if isinstance(raw, bytes) else raw, place, mistakes)
        first, second = (text_of(row[name], f"{place}, {name}", mistakes) for name in ("text1", "text2"))
        if label is not None and first is not None and second is not None:
            yield place, label, (first, second)


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
