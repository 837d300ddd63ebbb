"""Proteins and DNA with a label: promoters, splice junctions, places in the cell, folds, or FASTA files of your own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.alphabets import ALPHABETS
from headstart.data.archives import absent, incomplete
from headstart.data.copies import groups
from headstart.data.labels import label_of
from headstart.data.letters import encode, read_fasta, spoken
from headstart.data.prepared import Builder, prepared
from headstart.data.splits import copies_note, drawn
from headstart.data.text import NamedFiles, find_named, texts
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Signature
from headstart.tasks.build import classes_of, prepared_task, write_split
from headstart.tasks.task import SPLITS, Outline, Task, TaskSpec

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
FASTA_ORIGINS = {
    "promoters": "the promoters of Umarov and Solovyev 2017 are at https://github.com/solovictor/CNNPromoterData",
    "splice": "the splice junctions (UCI) are at https://archive.ics.uci.edu/dataset/69; write label, id and sequence "
    "as a .tsv file",
    "deeploc": "the DeepLoc sets as Staerk et al. 2021 divide them are at https://github.com/HannesStark/protein-"
    "localization",
    "files": "there is no download for it, these are files of your own (https://en.wikipedia.org/wiki/FASTA_format)",
}
HOMOLOGY_FOLDERS = ("remote_homology", "tape/remote_homology", "data/remote_homology")
HOMOLOGY_ORIGIN = (
    "TAPE's remote homology (Rao et al. 2019) is at http://s3.amazonaws.com/songlabdata/proteindata/"
    "data_raw_pytorch/remote_homology.tar.gz"
)
OFFICIAL_FOLDS = 1195
FASTA_FOLDERS = {
    "promoters": ("promoters", "biology"),
    "splice": ("splice", "biology"),
    "deeploc": ("deeploc", "biology"),
}
_FILE = re.compile(r"^(.+?)\.(?:fa|fasta|faa|fna)(?:\.gz|\.xz)?$")


class FastaSpec(TaskSpec):
    """Proteins or DNA, letter by letter, with a class.

    One entry of a file is `>Q9H400 Cell.membrane-M` and, in the lines under it, `MGLPVSWAPPALWVLGCCALLL...`.

    Source: Umarov and Solovyev 2017; Towell et al. 1990 (UCI); Almagro Armenteros et al. 2017 (DeepLoc).
    """

    kind: Literal["fasta"] = "fasta"
    source: Literal["promoters", "splice", "deeploc", "files"] = "promoters"
    """`promoters`, of one `organism`: is this DNA a promoter? (251 or 81 bases) `splice`, 60 bases around a splice
    junction: exon to intron (EI), intron to exon (IE), or neither (N). `deeploc`, proteins and one of eleven places in
    the cell; official train, val and test files. Where the train file is not there, the val file is train, and the
    notes say so. `files`, your own in `fasta/`: train, test and optionally val (.fa, .fasta, .faa, .fna; .gz or .xz)
    with the label as word `label_word` of the header; without a file named train, each file is a class by its name."""
    organism: Literal["ecoli", "bacillus", "arabidopsis_tata", "arabidopsis_non_tata", "mouse"] = "ecoli"
    """Name of the organism, as the files have it."""
    letters: Literal["protein", "dna"] = "protein"
    """Of `files`: `protein` (25 letters) or `dna` (15); either size, U only in proteins."""
    label_word: int = Field(default=2, ge=1)
    """Number of the word in a header that is the label."""
    length: int = Field(default=1000, ge=1)
    """Letters of an example; longer sequences lose their rest."""
    val_share: float = Field(default=0.1, gt=0, lt=1)
    """Shares that are held out by `split_seed`, each label in proportion, where no file is the split; of sequences that
    occur twice all copies stay in train."""
    test_share: float = Field(default=0.2, gt=0, lt=1)
    """Shares that are held out by `split_seed`, each label in proportion, where no file is the split; of sequences that
    occur twice all copies stay in train."""

    shows_not: ClassVar[str] = (
        "relatives of test sequences may stand in train: this does not show that a model knows new families."
    )

    def files(self, data: Path) -> tuple[Path, ...]:
        return self._named(data).files

    def load(self, data: Path) -> Task:
        named, letters = self._named(data), self._letters()
        document = {
            "reader": self.reader,
            "files": stamps(named.files),
            "source": self.source,
            "letters": letters,
            "length": self.length,
            "shares": [self.val_share, self.test_share],
            "seed": self.split_seed,
        }
        if self.source in ("promoters", "files"):
            document |= self.model_dump(include={"organism" if self.source == "promoters" else "label_word"})
        ready = prepared(f"fasta-{self.source}", document, lambda builder: self._build(builder, named))
        return prepared_task(ready, "tokens", len(ALPHABETS[letters]), text=spoken(letters))

    def _letters(self) -> str:
        if self.source == "files":
            return self.letters
        return "protein" if self.source == "deeploc" else "dna"

    def _named(self, data: Path) -> NamedFiles:
        if self.source == "files":
            return _own(data, self.kind)
        names = {
            "promoters": PROMOTERS[self.organism],
            "splice": (SPLICE,),
            "deeploc": (DEEPLOC["val"], DEEPLOC["test"]),
        }
        optional = (DEEPLOC["train"],) if self.source == "deeploc" else ()
        return find_named(
            data, self.kind, FASTA_FOLDERS[self.source], names[self.source], FASTA_ORIGINS[self.source], optional
        )

    def _build(self, builder: Builder, named: NamedFiles) -> dict[str, Any]:
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
        for where, header, ids in read_fasta(lines, letters, mistakes):
            label: str | None = _stem(name)
            if self.source == "promoters":
                label = "promoter" if name == PROMOTERS[self.organism][0] else "other"
            elif by_header:
                label = _header_label(header, self.label_word if self.source == "files" else 2, where, mistakes)
            if label is not None:
                # A location ends in -M, -S or -U: in a membrane, soluble, or not known.
                yield Labelled(ids, re.sub(r"-[MSU]$", "", label) if self.source == "deeploc" else label, where)


def _stem(name: str) -> str:
    return match[1] if (match := _FILE.match(name)) else name


def _own(data: Path, task: str) -> NamedFiles:
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
    if "train" in stems and "test" not in stems:
        raise incomplete(task, [folder / "test.fa"], FASTA_ORIGINS["files"])
    if len(paths) < 2:
        looks = "train and test (.fa, .fasta, .faa or .fna; .gz or .xz), or for one such file per class,"
        raise absent(task, data, ("fasta",), looks, FASTA_ORIGINS["files"], ", or take another task.source")
    return NamedFiles(tuple(paths), paths, ())


def _header_label(header: str, word: int, where: str, mistakes: Mistakes) -> str | None:
    parts = header.split()
    if len(parts) < word:
        mistakes.add(where, f"the header {header[:60]!r} has no word {word}, which is the label")
        return None
    return label_of(parts[word - 1], where, mistakes)


def _splice(lines: Iterator[tuple[str, str]], letters: str, mistakes: Mistakes) -> Iterator[Labelled]:
    """Rows `label<TAB>id<TAB>sequence` under a header."""
    for where, line in lines:
        fields = [field.strip() for field in line.split("\t")]
        if fields == ["label", "id", "sequence"] or not line.strip():
            continue
        if len(fields) != 3:
            mistakes.add(where, f"has {len(fields)} fields separated by tabs, not label, id and sequence")
        elif not fields[2]:
            mistakes.add(where, "the sequence is empty; leave the row out")
        else:
            label, ids = label_of(fields[0], where, mistakes), encode(fields[2], letters, where, mistakes)
            if label is not None and ids is not None:
                yield Labelled(ids, label, where)


class HomologySpec(TaskSpec):
    """Proteins of SCOP 1.75, amino acid by amino acid (25 letters), each with one of 1,195 folds.

    A line of `remote_homology_train.json` is `{"primary": "SVQATREDKF...", "fold_label": 37, ...}`; a file that is one
    JSON list of such objects is read too.

    Source: Rao et al. 2019, with Fox et al. 2013 and Hou et al. 2018; as used here: Lu et al. 2021.
    """

    kind: Literal["homology"] = "homology"
    test: Literal["fold", "superfamily", "family"] = "fold"
    """Which evolutionary groups the test file holds out of train: `fold` (whole superfamilies, as the papers report),
    `superfamily` (whole families) or `family`."""
    length: int = Field(default=1024, ge=2)
    """Only shorter proteins are read (Lu et al.: under 1,024); how many are left out is said in the notes. Splits: the
    official train, valid and test files."""

    shows_not: ClassVar[str] = (
        "single domains, few examples of most folds: this says little of whole proteins, nor of folds that are not in"
        " train."
    )

    def outline(self) -> Outline | None:
        """The sizes that Rao et al. state, of proteins of any length."""
        letters = len(ALPHABETS["protein"])
        signature = Signature("tokens", letters, self.length - 1, min(20, self.length - 1), "class", OFFICIAL_FOLDS)
        return Outline(signature, 12_312, 736, {"fold": 718, "superfamily": 1_254, "family": 1_272}[self.test], 170)

    def files(self, data: Path) -> tuple[Path, ...]:
        return self._named(data).files

    def load(self, data: Path) -> Task:
        named = self._named(data)
        document = {"reader": self.reader, "files": stamps(named.files), "length": self.length, "test": self.test}
        ready = prepared("homology", document, lambda builder: self._build(builder, named))
        return prepared_task(ready, "tokens", len(ALPHABETS["protein"]), text=spoken("protein"))

    def _names(self) -> dict[str, str]:
        return {
            "train": "remote_homology_train.json",
            "val": "remote_homology_valid.json",
            "test": f"remote_homology_test_{self.test}_holdout.json",
        }

    def _named(self, data: Path) -> NamedFiles:
        return find_named(data, self.kind, HOMOLOGY_FOLDERS, tuple(self._names().values()), HOMOLOGY_ORIGIN)

    def _build(self, builder: Builder, named: NamedFiles) -> dict[str, Any]:
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
        if folds != OFFICIAL_FOLDS:
            notes.append(f"not the official remote homology: {folds} folds in train (official: {OFFICIAL_FOLDS})")
        left_out = ", ".join(f"{count} of {split}" for split, count in long.items() if count)
        if left_out:
            notes.append(f"proteins of {self.length} amino acids or more are left out: {left_out}")
        return {**facts, "notes": [*notes, *facts["notes"]]}


def _proteins(lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[Labelled]:
    """The proteins of a file."""
    for where, row in _objects(lines, mistakes):
        text = row.get("primary")
        if "fold_label" not in row or not isinstance(text, str) or not text:
            values = f"fold_label {row.get('fold_label')!r} and primary {str(text)[:20]!r}"
            mistakes.add(where, f"has {values}; give a number and a sequence that is not empty")
            continue
        label = label_of(row["fold_label"], where, mistakes)
        ids = encode(text, "protein", where, mistakes)
        if label is not None and ids is not None:
            yield Labelled(ids, label, where)


def _objects(lines: Iterator[tuple[str, str]], mistakes: Mistakes) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, object) of JSON lines, or of the list that the first line begins."""
    for where, line in lines:
        text = line.strip()
        if not text:
            continue
        listed = text.startswith("[")
        if listed:  # a list may be written over many lines
            text = "\n".join([text, *(more for _, more in lines)])
        try:
            read = json.loads(text)
        except (ValueError, RecursionError) as error:
            mistakes.add(where, f"is not JSON ({error if isinstance(error, ValueError) else 'nested too deep'})")
            continue
        for i, row in enumerate(read if listed else [read]):
            protein = f"{where.rpartition(', row ')[0]}, protein {i + 1}" if listed else where
            if isinstance(row, dict):
                yield protein, row
            else:
                mistakes.add(protein, "is not a JSON object; give one with primary and fold_label")


