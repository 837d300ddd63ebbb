"""Figures at the widths of papers: nothing overlaps, nothing is cut, names stand at their ticks, arms stay apart."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from support.finished import written
from support.made_up import LR, make_plan, shelf

from headstart.analysis.weights import Spread
from headstart.errors import BadInput
from headstart.report.figures import collect
from headstart.report.figures.arms import compared, gains
from headstart.report.figures.curves import curves, losses
from headstart.report.figures.deviations import spread_figure
from headstart.report.figures.reconstruction import Filled, reconstruction
from headstart.report.figures.style import APART, DARK, LIGHT, MARKERS, Drawing, shortened, text_width
from headstart.report.figures.sweep import AxisLine, along_axis, sweep
from headstart.report.page import write_report
from headstart.store import Store
from headstart.study.paper.summary import summarise
from headstart.verbs.run import inches

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from headstart.study.results.results import Results

WIDTHS = (3.3, 5.0, 7.0)
NAMES = ["scratch", *(f"self_pretrained-with_objective_{i}_and-frozen/encoder" for i in range(11))]


@cache
def results(arms: int, columns: int = 1) -> Results:
    """So many arms with long names, on so many columns."""
    plan = make_plan(
        arms={name: i > 0 for i, name in enumerate(NAMES[:arms])},
        seeds=(0, 1),
        rates=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        columns={f"a_long_column_name_{i}": "digits" for i in range(columns)} if columns > 1 else None,
    )
    heights = {cell.arm: NAMES.index(cell.arm) / 20 for cell in plan.cells}
    finished = shelf(plan, lambda cell: (0.3 + heights[cell.arm] + cell.settings[LR], 0.3 + heights[cell.arm]))
    return summarise(plan, finished.find)


def records(identity: str) -> list[dict[str, Any]]:
    level = int(identity, 16) % 97 / 97
    return [{"step": e, "epoch": e, "val": {"loss": level + 1 / e, "accuracy": 1 - level / e}} for e in range(1, 9)]


def words() -> Filled:
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 5, (3, 60))
    masked = rng.random((3, 60)) < 0.3
    return Filled(tokens, np.where(masked, (tokens + 1) % 5, tokens), masked, np.ones((3, 60), bool))


def say(ids: np.ndarray) -> str:
    return ["[MAX", "7", "12", "]", "$x_1$"][int(ids[0])]


def spread_lines(blocks: int) -> Any:
    layers = ("mixer.query", "mixer.key", "mixer.value", "mixer.output", "feed_forward.0", "feed_forward.2")
    every = [
        Spread(block, layer, bias, (0.02 + 0.01 * number + 0.002 * block) * (0.3 if bias else 1.0))
        for block in range(blocks)
        for number, layer in enumerate(layers)
        for bias in (False, True)
    ]
    return partial(spread_figure, every, [replace(spread, deviation=0.0 if spread.bias else 0.02) for spread in every])


WIDTH = AxisLine("model.width", "width", "", {8.0: "a_long_column_name_0", 16.0: "a_long_column_name_1"})
DRAWN: dict[str, Any] = {
    **{f"sweep of {n}": lambda n=n: partial(sweep, results(n), "digits") for n in (2, 6, 12)},
    **{f"curves of {n}": lambda n=n: partial(curves, results(n), "digits", records) for n in (2, 6, 9, 12)},
    "losses of 12": lambda: partial(losses, results(12), "digits", records),
    **{f"arms {n}": lambda n=n: partial(compared, results(n)) for n in (6, 12)},
    **{f"arms {n} on two columns": lambda n=n: partial(compared, results(n, 2)) for n in (2, 12)},
    "arms 12 on 4 columns": lambda: partial(compared, results(12, 4)),
    "scores by width of 12": lambda: partial(along_axis, results(12, 2), WIDTH),
    "columns 3": lambda: partial(compared, results(6, 3)),
    "columns 12": lambda: partial(compared, results(2, 12)),
    "gains": lambda: partial(gains, results(6, 8)),
    **{f"spreads of {n} blocks": lambda n=n: spread_lines(n) for n in (2, 12)},
    "tokens": lambda: partial(reconstruction, words(), None, text=say),
}


ON_A_PAGE = ("arms", "curves", "sweep", "scores")
"""Figures that stand on a page of a paper, however many arms they have."""


def drawn(name: str, width: float | None, stand_in: str = "") -> Figure:
    figure = Drawing("n", "T", "Text.", DRAWN[name](), stand_in).figure(width=width)
    assert figure is not None
    FigureCanvasAgg(figure).draw()
    return figure


def boxes(figure: Figure) -> dict[str, Bbox]:
    """Where each text of a figure stands, in pixels: ticks, labels, titles, entries of the legend."""
    renderer: Any = FigureCanvasAgg(figure).get_renderer()
    texts = [text for legend in figure.legends for text in (*legend.get_texts(), legend.get_title())]
    for axes in figure.axes:
        low, high = sorted(axes.get_xlim())
        bottom, top = sorted(axes.get_ylim())
        ticks = [t.label1 for t in axes.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
        ticks += [t.label1 for t in axes.yaxis.get_major_ticks() if bottom <= t.get_loc() <= top]
        texts += [*ticks, axes.xaxis.label, axes.yaxis.label, *axes.texts, axes.title]
        texts += [axes._left_title, axes._right_title]  # type: ignore[attr-defined]
    visible = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return {f"{i}: {text.get_text()}": text.get_window_extent(renderer) for i, text in enumerate(visible)}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DRAWN)
def test_no_text_overlaps_another_or_is_cut_and_no_legend_covers_a_plot(name: str, width: float) -> None:
    figure = drawn(name, width, "Stand-in data: digits for a_long_column_name_1 and a_long_column_name_2")
    assert figure.get_figwidth() == width
    assert figure.get_figheight() <= (9.5 if name.startswith("arms") else 9.0) or not name.startswith(ON_A_PAGE)
    places = boxes(figure)
    for (first, a), (second, b) in itertools.combinations(places.items(), 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        turned = first.count("long_column") and second.count("long_column")
        assert turned or across < 1 or down < 1, f"{first!r} and {second!r} overlap by {across:.0f} x {down:.0f} pixels"
    page = figure.bbox
    for text, box in places.items():
        assert min(box.x0, page.width - box.x1) >= -1, f"{text!r} is cut at the side"
        assert min(box.y0, page.height - box.y1) >= -1, f"{text!r} is cut above or below"
    renderer: Any = FigureCanvasAgg(figure).get_renderer()
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert not any(box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes)
    assert all(axes.get_window_extent(renderer).height > 0.4 * figure.dpi for axes in figure.axes)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_turned_name_ends_at_its_tick(width: float) -> None:
    figure = drawn("columns 12", width)
    axes, renderer = figure.axes[0], FigureCanvasAgg(figure).get_renderer()
    labels = axes.get_xticklabels()
    assert len(labels) == 12
    spacing = axes.transData.transform((1, 0))[0] - axes.transData.transform((0, 0))[0]
    for x, label in enumerate(labels):
        end = label.get_window_extent(renderer).x1  # type: ignore[arg-type]
        assert abs(end - axes.transData.transform((x, 0))[0]) < max(0.5 * spacing, 6)


def seen_by(colour: str, matrix: list[list[float]]) -> np.ndarray:
    """A colour as a colour-blind reader sees it (Machado et al. 2009, severity 1), in CIE Lab."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(
        np.array(matrix) @ linear, 0, 1
    )
    f = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


