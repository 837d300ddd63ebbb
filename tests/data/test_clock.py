"""Recordings of several rates brought onto one clock, and the unit in which times count."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.made_tables import read, why, write

from headstart.data.layout import LayoutSpec
from headstart.data.profile import Profile
from headstart.data.sources import read_sequences


def at(rate: float, seconds: float = 2.0, name: str = "r0") -> pd.DataFrame:
    times = np.arange(0, seconds, 1 / rate)
    return pd.DataFrame({"recording": name, "time_s": times, "x": 10 * times, "label": "a"})


def on(data: Any, **fields: Any) -> Any:
    return read_sequences(data, LayoutSpec(**fields))


def test_a_slow_and_a_fast_sensor_are_brought_onto_one_clock() -> None:
    fast = at(100)
    fast["y"] = [10 * t if i % 10 == 0 else np.nan for i, t in enumerate(fast["time_s"])]
    s = on(fast, rate=50, ends="missing")
    assert s.lengths.tolist() == [100]
    grid = np.arange(100) / 50
    assert np.allclose(s.values[1:96, 1], 10 * grid[1:96], atol=1e-4)
    assert np.abs(s.values[:99, 0] - 10 * grid[:99]).max() < 0.06
    assert s.steps.tolist() == [0.02]


def test_gaps_stay_missing_and_the_grid_gives_back_what_stands_on_it() -> None:
    whole = at(50)
    s = on(pd.concat([whole[:30], whole[60:]]), rate=50, ends="missing")
    assert s.lengths.tolist() == [100]
    assert np.flatnonzero(~s.observed[:, 0]).tolist() == list(range(30, 60))
    assert np.allclose(s.values[s.observed], whole["x"][s.observed[:, 0]], atol=1e-5)


def test_labels_of_positions_follow_the_clock() -> None:
    frame = at(50)
    frame["label"] = np.where(frame["time_s"] < 1, "a", "b")
    s = on(frame, rate=10, window="1s")
    assert (s.labels, s.lengths.tolist()) == (("a", "b"), [10, 10])


def test_two_rates_are_refused_with_ways_out_that_end_well(tmp_path: Path) -> None:
    frame = pd.concat([at(50, name="r0"), at(50, name="r1"), at(100, name="r2")])
    frame.to_csv(tmp_path / "two.csv", index=False)
    text = why(tmp_path / "two.csv", shape="auto")
    assert "steps of 'time_s' are 0.01 in 1 recording (such as 'r2') and 0.02 in 2 recordings (such as 'r0')" in text
    assert "--rate 100 brings all onto one clock" in text
    assert on(tmp_path / "two.csv", rate=100).lengths.tolist() == [199, 199, 200]
    assert "--layout long --id recording --time-column '' takes rows as they come" in text
    assert on(tmp_path / "two.csv", shape="long", id="recording", time="").lengths.tolist() == [100, 100, 200]
    for name, part in frame.groupby("recording"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        part.drop(columns="recording").to_csv(tmp_path / "folder" / f"{name}.csv", index=False)
    assert "--rate 100 brings all" in why(tmp_path / "folder", shape="auto")
    assert on(tmp_path / "folder", rate=50).lengths.tolist() == [100, 100, 100]


@pytest.mark.parametrize(("name", "scale"), [("time_ms", 1_000), ("elapsed [us]", 10**6), ("t (s)", 1)])
def test_the_name_of_the_times_says_their_unit(name: str, scale: int) -> None:
    frame = at(50).rename(columns={"time_s": name})
    frame[name] = (frame[name] * scale).round(6)
    assert on(frame, rate=25, time=name).lengths.tolist() == [50]


def test_whole_numbers_are_no_seconds_without_a_word(tmp_path: Path) -> None:
    frame = at(50).rename(columns={"time_s": "time"})
    frame["time"] = (frame["time"] * 1000).round().astype(int)
    frame.to_csv(tmp_path / "all.csv", index=False)
    for settings in ({"rate": 25}, {"window": "1s"}):
        text = why(tmp_path / "all.csv", shape="auto", id="recording", **settings)
        assert "'time' may be in milliseconds or in seconds (its steps are 20)" in text
        assert "--time-unit ms" in text
        assert on(tmp_path / "all.csv", id="recording", time_unit="ms", **settings)


def test_another_rate_is_noticed_and_brought_to_the_one_of_the_fit() -> None:
    fit = on(pd.concat([at(50, name=f"r{i}") for i in range(4)]))
    fixed = fit.layout.fixed()
    drift = Profile.of(fit).drift()
    new = at(100, name="new")
    drift.add(read_sequences(new, fixed))
    assert "the step of time" in drift.sentence()
    assert "--rate brings recordings to the rate of the fit" in drift.sentence()
    again = Profile.of(fit).drift()
    again.add(read_sequences(new, fixed.model_copy(update={"rate": 50})))
    assert "the step of time" not in again.sentence()
    brought = on(pd.concat([at(50), at(100, name="r1")]), rate=50).layout.fixed()
    assert read_sequences(new, brought).lengths.tolist() == [100]


def test_a_rate_without_a_clock_is_refused(tmp_path: Path) -> None:
    at(50).assign(x=np.sin(np.arange(100.0))).drop(columns="time_s").to_csv(tmp_path / "all.csv", index=False)
    text = why(tmp_path / "all.csv", shape="long", id="recording", rate=25)
    assert "rate: nothing says the times of positions" in text
    assert "--time-column" in text


@pytest.mark.parametrize(("unit", "seconds"), [("(us)", 1e-6), ("(\u00b5s)", 1e-6), ("[ms]", 1e-3), ("(s)", 1.0)])
def test_the_unit_of_the_times_in_a_row_of_units_counts_where_windows_have_a_length_in_time(
    unit: str, seconds: float, tmp_path: Path
) -> None:
    rows = [f"{0.5 * i:.1f},{np.sin(i):.4f}" for i in range(400)]
    path = write(tmp_path / "f.csv", "\n".join(["Time,Channel A", f"{unit},(V)", *rows]))
    result = read(path, window=f"{50 * seconds * 1000:g}ms" if seconds > 1e-6 else 100)
    assert result.lengths.tolist() == [100] * 4
    assert result.layout.seconds == seconds


@pytest.mark.parametrize("form", ["a table", "a folder"])
def test_times_of_few_digits_are_told_with_all_options_that_lengths_in_time_need(form: str, tmp_path: Path) -> None:
    rows = [f"{k / 360:.2f},{k % 11}.5,{'ab'[k // 60 % 2]}" for k in range(360)]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "1.csv", "\n".join(["time,x,label", *rows]))
    path = tmp_path if form == "a folder" else tmp_path / "a" / "1.csv"
    message = why(path, window="0.5s")
    assert "--time-column '' --rate 3" in message
    rate = float(message.partition("--rate ")[2].split()[0])
    assert 355 < rate < 365
    assert read(path, window="0.5s", time="", rate=rate).lengths[0] == round(rate / 2)


def test_a_step_too_short_for_a_rate_is_told_without_one(tmp_path: Path) -> None:
    rows = ["a,0,up,1.5", "a,1e-320,up,2.5", *(f"b,{i},down,{i}" for i in range(3))]
    text = "\n".join(["series,time_s,label,value", *rows, ""])
    assert "recordings have several rates: steps of 'time_s'" in why(
        write(tmp_path / "f.csv", text), shape="long", id="series", time="time_s", target="label"
    )
