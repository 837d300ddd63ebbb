"""Columns that stand beside a sequence and are no part of it: measurements, splits, subjects, clocks, indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import LayoutSpec, data_card
from headstart.data.sources import explained_sequences

RNG = np.random.default_rng(0)
ROWS = 40
KINDS = ["wheat", "maize"]


def wide(path: Path, names: list[str], beside: dict[str, list[object]], mark: str = ",") -> Path:
    """A table with a row for each sequence: the columns beside it, then these."""
    lines = [mark.join([*beside, *names])]
    for row in range(ROWS):
        values = RNG.normal(size=len(names)).round(3).tolist()
        lines.append(mark.join(map(str, [*(cells[row] for cells in beside.values()), *values])))
    return write(path, "\n".join(lines))


def labels() -> list[object]:
    return [KINDS[i % 2] for i in range(ROWS)]


@pytest.mark.parametrize(
    "names",
    [
        [f"2021-{month:02}-01" for month in range(1, 9)],
        [f"{day}.03.2024" for day in range(1, 7)],
        [f"{hour:02}:30" for hour in range(5)],
        [f"{9000 - 8 * k}.5" for k in range(20)],
    ],
)
def test_a_measurement_beside_columns_named_after_dates_or_numbers_is_no_position(
    tmp_path: Path, names: list[str]
) -> None:
    area = RNG.uniform(1, 9, ROWS).round(2).tolist()
    s = read(wide(tmp_path / "f.csv", names, {"crop": labels(), "area_ha": area}))
    assert s.layout.channels[0].columns == tuple(names)
    assert s.layout.target == "crop"
    assert "area_ha" in s.layout.unused


def test_columns_named_after_positions_are_one_line_of_the_table(tmp_path: Path) -> None:
    names = [f"{9000 - 8 * k}.5" for k in range(20)]
    _, decisions = explained_sequences(wide(tmp_path / "f.csv", names, {"crop": labels()}), LayoutSpec())
    assert [decision.count for decision in decisions][2:] == [20]


def test_names_that_fall_are_a_header_and_no_first_row(tmp_path: Path) -> None:
    names = [f"{9000 - 7.5 * k - 0.1 * k * k:.1f}" for k in range(20)]
    s = read(wide(tmp_path / "f.csv", names, {"crop": labels()}))
    assert len(s) == ROWS
    assert set(s.labels) == set(KINDS)
    assert s.layout.channels[0].columns == tuple(names)


@pytest.mark.parametrize(
    "words", [["train", "test"], ["Training", "PublicTest", "PrivateTest"], ["train", "dev", "test"]]
)
def test_a_column_of_splits_is_no_target_and_is_told(tmp_path: Path, words: list[str]) -> None:
    beside: dict[str, list[object]] = {"usage": [words[i % len(words)] for i in range(ROWS)]}
    s = read(wide(tmp_path / "f.csv", [f"t{k}" for k in range(6)], beside))
    assert s.layout.target is None
    findings = " ".join(data_card(s).findings)
    assert f"column 'usage' names splits ({words[0]} " in findings
    assert "--val" in findings
    assert "--test" in findings


def test_where_a_column_names_subjects_the_other_is_the_target_whatever_its_name(tmp_path: Path) -> None:
    beside: dict[str, list[object]] = {
        "rat": [f"rat{i // 4}" for i in range(ROWS)],
        "group": [["control", "drug"][i // 4 % 2] for i in range(ROWS)],
    }
    s = read(wide(tmp_path / "f.csv", [f"t{k}" for k in range(6)], beside))
    assert s.layout.target == "group"
    assert s.groups is None
    assert "--group rat" in " ".join(data_card(s).findings)


def test_a_lone_column_of_numbered_subjects_is_no_target(tmp_path: Path) -> None:
    beside: dict[str, list[object]] = {"who": [f"user{i % 7}" for i in range(ROWS)]}
    s = read(wide(tmp_path / "f.csv", [f"t{k}" for k in range(6)], beside))
    assert s.layout.target is None


@pytest.mark.parametrize("subject", ["VP", "code"])
def test_trials_numbered_anew_for_each_subject_are_ids_with_it_and_the_subject_is_the_group(
    tmp_path: Path, subject: str
) -> None:
    beside: dict[str, list[object]] = {
        subject: [i // 5 + 1 for i in range(ROWS)],
        "condition": labels(),
        "trial": [i % 5 + 1 for i in range(ROWS)],
    }
    s = read(wide(tmp_path / "f.csv", [f"t{k}" for k in range(6)], beside))
    assert s.layout.id == f"{subject},trial"
    assert s.layout.group == subject
    assert s.ids is not None
    assert len(set(s.ids)) == ROWS
    assert s.groups is not None
    assert len(set(s.groups)) == ROWS // 5
    assert not any("ids stand" in finding for finding in data_card(s).findings)


def test_a_number_that_is_as_coarse_as_the_label_is_no_subject(tmp_path: Path) -> None:
    beside: dict[str, list[object]] = {
        "code": [i // 20 + 1 for i in range(ROWS)],
        "condition": [KINDS[i // 20] for i in range(ROWS)],
        "trial": [i % 20 + 1 for i in range(ROWS)],
    }
    s = read(wide(tmp_path / "f.csv", [f"t{k}" for k in range(6)], beside))
    assert s.layout.group is None


def steps(path: Path, head: str, row: object, order: np.ndarray | None = None) -> Path:
    """Twelve recordings of ten rows each; `row` makes a line of a recording and a position."""
    lines = [row(i, k) for i in range(12) for k in range(10)]  # type: ignore[operator]
    return write(path, "\n".join([head, *(lines[j] for j in (range(120) if order is None else order.tolist()))]))


def test_shuffled_rows_of_recordings_with_the_index_of_a_frame_are_asked_about(tmp_path: Path) -> None:
    path = steps(
        tmp_path / "f.csv",
        ",rec,t,x,y,label",
        lambda i, k: f"{10 * i + k},r{i},{k},{RNG.normal():.3f},{RNG.normal():.3f},{KINDS[i % 2]}",
        RNG.permutation(120),
    )
    assert "--id rec --time-column t" in why(path)
    assert len(read(path, id="rec", time="t")) == 12


def test_days_and_times_of_day_as_numbers_are_no_channels_of_a_long_table(tmp_path: Path) -> None:
    path = steps(
        tmp_path / "f.csv",
        "station,UTC_DATE,UTC_TIME,heat,rain,regime",
        lambda i, k: f"s{i},{20240101 + k // 5},{100 * (k % 5)},{RNG.normal():.3f},{RNG.normal():.3f},{KINDS[i % 2]}",
    )
    s = read(path, id="station")
    assert [channel.name for channel in s.layout.channels] == ["heat", "rain"]
    assert {"UTC_DATE", "UTC_TIME"} <= set(s.layout.unused)
