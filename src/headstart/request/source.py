"""Where a fit's data are: a person's own file as it stands, or data in memory, kept as a file of the same form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.data import FilePart, LayoutSpec, Sequences, check_targets, keep_sequences, read_sequences
from headstart.errors import BadInput
from headstart.limits import give_back
from headstart.request.settings import FitSettings
from headstart.tasks.own import FILE_FIELDS
from headstart.text import many


@dataclass(frozen=True)
class FitSource:
    """The table of the task (`kind = "own"`), the sequences as they were read, and how others are read alike."""

    task: Mapping[str, Any]
    sequences: Sequences
    layout: LayoutSpec
    known_as: str
    part: FilePart | None = None
    """Where not all rows of the file were read."""

    @property
    def places(self) -> dict[str, str]:
        """What of the task says where files are: no part of a plan, which may be passed on and found elsewhere."""
        return {name: self.task[name] for name in FILE_FIELDS if self.task.get(name) is not None}


def read_source(
    data: Any, settings: FitSettings, store: Path, labels: Any = None, groups: Any = None, unlabelled: Any = None
) -> FitSource:
    """The data of a fit, from a path or from memory, read and accepted. Nothing here imports torch.

    Raises: BadInput for whatever is wrong with them, or where there is nothing to learn.
    """
    if isinstance(data, (str, os.PathLike)):
        if labels is not None or groups is not None or unlabelled is not None:
            raise BadInput("labels, groups and X_unlabelled belong to data in memory; a file has columns for them")
        source = from_file(Path(data), settings, store / "data")
    else:
        source = from_memory(data, settings, (store / "data").absolute(), labels, groups, unlabelled)
    check_targets(source.sequences, source.known_as)
    if settings.balanced and source.sequences.target == "number":
        raise BadInput(
            f"--balanced: the target of {source.known_as} is a number, no class; leave it out, or give "
            "--target-kind class"
        )
    return source


def from_file(path: Path, settings: FitSettings, folder: Path) -> FitSource:
    """A file or folder, or a part of the file, which is written into `folder`, and the further files of its splits.
    Raises: BadInput for whatever is wrong with them."""
    part = FilePart.of(path, settings.layout, folder.absolute(), settings.time)
    path = path if part is None else part.file
    sequences = read_sequences(path, settings.layout)
    give_back()
    task = {**_task(settings), "file": str(path.absolute()), "layout": settings.layout.model_dump(exclude_unset=True)}
    for name in FILE_FIELDS[1:]:
        file = getattr(settings, name)
        if file is not None:
            task[name] = str(file.absolute())
    return FitSource(task, sequences, sequences.layout.fixed(), str(path), part)


def from_memory(data: Any, settings: FitSettings, folder: Path, labels: Any, groups: Any, unlabelled: Any) -> FitSource:
    """Arrays, lists or tables, written into `folder` by their content. Raises: BadInput for what is wrong with them."""
    if any(getattr(settings, name) is not None for name in FILE_FIELDS[1:]):
        raise BadInput("val, test, unlabelled: are files beside a file; give data in memory as X_unlabelled")
    sequences = read_sequences(data, settings.layout, labels=labels, groups=groups, name="X")
    layout = sequences.layout.fixed()
    task = {**_task(settings), **keep_sequences(sequences, folder, "X")}
    if unlabelled is not None:
        more = read_sequences(unlabelled, layout, name="X_unlabelled")
        if more.kind != sequences.kind or len(more.channels) != len(sequences.channels):
            raise BadInput(
                f"X_unlabelled: holds {more.kind} in {many(len(more.channels), 'channel')}, X {sequences.kind} in "
                f"{len(sequences.channels)}; give the same channels in both"
            )
        task["unlabelled"] = keep_sequences(more, folder, "X_unlabelled")["file"]
    return FitSource(task, sequences, layout, "X")


def _task(settings: FitSettings) -> dict[str, Any]:
    shares = {f"{split}_share" for split in ("val", "test") if getattr(settings, split) is None}
    names = ("by_group", "split_seed", *sorted(shares), *(("split",) if settings.split != "random" else ()))
    return {"kind": "own", **{name: getattr(settings, name) for name in names}}
