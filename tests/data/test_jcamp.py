"""Spectra of JCAMP-DX."""

from __future__ import annotations

import time
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import read_sequences

Y = np.random.default_rng(8).integers(-900, 3000, (8, 25))


def spectrum(i: int, form: str = "XYDATA", falling: bool = False, text: str = "") -> str:
    """A spectrum of 25 points from 400 to 640, factors included."""
    x, y = np.arange(400, 641, 10), Y[i]
    x, y = (x[::-1], y[::-1]) if falling else (x, y)
    head = [f"##TITLE=sample {i} $$ made", "##JCAMP-DX=4.24", f"##FIRSTX={x[0]}", f"##LASTX={x[-1]}", "##XFACTOR=1"]
    head += ["##YFACTOR=0.001", "##NPOINTS=25", f"##$Class={'ab'[i % 2]}"]
    if form == "XYDATA":
        rows = [f"{x[k]}" + "".join(f"{v:+d}" for v in y[k : k + 6]) for k in range(0, 25, 6)]
        rows = [row.replace("+", " ") for row in rows] if text == "blanks" else rows
    else:
        rows = [f"{a}, {b};" for a, b in zip(x, y, strict=True)]
    name = {"XYDATA": "##XYDATA=(X++(Y..Y))"}.get(form, f"##{form}=(XY..XY)")
    return "\n".join([*head, name, *rows, "##END="]) + "\n"


@pytest.mark.parametrize("form", ["XYDATA", "XYPOINTS"])
@pytest.mark.parametrize("falling", [True, False])
def test_spectra_of_a_folder_are_sequences_from_the_smallest_x_on(tmp_path: Path, form: str, falling: bool) -> None:
    for i in range(8):
        write(tmp_path / f"{i}.jdx", spectrum(i, form, falling, text="blanks" if i == 3 else ""))
    sequences = read(tmp_path)
    np.testing.assert_allclose(sequences.values.reshape(8, 25), Y / 1000, rtol=1e-6)
    assert (sequences.layout.target, sequences.layout.clock, sequences.channels) == ("class", "x", ("y",))
    single = read_sequences(tmp_path / "5.jdx", sequences.layout.fixed())
    np.testing.assert_allclose(single.values[:, 0], Y[5] / 1000, rtol=1e-6)
    assert read(tmp_path / "5.jdx").lengths.tolist() == [25]


def compressed(y: list[int], form: str) -> list[str]:
    """Lines of at most 10 ordinates, as instruments write them; those of differences begin with the last ordinate of the
    line above."""
    first = {"SQZ": ("@ABCDEFGHI", " abcdefghi"), "DIF": ("%JKLMNOPQR", " jklmnopqr")}

    def digits(value: int, kind: str) -> str:
        text = str(abs(value))
        return first[kind][value < 0][int(text[0])] + text[1:]

    def count(times: int) -> str:
        text = str(times)
        return " STUVWXYZs"[int(text[0])] + text[1:] if times > 1 else ""

    lines = []
    for at in range(0, len(y), 10):
        begin = at - 1 if at and form == "DIF" else at
        some, cells = y[begin : at + 10], [digits(y[begin], "SQZ")]
        steps = [b - a for a, b in pairwise(some)] if form == "DIF" else some[1:]
        for value, times in ((k, len(list(g))) for k, g in groupby(steps)):
            cells.append(digits(value, form) + count(times))
        lines.append(f"{400 + 10 * begin}" + "".join(cells))
    return lines


@pytest.mark.parametrize("form", ["SQZ", "DIF"])
def test_compressed_ordinates_are_read(tmp_path: Path, form: str) -> None:
    y = [3, 3, 3, 3, 250, -7, 0, 0, *Y[2, :12].tolist(), 14, 14, 15, 16, 17]
    whole = spectrum(0)
    rows = whole.splitlines(keepends=True)
    text = whole.replace("".join(rows[9:-1]), "\n".join(compressed(y, form)) + "\n")
    assert ("S" in text.splitlines()[9]) or ("U" in text.splitlines()[9])
    s = read(write(tmp_path / "f.jdx", text))
    np.testing.assert_allclose(s.values[:, 0], np.float32(y) / 1000, rtol=1e-6)


