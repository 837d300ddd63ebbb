"""Tables of a row for each value: a column of names of channels is neither a label nor an id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import numbers, read, why, write

TAGS = ("Tank.Temp", "Tank.Level", "Pump.Flow")
VALUES = numbers(40, 3)


def table(head: str, row: Callable[[int, int], str], above: str = "", below: str = "") -> str:
    rows = "\n".join(row(i, k) for i in range(40) for k in range(3))
    return f"{above}{head}\n{rows}\n{below}"


def clock(i: int) -> str:
    return f"2024-03-12 10:00:{i:02}"


INFLUX = (
    "#group,false,false,true,false,true\n#datatype,string,long,dateTime:RFC3339,double,string\n#default,_result,,,,\n"
)
FORMS = {
    "a historian's": table("timestamp,tag,value", lambda i, k: f"{clock(i)},{TAGS[k]},{VALUES[i, k]}"),
    "one with a quality": table(
        "Timestamp,TagName,Value,Quality", lambda i, k: f"{clock(i)},{TAGS[k]},{VALUES[i, k]},{'Good' if k else 'Bad'}"
    ),
    "one with its values twice": table(
        "DateTime,TagName,Value,vValue,Quality",
        lambda i, k: f"{clock(i)},{TAGS[k]},{VALUES[i, k]},{VALUES[i, k]},192",
    ),
    "one of a control system": table(
        '"VarName";"TimeString";"VarValue";"Validity";"Time_ms"',
        lambda i, k: f'"{TAGS[k]}";"12.03.2024 10:00:{i:02}";{str(VALUES[i, k]).replace(".", ",")};1;{45363416 + i},5',
        below='"$RT_COUNT$";"40"\n',
    ),
    "one of a database": table(
        ",result,table,_time,_value,_field",
        lambda i, k: f",,{k},2024-03-12T10:00:{i:02}Z,{VALUES[i, k]},{TAGS[k]}",
        above=INFLUX,
    ),
    "one of a monitor": table(
        "metric,instance,timestamp,value", lambda i, k: f"{TAGS[k]},h1,{1710237600 + 15 * i},{VALUES[i, k]}"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_column_of_names_of_channels_makes_a_channel_of_each(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", FORMS[form])
    result = read(path, window=10)
    assert (len(result), result.channels, result.layout.target) == (4, TAGS, None)
    assert np.allclose(result.values, VALUES, atol=1e-6)
    again = read(path, **dict(result.layout.fixed()))
    assert np.array_equal(again.values, result.values)


def test_what_is_said_of_it_gives_the_option_that_reads_each_channel_as_a_sequence(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", FORMS["a historian's"])
    assert "(--id tag: each is a sequence)" in " ".join(read(path, window=10).notes)
    result = read(path, id="tag")
    assert (len(result), result.channels) == (3, ("value",))


def test_ids_and_labels_of_such_a_table_are_those_of_sequences(tmp_path: Path) -> None:
    rows = [
        f"{run},{'ab'[run % 2]},{i},{'xyz'[k]},{VALUES[i, k]}" for run in range(8) for i in range(20) for k in range(3)
    ]
    result = read(write(tmp_path / "f.csv", "\n".join(["run,label,time,channel,value", *rows])))
    assert (len(result), result.channels, result.layout.target) == (8, ("x", "y", "z"), "label")
    assert not any("--id channel" in note for note in result.notes)


def test_a_value_that_a_channel_lacks_at_a_time_is_missing(tmp_path: Path) -> None:
    lines = FORMS["a historian's"].splitlines()
    del lines[5]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)), window=10)
    assert result.observed is not None
    assert np.argwhere(~result.observed).tolist() == [[1, 1]]


def test_sensors_with_a_label_each_stay_sequences(tmp_path: Path) -> None:
    rows = [f"s{k},{'ab'[k % 2]},{i},{x}" for k in range(8) for i, x in enumerate(VALUES[:20, 0].tolist())]
    result = read(write(tmp_path / "f.csv", "\n".join(["sensor,label,time,value", *rows])), id="sensor")
    assert (len(result), result.layout.id) == (8, "sensor")
    assert read(tmp_path / "f.csv", shape="long").layout.id == "sensor"


def test_folders_named_as_days_are_groups_and_no_classes(tmp_path: Path) -> None:
    for day in ("2024-03-12", "2024-03-13", "2024-03-14"):
        (tmp_path / day).mkdir()
        for k in range(3):
            write(tmp_path / day / f"run{k}.csv", "time,x\n" + "\n".join(f"{i},{VALUES[i, 0]}" for i in range(20)))
    result = read(tmp_path)
    assert (result.layout.target, result.layout.group) == (None, "folder")
    assert any("--target folder" in note for note in result.notes)
    assert read(tmp_path, target="folder").classes == ("2024-03-12", "2024-03-13", "2024-03-14")


def test_days_inside_of_folders_of_classes_are_groups(tmp_path: Path) -> None:
    for day in range(4):
        folder = tmp_path / "ab"[day % 2] / f"2024031{day}"
        folder.mkdir(parents=True)
        for k in range(2):
            write(folder / f"run{k}.csv", "time,x\n" + "\n".join(f"{i},{VALUES[i, 0]}" for i in range(20)))
    result = read(tmp_path)
    assert (result.layout.target, result.layout.group, result.classes) == ("folder", "folder 2", ("a", "b"))


def test_a_rate_above_numbers_is_their_clock(tmp_path: Path) -> None:
    rows = "\n".join(f"{round(60 * a)}, {round(60 * b)}" for a, b in VALUES[:, :2].tolist())
    path = write(tmp_path / "ACC.csv", f"1710237600.00, 1710237600.00\n4.000000, 4.000000\n{rows}\n")
    result = read(path, window="2.5s")
    assert (len(result), len(result.channels)) == (4, 2)
    lone = "\n".join(str(x) for x in VALUES[:, 0].tolist())
    assert len(read(write(tmp_path / "EDA.csv", f"1710237600.00\n4.000000\n{lone}\n"), window="2.5s")) == 4


@pytest.mark.parametrize("order", ["by time", "by channel"])
def test_channels_of_two_rates_are_not_joined_and_a_rate_brings_them_onto_one_clock(order: str, tmp_path: Path) -> None:
    rows = [(run, t, "acc", 10 * run + t) for run in range(4) for t in range(0, 12)]
    rows += [(run, t, "temp", 100 + t) for run in range(4) for t in range(0, 12, 4)]
    rows.sort(key=lambda row: (row[0], row[1]) if order == "by time" else (row[0], row[2], row[1]))
    lines = [f"r{run},{'ab'[run % 2]},{t}.0,{name},{x}" for run, t, name, x in rows]
    path = write(tmp_path / "f.csv", "\n".join(["recording,state,time,sensor,value", *lines]))
    result = read(path)
    assert (len(result), result.channels, result.layout.target) == (4, ("acc", "temp"), "state")
    assert result.observed is not None
    assert result.observed[:12, 1].tolist() == [True, False, False, False] * 3
    assert any("36 values are missing" in note and "--rate" in note for note in result.notes)
    even = read(path, rate=1, time_unit="s")
    assert np.allclose(even.values[:9, 1], 100 + np.arange(9))


def test_rows_that_name_a_field_before_each_value_are_told_with_the_form_that_is_read(tmp_path: Path) -> None:
    rows = [f"Data,1,record,timestamp,{1_078_560_764 + i},s,heart_rate,{120 + i % 7},bpm" for i in range(30)]
    header = "Type,Local Number,Message,Field 1,Value 1,Units 1,Field 2,Value 2,Units 2"
    for label in ("easy", "hard"):
        (tmp_path / label).mkdir()
        write(tmp_path / label / "a.csv", "\n".join([header, *rows]))
        data = "\n".join(["record.timestamp[s],record.heart_rate[bpm]", *(f"{i + 1e9:.0f},{i % 7}" for i in range(30))])
        write(tmp_path / label / "a_data.csv", data)
    assert "with its options --data record it writes a_data.csv, a column for each" in why(tmp_path)
    for file in tmp_path.rglob("a.csv"):
        file.unlink()
    assert read(tmp_path).channels == ("record.heart_rate[bpm]",)
