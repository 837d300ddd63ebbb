"""What was written down of recordings beside their samples: stages of sleep, rhythms, events. It labels windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Table, arrow_lists
from headstart.text import counted, first_few, many
from headstart.ways import option

ANNOTATION = "annotation"
"""The column of the annotations, where windows are cut."""


@dataclass(frozen=True)
class Annotation:
    """A text that holds from `onset` (seconds) for `duration`; without one, until the next."""

    onset: float
    duration: float | None
    text: str


class Annotated(Protocol):
    """A recording: samples (L, F) at a rate, and its annotations."""

    samples: np.ndarray
    rate: float
    annotations: tuple[Annotation, ...]


def add_annotations(table: Table, recordings: Sequence[Annotated], spec: LayoutSpec) -> None:
    """Add a column of the annotation that holds at each position, where windows are cut; else say how many there
    are."""
    count = sum(len(recording.annotations) for recording in recordings)
    if not count:
        return
    kinds = dict.fromkeys(annotation.text for recording in recordings for annotation in recording.annotations)
    some = first_few([repr(text) for text in kinds], 3)
    if spec.window is None:
        way = f"{option('window', '30s')} cuts windows that they label"
        table.notes.append(f"{counted(count, 'annotation is', 'annotations are')} not read ({some}); {way}")
        return
    words: list[str] = []
    for recording in recordings:
        words += words_of_positions(recording.annotations, len(recording.samples), recording.rate).tolist()
    ends = np.cumsum([0, *(len(recording.samples) for recording in recordings)])
    table.columns[ANNOTATION] = Column(ANNOTATION, "list", arrow_lists(words, ends))
    table.notes.append(f"labels are in {many(count, 'annotation')} of {len(kinds):,} kinds ({some})")


def words_of_positions(annotations: Iterable[Annotation], length: int, rate: float) -> np.ndarray:
    """(length,) the text that holds at each position, "" where none does; of two the one that begins later."""
    out = np.full(length, "", dtype=object)
    in_order = sorted(annotations, key=lambda annotation: annotation.onset)
    for i, annotation in enumerate(in_order):
        end = length / rate if i + 1 == len(in_order) else in_order[i + 1].onset
        end = annotation.onset + annotation.duration if annotation.duration else end
        begin, behind = (min(max(round(time * rate), 0), length) for time in (annotation.onset, end))
        out[begin:behind] = annotation.text
    return out


def partner(name: str, names: Sequence[str]) -> int:
    """The recording of a file of annotations alone: the one in its folder whose name begins most alike."""
    beside = [k for k, other in enumerate(names) if PurePosixPath(other).parent == PurePosixPath(name).parent]
    return max(beside or range(len(names)), key=lambda k: _alike(name, names[k]))


def _alike(first: str, second: str) -> int:
    """Letters that two names begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))
