"""Figures of kernels, attention and deviations show the numbers of `analysis`, beside the model untrained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import headstart
from headstart.analysis.attention import attention_maps
from headstart.analysis.stages import first_batch, opened
from headstart.analysis.weights import Kernel, activations, deviations, kernels, moved, spreads
from headstart.report.figures.attention import ExampleMap, example_figure, pooled
from headstart.report.figures.collect import TRAINED, trained_drawings
from headstart.report.figures.kernels import KernelLine, kernel_figure
from headstart.report.figures.style import Drawing, png, svg
from headstart.report.figures.trained import some

STUDY: dict[str, Any] = {
    "name": "insight",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 5, "evaluate_every": 5}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 5, "evaluate_every": 5}},
    },
    "columns": {
        "heads": {"model": {"mixer": {"kind": "attention", "heads": 2}}},
        "spaces": {"model": {"mixer": {"kind": "s4d", "state": 4, "kernel_rate": 0.1}}},
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
        "mixers": {"finetune": {"parent": "pretrain", "start": ["take(mixer)"]}},
        "untrained": {"finetune": {"budget": {"steps": 0}}},
    },
    "axes": {"seed": [3]},
}
for _column in STUDY["columns"].values():
    _column["task"] = {"kind": "digits", "labelled": 100}
    _column["model"] |= {"width": 8, "blocks": 2}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> headstart.Study:
    bound = headstart.Study(STUDY, store=tmp_path_factory.mktemp("insight") / "runs")
    headstart.run(bound)
    return bound


@pytest.fixture(scope="module")
def drawn(study: headstart.Study) -> tuple[dict[str, Drawing], list[str]]:
    result, reasons = trained_drawings(study.plan, study.results(baselines=False), study.store, TRAINED)
    return {item.name: item for item in result}, reasons


def stage(study: headstart.Study, arm: str, column: str, at: int = -1) -> Any:
    cell = next(c for c in study.plan.cells if (c.arm, c.column, c.seed) == (arm, column, 3))
    return opened(cell.chain[at].identity, study.store, study.data)


def lines(axes: Any, dash: str) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata()) for line in axes.lines if line.get_linestyle() == dash]


def titled(figure: Figure) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def test_each_column_has_the_figures_that_its_mixers_allow(drawn: tuple[dict[str, Drawing], list[str]]) -> None:
    result, reasons = drawn
    assert list(result) == [
        *(f"{name}-heads-{arm}" for arm in STUDY["arms"] for name in ("attention", "attention-example")),
        "distances-heads",
        "deviations-heads",
        *(f"spreads-heads-{arm}" for arm in STUDY["arms"]),
        "kernels-spaces",
        "deviations-spaces",
        *(f"spreads-spaces-{arm}" for arm in STUDY["arms"]),
    ]
    assert [item.title.split(" on ")[1] for item in result.values()] == ["heads"] * 14 + ["spaces"] * 6
    assert "Attention of mixers on spaces is not drawn: no block of it has full or local attention." in reasons
    assert "Kernels of self_pretrained and mixers on heads are not drawn: no block of it has a convolution." in reasons
    assert len(reasons) == 3 + 4


def test_kernels_are_those_before_finetuning_beside_the_start(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    item = drawn[0]["kernels-spaces"]
    figure = item.draw(False)
    scratch, before = stage(study, "scratch", "spaces"), stage(study, "self_pretrained", "spaces", -2)
    untrained = stage(study, "untrained", "spaces")
    expected = [kernels(s.model, 64) for s in (scratch, before, untrained)]
    for number, axes in enumerate(figure.axes):
        assert axes.get_title(loc="left") == f"block {number}"
        # Two arms share a pretraining, and all started with the same kernels: one line each.
        assert [list(y) for y in lines(axes, "-")] == [list(result[number].largest) for result in expected]
        assert [list(y) for y in lines(axes, "--")] == [list(kernels(scratch.start, 64)[number].largest)]
        assert list(axes.get_xticks()) == [0, 16, 32, 48]
    assert "self_pretrained and mixers after pretrain" in item.text
    assert "grid lines are rows of the image, 8 positions each" in item.text
    assert "seed 3" in item.text
    half, first = expected[1][0].half, kernels(before.start, 64)[0].half
    assert f"self_pretrained and mixers after pretrain: {half} ({first}) in block 0" in item.text


def test_starts_that_differ_are_drawn_each_of_the_first_seed(study: headstart.Study) -> None:
    table = {**STUDY, "arms": {"scratch": {}, "random": {"finetune": {"start": ["draw(kernel, 0.1)"]}}}}
    table |= {"columns": {"spaces": STUDY["columns"]["spaces"]}, "axes": {"seed": [3, 4]}}
    other = headstart.Study(table, store=study.store.root)
    headstart.run(other)
    (item,), reasons = trained_drawings(other.plan, other.results(baselines=False), other.store, ["kernels"])
    assert not reasons
    assert item.title == "Kernels"
    panels = item.draw(False).axes
    assert [len(lines(axes, "--")) for axes in panels] == [2, 2]
    learnt = kernels(stage(study, "scratch", "spaces").model, 64)
    assert [list(lines(axes, "-")[0]) for axes in panels] == [list(kernel.largest) for kernel in learnt]


def test_a_long_kernel_is_drawn_by_its_height_on_a_scale_that_shows_it() -> None:
    far = np.exp(-np.arange(1000) / 100)
    item = KernelLine("a", 0, [Kernel(0, "mixer", 1, far)], [Kernel(0, "mixer", 1, 0.5 * far)])
    axes = kernel_figure([item]).axes[0]
    assert axes.get_yscale() == "log"
    assert list(lines(axes, "-")[0]) == list(far[::4])
    level = KernelLine("a", 0, [Kernel(0, "mixer", 1, 0 * far + 1)], [Kernel(0, "mixer", 1, 0 * far)])
    assert kernel_figure([level]).axes[0].get_yscale() == "linear"


def test_maps_are_drawn_for_every_head_with_their_distances(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    figure = drawn[0]["attention-heads-self_pretrained"].draw(False)
    item = stage(study, "self_pretrained", "heads")
    batch = first_batch(item)
    now, first = (list(attention_maps(model, batch)) for model in (item.model, item.start))
    images = [axes for axes in figure.axes if axes.images]
    curves = [axes for axes in figure.axes if not axes.images]
    assert len(images) == 4
    assert len(curves) == 2
    for axes, head, before in zip(images, now, first, strict=True):
        assert np.array_equal(axes.images[0].get_array(), head.weights)
        assert axes.get_title(loc="left") == (
            f"head {head.head}: {head.distance:.1f}\nat the start {before.distance:.1f}"
        )
    assert np.array_equal(lines(curves[1], "-")[0], now[2].by_distance)
    assert lines(curves[1], "--")[0] == pytest.approx((first[2].by_distance + first[3].by_distance) / 2)
    text = drawn[0]["attention-heads-self_pretrained"].text
    assert "mean over 16 val examples" in text
    assert f"weighing all alike would give {now[0].level:.1f}" in text


def test_one_example_is_drawn_as_the_mean_over_the_heads_of_the_first_attention(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    figure = drawn[0]["attention-example-heads-self_pretrained"].draw(False)
    item = stage(study, "self_pretrained", "heads")
    batch = first_batch(item, 1)
    for axes, model in zip(figure.axes, (item.model, item.start), strict=True):
        heads = [head.weights for head in attention_maps(model, batch) if head.block == 0]
        assert np.allclose(axes.images[0].get_array(), np.mean(heads, 0), atol=1e-12)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["after training", "at the start"]
    assert "numbers are positions" in drawn[0]["attention-example-heads-self_pretrained"].text


def test_symbols_of_an_example_stand_at_its_map_where_they_have_room() -> None:
    map_of = np.full((12, 12), 1 / 12)
    named = ExampleMap(0, 2, (*"abcdefghij", "$", "a very long name"), map_of, map_of)
    for axes in example_figure(named).axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            assert [label.get_text() for label in labels][8:] == ["i", "j", r"\$", "a very lo…"]
    wide = np.full((100, 100), 0.01)
    (first, _) = example_figure(ExampleMap(0, 2, ("a",) * 100, wide, wide)).axes
    assert [label.get_text() for label in first.get_xticklabels()] == ["0", "99"]
    narrow = Drawing("a", "A", "", lambda dark: example_figure(named, dark)).figure(width=3.3)
    assert narrow is not None
    assert narrow.axes[0].get_subplotspec().get_gridspec().ncols == 1, "one above the other"


def test_distances_of_all_arms_stand_together(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    item = drawn[0]["distances-heads"]
    result = stage(study, "scratch", "heads")
    batch = first_batch(result)
    far = [np.mean([m.distance for m in list(attention_maps(model, batch))]) for model in (result.model, result.start)]
    assert f"scratch {far[0]:.1f} ({far[1]:.1f})" in item.text
    axes = item.draw(True).axes[0]
    marks = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert [len(line.get_ydata()) for line in marks] == [4, 4, 4, 4]


def test_deviations_show_every_leaf_and_the_activations(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    item = drawn[0]["deviations-spaces"]
    panels = titled(item.draw(False))
    assert list(panels) == ["norm", "", "kernel", "mixer rest", "feed forward", "in no block", "activations"]
    opened_arms = [stage(study, arm, "spaces") for arm in STUDY["arms"]]
    result = [deviations(s.model, s.start) for s in opened_arms]
    panel = lines(panels["kernel"], "-")
    expected = [[d.moved for d in rows if d.leaf == "kernel"] for rows in result]
    assert [list(y) for y in panel] == expected
    assert expected[0][0] > 0
    assert expected[3] == [0, 0]
    spread = [activations(s.model, first_batch(s)) for s in opened_arms]
    assert [list(y) for y in lines(panels["activations"], "-")] == spread
    assert f"scratch {moved(result[0]):.2g}" in item.text
    assert "and untrained 0." in item.text


def test_an_untrained_arm_lies_on_its_own_start(drawn: tuple[dict[str, Drawing], list[str]]) -> None:
    panels = titled(drawn[0]["deviations-heads"].draw(False))
    assert list(lines(panels["activations"], "-")[3]) == list(lines(panels["activations"], "--")[3])


def test_spreads_are_those_of_each_tensor_beside_its_start_and_gpt2s(
    study: headstart.Study, drawn: tuple[dict[str, Drawing], list[str]]
) -> None:
    figure = drawn[0]["spreads-heads-scratch"].draw(False)
    item = stage(study, "scratch", "heads")
    layers = [f"mixer.{name}" for name in ("query", "key", "value", "output")]
    layers = list(dict.fromkeys([*layers, *(s.layer for s in spreads(item.model))]))
    assert len(layers) == 6, "four of attention, two of the feed-forward layers; no norm"
    for axes, kind, level in zip(figure.axes, ("weight", "bias"), (0.02, 0.0), strict=True):
        for model, dash in ((item.model, "-"), (item.start, "--")):
            tensors = dict(model.named_parameters())
            expected = {
                layer: [float(np.std(tensors[f"blocks.{b}.{layer}.{kind}"].detach().double().numpy())) for b in (0, 1)]
                for layer in layers
            }
            # The last line of a panel is that of GPT-2's start.
            drawn_lines = {tuple(np.round(y, 12)) for y in lines(SimpleNamespace(lines=axes.lines[:-1]), dash)}
            assert drawn_lines == {tuple(np.round(values, 12)) for values in expected.values()}
        assert list(axes.lines[-1].get_ydata()) == [level, level]
    assert "0.02 for weights and 0 for biases" in drawn[0]["spreads-heads-scratch"].text


def test_without_data_there_is_a_reason_and_no_figure(study: headstart.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> Any:
        raise headstart.BadInput("task.kind: no data here;\n  put them there.")

    monkeypatch.setattr("headstart.tasks.open_task", absent)
    result, reasons = trained_drawings(study.plan, study.results(baselines=False), study.store, ["deviations"])
    assert result == []
    assert reasons[0] == "Deviations of scratch on heads are not drawn: task.kind: no data here; put them there."
    assert len(reasons) == 8


def test_what_is_not_finished_is_said(study: headstart.Study, tmp_path: Path) -> None:
    other = headstart.Study(STUDY, store=tmp_path / "runs")
    result, reasons = trained_drawings(other.plan, other.results(baselines=False), other.store, ["attention"])
    assert result == []
    assert reasons[0] == "Attention of scratch on heads is not drawn: no run of it is finished."


def test_inputs_too_long_for_a_map_are_left_out(study: headstart.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.report.figures.attention.DRAWN_POSITIONS", 60)
    _, reasons = trained_drawings(study.plan, study.results(baselines=False), study.store, ["attention"])
    assert reasons[0] == (
        "Attention of scratch on heads is not drawn: 64 positions are more than the 60 that fit a map."
    )


def test_another_name_is_refused_with_the_nearest(study: headstart.Study) -> None:
    with pytest.raises(headstart.BadInput, match=r"report.figures: no 'kernel'; did you mean 'kernels'\?"):
        trained_drawings(study.plan, study.results(baselines=False), study.store, ["kernel"])


def test_names_are_those_of_files(study: headstart.Study) -> None:
    results = study.results(baselines=False)
    renamed = replace(
        results,
        columns=("a/b",),
        table=tuple(replace(row, column="a/b") for row in results.table if row.column == "spaces"),
    )
    (item,), _ = trained_drawings(study.plan, renamed, study.store, ["kernels"])
    assert item.name.startswith("kernels-a-b-")
    assert item.name.replace("-", "").isalnum()


@pytest.mark.usefixtures("whole_figures")
def test_figures_are_for_light_and_dark_pages_and_leave_no_trace(drawn: tuple[dict[str, Drawing], list[str]]) -> None:
    before = dict(matplotlib.rcParams)
    for item in drawn[0].values():
        light, dark = item.draw(False), item.draw(True)
        assert light.get_facecolor() != dark.get_facecolor()
        if item.name in ("attention-heads-scratch", "kernels-spaces"):
            assert png(light).startswith(b"\x89PNG")
            assert svg(dark) == svg(item.draw(True))
    assert dict(matplotlib.rcParams) == before


def test_a_pooled_map_holds_the_means_of_its_cells() -> None:
    weights = np.arange(49.0).reshape(7, 7)
    weights[6] = np.nan
    result = pooled(weights, 4)
    assert result.shape == (4, 4)
    for i in range(4):
        for j in range(4):
            cell = weights[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            there = cell[~np.isnan(cell)]
            assert np.isnan(result[i, j]) if not len(there) else result[i, j] == pytest.approx(there.mean())
    assert pooled(weights, 7) is weights


def test_some_keeps_the_first_and_the_last() -> None:
    assert some(range(12), 6) == [0, 2, 4, 7, 9, 11]
    assert some(range(3), 6) == [0, 1, 2]


def test_the_module_waits_for_torch_and_matplotlib() -> None:
    code = "import sys, headstart.report.figures.collect; sys.exit(any(name in sys.modules for name in ('torch', 'matplotlib')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
