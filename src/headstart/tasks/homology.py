"""Remote homology of TAPE: which of 1,195 folds does a protein have?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.letters import encode
from headstart.data.named_files import Named, find_named, texts
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.problems import Mistakes
from headstart.data.rows import label_of
from headstart.tasks.letter_sets import Labelled, letter_task, write_letters
from headstart.tasks.task import Task, TaskSpec

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

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the proteins and write them as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        return letter_task(self._prepared(data), "protein")

    def _names(self) -> dict[str, str]:
        return {
            "train": "remote_homology_train.json",
            "val": "remote_homology_valid.json",
            "test": f"remote_homology_test_{self.test}_holdout.json",
        }

    def _named(self, data: Path) -> Named:
        return find_named(data, self.kind, FOLDERS, tuple(self._names().values()), ORIGIN)

    def _prepared(self, data: Path) -> Prepared:
        named = self._named(data)
        document = {"reader": _READER, "files": stamps(named.files), "length": self.length, "test": self.test}
        return prepared(data, "homology", document, lambda builder: self._build(builder, named))

    def _build(self, builder: Builder, named: Named) -> dict[str, Any]:
        mistakes, given, long = Mistakes(), {}, {}
        names = self._names()
        for name, lines in texts(named, mistakes, tuple(names.values())):
            split = next(one for one in names if names[one] == name)
            given[split], long[split] = _proteins(lines, self.length, mistakes)
            if not len(given[split]):
                mistakes.add(name, f"holds no protein of under {self.length} amino acids; give the file again")
        mistakes.check()
        facts = write_letters(builder, given, self.length, {}, 0, mistakes)
        notes = []
        if len(facts["labels"]) != FOLDS:
            notes.append(f"not the official remote homology: {len(facts['labels'])} folds in train (official: {FOLDS})")
        said = ", ".join(f"{count} of {split}" for split, count in long.items() if count)
        if said:
            notes.append(f"proteins of {self.length} amino acids or more are left out: {said}")
        return {**facts, "notes": [*notes, *facts["notes"]]}


def _proteins(lines: Iterator[tuple[str, str]], length: int, mistakes: Mistakes) -> tuple[Labelled, int]:
    """The proteins of a file that are short enough, and how many are not."""
    found, long = Labelled(), 0
    for place, row in _objects(lines, mistakes):
        text = row.get("primary")
        if "fold_label" not in row or not isinstance(text, str) or not text:
            mistakes.add(
                place,
                f"has fold_label {row.get('fold_label')!r} and primary {str(text)[:20]!r}; give a "
                "number and a sequence that is not empty",
            )
            continue
        label = label_of(row["fold_label"], place, mistakes)
        ids = encode(text, "protein", place, mistakes)
        if label is None or ids is None:
            continue
        if len(ids) >= length:
            long += 1
        else:
            found.add(ids, label, place)
    return found, long


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
