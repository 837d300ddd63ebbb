"""Formats with a library of their own: what they hold is read, and what is damaged is refused in one line."""

from __future__ import annotations

import re
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import command
from support.made_files import needs, record, signals, tone, workbook
from support.made_tables import read, why, write

from headstart.data.apart import arrays_apart
from headstart.data.card import data_card
from headstart.data.layout import LayoutSpec
from headstart.data.sources import read_sequences
from headstart.errors import BadInput

X = np.random.default_rng(1).normal(size=(12, 20)).round(3)
Y = ["ab"[i % 2] for i in range(12)]
TABLE = [["id", "label", *(f"t{i}" for i in range(20))], *([f"s{i}", Y[i], *X[i].tolist()] for i in range(12))]
RAGGED = [np.arange(5.0 + i) for i in range(12)]


def notes(source: Path, **settings: Any) -> str:
    """What the card says besides."""
    return "; ".join(text for name, text in data_card(read(source, **settings)).head if name == "note")


def cells(items: list[Any]) -> np.ndarray:
    """A cell array of MATLAB."""
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


# Workbooks


def test_a_sheet_is_read_as_a_text_table_is(tmp_path: Path) -> None:
    needs("xlsx")
    sequences = read(workbook(tmp_path / "f.xlsx", {"Data": TABLE}))
    np.testing.assert_allclose(sequences.values.reshape(12, 20), X, rtol=1e-6)
    assert (sequences.layout.target, sequences.layout.id) == ("label", "id")
    assert sequences.labels == tuple(Y)
    shown = command("show", "f.xlsx", cwd=tmp_path)
    assert "sheet 'Data' with a header" in shown.stdout


def test_where_several_sheets_hold_cells_one_is_named(tmp_path: Path) -> None:
    needs("xlsx")
    path = workbook(tmp_path / "f.xlsx", {"About": [["made by hand"]], "Data": TABLE, "Empty": []})
    assert why(path).startswith("f.xlsx: several sheets hold cells ('About', 'Data'); name one with --sheet About")
    assert why(path, sheet="Dat") == "f.xlsx: sheet: no 'Dat'; did you mean 'Data'?"
    assert len(read(path, sheet="Data")) == 12
    shown = command("show", "f.xlsx", "--sheet", "Data", cwd=tmp_path)
    assert shown.returncode == 0


def test_a_wrong_cell_of_a_sheet_is_named_by_its_row(tmp_path: Path) -> None:
    needs("xlsx")
    rows = [*TABLE[:4], ["s3", "b", "bad", *X[3].tolist()[1:]], *TABLE[5:]]
    assert why(workbook(tmp_path / "f.xlsx", {"Data": rows})).startswith("f.xlsx:5 column 't0': 'bad' is not a number")


def test_a_workbook_that_is_encrypted_empty_or_damaged_is_refused_in_one_line(tmp_path: Path) -> None:
    needs("xlsx")
    whole = workbook(tmp_path / "f.xlsx", {"Data": TABLE}).read_bytes()
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
    cases = {
        "empty.xlsx": (workbook(tmp_path / "g.xlsx", {"Data": []}).read_bytes(), "no sheet holds a cell"),
        "cut.xlsx": (whole[:-200], "is not a whole workbook"),
        "locked.xlsx": (ole + "EncryptedPackage".encode("utf-16-le"), "is an encrypted workbook"),
        "other.xlsx": (ole, "is not a workbook (.xlsx)"),
        "old.xls": (ole, "is not a whole workbook"),
        "noise.xlsx": (whole[:100] + b"\xff" * 300 + whole[400:], "is not a whole workbook"),
    }
    for name, (content, text) in cases.items():
        message = why(write(tmp_path / name, content))
        assert text in message
        assert message.startswith(f"{name}: ")
        assert "\n" not in message


def test_a_sheet_that_reaches_to_the_last_cell_of_excel_takes_no_memory(tmp_path: Path) -> None:
    needs("xlsx")
    path = workbook(tmp_path / "f.xlsx", {"Data": [["a"], [None] * 16_383 + [1]]})
    content = path.read_bytes()
    del content
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "far.xlsx", "w") as far:
        for part in archive.infolist():
            text = archive.read(part)
            far.writestr(part.filename, text.replace(b'r="XFD2"', b'r="XFD1048576"'))
    assert "reach over 17,179,869,184 cells" in why(tmp_path / "far.xlsx")


