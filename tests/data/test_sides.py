"""Tables that lie on their side: a row for each position, a column for each recording, and a row of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import numbers, read, why, write

from headstart.data import LayoutSpec


def lines(label: str = "class", axis: str = "wavelength") -> list[str]:
    """A header, a row of labels, and ten rows of a position in each of eight recordings."""
    rows = [f"{400 + i}," + ",".join(map(str, row)) for i, row in enumerate(numbers(10, 8).tolist())]
    names = ",".join(f"S{i}" for i in range(8))
    return [f"{axis},{names}", f"{label},{','.join('ok' if i % 2 else 'fault' for i in range(8))}", *rows]


def test_a_row_of_classes_makes_recordings_of_columns_and_the_axis_is_none(tmp_path: Path) -> None:
    for spec in ({}, {"shape": "columns"}):
        result = read(write(tmp_path / "f.csv", "\n".join(lines())), **spec)
        assert (len(result), result.layout.target, result.layout.id) == (8, "class", "column")
        assert result.labels is not None
        assert [result.labels[i] for i in (0, 1)] == ["fault", "ok"]
        assert np.allclose(result.values[: result.offsets[1], 0], numbers(10, 8)[:, 0])
    again = read(tmp_path / "f.csv", **dict(LayoutSpec(**dict(result.layout.fixed()))))
    assert (len(again), again.layout.target) == (8, "class")


def test_a_row_of_classes_may_stand_at_the_end(tmp_path: Path) -> None:
    header, labels, *rows = lines("state")
    result = read(write(tmp_path / "f.csv", "\n".join([header, *rows, labels])))
    assert (len(result), result.layout.target, len(result.values)) == (8, "state", 80)


def test_words_below_the_header_that_are_no_units_are_asked_about_and_both_ways_work(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(lines("state")))
    message = why(path)
    assert "f.csv:2: holds words ('fault', 'ok') that may be labels of the columns, or units" in message
    assert "--layout columns" in message
    assert "--layout wide --units-row 1" in message
    assert read(path, shape="columns").layout.target == "state"
    assert len(read(path, shape="wide", units_row=1)) == 10


@pytest.mark.parametrize("words", [("mV", "V"), ("float", "int")])
def test_units_and_types_for_every_column_are_no_classes(words: tuple[str, str], tmp_path: Path) -> None:
    header, _, *rows = lines()
    units = ",".join(["nm" if words[0] == "mV" else "float", *words * 4])
    result = read(write(tmp_path / "f.csv", "\n".join([header, units, *rows])), shape="wide")
    assert len(result) == 10
    assert "line 2 was passed over as units or types" in result.notes[0]


def test_an_axis_without_a_row_of_classes_is_asked_about_and_both_ways_work(tmp_path: Path) -> None:
    header, _, *rows = lines()
    path = write(tmp_path / "f.csv", "\n".join([header, *rows]))
    message = why(path)
    assert "'wavelength' never falls from row to row, so that recordings may stand in columns, or in rows" in message
    assert (len(read(path, shape="columns")), len(read(path, shape="wide"))) == (8, 10)
    labelled = [
        "wavelength,label," + header.partition(",")[2],
        *(f"{400 + i},{'ab'[i % 2]},{row.partition(',')[2]}" for i, row in enumerate(rows)),
    ]
    assert len(read(write(tmp_path / "g.csv", "\n".join(labelled)))) == 10
