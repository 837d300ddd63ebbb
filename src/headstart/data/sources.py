"""What a source of data holds: a file, a folder, an array, a list or a table in memory, as sequences."""

from __future__ import annotations

import os
import shlex
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart.atomic import stamps
from headstart.data.archives import files_of, reading, unpacked
from headstart.data.array_folders import folder_of_arrays, is_array_file
from headstart.data.arrays import array_table, list_table, unmasked
from headstart.data.build import build
from headstart.data.cell_clock import by_cell_clock
from headstart.data.clock import with_recordings
from headstart.data.explain import explained
from headstart.data.folder_tables import is_one_recording, one_recording, recordings_table, tables_in_memory
from headstart.data.infer import infer
from headstart.data.labels import check_order
from headstart.data.layout import Decision, LayoutSpec
from headstart.data.letter_folders import labelled_beside
from headstart.data.numerals import texts_to_numbers
from headstart.data.own_clocks import on_one_clock
from headstart.data.packed_folders import packed
from headstart.data.readers import block_reader_of, format_by, reader_of
from headstart.data.rows import frame, table_of
from headstart.data.sequences import Sequences
from headstart.data.sides import turned
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.tidy import in_channels, names_tags
from headstart.errors import BadInput, Mistakes, Places
from headstart.limits import check_memory
from headstart.ways import field_name, in_python, labels_argument

_OTHERS = {
    "numbers": "a spreadsheet of Numbers",
    "pkl pickle pt joblib": "pickled",
    "rds rda rdata": "a file of R",
    "sqlite sqlite3 db db3": "a data base of SQLite",
    "sav zsav": "a file of SPSS",
    "por": "a portable file of SPSS",
    "dta": "a file of Stata",
    "sas7bdat xpt": "a file of SAS",
    "tdms": "a file of LabVIEW (TDMS)",
    "fcs": "a file of a flow cytometer (FCS)",
    "c3d": "a file of motion capture (C3D)",
    "trc": "a file of markers of motion capture (TRC)",
    "eyelink": "a file of an eye tracker, of events and samples (EyeLink ASC)",
    "eeglab": "a recording of EEGLAB",
    "spc spa": "a spectrum in the form of its maker",
    "opus": "a sound in Opus, or a spectrum of OPUS",
    "dcm dicom": "a picture of DICOM",
    "nii": "a picture of NIfTI",
    "fit": "a file of a sports watch (FIT)",
    "fits fts": "a file of astronomy (FITS)",
    "mtx": "a sparse matrix (Matrix Market)",
    "aln sto": "an alignment of sequences",
    "uff unv": "a universal file of vibrations (UFF)",
    "bed gff gff3 gtf vcf bcf sam bam cram": "a list of places on a genome",
}
"""What is not read, and is told from damage, by endings."""
_SIGNS = {
    b"SQLite format 3": "db",
    b"$FL2": "sav",
    b"$FL3": "sav",
    b"<stata_dta": "dta",
    b"TDSm": "tdms",
    b"PathFileType": "trc",
    b"FCS2.0": "fcs",
    b"FCS3.": "fcs",
    b"##fileformat=VCF": "vcf",
    b"##gff-version": "gff",
    b"SIMPLE  =": "fits",
    b"%%MatrixMarket": "mtx",
    b"CLUSTAL": "aln",
    b"# STOCKHOLM": "aln",
    b"** CONVERTED FROM": "eyelink",
    b"-1\n    58": "uff",
    b"-1\r\n    58": "uff",
}
"""How such files begin, whatever their name, with an ending that they have."""
_WAYS = {
    "rds rda rdata": "write it as text: write.csv(x, 'x.csv')",
    "sqlite sqlite3 db db3": "write a table as text: sqlite3 -header -csv {quoted} 'SELECT * FROM name' > x.csv",
    "por": "write it as text: pyreadstat.read_por({path!r})[0].to_csv('x.csv', index=False)",
    "sav zsav": "write it as text: pandas.read_spss({path!r}).to_csv('x.csv', index=False)",
    "dta": "write it as text: pandas.read_stata({path!r}).to_csv('x.csv', index=False)",
    "sas7bdat xpt": "write it as text: pandas.read_sas({path!r}).to_csv('x.csv', index=False)",
    "tdms": "write a group as text: nptdms.TdmsFile({path!r})['group'].as_dataframe().to_csv('x.csv')",
    "c3d": "export it as CSV, a row for each frame",
    "trc": "write it as text: pandas.read_csv({path!r}, sep='\\t', skiprows=5, header=None).iloc[:, 1:]"
    ".dropna(axis=1, how='all').to_csv('x.csv', index=False, header=False)",
    "eyelink": "write its samples as text: grep '^[0-9]' {quoted} | tr -d ' ' > x.tsv "
    "(points are missing values: --na .)",
    "eeglab": "write it as text: mne.io.read_raw_eeglab({path!r}).to_data_frame().to_csv('x.csv', index=False), or "
    "mne.read_epochs_eeglab where it holds epochs",
    "opus": "write a sound as FLAC: ffmpeg -i {quoted} x.flac; export a spectrum as JCAMP-DX (.jdx) or CSV",
    "mtx": "write its rows as text: numpy.savetxt('x.csv', scipy.io.mmread({path!r}).toarray(), delimiter=',')",
    "aln sto": "write it as FASTA, without the marks of gaps where these do not matter",
    "uff unv": "save a recording as .npy, (L,): numpy.save('x.npy', pyuff.UFF({path!r}).read_sets(0)['data'])",
    "fits fts": "write a table as text: astropy.table.Table.read({path!r}).write('x.csv')",
    "spc spa": "export it as JCAMP-DX (.jdx) or CSV",
    "dcm dicom": "pictures are read as PNG, and a course over time as .npy, (L,) or (L, F)",
    "nii": "save courses over time, such as means of regions, as .npy, (L, F)",
    "fit": "export it as CSV, a row for each time",
    "bed gff gff3 gtf vcf bcf sam bam cram": "write the sequences at these places as FASTA (bedtools getfasta, "
    "samtools fasta)",
}
START_BYTES = 4096
"""Bytes at the beginning by which a format is told."""
PACKED = (".gz", ".xz", ".bz2")
BLOCK_BYTES = 2**24
"""Bytes of a block; a smaller file is one."""
READING_BYTES = 4
"""Bytes that a file takes while it is read, for each of its own, at least: of text, JSON lines and arrays; more of what
is packed."""
_latest: dict[Any, weakref.ref[Sequences]] = {}


