"""Retrieval of Long Range Arena: do two texts belong together? Both are read by one encoder.

Pairs are read from LRA's AAN, or from any TSV, JSON lines or Parquet file of such rows, or made of IMDb's reviews: are
these two of one film? The films are known by their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.archives import absent, find_all, listed, members
from headstart.data.copies import groups, marks
from headstart.data.labels import label_of
from headstart.data.prepared import Builder, Prepared, Writer, prepared
from headstart.data.rows import read_rows
from headstart.data.splits import hold_out, occurs_once, overlaps, shuffled
from headstart.data.text import ARCHIVE, text_of
from headstart.errors import BadInput, Mistakes
from headstart.seeds import bits
from headstart.sequence import Signature
from headstart.tasks.build import LONG_RANGE_ARENA, classes_of, prepared_task, write_split
from headstart.tasks.task import SPLITS, Outline, Task, TaskSpec
from headstart.tasks.text import IMDB_ORIGIN, decoder, find, reviews

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
_ADDRESSES = re.compile(r"(?:^|/)(train|test)/urls_(neg|pos)\.txt$")
FILM_PAIRS = {"train": 22_846, "test": 22_620}
"""Pairs of film reviews: those of train and val together, which `split_seed` moves by a few, and those of test."""


class RetrievalSpec(TaskSpec):
    """Pairs of texts as bytes, up to 4,000 each, and a label of the pair; rows 2i and 2i + 1 are one pair.

    One example: `Robert DeNiro plays the most ...` and `this film is ...`, label `two films`.

    Source: Radev et al. 2013, Tay et al. 2020; reviews: Maas et al. 2011.
    """

    kind: Literal["retrieval"] = "retrieval"
    source: Literal["aan", "imdb_films", "files"] = "aan"
    """`aan`, Long Range Arena's files: does one paper cite the other? 147,086 train pairs. `imdb_films`, built from
    IMDb's reviews and their films' addresses: are two reviews of one film? Every review is in one pair of one film and
    in one of two films, so no text alone tells the answer; splits share no film; reviews that occur twice are left out.
    `files`, your own in `pairs/`: train, test and optionally val as .tsv (a header with label, text1, text2; or AAN's
    five fields; or these three), .jsonl or .parquet."""
    length: int = Field(default=4000, ge=1)
    """The most bytes of a text; longer ones lose their rest."""
    val_share: float = Field(default=0.1, gt=0, lt=1)
    """Share of train that is held out by `split_seed` where there is no val file: pairs, each label in proportion, or
    films."""

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    objective: ClassVar[str] = "retrieve"

    def outline(self) -> Outline | None:
        """The 147,086 train, 18,090 val and 17,437 test pairs of AAN; of films, those that the first split gives."""
        if self.source == "files":
            return None
        signature = Signature("tokens", 256, self.length, min(200, self.length), "class", 2, paired=True)
        if self.source == "aan":
            return Outline(signature, 147_086, 18_090, 17_437, self.length)
        val = round(FILM_PAIRS["train"] * self.val_share)
        return Outline(signature, FILM_PAIRS["train"] - val, val, FILM_PAIRS["test"], min(1_300, self.length))

    def files(self, data: Path) -> tuple[Path, ...]:
        if self.source == "imdb_films":
            return (*find(data, self.kind)[1], *find_addresses(data, self.kind)[1])
        return tuple(self._find(data).values())

    def load(self, data: Path) -> Task:
        ready = self._prepared(data)
        labels = tuple(ready.facts["labels"])
        if self.source == "aan" and labels == ("0", "1"):
            labels = ("no citation", "citation")
        copies = [f"{n} of {name.replace(' in ', ' also stand in ')}" for name, n in ready.facts["shared"].items()]
        task = prepared_task(ready, "tokens", 256, labels, decoder(None), paired=True)
        return replace(task, notes=(f"equal pairs in two splits: {', '.join(copies)}",) if copies else ())

    def _prepared(self, data: Path) -> Prepared:
        document: dict[str, Any] = {"reader": self.reader, "length": self.length}
        drawn = {"val_share": self.val_share, "seed": self.split_seed}
        if self.source == "imdb_films":
            base, (root, read) = reviews(data, self.kind), find_addresses(data, self.kind)
            document |= {"reviews": base.fingerprint, "files": stamps(read), **drawn}
            return prepared("imdb-films", document, lambda builder: _pair_films(builder, self, base, root))
        files = self._find(data)
        document["files"] = stamps(files.values())
        if "val" in files:
            return prepared("pairs", document, lambda builder: _build(builder, files, self.length))
        document |= drawn
        whole = prepared("pairs", {**document, "drawn": None}, lambda builder: _build(builder, files, self.length))
        return prepared("pairs", document, lambda builder: _hold_out(builder, whole, self))

    def _find(self, data: Path) -> dict[str, Path]:
        if self.source == "files":
            return find_files(data, self.kind)
        way = ", or take task.source 'imdb_films' or 'files'"
        files = find_all(self.kind, data, AAN_FOLDERS, tuple(AAN.values()), AAN_ORIGIN, way)
        return dict(zip(AAN, files, strict=True))


def find_files(data: Path, task: str) -> dict[str, Path]:
    """The user's files of `pairs/`: train, test and perhaps val. Raises: BadInput naming what is missing."""
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
        looks = f"{' and '.join(missing)} (.tsv, .jsonl, packed as .gz or .xz, or .parquet)"
        raise absent(task, data, ("pairs",), looks, FILES_ORIGIN)
    return {split: files[split] for split in SPLITS if split in files}


