"""One contract for every format of the table READERS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.made_files import brain_vision, needs, record, signals, workbook

from headstart.data import LayoutSpec, Sequences, read_blocks, read_sequences
from headstart.data.folder_tables import is_recording_table
from headstart.data.readers import READERS
from headstart.data.sources import format_of
from headstart.errors import BadInput

ROWS = np.arange(12, dtype=np.float64).reshape(3, 4) + 0.5
LABELS = ["up", "down", "up"]


def _table() -> object:
    import pyarrow

    return pyarrow.table({"label": LABELS, **{f"x_{i}": ROWS[:, i] for i in range(4)}})


def _csv(path: Path) -> None:
    lines = [f"{label},{','.join(map(str, row))}" for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("\n".join(["label,x_0,x_1,x_2,x_3", *lines]) + "\n")


def _jsonl(path: Path) -> None:
    rows = [{"label": label, "x": list(row)} for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path: Path) -> None:
    path.write_text(json.dumps([{"label": label, "x": list(row)} for label, row in zip(LABELS, ROWS, strict=True)]))


def _parquet(path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_table(), path)


def _arrow(path: Path) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(_table(), str(path))


def _ts(path: Path) -> None:
    lines = [f"{','.join(map(str, row))}:{label}" for label, row in zip(LABELS, ROWS, strict=True)]
    head = ["@problemName made", "@timeStamps false", "@univariate true", "@classLabel true down up", "@data"]
    path.write_text("\n".join([*head, *lines]) + "\n")


def _fasta(path: Path) -> None:
    path.write_text("".join(f">s{i} {label}\nACGTACGT\n" for i, label in enumerate(LABELS)))


def _folder(path: Path) -> None:
    for i, label in enumerate(LABELS):
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{i}.txt").write_text("some words\n")


def _fastq(path: Path) -> None:
    path.write_text("".join(f"@s{i} {label}\nACGTACGT\n+\nIIIIIII!\n" for i, label in enumerate(LABELS)))


def _genbank(path: Path) -> None:
    entry = "LOCUS       S{}\nSOURCE      {}\n  ORGANISM  {}\nORIGIN\n        1 acgtacgtac gt\n//\n"
    path.write_text("".join(entry.format(i, label, label) for i, label in enumerate(LABELS)))


def _jcamp(path: Path) -> None:
    head = ["##TITLE=made", "##JCAMP-DX=4.24", "##FIRSTX=1", "##LASTX=6", "##NPOINTS=6", "##XYDATA=(X++(Y..Y))"]
    path.write_text("\n".join([*head, "1 0.5 1.5 2.5", "4 3.5 4.5 5.5", "##END="]) + "\n")


def _arff(path: Path) -> None:
    head = ["@relation made", *(f"@attribute x_{i} numeric" for i in range(4)), "@attribute state {down,up}", "@data"]
    lines = [f"{','.join(map(str, row))},{label}" for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("\n".join([*head, *lines]) + "\n")


def _mat(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"X": ROWS, "labels": np.array(LABELS, dtype=object)})


def _hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["X"], file["labels"] = ROWS, LABELS


def _wav(path: Path) -> None:
    from scipy.io import wavfile

    wavfile.write(path, 8_000, np.arange(100, dtype=np.int16))


SIGNALS = np.random.default_rng(0).normal(size=(200, 2))
SAMPLES: dict[str, Callable[[Path], object]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": lambda path: np.savez(path, X=ROWS, labels=np.array(LABELS)),
    "npy": lambda path: np.save(path, ROWS),
    "ts": _ts,
    "fasta": _fasta,
    "fastq": _fastq,
    "genbank": _genbank,
    "xlsx": lambda path: workbook(
        path, {"Data": [["label", *"wxyz"], *([label, *row] for label, row in zip(LABELS, ROWS.tolist(), strict=True))]}
    ),
    "mat": _mat,
    "hdf5": _hdf5,
    "arff": _arff,
    "jcamp": _jcamp,
    "sound": _wav,
    "edf": lambda path: signals(path, SIGNALS),
    "wfdb": lambda path: record(path, SIGNALS),
    "brainvision": lambda path: brain_vision(path, SIGNALS),
    "folder": _folder,
}
"""What writes three sequences in each format, or one where a file is one: a new line of READERS needs one here."""


def sample(form: str, folder: Path) -> Path:
    """A file of the format, with the first ending that its line names."""
    needs(form)
    ending = READERS[form].facts["endings"].split()
    path = folder / ("data" if not ending else f"data.{ending[0]}")
    SAMPLES[form](path)
    return path


def test_no_ending_belongs_to_two_formats() -> None:
    endings = [ending for line in READERS.values() for ending in line.facts["endings"].split()]
    assert len(endings) == len(set(endings))
    assert all(ending == ending.lower() for ending in endings)


@pytest.mark.parametrize("form", READERS)
def test_a_file_is_told_by_its_name_and_read_as_its_format_says(form: str, tmp_path: Path) -> None:
    path = sample(form, tmp_path)
    if path.is_file():
        assert format_of(path) == form
    count = 1 if READERS[form].facts.get("single") else 3
    sequences = read_sequences(path)
    assert len(sequences) == count
    named = read_sequences(path, LayoutSpec(format=form))
    assert len(named) == count
    blocks = list(read_blocks(path, named.layout.fixed if isinstance(named.layout, LayoutSpec) else LayoutSpec()))
    assert sum(map(len, blocks)) == count


def check_alike(first: Sequences, again: Sequences) -> None:
    """Whether the values, what they mean and the names of classes are the same, bit for bit."""
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.offsets, first.offsets)
    assert (again.channels, again.kind, again.labels, again.ids) == (
        first.channels,
        first.kind,
        first.labels,
        first.ids,
    )
    assert (again.layout.shape, again.layout.symbols) == (first.layout.shape, first.layout.symbols)
    assert (again.steps is None) == (first.steps is None)
    if first.steps is not None and again.steps is not None:
        np.testing.assert_array_equal(again.steps, first.steps)


@pytest.mark.parametrize("form", READERS)
def test_predict_reads_a_file_as_fit_read_it_at_once_in_blocks_and_of_one_sequence(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample(form, tmp_path)
    first = read_sequences(path)
    fixed = first.layout.fixed()
    check_alike(first, read_sequences(path, fixed))
    blocks = list(read_blocks(path, fixed, 16))
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), first.values)
    monkeypatch.setitem(globals(), "ROWS", ROWS[1:2])
    monkeypatch.setitem(globals(), "LABELS", LABELS[1:2])
    (tmp_path / "one").mkdir()
    single = read_sequences(sample(form, tmp_path / "one"), fixed)
    alone = bool(READERS[form].facts.get("single"))
    which = 0 if alone or form == "folder" else 1
    np.testing.assert_array_equal(single.values, first.take(np.array([which])).values)
    assert single.labels == (None if first.labels is None else (first.labels[which],)) or not single.labels


TIMED = [[i / 50, *row] for i, row in enumerate(SIGNALS.round(4).tolist())]


def _timed(path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(TIMED, columns=["time", "ax", "ay"])
    ways = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".feather": frame.to_feather}
    if path.suffix in ways:
        ways[path.suffix](path, **({"index": False} if path.suffix == ".csv" else {}))
    else:
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")


def _of_r(path: Path) -> None:
    rows = [f'"{i + 1}" {" ".join(map(str, row))}' for i, row in enumerate(TIMED)]
    path.write_text("\n".join(['"time" "ax" "ay"', *rows]) + "\n")


def _openbci(path: Path) -> None:
    head = ["%OpenBCI Raw EXG Data", "%Number of channels = 2", "%Sample Rate = 250 Hz", "%Board = made"]
    names = "Sample Index, EXG Channel 0, EXG Channel 1, Other, Timestamp, Timestamp (Formatted)"
    rows = [f"{i % 256}, {a}, {b}, 0, {1.6e9 + t}, 2021-01-01 00:00:00.1" for i, (t, a, b) in enumerate(TIMED)]
    path.write_text("\n".join([*head, names, *rows]) + "\n")


RECORDINGS: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys(("r.csv", "r.jsonl", "r.json", "r.parquet", "r.feather"), _timed),
    "r.xlsx": lambda path: workbook(path, {"Data": [["time", "ax", "ay"], *TIMED]}),
    "of_r.txt": _of_r,
    "openbci.txt": _openbci,
    "openbci.csv": _openbci,
    "r.jdx": _jcamp,
    "r.wav": _wav,
    "r.edf": SAMPLES["edf"],
    "r.hea": SAMPLES["wfdb"],
    "r.vhdr": SAMPLES["brainvision"],
}
"""What writes one recording, by the form and ending of its file: each format of READERS that a folder may hold."""


@pytest.mark.parametrize("name", RECORDINGS)
def test_predict_reads_a_folder_and_each_of_its_files_as_fit_read_them(name: str, tmp_path: Path) -> None:
    form, ending = name.split(".")
    needs(next((key for key, line in READERS.items() if ending in line.facts["endings"].split()), "folder"))
    folders, beside = tmp_path / "folders", tmp_path / "beside"
    for i, label in enumerate(LABELS):
        for folder in (folders / label, beside):
            folder.mkdir(parents=True, exist_ok=True)
            RECORDINGS[name](folder / f"{form}{i}.{ending}")
    rows = [f"{form}{i}.{ending},{label}" for i, label in enumerate(LABELS)]
    (beside / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    for folder in (folders, beside):
        first = read_sequences(folder)
        assert sorted(first.labels or ()) == sorted(LABELS)
        fixed = first.layout.fixed()
        check_alike(first, read_sequences(folder, fixed))
        for row, path in enumerate(sorted(folder.rglob(f"{form}*.{ending}"))):
            (block,) = read_blocks(path, fixed, 16)
            np.testing.assert_array_equal(block.values, first.take(np.array([row])).values)
            assert block.channels == first.channels


def test_each_format_of_which_a_folder_may_hold_files_has_a_recording_here() -> None:
    endings = {name.rpartition(".")[2] for name in RECORDINGS}
    for form, line in READERS.items():
        own = line.facts["endings"].split()
        if line.facts.get("single") or any(is_recording_table(f"r.{ending}") for ending in own):
            assert endings & set(own), form


@pytest.mark.parametrize("form", [form for form, line in READERS.items() if "needs" in line.facts])
def test_without_its_library_a_file_is_refused_with_the_command_that_installs_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample(form, tmp_path)
    monkeypatch.setitem(sys.modules, str(READERS[form].facts["needs"]), None)
    with pytest.raises(BadInput, match="is not installed; install it with `pip install 'headstart") as error:
        read_sequences(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_no_library_of_the_extra_is_imported_without_such_a_file(tmp_path: Path) -> None:
    program = f"import sys; from headstart.data import read_sequences; read_sequences({str(sample('csv', tmp_path))!r})"
    extra = {line.facts["needs"] for line in READERS.values() if "needs" in line.facts} | {"soundfile"}
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not extra & set(done.stdout.split())


@pytest.mark.parametrize("form", [form for form, line in READERS.items() if line.facts["endings"]])
@pytest.mark.parametrize("content", [b"\x00\xff\xfe" * 20, b"\n\n", b""])
def test_a_file_that_is_no_such_thing_is_refused_in_words(form: str, content: bytes, tmp_path: Path) -> None:
    needs(form)
    path = tmp_path / f"broken.{READERS[form].facts['endings'].split()[0]}"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_sequences(path)
    assert path.name in str(error.value)


@pytest.mark.parametrize("form", READERS)
def test_what_a_reader_reads_is_said(form: str) -> None:
    assert READERS[form].summary
    assert READERS[form].load().__doc__
