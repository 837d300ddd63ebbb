"""A large table is read in blocks, as it is read at once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
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


@pytest.mark.parametrize("last", ["", '"s200",a,1,2,3,4', "\n\n"])
def test_notes_count_each_row_once_though_the_last_blocks_are_read_at_once(last: str, tmp_path: Path) -> None:
    parts, whole = blocks(tmp_path / "new.csv", [*lines(**{f"r{i}_t3": "" for i in range(0, 200, 10)}), last])
    assert len(parts) > 2
    counts = [int(note.split()[0]) for part in parts for note in part.notes if "end in missing values" in note]
    assert sum(counts) == 20
    assert whole.notes[-1].startswith("20 sequences end in missing values")
    assert [identifier for part in parts for identifier in part.ids or ()] == list(whole.ids or ())


def test_a_block_may_begin_with_what_else_marks_the_beginning_of_a_file(tmp_path: Path) -> None:
    text = lines()
    first = "\n".join(text).encode()[:SIZE].count(b"\n")
    parts, whole = blocks(tmp_path / "new.csv", lines(**{f"r{first - 1}_id": "\ufeffs"}))
    ids = [identifier for part in parts for identifier in part.ids or ()]
    assert ids == list(whole.ids or ())
    assert ids[first - 1] == "\ufeffs"


def test_an_empty_line_before_the_header_makes_it_no_row(tmp_path: Path) -> None:
    parts, whole = blocks(tmp_path / "new.csv", ["", *lines()])
    assert [identifier for part in parts for identifier in part.ids or ()] == list(whole.ids or ())
    assert whole.ids == tuple(f"s{i}" for i in range(200))
    assert parts[0].places.of(0) == f"{tmp_path / 'new.csv'}:3"


def test_groups_that_begin_with_a_later_block_are_refused_as_at_once(tmp_path: Path) -> None:
    text = [f"{line},{'group' if i == 0 else ''}" for i, line in enumerate(lines())]
    first = "\n".join(text).encode()[:SIZE].count(b"\n")
    path = tmp_path / "new.csv"
    parts, whole = blocks(path, text, group="group")
    assert len(parts) > 2
    path.write_text("\n".join([*text[:first], *(f"{line}g1" for line in text[first:])]) + "\n")
    with pytest.raises(BadInput, match=r"new\.csv:2 column 'group': the group is empty"):
        list(read_blocks(path, whole.layout.spec, SIZE))


def test_mistakes_of_all_blocks_are_named_as_without_blocks(tmp_path: Path) -> None:
    wrong = {"r5_t1": "bad", "r180_t2": "worse"}
    with pytest.raises(BadInput) as at_once:
        blocks(tmp_path / "new.csv", lines(**wrong), rate=None)
    assert "new.csv:7 column 't1': 'bad' is not a number, like 'worse' (2 such rows; --na" in str(at_once.value)


def test_a_later_row_of_another_width_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"new\.csv:182: has 7 cells, the header has 6"):
        blocks(tmp_path / "new.csv", lines(r180_t2="1,5"))


def test_a_long_table_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("id,time,x\n" + "".join(f"s{i // 20},{i % 20},{i}.5\n" for i in range(400)))
    layout = read_sequences(path).layout.fixed()
    assert [len(part) for part in read_blocks(path, layout, 100)] == [20]


def rows_of(count: int, **cells: Any) -> list[dict[str, Any]]:
    """Of a table with gaps; `cells` are r<row>_<column>=value, None to leave the key out."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"s{i}", "kind": "ab"[i % 2], **{f"t{j}": x for j, x in enumerate(rng.normal(size=4).round(4))}}
        for i in range(count)
    ]
    for i in range(1, count, 7):
        rows[i]["t1"] = None
    for name, value in cells.items():
        row, _, column = name[1:].partition("_")
        rows[int(row)][column] = value
    return rows


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """These rows as Parquet, or as JSON lines."""
    if path.suffix == ".parquet":
        names = list(dict.fromkeys(key for row in rows for key in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        pyarrow.parquet.write_table(table, path, row_group_size=300)
        return path
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def same(parts: list[Sequences], whole: Sequences) -> None:
    """Blocks one after another are the whole."""
    assert [identifier for part in parts for identifier in part.ids or ()] == list(whole.ids or ())
    assert [label for part in parts for label in part.labels] == list(whole.labels)
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), whole.values)
    np.testing.assert_array_equal(np.concatenate([part.lengths for part in parts]), whole.lengths)
    seen = [np.ones(part.values.shape, bool) if part.observed is None else part.observed for part in parts]
    assert whole.observed is not None
    np.testing.assert_array_equal(np.concatenate(seen), whole.observed)
    last = len(parts[-1]) - 1
    assert parts[-1].places.of(last) == whole.places.of(len(whole) - 1)


