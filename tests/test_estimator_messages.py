"""What the estimators make of tables and targets as people have them in a notebook, without a fit: types that stay, and
messages that name X and y."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from headstart import BadInput, SequenceClassifier, SequenceRegressor
from headstart.data import Sequences

ROWS = 12
VALUES = np.random.default_rng(0).normal(size=(ROWS, 6)).round(3)
IDS = [f"r{i:02}" for i in range(ROWS)]
WIDE = pd.DataFrame(VALUES, index=IDS, columns=[f"t{i}" for i in range(6)])
KINDS = pd.Series(["a", "b"] * 6, index=IDS)
LONG = pd.DataFrame({"rec": np.repeat(IDS, 6), "t": list(range(6)) * ROWS, "x": VALUES.reshape(-1)})


class Read(Exception):
    """The sequences that a fit was asked for."""


@pytest.fixture(autouse=True)
def _no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(sequences: Sequences, *_: Any, **__: Any) -> None:
        raise Read(sequences)

    monkeypatch.setattr("headstart.fit.perform.fit_sequences", fit)


def read(X: Any, y: Any, kind: type = SequenceClassifier, **settings: Any) -> Sequences:
    with pytest.raises(Read) as caught:
        kind(**settings).fit(X, y)
    sequences: Sequences = caught.value.args[0]
    return sequences


BOOLEANS = [True, False] * 6


@pytest.mark.parametrize(
    "y",
    [
        BOOLEANS,
        np.array(BOOLEANS),
        np.array(BOOLEANS, dtype=object),
        pd.Series(BOOLEANS, index=IDS, dtype=object),
        pd.Series(BOOLEANS, dtype="boolean"),
        pd.Series(BOOLEANS, dtype="category"),
        pd.Series(BOOLEANS, dtype="bool[pyarrow]"),
        dict(zip(IDS, BOOLEANS, strict=True)),
    ],
    ids=["list", "array", "objects", "series of objects", "nullable", "category", "arrow", "dict"],
)
def test_booleans_stay_booleans_whatever_holds_them(y: Any) -> None:
    X = {name: pd.DataFrame({"x": row}) for name, row in zip(IDS, VALUES, strict=True)} if isinstance(y, dict) else WIDE
    assert set(read(X, y).labels) == {"True", "False"}


def test_whole_numbers_of_types_that_know_missing_values_stay_whole() -> None:
    assert set(read(WIDE, pd.Series([1, 2] * 6, dtype="Int64")).labels) == {"1", "2"}


TEXTS = WIDE.astype(str)
MIXED = WIDE.astype(object).mask(WIDE.max().max() - 1e-9 < WIDE, "bad")
SECONDS = pd.Series(pd.to_timedelta(range(ROWS), unit="s"))


@pytest.mark.parametrize(
    ("X", "y", "kind", "text"),
    [
        (WIDE, KINDS[::-1], SequenceClassifier, "y: its index is that of X in another order; give y.loc[X.index]"),
        (WIDE, KINDS[:5], SequenceClassifier, "y: has 5 entries for 12 sequences"),
        (LONG, KINDS[:-1], SequenceClassifier, "y: has no entry for 1 of the 12 ids in 'rec', such as 'r11'"),
        (LONG, KINDS.tolist(), SequenceClassifier, "y: is a list in some order, and sequences of a table"),
        (WIDE, [np.nan, *range(11)], SequenceRegressor, "y: has rows without a label"),
        (WIDE, np.ma.masked_array([*range(12)], [1] + 11 * [0]), SequenceRegressor, "y: has rows without a label"),
        (WIDE, pd.Series([pd.NA, True, False] * 4, dtype="boolean"), SequenceClassifier, "y: has rows without a label"),
        (WIDE, "kind", SequenceClassifier, "y: is the text 'kind'; give the targets themselves, such as X['kind']"),
        (WIDE, KINDS, SequenceRegressor, "y: 'a' is not a number; correct it, or tell classes apart with"),
        (WIDE, pd.date_range("2020", periods=ROWS), SequenceRegressor, "y: holds times; give numbers"),
        (WIDE, SECONDS, SequenceRegressor, "y: holds times; give numbers, such as seconds: y / np.timedelta64(1, 's')"),
        (["some", None, "text"] * 4, KINDS.tolist(), SequenceClassifier, "X, row 2: is of type NoneType, and 8 of 12"),
        (MIXED, KINDS, SequenceClassifier, "holds 1 text among 12 values, such as 'bad'; correct them"),
        (TEXTS, KINDS, SequenceClassifier, "6 hold numbers that are written as texts; layout={'values': ['t*']}"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_names_the_argument_and_a_way_out(X: Any, y: Any, kind: type, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        kind().fit(X, y)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


ROW, PAIR = VALUES[0], [VALUES[0], np.stack([VALUES[0], VALUES[1]], axis=1)] * 6
Y = KINDS.tolist()


@pytest.mark.parametrize(
    ("settings", "X", "y", "text"),
    [
        ({"learning_rates": -1}, VALUES, Y, "learning_rates: [-1.0] must be numbers above 0, one or more"),
        ({"learning_rates": []}, VALUES, Y, "learning_rates: [] must be numbers above 0, one or more"),
        ({"seeds": True}, VALUES, Y, "seeds: True is not a number of networks; give 1 or more"),
        ({"pretrain": "no"}, VALUES, Y, "pretrain: 'no' is none of True, False and None; give one of them"),
        ({"random_state": -1}, VALUES, Y, "random_state: -1 is below 0; give 0 or more, or None"),
        ({"kind": "image"}, VALUES, Y, "kind: 'image' should be 'auto', 'numbers'"),
        ({"layout": {"kind": "image"}}, VALUES, Y, "layout.kind: 'image' should be 'auto', 'numbers'"),
        ({"window": 2.5}, VALUES, Y, "window: 2.5 is no length; give positions, such as 500"),
        ({"store": __file__}, VALUES, Y, f"store: {__file__!r} is not a folder; name another one"),
        ({"backbone": "nobody/nothing"}, VALUES, Y, "(HEADSTART_WEIGHTS names another) nor in the cache of the hub"),
        ({}, ROW, Y, "X: Expected 2D array, got 1D array instead. Reshape your data: X.reshape(1, -1)"),
        ({}, None, Y, "X: is of type NoneType; give an array, a list of sequences or a table"),
        ({}, {1, 2}, Y, "X: is of type set; give an array, a list of sequences or a table"),
        ({}, iter(VALUES), Y, "; give an array, a list of sequences or a table"),
        ({}, VALUES + 1j, Y, "X: Complex data not supported; give two channels: np.stack([X.real, X.imag], axis=-1)"),
        ({}, np.where(np.arange(6) == 2, np.inf, VALUES), Y, "X, row 1: contains infinity; give NaN where a value"),
        ({}, PAIR, Y, "X, row 2 column 'values': has shape (6, 2), the first sequence has 1"),
        ({}, VALUES, set(Y), "y: is of type set; give a list or an array, a target for each sequence of X"),
        ({}, VALUES, [f"c{i}" for i in range(12)], "y: each of 12 classes has one labelled sequence"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_an_argument_is_one_line_that_names_it(
    settings: Any, X: Any, y: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the fit refuses some of them, before it trains
    with pytest.raises(BadInput) as caught:
        SequenceClassifier(**settings).fit(X, y)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_infinite_targets_and_empty_groups_are_named_by_their_row() -> None:
    with pytest.raises(BadInput, match=r"^y: contains infinity, first in row 3; correct it, or leave it out$"):
        SequenceRegressor().fit(VALUES, [0.0, 1.0, np.inf] * 4)
    with pytest.raises(BadInput, match=r"^X, row 1: the group is empty; give each sequence one$"):
        SequenceClassifier().fit(VALUES, Y, groups=[None, *"abcdefghijk"])


def test_each_way_out_of_a_message_ends_well() -> None:
    y = KINDS[::-1]
    assert read(WIDE, y.loc[WIDE.index]).labels == read(WIDE, KINDS).labels
    assert np.array_equal(read(TEXTS, KINDS, layout={"values": ["t*"]}).values, read(WIDE, KINDS).values)
    assert read(WIDE, SECONDS / np.timedelta64(1, "s"), SequenceRegressor).labels[:3] == ("0", "1", "2")
    coerced = MIXED.apply(pd.to_numeric, errors="coerce")
    assert np.array_equal(read(coerced, KINDS).lengths > 0, np.ones(ROWS, dtype=bool))


def test_a_column_of_a_long_table_that_holds_the_labels_is_refused_before_the_fit() -> None:
    y = pd.Series([0, 1] * 6, index=IDS)
    held = LONG.assign(state=np.repeat(y.to_numpy(), 6))
    with pytest.raises(BadInput, match=r"^X: column 'state' holds y, .* \(X\.drop\(columns='state'\)\)$"):
        SequenceClassifier(layout={"id": "rec", "time": "t"}).fit(held, y)
    assert read(held.drop(columns="state"), y, layout={"id": "rec", "time": "t"}).channels == ("x",)
    other = LONG.assign(state=np.repeat(y.to_numpy()[::-1], 6))
    assert read(other, y, layout={"id": "rec", "time": "t"}).channels == ("x", "state")


def test_rows_of_recordings_that_do_not_stand_together_get_the_setting_that_reads_them() -> None:
    mixed = LONG.drop(columns="t").sample(frac=1, random_state=0)
    with pytest.raises(
        BadInput, match=r"recording that 'rec' names, give layout=\{'shape': 'long', 'id': 'rec'\}; else"
    ):
        SequenceClassifier().fit(mixed, KINDS)
    assert read(mixed, KINDS, layout={"shape": "long", "id": "rec"}).layout.shape == "long"


def test_a_way_out_that_names_an_argument_of_the_estimators_is_taken_by_them() -> None:
    letters, y = ["ACGT-"] * 6 + ["ACGTA"] * 6, KINDS.tolist()
    with pytest.raises(BadInput, match=r"\(kind='text' reads all as text\)"):
        SequenceClassifier(kind="dna").fit(letters, y)
    with pytest.raises(Read) as texts:
        SequenceClassifier(kind="text").fit(letters, y)
    assert texts.value.args[0].kind == "text"
    with pytest.raises(BadInput, match="give window=6 or less"):
        SequenceClassifier(window=7).fit(VALUES, y)
    assert len(read(VALUES, y, window=6)) == ROWS
