"""Figures are drawn from numbers, say what they show, and hold no global state."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_up import LR, facts, make_plan, result, shelf, usual

from headstart.report.figures.curves import _band, curves, curves_together, curves_told, losses
from headstart.report.figures.reconstruction import caption, read_predictions, reconstruction
from headstart.report.figures.style import LIGHT, MARKERS, Drawing, canvas, png, svg
from headstart.report.figures.sweep import best_points, marked, sweep, sweep_caption, sweep_sentence, swept
from headstart.report.tables.report_table import to_csv
from headstart.report.tables.scores import sweep_table
from headstart.sequence import Signature
from headstart.study.language.spec import MarkSpec
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results


def demo(**more: Any) -> Results:
    plan = make_plan(**more)
    return summarise(plan, shelf(plan).find, facts=facts())


def records(identity: str) -> list[dict[str, Any]]:
    """Three records that rise by a little that depends on the stage."""
    start = int(identity[:2], 16) / 1000
    return [
        {
            "step": 7 * e,
            "epoch": float(e),
            "train": {"loss": 2.0 - 0.1 * e},
            "val": {"loss": 2.1 - 0.1 * e, "accuracy": start + 0.05 * e},
        }
        for e in (1, 2, 3)
    ]


def test_a_band_is_the_mean_and_one_standard_error_at_each_epoch() -> None:
    lines = [
        [{"epoch": 1, "val": {"a": 1.0}}, {"epoch": 2, "val": {"a": 2.0}}],
        [{"epoch": 1, "val": {"a": 3.0}}, {"epoch": 2, "val": {"a": None}}],
    ]
    x, middle, low, high = _band(lines, "val", "a")
    assert (x, middle) == ([1.0, 2.0], [2.0, 2.0])
    # Of 1 and 3 the deviation is root 2 and the standard error 1; one seed has no band.
    assert (low, high) == (pytest.approx([1.0, 2.0]), pytest.approx([3.0, 2.0]))


def test_curves_have_a_panel_per_score_and_stage_and_a_line_per_arm() -> None:
    figure = curves(demo(), "digits", records)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "finetune: accuracy",
        "finetune: loss",
        "pretrain: loss",
    ]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"validation", "train"} <= set(labels)
    # Two arms: val accuracy; val and train loss; the pretraining of the one arm that has one.
    assert [len(axes.lines) for axes in figure.axes] == [2, 4, 2]


def test_of_many_columns_the_curves_of_the_reported_score_stand_in_one_figure() -> None:
    results = demo(columns={f"c{i}": "digits" for i in range(9)})
    figure = curves_together(results, records)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"c{i}" for i in range(9)]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [i % 4 == 0 for i in range(9)]
    assert figure.axes[0].get_ylabel() == "accuracy"
    assert [len(axes.lines) for axes in figure.axes] == [2] * 9
    assert curves_together(results, lambda _: []) is None


def test_train_scores_are_dashed_beside_val_where_records_have_them() -> None:
    def with_train(identity: str) -> list[dict[str, Any]]:
        return [
            {**line, "train": {**line["train"], "accuracy": line["val"]["accuracy"] + 0.3}}
            for line in records(identity)
        ]

    figure = curves(demo(), "digits", with_train)
    assert figure is not None
    assert [len(axes.lines) for axes in figure.axes] == [4, 4, 2]
    for train, val in zip(figure.axes[0].lines[::2], figure.axes[0].lines[1::2], strict=True):
        assert (train.get_linestyle(), val.get_linestyle()) == ("--", "-")
        assert train.get_color() == val.get_color()
        assert train.get_ydata() == pytest.approx(np.asarray(val.get_ydata()) + 0.3)


def test_curves_that_tie_are_seen_below_each_other_and_others_keep_their_width() -> None:
    arms = {"scratch": False, "a": False, "b": False, "c": False}
    results = demo(arms=arms, rates=(1e-3,), seeds=(0,))
    height = dict(zip([row.runs[0].stages[-1][1] for row in results.table], [0.0, 0.0, 0.001, 0.5], strict=True))

    def tied(identity: str) -> list[dict[str, Any]]:
        return [{"epoch": e, "val": {"accuracy": height[identity] + 0.01 * e}} for e in range(1, 5)]

    figure = curves(results, "digits", tied)
    assert figure is not None
    widths = [line.get_linewidth() for line in figure.axes[0].lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3, "three that tie have a rim each; the last of them is as wide as the one apart"
    assert widths[2] == widths[3]
    many = demo(arms={"scratch": False, **{f"arm_{i}": False for i in range(24)}}, rates=(1e-3,), seeds=(0,))
    crowd = curves(many, "digits", lambda _: [{"epoch": e, "val": {"accuracy": 0.1}} for e in range(4)])
    assert crowd is not None
    assert max(line.get_linewidth() for line in crowd.axes[0].lines) < 10, "many at chance do not fill the panel"


def test_a_single_record_is_a_mark_where_a_line_would_not_be_seen() -> None:
    arms = {"a": True, "b": True}  # they share a pretraining, which has no mark of its own
    for count, marks in ((1, ["o", "o"]), (3, ["None", "None"])):
        figure = curves(demo(arms=arms), "digits", lambda identity, count=count: records(identity)[:count])
        assert figure is not None
        assert [line.get_marker() for line in figure.axes[2].lines] == marks
        assert [line.get_markerfacecolor() == "none" for line in figure.axes[2].lines] == [True, False]


def test_more_than_six_arms_have_a_panel_each_with_the_others_in_grey_and_their_losses_in_a_figure_of_its_own() -> None:
    results = demo(arms={"scratch": False, **{f"arm_{i}": True for i in range(8)}}, rates=(1e-3,), seeds=(0, 1))
    figure = curves(results, "digits", records)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(results.arms)
    assert [len(axes.lines) for axes in figure.axes] == [9] * 9
    assert [axes.lines[-1].get_color() for axes in figure.axes] == [LIGHT[i] for i in range(9)]
    assert all(len({line.get_color() for line in axes.lines[:-1]}) == 1 for axes in figure.axes)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert all(axes.collections for axes in figure.axes), "each has its band"
    assert "a panel for each arm with the others in grey, mean over seeds on validation, band" in curves_told(
        results, "digits"
    )
    beside = losses(results, "digits", records)
    assert beside is not None
    assert [axes.get_title(loc="left") for axes in beside.axes] == ["finetune: loss", "pretrain: loss"]
    assert curves(results, "digits", lambda _: []) is None
    assert losses(demo(), "digits", records) is None, "of two arms they stand with the rest"


def test_arms_of_one_colour_have_marks_of_their_own() -> None:
    arms = {"scratch": False, **{f"arm_{i}": False for i in range(24)}}
    results = demo(arms=arms, rates=(1e-3,), seeds=(0, 1))
    figure = curves(results, "digits", records)
    assert figure is not None
    lines = figure.axes[0].lines
    assert [line.get_marker() for line in lines] == [MARKERS[i % len(MARKERS)] for i in range(25)]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(arms)
    assert not figure.axes[0].collections, "bands of so many arms would cover each other"
    assert "band" not in curves_told(results, "digits")
    panels = figure.legends[0].get_lines()[: len(arms)]
    assert [(line.get_color(), line.get_marker()) for line in panels] == [
        (line.get_color(), line.get_marker()) for line in lines
    ]
    assert len({(LIGHT[i % len(LIGHT)], MARKERS[i % len(MARKERS)]) for i in range(20)}) == 20, "in a sweep"


def test_a_pretraining_that_two_arms_share_is_drawn_once() -> None:
    figure = curves(demo(arms={"scratch": False, "a": True, "b": True}), "digits", records)
    assert figure is not None
    assert len(figure.axes[2].lines) == 2


def test_without_records_there_are_no_curves() -> None:
    assert curves(demo(), "digits", lambda _: []) is None
    empty = summarise(make_plan(), lambda _: None)
    assert curves(empty, "digits", records) is None


def test_the_sweep_shows_each_arm_with_error_bars_and_rings_the_choice() -> None:
    figure = sweep(demo(), "digits")
    assert figure is not None
    axes = figure.axes[0]
    assert len(axes.containers) == 2
    assert axes.get_xscale() == "log"
    rings = [line for line in axes.lines if line.get_markersize() == 13]
    assert [float(np.asarray(ring.get_ydata())[0]) for ring in rings] == pytest.approx([0.37, 0.508])


def test_the_sentence_is_computed_from_the_numbers() -> None:
    assert sweep_sentence(demo(), "digits") == (
        "On validation accuracy, against scratch at the same lr: self_pretrained (+0.138 to +0.138) is "
        "better at all 3 values; the choice of lr alone moves scratch by 0.050."
    )
    plan = make_plan()
    worse = shelf(plan, lambda c: (usual(c)[0] - (0.3 if c.arm != "scratch" and c.settings[LR] > 5e-3 else 0), 0.1))
    assert "self_pretrained (−0.162 to +0.138) is better at 2 of 3 values" in sweep_sentence(
        summarise(plan, worse.find), "digits"
    )
    alone = demo(against=None, arms={"scratch": False})
    assert sweep_sentence(alone, "digits") == (
        "Of the values of lr, scratch is best at 0.003 (0.370) on validation accuracy."
    )


def test_a_diverged_setting_is_named_and_left_out_of_the_sentence() -> None:
    plan = make_plan()
    output = shelf(plan)
    for cell in plan.cells:
        if cell.settings[LR] == 1e-2 and cell.arm != "scratch":
            last = cell.chain[-1].identity
            output.results[last] = result(last, None, None, status="diverged")
    results = summarise(plan, output.find)
    figure = sweep(results, "digits")
    assert figure is not None
    assert [len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "x"] == [1]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "diverged"
    assert "better at both values" in sweep_sentence(results, "digits")


def test_test_stands_beside_validation_at_the_same_points_where_it_is_asked_for() -> None:
    results = demo()
    figure = sweep(results, "digits", test=True)
    assert figure is not None
    val, test = figure.axes
    assert (val.get_ylabel(), test.get_ylabel()) == ("val accuracy", "test accuracy")
    assert val.get_ylim() == test.get_ylim()
    for axes, split in ((val, "val"), (test, "test")):
        for row, container in zip(results.table, axes.containers, strict=True):
            points = best_points(row, LR).values()
            panels = np.asarray(container[0].get_ydata())  # type: ignore[index, union-attr]
            assert list(panels) == pytest.approx([getattr(point, split).mean for point in points])
    # The ring stands at the value that validation chose, in both.
    rings = [
        [float(np.asarray(line.get_ydata())[0]) for line in axes.lines if line.get_markersize() == 13]
        for axes in (val, test)
    ]
    assert rings == [
        pytest.approx([row.val.mean for row in results.table if row.val]),
        pytest.approx([row.test.mean for row in results.table if row.test]),
    ]
    text = sweep_caption(results, "digits", test=True, mark=None)
    assert text.endswith("Every choice was made on validation; test is only shown.")
    alone = sweep(results, "digits")
    assert alone is not None
    assert len(alone.axes) == 1


def test_a_marked_value_is_a_line_that_is_told_where_it_was_swept_over() -> None:
    mark = MarkSpec(setting=LR, value=2e-3, says="the rate of Doe")
    figure = sweep(demo(), "digits", test=True, mark=mark)
    assert figure is not None
    for axes in figure.axes:
        assert [
            list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":" or (line.get_zorder() == 0)
        ] == [[2e-3, 2e-3]]
    assert figure.legends[0].get_texts()[-1].get_text() == "the rate of Doe"
    for setting, value in ((LR, 1.0), ("pretrain.optim.lr", 2e-3)):
        other = MarkSpec(setting=setting, value=value, says="elsewhere")
        assert not marked(demo(), "digits", other)
        bare = sweep(demo(), "digits", mark=other)
        assert bare is not None
        assert not any(line.get_zorder() == 0 for line in bare.axes[0].lines)


def test_test_at_every_setting_is_a_table_that_marks_what_was_chosen() -> None:
    plan = make_plan()
    output = shelf(plan, lambda c: None if (c.arm, c.seed, c.settings[LR]) == ("scratch", 4, 1e-2) else usual(c))
    for cell in plan.cells:
        if cell.arm != "scratch" and cell.settings[LR] == 1e-2:
            last = cell.chain[-1].identity
            output.results[last] = result(last, *((0.2, 0.1) if cell.seed else (None, None)), status="diverged")
    results = summarise(plan, output.find)
    table = sweep_table(results)
    assert table is not None
    assert table.title == "Test accuracy at every lr"
    assert table.heads == ("arm", "lr 0.001", "lr 0.003", "lr 0.01")
    assert [[cell.text for cell in line.cells.values()] for line in table.lines] == [
        ["scratch", "0.300 ± 0.007 (5)", "0.350 ± 0.007 (5)*", "0.315 ± 0.006 (4)"],
        ["self_pretrained", "0.438 ± 0.009 (5)", "0.488 ± 0.009 (5)*", "0.100 ± 0.000 (4) diverged"],
    ]
    assert "Every choice was made on validation; test is only shown." in table.note
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert rows[0]["chosen_setting"] == "lr 0.003"
    assert float(rows[0]["test lr 0.003"]) == pytest.approx(0.35)
    assert [row["n lr 0.01"] for row in rows] == ["4", "4"]
    assert sweep_table(demo(rates=(1e-3,))) is None
    two = sweep_table(demo(columns={"a": "digits", "b": "digits"}))
    assert two is not None
    assert two.heads[:2] == ("column", "arm")
    assert len(two.lines) == 4


def test_nothing_swept_has_neither_a_figure_nor_a_sentence() -> None:
    results = demo(rates=(1e-3,))
    assert swept(results, "digits") == []
    assert sweep(results, "digits") is None
    assert sweep_sentence(results, "digits") == ""


def test_a_second_setting_is_shown_at_its_best() -> None:
    row = demo().table[0]
    doubled = tuple(replace(p, settings={**p.settings, "w": w}) for p in row.points for w in (1, 2))
    assert [p.settings["w"] for p in best_points(replace(row, points=doubled), LR).values()] == [1, 1, 1]


@pytest.mark.usefixtures("whole_figures")
def test_a_figure_says_which_data_stood_in() -> None:
    other = Drawing("n", "T", "Text.", lambda dark: sweep(demo(), "digits", dark), "Stand-in data: waves")
    assert other.caption == "Stand-in data: waves. Text."
    inside = other.figure(dark=True)
    assert inside is not None
    assert inside.legends[0].get_title().get_text() == "Stand-in data: waves"
    panels = other.on_page()
    assert panels is not None
    assert panels["light"] != panels["dark"]
    assert Drawing("n", "T", "Text.", lambda _: None).on_page() is None


@pytest.mark.usefixtures("whole_figures")
def test_a_dollar_in_a_name_is_no_mathematics() -> None:
    figure = sweep(demo(arms={"scratch": False, "$\\frac{x$": True}), "digits")
    assert figure is not None
    assert svg(figure)


@pytest.mark.usefixtures("whole_figures")
def test_the_same_figure_has_the_same_bytes_and_both_looks_differ() -> None:
    first, again, dark = sweep(demo(), "digits"), sweep(demo(), "digits"), sweep(demo(), "digits", dark=True)
    assert first is not None
    assert again is not None
    assert dark is not None
    assert svg(first) == svg(again) != svg(dark)
    assert png(first, 40).startswith(b"\x89PNG")


def masked(shape: tuple[int, ...], size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    tokens = len(shape) == 2
    return {
        "val/inputs": rng.integers(0, 5, shape) if tokens else rng.normal(size=shape).astype(np.float32),
        "val/masked": rng.random(shape[:2]) < 0.5,
        "val/valid": np.ones(shape[:2], dtype=bool),
        "val/output": rng.normal(size=(*shape[:2], size)).astype(np.float32),
    }


def test_only_masked_positions_are_filled_in() -> None:
    arrays = masked((4, 9, 1), 1)
    output = read_predictions(arrays)
    assert output is not None
    where = arrays["val/masked"]
    assert (output.filled[~where] == arrays["val/inputs"][~where]).all()
    assert (output.filled[where] == arrays["val/output"][where]).all()
    assert "positions masked" in caption(output, True)


def test_levels_and_tokens_are_turned_back_into_inputs() -> None:
    signature = Signature("floats", 1, 9, 9, "class", 10, levels=17, level_scale=4.0, level_shift=8.0)
    arrays = masked((2, 9, 1), 17)
    output = read_predictions(arrays, signature)
    assert output is not None
    first = np.argwhere(arrays["val/masked"])[0]
    level = arrays["val/output"][tuple(first)].argmax()
    assert output.filled[tuple(first)][0] == (level - 8.0) / 4.0
    tokens = read_predictions(masked((2, 9), 5))
    assert tokens is not None
    assert tokens.filled.max() < 5
    assert read_predictions(masked((2, 9, 1), 17)) is None
    assert read_predictions({"val/output": np.zeros((2, 3))}) is None


@pytest.mark.usefixtures("whole_figures")
def test_images_show_hidden_pixels_in_colour_and_curves_and_tokens_are_drawn_too() -> None:
    output = read_predictions(masked((3, 16, 1), 1))
    assert output is not None

    def picture(x: np.ndarray) -> np.ndarray:
        return np.clip(x.reshape(4, 4) / 4 + 0.5, 0, 1)

    figure = reconstruction(output, picture)
    assert len(figure.axes) == 9
    panels = np.asarray(figure.axes[1].images[0].get_array())
    coloured = (panels != panels[..., :1]).any(-1)
    assert (coloured.reshape(-1) == output.masked[0]).all()
    waves = reconstruction(output)
    assert len(waves.axes) == 3
    # A band of one position's width over each that was masked, one that stands alone too.
    bands = [(bar.get_x(), bar.get_width()) for bar in waves.axes[0].patches]
    assert bands == [(i - 0.5, 1.0) for i in np.flatnonzero(output.masked[0])]
    tokens = read_predictions(masked((2, 30), 5))
    assert tokens is not None
    assert svg(reconstruction(tokens, dark=True))


def test_drawing_leaves_no_global_state_and_matplotlib_waits_until_then() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    sweep(demo(), "digits", dark=True)
    assert dict(matplotlib.rcParams) == before
    code = "import sys, headstart.report.figures.collect; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


LINE = """
import sys
from headstart.report.figures.style import canvas, svg
with canvas(False, 3.0, 2.0) as (figure, look):
    figure.add_subplot().plot([0, 1], label="a")
sys.stdout.buffer.write(svg(figure))
"""


@pytest.mark.usefixtures("whole_figures")
def test_a_matplotlibrc_of_the_working_directory_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "matplotlibrc")  # whoever opens it waits for ever
    drawn = subprocess.run(
        [sys.executable, "-P", "-c", LINE], cwd=tmp_path, capture_output=True, timeout=60, check=True
    )
    assert drawn.stdout == line()


@pytest.mark.usefixtures("whole_figures")
def test_a_backend_of_the_environment_that_is_none_keeps_no_figure_from_being_drawn(tmp_path: Path) -> None:
    """As a notebook says it to the commands that it starts."""
    drawn = subprocess.run(
        [sys.executable, "-P", "-c", LINE],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "none of them"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert drawn.stdout == line()


def test_settings_that_a_program_has_made_do_not_change_a_figure() -> None:
    import matplotlib

    plain = line()
    with matplotlib.rc_context({"lines.marker": "x", "axes.facecolor": "red", "svg.fonttype": "none"}):
        assert line() == plain


def line() -> bytes:
    """What LINE draws."""
    with canvas(False, 3.0, 2.0) as (figure, _):
        figure.add_subplot().plot([0, 1], label="a")
    return svg(figure)