def read_sequences(
    source: Any,
    layout: LayoutSpec | None = None,
    *,
    labels: Any = None,
    ids: Any = None,
    groups: Any = None,
    name: str = "X",
) -> Sequences:
    """Sequences out of a file or folder (by its path), or out of an array, a list of sequences, or a table in memory.

    `labels`, `ids` and `groups`, one for each sequence, win over columns of the source. `name` stands for data in
    memory in messages. Nothing is unpickled, and no file leads out of a folder.
    Raises: BadInput with up to 20 mistakes, each with file, row, column, value and the way out.
    """
    spec = LayoutSpec() if layout is None else layout
    if isinstance(source, Sequences):
        return source
    if isinstance(source, (str, os.PathLike)) and labels is None and ids is None and groups is None:
        return _read_once(Path(source), spec)
    return _read(source, spec, labels, ids, groups, name)


def _read_once(path: Path, spec: LayoutSpec) -> Sequences:
    """The sequences of a file: what was read last, while somebody holds it and the file has not changed.

    Who looks at a file and then opens it as a task reads it once.
    """
    key = None
    with reading(path):
        if path.exists():
            key = (os.path.realpath(path), spec.model_dump_json(), tuple(stamps(files_of(path))))
    latest = _latest[key]() if key in _latest else None
    if latest is not None:
        return replace(latest, layout=replace(latest.layout, source=str(path)))
    sequences = _read(path, spec, None, None, None, "")
    _latest.clear()
    if key is not None:
        _latest[key] = weakref.ref(sequences)
    return sequences


def explained_sequences(path: Path, layout: LayoutSpec) -> tuple[Sequences, tuple[Decision, ...]]:
    """The sequences of a file or folder, and what each of its columns is taken for. Raises: BadInput."""
    mistakes = Mistakes()
    table, layout = turned(by_cell_clock(_file(path, layout, mistakes), layout, mistakes), layout, mistakes)
    mistakes.check()
    layout = with_recordings(table, layout)
    decided = replace(infer(table, layout), thousands=table.thousands)
    decisions = explained(table, decided)
    return build(table, decided, mistakes), decisions


