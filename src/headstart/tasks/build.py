"""What tasks share in making their splits: lengths, classes, notes, threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from typing import Literal, TypedDict, TypeVar

import numpy as np

from headstart.data.labels import in_order
from headstart.data.prepared import Prepared, stored
from headstart.errors import Mistakes
from headstart.sequence import Examples, Signature
from headstart.tasks.task import SPLITS, Task

R = TypeVar("R")


class SplitExamples(TypedDict):
    """The three splits, by their names."""

    train: Examples
    val: Examples
    test: Examples


def each_split(make: Callable[[str], Examples]) -> SplitExamples:
    """What `make` gives for the name of each split, in the order of SPLITS."""
    return {"train": make("train"), "val": make("val"), "test": make("test")}


def length_range(splits: SplitExamples) -> tuple[int, int]:
    """Positions of the longest and of the shortest example of all splits, as a signature has them."""
    lengths = np.concatenate([splits["train"].lengths, splits["val"].lengths, splits["test"].lengths])
    return int(lengths.max()), int(lengths.min())


def prepared_task(
    ready: Prepared,
    kind: Literal["tokens", "floats"],
    width: int,
    labels: tuple[str, ...] | None = None,
    text: Callable[[np.ndarray], str] | None = None,
    paired: bool = False,
    scale: float | None = None,
    shift: float = 0.0,
) -> Task:
    """The task of three prepared splits, with the labels (unless given) and notes of their facts, memory-mapped.

    A task without labels has numbers as targets. Other parameters are those of `stored`.
    """

    def examples(name: str) -> Examples:
        split = stored(ready, name, paired, scale, shift)
        return replace(split, values=split.values.reshape(-1, width)) if kind == "floats" else split

    splits, facts = each_split(examples), ready.facts
    labels = tuple(facts.get("labels", ())) if labels is None else labels
    longest, shortest = length_range(splits)
    target: Literal["class", "number"] = "class" if labels else "number"
    missing = splits["train"].observed is not None
    signature = Signature(kind, width, longest, shortest, target, len(labels), paired=paired, missing=missing)
    notes = tuple(facts.get("notes", ()))
    return Task(signature, **splits, labels=labels, notes=notes, text=text, fingerprint=ready.fingerprint)


def size_note(name: str, sizes: Mapping[str, int], official: Mapping[str, int], noun: str) -> list[str]:
    """A note where the splits of a data set do not have their official sizes."""
    if dict(sizes) == dict(official):
        return []
    here, there = (", ".join(f"{count} {split}" for split, count in counts.items()) for counts in (sizes, official))
    return [f"not the official {name}: {here} {noun} (official: {there})"]


def in_threads(make: Callable[[int], R], numbers: Iterable[int], workers: int) -> Iterator[R]:
    """What `make` gives for each number, in their order, made ahead by that many threads (numpy lets others run)."""
    if workers < 2:
        yield from map(make, numbers)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for number in numbers:
                waiting.append(pool.submit(make, number))
                if len(waiting) == 4 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def classes_of(rows: Iterable[tuple[str, str, str]], noun: str, file: str, mistakes: Mistakes) -> list[str]:
    """The labels of train in the order of their class numbers; other splits may have no other.

    rows: (split, label, place) of each row. noun: what has the labels. file: the place of a mistake about all of train.
    """
    rows = list(rows)
    labels = in_order({label for split, label, _ in rows if split == "train"})
    if len(labels) == 1:
        mistakes.add(file, f"every train {noun} has label {labels[0]!r}; give two labels or more")
    for _, label, place in rows:
        if labels and label not in labels:
            mistakes.add(place, f"label {label!r} does not occur in train")
    return labels


def mark(first: np.ndarray, second: np.ndarray) -> bytes:
    """16 bytes, equal where both texts (L,) uint8 are equal."""
    total = blake2b(len(first).to_bytes(8, "little"), digest_size=16)
    total.update(np.ascontiguousarray(first).data)
    total.update(np.ascontiguousarray(second).data)
    return total.digest()


def shared(marks: dict[str, list[bytes]]) -> dict[str, int]:
    """How many pairs of val and test also stand in an earlier split: {"val in train": 3, ...}."""
    known = {split: set(marks[split]) for split in SPLITS if split in marks}
    counts = {
        f"{late} in {early}": sum(mark in known[early] for mark in marks[late])
        for i, late in enumerate(known)
        for early in list(known)[:i]
    }
    return {name: count for name, count in counts.items() if count}
