"""Rows of an image are found whatever a position is made of: a pixel, neighbours of a row, a tile."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstart.tasks.digits import DigitsSpec
from headstart.tasks.images import pixels_of, positions_of_a_row
from headstart.tasks.listops import ListOpsSpec
from headstart.tasks.pathfinder import PathfinderSpec
from headstart.tasks.task import TaskSpec, open_task


@pytest.mark.parametrize(
    ("spec", "row"),
    [
        (DigitsSpec(), 8),
        (DigitsSpec(patch=4), 2),
        (PathfinderSpec(size=16, contour_length=6, train=20, val=20, test=20, patch=4), 4),
        (ListOpsSpec(min_length=10, max_length=30, train=20, val=20, test=20), 0),
    ],
    ids=["pixels", "quarters", "fours of sixteen", "no picture"],
)
def test_a_row_has_as_many_positions_as_come_before_the_next_line(spec: TaskSpec, row: int, tmp_path: Path) -> None:
    spec.prepare(tmp_path)
    assert positions_of_a_row(open_task(spec, tmp_path)) == row


def test_a_position_makes_its_own_pixels_alone(tmp_path: Path) -> None:
    digits = open_task(DigitsSpec(), tmp_path)
    assert digits.picture is not None
    pixels = pixels_of(digits.picture, digits.val.inputs(0), 19)
    assert pixels.shape == (8, 8)
    assert pixels.sum() == 1
    assert pixels[2, 3]
