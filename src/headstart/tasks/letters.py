"""Sequences of letters with a label: what such tasks share, and remote homology of TAPE (which fold has a protein?)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.labels import label_of
from headstart.data.letters import ALPHABETS, encode, spoken
from headstart.data.prepared import Builder, Writer, prepared
from headstart.data.splits import copies_note, drawn, groups
from headstart.data.text import Named, find_named, texts
from headstart.errors import Mistakes
from headstart.tasks.build import classes_of, prepared_task
from headstart.tasks.task import SPLITS, Task, TaskSpec

FOLDERS = ("remote_homology", "tape/remote_homology", "data/remote_homology")
ORIGIN = (
    "TAPE's remote homology (Rao et al. 2019) is at http://s3.amazonaws.com/songlabdata/proteindata/"
    "data_raw_pytorch/remote_homology.tar.gz"
)
FOLDS = 1195
_READER = 1
"""Raised when the same files give other arrays."""


class HomologySpec(TaskSpec):
    """Proteins of SCOP 1.75, amino acid by amino acid (25 letters), each with one of 1,195 folds.

    A line of `remote_homology_train.json` is `{"primary": "SVQATREDKF...", "fold_label": 37, ...}`; a file that is one
    JSON list of such objects is read too.

    test: which evolutionary groups the test file holds out of train: `fold` (whole superfamilies, as the papers
        report), `superfamily` (whole families) or `family`.
    length: only shorter proteins are read (Lu et al.: under 1,024); how many are left out is said in the notes.
    Splits: the official train, valid and test files.
    Source: Rao et al. 2019, with Fox et al. 2013 and Hou et al. 2018; as used here: Lu et al. 2021.
    """

    kind: Literal["homology"] = "homology"
    test: Literal["fold", "superfamily", "family"] = "fold"
    length: int = Field(default=1024, ge=2)

    shows_not: ClassVar[str] = (
        "single domains, few examples of most folds: this says little of whole proteins, nor of folds that are not in"
        " train."
    )

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return self._named(data).files

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        named = self._named(data)
        document = {"reader": _READER, "files": stamps(named.files), "length": self.length, "test": self.test}
        ready = prepared(data, "homology", document, lambda builder: self._build(builder, named))
        return prepared_task(ready, "tokens", len(ALPHABETS["protein"]), text=spoken("protein"))

    def _names(self) -> dict[str, str]:
        return {
            "train": "remote_homology_train.json",
            "val": "remote_homology_valid.json",
            "test": f"remote_homology_test_{self.test}_holdout.json",
        }

    def _named(self, data: Path) -> Named:
        return find_named(data, self.kind, FOLDERS, tuple(self._names().values()), ORIGIN)

    def _build(self, builder: Builder, named: Named) -> dict[str, Any]:
        mistakes, read, long = Mistakes(), {}, {}
        split_of = {name: split for split, name in self._names().items()}
        for name, lines in texts(named, mistakes, tuple(split_of)):
            proteins = list(_proteins(lines, mistakes))
            short = [protein for protein in proteins if len(protein.ids) < self.length]
            read[split_of[name]], long[split_of[name]] = short, len(proteins) - len(short)
            if not short:
                mistakes.add(name, f"holds no protein of under {self.length} amino acids; give the file again")
        mistakes.check()
        facts = write_letters(builder, read, self.length, {}, 0, mistakes)
        folds, notes = len(facts["labels"]), []
        if folds != FOLDS:
            notes.append(f"not the official remote homology: {folds} folds in train (official: {FOLDS})")
        left_out = ", ".join(f"{count} of {split}" for split, count in long.items() if count)
        if left_out:
            notes.append(f"proteins of {self.length} amino acids or more are left out: {left_out}")
        return {**facts, "notes": [*notes, *facts["notes"]]}


def _proteins(lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[Labelled]:
    """The proteins of a file."""
    for place, row in _objects(lines, mistakes):
        text = row.get("primary")
        if "fold_label" not in row or not isinstance(text, str) or not text:
            values = f"fold_label {row.get('fold_label')!r} and primary {str(text)[:20]!r}"
            mistakes.add(place, f"has {values}; give a number and a sequence that is not empty")
            continue
        label = label_of(row["fold_label"], place, mistakes)
        ids = encode(text, "protein", place, mistakes)
        if label is not None and ids is not None:
            yield Labelled(ids, label, place)


def _objects(lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of JSON lines, or of the list that the first line begins."""
    for place, line in lines:
        text = line.strip()
        if not text:
            continue
        listed = text.startswith("[")
        if listed:  # a list may be written over many lines
            text = "\n".join([text, *(more for _, more in lines)])
        try:
            read = json.loads(text)
        except (ValueError, RecursionError) as error:
            mistakes.add(place, f"is no JSON ({error if isinstance(error, ValueError) else 'nested too deep'})")
            continue
        for i, row in enumerate(read if listed else [read]):
            where = f"{place.rpartition(', row ')[0]}, protein {i + 1}" if listed else place
            if isinstance(row, dict):
                yield where, row
            else:
                mistakes.add(where, "is no JSON object; give one with primary and fold_label")


class Labelled(NamedTuple):
    """One sequence: ids (L,) uint8, its label, and where it was read."""

    ids: np.ndarray
    label: str
    place: str


def write_letters(
    builder: Builder,
    read: Mapping[str, list[Labelled]],
    length: int,
    shares: Mapping[str, float],
    seed: int,
    mistakes: Mistakes,
) -> dict[str, Any]:
    """Write train, val and test, each sequence cut to `length`; splits that were not `read` are drawn from train.

    Returns facts: `labels` and `notes`. Raises: BadInput with all mistakes.
    """
    every = [(split, *row) for split in SPLITS for row in read.get(split, ())]
    first_place = next((place for split, _, _, place in every if split == "train"), "")
    labels = classes_of(((split, label, place) for split, _, label, place in every), "sequence", first_place, mistakes)
    mistakes.check()
    number = {label: i for i, label in enumerate(labels)}
    sequences = [ids[:length] for _, ids, _, _ in every]
    cut = sum(len(ids) > length for _, ids, _, _ in every)
    target = np.array([number[label] for _, _, label, _ in every], dtype=np.int64)
    group = groups(np.ascontiguousarray(ids) for ids in sequences)
    splits = np.array([split for split, _, _, _ in every])
    rows = {split: np.flatnonzero(splits == split) for split in read}
    drawn_shares = {split: share for split, share in shares.items() if split not in read}
    rows |= drawn(target, group, rows["train"], drawn_shares, seed)
    for split in SPLITS:
        writer = Writer(builder, split)
        for row in rows[split]:
            writer.add(sequences[row])
        writer.finish(target[rows[split]], rows[split])
    notes = [f"{cut} sequences are longer than {length} letters and lose their rest"] if cut else []
    return {
        "labels": labels,
        "notes": [*notes, *_doubtful(group, target), *copies_note(group, rows, "sequences")],
    }


def _doubtful(group: np.ndarray, target: np.ndarray) -> list[str]:
    """A note on sequences that stand there with two labels, of which no model can get both right."""
    pairs = np.unique(np.stack([group, target]), axis=1)[0]
    count = int((np.bincount(pairs) > 1).sum())
    return [f"{count} of the sequences occur with more than one label"] if count else []
