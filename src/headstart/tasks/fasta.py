"""Proteins and DNA with a label: promoters, splice junctions, where a protein lives, or FASTA files of your own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.labels import label_of
from headstart.data.letters import ALPHABETS, encode, read_fasta, spoken
from headstart.data.prepared import Builder, prepared
from headstart.data.text import Named, find_named, texts
from headstart.errors import BadInput, Mistakes
from headstart.tasks.build import prepared_task
from headstart.tasks.letters import Labelled, write_letters
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

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        named, letters = self._named(data), self._letters()
        document = {
            "reader": _READER,
            "files": stamps(named.files),
            "source": self.source,
            "letters": letters,
            "length": self.length,
            "shares": [self.val_share, self.test_share],
            "seed": self.split_seed,
        }
        if self.source in ("promoters", "files"):
            document |= self.model_dump(include={"organism" if self.source == "promoters" else "label_word"})
        ready = prepared(data, f"fasta-{self.source}", document, lambda builder: self._build(builder, named))
        return prepared_task(ready, "tokens", len(ALPHABETS[letters]), text=spoken(letters))

    def _letters(self) -> str:
        if self.source == "files":
            return self.letters
        return "protein" if self.source == "deeploc" else "dna"

    def _named(self, data: Path) -> Named:
        if self.source == "files":
            return _own(data, self.kind)
        names = {
            "promoters": PROMOTERS[self.organism],
            "splice": (SPLICE,),
            "deeploc": (DEEPLOC["val"], DEEPLOC["test"]),
        }
        optional = (DEEPLOC["train"],) if self.source == "deeploc" else ()
        return find_named(data, self.kind, FOLDERS[self.source], names[self.source], ORIGINS[self.source], optional)

    def _build(self, builder: Builder, named: Named) -> dict[str, Any]:
        mistakes, files, notes = Mistakes(), {}, []
        needed = [name for name in named.names if name != DEEPLOC["train"]]
        for name, lines in texts(named, mistakes, needed):
            files[name] = list(self._read(name, lines, mistakes))
            if not files[name]:
                mistakes.add(name, "holds no sequence that can be read; give the file again")
        mistakes.check()
        read = self._splits(files)
        if self.source == "deeploc" and "val" not in read:
            notes.append(f"{DEEPLOC['train']} is not there: train and val are drawn from {DEEPLOC['val']}")
        shares = {"test": self.test_share, "val": self.val_share}
        facts = write_letters(builder, read, self.length, shares, self.split_seed, mistakes)
        return {**facts, "notes": [*notes, *facts["notes"]]}

    def _splits(self, files: dict[str, list[Labelled]]) -> dict[str, list[Labelled]]:
        """What was read, by split; what is not named is drawn."""
        if self.source == "deeploc":
            read = {split: files[name] for split, name in DEEPLOC.items() if name in files}
            return read if "train" in read else {"train": read["val"], "test": read["test"]}
        if self.source == "files" and any(_stem(name) == "train" for name in files):
            return {split: part for split in SPLITS for name, part in files.items() if _stem(name) == split}
        return {"train": [row for name in sorted(files) for row in files[name]]}  # an archive has its own order

    def _read(self, name: str, lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[Labelled]:
        """Each sequence of a file."""
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
                yield Labelled(ids, re.sub(r"-[MSU]$", "", label) if self.source == "deeploc" else label, place)


def _stem(name: str) -> str:
    return match[1] if (match := _FILE.match(name)) else name


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


def _splice(lines: Iterator[tuple[str, str]], letters: str, mistakes: Mistakes) -> Iterator[Labelled]:
    """Rows `label<TAB>id<TAB>sequence` under a header."""
    for place, line in lines:
        fields = [field.strip() for field in line.split("\t")]
        if fields == ["label", "id", "sequence"] or not line.strip():
            continue
        if len(fields) != 3:
            mistakes.add(place, f"has {len(fields)} fields separated by tabs, not label, id and sequence")
        elif not fields[2]:
            mistakes.add(place, "the sequence is empty; leave the row out")
        else:
            label, ids = label_of(fields[0], place, mistakes), encode(fields[2], letters, place, mistakes)
            if label is not None and ids is not None:
                yield Labelled(ids, label, place)
