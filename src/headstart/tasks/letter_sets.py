"""Labelled sequences of letters as examples: official or drawn splits, written once, opened memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headstart.data.letters import ALPHABETS, spoken
from headstart.data.prepared import Builder, Prepared, Writer, stored
from headstart.data.problems import Mistakes
from headstart.data.rows import in_order
from headstart.data.splits import copies_note, drawn, groups
from headstart.sequence import Signature
from headstart.tasks.task import SPLITS, Task


@dataclass
class Labelled:
    """Sequences of one split: ids (L,) uint8, a label and a place for each."""

    sequences: list[np.ndarray] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def add(self, sequence: np.ndarray, label: str, place: str) -> None:
        """One more."""
        self.sequences.append(sequence)
        self.labels.append(label)
        self.places.append(place)

    def __len__(self) -> int:
        return len(self.labels)


def write_letters(
    builder: Builder,
    given: Mapping[str, Labelled],
    length: int,
    shares: Mapping[str, float],
    seed: int,
    mistakes: Mistakes,
) -> dict[str, Any]:
    """Write train, val and test, each sequence cut to `length`; splits that are not `given` are drawn from train.

    Returns facts: `labels`, `length`, `shortest`, `notes`. Raises: BadInput with all mistakes.
    """
    every = [split for split in SPLITS if split in given]
    labels = in_order(set(given["train"].labels))
    if len(labels) == 1:
        mistakes.add(given["train"].places[0], f"every train sequence has label {labels[0]!r}; give two labels or more")
    for split in every[1:]:
        for label, place in zip(given[split].labels, given[split].places, strict=True):
            if labels and label not in labels:
                mistakes.add(place, f"label {label!r} does not occur in train")
    mistakes.check()
    number = {label: i for i, label in enumerate(labels)}
    sequences = [one[:length] for split in every for one in given[split].sequences]
    cut = sum(len(one) > length for split in every for one in given[split].sequences)
    target = np.array([number[label] for split in every for label in given[split].labels], dtype=np.int64)
    group, rows, first = groups(np.ascontiguousarray(one) for one in sequences), {}, 0
    for split in every:
        rows[split] = np.arange(first, first + len(given[split]))
        first += len(given[split])
    missing = {split: share for split, share in shares.items() if split not in given}
    rows |= drawn(target, group, rows["train"], missing, seed)
    for split in SPLITS:
        writer = Writer(builder, split)
        for row in rows[split]:
            writer.add(sequences[row])
        writer.finish(target[rows[split]], rows[split])
    lengths = [len(one) for one in sequences]
    notes = [f"{cut} sequences are longer than {length} letters and lose their rest"] if cut else []
    return {
        "labels": labels,
        "length": max(lengths),
        "shortest": min(lengths),
        "notes": [*notes, *_doubtful(group, target), *copies_note(group, rows, "sequences")],
    }


def letter_task(found: Prepared, letters: str) -> Task:
    """The task that `write_letters` wrote, memory-mapped."""
    facts, labels = found.facts, tuple(found.facts["labels"])
    signature = Signature(
        input="tokens",
        width=len(ALPHABETS[letters]),
        length=facts["length"],
        shortest=facts["shortest"],
        target="class",
        classes=len(labels),
    )
    train, val, test = (stored(found, name) for name in SPLITS)
    return Task(
        signature,
        train,
        val,
        test,
        labels=labels,
        notes=tuple(facts["notes"]),
        text=spoken(letters),
        fingerprint=found.fingerprint,
    )


def _doubtful(group: np.ndarray, target: np.ndarray) -> list[str]:
    """A note on sequences that stand there with two labels, of which no model can get both right."""
    pairs = np.unique(np.stack([group, target]), axis=1)[0]
    count = int((np.bincount(pairs) > 1).sum())
    return [f"{count} of the sequences occur with more than one label"] if count else []
