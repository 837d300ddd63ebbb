"""A folder of files with many sequences of letters each (FASTA, FASTQ, GenBank): a file, or a folder, for a class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from headstart.data.archives import check_link
from headstart.data.array_folders import CLASS_FILE
from headstart.data.class_folders import class_folders, split_stems
from headstart.data.file_labels import labelled_by_name, labels_beside, labels_of, only_label
from headstart.data.folder_tables import read_table
from headstart.data.layout import LayoutSpec, by_role
from headstart.data.readers import READERS
from headstart.data.table import Column, Table, arrow_texts
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few
from headstart.ways import asked, option

_ENDINGS = tuple(
    f".{word}" for form in ("fasta", "fastq", "genbank") for word in str(READERS[form].facts["endings"]).split()
)

FEWEST_TEXTS = 5
"""Lines of each file from which on they may be a text each."""


def is_letter_file(name: str) -> bool:
    """Whether a file holds sequences of letters, by its name."""
    return name.lower().removesuffix(".gz").endswith(_ENDINGS)


def folder_of_letters(path: Path, names: Sequence[str], spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The sequences of all files, one file behind the other, with the file of each.

    Labels are folders, parts of the names of the files, or else these names, where each has several sequences.
    Raises: BadInput naming a file that cannot be read or leads out of the folder.
    """
    tables = []
    for name in names:
        file = path / name
        check_link(path, file)
        tables.append(read_table(file, spec, mistakes))
        mistakes.check()
    rows = [table.rows for table in tables]
    columns = dict.fromkeys(name for table in tables for name in table.columns)
    words = {
        name: [w for t in tables for w in (t.columns[name].words if name in t.columns else [None] * t.rows)]
        for name in columns
    }
    stems = [PurePosixPath(name).name.removesuffix(".gz").rpartition(".")[0] for name in names]
    of_row = [number for number, count in enumerate(rows) for _ in range(count)]
    ids = words.get("id", ["1"] * len(of_row))
    if len(set(ids)) < len(ids):
        words["id"] = [f"{names[k]}:{word}" for k, word in zip(of_row, ids, strict=True)]
    places = Places(str(path), names=[table.places.of(row) for table in tables for row in range(table.rows)])
    made = {name: Column(name, "text", arrow_texts(cells)) for name, cells in words.items()}
    table = Table(
        made,
        len(of_row),
        places,
        "a folder of FASTA" if all(t.written == "FASTA" for t in tables) else "a folder of letters",
        shape="text",
    )
    table.columns["file"] = Column("file", "text", arrow_texts([stems[k] for k in of_row]))
    table.roles["id"] = "id"
    table.notes += dict.fromkeys(note for other in tables for note in other.notes)
    _label(table, [names[k] for k in of_row], stems, spec)
    return table


def _label(table: Table, names: Sequence[str], stems: Sequence[str], spec: LayoutSpec) -> None:
    """Which of folders, parts of names and names of files labels the sequences."""
    paths = [PurePosixPath(name).parts[:-1] for name in names]
    if spec.label_from is not None:
        labelled_by_name(table, names, spec)
        return
    class_folders(table, paths, spec)
    if spec.target is not None or table.roles.get("target"):
        return
    table.roles.pop("target", None)
    some = first_few(list(map(repr, stems)), 3)
    if len(split_stems(stems)) >= min(2, len(stems)):
        table.notes.append(
            f"files {some} are taken for splits and read together; to keep them apart, fit one and give the other "
            "with --test"
        )
    elif 2 * len(stems) <= table.rows and len(set(stems)) == len(stems) and not labelled_by_name(table, names, spec):
        table.roles["target"] = "file"
        table.notes.append(
            f"labels are the names of the files, {some} ({option('label_from', '{label}_{part}.fasta')} takes a part "
            "of them)"
        )


def labelled_beside(table: Table, path: Path, spec: LayoutSpec) -> None:
    """Add the columns of a table beside a file of letters (labels.csv) that has a row for each of its ids, or of the
    accessions within these (`sp|P12345|NAME`), and which of them is the label."""
    if spec.optional or "id" not in table.columns:
        return
    ids = [word or "" for word in table.columns["id"].words]
    within = [word.split("|")[1] if word.count("|") > 1 else word.partition(".")[0] for word in ids]
    for other in labels_beside(path):
        columns = labels_of(other, ids, spec) or labels_of(other, within, spec)
        columns = {name: column for name, column in columns.items() if name not in table.columns}
        if not columns:
            if lost := _lost(other, ids, spec):
                table.notes.append(
                    f"{other.name!r} names not all sequences ({first_few(list(map(repr, lost)), 3)} "
                    f"{'is' if len(lost) == 1 else 'are'} not there), and is not used; add their rows, with an empty "
                    "label where none is known"
                )
            continue
        table.columns |= columns
        label = next(iter(by_role("target", columns)), only_label(columns))
        what = "labels are" if label else "what is known of the sequences is"
        table.notes.append(f"{what} in {other.name!r}")
        if label and spec.target is None:
            table.roles["target"] = label
        return


def _lost(path: Path, ids: Sequence[str], spec: LayoutSpec) -> list[str]:
    """The ids that a table of labels lacks, where a column of it names at least half of them."""
    table = read_table(path, spec, Mistakes())
    named = [{(word or "").strip() for word in column.words} for column in table.columns.values()]
    lost = min(([name for name in ids if name not in words] for words in named), key=len, default=[])
    return lost if 2 * len(lost) <= len(ids) else []


def by_line(table: Table, names: Sequence[str], spec: LayoutSpec) -> Table | None:
    """The lines of a folder of texts, each labelled by its file, where that was set; None of other folders.

    Raises: BadInput with both settings where nothing tells whether a file is a text or holds one a line.
    """
    stems = [PurePosixPath(name).stem for name in names]
    lines = [
        [line.strip() for line in (word or "").splitlines() if line.strip()] for word in table.columns["values"].words
    ]
    words = len(names) > 1 and not any(re.search(r"[/\d]", stem) for stem in (*names, *stems))
    if not words or spec.label_from or spec.target not in (None, CLASS_FILE) or min(map(len, lines)) < FEWEST_TEXTS:
        return None
    if spec.target is None:
        if spec.optional:
            return None
        question = f"{table.places.source}: each file may be one text, or hold a text a line with its name as the class"
        raise BadInput(asked(question, {"target": CLASS_FILE}, {"target": ""}))
    texts = [line for own in lines for line in own]
    places = Places(
        table.places.source,
        names=[f"{n}, text {i + 1}" for n, own in zip(names, lines, strict=True) for i in range(len(own))],
    )
    labels = [stem for stem, own in zip(stems, lines, strict=True) for _ in own]
    whole = Table({}, len(texts), places, "a folder of texts, one a line", shape="text", notes=list(table.notes))
    whole.columns = {
        "values": Column("values", "text", arrow_texts(texts)),
        CLASS_FILE: Column(CLASS_FILE, "text", arrow_texts(labels)),
    }
    whole.roles["target"] = CLASS_FILE
    return whole
