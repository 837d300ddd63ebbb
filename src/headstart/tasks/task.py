"""The contract of a task: a spec, and what loading it gives; splits, fractions, labels, fingerprints."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np
from pydantic import Field, model_validator

from headstart.atomic import stamps
from headstart.data.prepared import UnequalSizes, check_sizes, reading, remembered
from headstart.data.prepared import progress as watcher
from headstart.data.splits import SHUFFLED, in_fold, stratified_order, with_shuffled_labels
from headstart.errors import BadInput, OwnCall
from headstart.sequence import IGNORE, Batch, Examples, Signature
from headstart.spec import Seed, Spec, digest, neutral
from headstart.text import first_few

SPLITS = ("train", "val", "test")

WHOLE_DATA = {
    "fraction": 1.0,
    "labelled": None,
    "patch": 1,
    "folds": None,
    "fold": None,
    "validation": 1,
    "rows": None,
    "scored": None,
    "shuffled_labels": False,
}
"""Fields of a spec that change what is made of the loaded data: at these values, nothing."""

ReadProgress = Callable[[int, int], None]
"""Called with (items done, items in all)."""
Augment = Callable[[Examples, int], Examples]
"""Train examples as they are in an epoch."""


class SplitExamples(TypedDict):
    """The three splits, by their names."""

    train: Examples
    val: Examples
    test: Examples


def each_split(make: Callable[[str], Examples]) -> SplitExamples:
    """What `make` gives for the name of each split, in the order of SPLITS."""
    return {"train": make("train"), "val": make("val"), "test": make("test")}


@dataclass(frozen=True)
class Baseline:
    """A trivial score that an arm must beat, on val and test, in [0, 1]; None where it is not known."""

    name: str
    val: float | None
    test: float | None
    source: str = ""


@dataclass(frozen=True)
class Task:
    """A loaded task: signature, three splits and what a person should know of them.

    `labels` are the names of the classes, in the order of their numbers. `notes` are said in reports
    (overlaps of official splits, lossy copies). `picture` turns the inputs of one example, (L,) or (L, F),
    into an image (rows, columns[, 3]) in [0, 1]; `text` turns them into a line. A task has one of the two or
    neither (a curve is drawn then). `fresh` gives the train examples of an epoch where they are an endless
    stream (of epoch 0: `train`); the number of units is the same in every epoch. `augment` changes train
    examples for an epoch (val and test never change). `decided` is what the data decide besides the arrays (names of
    classes, width): part of the content where it is given. `blocks` (units of train, then of val) are numbers, equal
    where units stay on one side of a fold (groups); copies always do. `slices`: by name, whole numbers (B, L) of a
    batch, for each of which test accuracy is told. `bytes_per_token`: by split, of texts in pieces.
    """

    signature: Signature
    train: Examples
    val: Examples
    test: Examples
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    picture: Callable[[np.ndarray], np.ndarray] | None = None
    text: Callable[[np.ndarray], str] | None = None
    fingerprint: str = ""
    fresh: Callable[[int], Examples] | None = None
    augment: Augment | None = None
    decided: str = ""
    blocks: np.ndarray | None = None
    slices: Callable[[Batch], Mapping[str, Any]] | None = None
    bytes_per_token: Mapping[str, float] = field(default_factory=dict)

    def split(self, name: str) -> Examples:
        """The examples of `train`, `val` or `test`."""
        return {"train": self.train, "val": self.val, "test": self.test}[name]

    @property
    def symbols(self) -> tuple[str, ...]:
        """What each token id stands for; none where inputs are numbers, or ids cannot be read back."""
        if self.text is None or self.signature.input != "tokens":
            return ()
        return tuple(self.text(np.array([token])) for token in range(self.signature.width))


@dataclass(frozen=True)
class Outline:
    """Sizes of a data set as its papers state them, before patches, fraction and labels.

    train, val, test: units. positions: the usual length of an example.
    """

    signature: Signature
    train: int
    val: int
    test: int
    positions: int


def rule(name: str) -> dict[str, str]:
    """The model of a stage that is a trivial rule of `Task.baselines`."""
    return {"kind": "task", "name": name}


class TaskSpec(Spec):
    """Fields that every task has."""

    kind: str
    fraction: float = Field(default=1.0, gt=0, le=1)
    """Share of the train examples, a nested prefix of one stratified order, in (0, 1]."""
    labelled: int | None = Field(default=None, ge=1)
    """How many train units keep their label (left out: all); the others serve objectives without a target."""
    split_seed: Seed = 0
    """Seed of splits, fractions and labels that we draw; never the stage's seed."""
    patch: int = neutral(1, ge=1)
    """Positions joined into one, for float inputs (1: none)."""
    folds: int | None = neutral(None, ge=2)
    """Train and val are dealt out anew into so many folds, each class in proportion."""
    fold: int | None = neutral(None, ge=0)
    """The fold that is val, from 0 (from `folds` on one of a further repetition); `"seed"`: the run's seed."""
    validation: Literal[0, 1] = neutral(1)
    """0 where val trains too: nothing is left to choose on, so that a network keeps its last weights. What is decided
    by train (standards, ranges) stays that of train as it was, and test stays test."""
    rows: int | None = neutral(None, ge=1)
    """Units of train at most: one of each class, then the first of an order in which each has its share, so that fewer
    are a part of more (left out: all)."""
    scored: int | None = neutral(None, ge=1)
    """Units of val, and of test, at most: the first of an order in which each class has its share (left out: all)."""
    shuffled_labels: bool = neutral(False)
    """A control: labels of train and val are dealt out anew, so that test scores have to be those of a guess."""

    reader: ClassVar[int] = 1
    """Raised where the same files give other arrays, so that none of before are taken for them."""
    needs_causal: ClassVar[bool] = False
    """True: what is asked for stands right behind the position that is asked, so that only a causal model has to know
    it."""
    generated: ClassVar[bool] = False
    """True: the spec alone says what the data are (planning generates nothing)."""
    objective: ClassVar[str] = "classify"
    """Default objective of the last stage."""
    mask_rate: ClassVar[float] = 0.15
    """Default share of masked positions of self-pretraining."""
    loss: ClassVar[str | None] = "tokens"
    """Default loss of self-pretraining: l1, l2, levels or tokens; None: what fits the input, once that is known."""
    monitor: ClassVar[str | None] = None
    """Default score of the objective `causal`, by which the best weights are chosen; None: accuracy or R2."""

    class_count: ClassVar[int | None] = None
    """Classes of the target, where all specs of the kind have as many; None: as `outline` or the data say."""
    shows_not: ClassVar[str] = ""
    """What a score on this benchmark does not show: one sentence that every report prints."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ({"kind": "majority"}, {"kind": "linear"}, {"kind": "nearest"})
    """Models without gradients that a study reports beside its arms; a `rule` is one of `Task.baselines`."""

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> TaskSpec:
        """Where val trains too there is no fold, so that equal tasks have equal specs."""
        if not self.validation:
            self.__dict__.update(folds=None, fold=None)
        elif (self.folds is None) != (self.fold is None):
            absent = "folds" if self.folds is None else "fold"
            raise ValueError(f"{absent}: is missing; folds says how many folds there are, fold which of them chooses")
        return self

    def defaults(self, signature: Signature) -> dict[str, str | float]:
        """Default `objective`, `mask_rate` and `loss`, for data of this signature."""
        fitting = "tokens" if signature.input == "tokens" else "l1"
        return {"objective": self.objective, "mask_rate": self.mask_rate, "loss": self.loss or fitting}

    def baseline_models(self) -> tuple[Mapping[str, str], ...]:
        """The models of `baselines` that the task's settings leave."""
        return self.baselines

    def outline(self) -> Outline | None:
        """What the spec alone says of the sizes, for an estimate without data; None where only the data know."""
        return None

    def load(self, data: Path) -> Task:
        """The whole task, before `fraction`, `labelled` and `patch`; prepared arrays are memory-mapped.

        Raises: BadInput naming the file looked for, the folder, and where the data set comes from.
        """
        raise BadInput(
            f"task.kind: {self.kind!r} says nowhere how its examples are read; give {type(self).__name__} a method "
            "`load(self, data: Path) -> Task`"
        )

    def augmentation(self) -> Augment | None:
        """How train examples change in an epoch, where the spec alone says so: `Task.augment` of the opened task."""
        return None

    def files(self, data: Path) -> tuple[Path, ...]:
        """The files that the data are read from, where the task has any.

        Raises: BadInput naming one that is missing, the folder, and where the data set comes from.
        """
        return ()

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Build what `load` opens with that many workers, where that is faster. The bits do not depend on `workers`."""


def prepare(spec: TaskSpec, data: Path, workers: int = 1, progress: ReadProgress | None = None) -> Task:
    """Build (or check) a task's prepared arrays with that many workers, then open it."""
    watch = None if progress is None else (lambda _, done, total: progress(done, total))
    before = watcher.set(watch)
    try:
        spec.prepare(data, workers)
        return open_task(spec, data)
    finally:
        watcher.reset(before)


