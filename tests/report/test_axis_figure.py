"""Scores along an axis that nothing is chosen over: drawn from the table's own columns."""

from pathlib import Path
from typing import Any

import pytest
from support import made_up

from headstart.report.figures.sweep import along_axis, numeric_axes
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results

STUDY: dict[str, Any] = {
    "name": "widths",
    "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}},
    "columns": {"listops": {"task": {"kind": "listops", "train": 40, "val": 20, "test": 20}}},
    "arms": {"plain": {}, "deep": {"model": {"blocks": 3}}},
    "axes": {"model.width": [16, 32, 128], "finetune.optim.lr": [1e-3, 3e-3], "seed": [0, 1, 2]},
    "report": {"baselines": False},
}


def widths(**changes: Any) -> Results:
    """A study over widths whose test score is the width in thousandths, and a little more for each seed."""
    plan = make_plan(read_study({**STUDY, **changes}), Path("nowhere"))
    scores = {}
    for cell in plan.cells:
        spec = cell.chain[-1].spec
        score = spec.model.width / 1000 + cell.seed / 100 + (0.1 if cell.arm == "deep" else 0)
        scores[cell.chain[-1].identity] = made_up.result(cell.chain[-1].identity, score, score)
    return summarise(plan, scores.get)


def test_an_axis_of_the_model_makes_columns_and_a_line_over_its_numbers() -> None:
    results = widths()
    assert results.columns == ("listops width=16", "listops width=32", "listops width=128")
    (line,) = numeric_axes(results)
    assert (line.name, dict(line.columns)) == ("width", dict(zip((16.0, 32.0, 128.0), results.columns, strict=True)))
    assert line.title == "Scores by width"
    assert "at width 16, 32 and 128" in line.caption(results)
    figure = along_axis(results, line)
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    drawn = {bars[0].get_color(): bars[0].get_xydata().tolist() for bars in axes.containers}
    assert len(drawn) == 2
    means = [[y for _, y in points] for points in drawn.values()]
    assert means[0] == pytest.approx([0.026, 0.042, 0.138])
    assert means[1] == pytest.approx([0.126, 0.142, 0.238])


def test_an_axis_that_is_chosen_over_or_has_no_numbers_has_no_such_figure() -> None:
    assert not numeric_axes(widths(report={"choose": ["model.width", "finetune.optim.lr"], "baselines": False}))
    mixers = [{"kind": "attention", "heads": 2}, {"kind": "lstm"}]
    assert not numeric_axes(widths(axes={"model.mixer": mixers, "seed": [0]}))