def find_addresses(data: Path, task: str) -> tuple[Path, tuple[Path, ...]]:
    """The folder or archive with the files `train/urls_neg.txt` and so on, and what is read of it.

    Raises: BadInput naming what is missing, the folder, and where it comes from.
    """
    roots = [data / folder for folder in ("imdb", "imdb/aclImdb", "imdb/imdb_urls", "aclImdb")]
    for root in roots:
        if (root / "train" / "urls_neg.txt").is_file():
            return root, tuple(root / name for name in listed(root, lambda n: _ADDRESSES.search(n) is not None))
    for root in roots:
        archives = [p for name in ("imdb_urls*", "aclImdb*") for p in sorted(root.glob(name)) if ARCHIVE.search(p.name)]
        if archives:
            return archives[0], (archives[0],)
    looks = "the films' addresses, train/urls_neg.txt and so on, or an archive imdb_urls.tar.xz of them,"
    raise absent(task, data, ("imdb",), looks, f"{IMDB_ORIGIN} has them")


def _copies(builder: Builder) -> dict[str, int]:
    """How many pairs of val and test also stand in an earlier split: {"val in train": 3, ...}."""
    counts = overlaps(builder.written(), paired=True)
    return {f"{later} in {earlier}": count for (earlier, later), count in counts.items() if count}


def _build(builder: Builder, files: dict[str, Path], length: int) -> dict[str, Any]:
    """Write each file as a split of its own; facts: `labels`, and `shared` as of `_copies`."""
    mistakes, writers = Mistakes(), {}
    rows: list[tuple[str, str, str]] = []
    for split, file in files.items():
        writers[split] = Writer(builder, split)
        for where, label, texts in _rows(file, mistakes):
            rows.append((split, label, where))
            for text in texts:
                writers[split].add(np.frombuffer(text, dtype=np.uint8, count=min(len(text), length)))
        if not len(writers[split]):
            mistakes.add(str(file), "holds no pair; give the file again")
    firsts: dict[tuple[str, str], tuple[str, str, str]] = {}
    for row in rows:
        firsts.setdefault(row[:2], row)
    classes = classes_of(firsts.values(), "pair", str(files["train"]), mistakes)
    mistakes.check()
    target, first = np.repeat([classes.index(label) for _, label, _ in rows], 2), 0
    for writer in writers.values():
        last = first + len(writer)
        writer.finish(target[first:last], np.arange(first, last))
        first = last
    return {"labels": classes, "shared": _copies(builder) if "val" in files else {}}


def _rows(file: Path, mistakes: Mistakes) -> Iterator[tuple[str, str, tuple[bytes, bytes]]]:
    """(where it stands, label, both texts) of each row that has nothing wrong."""
    for where, row in read_rows(file, ("label", "text1", "text2"), mistakes, LAYOUTS):
        raw = row["label"]
        label = label_of(raw.decode(errors="replace") if isinstance(raw, bytes) else raw, where, mistakes)
        first, second = (text_of(row[name], f"{where}, {name}", mistakes) for name in ("text1", "text2"))
        if label is not None and first is not None and second is not None:
            yield where, label, (first, second)


def _hold_out(builder: Builder, whole: Prepared, spec: RetrievalSpec) -> dict[str, Any]:
    """The same pairs with val held out of train; of pairs that occur twice all copies stay in train."""
    train, test = (whole.split(split, paired=True) for split in ("train", "test"))
    once, count = occurs_once(groups(marks(train))), round(spec.val_share * train.units)
    assert train.target is not None
    val = hold_out(train.target[::2], once, count, spec.split_seed, "task.val_share")
    builder.save_split("train", train.take(np.setdiff1d(np.arange(train.units), val)))
    builder.save_split("val", train.take(val))
    builder.save_split("test", test)
    return {"labels": whole.facts["labels"], "shared": _copies(builder)}