def available(spec: TaskSpec, data: Path) -> bool:
    """Whether a task can be opened here: it is generated, or its files are in the data folder."""
    return not absence(spec, data)


def absence(spec: TaskSpec, data: Path) -> str:
    """Which files of a task are not in the data folder, and the way out; empty where it can be opened here."""
    try:
        if not spec.generated:
            spec.files(data)
    except BadInput as error:
        return str(error)
    return ""


def open_task(spec: TaskSpec, data: Path) -> Task:
    """Load a task and apply what its spec says of patches, fraction and labels.

    Raises: BadInput where a fraction or `labelled` leaves a class of the train split empty.
    """
    name = f"task.kind: load of {type(spec).__name__}"
    try:
        with reading(f"task {spec.kind!r}"):
            with OwnCall(name):
                task = spec.load(data)
            if not isinstance(task, Task):
                raise BadInput(f"{name} gives {type(task).__name__}; return a headstart.tasks.Task")
            for split in SPLITS:
                check_sizes(split, task.split(split))
    except UnequalSizes as error:
        raise BadInput(
            f"{name} gives a task whose arrays do not fit ({error}); headstart.make_task fits them"
        ) from None
    return narrowed(spec, task)


def narrowed(spec: TaskSpec, task: Task) -> Task:
    """A loaded task with what its spec says of patches, fraction and labels."""
    task = _dealt_anew(task, spec)
    task = _patched(task, spec.patch) if spec.patch > 1 else task
    classed = task.signature.target == "class" and not task.signature.per_position
    if spec.scored is not None:
        few = partial(_first_of, count=spec.scored, classed=classed, seed=spec.split_seed)
        task = replace(task, val=few(task.val), test=few(task.test))
    order = stratified_order(unit_targets(task.train) if classed else None, task.train.units, spec.split_seed)
    train = task.train
    if spec.rows is not None and spec.rows < train.units:
        train = train.take(np.sort(_each_first(order, unit_targets(train) if classed else None)[: spec.rows]))
        _refuse_empty_classes(task, train, f"task.rows: {spec.rows}")
        order = stratified_order(unit_targets(train) if classed else None, train.units, spec.split_seed)
    if spec.fraction < 1:
        train = train.take(np.sort(order[: round(spec.fraction * train.units)]))
        _refuse_empty_classes(task, train, f"task.fraction: {spec.fraction}")
    if spec.labelled is not None:
        train = _keep_labels(train, spec, order)
        _refuse_empty_classes(task, train, f"task.labelled: {spec.labelled}")
    if spec.shuffled_labels:
        parts = {"train": train, "val": task.val}
        train, val = (with_shuffled_labels(part, spec.split_seed, name) for name, part in parts.items())
        task = replace(task, val=val, notes=(*task.notes, SHUFFLED))
    # A chosen part of a stream is a fixed set: the first epoch's.
    fresh = task.fresh if train is task.train else None
    augment = task.augment or spec.augmentation()
    return replace(task, train=train, fresh=fresh, augment=augment, fingerprint=task.fingerprint or fingerprint(task))


