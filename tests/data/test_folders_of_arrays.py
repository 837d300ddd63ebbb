"""Folders with a file of arrays for each recording: .npy, .npz, .mat and .h5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_files import needs

from headstart.data import LayoutSpec, read_sequences
from headstart.data.axes import time_axis
from headstart.errors import BadInput


def _npz(path: Path, array: np.ndarray, **beside: Any) -> None:
    np.savez(path, signal=array, **beside)


def _mat(path: Path, array: np.ndarray, **beside: Any) -> None:
    from scipy.io import savemat

    savemat(path, {"signal": array, **beside})


def _h5(path: Path, array: np.ndarray, **beside: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["signal"] = array
        file.attrs.update(beside)


WRITERS: dict[str, Callable[..., None]] = {"npy": np.save, "npz": _npz, "mat": _mat, "h5": _h5}


def _folder(folder: Path, ending: str, arrays: Sequence[np.ndarray], **beside: Any) -> Path:
    """A folder with a folder for each of two classes."""
    for i, array in enumerate(arrays):
        file = folder / ("up" if i % 2 else "down") / f"r{i:02d}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[ending](file, array, **beside)
    return folder


def _matrices(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("ending", WRITERS)
def test_of_matrices_of_recordings_the_axis_that_differs_is_time_and_a_file_alone_reads_alike(
    ending: str, tmp_path: Path
) -> None:
    needs({"h5": "hdf5"}.get(ending, ending))
    arrays = _matrices((3, 40), (3, 41), (3, 42), (3, 43))
    path = _folder(tmp_path / "all", ending, arrays)
    first = read_sequences(path)
    assert sorted(map(str, first.labels or ())) == ["down", "down", "up", "up"]
    assert sorted(first.lengths.tolist()) == [40, 41, 42, 43]
    assert len(first.channels) == 3
    fixed = first.layout.fixed()
    row = (first.ids or ()).index(f"up/r01.{ending}")
    np.testing.assert_array_equal(first.take(np.array([row])).values, arrays[1].T.astype(np.float32))
    for source in (path, path / "up" / f"r01.{ending}"):
        again = read_sequences(source, fixed)
        assert again.channels == first.channels
        wanted = first if source == path else first.take(np.array([row]))
        np.testing.assert_array_equal(again.values, wanted.values)


@pytest.mark.parametrize("ending", ["npz", "mat", "h5"])
def test_single_values_beside_the_array_of_a_recording_are_its_label_its_subject_and_its_rate(
    ending: str, tmp_path: Path
) -> None:
    needs({"h5": "hdf5"}.get(ending, ending))
    for i, array in enumerate(_matrices(*[(50,)] * 6)):
        WRITERS[ending](tmp_path / f"r{i}.{ending}", array, label="up" if i % 2 else "down", subject=i // 2, fs=250.0)
    sequences = read_sequences(tmp_path)
    assert sequences.labels == ("down", "up") * 3
    assert sequences.groups == ("0", "0", "1", "1", "2", "2")
    assert sequences.steps is not None
    np.testing.assert_allclose(sequences.steps, 1 / 250)
    assert not any("no label is known" in note for note in sequences.notes)


def test_the_axis_of_time_is_asked_for_with_both_commands_where_sizes_do_not_tell_it(tmp_path: Path) -> None:
    path = _folder(tmp_path, "npy", _matrices(*[(32, 64)] * 4))
    with pytest.raises(BadInput, match="do not tell which axis is time") as error:
        read_sequences(path)
    assert [line.split()[-1] for line in str(error.value).splitlines()[1:]] == ["time_axis=first", "time_axis=second"]
    for axis, length in (("first", 32), ("second", 64)):
        assert set(read_sequences(path, LayoutSpec(time_axis=axis)).lengths.tolist()) == {length}


def test_an_axis_that_differs_and_one_that_is_much_longer_are_asked_about_where_they_are_not_the_same() -> None:
    assert time_axis([(3, 500), (2, 500)]) == ""
    assert time_axis([(3, 500), (3, 510)]) == "second"
    assert time_axis([(3, 500)]) == "second"
    assert time_axis([(500, 3), (400, 4)]) == "first"
    assert time_axis([(7, 5), (6, 5)]) == "first"


def test_labels_of_such_files_stand_in_a_table_beside_them_or_in_their_names(tmp_path: Path) -> None:
    beside, named = tmp_path / "beside", tmp_path / "named"
    for folder in (beside, named):
        folder.mkdir()
    for i, array in enumerate(_matrices(*[(30 + i,) for i in range(6)])):
        np.save(beside / f"r{i}.npy", array)
        np.save(named / f"{'up' if i % 2 else 'down'}_{i}.npy", array)
    rows = [f"r{i}.npy,{'up' if i % 2 else 'down'}" for i in range(6)]
    (beside / "labels.csv").write_text("\n".join(["file,state", *rows]) + "\n")
    for folder in (beside, named):
        assert sorted(map(str, read_sequences(folder).labels or ())) == ["down"] * 3 + ["up"] * 3


def test_a_folder_with_x_and_y_reads_as_their_npz_does(tmp_path: Path) -> None:
    (values,) = _matrices((8, 20))
    labels = np.array(["up", "down"] * 4)
    for name, array in (("X_train", values), ("y_train", labels), ("X_test", values[:2]), ("y_test", labels[:2])):
        np.save(tmp_path / f"{name}.npy", array)
    first = read_sequences(tmp_path)
    assert first.labels == ("up", "down") * 4
    assert any("'X_test' (2, 20)" in note for note in first.notes)
    assert len(read_sequences(tmp_path / "X_test.npy", first.layout.fixed())) == 2


def test_a_file_of_many_sequences_each_is_refused_and_so_are_matrices_of_other_channels(tmp_path: Path) -> None:
    for i in range(3):
        np.savez(tmp_path / f"subject{i}.npz", X=_matrices((10, 64))[0], y=np.arange(10) % 2)
    with pytest.raises(BadInput, match="'y' has a label for each row"):
        read_sequences(tmp_path)
    path = _folder(tmp_path / "cubes", "npy", _matrices(*[(4, 30, 3)] * 3))
    with pytest.raises(BadInput, match="are no recording"):
        read_sequences(path)
    path = _folder(tmp_path / "widths", "npy", _matrices((3, 500), (2, 500)))
    with pytest.raises(BadInput, match="channels"):
        read_sequences(path, LayoutSpec(time_axis="second"))


def test_one_damaged_file_among_many_is_named(tmp_path: Path) -> None:
    path = _folder(tmp_path, "mat", _matrices(*[(50,)] * 4))
    (path / "up" / "r03.mat").write_bytes((path / "up" / "r03.mat").read_bytes()[:200])
    with pytest.raises(BadInput, match=r"r03\.mat"):
        read_sequences(path)


def test_a_file_of_recordings_by_name_is_read_again_along_the_axis_that_was_told_by_all(tmp_path: Path) -> None:
    needs("hdf5")
    import h5py

    def write(name: str, *shapes: tuple[int, ...]) -> Path:
        with h5py.File(tmp_path / name, "w") as file:
            for i, array in enumerate(_matrices(*shapes)):
                file[f"rec{i}/x"] = array
                file[f"rec{i}"].attrs["label"] = "ab"[i % 2]
        return tmp_path / name

    whole = write("all.h5", (3, 40), (3, 41), (3, 42), (3, 43))
    fixed = read_sequences(whole).layout.fixed()
    assert len(read_sequences(whole, fixed)) == 4
    assert read_sequences(write("one.h5", (3, 20)), fixed).lengths.tolist() == [20]
    wide = write("wide.h5", *[(12, 128)] * 4)
    spec = LayoutSpec(time_axis="first")
    for layout in (spec, read_sequences(wide, spec).layout.fixed()):
        assert read_sequences(wide, layout).lengths.tolist() == [12] * 4
    long = write("long.h5", *[(400, 3)] * 4)
    assert read_sequences(long, LayoutSpec(channels_first=True)).lengths.tolist() == [3] * 4


def test_an_axis_that_was_set_for_one_file_of_many_sequences_leaves_these_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=_matrices((20, 30))[0], y=np.arange(20) % 2)
    first = read_sequences(tmp_path / "f.npz", LayoutSpec(time_axis="first"))
    assert len(read_sequences(tmp_path / "f.npz", first.layout.fixed())) == len(first) == 20


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("labels", [("0", "1"), ("up", "down")])
def test_x_and_y_as_pandas_writes_them_are_one_data_set_beside_a_text_about_it(
    labels: tuple[str, str], index: bool, tmp_path: Path
) -> None:
    (values,) = _matrices((8, 20))
    rows = [[f"{i},"] * index + [",".join(map(str, row))] for i, row in enumerate(values.tolist())]
    head = "," * index + ",".join(f"f{k}" for k in range(20))
    (tmp_path / "X.csv").write_text("\n".join([head, *map("".join, rows)]) + "\n")
    cells = [f"{i}," * index + labels[i % 2] for i in range(8)]
    (tmp_path / "y.csv").write_text("\n".join(["," * index + "label", *cells]) + "\n")
    (tmp_path / "README.txt").write_text("made by us, and\nothers\n")
    sequences = read_sequences(tmp_path)
    assert sequences.labels == labels * 4
    np.testing.assert_array_equal(sequences.values.reshape(8, 20), values.astype(np.float32))


def test_x_y_and_z_of_one_shape_are_the_axes_of_a_sensor(tmp_path: Path) -> None:
    for name, array in zip("xyz", _matrices(*[(8, 20)] * 3), strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "labels.npy", np.arange(8) % 2)
    sequences = read_sequences(tmp_path)
    assert sequences.channels == ("x", "y", "z")
    assert sequences.labels == ("0", "1") * 4


def test_a_file_for_each_class_is_asked_about_and_splits_are_refused(tmp_path: Path) -> None:
    for folder, names in (("classes", ("cat", "dog")), ("splits", ("train", "test"))):
        (tmp_path / folder).mkdir()
        for name, array in zip(names, _matrices((40, 30), (47, 30)), strict=True):
            np.save(tmp_path / folder / f"{name}.npy", array)
    with pytest.raises(BadInput, match="each file may hold the sequences of a class, a row each, or be one") as caught:
        read_sequences(tmp_path / "classes")
    assert [line.split(maxsplit=3)[-1] for line in str(caught.value).splitlines()[1:]] == [
        "--target file",
        "time_axis=first",
    ]
    classes = read_sequences(tmp_path / "classes", LayoutSpec(target="file"))
    assert (len(classes), classes.lengths[0], classes.labels[39:41]) == (87, 30, ("cat", "dog"))
    recordings = read_sequences(tmp_path / "classes", LayoutSpec(time_axis="first"))
    assert (recordings.lengths.tolist(), recordings.width) == ([40, 47], 30)
    again = read_sequences(tmp_path / "classes", classes.layout.fixed())
    assert np.array_equal(again.values, classes.values)
    with pytest.raises(BadInput, match=r"named as splits are .* give one of them, and another with --test"):
        read_sequences(tmp_path / "splits")


def test_a_file_of_three_axes_for_each_class_is_read_with_its_name_as_the_label(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(11, 40, 3))
    np.save(tmp_path / "cat.npy", data[:6])
    np.save(tmp_path / "dog.npy", data[6:])
    result = read_sequences(tmp_path)
    assert (len(result), result.lengths[0], result.width) == (11, 40, 3)
    assert result.labels == ("cat",) * 6 + ("dog",) * 5
    np.save(tmp_path / "new.npy", data)
    assert len(read_sequences(tmp_path / "new.npy", result.layout.fixed())) == 11, "a file of new sequences"


def test_a_folder_of_splits_with_x_and_y_each_names_them_and_each_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 6)):
        (tmp_path / part / "Signals").mkdir(parents=True)
        np.savetxt(tmp_path / part / f"X_{part}.txt", rng.normal(size=(count, 20)))
        np.savetxt(tmp_path / part / f"y_{part}.txt", np.arange(count) % 3 + 1, fmt="%d")
        np.savetxt(tmp_path / part / f"subject_{part}.txt", np.arange(count) // 3 + 1, fmt="%d")
        np.savetxt(tmp_path / part / "Signals" / f"acc_{part}.txt", rng.normal(size=(count, 8)))
    with pytest.raises(
        BadInput, match=r"a data set for each split \('test', 'train'\); give one of them, such as .*train"
    ):
        read_sequences(tmp_path)
    assert read_sequences(tmp_path / "train", LayoutSpec(target="y_train")).layout.target == "y_train"
    train = read_sequences(tmp_path / "train")
    assert (len(train), train.lengths[0], sorted(set(train.labels)), len(set(train.groups or ()))) == (
        12,
        20,
        ["1", "2", "3"],
        4,
    )
    assert any("in folders below is not read" in note for note in train.notes)
    assert len(read_sequences(tmp_path / "test", train.layout.fixed())) == 6


@pytest.mark.parametrize(
    ("names", "text"),
    [(("acc", "gyro"), "are sensors of one recording"), (("train_data", "test_data"), "no recording")],
)
def test_files_of_arrays_that_are_sensors_or_splits_are_no_classes(
    names: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    for name in names:
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(6, 40, 3)))
    with pytest.raises(BadInput, match=text):
        read_sequences(tmp_path)


def test_arrays_that_are_named_by_the_number_of_their_file_are_one_channel(tmp_path: Path) -> None:
    from scipy.io import savemat

    data = np.random.default_rng(0).normal(size=(6, 300))
    for number, array in enumerate(data, 97):
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        arrays = {f"X{number:03d}_DE_time": array[:, None], f"X{number:03d}RPM": np.array([[1796 + number]])}
        savemat(tmp_path / "ab"[number % 2] / f"{number}.mat", arrays)
    result = read_sequences(tmp_path)
    assert (len(result), result.width, result.lengths.tolist()) == (6, 1, [300] * 6)
    again = read_sequences(tmp_path / "b" / "97.mat", result.layout.fixed())
    np.testing.assert_allclose(again.values[:, 0], data[0], rtol=1e-6)


def test_files_of_as_many_sequences_each_may_be_classes_or_sensors_and_both_answers_read_them(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(2, 6, 40, 3))
    for name, array in zip(("chest", "thigh"), data, strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(BadInput, match="may hold the sequences of a class, or a sensor of the same") as caught:
        read_sequences(tmp_path)
    ways = [line.split(maxsplit=3)[-1] for line in str(caught.value).splitlines()[1:]]
    assert ways == ["--target file", "--target ''"]
    classes = read_sequences(tmp_path, LayoutSpec(target="file"))
    assert (len(classes), classes.width, classes.classes) == (12, 3, ("chest", "thigh"))
    sensors = read_sequences(tmp_path, LayoutSpec(target=""))
    assert (len(sensors), sensors.width) == (6, 6)
    assert np.array_equal(read_sequences(tmp_path, sensors.layout.fixed()).values, sensors.values)
    np.testing.assert_allclose(sensors.values[:40], np.concatenate(data[:, 0], 1), rtol=1e-6)
