"""A target of each position: lists beside the sequences, or a long table as it stands."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.made_tables import read, why, write

from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput
from headstart.request.settings import FitSettings
from headstart.request.source import read_source
from headstart.sequence import IGNORE
from headstart.spec import read as read_spec
from headstart.tasks.contract import check_task
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import open_task

RNG = np.random.default_rng(0)
VALUES = [RNG.normal(size=4 + i % 3).round(3).tolist() for i in range(30)]
LABELS = [["low" if value < 0 else "high" for value in row] for row in VALUES]
LABELS[3][1] = None


def json_lines(labels=LABELS):
    return "\n".join(
        json.dumps({"id": f"s{i}", "x": x, "y": y}) for i, (x, y) in enumerate(zip(VALUES, labels, strict=True))
    )


def long_table():
    rows = [
        f"s{i},{t},{x},{y or ''}" for i in range(30) for t, (x, y) in enumerate(zip(VALUES[i], LABELS[i], strict=True))
    ]
    return "\n".join(["id,time,x,y", *reversed(rows)])


def test_every_form_gives_the_same_targets(tmp_path):
    pa.parquet.write_table(pa.table({"x": VALUES, "y": LABELS}), tmp_path / "f.parquet")
    sources = [
        (write(tmp_path / "f.jsonl", json_lines()), {}),
        (tmp_path / "f.parquet", {}),
        (write(tmp_path / "f.csv", long_table()), {"time": "time"}),
    ]
    for path, more in sources:
        sequences = read(path, target="y", per_position=True, **more)
        order = np.argsort([int(name[1:]) for name in sequences.ids]) if sequences.ids else np.arange(30)
        sequences = sequences.take(order)
        assert (sequences.target, sequences.classes) == ("class", ("high", "low"))
        assert sequences.labels == tuple(label for row in LABELS for label in row)
        assert sequences.labelled.all()
        assert (sequences.codes() == IGNORE).sum() == 1
    halves = read_sequences(VALUES, LayoutSpec(per_position=True), labels=[[0.5 * x for x in row] for row in VALUES])
    assert halves.target == "number"
    assert np.allclose(halves.numbers(), 0.5 * halves.values[:, 0], atol=1e-6)


def test_targets_of_arrays_are_cut_with_the_missing_ends(tmp_path):
    values, labels = RNG.normal(size=(6, 5)), RNG.integers(0, 3, (6, 5))
    values[2, 3:] = np.nan
    np.savez(tmp_path / "f.npz", X=values, y=labels)
    sequences = read(tmp_path / "f.npz", per_position=True)
    assert sequences.lengths.tolist() == [5, 5, 3, 5, 5, 5]
    wanted = [str(x) for i, row in enumerate(labels) for x in row[: 3 if i == 2 else 5]]
    assert list(sequences.labels) == wanted
    assert list(sequences.cut(2).labels) == [str(x) for row in labels for x in row[:2]]


def test_minus_hundred_in_arrays_of_classes_is_no_class_and_the_setting_is_named(tmp_path):
    tokens = RNG.integers(0, 9, (6, 5))
    labels = np.where(np.arange(5) == 0, IGNORE, np.roll(tokens, 1, 1))
    np.savez(tmp_path / "f.npz", x=tokens, y=labels)
    sequences = read(tmp_path / "f.npz", target="y", per_position=True, kind="tokens", target_kind="class")
    assert str(IGNORE) not in sequences.classes
    assert (sequences.codes() == IGNORE).reshape(6, 5).tolist() == [[True] + 4 * [False]] * 6
    message = "array 'y' has shape (6, 5); give one value for every sequence, or set per_position = true where"
    assert message in why(tmp_path / "f.npz", target="y", kind="tokens", target_kind="class")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [*LABELS[:5], LABELS[5][:-1], *LABELS[6:]],
            "f.jsonl:6 column 'y': has 5 targets, the sequence has 6 positions",
        ),
        (["up"] * 30, "f.jsonl: per_position: 'y' does not hold a list of targets for each sequence; give lists"),
        ([[[1, 2]] * len(row) for row in VALUES], "f.jsonl: target: no column 'y'; there are: id, x, y 1, y 2"),
    ],
)
def test_targets_that_do_not_fit_are_named(tmp_path, labels, message):
    path = write(tmp_path / "f.jsonl", json_lines(labels))
    assert why(path, target="y", values=("x",), per_position=True).startswith(message)


def test_a_target_that_changes_within_a_sequence_is_asked_about(tmp_path):
    path = write(tmp_path / "f.csv", long_table())
    assert "a sequence has one target: correct it, or name another --target, or cut sequences into windows" in why(
        path, target="y", time="time"
    )


@pytest.mark.parametrize("numbers", [False, True])
def test_a_file_with_targets_of_positions_is_a_sound_task(tmp_path, numbers):
    labels = [[round(3 * x, 3) for x in row] for row in VALUES] if numbers else LABELS
    path = write(tmp_path / "f.jsonl", json_lines(labels))
    fields = {"file": str(path), "target": "y", "values": ["x"], "layout": {"per_position": True}, "longest": 5}
    spec = read_spec(OwnSpec, {"kind": "own", **fields})
    task = open_task(spec, tmp_path)
    assert task.signature.per_position
    assert spec.baseline_models() == ({"kind": "majority"},)
    assert len(read_spec(OwnSpec, {"kind": "own", **fields, "layout": {}}).baseline_models()) == 3
    assert task.signature.target == ("number" if numbers else "class")
    for name in ("train", "val", "test"):
        split = task.split(name)
        assert split.per_position
        assert len(split.target) == len(split.values)
        assert np.nanmax(split.target) <= 1.5
    assert not [problem for problem in check_task(spec, tmp_path).values() if problem]
    with pytest.raises(BadInput, match=r"per_position: fit learns one target of each sequence; a target per position"):
        read_source(path, FitSettings(layout=LayoutSpec(target="y", values=("x",), per_position=True)), tmp_path)
