"""Columns whose names stand in several lines, as pandas writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, write

from headstart.data import read_sequences

X = np.random.default_rng(6).normal(size=(12, 8, 4)).round(3)
Y = ["ab"[i % 2] for i in range(12)]
SENSORS, AXES = ["acc", "acc", "gyro", "gyro"], ["x", "y", "x", "y"]


def cells(i: int, t: int) -> list[str]:
    return list(map(str, X[i, t].tolist()))


ROWS = [(i, t) for i in range(12) for t in range(8)]
LONG = {
    "index": [
        ["sensor", "", "", *SENSORS],
        ["axis", "", "", *AXES],
        ["id", "time", "label", "", "", "", ""],
        *([f"r{i}", f"{t / 10}", Y[i], *cells(i, t)] for i, t in ROWS),
    ],
    "index of levels without names": [
        ["", "", "", *SENSORS],
        ["", "", "", *AXES],
        ["id", "time", "label", "", "", "", ""],
        *([f"r{i}", f"{t / 10}", Y[i], *cells(i, t)] for i, t in ROWS),
    ],
    "no index": [
        ["id", "time", "label", *SENSORS],
        ["", "", "", *AXES],
        *([f"r{i}", f"{t / 10}", Y[i], *cells(i, t)] for i, t in ROWS),
    ],
    "columns behind": [
        [*SENSORS, "id", "time", "label"],
        [*AXES, "", "", ""],
        *([*cells(i, t), f"r{i}", f"{t / 10}", Y[i]] for i, t in ROWS),
    ],
}


@pytest.mark.parametrize("form", LONG)
def test_names_in_two_lines_are_one_and_those_of_the_index_stay_their_own(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "f.csv", "\n".join(map(",".join, LONG[form])) + "\n")
    sequences = read(path)
    assert sequences.channels == ("acc x", "acc y", "gyro x", "gyro y")
    np.testing.assert_allclose(sequences.values, X.reshape(-1, 4), rtol=1e-6)
    layout = sequences.layout
    assert (layout.id, layout.time, layout.target) == ("id", "time", "label")
    again = read_sequences(path, layout.fixed())
    np.testing.assert_array_equal(again.values, sequences.values)


@pytest.mark.parametrize("index", [True, False])
def test_a_pivot_of_two_values_has_two_channels(tmp_path: Path, index: bool) -> None:
    names, steps = ["v"] * 8 + ["w"] * 8, [str(t) for t in range(8)] * 2
    head = [["", "", *names], ["t", "", *steps], ["id", "label", *[""] * 16]]
    head = head if index else [["id", "label", *names], ["", "", *steps]]
    rows = [[f"r{i}", Y[i], *map(str, X[i, :, :2].T.reshape(-1).tolist())] for i in range(12)]
    sequences = read(write(tmp_path / "f.csv", "\n".join(map(",".join, [*head, *rows])) + "\n"))
    assert sequences.channels == ("v", "w")
    np.testing.assert_allclose(sequences.values, X[:, :, :2].reshape(-1, 2), rtol=1e-6)
    assert sequences.labels == tuple(Y)


def test_units_below_names_are_no_names(tmp_path: Path) -> None:
    rows = [["id", "time", "label", "x", "y"], ["", "s", "", "mV", "mV"]]
    rows += [[f"r{i}", f"{t / 10}", Y[i], *cells(i, t)[:2]] for i, t in ROWS]
    assert read(write(tmp_path / "f.csv", "\n".join(map(",".join, rows)) + "\n")).channels == ("x", "y")
