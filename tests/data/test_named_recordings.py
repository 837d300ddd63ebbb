"""Files of HDF5 with a group, or a data set, for each recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_files import needs
from support.made_tables import read, why

from headstart.data import Sequences, read_sequences

RNG = np.random.default_rng(4)
X = [RNG.normal(size=(20 + i % 5, 2)) for i in range(12)]
Y = ["ab"[i % 2] for i in range(12)]


def made(path: Path, sets: dict[str, Any], attributes: dict[str, dict[str, Any]] | None = None) -> Path:
    """A file of these data sets and attributes."""
    needs("hdf5")
    import h5py

    with h5py.File(path, "w") as file:
        for name, value in sets.items():
            file[name] = value
        for name, own in (attributes or {}).items():
            file[name].attrs.update(own)
    return path


def check(sequences: Sequences, path: Path, labels: list[str] | None = None) -> None:
    """The recordings are those that were made, however they are named, and are served alike."""
    order = [int("".join(filter(str.isdigit, (name or "").rpartition("/")[2]))) for name in sequences.ids or ()]
    assert sorted(order) == list(range(12))
    for row, i in enumerate(order):
        begin, end = sequences.offsets[row : row + 2]
        np.testing.assert_allclose(sequences.values[begin:end], X[i], rtol=1e-6)
    assert list(sequences.labels) == [(labels or Y)[i] for i in order]
    again = read_sequences(path, sequences.layout.fixed())
    np.testing.assert_array_equal(again.values, sequences.values)
    assert again.ids == sequences.ids


def channels(i: int, start: str) -> dict[str, Any]:
    return {f"{start}/x": X[i][:, 0], f"{start}/y": X[i][:, 1]}


def all_of(start: str) -> dict[str, Any]:
    """Two data sets for each recording; in `start` {i} is its number and {y} its label."""
    return {name: x for i in range(12) for name, x in channels(i, start.format(i=i, y=Y[i])).items()}


def test_labels_are_attributes_of_groups(tmp_path: Path) -> None:
    facts = {f"rec_{i}": {"label": Y[i], "subject": f"s{i // 4}", "fs": 50.0} for i in range(12)}
    path = made(tmp_path / "f.h5", all_of("rec_{i}"), facts)
    sequences = read(path)
    check(sequences, path)
    assert sequences.layout.group == "subject"
    assert sequences.channels == ("x", "y")
    assert sequences.steps is not None
    assert sequences.steps[0] == pytest.approx(0.02)
    assert read(path, rate=25).lengths[0] == 10


def test_labels_are_in_the_names_of_groups_or_the_groups_around_them(tmp_path: Path) -> None:
    for start in ("{y}_{i}", "{y}/{i}", "all/{y}/rec{i}"):
        path = made(tmp_path / "f.h5", all_of(start))
        check(read(path), path)


def test_persons_around_recordings_are_groups(tmp_path: Path) -> None:
    sets = {name: x for i in range(12) for name, x in channels(i, f"subject{i // 3}/trial{i}/acc").items()}
    path = made(tmp_path / "f.h5", sets, {f"subject{i // 3}/trial{i}": {"activity": Y[i]} for i in range(12)})
    sequences = read(path)
    check(sequences, path)
    assert sequences.layout.target == "activity"
    assert sequences.groups is not None
    assert sequences.groups[0] == "subject0"


def test_labels_are_data_sets_of_one_value(tmp_path: Path) -> None:
    for name in ("signal", "values"):
        sets = {f"r{i}/{name}": X[i] for i in range(12)} | {f"r{i}/label": Y[i] for i in range(12)}
        path = made(tmp_path / "f.h5", sets)
        check(read(path), path)


def test_recordings_are_data_sets_with_attributes_or_names_that_count(tmp_path: Path) -> None:
    for start in ("trial{i}", "{y}/trial{i}", "{y}/{i}"):
        sets = {start.format(i=i, y=Y[i]): X[i] for i in range(12)}
        facts = {start.format(i=i, y=Y[i]): {"label": Y[i]} for i in range(12)}
        path = made(tmp_path / "f.h5", sets, facts if "y" not in start else {})
        check(read(path), path)


def test_channels_by_positions_are_turned_where_that_is_certain(tmp_path: Path) -> None:
    path = made(tmp_path / "f.h5", {f"{Y[i]}/{i}/data": X[i].T for i in range(12)})
    sequences = read(path)
    check(sequences, path)
    assert any("'data' is channels by positions" in note for note in sequences.notes)


def test_one_new_recording_is_read_as_those_of_the_model(tmp_path: Path) -> None:
    path = made(tmp_path / "f.h5", all_of("rec_{i}"), {f"rec_{i}": {"label": Y[i]} for i in range(12)})
    new = made(tmp_path / "new.h5", channels(0, "rec_0"))
    sequences = read_sequences(new, read(path).layout.fixed())
    np.testing.assert_allclose(sequences.values, X[0], rtol=1e-6)


def test_a_recording_without_a_channel_is_named(tmp_path: Path) -> None:
    sets = all_of("rec_{i}")
    del sets["rec_7/y"]
    assert why(made(tmp_path / "f.h5", sets)).startswith("f.h5: 'rec_7' has no 'y', which the other recordings have")


def test_arrays_of_rows_and_channels_of_one_recording_are_no_recordings(tmp_path: Path) -> None:
    rows = np.zeros((12, 20)) + np.arange(20)
    path = made(
        tmp_path / "f.h5", {f"{part}/{name}": x for part in ("train", "test") for name, x in (("X", rows), ("y", Y))}
    )
    assert read(path).layout.target == "train/y"
    single = made(
        tmp_path / "g.h5", {f"{sensor}/{axis}": rows[0] for sensor in ("acc", "gyro", "mag") for axis in "xyz"}
    )
    assert "name these" in why(single)


def test_a_frame_that_pandas_wrote_is_refused_with_what_to_save(tmp_path: Path) -> None:
    path = made(tmp_path / "f.h5", {"df/axis0": ["a"]}, {"df": {"pandas_type": "frame"}})
    assert "save one with to_parquet" in why(path)