BLIND = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


@pytest.mark.parametrize("blind", BLIND)
@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_twelve_arms_are_told_apart_also_without_red_and_green(colours: tuple[str, ...], blind: str) -> None:
    assert len(colours) >= 12
    assert len(set(MARKERS)) == len(MARKERS) > 12
    seen = [seen_by(colour, BLIND[blind]) for colour in colours]
    for first, second in itertools.combinations(range(APART), 2):
        assert np.linalg.norm(seen[first] - seen[second]) > 9, (colours[first], colours[second])


def test_every_arm_of_twelve_has_a_look_of_its_own_in_the_legend() -> None:
    for name in ("sweep of 12", "losses of 12"):
        handles: Any = drawn(name, 5.0).legends[0].legend_handles
        looks = {(handle.get_color(), handle.get_marker()) for handle in handles[:12]}
        assert len(looks) == 12


def test_dots_of_many_arms_have_short_names_that_differ() -> None:
    labels = [label.get_text() for label in drawn("arms 12 on two columns", 3.3).axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels) == 24
    assert not any("\n" in label for label in labels)
    names = ["b: gru_from_scratch", "b: lstm_from_scratch", "c: lstm_from_scratch"]
    assert shortened(names, 9.0, 8.0) == names
    assert shortened(names, 0.7, 8.0) == ["b: gru_…", "b: lstm_…", "c: lstm_…"]
    assert shortened(["a" * 100], 0.7, 8.0)[0].startswith("aaaaa")
    ways = ("from_scratch", "self_pretrained")
    many = [f"{c}: {m}_{way}_with_a_name" for c in ("listops_deep", "digits") for m in ("s4", "gru") for way in ways]
    for width in (0.7, 1.4):
        lines = shortened(many, width, 8.0)
        assert len(set(lines)) == len(many), "what tells names apart stays"
        assert max(text_width(line, 8.0) for line in lines) <= width
    assert text_width(shortened(["a" * 100], 0.7, 8.0)[0], 8.0) <= 0.7


