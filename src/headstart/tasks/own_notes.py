"""What must be known of a person's own file as it was read and split, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headstart.data import Sequences
from headstart.data.splits import copies_note
from headstart.sequence import IGNORE


def how_read(train: Sequences) -> list[str]:
    """How the file was read and what was done, without where it is: notes travel with a report."""
    layout = train.layout
    text, _, _ = replace(layout, source="", guessed=()).said.removeprefix(": ").rpartition(".")
    guessed = f"; guessed: {', '.join(layout.guessed)}" if layout.guessed else ""
    return [_placeless(note, train) for note in (f"read as {text}{guessed}", *train.notes)]


def how_read_further(field: str, more: Sequences) -> list[str]:
    """What was done in reading another file."""
    return [f"{field} file: {_placeless(note, more)}" for note in more.notes]


def _placeless(note: str, of: Sequences) -> str:
    return note.replace(f"{of.layout.source}: ", "").replace(of.layout.source, "the file")


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


def about_copies(whole: Sequences, copies: np.ndarray, rows: Mapping[str, np.ndarray], official: bool) -> list[str]:
    """How many sequences are copies, stand in two splits, or have copies with another label."""
    again = copies != np.arange(len(whole))
    notes = copies_note(copies, rows, "sequences") if official else []
    own = int(again[np.concatenate([rows["train"], rows["val"]])].sum()) if official else int(again.sum())
    if own:
        notes.append(
            f"{own:,} sequences are exact copies of others; copies are kept in one split"
            + (", the test file's apart" if official else "")
        )
    labels: dict[int, set[str]] = {}
    for row, label in zip(copies.tolist(), whole.labels, strict=True):
        if label is not None:
            labels.setdefault(row, set()).add(label)
    odd = sum(len(names) > 1 for names in labels.values())
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
