"""What must be known of a person's own file as it was read and split, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headstart.data import Layout
from headstart.data.splits import copies_note
from headstart.sequence import IGNORE


def how_read(layout: Layout, notes: Sequence[str]) -> list[str]:
    """How the file was read and what was done, without where it is: notes travel with a report."""
    text, _, _ = replace(layout, source="", guessed=()).said.removeprefix(": ").rpartition(".")
    guessed = f"; guessed: {', '.join(layout.guessed)}" if layout.guessed else ""
    return [_placeless(note, layout) for note in (f"read as {text}{guessed}", *notes)]


def how_read_further(field: str, layout: Layout, notes: Sequence[str]) -> list[str]:
    """What was done in reading another file."""
    return [f"{field} file: {_placeless(note, layout)}" for note in notes]


def _placeless(note: str, layout: Layout) -> str:
    return note.replace(f"{layout.source}: ", "").replace(layout.source, "the file")


def about_labels(own: np.ndarray, rows: Mapping[str, np.ndarray], lost: int, unscored: int) -> list[str]:
    """How many sequences lack a label; `lost` of them, and `unscored` ones of a test file, are on no side."""
    bare = int((own[rows["train"]] == IGNORE).sum())
    notes = []
    if bare:
        notes.append(f"{bare:,} of {len(rows['train']):,} train sequences have no label and serve pretraining alone")
    if lost:
        notes.append(
            f"{lost:,} sequences without a label are left out: each is a copy of one of val or test, or of a "
            "group that is there"
        )
    if unscored:
        notes.append(f"{unscored:,} sequences of the test file have no label and are left out")
    return notes


def about_copies(
    labels: Sequence[str | None], copies: np.ndarray, rows: Mapping[str, np.ndarray], official: bool
) -> list[str]:
    """How many sequences are copies, stand in two splits, or have copies with another label."""
    again = copies != np.arange(len(copies))
    notes = copies_note(copies, rows, "sequences") if official else []
    own = int(again[np.concatenate([rows["train"], rows["val"]])].sum()) if official else int(again.sum())
    if own:
        notes.append(
            f"{own:,} sequences are exact copies of others; copies are kept in one split"
            + (", the test file's apart" if official else "")
        )
    names: dict[int, set[str]] = {}
    for row, label in zip(copies.tolist(), labels, strict=True):
        if label is not None:
            names.setdefault(row, set()).add(label)
    odd = sum(len(several) > 1 for several in names.values())
    return [*notes, f"{odd:,} sequences have copies with another label"] if odd else notes


def about_groups(
    groups: np.ndarray | None, rows: Mapping[str, np.ndarray], by_group: bool, official: bool
) -> list[str]:
    """Whether subjects that are learned from are tested on too."""
    if groups is None:
        return []
    count, known = len(np.unique(groups)), np.concatenate([rows["train"], rows["val"]])
    shared = len(np.intersect1d(groups[rows["test"]], groups[known]))
    if by_group and not shared:
        return [f"{count:,} groups, each in one split"]
    why = "the test file's own rows" if official else "by_group is false"
    return [
        f"{shared:,} of the {len(np.unique(groups[rows['test']])):,} groups of test also stand in train or val "
        f"({why}): the score says less of new groups"
    ]
