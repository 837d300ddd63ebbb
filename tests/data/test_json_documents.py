"""JSON documents: records in a list, under a key, by name or by column, with lists in objects as series."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import Sequences, read_sequences

X = np.random.default_rng(2).normal(size=(12, 9)).round(3)
Y = ["ab"[i % 2] for i in range(12)]


def document(path: Path, content: Any) -> Sequences:
    """What is read of a document of this content."""
    return read(write(path, json.dumps(content)))


def records(**more: Any) -> list[dict[str, Any]]:
    """A record for each sequence."""
    return [{"id": f"r{i}", "label": Y[i], "x": X[i].tolist(), **more} for i in range(12)]


FORMS: dict[str, Any] = {
    "a list": records(),
    "under a key": {"version": 2, "data": records()},
    "by name": {f"r{i}": {"label": Y[i], "x": X[i].tolist()} for i in range(12)},
    "by name under a key": {"version": 2, "data": {f"r{i}": {"label": Y[i], "x": X[i].tolist()} for i in range(12)}},
    "columns": {"id": [f"r{i}" for i in range(12)], "label": Y, "x": X.tolist()},
    "pandas, by columns": {
        "id": {str(i): f"r{i}" for i in range(12)},
        "label": {str(i): Y[i] for i in range(12)},
        "x": {str(i): X[i].tolist() for i in range(12)},
    },
    "pandas, split": {
        "columns": ["id", "label", "x"],
        "index": [*range(12)],
        "data": [[f"r{i}", Y[i], X[i].tolist()] for i in range(12)],
    },
    "objects in objects": [
        {"id": f"r{i}", "about": {"label": Y[i], "age": i}, "signals": {"x": X[i].tolist()}} for i in range(12)
    ],
    "positions": [{"id": f"r{i}", "label": Y[i], "samples": [{"x": x} for x in X[i].tolist()]} for i in range(12)],
    "a record a position": [
        {"id": f"r{i}", "label": Y[i], "time": t / 10, "x": x} for i in range(12) for t, x in enumerate(X[i].tolist())
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_records_are_read_however_the_document_holds_them(tmp_path: Path, form: str) -> None:
    sequences = document(tmp_path / "f.json", FORMS[form])
    np.testing.assert_allclose(sequences.values.reshape(12, 9), X, rtol=1e-6)
    assert sequences.labels == tuple(Y)
    assert sequences.ids == tuple(f"r{i}" for i in range(12))
    again = read_sequences(tmp_path / "f.json", sequences.layout.fixed())
    np.testing.assert_array_equal(again.values, sequences.values)


def test_a_document_of_a_line_each_is_read_as_json_lines(tmp_path: Path) -> None:
    sequences = read(write(tmp_path / "f.json", "".join(json.dumps(row) + "\n" for row in records())))
    assert sequences.labels == tuple(Y)


def test_rows_of_lists_are_sequences_or_a_table_without_a_header(tmp_path: Path) -> None:
    assert document(tmp_path / "f.json", X.tolist()).values.shape == (108, 1)
    table = document(tmp_path / "g.json", [[Y[i], *X[i].tolist()] for i in range(12)])
    ragged = document(tmp_path / "h.json", [[Y[i], *X[i, : 4 + i % 5].tolist()] for i in range(12)])
    for sequences in (table, ragged):
        assert sequences.labels == tuple(Y)
        assert sequences.values.dtype == np.float32
    assert ragged.lengths.tolist() == [4 + i % 5 for i in range(12)]


def test_objects_in_lines_of_json_are_opened(tmp_path: Path) -> None:
    rows = [{"about": {"label": Y[i]}, "acc": {"x": X[i].tolist()}, "gyro": {"x": X[i].tolist()}} for i in range(12)]
    sequences = read(write(tmp_path / "f.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert sequences.channels == ("acc.x", "gyro.x")
    assert sequences.labels == tuple(Y)


@pytest.mark.parametrize("times", [[t / 10 for t in range(9)], [f"2024-05-01 10:00:0{t}" for t in range(9)]])
def test_a_list_of_times_is_the_clock_and_no_channel(tmp_path: Path, times: list[Any]) -> None:
    sequences = document(tmp_path / "f.json", records(time=times))
    assert sequences.channels == ("x",)
    assert sequences.steps is not None
    assert sequences.steps[0] == pytest.approx(0.1 if times[1] == 0.1 else 1)
    assert any("'time' holds the times of each sequence" in note for note in sequences.notes)
    if times[1] == 0.1:
        assert read(tmp_path / "f.json", time="").channels == ("x", "time")
    again = read_sequences(tmp_path / "f.json", sequences.layout.fixed())
    np.testing.assert_array_equal(again.values, sequences.values)


def test_times_in_cells_of_a_text_table_are_no_channel_and_a_rate_brings_them_together(tmp_path: Path) -> None:
    lines = ["id,label,time,x"]
    for i in range(12):
        times = [0.5 * t for t in range(9)]
        lines.append(f'r{i},{Y[i]},"{times}","{X[i].tolist()}"')
    path = write(tmp_path / "f.csv", "\n".join(lines) + "\n")
    assert read(path).channels == ("x",)
    assert read(path, rate=4).lengths.tolist() == [17] * 12
    assert "its sequences have different numbers of values ('time' 9, 'x' 8)" in why(
        write(tmp_path / "g.csv", path.read_text().replace(f", {X[3, 8]}]", "]"))
    )


def test_cells_of_several_channels_stand_beside_others(tmp_path: Path) -> None:
    both = [{"label": Y[i], "acc": np.stack([X[i], -X[i]], 1).tolist(), "g": X[i].tolist()} for i in range(12)]
    sequences = document(tmp_path / "f.json", both)
    assert sequences.channels == ("acc 1", "acc 2", "g")
    np.testing.assert_allclose(sequences.values[:9], np.stack([X[0], -X[0], X[0]], 1), rtol=1e-6)
    assert read(tmp_path / "f.json", values=("acc",)).channels == ("channel 1", "channel 2")


def test_what_is_no_list_of_records_is_refused_with_a_form_that_works(tmp_path: Path) -> None:
    cases = {
        "{": "f.json:1: is not JSON (Expecting property name",
        '{"a": 1, "b": "x"}': "holds no records",
        "3": "holds no records",
        "[]": "holds no records",
        '[{"a": 1, "a": 2}]': "has 'a' twice",
        "[" * 100_000: "nested too deep",
        "[1, 2, 3]": "holds no records",
        '{"a": ' * 20 + "1" + "}" * 20: "objects in each other",
        "[" + '{"a": ' * 20 + "1" + "}" * 20 + "]": "objects in each other",
    }
    for content, text in cases.items():
        message = why(write(tmp_path / "f.json", content))
        assert text in message
        assert "\n" not in message
    shown = '[{"label": "a", "values": [1, 2, 3]}, {"label": "b", "values": [2, 4, 3]}]'
    assert '[{"label": "a", "values": [1, 2, 3]}, ...]' in why(write(tmp_path / "f.json", "3"))
    assert len(read(write(tmp_path / "f.json", shown))) == 2


def test_a_folder_of_documents_is_a_recording_each_and_one_about_tables_is_none(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / "all" / Y[i]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "rows" / Y[i]).mkdir(parents=True, exist_ok=True)
        whole = {"device": 7, "time": [t / 10 for t in range(9)], "x": X[i].tolist()}
        write(tmp_path / "all" / Y[i] / f"{i}.json", json.dumps(whole))
        lines = [f"{t / 10},{x}" for t, x in enumerate(X[i].tolist())]
        write(tmp_path / "rows" / Y[i] / f"{i}.csv", "\n".join(["time,x", *lines]) + "\n")
    write(tmp_path / "rows" / "metadata.json", '{"made": "by hand"}')
    for name in ("all", "rows"):
        sequences = read(tmp_path / name)
        assert (len(sequences), sequences.channels, set(sequences.labels)) == (12, ("x",), {"a", "b"})
