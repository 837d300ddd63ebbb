"""A task of one's own out of arrays: `Examples.from_arrays` and `make_task`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headstart
from headstart.errors import BadInput
from headstart.sequence import IGNORE, Examples
from headstart.tasks.build import make_task
from headstart.tasks.task import SPLITS, Task, TaskSpec, open_task


def waves(count: int = 60, length: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).normal(size=(count, length)), np.arange(count) % 3


def test_rows_of_floats_are_sequences_of_one_number_per_position() -> None:
    X, y = waves()
    x = Examples.from_arrays(X, y)
    assert np.array_equal(x.inputs(7)[:, 0], X[7].astype(np.float32))
    assert x.target is not None
    assert (x.target.tolist(), x.index.tolist(), x.observed) == (y.tolist(), list(range(60)), None)
    wide = Examples.from_arrays(X.reshape(60, 4, 2), y.astype(float))
    assert wide.inputs(7).tolist() == X[7].reshape(4, 2).astype(np.float32).tolist()
    assert wide.target is not None
    assert wide.target.dtype == np.float32


def test_a_value_that_is_nan_is_missing_and_stands_as_0() -> None:
    x = Examples.from_arrays([[1.0, np.nan], [np.nan, 2.0]])
    assert x.observed is not None
    assert (x.values[:, 0].tolist(), x.observed[:, 0].tolist()) == ([1, 0, 0, 2], [True, False, False, True])
    assert x.target is None


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=9), st.data())
def test_tokens_of_any_length_are_what_a_padded_array_with_lengths_gives(rows: list[list[int]], data: Any) -> None:
    lengths = [len(row) for row in rows]
    padded = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    y = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    ragged, cut = Examples.from_arrays(rows, y), Examples.from_arrays(padded, y, lengths)
    for x in (ragged, cut):
        assert [x.inputs(i).tolist() for i in range(len(x))] == rows
        assert x.target is not None
        assert x.target.tolist() == y
        assert not x.per_position


def test_targets_of_positions_are_cut_with_their_sequences() -> None:
    X, y = np.array([[5, 6, 7], [8, 9, 0]]), np.array([[1, 2, 3], [4, IGNORE, 6]])
    x = Examples.from_arrays(X, y, [3, 2])
    assert x.per_position
    assert x.target is not None
    assert (x.values.tolist(), x.target.tolist()) == ([5, 6, 7, 8, 9], [1, 2, 3, 4, IGNORE])
    same = Examples.from_arrays([X[0], X[1, :2]], [y[0], y[1, :2]])
    assert same.target is not None
    assert (same.per_position, same.target.tolist()) == (True, x.target.tolist())


def test_a_target_may_be_several_numbers_of_a_sequence_or_of_each_position() -> None:
    X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    several = Examples.from_arrays(X, [[0.5, 1.5], [2.5, np.nan]])
    assert several.target is not None
    assert (several.target.shape, several.per_position) == ((2, 2), False)
    each = Examples.from_arrays(X, np.arange(12.0).reshape(2, 3, 2), [3, 2])
    assert each.target is not None
    assert (each.target.tolist(), each.per_position) == ([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], True)
    square = np.arange(6.0).reshape(2, 3)
    assert Examples.from_arrays(X, square).per_position, "as many as there are positions: one for each"
    whole = Examples.from_arrays(X, square, per_position=False)
    assert whole.target is not None
    assert (whole.target.tolist(), whole.per_position) == (square.tolist(), False)
    with pytest.raises(BadInput, match="y: give 2 targets"):
        Examples.from_arrays(X, [0.5, 1.5], per_position=True)
    task = make_task(*(Examples.from_arrays(np.ones((4, 3)) * n, np.ones((4, 3, 2))) for n in range(1, 4)))
    assert (task.signature.targets, task.signature.per_position) == (2, True)


@pytest.mark.parametrize(
    ("X", "y", "lengths", "words"),
    [
        ([[1, 2], [[1.0], [2.0]]], None, None, "X: give"),
        ([], None, None, "X: holds no sequence; give at least one"),
        (["ab", "cd"], None, None, "X: give"),
        ([["a"], ["b"]], None, None, "X: has values of type <U1; give integers"),
        ([[1, -2]], None, None, "X: has a negative token"),
        ([[1.0, np.inf]], None, None, "X: has a negative token or an infinite number"),
        ([[1, 2]], [0], [3], "lengths: give 1 whole numbers"),
        ([[1, 2]], [0], [0], "lengths: give 1 whole numbers"),
        ([[1, 2], []], [0, 1], None, "lengths: give 2 whole numbers"),
        ([[1, 2]], [0, 1], None, "y: give 1 targets"),
        ([[1, 2]], [[0, 1, 2]], None, "y: has 3 whole numbers for each sequence; give one class, or floats"),
        ([[1, 2], [3, 4]], [[0.1, 1, 2], [0.1]], None, "y: give 2 targets, one for each sequence of X"),
        ([[1, 2]], [[[0, 1], [1, 0]]], None, "y: has 2 whole numbers for each position; give one class, or floats"),
        ([[1, 2]], ["cat"], None, r"y: has values of type <U3; give class numbers from 0 up \(np.unique"),
        ([[1, 2]], [-1], None, "y: has a negative class"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(X: Any, y: Any, lengths: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Examples.from_arrays(X, y, lengths)


def test_drawn_splits_have_each_class_in_proportion_and_no_copies_apart() -> None:
    X, y = waves(90)
    X[30:40] = X[:10]
    task = make_task(Examples.from_arrays(X, np.arange(90) % 3), labels=("a", "b", "c"))
    assert [task.split(name).units for name in SPLITS] == [54, 18, 18]
    assert [np.bincount(np.asarray(task.split(name).target)).tolist() for name in SPLITS] == [
        [18] * 3,
        [6] * 3,
        [6] * 3,
    ]
    assert (task.notes, task.labels, task.signature.classes) == ((), ("a", "b", "c"), 3)
    assert sorted(np.concatenate([task.split(name).index for name in SPLITS])) == list(range(90))
    other = make_task(Examples.from_arrays(X, y), seed=1)
    assert not np.array_equal(other.test.values, task.test.values)
    assert other.labels == ("0", "1", "2")


def test_numbers_positions_and_no_target_are_split_too() -> None:
    X, _ = waves(50)
    y = np.where(np.arange(50) < 20, np.nan, X.sum(1))
    numbers = make_task(Examples.from_arrays(X, y))
    assert (numbers.signature.target, numbers.signature.classes) == ("number", 0)
    assert not np.isnan(np.asarray(numbers.test.target)).any()
    positions = make_task(Examples.from_arrays(X, (X > 0).astype(int)))
    assert (positions.signature.per_position, positions.signature.classes) == (True, 2)
    bare = make_task(Examples.from_arrays(X))
    assert (bare.signature.target, bare.test.units) == ("none", 10)


def test_splits_that_are_given_are_kept_and_their_copies_are_said() -> None:
    X, y = waves()
    train, val, test = (Examples.from_arrays(X[rows], y[rows]) for rows in (slice(0, 40), slice(40, 50), slice(38, 60)))
    task = make_task(train, val, test)
    assert [task.split(name).units for name in SPLITS] == [40, 10, 22]
    assert task.notes == (
        "2 of the 22 test sequences stand in train",
        "10 of the 22 test sequences stand in val",
    )
    with pytest.raises(BadInput, match="one of val and test is given"):
        make_task(train, val)


def test_too_few_sequences_for_three_splits_are_refused() -> None:
    with pytest.raises(BadInput, match="leave none for"):
        make_task(Examples.from_arrays([[1, 2], [3, 4]], [0, 1]))


def test_a_data_frame_is_read_by_its_rows() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = waves(5)
    frame = Examples.from_arrays(pandas.DataFrame(X), pandas.Series(y))
    plain = Examples.from_arrays(X, y)
    assert np.array_equal(frame.values, plain.values)
    assert np.array_equal(frame.target, plain.target)  # type: ignore[arg-type]


def test_splits_of_another_kind_and_classes_without_a_name_are_refused() -> None:
    X, y = waves(30)
    train, other = Examples.from_arrays(X, y), Examples.from_arrays(np.stack([X, X], -1), y)
    with pytest.raises(BadInput, match="val has floats of 2 channels, and train has floats of 1 channels"):
        make_task(train, other, train)
    with pytest.raises(BadInput, match="test has numbers as targets, and train has classes as targets"):
        make_task(train, train, Examples.from_arrays(X, y.astype(float)))
    with pytest.raises(BadInput, match="labels name 1 classes, and the targets go up to"):
        make_task(train, train, train, labels=("a",))


def test_what_a_task_of_ones_own_needs_is_exported(tmp_path: Path) -> None:
    assert headstart.Examples is Examples
    assert headstart.Task is Task
    assert headstart.make_task is make_task
    del tmp_path


class UnevenSpec(TaskSpec):
    """One example is 8 floats, `0.1 0.7 ...`."""

    kind: Literal["uneven"] = "uneven"
    generated: ClassVar[bool] = True
    shows_not: ClassVar[str] = "nothing."
    lost: str = ""

    def load(self, data: Path) -> Task:
        task = make_task(Examples.from_arrays(*waves()), labels=("a", "b", "c"))
        less = {self.lost: getattr(task.train, self.lost)[:-1]} if self.lost else {}
        return replace(task, train=replace(task.train, **less))


@pytest.mark.parametrize("lost", ["target", "index"])
def test_arrays_of_a_task_that_do_not_fit_are_refused_with_the_class_that_gave_them(lost: str, tmp_path: Path) -> None:
    assert len(open_task(UnevenSpec(), tmp_path).train)
    with pytest.raises(BadInput, match=r"load of UnevenSpec gives .* do not fit .*make_task fits them"):
        open_task(UnevenSpec(lost=lost), tmp_path)
