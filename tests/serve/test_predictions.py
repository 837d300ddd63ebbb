"""Predictions keep ids and order, and are written whole in four forms."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet
from support.made_models import walks

from headstart import atomic
from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.errors import BadInput
from headstart.serve.predictions import (
    Predictions,
    predictions_of,
    to_csv,
    to_json_lines,
    write_predictions,
)

CLASSES = ("-1", "=1+1", "[red]x", "caf\u00e9 \U0001f600")
ANSWERS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [1 / 3, 2 / 3, 0.0, 1e-12]])


def three(ids: tuple[str, ...] | None = ("b", "a", "@c"), name: str = "patient") -> Sequences:
    """Three sequences with these ids in a column of this name."""
    s = walks(n=3)
    return replace(s, ids=ids, layout=replace(s.layout, id=name))


def cells(text: str, mark: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text), delimiter=mark))


def test_csv_has_ids_in_the_order_of_the_input_and_a_probability_per_class() -> None:
    rows = cells(to_csv(predictions_of(three(), ANSWERS, CLASSES)))
    assert rows == [
        ["patient", "prediction", "p_-1", "p_=1+1", "p_[red]x", "p_caf\u00e9 \U0001f600"],
        ["b", "caf\u00e9 \U0001f600", "0.1", "0.2", "0.3", "0.4"],
        ["a", "-1", "0.7", "0.1", "0.1", "0.1"],
        ["'@c", "'=1+1", "0.333333", "0.666667", "0", "1e-12"],
    ]


def test_rows_without_ids_are_counted_from_1() -> None:
    rows = cells(to_csv(predictions_of(three(ids=None), ANSWERS, CLASSES)))
    assert [row[0] for row in rows] == ["row", "1", "2", "3"]


def test_numbers_have_no_probabilities_and_all_their_digits() -> None:
    text = np.array([-1234567.25, 1 / 3, 2e-30])
    table = predictions_of(three(), text, ())
    assert to_csv(table) == "patient,prediction\nb,-1234567.25\na,0.333333333\n'@c,2e-30\n"
    lines = [json.loads(line) for line in to_json_lines(table).splitlines()]
    assert [line["prediction"] for line in lines] == text.tolist()


def test_a_number_that_json_does_not_have_is_null() -> None:
    table = predictions_of(three(), np.array([np.nan, np.inf, 1.0]), ())
    lines = [json.loads(line) for line in to_json_lines(table).splitlines()]
    assert [line["prediction"] for line in lines] == [None, None, 1.0]


@pytest.mark.parametrize("name", ["prediction", "p_-1"])
def test_an_id_column_that_has_one_of_our_names_is_called_id(name: str) -> None:
    assert predictions_of(three(name=name), ANSWERS, CLASSES).heads[:2] == ("id", "prediction")


def test_the_name_of_the_id_column_is_guarded_too() -> None:
    assert to_csv(predictions_of(three(name="=cmd"), ANSWERS, CLASSES)).startswith("'=cmd,prediction,")


def test_json_lines_and_parquet_hold_the_texts_as_they_are_and_every_digit(tmp_path: Path) -> None:
    table = predictions_of(three(), ANSWERS, CLASSES)
    lines = [json.loads(line) for line in to_json_lines(table).splitlines()]
    write_predictions(table, tmp_path / "out.parquet")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert lines == rows
    assert [row["patient"] for row in rows] == ["b", "a", "@c"]
    assert [row["prediction"] for row in rows] == [CLASSES[3], "-1", "=1+1"]
    assert [[row[f"p_{name}"] for name in CLASSES] for row in rows] == ANSWERS.tolist()


def test_quotes_line_ends_and_bytes_that_are_no_letters_survive(tmp_path: Path) -> None:
    odd = ('a "b", c', "two\nlines", "half \udcff")
    table = predictions_of(three(ids=odd), ANSWERS, CLASSES)
    assert [row[0] for row in cells(to_csv(table))][1:] == [*odd[:2], "half \\udcff"]
    to_csv(table).encode()
    write_predictions(table, tmp_path / "out.parquet")
    assert parquet.read_table(tmp_path / "out.parquet")["patient"].to_pylist() == [*odd[:2], "half \\udcff"]
    assert json.loads(to_json_lines(table).splitlines()[2])["patient"] == "half \\udcff"


FORMS = (
    "out.csv",
    "OUT.CSV",
    "out.tsv",
    "out.jsonl",
    "out.ndjson",
    "out.parquet",
    "out.pq",
    "out.csv.gz",
    "out.tsv.gz",
    "out.jsonl.gz",
)


@pytest.mark.parametrize("name", FORMS)
def test_each_ending_is_written_and_read_again_by_our_own_reader(name: str, tmp_path: Path) -> None:
    table = predictions_of(three(), ANSWERS, ("a", "b", "c", "d"))
    write_predictions(table, tmp_path / name)
    spec = LayoutSpec(id="patient", target="prediction", values=("p_a", "p_b", "p_c", "p_d"), shape="wide")
    again = read_sequences(tmp_path / name, spec)
    text = "csv" in name.lower() or "tsv" in name
    assert again.ids == ("b", "a", "'@c" if text else "@c")
    assert again.labels == ("d", "a", "b")
    np.testing.assert_allclose(again.values.reshape(3, 4), ANSWERS, atol=1e-6)
    assert os.listdir(tmp_path) == [name]


def test_equal_predictions_have_equal_packed_bytes(tmp_path: Path) -> None:
    table = predictions_of(three(), ANSWERS, CLASSES)
    for name in ("a.csv.gz", "b.csv.gz"):
        write_predictions(table, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode() == to_csv(table)


@pytest.mark.parametrize("name", ["out", "out.xlsx", "out.json", "out.parquet.gz", "out.gz", ".csv"])
def test_an_ending_that_is_not_written_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"predictions are written as .csv, .tsv, .jsonl .*give the file one of these"):
        write_predictions(predictions_of(three(), ANSWERS, CLASSES), tmp_path / name)
    assert not os.listdir(tmp_path)


def test_a_folder_that_is_not_there_and_a_full_disk_leave_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = predictions_of(three(), ANSWERS, CLASSES)
    (tmp_path / "there.csv").mkdir()
    with pytest.raises(BadInput, match="is a folder; give a file"):
        write_predictions(table, tmp_path / "there.csv")
    with pytest.raises(BadInput, match=r"cannot be written \(No such file or directory\); give access"):
        write_predictions(table, tmp_path / "none" / "out.csv")
    write_predictions(table, tmp_path / "out.csv")
    before = (tmp_path / "out.csv").read_bytes()

    def full(file: int, data: Any) -> None:
        os.write(file, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write_all", full)
    with pytest.raises(BadInput, match=r"out\.csv: the disk is full"):
        write_predictions(replace(table, keys=("x", "y", "z")), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "there.csv"]


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    table, path = predictions_of(three(), ANSWERS, CLASSES), tmp_path / "out.csv"
    (tmp_path / f".out.csv.{'a' * 16}.tmp").write_text("half")
    (tmp_path / f".other.csv.{'a' * 16}.tmp").write_text("of another")
    with atomic.published(path) as living:
        write_predictions(table, path)
        assert len(list(tmp_path.glob(".out.csv.*.tmp"))) == 1
        os.write(living, b"whole")
    assert path.read_text() == "whole"
    assert sorted(os.listdir(tmp_path)) == [f".other.csv.{'a' * 16}.tmp", "out.csv"]


def test_no_predictions_are_a_header() -> None:
    empty = predictions_of(three().take(np.zeros(0, dtype=np.int64)), np.zeros((0, 4)), CLASSES)
    assert isinstance(empty, Predictions)
    assert len(to_csv(empty).splitlines()) == 1
    assert to_json_lines(empty) == ""