def test_a_repeat_of_the_ordinate_that_a_line_begins_with_again_is_the_same_value(tmp_path: Path) -> None:
    head = ["##TITLE=made", "##JCAMP-DX=4.24", "##FIRSTX=1", "##LASTX=6", "##NPOINTS=6", "##XYDATA=(X++(Y..Y))"]
    lines = [*head, "1A0J2", "2B2U", "5B2J1", "##END="]  # 10, 22; 22 again, three times in all; 22, 33
    s = read(write(tmp_path / "f.jdx", "\n".join(lines) + "\n"))
    assert s.values[:, -1].tolist() == [10, 22, 22, 22, 22, 33]


def test_a_file_of_text_that_is_a_spectrum_is_no_table_and_no_text(tmp_path: Path) -> None:
    assert why(write(tmp_path / "f.txt", spectrum(0))) == "f.txt: is JCAMP-DX; give it the ending .jdx"
    (tmp_path / "folder").mkdir()
    for i in range(4):
        write(tmp_path / "folder" / f"{i}.txt", spectrum(i))
    assert "0.txt: is JCAMP-DX; give it the ending .jdx" in why(tmp_path / "folder")


def test_what_is_no_plain_curve_is_refused_with_what_to_export(tmp_path: Path) -> None:
    whole = spectrum(0)
    rows = whole.splitlines(keepends=True)
    cases = {
        whole.replace(rows[9], "400A234?\n"): "its ordinates cannot be read ('400A234?'); export it as plain numbers",
        whole.replace(rows[9], "400A234ST\n460@\n"): "says 25 points from 400 to 640 and holds 22; write it again",
        whole.replace(
            rows[9], "400A234J12\n460A247\n"
        ): "do not continue from line to line (1247 after 1346); the file",
        spectrum(0, "XYPOINTS").replace("400,", "400 A,"): "##XYPOINTS= holds more than pairs of numbers; export",
        whole.replace(rows[9], ""): "says 25 points from 400 to 640 and holds 19; write it again",
        whole + whole: "holds several curves; save each as a file of its own",
        whole.replace("XYDATA", "NTUPLES"): "has no ##XYDATA= or ##XYPOINTS= (but 'TITLE'",
        "nothing\n": "is no file of JCAMP-DX",
        whole.replace("FIRSTX=400", "FIRSTX=-inf").replace("FACTOR=0.001", "FACTOR=1e308"): "from -inf to 640",
    }
    for text, message in cases.items():
        refusal = why(write(tmp_path / "f.jdx", text))
        assert message in refusal
        assert "\n" not in refusal


def test_repeats_in_few_bytes_are_counted_before_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of a thousand files of 1 kB takes no gigabytes, and one of 1 MB as little."""
    head = "##TITLE=x\n##FIRSTX=1\n##LASTX=2\n##NPOINTS=9000000\n##XYDATA=(X++(Y..Y))\n"
    text = f"{head}400A{'Z9999999' * 3}\n##END=\n"
    assert "holds 65,536 points or more; export it in parts, or as plain numbers" in why(
        write(tmp_path / "f.jdx", text)
    )
    monkeypatch.setattr("headstart.data.jcamp.SMALL_CURVE", 30)
    monkeypatch.setattr("headstart.data.jcamp.POINTS_PER_BYTE", 0)
    assert why(write(tmp_path / "f.jdx", text)).startswith("f.jdx: holds 30 points or more")


def test_a_number_of_points_that_no_file_has_is_written_short(tmp_path: Path) -> None:
    text = spectrum(0).replace("NPOINTS=25", "NPOINTS=1e300")
    assert why(write(tmp_path / "f.jdx", text)) == (
        "f.jdx: says 1e+300 points from 400 to 640 and holds 25; write it again"
    )


def test_a_record_of_very_many_lines_takes_a_time_that_grows_with_them(tmp_path: Path) -> None:
    """Joined line by line, 200,000 of them took over a minute."""
    begun = time.process_time()
    assert "has no ##XYDATA=" in why(write(tmp_path / "f.jdx", "##TITLE=x\n" + "a\n" * 200_000))
    assert time.process_time() - begun < 8
