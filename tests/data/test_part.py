"""A part of a large file, read in place of all of it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from headstart.data import LayoutSpec, part, read_sequences
from headstart.data.part import FilePart
from headstart.limits import FreeMemory

ROWS = 3_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of kilobytes are large here, and to read a beginning takes a hundredth of a second."""
    for name, size in (("WHOLE_FILE", 1 << 14), ("FIRST_BYTES", 1 << 11), ("TIMED_BYTES", 1 << 13)):
        monkeypatch.setattr(part, name, size)
    monkeypatch.setattr(part, "LEAST_PART", 100)
    monkeypatch.setattr(part, "PART_BYTES", 1 << 12)
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
    assert FilePart.of(tmp_path, LayoutSpec(), tmp_path / "data", 0.03) is None


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
