"""Retrieval of Long Range Arena: do two texts belong together? Both are read by one encoder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.prepared import Prepared, stored
from headstart.sequence import Signature
from headstart.tasks.films import films, films_files
from headstart.tasks.retrieval_files import find_aan, find_files, pairs
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Task, TaskSpec
from headstart.tasks.text import decoder


class RetrievalSpec(TaskSpec):
    """Pairs of texts as bytes, up to 4,000 each, and a label of the pair; rows 2i and 2i + 1 are one pair.

    One example: `Robert DeNiro plays the most ...` and `this film is ...`, label `two films`.

    source: `aan`, Long Range Arena's files: does one paper cite the other? 147,086 train pairs.
        `imdb_films`, built from IMDb's reviews and their films' addresses: are two reviews of one film? Every
        review is in one pair of one film and in one of two films, so no text alone tells the answer; splits
        share no film; reviews that occur twice are left out.
        `files`, your own in `pairs/`: train, test and optionally val as .tsv (a header with label, text1,
        text2; or AAN's five fields; or these three), .jsonl or .parquet.
    length: the most bytes of a text; longer ones lose their rest.
    val_share: share of train that is held out by `split_seed` where there is no val file: pairs, each label
        in proportion, or films.
    Source: Radev et al. 2013, Tay et al. 2020; reviews: Maas et al. 2011.
    """

    kind: Literal["retrieval"] = "retrieval"
    source: Literal["aan", "imdb_films", "files"] = "aan"
    length: int = Field(default=4000, ge=1)
    val_share: float = Field(default=0.1, gt=0, lt=1)

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    objective: ClassVar[str] = "retrieve"

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        if self.source == "imdb_films":
            return films_files(data, self.kind)
        find = find_aan if self.source == "aan" else find_files
        return tuple(find(data, self.kind).values())

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the texts and write the pairs, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        splits = {name: stored(found, name, paired=True) for name in SPLITS}
        lengths = np.concatenate([examples.lengths for examples in splits.values()])
        labels = tuple(found.facts["labels"])
        if self.source == "aan" and labels == ("0", "1"):
            labels = ("no citation", "citation")
        signature = Signature(
            input="tokens",
            width=256,
            length=int(lengths.max()),
            shortest=int(lengths.min()),
            target="class",
            classes=len(labels),
            paired=True,
        )
        return Task(
            signature,
            splits["train"],
            splits["val"],
            splits["test"],
            labels=labels,
            notes=_notes(found),
            text=decoder(None),
            fingerprint=found.fingerprint,
        )

    def _prepared(self, data: Path) -> Prepared:
        if self.source == "imdb_films":
            return films(data, self.kind, self.length, self.val_share, self.split_seed)
        find = find_aan if self.source == "aan" else find_files
        return pairs(data, find(data, self.kind), self.length, self.val_share, self.split_seed)


def _notes(found: Prepared) -> tuple[str, ...]:
    """What a table must say of these pairs."""
    said = [f"{count} of {place.replace(' in ', ' also stand in ')}" for place, count in found.facts["shared"].items()]
    return (f"equal pairs in two splits: {', '.join(said)}",) if said else ()
