"""A person's own file as a task: read as `headstart show FILE` reads it, split, standardised, prepared once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.atomic import stamps
from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.data.alike import about_files
from headstart.data.archives import files_of
from headstart.data.findings.channels import small_words
from headstart.data.layout import Layout, SequenceKind, by_role
from headstart.data.letters import spoken
from headstart.data.preparation import Preparation
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.sequences import channel_moments, check_target_kind, shared_with_neighbours, standardised, to_range
from headstart.data.splits import (
    about_copies,
    about_groups,
    about_labels,
    about_neighbours,
    check_sides,
    dealt,
    dealt_in_time,
    joined,
)
from headstart.errors import BadInput
from headstart.sequence import IGNORE, Examples, Signature
from headstart.spec import Spec, neutral, place, read
from headstart.tasks.build import own_path, repeats
from headstart.tasks.task import SPLITS, WHOLE_DATA, Task, TaskSpec, content, each_split, open_task

LAYOUT_FIELDS = ("target", "target_kind", "id", "time", "group", "values", "na", "delimiter")
"""Fields of a layout that may be named without it."""
FILE_FIELDS = ("file", "val", "test", "unlabelled")
"""Fields that name files."""
ROUNDED = (
    "values stay as they are and are rounded to single precision, which loses a small signal on a large offset; "
    "standardise = true, or an offset subtracted in the file, keeps it"
)
UNSET: tuple[object, ...] = (None, (), "auto")


class OwnFacts(Spec):
    """What the file decides of a model that is to read other files."""

    kind: SequenceKind
    symbols: tuple[str, ...]
    channels: tuple[str, ...]
    labels: tuple[str, ...]
    layout: LayoutSpec
    """Reads other files as this one was read."""
    mean: tuple[float, ...]
    """Of each channel over train, none where values stay as they are."""
    deviation: tuple[float, ...]
    """Of each channel over train, none where values stay as they are."""
    low: float | None
    """The numbers of train that stand as -1 and 1, None where targets stay as they are."""
    high: float | None
    """The numbers of train that stand as -1 and 1, None where targets stay as they are."""
    counts: tuple[int, ...]
    """Labelled sequences of each class in train, in the order of `labels`."""

    def preparation(self, *, patch: int = 1, missing: bool = False) -> Preparation:
        """How a model that saw these sequences sees others."""
        names = ("kind", "symbols", "channels", "mean", "deviation", "low", "high")
        facts = {name: getattr(self, name) for name in names}
        return Preparation(**facts, classes=self.labels, patch=patch, missing=missing)


class OwnSpec(TaskSpec):
    """Sequences of your own out of a file or folder that `headstart show FILE` reads, with a class or a number each.

    With `layout = { per_position = true }` every position has a class or a number: a list in the column of the target,
    or, in a long table, the column as it stands.

    A row of a file with the header `id,label,t0,t1,t2` is `s01,sick,0.3,,0.7`: three positions, the second of them
    missing. A class stands by its name, in the order of the names (of the numbers, where all are numbers).
    """

    kind: Literal["own"] = "own"
    file: str = place(min_length=1)
    """Its path, from the data folder on or absolute."""
    val: str | None = place(None, min_length=1)
    """A further file, whose labelled rows are the validation split; without it `val_share` of `file` are."""
    test: str | None = place(None, min_length=1)
    """A further file, whose labelled rows are the test split; without it `test_share` of `file` are."""
    unlabelled: str | None = place(None, min_length=1)
    """A file whose rows join train without their labels. Where a file is enters no identity; its content does."""
    layout: LayoutSpec = Field(default_factory=LayoutSpec)
    """Whatever is known of the file; what is left out is guessed, and the notes say how it was read."""
    target: str | None = None
    """Column of the target, as in `layout`."""
    target_kind: Literal["auto", "class", "number"] = neutral("auto")
    """Whether the target is a class or a number; asked for where whole numbers may be either."""
    id: str | None = None
    """Column of the ids, as in `layout`."""
    time: str | None = None
    """Column of the times, as in `layout`."""
    group: str | None = None
    """Column of the groups, whose rows stay in one split."""
    values: tuple[str, ...] = ()
    """Columns that hold the sequence, as in `layout`."""
    na: tuple[str, ...] = ()
    """Words that stand for a missing value, as in `layout`."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """What separates the cells of a text file, as in `layout`."""
    val_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the labelled rows that is the validation split; 0.2 where it is not given."""
    test_share: float | None = Field(default=None, ge=0, lt=1)
    """Share of the labelled rows that is the test split; 0.2 where it is not given; 0: no test split."""
    by_group: bool = True
    """Whether the rows of a group stay in one split."""
    standardise: bool = True
    """Each channel of numbers gets mean 0 and deviation 1 over what is observed in train."""
    scale_target: bool = True
    """The smallest and largest number of train stand as -1 and 1."""
    longest: int | None = neutral(None, ge=1)
    """Positions that are kept of each sequence, the first ones (default: all)."""
    split: Literal["random", "time"] = neutral("random")
    """`random`, as above, or `time`: train is earlier than val, and val than test, by the column `time`; later copies
    of earlier sequences are left out, and groups may not decide too (by_group = false)."""

    reader: ClassVar[int] = 10
    shows_not: ClassVar[str] = (
        "one split of a file of your own: rows of one source (a person, a device, a day) that no group names may "
        "stand in train and test, and then the score says less of new ones."
    )
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _check_gone(cls, table: Any) -> Any:
        """A setting of before is gone, which is no misspelling."""
        if isinstance(table, Mapping) and "augment" in table:
            raise ValueError(
                "augment: is gone, since no change of the train sequences gained anything on small sets; leave it out"
            )
        return table

    @model_validator(mode="after")
    def _resolve(self) -> OwnSpec:
        """Write short fields into the layout, so that equal tasks have equal specs."""
        short: dict[str, Any] = {}
        for name in LAYOUT_FIELDS:
            own, inner = getattr(self, name), getattr(self.layout, name)
            if own in UNSET:
                continue
            if inner not in (*UNSET, own):
                raise ValueError(f"{name}: {own!r} is given, and layout.{name}: {inner!r} too; keep one of them")
            short[name] = own
            self.__dict__[name] = type(self).model_fields[name].get_default()
        if short:
            self.__dict__["layout"] = self.layout.model_copy(update=short)
        for split, what in (("val", "validation"), ("test", "test")):
            file, share = getattr(self, split), getattr(self, f"{split}_share")
            if file is not None and share is not None:
                raise ValueError(f"{split}_share: the {what} split is the file task.{split}; leave one of them out")
            if file is None and share is None:
                self.__dict__[f"{split}_share"] = 0.2
        if self.split == "time" and (self.folds or 1) > 1:
            raise ValueError(
                f"folds: {self.folds} of rows that are split by time would train on later ones; leave one out"
            )
        if (self.val_share or 0) + (self.test_share or 0) >= 1:
            raise ValueError(f"val_share: {self.val_share} and test_share: {self.test_share} leave no train; take less")
        return self

    def defaults(self, signature: Signature) -> dict[str, str | float]:
        fitting = {"class": "classify", "number": "regress", "none": "masked"}[signature.target]
        return {**super().defaults(signature), "objective": fitting}

    def baseline_models(self) -> tuple[Mapping[str, str], ...]:
        """Of a target per position only the most frequent class (or the mean) needs no sequence as a whole."""
        return ({"kind": "majority"},) if self.layout.per_position else self.baselines

    def files(self, data: Path) -> tuple[Path, ...]:
        return tuple(file for path in self._paths(data).values() for file in files_of(path))

    def load(self, data: Path) -> Task:
        facts = (ready := self._prepared(data)).facts
        signature = Signature(**facts["signature"])
        return Task(
            signature,
            **each_split(lambda name: ready.split(name, per_position=signature.per_position)),
            labels=tuple(facts["labels"]),
            notes=tuple(facts["notes"]),
            fingerprint=ready.fingerprint,
            text=None if facts["kind"] == "numbers" else spoken(facts["kind"], facts["symbols"]),
            decided=facts["decided"],
            blocks=ready.arrays.get("blocks"),
        )

    def opened(self, data: Path) -> Task:
        """The task, as `open_task` has it. Raises: BadInput for whatever is wrong with its files."""
        return open_task(self, data)

    def content(self, data: Path) -> str | None:
        """What stands for its data in an identity."""
        return content(self, data)

    def facts(self, data: Path) -> OwnFacts:
        """What the file decides. Raises: BadInput for whatever is wrong with it."""
        return read(OwnFacts, self._prepared(data).facts["served"], "facts")

    def _paths(self, data: Path) -> dict[str, Path]:
        """The files by the names of their fields."""
        return {
            field: own_path(data, field, name) for field in FILE_FIELDS if (name := getattr(self, field)) is not None
        }

    def _prepared(self, data: Path) -> Prepared:
        whole = self.model_copy(update=WHOLE_DATA)
        document = {
            "reader": self.reader,
            "task": whole.document(places=False),
            "files": stamps(self.files(data)),
            "given": sorted(self._paths(data)),
        }
        return prepared("own", document, lambda builder: self._build(builder, data), private=True)

    def _build(self, builder: Builder, data: Path) -> dict[str, Any]:
        paths = self._paths(data)
        train = read_sequences(paths["file"], self.layout)
        layout = train.layout
        check_target_kind(train)
        if train.target == "class" and len(train.classes) == 1:
            raise BadInput(
                f'{layout.source}: every label is {train.classes[0]!r}; give two classes or more, or target="" to '
                "pretrain alone"
            )
        # Without where it is: notes travel with a report.
        text, _, _ = replace(layout, source="", guessed=()).sentence.removeprefix(": ").rpartition(".")
        guessed = f"; guessed: {', '.join(layout.guessed)}" if layout.guessed else ""
        notes = [_placeless(note, layout) for note in (f"read as {text}{guessed}", *train.notes)]
        notes += [ROUNDED] * (layout.double and not self.standardise)
        if "unlabelled" in paths:
            more = _same_way(train, paths["unlabelled"], "unlabelled")
            notes += [f"unlabelled file: {_placeless(note, more.layout)}" for note in more.notes]
            train = train.followed_by(replace(more, labels=(None,) * len(more.labels)))
        whole, files = train, dict[str, np.ndarray]()
        for name in ("val", "test"):
            if name in paths:
                more = _same_way(train, paths[name], name)
                notes += [f"{name} file: {_placeless(note, more.layout)}" for note in more.notes]
                files[name] = np.arange(len(whole), len(whole) + len(more))
                whole = whole.followed_by(more)
        target = _codes(whole, train.classes)
        rows, about = self._sides(train, whole, target, files)
        values, observed, mean, deviation = self._numbers(whole, rows["train"])
        # Cut last: however much is kept, splits and standards are those of the whole sequences.
        seen, cut = _cut(replace(whole, values=values, observed=observed), self.longest)
        wanted, low, high, scaled = self._targets(seen, train.classes, rows["train"])
        each, index = seen.per_position and wanted is not None, np.arange(len(seen), dtype=np.int64)
        examples = Examples(seen.values, seen.offsets, wanted, index, seen.observed, per_position=each)
        for name in SPLITS:
            builder.save_split(name, examples.take(rows[name]))
        cut += repeats(builder, "sequences cut so") if cut else []
        groups = whole.group_numbers
        if groups is not None and self.by_group:
            builder.save("blocks", groups[np.concatenate([rows["train"], rows["val"]])])
        used = seen.lengths[np.concatenate([rows[name] for name in SPLITS])]
        counts: tuple[int, ...] = ()
        if train.target == "class" and wanted is not None:
            learnt = _of_rows(seen, wanted, rows["train"])
            counts = tuple(np.bincount(learnt[learnt != IGNORE], minlength=len(train.classes)).tolist())
        signature = Signature(
            "floats" if train.kind == "numbers" else "tokens",
            train.width,
            int(used.max()),
            int(used.min()),
            train.target,
            len(train.classes),
            per_position=each,
            missing=seen.observed is not None,
        )
        served = OwnFacts(
            kind=train.kind,
            symbols=layout.symbols,
            channels=train.channels,
            labels=train.classes,
            layout=layout.fixed(),
            mean=tuple(mean),
            deviation=tuple(deviation),
            low=low,
            high=high,
            counts=counts,
        )
        names = {"kind": train.kind, "symbols": list(layout.symbols), "labels": list(train.classes)}
        decided = {**names, "width": train.width, "target": train.target, "scaled": scaled}
        return {
            **names,
            "signature": vars(signature),
            "decided": json.dumps(decided, sort_keys=True),
            "served": served.model_dump(mode="json"),
            "notes": [*notes, *cut, *about, *scaled],
        }

    def _sides(
        self, train: Sequences, whole: Sequences, target: np.ndarray, files: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """Rows of each split, and what must be known of them; `files` are the rows of a val and a test file."""
        own, copies = target[: len(train)], whole.copies()
        groups = whole.group_numbers
        kinds = [copies] if groups is None or not self.by_group else [copies, groups]
        block = joined(*(kind[: len(train)] for kind in kinds))
        shares = {name: share for name, share in (("val", self.val_share), ("test", self.test_share)) if share}
        if self.split == "time":
            rows = dealt_in_time(own, block, self._times(train, groups is not None), shares)
        else:
            rows = dealt(own, block, shares, self.split_seed)
        apart, different = (len(np.unique(kind[: len(train)][own != IGNORE])) for kind in (block, copies))
        check_sides(rows, own, () if train.per_position else train.classes, shares, apart, different)
        rows = {"test": np.zeros(0, dtype=np.int64), **rows}
        lost = len(train) - sum(map(len, rows.values()))
        rows |= {name: official[target[official] != IGNORE] for name, official in files.items()}
        by_time = [
            "split by time: train is earlier than validation, which is earlier than test, so that scores are those of "
            f"later sequences; {lost:,} later ones, without a label or copies of earlier ones, are left out"
        ]
        return rows, [
            *(by_time if self.split == "time" else ()),
            *about_labels(
                own,
                rows,
                lost if self.split != "time" else 0,
                {name: len(files[name]) - len(rows[name]) for name in files},
            ),
            *about_copies(() if whole.per_position else whole.labels, copies, rows, tuple(files)),
            *(about_files(whole, files) if files else ()),
            *about_groups(groups, rows, self.by_group, tuple(files)),
            *about_neighbours(shared_with_neighbours(train)),
        ]

    def _times(self, train: Sequences, grouped: bool) -> np.ndarray:
        """(n,) times of the rows of `file`, before those of `unlabelled`, which have none."""
        if train.times is None:
            names = by_role("time", train.layout.unused) or train.layout.unused[:6]
            raise BadInput(
                f"task.split: 'time' takes a column of times, and none is named; name it with --time-column or "
                f"layout.time (columns that are not used: {', '.join(map(repr, names)) or 'none'})"
            )
        if grouped and self.by_group:
            raise BadInput(
                "task.split: 'time' and groups cannot both say where a row goes; give --no-group (by_group = false)"
            )
        return np.concatenate([train.times, np.full(len(train) - len(train.times), -np.inf)])

    def _targets(
        self, whole: Sequences, classes: tuple[str, ...], train: np.ndarray
    ) -> tuple[np.ndarray | None, float | None, float | None, list[str]]:
        """Targets of all rows as a model learns them, the numbers that stand as -1 and 1, and how that is said."""
        if whole.target != "number":
            return (whole.codes(classes) if whole.target == "class" else None), None, None, []
        numbers = whole.numbers()
        learnt = _of_rows(whole, numbers, train)
        if not self.scale_target:
            return numbers.astype(np.float32), None, None, []
        low, high = float(np.nanmin(learnt)), float(np.nanmax(learnt))
        if low == high:
            raise BadInput(f"task.scale_target: every train sequence has the target {low:g}; give others")
        note = f"targets of {low:.6g} to {high:.6g}, the range of train, stand as -1 to 1"
        return to_range(numbers, low, high), low, high, [note]

    def _numbers(
        self, whole: Sequences, train: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, list[float], list[float]]:
        """Values as a model sees them, what of them is observed, and mean and deviation of each channel."""
        if whole.kind != "numbers" or not self.standardise:
            plain = whole.values.astype(np.float32) if whole.kind == "numbers" else whole.values
            return plain, whole.observed, [], []
        # Not `whole.take`: only the rows of the first file know their places.
        examples = Examples(whole.values, whole.offsets, None, np.arange(len(whole)), whole.observed).take(train)
        flat = (
            examples.values
            if examples.observed is None
            else np.where(examples.observed, examples.values, np.float32(np.nan))
        )
        for name, low, high in zip(whole.channels, np.fmin.reduce(flat, 0), np.fmax.reduce(flat, 0), strict=True):
            if words := small_words(float(low), float(high)):
                raise BadInput(f"{whole.layout.source}: channel {name!r}: {words}, for instance by a power of 10")
        mean, deviation = channel_moments([flat])
        values = standardised(whole.values, whole.observed, mean, deviation)
        return values, whole.observed, mean.tolist(), deviation.tolist()


def _of_rows(whole: Sequences, targets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The targets of these rows, one for each or for each of their positions."""
    picked = np.isin(np.repeat(np.arange(len(whole)), whole.lengths), rows) if whole.per_position else rows
    return np.asarray(targets[picked])


def _same_way(train: Sequences, path: Path, field: str) -> Sequences:
    """Another file, read as the first one was. Raises: BadInput where it does not fit, or lacks labels."""
    layout = train.layout.fixed().model_copy(
        update={
            "delimiter": train.layout.spec.delimiter,
            "target_kind": train.layout.spec.target_kind if train.target == "none" else train.target,
        }
    )
    more = read_sequences(path, layout)
    if more.kind != train.kind or len(more.channels) != len(train.channels):
        raise BadInput(
            f"task.{field}: {path} holds {more.kind} in {len(more.channels)} channels, task.file {train.kind} in "
            f"{len(train.channels)}; give files of one layout"
        )
    if field != "unlabelled" and train.target != "none" and not more.labelled.any():
        raise BadInput(
            f"task.{field}: {path} has no label in {train.layout.target!r}; leave task.{field} out to hold out "
            "rows of task.file"
        )
    if more.groups is not None or train.groups is None:
        return more
    note = f"has no {train.layout.group!r}: each of its rows is taken for a group of its own"
    groups = tuple(f"{more.layout.source} {row}" for row in range(len(more)))
    return replace(more, groups=groups, notes=(*more.notes, note))


def _cut(whole: Sequences, longest: int | None) -> tuple[Sequences, list[str]]:
    """The sequences with their first positions alone, and that in words."""
    many = 0 if longest is None else int((whole.lengths > longest).sum())
    if longest is None or not many:
        return whole, []
    verb = "sequence is" if many == 1 else "sequences are"
    return whole.cut(longest), [f"{many:,} {verb} longer than {longest:,} positions, of which the first are kept"]


def _codes(whole: Sequences, classes: tuple[str, ...]) -> np.ndarray:
    """(n,) class of each row, or 0 where there is nothing to stratify by; IGNORE without a label."""
    if whole.target == "class" and not whole.per_position:
        return whole.codes(classes)
    if whole.target == "none":
        return np.zeros(len(whole), dtype=np.int64)
    return np.where(whole.labelled, 0, IGNORE).astype(np.int64)


def _placeless(note: str, layout: Layout) -> str:
    return note.replace(f"{layout.source}: ", "").replace(layout.source, "the file")
