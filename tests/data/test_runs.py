"""Recordings side by side in one table, each behind a clock of its own."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, write

from headstart.data import LayoutSpec

RNG = np.random.default_rng(0)
RUNS = [RNG.normal(0, 1, (40 - 3 * (i % 4), 2)).round(3) for i in range(8)]
STATES = ["ok" if i % 2 else "fault" for i in range(8)]


def lines(heads: list[list[str]], runs: list[np.ndarray] = RUNS) -> list[str]:
    """A header of (time, two channels) for each run, and their rows; shorter runs have empty cells."""
    blocks = [[f"{t / 20:.2f},{x},{y}" for t, (x, y) in enumerate(run.tolist())] for run in runs]
    rows = [",".join(row) for row in zip_longest(*blocks, fillvalue=",,")]
    return [",".join(name for names in heads for name in names), *rows]


FORMS = {
    "Run 1": [[f"Run {i}: Time (s)", f"Run {i}: Force (N)", f"Run {i}: Angle"] for i in range(1, 9)],
    "1": [[f"Time_{i}", f"Force (N)_{i}", f"Angle_{i}"] for i in range(1, 9)],
    "Pump A 1": [[f"Pump A {i} Elapsed", f"Pump A {i} Force (N)", f"Pump A {i} Angle"] for i in range(1, 9)],
}


@pytest.mark.parametrize("first", FORMS)
def test_each_clock_begins_a_recording_of_the_channels_behind_it(first: str, tmp_path: Path) -> None:
    result = read(write(tmp_path / "f.csv", "\n".join(lines(FORMS[first]))))
    assert result.ids is not None
    assert (len(result), result.ids[0], len(result.channels)) == (8, first, 2)
    assert "Angle" in result.channels
    assert result.lengths.tolist() == [len(run) for run in RUNS]
    np.testing.assert_allclose(result.values, np.concatenate(RUNS), rtol=1e-6)
    fixed = LayoutSpec(**dict(result.layout.fixed()))
    np.testing.assert_allclose(read(tmp_path / "f.csv", **dict(fixed)).values, np.concatenate(RUNS), rtol=1e-6)
    alone = write(tmp_path / "g.csv", "\n".join(lines(FORMS[first][2:3], RUNS[2:3])))
    again = read(alone, **dict(fixed))
    np.testing.assert_allclose(again.values, RUNS[2], rtol=1e-6)


def test_names_that_come_again_are_those_of_runs_by_the_line_above(tmp_path: Path) -> None:
    heads = [["Time (s)", "Force", "Angle"]] * 8
    above = ",,,".join(f"{state}_{i}" for i, state in enumerate(STATES)) + ",,"
    result = read(write(tmp_path / "f.csv", "\n".join([above, *lines(heads)])))
    assert result.ids is not None
    assert (result.ids[1], result.layout.target, list(result.labels)) == ("ok_1", "label", STATES)
    numbered = read(write(tmp_path / "g.csv", "\n".join(lines(heads))))
    assert numbered.ids == tuple(map(str, range(1, 9)))
    assert any("no label is known" in note for note in numbered.notes)


def test_runs_are_labelled_by_a_table_beside_the_file_or_by_a_pattern(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(lines(FORMS["Run 1"])))
    write(tmp_path / "labels.csv", "run,state\n" + "\n".join(f"Run {i + 1},{s}" for i, s in enumerate(STATES)))
    assert list(read(path, target="state").labels) == STATES
    heads = [[f"{s} {i} Time", f"{s} {i} Force", f"{s} {i} Angle"] for i, s in enumerate(STATES)]
    named = read(write(tmp_path / "g.csv", "\n".join(lines(heads))), label_from="{label} {take}")
    assert list(named.labels) == STATES


def test_runs_of_several_rates_come_onto_one_clock_and_are_cut_into_windows(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(lines(FORMS["Run 1"])))
    result = read(path, rate=10)
    assert result.lengths.tolist() == [(len(run) - 1) // 2 + 1 for run in RUNS]
    windows = read(path, window="0.5s")
    assert set(windows.lengths) == {10}
    assert windows.windows is not None
    assert windows.windows.names[0] == "Run 1"


def test_columns_whose_first_ones_do_not_rise_are_no_runs(tmp_path: Path) -> None:
    rows = [",".join(map(str, RNG.normal(0, 1, 8).round(3))) for _ in range(30)]
    head = ",".join(f"t{i},x{i}" for i in range(4))
    assert len(read(write(tmp_path / "f.csv", "\n".join([head, *rows])))) == 30