@pytest.mark.parametrize("how", ["spaced", "small", "elsewhere", "capital", "without a place", "chain"])
def test_a_far_cell_is_counted_however_its_sheet_is_written(how: str, tmp_path: Path) -> None:
    """Asked for the rectangle, the library would end the process: the memory of 17 thousand million cells."""
    needs("xlsx")
    sheet, far = "xl/worksheets/sheet1.xml", b'r="XFD1048576"'
    path = workbook(tmp_path / "f.xlsx", {"Data": [["a", "label"], *([i, "ab"[i % 2]] for i in range(6))]})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    row = re.compile(rb'<row r="3">.*?</row>', re.DOTALL)
    if how == "without a place":
        parts[sheet] = row.sub(b'<row r="1048576">' + b"<c><v>1</v></c>" * 20_000 + b"</row>", parts[sheet])
    else:
        written = {"spaced": b"r   =\n'XFD1048576'", "small": far.lower()}.get(how, far)
        parts[sheet] = parts[sheet].replace(b'r="A3"', written)
    name = {"elsewhere": "xl/other/s.png", "capital": "xl/Worksheets/Sheet1.xml", "chain": "xl/calcChain.xml"}.get(how)
    if name is not None:
        parts[name] = parts.pop(sheet)
        rels = "xl/_rels/workbook.xml.rels"
        parts[rels] = parts[rels].replace(b"worksheets/sheet1.xml", name.removeprefix("xl/").encode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert "cells, and at most 16,777,216 are read; save the sheet as CSV" in why(path)


def test_a_binary_workbook_that_takes_all_memory_ends_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("xlsx")
    path = write(tmp_path / "f.xls", b"\xd0\xcf\x11\xe0" + bytes(600))
    assert "f.xls: is not a whole workbook" in why(path)
    monkeypatch.setattr("headstart.data.sheets.arrays_apart", lambda _, *words: arrays_apart("os:abort", *words))
    assert why(path) == "f.xls: is not a whole workbook (what reads it stopped); write it again"


# MATLAB


def test_variables_of_matlab_are_read_by_name(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "f.mat", {"X": X, "y": np.arange(12)[:, None] % 2, "fs": 100.0}, do_compression=True)
    sequences = read(tmp_path / "f.mat")
    np.testing.assert_allclose(sequences.values.reshape(12, 20), X, rtol=1e-6)
    assert set(sequences.labels) == {"0", "1"}
    assert notes(tmp_path / "f.mat") == "arrays 'fs' (1,) are not used"
    assert "target 'y'" in command("show", "f.mat", cwd=tmp_path).stdout


def test_cells_of_texts_and_of_sequences_in_a_struct_are_read(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "f.mat", {"data": {"signals": cells(RAGGED), "labels": cells(Y)}})
    sequences = read(tmp_path / "f.mat")
    assert sequences.lengths.tolist() == [5 + i for i in range(12)]
    assert sequences.labels == tuple(Y)
    assert sequences.layout.target == "data.labels"


def test_vectors_of_matlab_that_are_named_are_the_channels_of_one_recording(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "f.mat", {"ecg": np.arange(50.0), "resp": np.arange(50.0)[:, None], "fs": 250})
    assert why(tmp_path / "f.mat").startswith(
        "f.mat: none of the arrays 'ecg' (50,), 'resp' (50,), 'fs' (1,) is known to hold sequences (n, L)"
    )
    sequences = read(tmp_path / "f.mat", values=("ecg", "resp"))
    assert (len(sequences), sequences.channels, sequences.lengths.tolist()) == (1, ("ecg", "resp"), [50])


def test_trials_of_channels_by_positions_are_read_and_what_is_not_is_named_with_what_to_save(tmp_path: Path) -> None:
    from scipy.io import savemat

    trials = [np.stack([row, -row]) for row in RAGGED]
    savemat(tmp_path / "f.mat", {"trials": cells(trials), "labels": np.arange(12) % 2})
    for first in (False, True):
        sequences = read(tmp_path / "f.mat", channels_first=first)
        assert sequences.lengths.tolist() == [len(row) for row in RAGGED]
        np.testing.assert_array_equal(sequences.values[:5], trials[0].T)
    assert "cells of 'trials' are channels by positions" in notes(tmp_path / "f.mat")
    savemat(
        tmp_path / "g.mat", {"trials": cells([np.zeros((2, 5)), np.zeros((3, 6))] * 6), "labels": np.arange(12) % 2}
    )
    message = why(tmp_path / "g.mat")
    assert "not read: 'trials' (objects)" in message
    assert "read from a cell of numeric matrices" in message


def test_what_is_no_array_of_numbers_is_named_and_left(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "f.mat", {"X": X, "mixed": cells([np.zeros(3), {"a": 1.0}, "text"])})
    assert notes(tmp_path / "f.mat") == "not read: 'mixed' (objects)"
    assert why(tmp_path / "f.mat", values=("mixed",)).startswith("f.mat: 'mixed' holds objects, which are never read")


def test_packed_zeros_of_matlab_are_counted_before_they_are_made(tmp_path: Path) -> None:
    import struct
    import zlib

    packer = zlib.compressobj()
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(300)) + packer.flush()
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path = write(tmp_path / "f.mat", head + struct.pack("<II", 15, len(packed)) + packed)
    tracemalloc.start()
    assert "its variables would take 314,572,800 bytes, at most 268,435,456 are read" in why(path)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()


