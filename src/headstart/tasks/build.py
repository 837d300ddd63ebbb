"""What tasks share: where files are looked for, splits, classes, notes, threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from headstart.data.copies import groups, marks
from headstart.data.prepared import Builder, Prepared, Writer
from headstart.data.splits import ACROSS, check_sides, dealt, overlaps
from headstart.errors import BadInput, Mistakes
from headstart.sequence import IGNORE, Examples, Signature
from headstart.spec import Seed
from headstart.tasks.task import SPLITS, SplitExamples, Task, TaskSpec, each_split, unit_targets
from headstart.text import in_order

R = TypeVar("R")

LONG_RANGE_ARENA = (
    "much of the signal of the Long Range Arena is short-range: a high score here does not show that a model uses "
    "long-range context."
)
"""What the tasks of that benchmark do not show."""


class GeneratedSpec(TaskSpec):
    """A task that is generated from its spec alone."""

    train: int = Field(default=2_000, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""
    val: int = Field(default=500, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""
    test: int = Field(default=1_000, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""
    data_seed: Seed = 0
    """Seed of the data (the stage's seed has no part in them)."""

    generated: ClassVar[bool] = True

    @property
    def firsts(self) -> dict[str, int]:
        """The number of the first unit of each split, where train, val and test follow each other."""
        return {"train": 0, "val": self.train, "test": self.train + self.val}


def prepared_task(
    ready: Prepared,
    kind: Literal["tokens", "floats"],
    width: int,
    labels: tuple[str, ...] | None = None,
    text: Callable[[np.ndarray], str] | None = None,
    val: str = "val",
    **facts: Any,
) -> Task:
    """The task of three prepared splits, with the labels (unless given) and notes of their facts, memory-mapped.

    A task without labels has numbers as targets. val: the split that val is. facts: those of `Prepared.split`.
    """

    def examples(name: str) -> Examples:
        split = ready.split(val if name == "val" else name, **facts)
        return replace(split, values=split.values.reshape(-1, width)) if kind == "floats" else split

    splits = each_split(examples)
    labels = tuple(ready.facts.get("labels", ())) if labels is None else labels
    notes = tuple(ready.facts.get("notes", ()))
    signature = signature_of(splits, len(labels), width)
    return Task(signature, **splits, labels=labels, notes=notes, text=text, fingerprint=ready.fingerprint)


def signature_of(splits: SplitExamples, classes: int = 0, width: int = 0) -> Signature:
    """What is true of these examples. classes, width: how many classes and tokens there are (0: as many as occur)."""
    every = [splits["train"], splits["val"], splits["test"]]
    x, lengths = splits["train"], np.concatenate([split.lengths for split in every])
    tokens, target = x.values.ndim == 1, x.target
    kind: Literal["class", "number", "none"] = "none" if target is None else "class"
    if target is not None and target.dtype.kind == "f":
        kind = "number"
    if kind == "class" and not classes:
        classes = 1 + max(int(np.max(split.target, initial=0)) for split in every if split.target is not None)
    if not width:
        width = 1 + max(int(split.values.max(initial=0)) for split in every) if tokens else x.values.shape[1]
    targets = 1 if target is None or target.ndim == 1 else target.shape[1]
    missing = any(split.observed is not None for split in every)
    size, classes = (int(lengths.max()), int(lengths.min())), classes if kind == "class" else 0
    form: Literal["tokens", "floats"] = "tokens" if tokens else "floats"
    return Signature(form, width, *size, kind, classes, targets, x.per_position, x.paired, missing)


def make_task(
    train: Examples,
    val: Examples | None = None,
    test: Examples | None = None,
    *,
    labels: Sequence[str] = (),
    width: int = 0,
    seed: int = 0,
    val_share: float = 0.2,
    test_share: float = 0.2,
    text: Callable[[np.ndarray], str] | None = None,
) -> Task:
    """A task of examples in memory: the splits that are given, or val and test drawn from the one set by `seed`.

    Drawn splits have each class in proportion, and copies of a sequence stay in one of them; copies in splits that are
    given are counted in the notes. The signature is that of the data; examples are numbered anew.
    labels: names of the classes (default: their numbers). width: how many tokens there are (default: as many as occur).
    Raises: BadInput where only one of val and test is given, a split or class would be empty, or splits differ in kind.
    """
    if val is None and test is None:
        target, group = unit_targets(train), groups(marks(train))
        classed = target is not None and target.dtype.kind != "f"
        labelled = np.isin(np.arange(train.units), train.labelled_units()) | (train.target is None)
        classes = np.asarray(target) if classed else np.where(labelled, 0, IGNORE)
        shares = {"val": val_share, "test": test_share}
        rows = dealt(classes, group, shares, seed)
        check_sides(rows, classes, (), shares, *2 * (len(np.unique(group)),))
        train, val, test = (train.take(rows[name]) for name in SPLITS)
    if val is None or test is None:
        raise BadInput("make_task: one of val and test is given; give both, or neither, to have both drawn from train")
    _check_alike({"train": train, "val": val, "test": test}, len(labels))
    firsts = np.cumsum([0, len(train), len(val)])
    train, val, test = (
        replace(split, index=first + np.arange(len(split)))
        for split, first in zip((train, val, test), firsts, strict=True)
    )
    signature = signature_of({"train": train, "val": val, "test": test}, len(labels), width)
    names = tuple(labels) or tuple(map(str, range(signature.classes)))
    task = Task(signature, train, val, test, names, text=text)
    copies = {pair: count for pair, count in overlaps(task).items() if count}
    notes = [
        f"{count} of the {task.split(late).units} {late} sequences stand in {early}"
        for (early, late), count in copies.items()
    ]
    return replace(task, notes=tuple(notes))


def _check_alike(splits: Mapping[str, Examples], named: int) -> None:
    """Raises: BadInput where splits have other channels or targets than train, or more classes than are named."""
    inputs, targets = {}, {}
    for name, split in splits.items():
        inputs[name] = "tokens" if split.values.ndim == 1 else f"floats of {split.values.shape[1]} channels"
        kind = None if split.target is None else "numbers" if split.target.dtype.kind == "f" else "classes"
        targets[name] = f"{kind} as targets" if kind else "no targets"
    for kinds in (inputs, targets):
        for name, kind in kinds.items():
            if kind != kinds["train"]:
                raise BadInput(
                    f"make_task: {name} has {kind}, and train has {kinds['train']}; give all splits the same"
                )
    if named and targets["train"].startswith("classes"):
        highest = max(int(np.max(split.target, initial=0)) for split in splits.values() if split.target is not None)
        if highest >= named:
            raise BadInput(
                f"make_task: labels name {named} classes, and the targets go up to {highest}; name each class"
            )


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
    waiting = iter(numbers)
    with ThreadPoolExecutor(workers) as pool:
        while some := list(islice(waiting, 8 * workers)):
            yield from pool.map(make, some)


def classes_of(rows: Iterable[tuple[str, str, str]], noun: str, file: str, mistakes: Mistakes) -> list[str]:
    """The labels of train in the order of their class numbers; other splits may have no other.

    rows: (split, label, where it stands) of each row. noun: what has the labels. file: where a mistake about all of
    train is reported.
    """
    rows = list(rows)
    labels = in_order({label for split, label, _ in rows if split == "train"})
    if len(labels) == 1:
        mistakes.add(file, f"every train {noun} has label {labels[0]!r}; give two labels or more")
    for _, label, where in rows:
        if labels and label not in labels:
            mistakes.add(where, f"label {label!r} does not occur in train")
    return labels


def own_path(data: Path, field: str, name: str) -> Path:
    """The file or folder that a field of a task names, from the data folder on or absolute.

    Raises: BadInput naming where it was looked for, where it is not there.
    """
    path = data / name
    if not path.exists():
        hint = f" ({name} is in this folder: --data .)" if Path(name).exists() and not Path(name).is_absolute() else ""
        raise BadInput(
            f"task.{field}: {path} is not there; give an absolute path, or one from the data folder on, which --data "
            f"or HEADSTART_DATA names{hint}"
        )
    return path


def write_split(
    builder: Builder,
    name: str,
    sequences: Iterable[np.ndarray],
    target: np.ndarray,
    index: np.ndarray,
    dtype: type[np.integer[Any]] = np.uint8,
) -> None:
    """Write the sequences (L,) of one split as they come, with their targets and numbers (n,)."""
    writer = Writer(builder, name, dtype)
    for sequence in sequences:
        writer.add(sequence)
        if len(writer) % 1000 == 0:
            builder.report(len(writer), len(target))
    writer.finish(target, index)


def repeats(builder: Builder, what: str) -> list[str]:
    """Notes of examples that stand in an earlier split, too."""
    copies = overlaps(builder.written())
    return [f"{count:,} {what} of {late} {ACROSS} {early}" for (early, late), count in copies.items() if count]