@pytest.mark.parametrize("name", ["new.jsonl", "new.jsonl.gz", "new.parquet"])
def test_json_lines_and_parquet_are_read_in_blocks(name: str, tmp_path: Path) -> None:
    layout = read_sequences(written(tmp_path / f"first-{name}", rows_of(20))).layout.fixed()
    path = written(tmp_path / name, rows_of(2_000))
    parts = list(read_blocks(path, layout, SIZE))
    assert len(parts) > 5
    assert max(map(len, parts)) < 200
    same(parts, read_sequences(path, layout))


@pytest.mark.parametrize("name", ["new.jsonl", "new.parquet"])
def test_sequences_in_one_cell_are_read_in_blocks_and_lists_in_lists_at_once(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    flat = [
        {"id": f"s{i}", "x": [None, *rng.normal(size=int(n)).round(3)]} for i, n in enumerate(rng.integers(3, 9, 500))
    ]
    layout = read_sequences(written(tmp_path / f"first-{name}", flat[:20])).layout.fixed()
    path = written(tmp_path / name, flat)
    parts = list(read_blocks(path, layout, SIZE))
    assert len(parts) > 3
    same(parts, read_sequences(path, layout))
    deep = [{**row, "x": [[x or 0.0, 1.0] for x in row["x"]]} for row in flat]
    layout = read_sequences(written(tmp_path / f"first-{name}", deep[:20])).layout.fixed()
    assert [len(part) for part in read_blocks(written(path, deep), layout, SIZE)] == [500]


@pytest.mark.parametrize("name", ["new.jsonl", "new.parquet"])
def test_a_column_that_begins_later_is_read_at_once_from_there_on(name: str, tmp_path: Path) -> None:
    layout = read_sequences(written(tmp_path / f"first-{name}", rows_of(20))).layout.fixed()
    rows = [row | {"t2": None} if i < 700 else row for i, row in enumerate(rows_of(900))]
    path = written(tmp_path / name, rows)
    parts = list(read_blocks(path, layout, SIZE))
    assert len(parts) > 1
    same(parts, read_sequences(path, layout))


@pytest.mark.parametrize(("name", "where"), [("new.jsonl", "new.jsonl:182"), ("new.parquet", "new.parquet, row 182")])
def test_what_is_wrong_in_a_later_block_is_refused_with_its_place(name: str, where: str, tmp_path: Path) -> None:
    layout = read_sequences(written(tmp_path / f"first-{name}", rows_of(20))).layout.fixed()
    rows = [{**row, "t2": str(row["t2"])} for row in rows_of(200, r181_t2="bad")]
    with pytest.raises(BadInput, match=f"{where} column 't2': 'bad' is not a number"):
        list(read_blocks(written(tmp_path / name, rows), layout, SIZE))


def test_keys_that_some_objects_lack_are_gaps_as_at_once(tmp_path: Path) -> None:
    layout = read_sequences(written(tmp_path / "first.jsonl", rows_of(20))).layout.fixed()
    rows = [
        {key: x for key, x in row.items() if x is not None and (key != "kind" or i > 300)}
        for i, row in enumerate(rows_of(400))
    ]
    path = written(tmp_path / "new.jsonl", rows)
    same(list(read_blocks(path, layout, SIZE)), read_sequences(path, layout))