def _pair_films(builder: Builder, spec: RetrievalSpec, base: Prepared, root: Path) -> dict[str, Any]:
    """Write the pairs of reviews, each text cut. Raises: BadInput for files that are damaged or do not fit together."""
    film, names = _film_of_each(base, root)
    label, group = np.asarray(base.arrays["all_target"]), np.asarray(base.arrays["group"])
    in_split = split_films(film, int(base.facts["train"]), spec.val_share, spec.split_seed)
    alone, index, counts = occurs_once(group), 0, {}
    values, offsets = base.arrays["all_values"], base.arrays["all_offsets"]
    for split in SPLITS:
        rows = np.flatnonzero(in_split[split] & alone)
        chosen, target = film_pairs(rows, film, label, spec.split_seed)
        if not len(chosen):
            raise BadInput(
                f"{root}: the {len(rows)} reviews of {split} give no pairs (of one film, and as many of two "
                "films with the same labels); give more reviews"
            )
        spans = ((offsets[row], min(offsets[row + 1], offsets[row] + spec.length)) for row in chosen.reshape(-1))
        texts = (np.asarray(values[first:last]) for first, last in spans)
        write_split(builder, split, texts, np.repeat(target, 2), np.arange(index, index + chosen.size))
        index, counts[split] = index + chosen.size, len(np.unique(film[chosen]))
    if copies := _copies(builder):
        raise BadInput(
            f"task.split_seed: {spec.split_seed} gives equal pairs to two splits ({copies}) once texts are cut "
            f"to task.length {spec.length}; take a larger length"
        )
    return {"labels": ["two films", "one film"], "shared": {}, "films": counts, "named": len(names)}


def _film_of_each(base: Prepared, root: Path) -> tuple[np.ndarray, list[str]]:
    """(n,) number of each review's film, and the films' addresses."""
    mistakes, addresses = Mistakes(), {}
    for name, content in members(root, lambda n: _ADDRESSES.search(n) is not None, mistakes):
        if match := _ADDRESSES.search(name):
            lines = [line.strip() for line in content.decode("ascii", "replace").splitlines()]
            addresses[match[1], int(match[2] == "pos")] = (f"{root}, {name}", lines)
    train, label, number = int(base.facts["train"]), base.arrays["all_target"], base.arrays["all_index"]
    if len(base.facts["labels"]) != 2:
        raise BadInput(
            f"{root}: addresses are of negative and positive reviews, the reviews have labels "
            f"{', '.join(base.facts['labels'])}; give IMDb's"
        )
    names: dict[str, int] = {}
    film = np.zeros(len(label), dtype=np.int64)
    for row, (value, line) in enumerate(zip(label.tolist(), number.tolist(), strict=True)):
        split = "train" if row < train else "test"
        file, lines = addresses.get((split, value), (f"{root}, {split}/urls_{'pos' if value else 'neg'}.txt", []))
        if not 0 <= line < len(lines) or not lines[line]:
            which = "a review without a number (its id is not `number_rating`)" if line < 0 else f"review {line}"
            mistakes.add(file, f"has no address of {which}; give the reviews and addresses of one data set")
            continue
        film[row] = names.setdefault(lines[line], len(names))
    mistakes.check()
    return film, list(names)


def split_films(film: np.ndarray, train: int, val_share: float, seed: int) -> dict[str, np.ndarray]:
    """(n,) bool of each split: whole films. A film of the official test is left out of train."""
    official = np.arange(len(film)) < train
    films = np.setdiff1d(film[official], film[~official])
    val = np.isin(film, shuffled(films.tolist(), "films", seed)[: round(val_share * len(films))])
    return {"train": np.isin(film, films) & ~val, "val": val, "test": ~official}


def film_pairs(rows: np.ndarray, film: np.ndarray, label: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (m, 2) of these rows and whether both are of one film (m,), one and two films in turn.

    Reviews of a film are paired at random, each once at most. The pairs of two films are the same first and
    the same second reviews, put together anew among pairs whose two labels are the same: neither one text
    alone nor the two labels can tell the answer.
    """
    order = rows[np.lexsort((bits(seed, "films/review", rows), film[rows]))]
    _, first, count = np.unique(film[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, count)
    paired = rank < 2 * (np.repeat(count, count) // 2)
    ones = order[paired].reshape(-1, 2)
    chosen = []
    for kind in range(4):
        some = ones[2 * label[ones[:, 0]] + label[ones[:, 1]] == kind]
        some = some[np.lexsort((film[some[:, 0]], bits(seed, "films/film", film[some[:, 0]])))]
        most = int(np.unique(film[some[:, 0]], return_counts=True)[1].max()) if len(some) else 0
        if len(some) >= 2 * most > 0:
            # Pairs of one film are side by side and at most `most`: that many further on is another film.
            twos = np.stack([some[:, 0], np.roll(some[:, 1], -most)], 1)
            chosen.append(np.stack([twos, some], 1).reshape(-1, 2))
    table = np.concatenate(chosen) if chosen else np.zeros((0, 2), dtype=np.int64)
    return table, np.arange(len(table)) % 2
