"""Two clocks in one long table."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput


def _table(path: Path, header: str, other: list[str]) -> Path:
    """Four sequences of 30 rows, whose third column is this one."""
    rng = np.random.default_rng(0)
    rows = [
        f"{i},{k * 0.02:.2f},{rng.normal():.3f},{other[k]},{rng.normal():.3f},{'ab'[i % 2]}"
        for i in range(4)
        for k in range(30)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_two_clocks_of_one_long_table_are_asked_about_and_either_answer_reads_the_channels_behind_it(
    tmp_path: Path,
) -> None:
    path = _table(
        tmp_path / "f.csv", "id,acc_time,acc_x,gyro_time,gyro_x,label", [f"{k * 0.05:.2f}" for k in range(30)]
    )
    with pytest.raises(BadInput, match=r"two clocks, 'acc_time' in steps of 0\.02 and 'gyro_time' in steps of 0\.05"):
        read_sequences(path)
    try:
        read_sequences(path)
    except BadInput as error:
        ways = [shlex.split(line) for line in str(error).splitlines()[1:]]
    for words, channel in zip(ways, ("acc_x", "gyro_x"), strict=True):
        options = dict(zip(words[3::2], words[4::2], strict=True))
        layout = LayoutSpec(
            shape="long", id=options["--id"], time=options["--time-column"], values=(options["--values"],)
        )
        assert read_sequences(path, layout).channels == (channel,)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("time_ms", [f"{k * 20}" for k in range(30)]),
        ("frame", [f"{k}" for k in range(30)]),
        ("hour", [f"{k // 10}" for k in range(30)]),
        ("delay", [f"{(k * 7) % 5}" for k in range(30)]),
        ("time_2", [f"{k * 0.02 + 5:.2f}" for k in range(30)]),
    ],
)
def test_one_clock_in_two_units_a_count_and_what_stands_still_are_no_second_clock(
    name: str, cells: list[str], tmp_path: Path
) -> None:
    path = _table(tmp_path / "f.csv", f"id,time,x,{name},y,label", cells)
    sequences = read_sequences(path)
    assert sequences.layout.time == "time"
    assert sequences.labels == ("a", "b", "a", "b")


@pytest.mark.parametrize("name", ["operating_hours", "elapsed_time"])
def test_what_was_counted_till_then_beside_the_time_is_no_second_clock(name: str, tmp_path: Path) -> None:
    rows = [f"{i},{k * 0.02:.2f},{100 + k * 0.71:.2f},{k % 7},{'ab'[i % 2]}" for i in range(4) for k in range(30)]
    path = tmp_path / "f.csv"
    path.write_text("\n".join([f"id,time,{name},x,label", *rows]) + "\n")
    sequences = read_sequences(path)
    assert (sequences.layout.time, sequences.channels) == ("time", ("x",))


@pytest.mark.parametrize("clock", ["X[s]", "Time", "X_Value"])
def test_a_clock_beside_each_sensor_under_one_name_is_brought_onto_one(clock: str, tmp_path: Path) -> None:
    for label in ("rest", "walk"):
        (tmp_path / label).mkdir()
        for take in range(2):
            fast = [f"{k * 0.02:.2f},{k % 7}.5" for k in range(50)]
            slow = [f"{k * 0.1:.2f},{k % 5}.5" for k in range(10)] + [","] * 40
            rows = [",".join(cells) for cells in zip(fast, slow, strict=True)]
            header = f"{clock},EMG (V),{clock},ACC (g)"
            (tmp_path / label / f"{take}.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(BadInput, match=r"own \(steps of 0\.02 in 'EMG \(V\)' and 0\.1 in 'ACC \(g\)'\); .*rate"):
        read_sequences(tmp_path)
    result = read_sequences(tmp_path, LayoutSpec(rate=50))
    assert (result.channels, set(result.lengths.tolist())) == (("EMG (V)", "ACC (g)"), {50})
    np.testing.assert_allclose(result.values[:46, 0], [k % 7 + 0.5 for k in range(46)])
    np.testing.assert_allclose(result.values[:46:5, 1], [k % 5 + 0.5 for k in range(10)])
    again = read_sequences(tmp_path / "walk" / "1.csv", result.layout.fixed())
    np.testing.assert_array_equal(again.values, result.values[-50:])
    alone = read_sequences(tmp_path / "walk" / "1.csv", LayoutSpec(rate=50, window=10, target=""))
    np.testing.assert_array_equal(alone.values[:40], result.values[:40])


def test_a_clock_that_comes_twice_with_nothing_behind_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("\n".join(["time,x,time", *(f"{k},{k % 7},{k}" for k in range(30))]))
    with pytest.raises(BadInput, match="'time' is there twice"):
        read_sequences(tmp_path / "f.csv")
