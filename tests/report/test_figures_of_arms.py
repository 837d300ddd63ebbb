"""All arms and columns in one figure, with the paper's cells; relative gains; averages over columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.made_up import Cell, usual
from support.papers import made
from test_beside import run

from headstart.report.figures.arms import (
    averages,
    averages_caption,
    compared,
    compared_caption,
    gains,
    gains_caption,
    stem_of,
)
from headstart.statistics import estimate

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
        if row.arm in results.arms and row.quantity == "test"
        for column, cell in row.cells.items()
        if column in WIDE and cell.value is not None
    ]
    assert sorted(hollow(figure)) == pytest.approx(sorted(wanted))
    assert compared_caption(results) == (
        "Test score of each arm, mean and one standard error over seeds; a hollow mark is the paper's number, of its own "
        "data and sizes."
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
        assert "the paper" not in compared_caption(results)


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


def doubled(cell: Cell) -> tuple[float, float]:
    """From scratch 0.2 or 0.4 by the seed; pretrained half as much again on a, a quarter more on b, equal on c."""
    test = 0.2 if cell.seed == 0 else 0.4
    more = {"a": 1.5, "b": 1.25, "c": 1.0}[cell.column] if cell.arm != "scratch" else 1.0
    return usual(cell)[0], test * more + (0.012 if more == 1.5 and cell.seed else 0.0)


def marks(figure: Any, label: str) -> list[tuple[float, float]]:
    """Where the points of an arm stand."""
    [axes] = figure.axes
    result = [container for container in axes.containers if container.get_label() == label]
    return [
        (float(x), float(y))
        for container in result
        for x, y in zip(*(np.asarray(v) for v in container[0].get_data()), strict=True)
    ]


def test_a_gain_is_the_mean_over_paired_seeds_in_percent_of_the_other_arms_score() -> None:
    results, _ = run(columns=WIDE, score=doubled, seeds=(0, 1))
    figure = gains(results)
    assert figure is not None
    points = marks(figure, "self_pretrained")
    # On a 50 % at seed 0 and 0.212 of 0.4 at seed 1.
    assert [y for _, y in points] == pytest.approx([51.5, 25.0, 0.0])
    assert [round(x) for x, _ in points] == [0, 1, 2]
    assert not marks(figure, "scratch")
    [axes] = figure.axes
    assert axes.get_ylabel() == "gain in test accuracy over scratch (%)"
    assert gains_caption(results) == (
        "Gain in test score over scratch, in percent of its score at the same seed: mean and one standard error over "
        "n = 2 paired seeds: self_pretrained +51.5 ± 1.5 % on a, +25.0 ± 0.0 % on b and +0.0 ± 0.0 % on c."
    )


def test_only_seeds_of_both_arms_and_scores_above_0_make_a_gain() -> None:
    def score(cell: Cell) -> tuple[float, float] | None:
        if cell.arm == "scratch":
            return None if cell.seed == 1 else (0.3, 0.0 if cell.seed == 2 else 0.2)
        return 0.4, 0.3

    results, _ = run(columns={"a": "digits"}, score=score, seeds=(0, 1, 2))
    figure = gains(results)
    assert figure is not None
    assert [y for _, y in marks(figure, "self_pretrained")] == pytest.approx([50.0])
    assert "n = 1 paired seeds: self_pretrained +50.0 % on a." in gains_caption(results)


def test_without_an_arm_to_gain_over_nothing_is_drawn() -> None:
    assert gains(run(against=None)[0]) is None
    results, _ = run()
    assert gains(replace(results, table=tuple(replace(row, greater=False) for row in results.table))) is None


def test_averages_stand_one_below_the_other_with_the_papers_hollow() -> None:
    results, paper = run(columns=WIDE)
    figure = averages(results)
    assert figure is not None
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(results.arms)
    drawn = [float(container[0].get_xdata()[0]) for container in axes.containers]  # type: ignore[index, union-attr]
    assert drawn == pytest.approx([item.value.mean for item in results.averages if item.value])
    printed = [cell.value for arm in results.arms if (cell := paper.cell(arm, "average"))]
    assert [
        float(line.get_xdata()[0])
        for line in axes.get_lines()  # type: ignore[index, arg-type]
        if line.get_markerfacecolor() == "none"
    ] == pytest.approx(printed)
    assert averages_caption(results) == (
        "Test score of each arm, averaged over 3 columns: mean and one standard error over seeds; a hollow mark is the "
        "paper's average, over its own columns, data and sizes."
    )


@pytest.mark.parametrize(("draw", "tell"), [(compared, compared_caption), (averages, averages_caption)])
def test_a_papers_number_of_another_score_is_not_drawn_beside_ours(draw: Any, tell: Any) -> None:
    results, _ = run(made(metric="r2"), columns=WIDE)
    figure = draw(results)
    assert figure is not None
    assert not hollow(figure)
    assert "hollow" not in tell(results)


def test_an_average_of_one_size_has_no_mark_of_the_paper() -> None:
    results, _ = run(columns=WIDE)
    figure = averages(replace(results, averages=tuple(replace(a, over="fraction=0.1") for a in results.averages)))
    assert figure is not None
    assert not hollow(figure)
    assert figure.axes[0].get_yticklabels()[0].get_text() == "fraction=0.1: scratch"


def test_an_average_of_one_arm_is_no_figure() -> None:
    results, _ = run(columns=WIDE)
    assert averages(replace(results, averages=results.averages[:1])) is None
    assert averages(replace(results, averages=())) is None
    lost = tuple(
        replace(a, value=None, columns=1) if i else replace(a, value=estimate([0.5]))
        for i, a in enumerate(results.averages)
    )
    assert averages(replace(results, averages=lost)) is None
