"""A part of a large file, read in place of all of it."""

import errno
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from headstart.data import LayoutSpec, arrays, part, read_sequences
from headstart.data.folders import recordings_of
from headstart.data.part import FilePart
from headstart.errors import BadInput
from headstart.limits import FreeMemory

ROWS = 3_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of kilobytes are large here, and to read a beginning takes a hundredth of a second."""
    for name, size in (("WHOLE_FILE", 1 << 14), ("FIRST_BYTES", 1 << 11), ("TIMED_BYTES", 1 << 13)):
        monkeypatch.setattr(part, name, size)
    monkeypatch.setattr(part, "LEAST_PART", 100)
    monkeypatch.setattr(part, "PART_BYTES", 1 << 12)
    for name, count in (("WHOLE_FOLDER", 50), ("FIRST_FILES", 6), ("TIMED_FILES", 30)):
        monkeypatch.setattr(part, name, count)
    monkeypatch.setattr(part, "memory", lambda: None)
    clock = iter(range(10**6))
    monkeypatch.setattr(part.time, "monotonic", lambda: 0.01 * next(clock))


def table(path: Path, end: str = "\n") -> Path:
    """Rows in the order of their classes: the first third is `a`."""
    rows = (f"{'abc'[3 * i // ROWS]},{i},{i % 7},0.25,{i % 11}" for i in range(ROWS))
    path.write_text("label,t0,t1,t2,t3\n" + "\n".join(rows) + end)
    return path


@pytest.mark.parametrize("end", ["\n", ""])
def test_so_many_rows_are_read_as_time_has_room_for_evenly_over_the_file(tmp_path: Path, end: str) -> None:
    file = table(tmp_path / "rows.csv", end)
    some = FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.03)
    assert some is not None
    assert some.whole == ROWS
    assert 100 <= some.rows < ROWS
    lines = some.file.read_text().splitlines()
    assert len(lines) == some.rows + 1
    assert set(lines) <= set(file.read_text().splitlines()), "each of its lines is one of the file"
    counts = {name: sum(line.startswith(f"{name},") for line in lines) for name in "abc"}
    assert max(counts.values()) - min(counts.values()) <= 2
    assert some.text == f"{some.rows:,} of {ROWS:,} rows of the file are read, evenly over it"


def test_the_same_command_goes_on_with_the_part_that_it_has(tmp_path: Path) -> None:
    file = table(tmp_path / "rows.csv")
    first = FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.03)
    assert first is not None
    assert FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.03) == first
    more = FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.06)
    assert more is None or more.rows > first.rows


def test_what_there_is_room_for_is_read_whole(tmp_path: Path) -> None:
    file = table(tmp_path / "rows.csv")
    assert FilePart.of(file, LayoutSpec(), tmp_path / "data", 1_000.0) is None
    assert FilePart.of(file, LayoutSpec(), tmp_path / "data", None) is None


def test_memory_has_room_for_a_part_where_it_has_none_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table(tmp_path / "rows.csv")
    monkeypatch.setattr(part, "memory", lambda: FreeMemory(int(2.0 * file.stat().st_size)))
    some = FilePart.of(file, LayoutSpec(), tmp_path / "data", None)
    assert some is not None
    assert some.rows == pytest.approx(ROWS / 4, abs=2)


def test_a_table_with_a_row_per_position_is_never_cut(tmp_path: Path) -> None:
    rows = [f"s{i // 10},{i % 10},{i % 7},{'ab'[(i // 10) % 2]}" for i in range(ROWS)]
    (tmp_path / "long.csv").write_text("\n".join(["id,t,x,label", *rows]) + "\n")
    assert FilePart.of(tmp_path / "long.csv", LayoutSpec(), tmp_path / "data", 0.03) is None


def test_cells_with_a_line_inside_are_never_cut(tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("label,text\n" + 'a,"one\ntwo"\nb,three\n' * ROWS)
    assert FilePart.of(tmp_path / "text.csv", LayoutSpec(), tmp_path / "data", 0.03) is None


def test_rows_of_parquet_are_taken_evenly_too(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    draw = np.random.default_rng(0).random((ROWS, 4))
    columns = {f"t{i}": draw[:, i] for i in range(4)} | {"label": np.array(list("abc"))[np.arange(ROWS) * 3 // ROWS]}
    parquet.write_table(pa.table(columns), file, row_group_size=500)
    some = FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.03)
    assert some is not None
    sequences = read_sequences(some.file)
    assert len(sequences) == some.rows < some.whole == ROWS
    assert {name: sequences.labels.count(name) for name in "abc"}.keys() == {"a", "b", "c"}


@pytest.mark.parametrize("name", ["x.npz", "packed.npz", "x.npy"])
def test_rows_of_arrays_are_taken_evenly_with_their_labels(tmp_path: Path, name: str) -> None:
    values = np.repeat(np.arange(ROWS), 4).reshape(-1, 4) + np.arange(4) / 10
    y, more = np.arange(ROWS) * 3 // ROWS, np.arange(5)
    save = {"x.npz": np.savez, "packed.npz": np.savez_compressed, "x.npy": lambda file, X, **_: np.save(file, X)}[name]
    save(tmp_path / name, X=values, y=y, x_test=more)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(part, "WHOLE_FILE", 1)
        some = FilePart.of(tmp_path / name, LayoutSpec(), tmp_path / "data", 0.03)
    assert some is not None
    assert 100 <= some.rows < some.whole == ROWS
    read = read_sequences(some.file)
    rows = read.values.reshape(-1, 4).astype(int)[:, 0]
    assert len(read) == some.rows == len(set(rows.tolist()))
    assert (np.diff(rows) > 0).all()
    if name != "x.npy":
        assert [int(label) for label in read.labels] == (rows * 3 // ROWS).tolist()


def test_arrays_that_are_cut_short_are_refused_by_their_reader(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((ROWS, 8)))
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[: len(content) // 2])
    assert FilePart.of(tmp_path / "x.npy", LayoutSpec(), tmp_path / "data", 0.03) is None


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("each", [(), (3,), (2, 3), (0,)])
def test_rows_of_an_array_in_a_file_are_those_of_the_array(tmp_path: Path, each: tuple[int, ...], order: str) -> None:
    array = np.asarray(np.random.default_rng(0).random((ROWS, *each)), order=order)
    near, far, none = np.arange(5, 900, 3), np.array([0, 7, ROWS - 1]), np.arange(0)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    for name in ("x.npy", "x.npz"):
        [stored] = arrays.file_arrays(tmp_path / name).values()
        assert np.array_equal(stored.whole(), array)
        with pytest.MonkeyPatch.context() as patch:
            for gap, together in ((1 << 16, 1 << 22), (0, 100), (4, 64)):
                patch.setattr(arrays, "GAP_BYTES", gap)
                patch.setattr(arrays, "ROWS_BYTES", together)
                assert all(np.array_equal(stored.rows(some), array[some]) for some in (near, far, none))


def test_an_array_that_is_read_whole_takes_its_own_size_of_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1 << 21, dtype="f8").reshape(-1, 4))
    array = arrays.file_arrays(tmp_path / "x.npy")["values"]
    assert isinstance(array, arrays.FileArray)
    tracemalloc.start()
    try:
        assert array.whole()[-1, -1] == (1 << 21) - 1
        assert tracemalloc.get_traced_memory()[1] < 1.2 * array.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("early", [True, False])
def test_an_array_that_is_cut_while_a_part_of_it_is_read_does_not_end_the_process(tmp_path: Path, early: bool) -> None:
    """Cut before it is opened, or behind the look at its size: no page of it is mapped, which would be a SIGBUS."""
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((ROWS, 100)))
    [stored] = arrays.file_arrays(file).values()
    look = arrays._stamp
    cut = lambda opened: (look(opened), os.truncate(file, 5_000))[0]  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        if early:
            os.truncate(file, 5_000)
        else:
            patch.setattr(arrays, "_stamp", cut)
        with pytest.raises(BadInput, match=r"x\.npy: changed while it was read"):
            stored.rows(np.arange(ROWS))


def folder(path: Path, count: int = 120) -> Path:
    """Recordings as tables in folders of two classes, one of which is small."""
    for i in range(count):
        file = path / ("rare" if i < 4 else "usual") / f"r{i:03}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("t,v\n" + "".join(f"{k},{(i * k) % 17}.5\n" for k in range(12)))
    return path


def test_recordings_of_a_folder_are_taken_evenly_and_some_of_each_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "LEAST_PART", 20)
    whole = folder(tmp_path / "recordings")
    some = FilePart.of(whole, LayoutSpec(), tmp_path / "data", 0.003)
    assert some is not None
    assert 20 <= some.rows < some.whole == 120
    assert some.text == f"{some.rows} of 120 recordings of the folder are read, evenly over it"
    read, every = read_sequences(some.file), read_sequences(whole)
    assert set(read.labels) == {"rare", "usual"}
    assert set(read.ids) < set(every.ids)
    assert FilePart.of(whole, LayoutSpec(), tmp_path / "data", 0.003) == some
    assert FilePart.of(whole, LayoutSpec(), tmp_path / "data", 1_000.0) is None


def test_a_table_of_labels_may_name_recordings_that_a_part_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "LEAST_PART", 20)
    whole = folder(tmp_path / "recordings")
    for i, file in enumerate(sorted(whole.rglob("*.csv"))):
        file.rename(whole / f"s{i:03}.csv")
    rows = "".join(f"s{i:03}.csv,{'ab'[i % 2]}\n" for i in range(120))
    (whole / "labels.csv").write_text(f"file,label\n{rows}")
    some = FilePart.of(whole, LayoutSpec(), tmp_path / "data", 0.003)
    assert some is not None
    read = read_sequences(some.file)
    assert len(read) == some.rows < 120
    assert set(read.labels) == {"a", "b"}, "of classes that take turns none is missed"
    assert list(read.labels) == ["ab"[int(name[1:4]) % 2] for name in read.ids]
    (whole / "labels.csv").write_text(f"file,label\n{rows}nobody.csv,a\n")
    assert FilePart.of(whole, LayoutSpec(), tmp_path / "data", 0.003) is None, "its reader says what is wrong"


@pytest.mark.parametrize(
    ("names", "recordings"),
    [
        (["a/1.wav", "a/2.wav", "labels.csv", "notes.md"], {"a/1.wav": ["a/1.wav"], "a/2.wav": ["a/2.wav"]}),
        (["1.hea", "1.dat", "1.atr", "RECORDS"], {"1.hea": ["1.hea", "1.dat", "1.atr"]}),
        (["a.edf", "b.edf"], {}),
        (["a.png", "b.wav"], {}),
        (["a/model.safetensors", "b.wav"], {}),
        (["a.txt", "b.csv", "c.csv"], {}),
    ],
)
def test_files_that_belong_together_stay_together(names: list[str], recordings: dict[str, list[str]]) -> None:
    assert recordings_of(names)[0] == recordings


def test_a_link_that_leads_out_of_a_folder_is_never_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "LEAST_PART", 20)
    whole = folder(tmp_path / "recordings")
    (tmp_path / "secret.csv").write_text("t,v\n1,2\n2,3\n")
    for file in whole.rglob("r1*.csv"):
        file.unlink()
        file.symlink_to(tmp_path / "secret.csv")
    assert FilePart.of(whole, LayoutSpec(), tmp_path / "data", 0.003) is None


def test_a_table_of_labels_beside_recordings_of_another_form_hides_none_of_them() -> None:
    names = [*(f"r{i}.json" for i in range(5)), "labels.csv"]
    recordings, tables = recordings_of(names)
    assert sorted(recordings) == names[:5]
    assert tables == ["labels.csv"]


def test_a_disk_without_room_for_the_part_is_said_and_not_taken_for_room_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "rows.json")

    file = table(tmp_path / "rows.csv")
    monkeypatch.setattr(part, "publish", full)
    with pytest.raises(OSError, match="No space left"):
        FilePart.of(file, LayoutSpec(), tmp_path / "data", 0.03)