def test_no_two_arms_stand_at_one_point_however_equal_their_scores() -> None:
    (axes,) = drawn("scores by width of 12", 3.3).axes
    lines: list[Any] = [bars[0] for bars in axes.containers]
    assert len({line.get_xdata()[0] for line in lines}) == 12
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "16"]
    for value, at in ((8, 0), (16, 1)):
        assert np.mean([line.get_xdata()[at] for line in lines]) == pytest.approx(value)
        assert max(abs(line.get_xdata()[at] - value) for line in lines) < 1


@pytest.mark.usefixtures("whole_figures")
def test_a_figure_has_no_prose_and_is_written_as_png_svg_and_pdf() -> None:
    drawing = Drawing("n", "T", "A long caption.", DRAWN["sweep of 2"]())
    figure = drawing.figure(width=3.3)
    assert figure is not None
    assert figure.get_suptitle() == ""
    files = drawing.files(3.3)
    assert [data[:4] for data in files.values()] == [b"\x89PNG", b"<?xm", b"%PDF"]
    assert files == drawing.files(3.3), "equal figures are equal bytes"
    assert f'width="{3.3 * 72:g}pt"'.encode() in files["n.svg"]


@pytest.mark.parametrize(("text", "width"), [("3.3in", 3.3), ("84 mm", 84 / 25.4), ("8.5cm", 8.5 / 2.54)])
def test_a_width_is_read_with_its_unit(text: str, width: float) -> None:
    assert inches(text) == pytest.approx(width)


@pytest.mark.parametrize("text", ["3.3", "3.3pt", "1in", "100in", "-3in", ""])
def test_a_width_without_a_unit_or_beyond_all_paper_is_refused(text: str) -> None:
    with pytest.raises(
        BadInput, match=r"--figure-width: '.*' is not a width between 2 and 20 inches; give one such as 3.3in"
    ):
        inches(text)


@pytest.mark.usefixtures("whole_figures")
def test_figures_of_an_earlier_report_go_and_other_files_stay(tmp_path: Path) -> None:
    plan, results, page = written(tmp_path)
    folder, store = page.parent, Store(tmp_path / "runs")
    assert {path.suffix for path in folder.glob("sweep-digits.*")} == {".png", ".svg", ".pdf"}
    (folder / "results.md").write_text((folder / "results.md").read_text() + "![old](curves-old.png)\n")
    for name in ("curves-old.png", "curves-old.pdf", "mine.png"):
        (folder / name).write_bytes(b"old")
    write_report(plan, results, store, folder, width=3.3)
    names = {path.name for path in folder.iterdir()}
    assert not {"curves-old.png", "curves-old.pdf"} & names
    assert {"mine.png", "sweep-digits.pdf"} <= names
    assert 'width="237.6pt"' in (folder / "sweep-digits.svg").read_text()


@pytest.mark.slow
def test_what_is_filled_in_is_of_the_columns_own_task_or_its_title_names_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(spec: object, data: object) -> None:
        raise BadInput("the data are not at hand")

    monkeypatch.setattr("headstart.tasks.open_task", absent)
    titles = []
    for elsewhere in (False, True):
        plan, results, _ = written(tmp_path / str(elsewhere))
        if elsewhere:
            stages = {
                identity: SimpleNamespace(spec=SimpleNamespace(task=SimpleNamespace(kind="waves")))
                if planned.name == "pretrain"
                else planned
                for identity, planned in plan.stages.items()
            }
            plan = replace(plan, stages=stages)
        store = Store(tmp_path / str(elsewhere) / "runs")
        picture = collect._picture(plan, results, store, "digits")
        assert picture is not None
        titles.append(picture[-1])
    assert titles == ["", "waves"]


def test_tokens_stand_as_text_with_the_masked_ones_as_boxes() -> None:
    axes = drawn("tokens", 7.0).axes[0]
    texts = [text.get_text() for text in axes.texts]
    filled = words()
    count = len(texts) // 3
    original = [say(np.array([token])).replace("$", r"\$") for token in filled.inputs[0, :count].tolist()]
    assert texts[::3] == original
    hidden = filled.masked[0, :count].tolist()
    assert [text == "▁" for text in texts[1::3]] == hidden