def _read(source: Any, spec: LayoutSpec, labels: Any, ids: Any, groups: Any, name: str) -> Sequences:
    mistakes = Mistakes()
    in_file = isinstance(source, (str, os.PathLike))
    with in_python(not in_file):
        table = _file(Path(source), spec, mistakes) if in_file else _memory(source, spec, name)
        table = by_cell_clock(table if in_file else _columns(table, spec), spec, mistakes)
        table, spec = turned(table, spec, mistakes)
        mistakes.check()
        spec = with_recordings(table, spec)
        layout = replace(infer(table, spec, labels is not None), thousands=table.thousands)
        for values, what in ((labels, labels_argument()), (groups, "groups")) if layout.shape != "long" else ():
            check_order(source, values, what, table.places.source)
        return build(table, layout, mistakes, labels, ids, groups)


def _file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    if path.exists():
        with reading(path):
            size = sum(os.path.getsize(file) for file in files_of(path))
        check_memory(f"{path}: reading it", READING_BYTES * size, "allow it more, or give fewer rows")
    if path.is_dir():
        with reading(path):
            folder: Table = reader_of("folder")(path, spec, mistakes)
        return folder
    with reading(path):
        if not path.exists():
            raise BadInput(f"{path}: is not there; give the path of a file or a folder")
        if not path.is_file():
            raise BadInput(f"{path}: is neither a file nor a folder; give one")
        if not path.stat().st_size:
            raise BadInput(f"{path}: is empty; give a file with rows")
        form = format_of(path) if spec.format == "auto" else spec.format
    if form == "folder":
        raise BadInput(f"layout.format: {path} is a file, no folder")
    if spec.sheet is not None and form != "xlsx" and not spec.optional:
        raise BadInput(
            f"{path}: {field_name('sheet')}: {spec.sheet!r} is of a workbook, and this is none; leave it out"
        )
    if spec.optional and spec.time_axis and spec.id == "file" and is_array_file(path.name):  # one of a folder of them
        table, names = folder_of_arrays(path.parent, [path.name], spec)
        table.columns["file"] = Column("file", "text", arrow_texts(names))
        return table
    with reading(path):
        table = reader_of(form)(path, spec, mistakes)
    if form in ("fasta", "fastq", "genbank"):
        labelled_beside(table, path, spec)
    return one_recording(path, _columns(table, spec), spec, mistakes)


def _columns(table: Table, spec: LayoutSpec) -> Table:
    """The table with numbers for texts with decimal commas, and a column for each channel where one names channels."""
    if spec.shape != "list":
        texts_to_numbers(table, spec.decimal, spec.thousands)
    table = in_channels(table, spec) if names_tags([*table.columns]) else table
    return on_one_clock(table, spec, Mistakes())


def format_of(path: Path) -> str:
    """The format of a file, by its name or, where that says nothing, by how it begins."""
    plain = path.name.lower()
    for ending in PACKED:
        plain = plain.removesuffix(ending)
    ending = os.path.splitext(plain)[1].removeprefix(".")
    with unpacked(path) as file:
        start = file.read(START_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:14].lower().startswith((b"<!doctype html", b"<html")):
        raise BadInput(f"{path}: is a page of the web (HTML), as a failed download leaves; give the file itself")
    if start.startswith(b"<?xml") and ending not in ("xls", "ods"):
        raise BadInput(f"{path}: is XML, which is not read; export it as CSV, a row for each position or each sequence")
    if start.startswith((b"BEGIN IONS", b"##MGF")):
        raise BadInput(
            f"{path}: is a list of peaks (MGF), which is not read; write JSON lines, a spectrum a line: "
            '{"title": "s1", "intensity": [0.1, 0.7], "label": "a"}'
        )
    if start[:5].lower() == b"name:" and b"\nnum peaks:" in start.lower():
        raise BadInput(
            f"{path}: is a library of spectra (MSP), which is not read; write JSON lines, a spectrum a line: "
            '{"title": "s1", "intensity": [0.1, 0.7], "label": "a"}'
        )
    if start.startswith(b"version https://git-lfs"):
        raise BadInput(f"{path}: says where Git LFS keeps the file, and is not the file; `git lfs pull` fetches it")
    if sign := next((end for sign, end in _SIGNS.items() if start.startswith(sign)), ""):
        _refuse_others(path, sign)
    if start[128:132] == b"DICM":
        _refuse_others(path, "dcm")
    if ending == "set" and start.startswith(b"MATLAB"):
        _refuse_others(path, "eeglab")
    return format_by(ending, start, lambda end: _refuse_others(path, end))


