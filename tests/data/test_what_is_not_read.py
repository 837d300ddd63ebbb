"""Columns of structs are those of their fields; maps and files in cells are refused with what they hold and a way out,
whoever names them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.made_tables import numbers, read, why, wide, write

from headstart import BadInput
from headstart.data import read_sequences

KINDS: dict[str, Any] = {
    "map<string, double>": pa.array([[("a", 1.0), ("b", 2.0)]] * 4, pa.map_(pa.string(), pa.float64())),
    "list<item: list<item: list<item: double>>>": pa.array([[[[1.0]]]] * 4),
}
WAY = "which are not read; write a column for each channel, whose cells are lists of numbers"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({}, "no column looks like a sequence (wide), and "),
        ({"values": ("ecg",)}, "values: "),
        ({"target": "ecg"}, "target: "),
        ({"id": "ecg"}, "id: "),
    ],
)
def test_values_of_another_type_are_refused_with_a_way_out(
    tmp_path: Path, kind: str, settings: dict[str, Any], start: str
) -> None:
    path = tmp_path / "f.parquet"
    pyarrow.parquet.write_table(pa.table({"state": list("abab"), "ecg": KINDS[kind]}), path)
    shown = kind[: kind.index("<") + 1]
    assert why(path, **settings).startswith(f"f.parquet: {start}column 'ecg' holds values of type {shown}")
    assert WAY in why(path, **settings)


def test_files_in_the_cells_of_a_table_are_refused_with_where_to_write_them(tmp_path: Path) -> None:
    cells = [{"bytes": b"RIFF\xff", "path": f"{i}.wav"} for i in range(4)]
    path = tmp_path / "f.parquet"
    pyarrow.parquet.write_table(pa.table({"state": list("abab"), "audio": cells}), path)
    assert why(path).endswith(
        "values of type struct<bytes: binary, path: string>, which are not read; write each to a file in a folder for "
        "each class, and give the folder that holds these"
    )


NUMBERS = numbers(8, 6).astype(float)
SAMPLES = [[{"t": float(k), "v": v} for k, v in enumerate(row)] for row in NUMBERS.tolist()]


@pytest.mark.parametrize(
    ("cells", "channels"),
    [
        ([{"v": row} for row in NUMBERS.tolist()], ("v",)),
        ([{"in": {"v": row}} for row in NUMBERS.tolist()], ("v",)),
        (SAMPLES, ("v",)),
        ([{"rows": row} for row in SAMPLES], ("v",)),
        ([{"v": row, "w": [0.5 * x for x in row]} for row in NUMBERS.tolist()], ("v", "w")),
    ],
)
@pytest.mark.parametrize("sliced", [False, True])
def test_the_fields_of_structs_are_columns(
    tmp_path: Path, cells: list[Any], channels: tuple[str, ...], sliced: bool
) -> None:
    meta = [{"label": "ab"[i % 2], "subject": f"s{i // 2}"} for i in range(8)]
    table = pa.table({"meta": meta, "x": cells})
    table = pa.concat_tables([table.slice(0, 3), table.slice(3)]) if sliced else table
    path = tmp_path / "f.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=3 if sliced else 8)
    for s in (read(path), read_sequences(table)):
        assert np.array_equal(s.values[:, 0].reshape(8, 6), np.float32(NUMBERS))
        assert (s.channels, s.labels, s.layout.group) == (channels, tuple("ab" * 4), "subject")


def test_structs_and_lists_that_are_missing_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    cells = [None, {"v": 2.0, "w": None}, {"v": 3.0, "w": 4.0}] * 4
    columns = {"id": [f"r{i // 3}" for i in range(12)], "label": [f"{i // 6}k" for i in range(12)], "x": cells}
    pyarrow.parquet.write_table(pa.table(columns), path)
    s = read(path, shape="long")
    assert s.observed is not None
    assert s.observed.tolist() == [[False, False], [True, False], [True, True]] * 4
    pyarrow.parquet.write_table(pa.table({"label": list("abab"), "x": [SAMPLES[0][:2], None] * 2}), path)
    assert "the sequence is empty; leave the row out" in why(path, time="")


def test_the_keys_of_objects_in_json_lines_are_named_where_the_object_is(tmp_path: Path) -> None:
    line = '{"state": "a", "acc": {"x": [1, 2, 3], "y": [4, 5, 6]}}\n'
    message = why(write(tmp_path / "f.jsonl", 4 * line), values=("acc",))
    assert message == "f.jsonl: values: no column 'acc'; there are: state, x, y"
    assert len(read(tmp_path / "f.jsonl", values=("x", "y"))) == 4


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet", "npz", "json"])
def test_a_page_of_the_web_and_a_pointer_of_git_are_no_data_whatever_they_are_called(
    tmp_path: Path, ending: str
) -> None:
    page = write(tmp_path / f"page.{ending}", "<!DOCTYPE html>\n<html><body>404: no such file</body></html>\n")
    assert why(page).startswith(f"page.{ending}: is a page of the web (HTML), as a failed download leaves")
    pointer = write(tmp_path / f"lfs.{ending}", "version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 9\n")
    assert why(pointer).endswith("and is not the file; `git lfs pull` fetches it")


def test_a_setting_that_nothing_of_a_table_obeys_is_refused_and_never_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(wide()))
    assert why(path, step=5).startswith("f.csv: step: is of windows, and none are cut; give --window with it")
    assert why(path, window_label="end").startswith("f.csv: window_label: is of windows")
    assert len(read(path, window=3, step=2)) > 12


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "a.db",
            b"SQLite format 3\0" + bytes(99),
            "is a data base of SQLite, which is not read; .*sqlite3 -header -csv",
        ),
        ("noending", b"SQLite format 3\0" + bytes(99), "is a data base of SQLite"),
        ("a.sav", b"$FL2@(#)" + bytes(99), r"is a file of SPSS, .*pandas.read_spss\('.*a.sav'\).to_csv"),
        ("a.dta", b"<stata_dta>" + bytes(99), "is a file of Stata, .*pandas.read_stata"),
        ("a.tdms", b"TDSm" + bytes(99), "is a file of LabVIEW"),
        ("image", bytes(128) + b"DICM" + bytes(99), "is a picture of DICOM"),
        ("a b.sqlite", b"SQLite format 3\0" + bytes(99), r"sqlite3 -header -csv '.*a b\.sqlite' 'SELECT"),
        ("a.por", b"ASCII SPSS PORT FILE" + bytes(99), "is a portable file of SPSS, .*pyreadstat.read_por"),
        ("a.opus", b"OggS" + bytes(99), "is a sound in Opus, or a spectrum of OPUS, .*ffmpeg -i .*a.opus x.flac"),
        ("a.fit", b"SIMPLE  =                    T" + bytes(99), "is a file of astronomy"),
        ("a.nii", bytes(99), "is a picture of NIfTI"),
        ("a.c3d", b"\2\x50" + bytes(99), "is a file of motion capture"),
        (
            "a.set",
            b"MATLAB 5.0 MAT-file" + bytes(200),
            r"is a recording of EEGLAB, .*mne.io.read_raw_eeglab\('.*a.set'\)",
        ),
        ("a.asc", b"** CONVERTED FROM a.edf\n5 1 2\n", r"of an eye tracker, .*grep '\^\[0-9\]' .*a.asc"),
        ("a.fcs", b"FCS3.0" + bytes(99), "is a file of a flow cytometer"),
        ("a.bed", b"chr1\t1\t5\n" * 20, "is a list of places on a genome, .*bedtools getfasta"),
        ("a.txt", b"##fileformat=VCFv4.2\n#CHROM\tPOS\nchr1\t7\n", "is a list of places on a genome"),
    ],
)
def test_files_of_other_fields_are_refused_with_what_they_are_and_what_writes_a_table(
    name: str, content: bytes, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=text):
        read_sequences(tmp_path / name)


@pytest.mark.parametrize(
    ("start", "what"),
    [
        ("Name: caffeine\nMW: 194\nNum Peaks: 2\n55 10; 194 999;\n", "is a library of spectra (MSP)"),
        ("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 1 5\n2 3 1\n", "is a sparse matrix"),
        ("# STOCKHOLM 1.0\ns1 ACGT\n//\n", "is an alignment of sequences"),
        ("CLUSTAL W (1.83) multiple sequence alignment\n\ns1 ACGT\n", "is an alignment of sequences"),
        ("    -1\n    58\nacc\nNONE\n", "is a universal file of vibrations (UFF)"),
    ],
)
@pytest.mark.parametrize("name", ["f.txt", "f"])
def test_text_of_another_form_is_told_by_how_it_begins(start: str, what: str, name: str, tmp_path: Path) -> None:
    message = why(write(tmp_path / name, start))
    assert f"{name}: {what}" in message
    assert "which is not read; " in message
