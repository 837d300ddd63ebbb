"""Tables of polars, read as those of pandas are."""

import numpy as np
import polars
import pytest
from support.made_tables import numbers, read, why

from headstart.data import LayoutSpec, read_sequences


def test_a_wide_table_with_labels_ids_and_gaps():
    values = numbers(6, 4)
    table = polars.DataFrame(
        {"id": [f"s{i}" for i in range(6)], "label": ["a", "b"] * 3, **{f"t{k}": values[:, k] for k in range(4)}}
    )
    table = table.with_columns(polars.when(polars.col("id") == "s2").then(None).otherwise(polars.col("t1")).alias("t1"))
    result = read(table, target="label")
    assert result.labels == ("a", "b") * 3
    assert result.ids == tuple(f"s{i}" for i in range(6))
    assert result.observed is not None
    assert not result.observed.reshape(6, 4)[2, 1]
    observed = result.observed.reshape(6, 4)
    assert result.values.reshape(6, 4)[observed] == pytest.approx(values[observed], rel=1e-6)


def test_list_columns_are_channels_of_unequal_length():
    table = polars.DataFrame({"x": [[1.0, 2.0], [3.0, 4.0, 5.0]], "y": [[0.5] * 2, [1.5] * 3], "label": ["a", "b"]})
    result = read(table, target="label", values=("x", "y"), shape="list")
    assert result.lengths.tolist() == [2, 3]
    assert result.values[:, 1].tolist() == [0.5, 0.5, 1.5, 1.5, 1.5]


def test_arrays_categories_and_texts():
    labels = polars.Series(["p", "q"], dtype=polars.Categorical)
    table = polars.DataFrame({"text": ["one two", "three é \U0001f600"], "label": labels})
    result = read(table, target="label", values=("text",), kind="text")
    assert [result.speak(row) for row in range(2)] == ["one two", "three é \U0001f600"]
    assert result.labels == ("p", "q")
    fixed = polars.DataFrame({"x": polars.Series(np.arange(12.0).reshape(4, 3), dtype=polars.Array(polars.Float64, 3))})
    assert read_sequences(fixed, LayoutSpec(shape="list", values=("x",))).lengths.tolist() == [3] * 4


def test_a_word_among_numbers_is_told_with_its_place():
    table = polars.DataFrame({"label": ["a", "b"], "t0": ["1.5", "soon"], "t1": ["1", "2"]})
    assert "'t0': 'soon' is not a number" in why(table, target="label", values=("t*",), shape="wide")
