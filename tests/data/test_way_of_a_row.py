"""The way of a row: how many files of ours hold a cell of a CSV file on its way to the batch that a model is given."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support.made_tables import wide, write

import headstart
from headstart.sequence import collate
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import open_task

ROOT = Path(headstart.__file__).parent
CELL = 31337.25
"""In the file; standardised it is the largest value of all."""
AT_THE_START, FURTHER = 19, 16
"""Files that hold a cell of the first rows, by which the layout is told, and of later ones, at most."""


def holds(value: Any, numbers: list[float], depth: int = 6) -> bool:
    """Whether the cell is in this value: as text, as bytes, or as one of the numbers."""
    if depth == 0:
        return False
    if isinstance(value, str):
        return str(CELL) in value
    if isinstance(value, bytes):
        return str(CELL).encode() in value
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isin(value, numbers).any())
    if hasattr(value, "to_pylist"):
        return holds(value.to_pylist(), numbers, depth)
    if isinstance(value, dict):
        return any(holds(item, numbers, depth - 1) for item in value.values())
    if isinstance(value, (list, tuple, set)):
        return any(holds(item, numbers, depth - 1) for item in value)
    return dataclasses.is_dataclass(value) and holds(vars(value), numbers, depth - 1)


def largest(folder: Path) -> np.float32:
    """The largest value of all batches of the file."""
    task = open_task(OwnSpec(file="f.csv"), folder)
    splits = [task.split(name) for name in ("train", "val", "test")]
    return np.float32(max(float(collate(split, np.arange(len(split))).inputs.max()) for split in splits))


@pytest.mark.parametrize(
    ("rows", "row", "most"), [(20, 4, AT_THE_START), pytest.param(600, 500, FURTHER, marks=pytest.mark.slow)]
)
def test_a_cell_of_a_csv_file_passes_few_files_on_its_way_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, row: int, most: int
) -> None:
    lines = wide(count=rows)
    lines[row] = ",".join([*lines[row].split(",")[:-1], str(CELL)])
    write(tmp_path / "f.csv", "\n".join(lines))
    numbers = [CELL, float(largest(tmp_path))]
    passed: list[str] = []

    def watch(frame: FrameType, event: str, result: object) -> None:
        path = Path(frame.f_code.co_filename)
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        if event in ("call", "return") and name and name not in passed:
            arguments = list(frame.f_locals.values()) if event == "call" else []
            if holds(result, numbers) or holds(arguments, numbers):
                passed.append(name)

    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    sys.setprofile(watch)
    try:
        largest(tmp_path)
    finally:
        sys.setprofile(None)
    assert "data/sequences.py" in passed
    assert len(passed) <= most, " ".join(passed)
