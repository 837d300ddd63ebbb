"""Files with far more columns than rows: their cells are read in blocks of columns, to the same numbers and mistakes."""

from pathlib import Path

import numpy as np
import pytest

from headstart.data import Sequences, read_sequences
from headstart.data.csv import CELL_ROWS, LEAST_BLOCK
from headstart.data.layout import LayoutSpec
from headstart.data.part import FilePart
from headstart.data.parts import CELLS_AT_ONCE, MANY_CELLS
from headstart.errors import BadInput

ROWS, COLUMNS = 40, 9_000


def _write(path: Path, values: np.ndarray) -> Path:
    lines = [",".join([*(f"t{i}" for i in range(values.shape[1])), "label"])]
    for i, row in enumerate(values):
        cells = [f"{value:.3f}" for value in row]
        lines.append(",".join([*cells, f"c{i % 2}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_cells_of_many_columns_are_the_numbers_that_they_say(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).round(3)
    assert values.size > MANY_CELLS
    assert values.size > CELLS_AT_ONCE
    assert COLUMNS * CELL_ROWS > LEAST_BLOCK
    sequences = read_sequences(_write(tmp_path / "wide.csv", values))
    assert len(sequences) == ROWS
    assert sequences.layout.target == "label"
    np.testing.assert_array_equal(np.asarray(sequences.values).reshape(ROWS, COLUMNS), values.astype(np.float32))


def test_a_wrong_cell_among_many_columns_is_named_by_its_row_and_column(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).round(3)
    path = _write(tmp_path / "wide.csv", values)
    lines = path.read_text().splitlines()
    cells = lines[30].split(",")
    cells[7_001] = "oops"
    lines[30] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput, match=r"31.*t7001.*oops"):
        read_sequences(path)


def test_a_file_of_many_columns_is_timed_once_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.data import part

    lines, read = list[int](), part.read_sequences

    def counted(path: Path, layout: LayoutSpec) -> Sequences:
        lines.append(len(path.read_bytes().splitlines()))
        return read(path, layout)

    for name, size in (("WHOLE_FILE", 1), ("FIRST_BYTES", 1 << 17), ("LEAST_PART", 1)):
        monkeypatch.setattr(part, name, size)
    monkeypatch.setattr(part, "read_sequences", counted)
    path = _write(tmp_path / "wide.csv", np.random.default_rng(0).normal(size=(ROWS, 7_500)).round(3))
    assert FilePart.of(path, LayoutSpec(), tmp_path, 10**6) is None
    assert len(lines) == 1
    assert part.HEAD_ROWS <= lines[0] < ROWS
    some = FilePart.of(path, LayoutSpec(), tmp_path, 1e-3)
    assert some is not None
    assert some.rows < some.whole == ROWS
