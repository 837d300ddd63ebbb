"""Proteins and DNA with a label: promoters, splice junctions, where a protein lives, or FASTA files of your own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.letters import encode, read_fasta
from headstart.data.named_files import Named, find_named, texts
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.problems import Mistakes
from headstart.data.rows import label_of
from headstart.errors import BadInput
from headstart.tasks.letter_sets import Labelled, letter_task, write_letters
from headstart.tasks.task import SPLITS, Task, TaskSpec

PROMOTERS = {
    "ecoli": ("Ecoli_prom.fa", "Ecoli_non_prom.fa"),
    "bacillus": ("Bacillus_prom.fa", "Bacillus_non_prom.fa"),
    "arabidopsis_tata": ("Arabidopsis_tata.fa", "Arabidopsis_non_prom.fa"),
    "arabidopsis_non_tata": ("Arabidopsis_non_tata.fa", "Arabidopsis_non_prom_big.fa"),
    "mouse": ("Mouse_tata.fa", "Mouse_nonprom.fa"),
}
"""Files with the promoters, and with other sequences of the same genome."""
SPLICE = "uci_splice.tsv"
DEEPLOC = {"train": "deeploc_our_train_set.fasta", "val": "deeploc_our_val_set.fasta", "test": "deeploc_test_set.fasta"}
ORIGINS = {
    "promoters": "the promoters of Umarov and Solovyev 2017 are at https://github.com/solovictor/CNNPromoterData",
    "splice": "the splice junctions (UCI) are at https://archive.ics.uci.edu/dataset/69; write label, id and sequence "
    "as a .tsv file",
    "deeploc": "the DeepLoc sets as Staerk et al. 2021 divide them are at https://github.com/HannesStark/protein-"
    "localization",
    "files": "there is no download for it, these are files of your own (https://en.wikipedia.org/wiki/FASTA_format)",
}
FOLDERS = {"promoters": ("promoters", "biology"), "splice": ("splice", "biology"), "deeploc": ("deeploc", "biology")}
_FILE = re.compile(r"^(.+?)\.(?:fa|fasta|faa|fna)(?:\.gz|\.xz)?$")
_READER = 1
"""Raised when the same files give other arrays."""


class FastaSpec(TaskSpec):
    """Proteins or DNA, letter by letter, with a class.

    One entry of a file is `>Q9H400 Cell.membrane-M` and, in the lines under it, `MGLPVSWAPPALWVLGCCALLL...`.

    source: `promoters`, of one `organism`: is this DNA a promoter? (251 or 81 bases)
        `splice`, 60 bases around a splice junction: exon to intron (EI), intron to exon (IE), or neither (N).
        `deeploc`, proteins and one of eleven places in the cell; official train, val and test files. Where the train
            file is not there, the val file is train, and the notes say so.
        `files`, your own in `fasta/`: train, test and optionally val (.fa, .fasta, .faa, .fna; .gz or .xz) with the
            label as word `label_word` of the header; without a file named train, each file is a class by its name.
    letters: of `files`: `protein` (25 letters) or `dna` (15); either size, U only in proteins.
    length: letters of an example; longer sequences lose their rest.
    val_share, test_share: shares that are held out by `split_seed`, each label in proportion, where no file is the
        split; of sequences that occur twice all copies stay in train.
    Source: Umarov and Solovyev 2017; Towell et al. 1990 (UCI); Almagro Armenteros et al. 2017 (DeepLoc).
    """

    kind: Literal["fasta"] = "fasta"
    source: Literal["promoters", "splice", "deeploc", "files"] = "promoters"
    organism: Literal["ecoli", "bacillus", "arabidopsis_tata", "arabidopsis_non_tata", "mouse"] = "ecoli"
    letters: Literal["protein", "dna"] = "protein"
    label_word: int = Field(default=2, ge=1)
    length: int = Field(default=1000, ge=1)
    val_share: float = Field(default=0.1, gt=0, lt=1)
    test_share: float = Field(default=0.2, gt=0, lt=1)

    shows_not: ClassVar[str] = (
        "relatives of test sequences may stand in train: this does not show that a model knows new families."
    )

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return self._named(data).files

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the sequences and write them as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        return letter_task(self._prepared(data), self._letters())

    def _letters(self) -> str:
        if self.source == "files":
            return self.letters
        return "protein" if self.source == "deeploc" else "dna"

    def _named(self, data: Path) -> Named:
        if self.source == "files":
            return _own(data, self.kind)
        names, optional = PROMOTERS[self.organism], ()
        if self.source == "splice":
            names = (SPLICE,)  # type: ignore[assignment]
        elif self.source == "deeploc":
            names, optional = (DEEPLOC["val"], DEEPLOC["test"]), (DEEPLOC["train"],)  # type: ignore[assignment]
        return find_named(data, self.kind, FOLDERS[self.source], names, ORIGINS[self.source], optional)

    def _prepared(self, data: Path) -> Prepared:
        named = self._named(data)
        document: dict[str, Any] = {
            "reader": _READER,
            "files": stamps(named.files),
            "source": self.source,
            "letters": self._letters(),
            "length": self.length,
            "shares": [self.val_share, self.test_share],
            "seed": self.split_seed,
        }
        if self.source == "promoters":
            document["organism"] = self.organism
        elif self.source == "files":
            document["label_word"] = self.label_word
        return prepared(data, f"fasta-{self.source}", document, lambda builder: self._build(builder, named))

    def _build(self, builder: Builder, named: Named) -> dict[str, Any]:
        mistakes, found, notes = Mistakes(), {}, []
        needed = [name for name in named.names if name != DEEPLOC["train"]]
        for name, lines in texts(named, mistakes, needed):
            part = Labelled()
            for place, label, ids in self._read(name, lines, mistakes):
                part.add(ids, label, place)
            if not len(part):
                mistakes.add(name, "holds no sequence that can be read; give the file again")
            found[name] = part
        mistakes.check()
        given = self._splits(found)
        if self.source == "deeploc" and "val" not in given:
            notes.append(f"{DEEPLOC['train']} is not there: train and val are drawn from {DEEPLOC['val']}")
        shares = {"test": self.test_share, "val": self.val_share}
        facts = write_letters(builder, given, self.length, shares, self.split_seed, mistakes)
        return {**facts, "notes": [*notes, *facts["notes"]]}

    def _splits(self, found: dict[str, Labelled]) -> dict[str, Labelled]:
        """What was read, by split; what is not named is drawn."""
        if self.source == "deeploc":
            given = {split: found[name] for split, name in DEEPLOC.items() if name in found}
            return given if "train" in given else {"train": given["val"], "test": given["test"]}
        if self.source == "files" and any(_stem(name) == "train" for name in found):
            return {split: part for split in SPLITS for name, part in found.items() if _stem(name) == split}
        whole = Labelled()
        for name in sorted(found):  # an archive gives them in its own order
            for ids, label, place in zip(*vars(found[name]).values(), strict=True):
                whole.add(ids, label, place)
        return {"train": whole}

    def _read(self, name: str, lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[tuple[str, str, Any]]:
        """(place, label, ids) of each sequence of a file."""
        letters = self._letters()
        if self.source == "splice":
            yield from _splice(lines, letters, mistakes)
            return
        by_header = self.source == "deeploc" or (self.source == "files" and _stem(name) in SPLITS)
        for place, header, ids in read_fasta(lines, letters, mistakes):
            label: str | None = _stem(name)
            if self.source == "promoters":
                label = "promoter" if name == PROMOTERS[self.organism][0] else "other"
            elif by_header:
                label = _header_label(header, self.label_word if self.source == "files" else 2, place, mistakes)
            if label is not None:
                # A location ends in -M, -S or -U: in a membrane, soluble, or not known.
                yield place, re.sub(r"-[MSU]$", "", label) if self.source == "deeploc" else label, ids


def _stem(name: str) -> str:
    match = _FILE.match(name)
    return match[1] if match is not None else name


def _own(data: Path, task: str) -> Named:
    """The user's files in `fasta/`: train, test and perhaps val, or a file for each class."""
    folder = data / "fasta"
    paths = {p.name: p for p in sorted(folder.glob("*")) if _FILE.match(p.name) and p.is_file()}
    stems = [_stem(name) for name in paths]
    if "train" in stems:
        paths = {name: path for name, path in paths.items() if _stem(name) in SPLITS}
        stems = [_stem(name) for name in paths]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise BadInput(f"task.kind: {task!r}: {folder} has several files named {twice[0]}; leave the one that is meant")
    if not paths or ("train" not in stems and len(paths) < 2) or ("train" in stems and "test" not in stems):
        raise BadInput(
            f"task.kind: {task!r} looks for train and test (.fa, .fasta, .faa or .fna; .gz or .xz), or for one "
            f"such file per class, in {folder}, and {'no test' if 'train' in stems else 'none'} is there; "
            f"{ORIGINS['files']}; name the folder above it with --data or HEADSTART_DATA, or take another task.source"
        )
    return Named(tuple(paths), paths, ())


def _header_label(header: str, word: int, place: str, mistakes: Mistakes) -> str | None:
    parts = header.split()
    if len(parts) < word:
        mistakes.add(place, f"the header {header[:60]!r} has no word {word}, which is the label")
        return None
    return label_of(parts[word - 1], place, mistakes)


def _splice(lines: Iterator[tuple[str, str]], letters: str, mistakes: Mistakes) -> Iterator[tuple[str, str, Any]]:
    """Rows `label<TAB>id<TAB>sequence` under a header."""
    for place, line in lines:
        fields = [one.strip() for one in line.split("\t")]
        if fields == ["label", "id", "sequence"] or not line.strip():
            continue
        if len(fields) != 3:
            mistakes.add(place, f"has {len(fields)} fields separated by tabs, not label, id and sequence")
        elif not fields[2]:
            mistakes.add(place, "the sequence is empty; leave the row out")
        else:
            label, ids = label_of(fields[0], place, mistakes), encode(fields[2], letters, place, mistakes)
            if label is not None and ids is not None:
                yield place, label, ids
