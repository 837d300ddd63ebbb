"""The table of file formats: a format is a file with a function that reads it, and a line here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headstart.spec import Entry


def _reader(path: str, summary: str, endings: str = "", **facts: object) -> Entry:
    return Entry(f"headstart.data.{path}", summary, "", {"endings": endings, **facts})


READERS: dict[str, Entry] = {
    "csv": _reader(
        "csv:read_csv",
        "a table as text, one row a line",
        "csv tsv tab psv dat data txt lvm",
        blocks="headstart.data.blocks:plain_tables",
    ),
    "jsonl": _reader(
        "blocks:read_json_lines",
        "one JSON object a line",
        "jsonl ndjson",
        begins=b"{",
        blocks="headstart.data.blocks:json_tables",
    ),
    "json": _reader("json_document:read_json", "records of JSON in one document", "json"),
    "parquet": _reader(
        "rows:read_parquet",
        "a Parquet file",
        "parquet pq",
        magic=b"PAR1",
        blocks="headstart.data.blocks:parquet_tables",
    ),
    "arrow": _reader("rows:read_arrow", "a file of Arrow's own format", "feather arrow ipc", magic=b"ARROW1"),
    "npz": _reader("arrays:read_npz", "arrays of numpy by name", "npz"),
    "npy": _reader("arrays:read_npy", "one array of numpy", "npy", magic=b"\x93NUMPY"),
    "ts": _reader("series:read_ts_file", "series as the UCR and UEA archives have them", "ts"),
    "fasta": _reader(
        "letters:read_fasta_file",
        "DNA or proteins, letter by letter",
        "fa fasta fna faa",
        begins=b">",
        sign=rb">[^\s>][^\n]*\n[A-Za-z*-]+\s*(\n|$)",
    ),
    "fastq": _reader("fastq:read_fastq", "DNA with qualities, letter by letter", "fq fastq"),
    "genbank": _reader(
        "genbank:read_genbank",
        "DNA or proteins of GenBank, EMBL or UniProt",
        "gb gbk gbff genbank gp embl",
        sign=rb"LOCUS {2,}\S|ID   \S[^\n]*;",
    ),
    "xlsx": _reader(
        "sheets:read_workbook",
        "a sheet of a workbook of Excel or OpenDocument",
        "xlsx xlsm xlsb xls ods",
        needs="python_calamine",
    ),
    "mat": _reader("matlab:read_mat", "variables of MATLAB by name", "mat"),
    "hdf5": _reader("hdf5:read_hdf5", "data sets of HDF5 by name", "h5 hdf5", magic=b"\x89HDF\r\n\x1a\n", needs="h5py"),
    "arff": _reader("arff:read_arff", "a table of Weka", "arff"),
    "jcamp": _reader("jcamp:read_jcamp", "one spectrum of JCAMP-DX", "jdx dx jcamp", begins=b"##TITLE", single=True),
    "sound": _reader("sounds:read_recording", "one recording of sound", "wav flac mp3 ogg", single=True),
    "edf": _reader(
        "edf:read_edf",
        "one recording of EDF or BDF, in physical units",
        "edf bdf",
        single=True,
        needs="edfio",
        recording="headstart.data.edf:edf_recording",
    ),
    "wfdb": _reader(
        "wfdb:read_wfdb",
        "one record of PhysioNet, by its header",
        "hea",
        single=True,
        needs="wfdb",
        recording="headstart.data.wfdb:wfdb_recording",
    ),
    "brainvision": _reader(
        "brainvision:read_brainvision",
        "one recording of BrainVision, by its header",
        "vhdr",
        single=True,
        recording="headstart.data.brainvision:brainvision_recording",
    ),
    "folder": _reader("folders:read_folder", "a folder of images, recordings or texts"),
}
"""`read(path, spec, mistakes) -> Table` by format.

Facts of a line: `endings` of files' names (of text, .gz, .xz or .bz2 may follow); `magic`, how a file begins whatever
its name is; `begins`, how one begins whose name says nothing; `sign`, a pattern of how one begins whose name says
nothing or is that of a text table; `blocks`, what reads a large file in parts (`blocks(path, spec, size)`); `single`,
that a file is one sequence; `recording`, what reads it for a folder of such files (`recording(path, spec) ->
Recording`); `needs`, the library of the extra `[formats]` that it takes.
"""


def reader_of(form: str) -> Callable[..., Any]:
    """What reads files of a format."""
    return _quiet(READERS[form].load())


def _quiet(read: Callable[..., Any]) -> Callable[..., Any]:
    """The same without numpy's warnings of numbers beyond all floats, as a damaged scale makes them: what is not finite
    is told of a sequence."""
    import numpy as np

    return np.errstate(over="ignore", invalid="ignore")(read)


def block_reader_of(form: str) -> Callable[..., Any] | None:
    """What reads a file of a format in parts, None where nothing does."""
    path = READERS[form].facts.get("blocks")
    return None if path is None else Entry(path, "").load()


def recorder_of(ending: str) -> Callable[..., Any]:
    """What reads a file with this ending as one recording."""
    lines = (line.facts for line in READERS.values() if ending in str(line.facts["endings"]).split())
    return _quiet(Entry(next(str(facts["recording"]) for facts in lines), "").load())


def format_by(ending: str, start: bytes, also: Callable[[str], None]) -> str:
    """The format of a file whose name has this ending and that begins so; text that nothing tells is CSV.

    also: refuses endings of what is not read.
    """
    facts: Mapping[str, Mapping[str, object]] = {form: line.facts for form, line in READERS.items()}
    for form, of_form in facts.items():
        if isinstance(magic := of_form.get("magic"), bytes) and start.startswith(magic):
            return form
    text = ending in str(facts["csv"]["endings"]).split()
    for form, of_form in facts.items():
        if ending in str(of_form["endings"]).split() and not text:
            return form
    if not text:
        also(ending)
    for form, of_form in facts.items():
        if isinstance(sign := of_form.get("sign"), bytes) and re.match(sign, start):
            return form
    if text:
        return "csv"
    begins = ((form, of_form.get("begins")) for form, of_form in facts.items())
    return next((form for form, text in begins if isinstance(text, bytes) and start.startswith(text)), "csv")
