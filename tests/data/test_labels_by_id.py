"""Labels of a table with a row per position belong to its ids, never to the order in which these come; forms of pandas
and of other libraries that hold several channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from support.made_tables import why

from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput

RNG = np.random.default_rng(0)
ARRAY = RNG.normal(size=(8, 3, 20))
"""(n, channels, time)."""
LABELS = pd.Series(["a", "b", "b", "a", "a", "b", "a", "b"], index=[f"s{i}" for i in range(8)])


def long(descending: bool = False) -> pd.DataFrame:
    frames = {f"s{i}": pd.DataFrame(values.T, columns=list("xyz")) for i, values in enumerate(ARRAY)}
    table = pd.concat(frames, names=["id", "time"]).reset_index()
    return table.sort_values(["id", "time"], ascending=[not descending, True])


@pytest.mark.parametrize("labels", [LABELS, LABELS[::-1], dict(LABELS)])
@pytest.mark.parametrize("descending", [False, True])
def test_labels_of_a_long_table_follow_its_ids(labels: Any, descending: bool) -> None:
    result = read_sequences(long(descending), labels=labels, groups=LABELS.str.upper())
    assert result.ids is not None
    assert list(result.labels) == [LABELS[name] for name in result.ids]
    assert result.groups == tuple(LABELS[name].upper() for name in result.ids)


def test_ids_that_are_numbers_find_their_labels() -> None:
    table, labels = long(), LABELS.reset_index(drop=True)
    table["id"] = table["id"].str[1:].astype(int)
    assert list(read_sequences(table, labels=labels).labels) == list(LABELS)
    polars = read_sequences(pl.from_pandas(table), labels=dict(labels))
    assert list(polars.labels) == list(LABELS)


@pytest.mark.parametrize("labels", [list(LABELS), LABELS.to_numpy(), pl.Series(list(LABELS))])
def test_labels_without_ids_are_refused_for_a_long_table(labels: Any) -> None:
    assert "give a series of pandas whose index holds these ids, or a dict of them" in why(long(), labels=labels)
    with pytest.raises(BadInput, match=r"^groups: "):
        read_sequences(long(), labels=LABELS, groups=labels)


def test_ids_without_a_label_or_with_two_are_named() -> None:
    assert "labels: has no entry for 1 of the 8 ids in 'id', such as 's3' (it has 's0', 's1'" in why(
        long(), labels=LABELS.drop("s3")
    )
    assert "labels: has 9 entries for 8 ids" in why(long(), labels=pd.concat([LABELS, LABELS[:1]]))
    assert "such as 's0' (it has '0', '1', '2'" in why(long(), labels=LABELS.reset_index(drop=True))


def test_a_frame_with_ids_and_times_in_its_index_is_read() -> None:
    for names in (["instance", "time"], [None, None], ["case", "timepoints"]):
        table = pd.concat({f"s{i}": pd.DataFrame(values.T) for i, values in enumerate(ARRAY)}, names=names)
        result = read_sequences(table, labels=LABELS)
        np.testing.assert_array_equal(result.values, ARRAY.swapaxes(1, 2).reshape(-1, 3).astype(np.float32))
        assert (result.ids, list(result.labels)) == (tuple(LABELS.index), list(LABELS))
        assert read_sequences(table, result.layout.fixed()).ids == result.ids


def test_an_index_that_is_no_time_is_said_to_be_left_out() -> None:
    index = pd.MultiIndex.from_product([["ann", "bob"], range(4)], names=["subject", "trial"])
    result = read_sequences(pd.DataFrame(ARRAY[:, 0], index=index))
    assert (len(result), result.lengths[0]) == (8, 20)
    (note,) = result.notes
    assert note.startswith(
        "the index ('subject', 'trial') is not used; rename_axis(['subject', 'time']) makes its last"
    )
    long = pd.DataFrame(ARRAY[:, 0, :3], index=index).rename_axis(["subject", "time"])
    assert read_sequences(long).lengths.tolist() == [4, 4], "which does so"


@pytest.mark.parametrize("names", [["subject", "trial", "time"], ["a", "b", "t"], [None] * 3])
def test_the_outer_levels_of_an_index_of_three_are_the_id_together_and_labels_follow_it(names: list[Any]) -> None:
    index = pd.MultiIndex.from_product([["ann", "bob"], range(4), range(20)], names=names)
    table = pd.DataFrame(ARRAY.swapaxes(1, 2).reshape(-1, 3), index=index, columns=list("uvw"))
    labels = pd.Series(LABELS.to_list(), index=index.droplevel(2).unique())
    result = read_sequences(table, labels=labels[::-1])
    assert (result.ids or ())[:2] == ("ann/0", "ann/1")
    assert (result.lengths.tolist(), result.channels) == ([20] * 8, ("u", "v", "w"))
    np.testing.assert_array_equal(result.values, table.to_numpy(dtype=np.float32))
    assert (list(result.labels), list(result.groups or ())) == (LABELS.to_list(), ["ann"] * 4 + ["bob"] * 4)
    assert read_sequences(table, result.layout.fixed()).ids == result.ids


def test_cells_that_are_series_or_frames_are_sequences() -> None:
    series = pd.DataFrame({f"dim_{f}": [pd.Series(values[f]) for values in ARRAY] for f in range(3)})
    frames = pd.DataFrame({"dims": [pd.DataFrame(values.T) for values in ARRAY]})
    for table in (series, frames):
        result = read_sequences(table, labels=LABELS)
        np.testing.assert_array_equal(result.values, ARRAY.swapaxes(1, 2).reshape(-1, 3).astype(np.float32))
        assert list(result.labels) == list(LABELS)
    assert isinstance(series["dim_0"][0], pd.Series), "the frame of the person stays as it is"


@pytest.mark.parametrize("data", [ARRAY, list(ARRAY)])
def test_axes_that_sizes_do_not_tell_are_asked_about(data: Any) -> None:
    message = why(data)
    assert "a matrix (3 x 20) whose sizes do not tell which axis is time" in message
    assert "layout={'time_axis': 'second'}" in message
    assert not read_sequences(data, LayoutSpec(channels_first=True)).notes
    assert not read_sequences([x.T for x in data]).notes


def test_labels_of_a_dict_of_frames_follow_its_keys() -> None:
    frames = {
        name: pd.DataFrame(values.T, columns=list("xyz")) for name, values in zip(LABELS.index, ARRAY, strict=True)
    }
    for labels in (dict(LABELS[::-1]), LABELS[::-1], list(LABELS), LABELS.reset_index(drop=True)):
        result = read_sequences(frames, labels=labels, groups=dict(LABELS[::-1].str.upper()))
        assert (result.ids, list(result.labels)) == (tuple(LABELS.index), list(LABELS))
        assert result.groups == tuple(LABELS.str.upper())
        assert list(result.in_order(labels, "y")) == list(LABELS)
    assert "labels: has no entry for 1 of the 8 ids in 'id', such as 's3'" in why(
        frames, labels=dict(LABELS.drop("s3"))
    )
    assert "sequences without ids cannot be found by its keys; give a list" in why(
        list(frames.values()), labels=dict(LABELS)
    )


def test_labels_of_a_frame_of_rows_whose_index_stands_in_another_order_are_refused() -> None:
    table = pd.DataFrame(ARRAY[:, 0], index=LABELS.index)
    assert list(read_sequences(table, labels=LABELS).labels) == list(LABELS)
    assert "labels: its index is that of X in another order" in why(table, labels=LABELS[::-1])
    assert list(read_sequences(table, labels=LABELS[::-1].to_list()).labels) == list(LABELS[::-1])
    assert list(read_sequences(table, labels=LABELS.reset_index(drop=True)).labels) == list(LABELS)
