"""Columns of structs, maps and objects: refused with what they hold and a way out, whoever names them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from support.made_tables import read, why, wide, write

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


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet", "npz", "json"])
def test_a_page_of_the_web_and_a_pointer_of_git_are_no_data_whatever_they_are_called(
    tmp_path: Path, ending: str
) -> None:
    page = write(tmp_path / f"page.{ending}", "<!DOCTYPE html>\n<html><body>404: no such file</body></html>\n")
    assert why(page).startswith(f"page.{ending}: is a page of the web (HTML), as a failed download leaves")
    pointer = write(tmp_path / f"lfs.{ending}", "version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 9\n")
    assert why(pointer).endswith("and is not the file; `git lfs pull` fetches it")


def test_a_setting_that_nothing_of_a_table_obeys_is_refused_and_never_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(wide()))
    assert why(path, step=5).startswith("f.csv: step: is of windows, and none are cut; give --window with it")
    assert why(path, window_label="end").startswith("f.csv: window_label: is of windows")
    assert len(read(path, window=3, step=2)) > 12
