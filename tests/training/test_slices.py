"""The accuracy of parts of the test set: counted position by position, recorded with a stage, shown by arm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import headstart
from headstart.report.tables.slices import slice_tables
from headstart.sequence import IGNORE, Batch
from headstart.training.evaluate import SliceCounts


def test_right_answers_are_counted_for_each_number_of_a_slice_over_batches() -> None:
    counts = SliceCounts()
    inputs, valid = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool)
    for flip in (0, 1):
        target = torch.tensor([[0, IGNORE, 1], [1, 1, IGNORE]])
        answers = torch.tensor([[0, 0, 0], [1, flip, 0]])
        output = torch.nn.functional.one_hot(answers, 2).float()
        numbers = {"length": torch.tensor([[7, 7, 7], [9, 9, 9]]), "half": torch.tensor([[1, 5, 2], [1, 2, 5]])}
        counts.add(output, Batch(inputs, valid, torch.arange(2), target), numbers)
    assert counts.scores() == {
        "accuracy[half=1]": 1.0,
        "accuracy[half=2]": 0.25,
        "accuracy[length=7]": 0.5,
        "accuracy[length=9]": 0.75,
    }
    assert SliceCounts().scores() == {}


def test_a_stage_records_its_slices_and_the_report_has_a_table_of_each(tmp_path: Path) -> None:
    task = {"kind": "mqar", "vocabulary": 32, "mixture": [[16, 2], [32, 4]], "train": 40, "val": 16, "test": 24}
    table = {
        "name": "sliced",
        "stages": {"train": {"objective": {"kind": "classify"}, "budget": {"steps": 2}}},
        "columns": {"mqar": {"task": task}},
        "arms": {"plain": {"model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}}}},
        "axes": {"seed": [0, 1]},
        "report": {"baselines": False},
    }
    results = headstart.run(table, store=tmp_path / "runs", data=tmp_path)
    (row,) = results.table
    assert list(row.slices)[-4:] == ["length=16", "length=32", "pairs=2", "pairs=4"]
    assert row.test is not None
    whole = (row.slices["pairs=2"].mean * 2 * 12 + row.slices["pairs=4"].mean * 4 * 12) / (6 * 12)
    assert row.test.mean == pytest.approx(whole)
    tables = slice_tables(results)
    assert list(tables) == ["slices-distance-from", "slices-length", "slices-pairs"]
    assert tables["slices-length"].title == "Test accuracy by length"
    assert tables["slices-length"].lines[0].cells["length=32"].values == {"length=32": row.slices["length=32"].mean}
    assert results.rows()[0]["slices"]["length=16"] == row.slices["length=16"].mean
    tidy = [line for line in results.scores() if line["metric"] == "accuracy[length=16]"]
    assert [(line["split"], line["seed"]) for line in tidy] == [("test", 0), ("test", 1)]
    page = results.write(tmp_path / "report")
    assert "Test accuracy by pairs" in page.read_text("utf-8")
