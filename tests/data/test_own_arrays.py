"""Arrays from .npy and .npz files and from memory, lists of arrays, and tables of other libraries."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from support.made_tables import numbers, read, why, write

from headstart import BadInput
from headstart.data import LayoutSpec, archives, read_sequences

LABELS = ["a", "b"] * 6


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "u1", "i2", ">i4", "i8", "?"])
def test_numbers_of_every_type_are_read_alike(tmp_path, dtype):
    data = (numbers() * 50 + 100).astype(dtype)
    np.save(tmp_path / "f.npy", data)
    for source in (tmp_path / "f.npy", data, list(data)):
        result = read(source, kind="numbers")
        assert result.values.dtype == np.float32
        assert result.values.flags.c_contiguous
        assert np.array_equal(result.values[:, 0], data.astype(np.float32).reshape(-1))
        assert result.lengths.tolist() == [6] * 12


def test_arrays_in_the_order_of_fortran_are_read_alike(tmp_path):
    data = np.random.default_rng(0).normal(size=(5, 7, 3)).astype(np.float32)
    np.save(tmp_path / "f.npy", np.asfortranarray(data))
    for source in (tmp_path / "f.npy", np.asfortranarray(data)):
        result = read(source)
        assert result.channels == ("channel 1", "channel 2", "channel 3")
        assert np.array_equal(result.values.reshape(5, 7, 3), data)
    assert np.array_equal(read(data.swapaxes(1, 2), channels_first=True).values.reshape(5, 7, 3), data)


@pytest.mark.parametrize("shape", [(3, 64), (6, 48), (2, 16)])
def test_an_axis_that_is_much_longer_is_time_wherever_it_stands_and_is_said(shape: tuple[int, int]) -> None:
    data = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    result, plain = read(data), read(data.swapaxes(1, 2))
    assert (result.lengths[0], result.width) == shape[::-1]
    assert np.array_equal(result.values, plain.values)
    assert result.notes[0].startswith("read as channels by positions")
    assert not plain.notes
    assert read_sequences(data[:, :, :9], result.layout.fixed()).lengths[0] == 9, "others are read alike"


@pytest.mark.parametrize("form", ["array", "list", "npy", "npz", "nested"])
@pytest.mark.parametrize("shape", [(3, 20), (12, 12), (16, 12)])
def test_axes_of_like_sizes_are_asked_about_and_both_answers_work(
    form: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    data = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    source: object = {"array": data, "list": list(data), "nested": pa.table({"x": data.tolist()})}.get(form)
    if form == "npy":
        np.save(source := tmp_path / "x.npy", data)
    if form == "npz":
        np.savez(source := tmp_path / "x.npz", X=data)
    with pytest.raises(BadInput) as caught:
        read_sequences(source)
    assert f"({shape[0]} x {shape[1]}) whose sizes do not tell which axis is time" in str(caught.value)
    ways = str(caught.value).splitlines()[1:]
    for axis, way in zip(("first", "second"), ways, strict=True):
        assert f"time_axis={axis}" in way or f"'time_axis': '{axis}'" in way
        result = read_sequences(source, LayoutSpec(time_axis=axis))
        expected = data if axis == "first" else data.swapaxes(1, 2)
        assert np.array_equal(result.values.reshape(expected.shape), expected)
        assert np.array_equal(read_sequences(source, result.layout.fixed()).values, result.values)


def test_the_axis_that_differs_in_a_list_is_time() -> None:
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(7, 5 + k)) for k in range(4)]
    result = read_sequences(data)
    assert (result.lengths.tolist(), result.width) == ([5, 6, 7, 8], 7)


def test_sequences_of_any_length_come_as_a_list():
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(k + 1, 2)) for k in range(5)]
    result = read_sequences(
        data, labels=np.array([0, 1, 0, 1, 0]), ids=[f"s{i}" for i in range(5)], groups=list("xxyyz")
    )
    assert result.lengths.tolist() == [1, 2, 3, 4, 5]
    assert np.array_equal(result.take(np.array([3])).values, data[3].astype(np.float32))
    assert (result.labels, result.groups) == (("0", "1", "0", "1", "0"), tuple("xxyyz"))
    assert read_sequences([[1, 2.5], [3]]).lengths.tolist() == [2, 1]
    assert read_sequences(["some text", "more"]).speak(1) == "more"


def test_gaps_of_arrays_are_unobserved():
    result = read_sequences(np.array([[1, np.nan, 3], [1, 2, np.nan]]))
    assert result.lengths.tolist() == [3, 2]
    assert result.observed is not None
    assert result.observed[:, 0].tolist() == [True, False, True, True, True]


def test_a_column_of_an_array_may_be_its_target():
    result = read(np.concatenate([np.arange(12)[:, None] % 2, numbers()], axis=1), target="1")
    assert result.classes == ("0", "1")
    assert np.array_equal(result.values[:, 0], np.float32(numbers()).reshape(-1))


OBJECTS = np.empty(2, dtype=object)
OBJECTS[:] = [np.zeros(2), np.zeros(3)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (OBJECTS, "X: holds Python objects, which are never unpickled; save numbers or texts"),
        (np.zeros((2, 3), dtype=complex), "X: holds values of type complex128; give numbers or texts"),
        (np.zeros(3), "X: has shape (3,); give (n, L), (n, L, F), or a list of sequences"),
        (np.zeros((2, 2, 2, 2)), "X: has shape (2, 2, 2, 2); give (n, L), (n, L, F), or a list of sequences"),
        (np.zeros((0, 3)), "X: has shape (0, 3); give (n, L), (n, L, F), or a list of sequences"),
        (np.array([[1.0, np.inf], [1, 2]]), "X, row 1 column 'values': 'inf' is infinite, or beyond 3e38"),
        (np.array([[1.0, 1], [1, 1e39]]), "X, row 2 column 'values': '1"),
        (np.array([[1.0, 1], [np.nan, np.nan]]), "X, row 2: every value of the sequence is missing; leave the row out"),
        ([], "X: is empty; give at least one sequence"),
        ([[1.0], []], "X, row 2 column 'values': the sequence is empty; leave the row out"),
        ([[1.0], 3], "X, row 2: is of type int, no sequence of numbers (L,) or (L, F); give an array or a list"),
        (
            [np.zeros((2, 2)) + 1, np.zeros((4, 3)) + 1],
            "X, row 2 column 'values': has shape (4, 3), the first sequence has 2 channels; give each row the same",
        ),
        (["text", ""], "X, row 2 column 'values': the text is empty; leave the row out"),
        (3, "X: is of type int; give a path, an array, a list of sequences or a table"),
        ({"x": [[1.0, 2]], "y": [1, 2]}, "X: column 'y' has 2 cells, 'x' has 1; give columns of one length"),
    ],
)
def test_what_is_no_sequence_is_named(data, message):
    assert why(data).startswith(message)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"], "labels: has 1 entry for 12 sequences; give one for each"),
        (np.zeros((12, 2)), "labels: has shape (12, 2); give one for each sequence"),
        ("abcdefghijkl", "labels: is of type str; give a list or an array with one for each sequence"),
        ([{}] * 12, "labels: holds values that are neither texts nor numbers"),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, message):
    assert why(numbers(), labels=labels).startswith(message)


def test_npz_files_hold_sequences_labels_ids_and_groups(tmp_path):
    np.savez_compressed(
        tmp_path / "f.npz", X=numbers(), y=LABELS, id=np.arange(12), subject=np.arange(12) // 2, extra=3
    )
    result = read(tmp_path / "f.npz")
    assert result.labels == tuple(LABELS)
    assert result.ids == tuple(map(str, range(12)))
    assert len(set(result.groups)) == 6
    assert result.notes == ("arrays 'extra' () are not used",)
    np.savez(tmp_path / "g.npz", acc=numbers(seed=1), gyro=numbers(seed=2), kind=LABELS)
    result = read(tmp_path / "g.npz", target="kind")
    assert result.channels == ("acc", "gyro")
    assert np.array_equal(result.values[:, 1], np.float32(numbers(seed=2)).reshape(-1))


def test_pickled_arrays_are_refused_and_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    trapped = np.empty(1, dtype=object)
    trapped[0] = Trap()
    np.save(tmp_path / "f.npy", trapped, allow_pickle=True)
    np.savez(tmp_path / "f.npz", X=trapped)
    assert why(tmp_path / "f.npy").startswith("f.npy: holds Python objects, which are never unpickled")
    assert why(tmp_path / "f.npz").startswith("f.npz, array 'X': holds Python objects, which are never unpickled")


def test_an_npy_file_that_says_more_than_it_holds_is_refused_before_anything_is_allocated(tmp_path):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2)})
    path = write(tmp_path / "f.npy", out.getvalue() + bytes(64))
    assert why(path).startswith("f.npy: is cut short: its header says 17,592,186,044,416 bytes, it has ")
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("X.npy", out.getvalue())
    assert why(tmp_path / "f.npz").startswith("f.npz, array 'X': is cut short")


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "TOTAL", 1_000)
    np.savez_compressed(tmp_path / "f.npz", X=np.zeros((100, 100)))
    assert why(tmp_path / "f.npz").startswith(
        "f.npz: unpacks to 1 arrays of 80,128 bytes, at most 10,000 of 1,000 are read"
    )


@pytest.mark.parametrize("name", ["f.npy", "f.npz", "f.parquet", "f.feather"])
def test_binary_files_that_are_cut_or_something_else_are_refused(tmp_path, name):
    path = tmp_path / name
    assert why(write(path, b"hello, world")).startswith(f"{name}: is not ")
    table = pa.table({"x": [[1.0, 2.0]] * 9, "label": LABELS[:9]})
    {
        "f.npy": lambda: np.save(path, numbers()),
        "f.npz": lambda: np.savez(path, X=numbers()),
        "f.parquet": lambda: pa.parquet.write_table(table, path),
        "f.feather": lambda: pa.feather.write_feather(table, path),
    }[name]()
    whole = path.read_bytes()
    assert len(read(path)) in (9, 12)
    assert why(write(path, whole[: len(whole) * 2 // 3])).startswith(name)


def test_arrays_of_a_file_must_be_of_one_length(tmp_path):
    np.savez(tmp_path / "f.npz", X=numbers(), y=LABELS[:5])
    assert why(tmp_path / "f.npz").startswith("f.npz: array 'y' has shape (5,), 'X' has (12, 6); give a row of each")
    np.savez(tmp_path / "f.npz", X=numbers(), y=LABELS)
    assert why(tmp_path / "f.npz", target="z").startswith("f.npz: target: no 'z'")


def frames():
    """One table, of lists, in every library; the last cells are missing."""
    lists = [[1.5, None, 3.0], [4.0, 5.0], [6.0]]
    table = pa.table({"id": [7, 8, 9], "signal": lists, "label": ["x", "y", None]})
    return {
        "arrow": table,
        "pandas": table.to_pandas(),
        "mapping": {name: table[name].to_pylist() for name in table.column_names},
    }


@pytest.mark.parametrize("name", ["arrow", "pandas", "mapping"])
def test_tables_of_every_library_are_read_alike(name):
    result = read_sequences(frames()[name])
    assert (result.ids, result.labels) == (("7", "8", "9"), ("x", "y", None))
    assert result.lengths.tolist() == [3, 2, 1]
    assert result.observed is not None
    assert result.observed[:, 0].tolist() == [True, False, True, True, True, True]
    assert result.layout.sentence.startswith("X: a table; a row per sequence, whole in column 'signal'; target 'label'")


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_files_of_tables_are_read_as_tables_are(tmp_path, ending):
    path, table = tmp_path / f"f.{ending}", frames()["arrow"]
    if ending == "parquet":
        pa.parquet.write_table(table, path)
    elif ending == "feather":
        pa.feather.write_feather(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    result, plain = read(path), read_sequences(table)
    assert np.array_equal(result.values, plain.values)
    assert np.array_equal(result.observed, plain.observed)
    assert (result.ids, result.labels) == (plain.ids, plain.labels)
    assert result.places.of(1) == f"{path}, row 2"


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.large_list(pa.int16()),
        pa.list_(pa.int64(), 2),
        pa.list_(pa.float16()),
        pa.list_view(pa.float64()),
    ],
)
def test_lists_of_every_type_of_arrow_are_read(kind):
    data = pa.chunked_array([pa.array([[1, 2], [3, 4]], kind), pa.array([[5, 6]], kind)])
    result = read(pa.table({"x": data}), kind="numbers")
    assert result.values[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_lists_of_lists_and_tensors_of_arrow_are_channels():
    nested = pa.table({"x": pa.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]])})
    result = read_sequences(nested, LayoutSpec(time_axis="first"))
    assert result.lengths.tolist() == [2, 1]
    assert result.values.tolist() == [[1, 2], [3, 4], [5, 6]]
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(16.0).reshape(2, 4, 2))
    assert read_sequences(pa.table({"x": tensor})).values.tolist() == np.arange(16.0).reshape(8, 2).tolist()


def test_columns_of_arrow_of_every_type_serve_as_ids_and_labels():
    import datetime

    table = pa.table(
        {
            "id": pa.array([2**60 + i for i in range(4)]),
            "label": pa.array(["u", "v", "u", "v"]).dictionary_encode(),
            "when": pa.array([datetime.datetime(2024, 1, i + 1) for i in range(4)]),
            "odd": [{"a": 1}] * 4,
            "t0": pa.array([1, 2, None, 4], pa.int8()),
            "t1": [1.5] * 4,
            "t2": [True, False, True, True],
        }
    )
    result = read_sequences(table)
    assert result.ids == tuple(str(2**60 + i) for i in range(4))
    assert result.labels == ("u", "v", "u", "v")
    assert result.layout.unused == ("when", "a")
    assert result.observed is not None
    assert result.values.reshape(4, 3)[1].tolist() == [2, 1.5, 0]


def test_a_frame_of_pandas_with_mixed_or_doubled_columns_is_refused():
    assert why(pd.DataFrame([[1, 2]], columns=["a", "a"])) == (
        "X: column 'a' is there twice (columns 1 and 2); rename one"
    )
    assert why(pd.DataFrame({"a": [1, "x", [2]]})).startswith("X: column 'a' holds 1 text among 3 values, such as 'x'")
    assert why(pd.DataFrame({"a": [1, [2]]})).startswith("X: cannot be read as a table (")
    assert why(pd.DataFrame({"t0": [], "t1": []})) == "X: has no row; give one with rows"


def test_a_series_is_a_list():
    assert read_sequences(pd.Series(["some text", "more"])).speak(0) == "some text"


def test_a_parquet_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "TOTAL", 1_000)
    table = pa.table({"x": np.zeros(1_000)})
    pa.parquet.write_table(table, tmp_path / "f.parquet")
    pa.feather.write_feather(table, tmp_path / "f.feather")
    for name in ("f.parquet", "f.feather"):
        assert why(tmp_path / name) == f"{name}: unpacks to more than 1,000 bytes; give it in parts"


def test_bytes_that_are_no_text_are_named(tmp_path):
    table = pa.table({"text": pa.array([b"fine, thank you", b"caf\xe9"])})
    pa.parquet.write_table(table, tmp_path / "f.parquet")
    assert why(tmp_path / "f.parquet") == (
        "f.parquet, row 2 column 'text': is not UTF-8 (byte 0xe9 at 3); write texts as UTF-8"
    )


def test_a_layout_of_a_file_serves_arrays_and_frames():
    table = pd.DataFrame(numbers(), columns=[f"t{i}" for i in range(6)]).assign(label=LABELS)
    fixed = read_sequences(table).layout.fixed()
    for data in (table.drop(columns="label"), numbers()):
        result = read_sequences(data, fixed)
        assert np.array_equal(result.values[:, 0], np.float32(numbers()).reshape(-1))
        assert result.target == "none"
    assert LayoutSpec() == LayoutSpec(values=())


@pytest.mark.parametrize(("shape", "text"), [((1,) * 70, "has 70 axes; give"), ((True, 4), "")])
def test_odd_shapes_of_a_header_are_numbers_or_refused(shape: tuple[int, ...], text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write(np.ones(4).tobytes())
    if text:
        with pytest.raises(BadInput, match=text):
            read_sequences(path)
    else:
        assert len(read_sequences(path)) == 1
