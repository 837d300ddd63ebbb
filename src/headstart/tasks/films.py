"""Pairs of IMDb reviews: are these two of one film? Built from the reviews and the films' addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import listed, members, stamps
from headstart.data.prepared import Builder, Prepared, Writer, prepared
from headstart.data.splits import occurs_once
from headstart.errors import BadInput, Mistakes
from headstart.seeds import bits, permutation
from headstart.tasks.build import mark, shared
from headstart.tasks.task import SPLITS
from headstart.tasks.text import ORIGIN, find, reviews

_READER = 1
"""Raised when the same files give other pairs."""
_ADDRESSES = re.compile(r"(?:^|/)(train|test)/urls_(neg|pos)\.txt$")
_ARCHIVE = re.compile(r"^(?:imdb_urls|aclImdb).*\.(?:tar|tgz|tar\.gz|tar\.xz|tar\.bz2)$")


def find_addresses(data: Path, task: str) -> tuple[Path, tuple[Path, ...]]:
    """The folder or archive with the files `train/urls_neg.txt` and so on, and what is read of it.

    Raises: BadInput naming what is missing, the folder, and where it comes from.
    """
    roots = [data / "imdb", data / "imdb" / "aclImdb", data / "imdb" / "imdb_urls", data / "aclImdb"]
    for root in roots:
        if (root / "train" / "urls_neg.txt").is_file():
            return root, tuple(root / name for name in listed(root, lambda n: _ADDRESSES.search(n) is not None))
    for root in roots:
        for archive in sorted((p for p in root.glob("*") if _ARCHIVE.match(p.name)), key=lambda p: p.name[0] != "i"):
            return archive, (archive,)
    raise BadInput(
        f"task.source: 'imdb_films' of {task!r} looks for the films' addresses, train/urls_neg.txt and so on, or an "
        f"archive imdb_urls.tar.xz of them, in {roots[0]}, and none is there; {ORIGIN} has them; name the folder above "
        "it with --data or HEADSTART_DATA"
    )


def films_files(data: Path, task: str) -> tuple[Path, ...]:
    """Every file that is read."""
    return (*find(data, task)[1], *find_addresses(data, task)[1])


def films(data: Path, task: str, length: int, val_share: float, seed: int) -> Prepared:
    """The pairs as bytes, each text cut to `length`: arrays as `stored` reads them.

    Facts: `shared` as of `pairs`, `films` (how many of each split). Raises: BadInput for files that are
    missing, damaged or do not fit together.
    """
    base = reviews(data, task)
    root, files = find_addresses(data, task)
    settings = {"length": length, "val_share": val_share, "seed": seed}
    document = {"reader": _READER, "reviews": base.fingerprint, "files": stamps(files), **settings}
    return prepared(data, "imdb-films", document, lambda builder: _build(builder, base, root, length, val_share, seed))


def _build(builder: Builder, base: Prepared, root: Path, length: int, val_share: float, seed: int) -> dict[str, Any]:
    film, names = _film_of_each(base, root)
    label, group = np.asarray(base.arrays["all_target"]), np.asarray(base.arrays["group"])
    in_split = split_films(film, int(base.facts["train"]), val_share, seed)
    alone, index, marks, counts = occurs_once(group), 0, {}, {}
    for split in SPLITS:
        rows = np.flatnonzero(in_split[split] & alone)
        chosen, target = film_pairs(rows, film, label, seed)
        if not len(chosen):
            raise BadInput(
                f"{root}: the {len(rows)} reviews of {split} give no pairs (of one film, and as many of two "
                "films with the same labels); give more reviews"
            )
        writer, seen = Writer(builder, split), []
        for pair in chosen:
            texts = [_text(base, row, length) for row in pair]
            for text in texts:
                writer.add(text)
            seen.append(mark(*texts))
            if len(seen) % 1000 == 0:
                builder.report(len(seen), len(chosen))
        writer.finish(np.repeat(target, 2), np.arange(index, index + 2 * len(chosen)))
        index, marks[split], counts[split] = index + 2 * len(chosen), seen, len(np.unique(film[chosen]))
    if shared(marks):
        raise BadInput(
            f"task.split_seed: {seed} gives equal pairs to two splits ({shared(marks)}) once texts are cut "
            f"to task.length {length}; take a larger length"
        )
    return {"labels": ["two films", "one film"], "shared": {}, "films": counts, "named": len(names)}


def _text(base: Prepared, row: int, length: int) -> np.ndarray:
    first, last = base.arrays["all_offsets"][row : row + 2]
    return np.asarray(base.arrays["all_values"][first : min(last, first + length)])


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
    known = np.setdiff1d(film[official], film[~official])
    held = known[permutation(seed, "task/films", len(known))[: round(val_share * len(known))]]
    val = np.isin(film, held)
    return {"train": np.isin(film, known) & ~val, "val": val, "test": ~official}


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