def _refuse_others(path: Path, ending: str) -> None:
    """Raises: BadInput for an ending of what is not read."""
    if ending in ("eeg", "vmrk") and (head := path.with_suffix(".vhdr")).is_file():
        raise BadInput(f"{path}: is a part of a recording of BrainVision; give its header, {head}")
    if (refusal := packed(path, ending)) is not None:
        raise refusal
    for endings, what in _OTHERS.items():
        if ending in endings.split():
            way = _WAYS.get(endings, "save it as CSV, JSON lines (.jsonl), Parquet or .npz").format(
                path=str(path), quoted=shlex.quote(str(path))
            )
            raise BadInput(f"{path}: is {what}, which is not read; {way}")


def _memory(source: Any, spec: LayoutSpec, name: str) -> Table:
    table = frame(source, name)
    if table is not None:
        return table
    if (frames := tables_in_memory(source, name)) is not None:
        items, names = frames
        tables = (table for item, each in zip(items, names, strict=True) if (table := frame(item, each)) is not None)
        whole = recordings_table(tables, Places(name, names=names), "a list of tables", spec, Mistakes())
        if isinstance(source, Mapping):
            whole.columns["id"] = Column("id", "text", arrow_texts(names))
            whole.roles["id"] = "id"
        return whole
    if isinstance(source, Mapping):
        return table_of(source, name)
    if isinstance(source, np.ndarray):
        return array_table(unmasked(source), name, spec, "an array")
    for way in ("to_list", "to_pylist"):
        if hasattr(source, way) and not isinstance(source, (str, bytes)):
            return list_table(getattr(source, way)(), name, spec)
    if hasattr(source, "to_dict"):  # a table of a library that gives Arrow no stream
        return table_of(source.to_dict(orient="list"), name)
    if hasattr(source, "__array__"):
        return array_table(np.asarray(source), name, spec, "an array")
    if isinstance(source, Sequence) and not isinstance(source, bytes):
        return list_table(source, name, spec)
    raise BadInput(f"{name}: is of type {type(source).__name__}; give a path, an array, a list of sequences or a table")


def read_blocks(path: Path, spec: LayoutSpec, size: int = BLOCK_BYTES) -> Iterator[Sequences]:
    """The sequences of a file or folder, in their order, in blocks of about `size` bytes: of a text table with a row
    for each and no quotes, of JSON lines and of Parquet without lists in lists; of all else at once. The last one has
    the notes of all blocks.

    spec: a layout as `Layout.fixed` gives it, by which each block is read alike.
    Raises: BadInput as `read_sequences`, when it comes to what is wrong.
    """
    count, latest, notes = 0, None, []  # type: tuple[int, Sequences | None, list[str]]
    clock = spec.shape == "list" and spec.time is None  # lists of times are read with their sequences
    blocks = spec.window is None and spec.values and spec.shape in ("wide", "text", "list") and not clock
    if blocks and path.is_file() and path.stat().st_size > size:
        tables = block_reader_of(format_of(path) if spec.format == "auto" else spec.format)
        for table in tables(path, spec, size) if tables else (None,):
            if table is None or is_one_recording(path, table, spec):
                break
            try:
                block = build(table, infer(table, spec), Mistakes())
            except BadInput:  # what is wrong in later blocks belongs to the message, too
                break
            if latest is not None:
                if _beside(latest) != _beside(block):
                    break
                count += len(latest)
                yield replace(latest, notes=())
            latest, notes = block, [*notes, *block.notes]
        else:
            if latest is not None:
                yield replace(latest, notes=tuple(notes))
                return
    whole = read_sequences(path, spec)  # its notes are of all rows
    yield whole.take(np.arange(count, len(whole))) if count else whole


def _beside(block: Sequences) -> tuple[object, ...]:
    """What all blocks of a file share."""
    return block.ids is None, block.groups is None, block.kind, block.width
