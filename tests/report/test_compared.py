"""All arms and columns in one figure, with the paper's cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.made_up import usual
from support.papers import made
from test_beside import run

from headstart.report.compared import compared, stem_of, told

WIDE = {"a": "digits", "b": "mnist", "c": "digits"}


def points(figure: Any) -> list[tuple[float, float]]:
    """Where every mark stands."""
    [axes] = figure.axes
    return [
        (float(x), float(y))
        for line in axes.get_lines()
        if line.get_marker() not in ("None", None, "|", "_")
        for x, y in zip(np.atleast_1d(line.get_xdata()), np.atleast_1d(line.get_ydata()), strict=True)
    ]


def hollow(figure: Any) -> list[float]:
    [axes] = figure.axes
    return [float(line.get_ydata()[0]) for line in axes.get_lines() if line.get_markerfacecolor() == "none"]


def test_every_arm_stands_at_its_test_score_on_every_column() -> None:
    results, _ = run(columns=WIDE)
    figure = compared(results)
    assert figure is not None
    there = {round(y, 6) for _, y in points(figure)}
    assert {round(row.test.mean, 6) for row in results.table if row.test} <= there
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["a", "b", "c"]


def test_the_papers_cells_are_hollow_and_in_our_unit() -> None:
    results, paper = run(columns=WIDE)
    figure = compared(results)
    assert figure is not None
    wanted = [
        cell.value
        for row in paper.rows
        if row.arm in results.arms and row.quantity in ("test", "train")
        for column, cell in row.cells.items()
        if column in WIDE and cell.value is not None
    ]
    assert sorted(hollow(figure)) == pytest.approx(sorted(wanted))
    assert told(results) == (
        "Test score of each arm, mean and one standard error over seeds; small marks are train "
        "scores; a hollow mark is the paper's number, of its own data and sizes."
    )


def test_a_paper_without_cells_of_what_was_run_is_not_spoken_of() -> None:
    for paper in (
        made(rows=[], heads={}, claims=[]),
        made(heads={"d": "D"}, claims=[], rows=[{"row": "S", "arm": "scratch", "cells": {"d": "1.0"}}]),
    ):
        results, _ = run(paper, columns=WIDE)
        figure = compared(results)
        assert figure is not None
        assert not hollow(figure)
        assert "the paper" not in told(results)


def test_few_columns_are_rows_of_dots() -> None:
    results, _ = run()
    figure = compared(results)
    assert figure is not None
    [axes] = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["a: scratch", "a: self_pretrained", "b: scratch", "b: self_pretrained"]


def test_nothing_is_drawn_of_nothing() -> None:
    results, _ = run(score=lambda cell: usual(cell) if cell.seed > 99 else None)
    assert compared(results) is None


def test_a_task_at_several_sizes_is_one_line() -> None:
    assert [stem_of(c) for c in ("image_5", "image_0_5", "image_transformer", "100k", "pathx256")] == [
        "image",
        "image",
        "image_transformer",
        "",
        "pathx",
    ]