def _first_of(split: Examples, count: int, classed: bool, seed: int) -> Examples:
    """So many units at most, each class in proportion."""
    if split.units <= count:
        return split
    order = stratified_order(unit_targets(split) if classed else None, split.units, seed)
    return split.take(np.sort(order[:count]))


def _each_first(order: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    """The order with the first unit of each class before all others."""
    if target is None:
        return order
    first = np.sort(np.unique(target[order], return_index=True)[1])
    return np.concatenate([order[first], np.delete(order, first)])


def _dealt_anew(task: Task, spec: TaskSpec) -> Task:
    """The task with another fold as val, or with no val, whose units train."""
    if spec.validation and spec.folds is None:
        return task
    if task.fresh is not None:
        name = "folds" if spec.validation else "validation"
        raise BadInput(f"task.{name}: task {spec.kind!r} has an endless stream of train examples; leave it out")
    if not spec.validation:
        both = task.train.followed_by(task.val)
        return replace(task, train=both, val=both.take(np.arange(0)), blocks=None)
    train, val = in_fold(
        (task.train, task.val), unit_targets, task.blocks, spec.folds or 1, spec.fold or 0, spec.split_seed
    )
    return replace(task, train=train, val=val, blocks=None)


def unit_targets(examples: Examples) -> np.ndarray | None:
    """(units,) targets of units, or None where there are none or several."""
    target = examples.target
    if target is None or examples.per_position or target.ndim > 1:
        return None
    return target[::2] if examples.paired else target


def _keep_labels(train: Examples, spec: TaskSpec, order: np.ndarray) -> Examples:
    if train.target is None:
        raise BadInput(f"task.labelled: {spec.labelled}, but task {spec.kind!r} has no target")
    have = train.labelled_units()
    count = spec.labelled or len(have)
    if count > len(have):
        labelled = "" if len(have) == train.units else "labelled "
        raise BadInput(
            f"task.labelled: {count} is more than the {len(have)} {labelled}train examples; "
            f"give at most {len(have)} or leave it out"
        )
    # The order runs over the whole train split; what a fraction left out, or has no label, keeps no place in it.
    units = np.sort(order[: round(spec.fraction * len(order))] if spec.fraction < 1 else order)
    there = np.zeros(len(order), dtype=bool)
    there[units[have]] = True
    rank = np.full(len(order), len(order), dtype=np.int64)
    rank[order[there[order]]] = np.arange(len(have))
    chosen = rank[units] < count
    target = train.target.copy()
    rows = train.rows(np.flatnonzero(~chosen))
    if train.per_position:
        keep = np.ones(len(train), dtype=bool)
        keep[rows] = False
        rows = ~np.repeat(keep, train.lengths)
    target[rows] = np.nan if target.dtype.kind == "f" else IGNORE
    return replace(train, target=target)


def _refuse_empty_classes(task: Task, train: Examples, what: str) -> None:
    if task.signature.target != "class" or train.target is None or task.train.target is None:
        return
    there, before = (np.unique(x.target[x.target != IGNORE]) for x in (train, task.train) if x.target is not None)
    # Of the classes of positions, a vocabulary for one, no sequence set need hold all.
    lost = [] if train.per_position else np.setdiff1d(before, there).tolist()
    if train.units == 0 or lost:
        names = [task.labels[v] if v < len(task.labels) else str(v) for v in lost]
        raise BadInput(f"{what} leaves no train example of class {first_few(names) or 'any'}; take more examples")


def _patched(task: Task, patch: int) -> Task:
    """Join `patch` neighbouring positions of float inputs; what a last patch lacks counts as missing."""
    if task.signature.input != "floats" or task.signature.per_position:
        way = "join tokens with model.encoder.patch" if task.signature.input == "tokens" else "leave it at 1"
        raise BadInput(f"task.patch: {patch} needs float inputs with one target per sequence; {way}")
    room = any((x.lengths % patch).any() for x in (task.train, task.val, task.test))
    signature = replace(task.signature.patched(patch), missing=task.signature.missing or room)
    picture, width = task.picture, task.signature.width
    unpatch = None if picture is None else (lambda x: picture(x.reshape(-1, width)))
    train, val, test = (task.split(name).patched(patch, room) for name in SPLITS)
    return replace(task, signature=signature, picture=unpatch, train=train, val=val, test=test)


def fingerprint(task: Task) -> str:
    """SHA-256 of the parsed arrays of all splits: content, never place."""
    total = hashlib.sha256()
    for name in SPLITS:
        x = task.split(name)
        for label, array in (("v", x.values), ("o", x.offsets), ("t", x.target), ("s", x.observed)):
            if array is not None:
                plain = np.ascontiguousarray(array)
                total.update(f"{name}/{label}/{plain.dtype.str}/{plain.shape}".encode())
                total.update(plain.view(np.uint8).data)
        if x.scale is not None:
            total.update(f"{name}/seen/{x.scale!r}/{x.shift!r}".encode())
    if task.decided:
        total.update(f"decided/{task.decided}".encode())
    return total.hexdigest()


def content(spec: TaskSpec, data: Path) -> str | None:
    """What stands for a task's data in an identity: None for a generated task, else the fingerprint.

    The whole task is hashed, before fraction, labels and patches, which the spec itself holds. The hash of
    files is remembered by their path, size and time (the place is in the memory's key, never in the hash).
    """
    if spec.generated:
        return None
    whole = spec.model_copy(update=WHOLE_DATA)
    stands = stamps(whole.files(data))
    if not stands:
        return digest({"fingerprint": fingerprint(whole.load(data))})
    key = {"spec": whole.document(), "files": stands, **({"reader": spec.reader} if spec.reader > 1 else {})}
    return remembered(key, lambda: digest({"fingerprint": fingerprint(whole.load(data))}))


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """`--data`, else HEADSTART_DATA, else ./data."""
    return Path(folder or os.environ.get("HEADSTART_DATA") or "data")
