"""What stands around tables: parts with names in brackets, lines of dashes, remarks, days in words, bars in headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headstart.data import LayoutSpec, read_sequences
from headstart.data.encodings import likely_encodings
from headstart.data.exports import is_unit
from headstart.errors import BadInput

VALUES = np.random.default_rng(0).normal(size=(12, 40)).round(3)


def _chromatogram(values: np.ndarray, name: str = "LC Chromatogram(A)") -> list[str]:
    rows = [f"{k / 60:.5f}\t{value:.3f}" for k, value in enumerate(values)]
    return [f"[{name}]", "Interval(msec)\t1000", "Unit\tmV", "R.Time (min)\tIntensity", *rows, ""]


def test_of_an_export_of_several_parts_the_one_with_the_curve_is_read(tmp_path: Path) -> None:
    for i in range(4):
        lines = [
            "[Header]",
            "Version\t5.97",
            "",
            *_chromatogram(VALUES[i]),
            "[Peak Table(A)]",
            "Peak#\tArea",
            "1\t5",
            "",
        ]
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[i % 2] / f"{i}.txt").write_text("\n".join(lines))
    sequences = read_sequences(tmp_path)
    np.testing.assert_allclose(sequences.values[:40, 0], VALUES[0], rtol=1e-6)
    assert sequences.channels == ("Intensity",)
    (tmp_path / "a" / "0.txt").write_text("\n".join([*_chromatogram(VALUES[0], "A"), *_chromatogram(VALUES[1], "B")]))
    with pytest.raises(BadInput, match=r"holds several curves \('\[A\]', '\[B\]'\); save each as a file of its own"):
        read_sequences(tmp_path)


@pytest.mark.parametrize("outer", [False, True])
def test_tables_as_programs_of_data_bases_print_them_are_read(outer: bool, tmp_path: Path) -> None:
    bar, ruler = "|" * outer, "----+---+-------+-------"
    rows = [f"{bar} {i} | {k} | {VALUES[i, k]} | {'ab'[i % 2]} {bar}" for i in range(6) for k in range(5)]
    ends = [f"+{ruler}+"] * outer
    lines = [*ends, f"{bar} id | t | x | label {bar}", ends[0] if outer else ruler, *rows, *ends, "(30 rows)"]
    (tmp_path / "f.txt").write_text("\n".join(lines) + "\n")
    sequences = read_sequences(tmp_path / "f.txt")
    np.testing.assert_allclose(sequences.values[:, 0], VALUES[:6, :5].ravel(), rtol=1e-6)
    assert sequences.labels == ("a", "b") * 3


def test_remarks_and_means_below_a_table_are_passed_over_and_said(tmp_path: Path) -> None:
    rows = [f"P{i},{'ab'[i % 2]},{','.join(map(str, VALUES[i, :5]))}" for i in range(8)]
    lines = ["sample,group,0,5,10,15,20", *rows, ",,,,,,", "Mean,,1,1,1,1,1", "* P3 was repeated,,,,,,"]
    (tmp_path / "f.csv").write_text("\n".join(lines) + "\n")
    sequences = read_sequences(tmp_path / "f.csv")
    assert len(sequences) == 8
    assert any("1 remark below the table was passed over ('* P3 was repeated')" in note for note in sequences.notes)
    assert any("'Mean'" in note for note in sequences.notes)


def test_rows_of_days_times_and_words_between_blanks_are_a_table_and_prose_is_none(tmp_path: Path) -> None:
    rows = [f"2024-05-01 10:{k:02d}:00 s{i} {VALUES[i, k]} {'ab'[i % 2]}" for i in range(6) for k in range(10)]
    (tmp_path / "f.txt").write_text("\n".join(rows) + "\n")
    sequences = read_sequences(tmp_path / "f.txt")
    assert (len(sequences), sequences.channels) == (6, ("4",))
    prose = ["the cat sat on the mat", "a dog ran to the park", "we all saw it in 1999"] * 4
    (tmp_path / "g.txt").write_text("\n".join(prose) + "\n")
    assert read_sequences(tmp_path / "g.txt").kind == "text"


def test_a_curve_without_names_may_end_in_a_closing_line(tmp_path: Path) -> None:
    rows = [f"{200 + k * 0.37:.2f}\t{value}" for k, value in enumerate(VALUES[0])]
    lines = [
        "Data from s.txt",
        "",
        "Number of Pixels: 40",
        ">>>>>Begin Spectral Data<<<<<",
        *rows,
        ">>>>>End Spectral Data<<<<<",
    ]
    for label in "ab":
        (tmp_path / label).mkdir()
        (tmp_path / label / "0.txt").write_text("\n".join(lines) + "\n")
    np.testing.assert_allclose(read_sequences(tmp_path).values[:40, 0], VALUES[0], rtol=1e-6)


@pytest.mark.parametrize("order", ["{i}|{label}|20", "{label}|{i}|x"])
def test_labels_between_bars_of_headers_of_fasta_are_the_target(order: str, tmp_path: Path) -> None:
    entries = [f">{order.format(i=f's{i}', label='ab'[i % 2])}\nACDEFGHIKL\n" for i in range(20)]
    (tmp_path / "f.fasta").write_text("".join(entries))
    assert read_sequences(tmp_path / "f.fasta").labels == ("a", "b") * 10
    (tmp_path / "g.fasta").write_text("".join(f">sp|P{i}|NAME{i}_HUMAN\nACDEFGHIKL\n" for i in range(20)))
    assert read_sequences(tmp_path / "g.fasta").ids[0] == "sp|P0|NAME0_HUMAN"  # type: ignore[index]


def test_the_one_column_beside_names_of_files_is_the_label_and_lists_of_a_competition_are_told_apart(
    tmp_path: Path,
) -> None:
    for i in range(6):
        (tmp_path / "train").mkdir(exist_ok=True)
        np.save(tmp_path / "train" / f"r{i}.npy", VALUES[i])
    rows = [f"r{i},{100 + i * 7.5}" for i in range(6)]
    (tmp_path / "train.csv").write_text("\n".join(["segment_id,time_to_eruption", *rows]) + "\n")
    (tmp_path / "sample_submission.csv").write_text("segment_id,time_to_eruption\nr9,0\n")
    assert read_sequences(tmp_path).layout.target == "time_to_eruption"


def test_letters_of_another_script_within_a_latin_word_are_not_offered() -> None:
    assert likely_encodings("Größe;Länge".encode("cp1252"))[0][0] == "cp1252"
    assert likely_encodings("Θερμοκρασία νερού".encode("cp1253"))[0][0] == "cp1253"


def test_what_a_potential_is_measured_against_belongs_to_its_unit() -> None:
    assert is_unit("V vs. Ref.")
    assert not is_unit("runs vs. hits")


def test_x_and_y_as_files_of_numbers_are_one_data_set(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "X_train.txt", VALUES, fmt="% .7e")
    np.savetxt(tmp_path / "y_train.txt", np.arange(12) % 3, fmt="%d")
    sequences = read_sequences(tmp_path)
    np.testing.assert_allclose(sequences.values.reshape(12, 40), VALUES, rtol=1e-6)
    assert sequences.labels == ("0", "1", "2") * 4


def test_folders_of_persons_are_groups_where_names_of_files_hold_the_label(tmp_path: Path) -> None:
    for person in range(4):
        for task in ("rest", "walk"):
            folder = tmp_path / f"sub-{person + 1:02d}" / "eeg"
            folder.mkdir(parents=True, exist_ok=True)
            rows = [f"{k / 100}\t{value}" for k, value in enumerate(VALUES[person])]
            name = f"sub-{person + 1:02d}_task-{task}_eeg.tsv"
            (folder / name).write_text("\n".join(["time\tF3", *rows]) + "\n")
    sequences = read_sequences(tmp_path)
    assert sequences.classes == ("rest", "walk")
    assert sequences.groups is not None
    assert len(set(sequences.groups)) == 4


@pytest.mark.parametrize(("name", "text"), [("a.gpx", "<?xml version='1.0'?><gpx/>"), ("a.mgf", "BEGIN IONS\n1 2\n")])
def test_lines_of_xml_and_of_peaks_are_no_texts(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match="which is not read; "):
        read_sequences(tmp_path / name)


@pytest.mark.parametrize(("first", "more"), [("-0.35", 1), ("2024-05-01 10:40", 1), ("as usual: none", 0)])
def test_a_last_row_whose_first_cell_is_like_those_above_is_no_remark(first: str, more: int, tmp_path: Path) -> None:
    heads = [f"2024-05-01 10:{k:02d}" if first[4] == "-" else VALUES[0, k] for k in range(12)]
    rows = [",".join(map(str, (head, *VALUES[:4, k]))) for k, head in enumerate(heads)]
    (tmp_path / "f.csv").write_text(
        "\n".join(["time,x_1,x_2,x_3,x_4" if first[4] == "-" else "x_0,x_1,x_2,x_3,x_4", *rows, f"{first},,,,"]) + "\n"
    )
    spec = LayoutSpec(shape="columns", ends="missing") if first[4] == "-" else LayoutSpec()
    sequences = read_sequences(tmp_path / "f.csv", spec)
    assert (sequences.lengths[0] if first[4] == "-" else len(sequences)) == 12 + more


def test_a_second_curve_far_below_the_first_is_refused_as_one_near_it_is(tmp_path: Path) -> None:
    long = np.tile(VALUES[0], 20)
    path = tmp_path / "f.txt"
    path.write_text("\n".join(["[Header]", "Version\t5", *_chromatogram(long, "A"), *_chromatogram(long, "B")]))
    with pytest.raises(BadInput, match=r"'\[B\]' holds a curve, too; save each as a file of its own"):
        read_sequences(path, LayoutSpec(window=100))


def test_a_sample_submission_beside_folders_of_tables_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for i in range(6):
        cells = "\n".join(f"{k / 10},{value}" for k, value in enumerate(VALUES[i]))
        (tmp_path / "train" / f"r{i}.csv").write_text(f"t,x\n{cells}\n")
    rows = "\n".join(f"r{i},{'ab'[i % 2]}" for i in range(6))
    (tmp_path / "train.csv").write_text(f"id,label\n{rows}\n")
    (tmp_path / "sample_submission.csv").write_text("id,label\nr8,a\nr9,a\n")
    assert read_sequences(tmp_path).labels == ("a", "b") * 3
