"""Exports of instruments and loggers as their programs write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

ROWS = np.random.default_rng(0).normal(size=(40, 2)).round(3)


def rows(form: str, step: float = 0.01) -> str:
    return "".join(form.format(t=i * step, i=i, a=a, b=b) + "\n" for i, (a, b) in enumerate(ROWS.tolist()))


LABVIEW = (
    "LabVIEW Measurement\t\nSeparator\tTab\nDate\t2024/03/01\nTime\t10:00:00.123\n***End_of_Header***\t\n\t\n"
    "Channels\t2\t\nX0\t0.0E+0\t0.0E+0\t\n***End_of_Header***\t\t\nX_Value\tVoltage\tCurrent\tComment\n"
)
FORMS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "LabChart": (
        "Interval=\t0.01 s\nExcelDateTime=\t4.5e+04\t3/1/2024\nTimeFormat=\tStartOfBlock\nDateFormat=\t\n"
        "ChannelTitle=\tECG\tResp\nRange=\t2.000 mV\t10.000 V\n" + rows("{t:g}\t{a}\t{b}"),
        ("ECG", "Resp"),
        "names of columns were read from the line ChannelTitle=; comments behind the channels are not read",
    ),
    "BIOPAC": (
        "rec.acq\n10 msec/sample\n2 channels\nECG\nmV\nRSP\nVolts\nsec,CH1,CH2,\n,40,40,\n" + rows("{t:g},{a},{b},"),
        ("CH1", "CH2"),
        "line 9 was passed over, as it counts samples (40; --units-row sets how many)",
    ),
    "LabVIEW": (LABVIEW + rows("{t:.6f}\t{a}\t{b}"), ("Voltage", "Current"), "no row has a cell for 'Comment'"),
    "Campbell": (
        '"TOA5","CR1000","CR1000","12345"\n"TIMESTAMP","RECORD","BattV","AirTC_Avg"\n"TS","RN","Volts","Deg C"\n'
        '"","","Smp","Avg"\n' + rows('"2024-03-01 10:{i:02}:00",{i},{a},{b}'),
        ("BattV", "AirTC_Avg"),
        "lines 3 to 4 were passed over as units or types ('TS', 'RN', 'Volts' and 1 more; --units-row sets how many)",
    ),
    "wrist": (
        "1709287200.000000, 1709287200.000000\n32.000000, 32.000000\n" + rows("{a},{b}"),
        ("1", "2"),
        "lines 1 and 2, a time and a rate of 32.000000 a second, are the clock of the rows (--skip 0 reads them)",
    ),
    "markers": (
        "Trajectories\n100\n,S1:LASI,S1:RASI\nFrame,X,X\n,mm,mm\n" + rows("{i},{a},{b}"),
        ("S1:LASI X", "S1:RASI X"),
        "names and the rate of 100 a second were read from the lines above the numbers",
    ),
    "logger": (
        '"Plot Title: room"\n"#","Date Time, GMT+01:00","Temp","RH"\n'
        + rows("{i},03/01/24 10:{i:02}:00 AM,{a},{b}").replace("\n0,", "\n0,"),
        ("Temp", "RH"),
        "1 line above the table was passed over (--skip sets how many)",
    ),
    "decimal commas": (
        "Zeit/min;Masse;DSC\n" + rows("{t:.2f};{a};{b}").replace(".", ","),
        ("Masse", "DSC"),
        "",
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_a_folder_of_exports_is_read_as_recordings_of_their_channels(name: str, ending: str, tmp_path: Path) -> None:
    text, channels, note = FORMS[name]
    for kind in ("worn", "sound"):
        (tmp_path / "in" / kind).mkdir(parents=True)
        for i in range(2):
            write(tmp_path / "in" / kind / f"{i}{ending}", text)
    result = read(tmp_path / "in")
    assert (len(result), result.channels, result.layout.target) == (4, channels, "folder")
    np.testing.assert_allclose(result.values[:40], ROWS, rtol=1e-5)
    assert note in ("", *result.notes)
    for later in (tmp_path / "in" / "worn" / f"0{ending}", tmp_path / "in" / "worn"):
        alone = read(later, **dict(result.layout.fixed()))
        np.testing.assert_allclose(alone.values[:40], ROWS, rtol=1e-5)


def test_lines_about_a_recording_above_one_column_of_numbers_are_passed_over(tmp_path: Path) -> None:
    head = "Name,X Y\nRecorded Date,2024-03-01 10:00:00 +0100\nSample Rate,512 hertz\n\nLead,Lead I\nUnit,µV\n\n"
    (tmp_path / "in").mkdir()
    for i in range(2):
        write(tmp_path / "in" / f"{i}.csv", head + rows("{a}"))
    result = read(tmp_path / "in")
    assert (len(result), len(result.channels)) == (2, 1)
    np.testing.assert_allclose(result.values[:40, 0], ROWS[:, 0], rtol=1e-5)


def test_points_of_a_body_are_told_apart_by_the_line_above_the_header(tmp_path: Path) -> None:
    head = "scorer,net,net,net,net\nbodyparts,nose,nose,tail,tail\ncoords,x,y,x,y\n"
    (tmp_path / "in").mkdir()
    for i in range(2):
        write(tmp_path / "in" / f"{i}.csv", head + rows("{i},{a},{b},{b},{a}"))
    result = read(tmp_path / "in")
    assert result.channels == ("nose x", "nose y", "tail x", "tail y")
    np.testing.assert_allclose(result.values[:40, :2], ROWS, rtol=1e-5)


def test_a_folder_of_texts_stays_one(tmp_path: Path) -> None:
    for kind in "ab":
        (tmp_path / kind).mkdir()
        write(tmp_path / kind / "1.txt", "\n".join(f"{i}. The pump runs at {i} bar, as it should." for i in range(30)))
    assert read(tmp_path).kind == "text"


WIDE: dict[str, Callable[[int], str]] = {
    "times of day": lambda i: f"{i // 4:02}:{15 * (i % 4):02}",
    "decimal commas": lambda i: f"{400 + i / 2:.1f}".replace(".", ","),
    "dates": lambda i: f"2024-01-{1 + i:02}",
}


@pytest.mark.parametrize("form", WIDE)
def test_names_that_are_times_dates_or_numbers_with_a_comma_are_positions_of_one_channel(
    form: str, tmp_path: Path
) -> None:
    values = np.random.default_rng(1).normal(size=(20, 24)).round(3)
    lines = [f"{'ab'[i % 2]};{';'.join(map(str, row))}" for i, row in enumerate(values.tolist())]
    head = f"class;{';'.join(map(WIDE[form], range(24)))}"
    result = read(write(tmp_path / "f.csv", "\n".join([head, *lines])))
    assert (len(result.channels), set(result.lengths)) == (1, {24})
    np.testing.assert_allclose(result.values[:24, 0], values[0], rtol=1e-5)


def test_what_was_measured_beside_a_spectrum_is_no_part_of_it(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(20, 24)).round(3)
    head = f"{','.join(f'{400 + i / 2:.1f}' for i in range(24))},moisture,protein"
    lines = [f"{','.join(map(str, row))},{10 + row[0]:.2f},{12 + row[1]:.2f}" for i, row in enumerate(values.tolist())]
    path = write(tmp_path / "f.csv", "\n".join([head, *lines]))
    assert set(read(path).lengths) == {24}
    assert read(path, target="moisture").target == "number"


def test_names_of_months_are_read_and_nanoseconds_are_asked_about(tmp_path: Path) -> None:
    lines = [
        f"r{i},{1 + i}-Mar-2024 11:59:{k:02} {'AM' if i % 2 else 'PM'},{ROWS[k, 0]},{'ab'[i % 2]}"
        for i in range(6)
        for k in range(30)
    ]
    result = read(write(tmp_path / "f.csv", "\n".join(["id,time,x,label", *lines])))
    assert result.layout.time == "time"
    np.testing.assert_allclose(result.values[:30, 0], ROWS[:30, 0], rtol=1e-5)
    clock = [f"r{i},{k * 20_000_000},{ROWS[k, 0]},{'ab'[i % 2]}" for i in range(6) for k in range(30)]
    message = why(write(tmp_path / "g.csv", "\n".join(["id,time,x,label", *clock])), window="0.1s")
    assert "may be in nanoseconds or in microseconds" in message


BLOCK = "Interval=\t0.01 s\nExcelDateTime=\t4.5e+04\t3/1/2024\nChannelTitle=\tBP\tResp\nRange=\t2.000 mV\t10.000 V\n"


@pytest.mark.parametrize("date", ["", "3/1/2024\t"])
def test_comments_of_labchart_are_no_cells_of_its_rows(date: str, tmp_path: Path) -> None:
    lines = rows("{t:g}\t" + date + "{a}\t{b}").splitlines()
    lines[10] += "\t#* tilt "
    result = read(write(tmp_path / "S1.txt", BLOCK + "\n".join(lines) + "\n"), window="10")
    assert result.channels == ("BP", "Resp")
    np.testing.assert_allclose(result.values[:40], ROWS, rtol=1e-5)


def test_a_second_block_of_a_recording_is_never_read_in_place_of_the_first(tmp_path: Path) -> None:
    path = write(tmp_path / "S1.txt", 2 * (BLOCK + rows("{t:g}\t{a}\t{b}")))
    assert "another table begins here ('Interval='); save each as a file of its own" in why(path, window="10")


def test_rows_of_numbers_above_a_line_that_ends_the_header_are_not_lost(tmp_path: Path) -> None:
    block = "Logger\tX\n{}\nTime\tA\tB\n" + rows("{t:g}\t{a}\t{b}").replace("{", "{{")
    path = write(tmp_path / "a.txt", 2 * block.format("***End_of_Header***"))
    message = why(path, window="10")
    assert "a.txt:4: rows of numbers stand above another table, which begins in line 46;" in message
    assert len(read(path, window="10", skip=45)) == 4
    assert "holds several curves ('[Data]', '[Data]')" in why(write(path, 2 * block.format("[Data]")), window="10")
