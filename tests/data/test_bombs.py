"""Few bytes that stand for gigabytes: refused in words, by their sizes, before anything of them is made."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from headstart.data import read_sequences
from headstart.data.parquet_footer import column_chunks
from headstart.data.sizes import check_arrow, size_of
from headstart.errors import BadInput

ROWS = 2_000
LONG = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int32)), pa.array(["x" * 4_000_000]))
LABELS = pa.array(["a", "b"] * (ROWS // 2))
LARGE = "unpacks to more than 134,217,728 bytes; give it in parts"


def refused(path: Path, message: str) -> None:
    """The file is refused in these words, and less than 300 MB of Python's memory were taken for it."""
    tracemalloc.start()
    with pytest.raises(BadInput, match=message):
        read_sequences(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3e8
    assert pa.total_allocated_bytes() < 3e8


def test_a_dictionary_of_one_long_text_that_thousands_of_rows_name_is_refused(tmp_path: Path) -> None:
    table = pa.table({"text": LONG, "label": LABELS})
    pa.parquet.write_table(table, tmp_path / "kept.parquet")
    pa.parquet.write_table(table, tmp_path / "plain.parquet", store_schema=False)
    pa.feather.write_feather(table, tmp_path / "kept.feather")
    for name in ("kept.parquet", "plain.parquet", "kept.feather"):
        assert (tmp_path / name).stat().st_size < 200_000
        refused(tmp_path / name, LARGE)


def test_a_text_that_each_row_has_but_for_its_end_is_refused(tmp_path: Path) -> None:
    texts = ["x" * 2_000_000 + str(i) for i in range(100)]
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    pa.parquet.write_table(pa.table({"text": texts, "label": LABELS[:100]}), tmp_path / "f.parquet", **options)
    del texts
    refused(tmp_path / "f.parquet", LARGE)


def test_lists_of_millions_of_equal_numbers_are_refused(tmp_path: Path) -> None:
    numbers = pa.array(np.zeros(20_000_000, np.float32))
    lists = pa.ListArray.from_arrays(pa.array([0, 10_000_000, 20_000_000], pa.int32()), numbers)
    pa.parquet.write_table(pa.table({"values": lists, "label": ["a", "b"]}), tmp_path / "f.parquet")
    pa.feather.write_feather(pa.table({"values": lists}), tmp_path / "f.feather", compression="zstd")
    with pa.OSFile(str(tmp_path / "g.feather"), "wb") as file:
        packed = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(file, pa.schema({"values": lists.type}), options=packed) as stream:
            stream.write_table(pa.table({"values": lists}))
    del lists, numbers
    for name in ("f.parquet", "f.feather", "g.feather"):
        assert (tmp_path / name).stat().st_size < 20_000
        refused(tmp_path / name, LARGE)


def test_packed_buffers_are_counted_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "f.feather"
    pa.feather.write_feather(pa.table({"x": np.zeros(20_000_000)}), path, compression="zstd")
    before = pa.total_allocated_bytes()
    with pytest.raises(BadInput, match=LARGE):
        check_arrow(path)
    assert pa.total_allocated_bytes() - before < 10**6
    pa.feather.write_feather(pa.table({"x": np.zeros(1_000)}), path, compression="zstd")
    check_arrow(path)
    path.write_bytes(b"ARROW1" + b"x" * 100)
    check_arrow(path)


def test_rows_without_number_that_take_no_byte_are_refused(tmp_path: Path) -> None:
    table = pa.table({"none": pa.nulls(20_000_000)})
    pa.feather.write_feather(table, tmp_path / "f.feather", compression="uncompressed")
    refused(tmp_path / "f.feather", LARGE)


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines_with_another_key_in_each_row_are_refused(tmp_path: Path, packed: bool) -> None:
    text = "".join(f'{{"label": "a", "k{i}": 1}}\n' for i in range(5_000)).encode()
    path = tmp_path / ("f.jsonl.gz" if packed else "f.jsonl")
    path.write_bytes(gzip.compress(text) if packed else text)
    refused(path, "its first 1,000 rows have 1,001 different keys, of which each has few; give every row the same keys")


def test_json_lines_of_many_keys_that_every_row_has_are_read(tmp_path: Path) -> None:
    row = json.dumps({"label": "a", **{f"k{i}": i for i in range(500)}})
    (tmp_path / "f.jsonl").write_text("\n".join([row, row.replace('"a"', '"b"')] * 20))
    assert len(read_sequences(tmp_path / "f.jsonl")) == 40


def test_an_array_whose_items_have_no_byte_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "s0.npy", np.zeros(0, "S1"))
    content = (tmp_path / "s0.npy").read_bytes()
    for kind in (b"|S0", b"<U0"):
        (tmp_path / "s0.npy").write_bytes(content.replace(b"|S1", kind))
        refused(tmp_path / "s0.npy", r"holds values of type .*0; give numbers or texts")


def test_the_size_of_an_array_is_that_of_its_numbers_and_texts() -> None:
    assert size_of(pa.array([1.0, 2.0])) == 16
    assert size_of(pa.array(["ab", None, "c"])) == 3 + 3 * 64
    assert size_of(LONG) == ROWS * (4_000_000 + 64)
    assert size_of(pa.chunked_array([LONG, LONG])) == 2 * size_of(LONG)
    assert size_of(pa.array([[1.0, 2.0], None, [3.0]])) == 3 * 8 + 3 * 8
    assert size_of(pa.array([["ab"], ["c"]])) == 2 * 8 + 3 + 2 * 64
    assert size_of(pa.array(["ab", "c"]).cast(pa.string_view())) == 3 + 2 * 64
    views = pa.ListViewArray.from_arrays(
        pa.array([0] * 5, pa.int32()), pa.array([3] * 5, pa.int32()), pa.array([1.0] * 3)
    )
    assert size_of(views) == 5 * 8 + 15 * 8
    assert size_of(pa.nulls(10)) == 80
    assert size_of(pa.array([{"a": 1}])) >= 8


def test_a_text_file_of_very_many_columns_is_refused_with_another_form(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("\n".join(["label," + ",".join("1" * 100_001)] * 3))
    refused(tmp_path / "wide.csv", r"has 100,002 columns, and at most 100,000 are read; write a row for each position")


def test_a_footer_is_read_as_arrow_reads_it_and_one_that_contradicts_itself_ends_no_process(tmp_path: Path) -> None:
    """Arrow counts how many values have each level of a list; where their number is wrong it ends the process."""
    rows = pa.table({"x": [[1.0, 2.0], [3.0], []], "label": ["a", "b", "a"], "inner": [{"y": 1}, {"y": 2}, None]})
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(rows, path, row_group_size=2)
    meta = pa.parquet.ParquetFile(path).metadata
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    assert [(c.path, c.texts, c.deltas, c.values, c.size) for c in column_chunks(path)] == [
        (
            c.path_in_schema,
            c.physical_type == "BYTE_ARRAY",
            "DELTA_BYTE_ARRAY" in c.encodings,
            c.num_values,
            c.total_uncompressed_size,
        )
        for c in columns
    ]
    whole = path.read_bytes()
    for at in range(len(whole) - int.from_bytes(whole[-8:-4], "little") - 8, len(whole) - 8, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            read_sequences(path)
        except BadInput as error:
            assert "a.parquet" in str(error)  # noqa: PT017
