"""Where a fit's data are: a person's own file as it stands, or data in memory, kept as a file of the same form."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headstart.atomic import PRIVATE, PRIVATE_FOLDER, publish
from headstart.data import LayoutSpec, Sequences, check_ids, check_target_kind, read_sequences
from headstart.data.layout import TARGET, by_role, plain
from headstart.errors import BadInput
from headstart.fit.arms import check_names
from headstart.fit.defaults import FEW_ROWS, FOLDS
from headstart.fit.settings import FILES, FitSettings
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import Task, open_task
from headstart.text import first_few

MARKS = ("|", ";", ",")
"""What separates several targets in one cell."""
LABEL, GROUP = "label", "group"
"""Columns of a kept file beside those of the sequence."""


@dataclass(frozen=True)
class Source:
    """The table of the task (`kind = "own"`), the sequences as they were read, and how others are read alike."""

    task: Mapping[str, Any]
    sequences: Sequences
    layout: LayoutSpec
    known_as: str

    @property
    def places(self) -> dict[str, str]:
        """What of the task says where files are: no part of a plan, which may be passed on and found elsewhere."""
        return {name: self.task[name] for name in FILES if self.task.get(name) is not None}


def read_source(
    data: Any, settings: FitSettings, store: Path, labels: Any = None, groups: Any = None, unlabelled: Any = None
) -> Source:
    """The data of a fit, from a path or from memory, read and accepted. Nothing here imports torch.

    Raises: BadInput for whatever is wrong with them, or where there is nothing to learn.
    """
    check_names(settings)
    if isinstance(data, (str, os.PathLike)):
        if labels is not None or groups is not None or unlabelled is not None:
            raise BadInput("labels, groups and X_unlabelled belong to data in memory; a file has columns for them")
        source = from_file(Path(data), settings)
    else:
        source = from_memory(data, settings, (store / "data").absolute(), labels, groups, unlabelled)
    _check_target(source, settings)
    return source


def from_file(path: Path, settings: FitSettings) -> Source:
    """A file or folder, and the further files of its splits. Raises: BadInput for whatever is wrong with them."""
    sequences = read_sequences(path, settings.layout)
    task = {**_task(settings), "file": str(path.absolute()), "layout": settings.layout.model_dump(exclude_unset=True)}
    for name in FILES[1:]:
        file = getattr(settings, name)
        if file is not None:
            task[name] = str(file.absolute())
    return Source(task, sequences, sequences.layout.fixed(), str(path))


def from_memory(data: Any, settings: FitSettings, folder: Path, labels: Any, groups: Any, unlabelled: Any) -> Source:
    """Arrays, lists or tables, written into `folder` by their content. Raises: BadInput for what is wrong with them."""
    if any(getattr(settings, name) is not None for name in FILES[1:]):
        raise BadInput("val, test, unlabelled: are files beside a file; give data in memory as X_unlabelled")
    sequences = read_sequences(data, settings.layout, labels=labels, groups=groups, name="X")
    layout = sequences.layout.fixed()
    task = {**_task(settings), **_kept(sequences, folder, "X")}
    if unlabelled is not None:
        more = read_sequences(unlabelled, layout, name="X_unlabelled")
        task["unlabelled"] = _kept(more, folder, "X_unlabelled")["file"]
    return Source(task, sequences, layout, "X")


def _task(settings: FitSettings) -> dict[str, Any]:
    shares = {f"{split}_share" for split in ("val", "test") if getattr(settings, split) is None}
    names = ("by_group", "split_seed", *sorted(shares), *(("split",) if settings.split != "random" else ()))
    return {"kind": "own", **{name: getattr(settings, name) for name in names}}


def _kept(s: Sequences, folder: Path, name: str) -> dict[str, Any]:
    """The sequences as a Parquet file, named by what is in it; the file and its layout as the task has them."""
    import pyarrow as pa
    import pyarrow.parquet

    values = _columns(s)
    columns: dict[str, Any] = {**values, LABEL: pa.array(s.labels, pa.string())}
    if s.groups is not None:
        columns[GROUP] = pa.array(s.groups, pa.string())
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
    if not path.exists():
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        publish(path, data, PRIVATE)
    layout = {
        "format": "parquet",
        "shape": "text" if s.kind in ("text", "dna", "protein") else "list",
        "values": list(values),
        "target": LABEL if s.target != "none" else "",
        "id": "",
        "time": "",
        "group": GROUP if s.groups is not None else "",
        "kind": s.kind,
        "symbols": list(s.layout.symbols),
        "target_kind": "auto" if s.target == "none" else s.target,
        "ends": "missing",
        "optional": True,
        **({"double": True} if s.layout.double else {}),
    }
    return {"file": str(path.absolute()), "layout": layout}


def _columns(s: Sequences) -> dict[str, Any]:
    """Arrow columns of the values: a list of numbers per channel, of tokens, or a text."""
    import numpy as np
    import pyarrow as pa

    if s.kind in ("text", "dna", "protein"):
        return {"text": pa.array([s.speak(row) for row in range(len(s))], pa.large_string())}
    offsets = pa.array(s.offsets, pa.int64())
    if s.kind == "tokens":
        symbols = np.array(s.layout.symbols, dtype=object)[s.values]
        return {"tokens": pa.LargeListArray.from_arrays(offsets, pa.array(symbols, pa.string()))}
    out = {}
    for channel in range(s.values.shape[1]):
        gone = None if s.observed is None else ~s.observed[:, channel]
        flat = pa.array(np.ascontiguousarray(s.values[:, channel]), mask=gone)
        out[f"channel {channel}"] = pa.LargeListArray.from_arrays(offsets, flat)
    return out


def _check_target(source: Source, settings: FitSettings) -> None:
    s = source.sequences
    if s.per_position:
        raise BadInput(
            f"{source.known_as}: per_position: fit learns one target of each sequence; `headstart run` compares "
            "arms on a target per position, with task own"
        )
    check_ids(s)
    several = _several_targets(s)
    if several:
        raise BadInput(
            f"{source.known_as}: {several}, and fit learns one target of a sequence; fit each target by itself, from a "
            "column of its own that --target names (yes or no for each label)"
        )
    check_target_kind(s)
    if settings.balanced and s.target == "number":
        raise BadInput(
            f"--balanced: the target of {source.known_as} is a number, no class; leave it out, or give "
            "--target-kind class"
        )
    if s.target == "none" or not s.labelled.any():
        names = first_few([name for name in s.layout.unused if name])
        there = f" (columns that are not used: {names})" if names else ""
        raise BadInput(f"{source.known_as}: has no target to learn; name its column with --target{there}")
    if s.target == "class" and len(s.classes) == 1:
        raise BadInput(f"{source.known_as}: every label is {s.classes[0]!r}; give two classes or more")


def _several_targets(s: Sequences) -> str:
    """Where sequences have several targets each, in words: in one cell, or in columns of which nobody named one."""
    layout = s.layout
    beside = layout.target is None and any(label is not None for label in s.labels)  # no column, but given with X
    if layout.spec.target is None and not beside:
        names = [name for name in (layout.target, *layout.unused) if name and plain(name).startswith(TARGET[:3])]
        exact = by_role("target", names)
        if exact and layout.target is None:
            return f"column {exact[0]!r} holds a list for each sequence"
        if len(names) > 1 and not exact:
            return f"columns {', '.join(map(repr, sorted(names)[:5]))} look like several targets"
    if layout.spec.target_kind != "auto" or s.target != "class":
        return ""
    labels, as_one = {label for label in s.labels if label is not None}, "--target-kind class takes each such label"
    lists = {label for label in labels if len(_listed_in(label)) > 1}
    if lists:
        return f"labels such as {_first_of(s, lists)} are lists of several targets ({as_one} for one class)"
    for mark in MARKS:
        parts = {label: [part.strip() for part in label.split(mark)] for label in labels if mark in label}
        counts = Counter(part for label in labels for part in parts.get(label, [label]))
        # Names of classes may hold a mark too ("walking, upstairs"); labels recur beside others, or stand alone.
        recur = len(labels) < counts.total() - 1 and 2 * sum(count > 1 for count in counts.values()) > len(counts)
        joined = {label for label, several in parts.items() if labels.issuperset(several)}
        if recur or joined:
            example = _first_of(s, joined or set(parts))
            return f"labels such as {example} look like several targets separated by {mark!r} ({as_one} for one class)"
    return ""


def _first_of(s: Sequences, labels: set[str]) -> str:
    """The first of these labels, and where it stands."""
    row = next(row for row, label in enumerate(s.labels) if label in labels)
    return f"{s.labels[row]!r} ({s.places.of(row)})"


def _listed_in(label: str) -> list[object]:
    """What a label lists as JSON or Python writes it (`["a", "b"]`); nothing where it is no list."""
    if not label.startswith("["):
        return []
    try:
        values = json.loads(label.replace("'", '"'))
    except (ValueError, RecursionError):
        return []
    return values if isinstance(values, list) else []


def in_folds(settings: FitSettings, spec: OwnSpec, task: Task, data: Path) -> tuple[FitSettings, tuple[Task, ...]]:
    """The settings with folds and seeds written out, and the task as each fold deals it (one, without folds).

    Where rows belong together in few groups there are as few folds. Raises: BadInput where one that was asked for is
    empty.
    """
    labelled = sum(len(split.labelled_units()) for split in (task.train, task.val))
    few = labelled < FEW_ROWS and settings.val is None and settings.split == "random"
    for folds in [settings.folds] if settings.folds is not None else [*range(FOLDS if few else 1, 0, -1)]:
        seeds = settings.seeds or (tuple(range(folds)) if folds > 1 else settings.runs)
        try:
            dealt = [spec.model_copy(update={"folds": folds, "fold": i}) for i in range(folds)]
            splits = [open_task(each, data) for each in dealt] if folds > 1 else [task]
        except BadInput:
            if settings.folds is not None:
                raise
            continue
        return replace(settings, folds=folds, seeds=seeds), tuple(splits)
    raise AssertionError("one fold is always there")
