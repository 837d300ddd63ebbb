"""Columns of structs, maps and objects: refused with what they hold and a way out, whoever names them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from support.made_tables import read, why, write

PAIRS = [{"I": [1.0, 2.0], "II": [3.0, 4.0]}] * 4
KINDS: dict[str, Any] = {
    "struct<I: list<item: double>, II: list<item: double>>": pa.array(PAIRS),
    "list<item: struct<t: double, v: double>>": pa.array([[{"t": 0.0, "v": 1.0}, {"t": 1.0, "v": 2.0}]] * 4),
    "map<string, double>": pa.array([[("a", 1.0), ("b", 2.0)]] * 4, pa.map_(pa.string(), pa.float64())),
    "list<item: list<item: list<item: double>>>": pa.array([[[[1.0]]]] * 4),
}
WAY = "which are not read; write a column for each channel, whose cells are lists of numbers"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({}, "no column looks like a sequence (wide), and "),
        ({"values": ("ecg",)}, "values: "),
        ({"target": "ecg"}, "target: "),
        ({"id": "ecg"}, "id: "),
    ],
)
def test_values_of_another_type_are_refused_with_a_way_out(
    tmp_path: Path, kind: str, settings: dict[str, Any], start: str
) -> None:
    path = tmp_path / "f.parquet"
    pyarrow.parquet.write_table(pa.table({"state": list("abab"), "ecg": KINDS[kind]}), path)
    shown = kind[: kind.index("<") + 1]
    assert why(path, **settings).startswith(f"f.parquet: {start}column 'ecg' holds values of type {shown}")
    assert WAY in why(path, **settings)


def test_the_keys_of_objects_in_json_lines_are_named_where_the_object_is(tmp_path: Path) -> None:
    line = '{"state": "a", "acc": {"x": [1, 2, 3], "y": [4, 5, 6]}}\n'
    message = why(write(tmp_path / "f.jsonl", 4 * line), values=("acc",))
    assert message == "f.jsonl: values: no column 'acc'; there are: state, x, y"
    assert len(read(tmp_path / "f.jsonl", values=("x", "y"))) == 4