class Labelled(NamedTuple):
    """One sequence: ids (L,) uint8, its label, and where it was read."""

    ids: np.ndarray
    label: str
    where: str


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
    first = next((where for split, _, _, where in every if split == "train"), "")
    labels = classes_of(((split, label, where) for split, _, label, where in every), "sequence", first, mistakes)
    mistakes.check()
    sequences = [ids[:length] for _, ids, _, _ in every]
    cut = sum(len(ids) > length for _, ids, _, _ in every)
    target = np.array([labels.index(label) for _, _, label, _ in every], dtype=np.int64)
    group = groups(np.ascontiguousarray(ids) for ids in sequences)
    splits = np.array([split for split, _, _, _ in every])
    rows = {split: np.flatnonzero(splits == split) for split in read}
    drawn_shares = {split: share for split, share in shares.items() if split not in read}
    rows |= drawn(target, group, rows["train"], drawn_shares, seed)
    for split in SPLITS:
        write_split(builder, split, (sequences[row] for row in rows[split]), target[rows[split]], rows[split])
    doubtful = int((np.bincount(np.unique(np.stack([group, target]), axis=1)[0]) > 1).sum())
    notes = [f"{cut} sequences are longer than {length} letters and lose their rest"] if cut else []
    notes += [f"{doubtful} of the sequences occur with more than one label"] if doubtful else []
    return {"labels": labels, "notes": [*notes, *copies_note(group, rows, "sequences")]}