def test_matlab_7_3_is_read_as_earlier_versions_are(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    path = tmp_path / "f.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"] = X.T
        text, cell = np.bytes_("char"), np.bytes_("cell")
        names = file.create_dataset("labels", (1, 12), dtype=h5py.ref_dtype)
        names.attrs["MATLAB_class"] = cell
        for i, label in enumerate(Y):
            item = file.create_dataset(
                f"#refs#/{i}", data=np.array([[ord(letter)] for letter in label * 2], dtype="u2")
            )
            item.attrs["MATLAB_class"] = text
            names[0, i] = item.ref
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    sequences = read(path)
    np.testing.assert_allclose(sequences.values.reshape(12, 20), X, rtol=1e-6)
    assert sequences.labels == tuple(2 * label for label in Y)


def test_matlab_7_3_without_h5py_says_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    path = write(tmp_path / "f.mat", b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    assert why(path) == (
        "f.mat: a file of MATLAB 7.3 needs the library h5py, which is not installed; install it with "
        "`pip install 'headstart[formats]'`"
    )


# HDF5


def test_data_sets_are_read_by_name_and_links_are_not_followed(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["train/X"], file["train/labels"] = X, Y
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "x")
    sequences = read(tmp_path / "f.h5")
    np.testing.assert_allclose(sequences.values.reshape(12, 20), X, rtol=1e-6)
    assert sequences.labels == tuple(Y)
    assert notes(tmp_path / "f.h5") == "not read: 'elsewhere' (a link)"


def test_sequences_of_unequal_lengths_in_hdf5_are_read(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as file:
        data = file.create_dataset("signals", (12,), dtype=h5py.vlen_dtype("f8"))
        for i, values in enumerate(RAGGED):
            data[i] = values
    assert read(tmp_path / "f.h5").lengths.tolist() == [5 + i for i in range(12)]


def test_a_data_set_of_a_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    secret = write(tmp_path / "secret.bin", bytes(12 * 20 * 8))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("X", (12, 20), "f8", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    assert "holds no array of numbers or texts (not read: 'X' (data of another file))" in why(tmp_path / "f.h5")


def test_a_data_set_that_nobody_wrote_takes_no_memory(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("X", (10**6, 10**6), "f4", chunks=(1000, 1000))
    assert "the data set 'X' would take 4,000,000,000,000 bytes" in why(tmp_path / "f.h5")


# EDF, BDF and WFDB


@pytest.mark.parametrize("ending", ["edf", "bdf"])
def test_a_recording_is_one_sequence_of_its_channels_in_physical_units(ending: str, tmp_path: Path) -> None:
    needs("edf")
    samples = 40 * np.random.default_rng(0).normal(size=(300, 2))
    sequences = read(signals(tmp_path / f"f.{ending}", samples))
    assert (len(sequences), sequences.channels) == (1, ("Fpz", "Cz"))
    np.testing.assert_allclose(sequences.values, samples, atol=0.01)
    assert "100 samples per second" in command("show", f"f.{ending}", cwd=tmp_path).stdout


def test_channels_of_several_rates_are_asked_about(tmp_path: Path) -> None:
    needs("edf")
    path = signals(tmp_path / "f.edf", np.zeros((300, 3)) + np.arange(300)[:, None], [100, 100, 1], ["A", "B", "C"])
    assert why(path) == (
        "f.edf: has several numbers of samples per second: 'A', 'B' 100, 'C' 1; --rate 100 brings all onto one clock, "
        "or name those of one with --values A --values B"
    )
    assert read(path, values=("A", "B")).channels == ("A", "B")
    assert why(path, values=("D",)) == "f.edf: values: no channel 'D'; there are: A, B, C"


def test_channels_of_several_rates_come_onto_the_clock_that_was_set(tmp_path: Path) -> None:
    needs("edf")
    samples = np.stack([np.arange(300) / 100, np.arange(300) / 1.0], 1)  # the second is its own time at 1 a second
    result = read(signals(tmp_path / "f.edf", samples, [100, 1], ["A", "C"]), rate=10)
    assert (result.channels, result.lengths.tolist()) == (("A", "C"), [30])
    assert result.observed is not None
    assert result.observed[:, 0].all()
    assert result.observed[:21, 1].all(), "up to its last sample"
    assert not result.observed[21:, 1].any()
    np.testing.assert_allclose(result.values[:21, 1], np.arange(21) / 10, atol=0.01)
    np.testing.assert_allclose(result.values[1:, 0], np.arange(1, 30) / 10, atol=0.01)


def test_a_folder_of_recordings_with_a_folder_for_each_class_is_read_and_fitted(tmp_path: Path) -> None:
    needs("edf")
    rng = np.random.default_rng(0)
    for i in range(12):
        signals(tmp_path / "eeg" / "ab"[i % 2] / f"{i}.edf", rng.normal(size=(100, 2)) * (1 + i % 2))
    sequences = read(tmp_path / "eeg")
    assert (sequences.channels, sequences.layout.target) == (("Fpz", "Cz"), "folder")
    assert sorted(set(sequences.labels)) == ["a", "b"]
    signals(tmp_path / "eeg" / "a" / "z.edf", rng.normal(size=(100, 2)), names=["Fpz", "Oz"])
    message = why(tmp_path / "eeg")
    assert "z.edf: has the channels 'Fpz', 'Oz', the first file has 'Fpz', 'Cz'; name with --values" in message
    assert read(tmp_path / "eeg", values=("Fpz",)).channels == ("Fpz",)


@pytest.mark.parametrize("fmt", ["16", "212"])
def test_a_record_of_physionet_is_read_by_its_header(fmt: str, tmp_path: Path) -> None:
    needs("wfdb")
    samples = np.random.default_rng(0).normal(size=(300, 2))
    sequences = read(record(tmp_path / "r1.hea", samples, fmt))
    assert sequences.channels == ("MLII", "V5")
    np.testing.assert_allclose(sequences.values, samples, atol=0.01)


def test_files_of_a_record_stand_beside_its_header(tmp_path: Path) -> None:
    needs("wfdb")
    header = record(tmp_path / "r1.hea", np.zeros((300, 2)) + np.arange(300)[:, None])
    text = header.read_text()
    assert "file 'gone.dat', which is not beside it" in why(
        write(tmp_path / "r2.hea", text.replace("r1.dat", "gone.dat"))
    )
    for name in ("sub/x.dat", "s3://bucket/x.dat", "../../../etc/passwd"):
        message = why(write(tmp_path / "r3.hea", text.replace("r1.dat", name)))
        assert message.startswith("r3.hea: ")
        assert "\n" not in message
    (tmp_path / "r1.dat").write_bytes((tmp_path / "r1.dat").read_bytes()[:200])
    assert "is not a whole file of samples" in why(header)


@pytest.mark.parametrize("ending", ["edf", "bdf"])
def test_a_recording_that_is_cut_short_is_refused(ending: str, tmp_path: Path) -> None:
    needs("edf")
    path = signals(tmp_path / f"f.{ending}", np.random.default_rng(0).normal(size=(300, 2)))
    whole = path.read_bytes()
    for size in (len(whole) - 100, 700, 300, 100):
        message = why(write(path, whole[:size]))
        assert re.match(rf"f\.{ending}: is not a whole file of EDF or BDF \(.*\); write it again$", message)


# Sound


@pytest.mark.parametrize("ending", ["flac", "ogg", "mp3", "wav"])
def test_packed_sound_is_read_like_a_wav_file(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("soundfile", reason="needs the extra [formats]: pip install 'headstart[formats]'")
    for i in range(4):
        tone(tmp_path / "calls" / "ab"[i % 2] / f"{i}.{ending}", pitch=440 * (1 + i % 2))
    sequences = read(tmp_path / "calls")
    assert len(sequences) == 4
    assert 0.45 < np.abs(sequences.values).max() < 0.56
    assert sequences.layout.rate == 8_000
    alone = read(tmp_path / "calls" / "a" / f"0.{ending}")
    np.testing.assert_array_equal(alone.values, sequences.take(np.arange(1)).values)


def test_sound_that_is_cut_short_or_none_is_refused_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("soundfile", reason="needs the extra [formats]: pip install 'headstart[formats]'")
    whole = tone(tmp_path / "f.flac", length=40_000).read_bytes()
    for content in (whole[: len(whole) // 2], b"fLaC" + bytes(500)):
        message = why(write(tmp_path / "f.flac", content))
        assert re.match(r"f\.flac: (is cut short|has 0 samples)", message)
        assert "\n" not in message


def test_sound_without_its_library_is_refused_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "f.mp3", b"ID3")
    for source in (tmp_path / "a" / "f.mp3", tmp_path):
        assert "f.mp3: sound in .mp3 files needs the library soundfile, which is not installed" in why(source)


# FASTQ and ARFF


def test_letters_of_fastq_are_read_and_qualities_where_they_are_named(tmp_path: Path) -> None:
    entries = [f"@r{i} {Y[i]}\n{'ACGTACGTAC'[i % 3 :]}N\n+\n{'IIIIIIIIII'[i % 3 :]}!\n" for i in range(12)]
    path = write(tmp_path / "f.fastq", "".join(entries))
    sequences = read(path)
    assert (sequences.kind, sequences.layout.target, sequences.layout.id) == ("dna", "word 2", "id")
    assert "qualities are not used; --values quality reads them" in notes(path)
    qualities = read(path, values=("quality",), kind="numbers")
    assert set(qualities.values[:, 0].tolist()) == {40.0, 0.0}
    np.testing.assert_array_equal(qualities.offsets, sequences.offsets)
    import gzip

    assert len(read(write(tmp_path / "f.fq.gz", gzip.compress(path.read_bytes())))) == 12


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("@r\nACGT\n+\nIII\n", "f.fq:5: 'r' has 4 letters and 3 qualities"),
        ("@r\nACGT\nIIII\n", "f.fq:7: ends within an entry, which has four lines"),
        ("r\nACGT\n+\nIIII\n", "f.fq:5: is no entry of FASTQ"),
        ("@r\n\n+\n\n", "f.fq:5: 'r' has no letters"),
    ],
)
def test_a_wrong_entry_of_fastq_is_named_by_its_line(entry: str, text: str, tmp_path: Path) -> None:
    assert why(write(tmp_path / "f.fq", f"@first\nACGTACGT\n+\nIIIIIIII\n{entry}")).startswith(text)


def test_a_table_of_weka_is_read_with_its_class(tmp_path: Path) -> None:
    head = "% made\n@relation x\n" + "".join(f"@attribute t{i} numeric\n" for i in range(4))
    rows = "".join(f"{i},?,{i}.5,2,{'yes' if i % 2 else 'no'}\n" for i in range(12))
    path = write(tmp_path / "f.arff", f"{head}@attribute outcome_of_it {{yes,no}}\n@data\n{rows}")
    sequences = read(path)
    assert sequences.layout.target == "outcome_of_it"
    assert sequences.observed is not None
    assert sequences.values.reshape(12, 4)[3].tolist() == [3, 0, 3.5, 2]
    for content in ("@relation x\n@attribute a numeric\n@data\n", "@relation x\n@data\n1,2\n", "nothing\n"):
        assert why(write(path, content)).startswith("f.arff: ")


def test_a_series_of_several_channels_of_weka_is_read(tmp_path: Path) -> None:
    rows = "".join(f"'{i},1,2\\n3,4,{i}',{Y[i]}\n" for i in range(6))
    inner = "".join(f"@attribute t{i} numeric\n" for i in range(3))
    head = f"@relation x\n@attribute series relational\n{inner}@end series\n@attribute kind {{a,b}}\n@data\n"
    sequences = read(write(tmp_path / "f.arff", head + rows))
    assert sequences.values.reshape(6, 3, 2)[2].tolist() == [[2, 3], [1, 4], [2, 2]]


# Neutral fields


def test_a_field_that_came_later_does_not_change_the_identity_of_a_layout() -> None:
    later = {"sheet", "skip", "units_row", "comment", "thousands", "time_format"}
    assert not later & set(LayoutSpec().document())


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is not bounded here")
def test_an_element_of_a_matlab_file_does_not_get_the_gigabyte_that_it_says_it_has(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "f.mat", {"s": {"a": np.arange(40.0) / 3}})
    content = (tmp_path / "f.mat").read_bytes()
    assert content.count(struct.pack("<II", 9, 320)) == 1
    write(tmp_path / "f.mat", content.replace(struct.pack("<II", 9, 320), struct.pack("<II", 9, 2**30)))
    assert "takes more memory than a file of its size may; write it again" in why(tmp_path / "f.mat")


# Libraries that crash


def test_a_library_that_crashes_or_does_not_end_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "f.mat", b"MATLAB 5.0 MAT-file")
    with pytest.raises(BadInput, match=r"f\.mat: is not a whole file \(what reads it stopped\); write it again"):
        arrays_apart("faulthandler:_sigsegv", path, "file")
    monkeypatch.setattr("headstart.data.apart.WAIT", 0.001)
    with pytest.raises(BadInput, match="what reads it stopped"):
        arrays_apart("headstart.data.matlab:variables_of", path, "file")


def test_signals_of_wfdb_without_a_name_are_numbered(tmp_path: Path) -> None:
    needs("wfdb")
    header = record(tmp_path / "r1.hea", np.zeros((300, 2)) + np.arange(300)[:, None])
    write(header, header.read_text().replace(" MLII", "").replace(" V5", ""))
    assert read(header).channels == ("signal 1", "signal 2")


# As a model reads new files


def test_a_layout_of_a_workbook_reads_another_one_and_a_text_table_alike(tmp_path: Path) -> None:
    needs("xlsx")
    titled = [["Instrument 7"], [], *TABLE]
    fitted = read(workbook(tmp_path / "f.xlsx", {"Data": titled}))
    text = "\n".join(",".join(map(str, row)) for row in TABLE)
    for source in (workbook(tmp_path / "g.xlsx", {"Data": TABLE}), write(tmp_path / "g.csv", text)):
        served = read_sequences(source, fitted.layout.fixed())
        assert (served.ids, served.labels, served.channels) == (fitted.ids, fitted.labels, fitted.channels)
        np.testing.assert_allclose(served.values, fitted.values, rtol=1e-6)


def test_a_layout_of_a_folder_of_one_form_of_sound_reads_those_of_another_alike(tmp_path: Path) -> None:
    needs("sound")
    import soundfile
    from scipy.io import wavfile

    for i in range(4):
        samples = (np.sin(np.arange(400) * (0.2 + 0.1 * (i % 2))) * 9000).astype(np.int16)
        for form in ("wav", "flac"):
            (tmp_path / form / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        wavfile.write(tmp_path / "wav" / "ab"[i % 2] / f"{i}.wav", 8000, samples)
        soundfile.write(tmp_path / "flac" / "ab"[i % 2] / f"{i}.flac", samples, 8000)
    fitted = read(tmp_path / "wav")
    served = read_sequences(tmp_path / "flac", fitted.layout.fixed())
    assert served.labels == fitted.labels == ("a", "a", "b", "b")
    np.testing.assert_allclose(served.values, fitted.values, atol=1e-4)


@pytest.mark.parametrize(("written", "rate"), [("0", "0"), ("1" + "0" * 20, "1e+20")])
def test_a_rate_that_no_recording_has_is_refused_with_the_header(written: str, rate: str, tmp_path: Path) -> None:
    needs("wfdb")
    header = record(tmp_path / "r1.hea", np.zeros((30, 2)) + np.arange(30)[:, None])
    header.write_text(header.read_text().replace(" 250 ", f" {written} ", 1))
    with pytest.raises(BadInput, match=re.escape(f"{header}: ")) as error:
        read_sequences(header)
    assert str(error.value).endswith(f"says {rate} samples per second; write the true rate into its header")
