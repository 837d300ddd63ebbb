"""The index of a table of pandas counts rows: it is no value of a sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.data import LayoutSpec, read_sequences
from headstart.data.prepared import cache_folder
from headstart.data.rows import frame
from headstart.errors import BadInput
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import content

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat"]


def shuffled(name: str | None) -> pd.DataFrame:
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 6)), columns=DAYS)
    data.insert(0, "label", ["a", "b"] * 15)
    return data.sample(frac=1, random_state=0).rename_axis(name)


@pytest.mark.parametrize("name", [None, "row"])
def test_the_index_of_a_frame_is_no_column(name: str | None) -> None:
    table = frame(shuffled(name), "X")
    assert table is not None
    assert list(table.columns) == ["label", *DAYS]


def test_a_file_with_nothing_but_an_index_is_refused(tmp_path: Path) -> None:
    shuffled(None)[[]].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(BadInput, match=r"empty\.parquet: has no column; give one with columns"):
        read_sequences(tmp_path / "empty.parquet", LayoutSpec())


def test_what_an_older_reader_made_of_a_file_stands_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled(None).to_csv(tmp_path / "week.csv", index=False)
    spec = OwnSpec(file="week.csv", target="label")
    monkeypatch.setattr(OwnSpec, "reader", OwnSpec.reader - 1)
    monkeypatch.setattr("headstart.tasks.task.fingerprint", lambda _: "of the older reader")
    before = content(spec, tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("HEADSTART_CACHE", str(cache_folder()))
    assert content(spec, tmp_path) not in (None, before)


def test_the_unnamed_index_in_a_parquet_file_is_no_value(tmp_path: Path) -> None:
    shuffled(None).to_parquet(tmp_path / "week.parquet")
    s = read_sequences(tmp_path / "week.parquet", LayoutSpec(target="label"))
    assert set(s.lengths) == {6}


def test_an_index_of_three_levels_that_begins_with_the_label_has_it_as_the_target() -> None:
    index = pd.MultiIndex.from_product([["walk", "run"], range(3), range(8)], names=["label", "trial", "time"])
    table = pd.DataFrame({"x": np.arange(48) % 7}, index=index)
    result = read_sequences(table)
    assert (result.labels, result.groups) == (("walk",) * 3 + ("run",) * 3, None)
    with pytest.raises(BadInput, match="X: 'time' is a level of its index and a column; rename_axis gives"):
        read_sequences(table.assign(time=1.5))
