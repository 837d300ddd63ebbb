"""Numbers that single precision cannot hold: a small signal on a large offset stays what the file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import numbers, read, write

from headstart.data import LayoutSpec, Sequences, data_card, read_sequences
from headstart.spec import read as read_spec
from headstart.tasks.own import OwnSpec

COUNT, LENGTH = 40, 24
SIGNAL = np.random.default_rng(0).uniform(-0.2, 0.2, (COUNT, LENGTH)).round(3)
LABELS = ["ab"[row % 2] for row in range(COUNT)]


def table(path: Path, offset: float, digits: int = 3, signal: np.ndarray = SIGNAL) -> Path:
    rows = [",".join(["label", *(f"t{i}" for i in range(signal.shape[1]))])]
    for label, values in zip(LABELS, signal, strict=False):
        rows.append(",".join([label, *(f"{offset + value:.{digits}f}" for value in values)]))
    return write(path, "\n".join(rows))


def prepared(path: Path) -> np.ndarray:
    spec = read_spec(OwnSpec, {"file": str(path), "val_share": 0.25, "test_share": 0})
    task = spec.load(path.parent)
    return np.concatenate([task.train.values, task.val.values])


@pytest.mark.parametrize("offset", [5e6, -5e6, 1e9])
def test_a_model_sees_the_same_with_and_without_a_large_offset(tmp_path: Path, offset: float) -> None:
    plain, far = (prepared(table(tmp_path / f"{name}.csv", by)) for name, by in (("plain", 0.0), ("far", offset)))
    assert plain.dtype == far.dtype == np.float32
    np.testing.assert_allclose(far, plain, atol=1e-3)


def test_sequences_that_differ_in_the_file_are_no_copies(tmp_path: Path) -> None:
    far = read(table(tmp_path / "far.csv", 5e6))
    assert far.values.dtype == np.float64
    assert data_card(far).facts["copies"]["rows"] == 0
    digits = np.round(SIGNAL, 3)
    digits[1] = digits[0]
    digits[1, 0] += 1e-9  # a difference that single precision does not see
    assert data_card(read(table(tmp_path / "near.csv", 0.0, 10, digits))).facts["copies"]["rows"] == 0
    digits[1, 0] = digits[0, 0]
    assert data_card(read(table(tmp_path / "same.csv", 0.0, 10, digits))).facts["copies"]["rows"] == 1


@pytest.mark.parametrize("values", [numbers(), numbers().round(3), numbers() + 50, np.full((4, 5), 0.1)])
def test_numbers_that_single_precision_holds_stay_in_it(values: np.ndarray) -> None:
    result = read_sequences(values)
    assert result.values.dtype == np.float32
    np.testing.assert_array_equal(result.values.reshape(values.shape), values.astype(np.float32))
    assert "double" not in read_spec(LayoutSpec, result.layout.fixed().model_dump()).document()


def test_other_data_are_read_in_the_precision_of_the_fit() -> None:
    far, plain = read_sequences(5e6 + SIGNAL), read_sequences(SIGNAL)
    short = np.array([[5e6, 0.25 + 5e6, 1.0, 2.0]])
    assert read_sequences(short, far.layout.fixed()).values.dtype == np.float64
    assert read_sequences(5e6 + SIGNAL, plain.layout.fixed()).values.dtype == np.float32


def test_gaps_and_shapes_other_than_wide_keep_double_precision(tmp_path: Path) -> None:
    gaps = 5e6 + SIGNAL
    gaps[3, 4] = np.nan
    rows = ["id,time,x", *(f"s{i},{t},{5e6 + SIGNAL[i, t]:.3f}" for i in range(9) for t in range(LENGTH))]
    lists = [f'{{"x": {(5e6 + values).round(3).tolist()}}}' for values in SIGNAL]
    for source in (
        gaps,
        write(tmp_path / "long.csv", "\n".join(rows)),
        write(tmp_path / "lists.jsonl", "\n".join(lists)),
        [row[: 5 + i % 3] for i, row in enumerate(5e6 + SIGNAL)],
    ):
        result = read_sequences(source)
        assert isinstance(result, Sequences)
        assert result.values.dtype == np.float64
        some = result.values[:4, 0] - 5e6
        np.testing.assert_allclose(some, SIGNAL[0, :4], atol=1e-8)


def test_values_that_stay_as_they_are_and_need_double_precision_are_said_to_be_rounded(tmp_path: Path) -> None:
    for offset, rounded in ((5e6, True), (0.0, False)):
        spec = read_spec(OwnSpec, {"file": str(table(tmp_path / f"{offset}.csv", offset)), "standardise": False})
        task = spec.load(tmp_path)
        assert task.train.values.dtype == np.float32
        assert any("rounded to single precision" in note for note in task.notes) is rounded


def test_changes_that_are_lost_in_the_spread_between_sequences_are_said() -> None:
    levels = 1e6 * np.arange(COUNT)[:, None]
    (text,) = [text for text in data_card(read_sequences(levels + SIGNAL)).findings if "single precision" in text]
    assert "subtract its own level from each sequence" in text
    assert not any("single precision" in text for text in data_card(read_sequences(5e6 + SIGNAL)).findings)


def test_a_ts_file_keeps_double_precision(tmp_path: Path) -> None:
    rows = [",".join(f"{5e6 + v:.3f}" for v in row) + f":{label}" for row, label in zip(SIGNAL, LABELS, strict=True)]
    result = read(write(tmp_path / "f.ts", "\n".join(["@univariate true", "@classLabel true a b", "@data", *rows])))
    np.testing.assert_allclose(result.values[:, 0], 5e6 + SIGNAL.reshape(-1), rtol=0, atol=1e-6)
    assert not data_card(result).findings
