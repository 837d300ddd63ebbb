"""Tables of fixed widths whose columns touch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput

VALUES = np.round(np.random.default_rng(0).normal(size=(20, 6)) * 900 - 600, 2)
LABELS = ["up", "down"] * 10


def _lines(label: bool = True) -> list[str]:
    rows = [f"{i + 1:4d}" + "".join(f"{v:8.2f}" for v in row) for i, row in enumerate(VALUES)]
    return [f"{row} {word:>5}" for row, word in zip(rows, LABELS, strict=True)] if label else rows


HEAD = "  id" + "".join(f"{f'x{k}':>8}" for k in range(6)) + " label"
RULER = "----" + " -------" * 6 + " -----"


@pytest.mark.parametrize("above", [[], [HEAD], [HEAD, RULER], ["Run of 3 May", "", HEAD, RULER]])
def test_columns_that_touch_are_cut_where_the_numbers_of_all_rows_end(above: list[str], tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("\n".join([*above, *_lines()]) + "\n")
    sequences = read_sequences(path)
    np.testing.assert_array_equal(sequences.values.reshape(20, 6), VALUES.astype(np.float32))
    assert sequences.labels == tuple(LABELS)
    assert any("columns of fixed widths that touch" in note for note in sequences.notes)
    again = read_sequences(path, sequences.layout.fixed())
    np.testing.assert_array_equal(again.values, sequences.values)


def test_empty_cells_below_a_line_of_dashes_stay_in_their_columns(tmp_path: Path) -> None:
    lines = [
        HEAD[:-6],
        RULER[:-6],
        *(f"{i + 1:4d}" + "".join(f"{v:8.1f}" for v in row) for i, row in enumerate(VALUES / 10)),
    ]
    lines[5] = lines[5][:12] + " " * 8 + lines[5][20:]
    (tmp_path / "f.txt").write_text("\n".join(lines) + "\n")
    sequences = read_sequences(tmp_path / "f.txt", LayoutSpec(target=""))
    assert sequences.observed is not None
    assert np.argwhere(~sequences.observed.reshape(20, 6)).tolist() == [[3, 1]]


def test_widths_that_nothing_tells_are_refused_and_a_line_of_dashes_is_a_way_out(tmp_path: Path) -> None:
    rows = [f"{abs(row[0]):8.2f}{10 ** (i % 3) * abs(row[1]):<9.3f}{row[2]:8.2f}" for i, row in enumerate(VALUES)]
    path = tmp_path / "f.txt"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(BadInput, match=r"fixed widths that touch .* a line of dashes above the rows"):
        read_sequences(path)
    rows = [f"{abs(row[0]):8.2f}{abs(row[1]):8.2f}{row[2]:8.2f}" for row in VALUES]
    path.write_text("\n".join([" ------- ------- -------", *rows]) + "\n")
    assert read_sequences(path).values.shape == (60, 1)


@pytest.mark.parametrize("cell", ["2024-05-01", "1.5.2024", "10.0.0.1", "1e-5"])
def test_days_and_exponents_are_no_columns_that_touch(cell: str, tmp_path: Path) -> None:
    rows = [f"{cell} {row[0]:.2f} {row[1]:.2f} {row[2]:.2f} {word}" for row, word in zip(VALUES, LABELS, strict=True)]
    (tmp_path / "f.txt").write_text("\n".join(["a x_0 x_1 x_2 label", *rows]) + "\n")
    sequences = read_sequences(tmp_path / "f.txt", LayoutSpec(values=("x_0", "x_1", "x_2")))
    assert sequences.labels == tuple(LABELS)
    assert not any("touch" in note for note in sequences.notes)


@pytest.mark.parametrize(
    "word", [("0.0-0.5", "0.5-1.0"), ("1.1.1.-", "3.4.21.-"), ("v3.4.2", "v3.5.1"), ("10.5-11", "9.5-10.5")]
)
@pytest.mark.parametrize("header", [True, False])
def test_ranges_and_numbers_of_versions_as_classes_are_no_columns_that_touch(
    word: tuple[str, str], header: bool, tmp_path: Path
) -> None:
    rows = [f"{abs(row[0]):8.2f} {row[1]:8.2f} {row[2]:8.2f} {word[i % 2]:>9}" for i, row in enumerate(VALUES)]
    (tmp_path / "f.txt").write_text("\n".join(["a_0 a_1 a_2 class"] * header + rows) + "\n")
    sequences = read_sequences(tmp_path / "f.txt")
    assert sequences.labels == word * 10
    np.testing.assert_array_equal(sequences.values.reshape(20, 3)[:, 1], VALUES[:, 1].astype(np.float32))


def test_a_count_of_rows_below_and_words_with_blanks_leave_a_table_with_a_line_of_dashes_as_it_is(
    tmp_path: Path,
) -> None:
    rows = [
        f"{('New York', 'Rome')[i % 2]:8} {row[0]:8.2f} {row[1]:8.2f} {LABELS[i]:5}" for i, row in enumerate(VALUES)
    ]
    lines = ["city          x_0      x_1 label", "-------- -------- -------- -----", *rows, "", "(20 rows affected)"]
    (tmp_path / "f.txt").write_text("\n".join(lines) + "\n")
    sequences = read_sequences(tmp_path / "f.txt")
    assert sequences.labels == tuple(LABELS)
    np.testing.assert_array_equal(sequences.values.reshape(20, 2), VALUES[:, :2].astype(np.float32))


def test_degrees_north_and_west_that_touch_are_two_columns(tmp_path: Path) -> None:
    rows = [
        f"{row[0]:9.2f}{30 + i * 7 % 20:9.3f}{-170.5 + i * 7 % 20:8.3f} {LABELS[i]:>5}" for i, row in enumerate(VALUES)
    ]
    (tmp_path / "f.txt").write_text("\n".join(rows) + "\n")
    sequences = read_sequences(tmp_path / "f.txt")
    np.testing.assert_allclose(sequences.values.reshape(20, 3)[:, 2], np.arange(20) * 7 % 20 - 170.5)


def test_a_line_of_dashes_at_the_end_alone_is_no_ruler(tmp_path: Path) -> None:
    rows = [f"{row[0]:8.2f}{row[1]:8.2f}{row[2]:8.2f} {LABELS[i]:>5}" for i, row in enumerate(VALUES[:12])]
    (tmp_path / "f.txt").write_text("\n".join([*rows, "---- ---- ----"]) + "\n")
    assert len(read_sequences(tmp_path / "f.txt")) == 12
