"""A large table is read in blocks, as it is read at once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.data import Sequences, read_blocks, read_sequences
from headstart.errors import BadInput

SIZE = 2_000
"""Bytes of a block here."""


def lines(rows: int = 200, **cells: str) -> list[str]:
    """Of a wide table with gaps; `cells` are r<row>_<column>=text."""
    rng = np.random.default_rng(0)
    out = [["id", "kind", "t0", "t1", "t2", "t3"]]
    out += [[f"s{i}", "ab"[i % 2], *(f"{x:.4f}" for x in rng.normal(size=4))] for i in range(rows)]
    for i in range(1, rows, 7):
        out[i][3] = ""
    for name, text in cells.items():
        row, _, column = name[1:].partition("_")
        out[1 + int(row)][out[0].index(column)] = text
    return [",".join(row) for row in out]


def blocks(path: Path, text: list[str], **settings: Any) -> tuple[list[Sequences], Sequences]:
    """(the blocks of a file, all of it), by the layout of its first rows."""
    first = path.with_name("first.csv")
    first.write_text("\n".join(lines(20)) + "\n")
    layout = read_sequences(first).layout.fixed().model_copy(update=settings)
    content = ("\n".join(text) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return list(read_blocks(path, layout, SIZE)), read_sequences(path, layout)


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz"])
def test_blocks_one_after_another_are_the_file(name: str, tmp_path: Path) -> None:
    parts, whole = blocks(tmp_path / name, lines(2_000))
    assert len(parts) > 5
    assert [identifier for part in parts for identifier in part.ids or ()] == list(whole.ids or ())
    assert [label for part in parts for label in part.labels] == list(whole.labels)
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), whole.values)
    seen = [np.ones(part.values.shape, bool) if part.observed is None else part.observed for part in parts]
    np.testing.assert_array_equal(np.concatenate(seen), whole.observed)
    assert parts[-1].places.of(len(parts[-1]) - 1) == whole.places.of(1_999) == f"{tmp_path / name}:2001"


@pytest.mark.parametrize("cell", ['"s150"', "", "s150\r"])
def test_what_blocks_cannot_hold_is_read_at_once_from_there_on(cell: str, tmp_path: Path) -> None:
    text = lines(r150_id=cell) if cell else [*lines()[:150], "", *lines()[150:]]
    try:
        parts, whole = blocks(tmp_path / "new.csv", text)
    except BadInput:  # as the whole file is refused
        assert cell.endswith("\r")
        return
    assert [identifier for part in parts for identifier in part.ids or ()] == list(whole.ids or ())
    assert 1 < len(parts) < 6


def test_mistakes_of_all_blocks_are_named_as_without_blocks(tmp_path: Path) -> None:
    wrong = {"r5_t1": "bad", "r180_t2": "worse"}
    with pytest.raises(BadInput) as at_once:
        blocks(tmp_path / "new.csv", lines(**wrong), rate=None)
    assert "new.csv:7 column 't1': 'bad' is not a number" in str(at_once.value)
    assert "new.csv:182 column 't2': 'worse' is not a number" in str(at_once.value)


def test_a_later_row_of_another_width_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"new\.csv:182: has 7 cells, the header has 6"):
        blocks(tmp_path / "new.csv", lines(r180_t2="1,5"))


def test_a_long_table_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("id,time,x\n" + "".join(f"s{i // 20},{i % 20},{i}.5\n" for i in range(400)))
    layout = read_sequences(path).layout.fixed()
    assert [len(part) for part in read_blocks(path, layout, 100)] == [20]
