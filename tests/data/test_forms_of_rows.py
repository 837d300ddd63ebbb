"""Rows as programs write them: names of rows, rows of marks without numbers, months by name, seconds put in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import numbers, read, why, write

from headstart.data.times import date_seconds, iso_seconds
from headstart.sequence import one_hot


@pytest.mark.parametrize("mark", [" ", "\t"])
def test_a_header_without_a_name_for_names_of_rows_is_read(tmp_path: Path, mark: str) -> None:
    lines = [mark.join(["V1", "V2", "V3", "V4", "V5", "class"])]
    lines += [mark.join([str(i + 1), *map(str, row), "ab"[i % 2]]) for i, row in enumerate(numbers(12, 5).tolist())]
    s = read(write(tmp_path / "f.txt", "\n".join(lines)))
    assert np.allclose(np.asarray(s.values).reshape(12, 5), numbers(12, 5))
    assert s.labels == tuple("ab" * 6)
    assert s.layout.id == "column 1"
    lines[3] = lines[2]
    assert "has 7 cells, the header has 6" in why(write(tmp_path / "g.txt", "\n".join(lines)))


def test_a_row_of_a_mark_before_the_first_numbers_is_a_row_without_numbers(tmp_path: Path) -> None:
    cells = [f"2022-03-03 09:00:{k:02},{x},{y}," for k, (x, y) in enumerate(numbers(20, 2).tolist())]
    rows = ["TimeStamp,x,y,Elements", "2022-03-03 08:59:59,,,/blink", *cells]
    for kind in "ab":
        (tmp_path / kind).mkdir()
        for i in range(4):
            write(tmp_path / kind / f"{i}.csv", "\n".join(rows))
    s = read(tmp_path)
    assert set(s.lengths.tolist()) == {21}
    assert s.layout.target == "folder"


def test_a_text_that_is_the_same_in_all_rows_is_no_sequence(tmp_path: Path) -> None:
    rows = [f"a watch of a maker,2024-03-01 10:{k:02}:00,{60 + k % 7}" for k in range(40)]
    assert "never falls from row to row" in why(write(tmp_path / "f.csv", "\n".join(["device,at,value", *rows])))


def test_months_by_name_before_the_day_are_dates() -> None:
    words = ["Jan 02, 2023", "January 3, 2023", "Feb. 1, 2023"]
    assert date_seconds(words).tolist() == date_seconds(["02-Jan-2023", "3-Jan-2023", "1-Feb-2023"]).tolist()


def test_a_second_that_is_put_in_stands_before_the_next_minute() -> None:
    seconds = iso_seconds(["2016-12-31 23:59:59", "2016-12-31 23:59:60", "2017-01-01 00:00:00"])
    assert (np.diff(seconds) > 0).all()
    assert np.isnan(iso_seconds(["2016-12-31 23:58:59", "2016-12-31 23:58:60"])[1])


def test_one_hot_labels_of_arrays_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=numbers(12, 6), y=np.eye(3)[np.arange(12) % 3])
    assert "array 'y' is one-hot, a column for each class; save the classes" in why(tmp_path / "f.npz")
    assert not one_hot(np.eye(6, 3))
    assert one_hot(np.eye(3))


ROWS_OF = {
    "names of rows, as R writes": ("label x1 x2 x3 x4", lambda i, x: f"r{i} {'ab'[i % 2]} {' '.join(map(str, x))}"),
    "quoted names of rows": (
        '"label","x1","x2","x3","x4"',
        lambda i, x: f'"{i}","{"ab"[i % 2]}",{",".join(map(str, x))}',
    ),
    "numbers between blanks": (None, lambda i, x: f"  {1 + i % 2}   {x[0]:.4e}   {x[1]:.4e}   {x[2]:.4e}"),
}


@pytest.mark.parametrize("form", ROWS_OF)
def test_a_file_of_one_row_is_served_as_one_of_many_is_read(form: str, tmp_path: Path) -> None:
    head, row = ROWS_OF[form]
    lines = [row(i, x) for i, x in enumerate(numbers(20, 4))]
    above = [head] if head else []
    first = read(write(tmp_path / "f.txt", "\n".join([*above, *lines]) + "\n"))
    again = read(write(tmp_path / "g.txt", "\n".join([*above, lines[7]]) + "\n"), **dict(first.layout.fixed()))
    assert again.values.tolist() == first.take(np.array([7])).values.tolist()
    assert (again.labels or ())[0] == (first.labels or ())[7]


def test_windows_of_a_recording_without_a_header_are_served_as_they_are_read(tmp_path: Path) -> None:
    lines = [f"{i / 50} {a} {b}" for i, (a, b) in enumerate(numbers(60, 2))]
    path = write(tmp_path / "f.dat", "\n".join(lines) + "\n")
    first = read(path, window=20)
    assert np.array_equal(read(path, **dict(first.layout.fixed())).values, first.values)


def test_records_of_json_in_a_folder_have_their_labels_in_a_table_beside_them(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"r{i}.json", json.dumps({"x": numbers(1, 20, i)[0].tolist()}))
    write(tmp_path / "labels.csv", "file,label\n" + "".join(f"r{i}.json,{'ab'[i % 2]}\n" for i in range(4)))
    assert read(tmp_path).labels == ("a", "b", "a", "b")
