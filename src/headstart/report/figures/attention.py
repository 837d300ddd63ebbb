"""Where heads look: a map of each, weight by distance, and how far they look on the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.report.figures.style import (
    DASHES,
    DOTS,
    Drawing,
    Look,
    across,
    canvas,
    dashed,
    entry,
    from_zero,
    legend,
    plain,
)
from headstart.report.figures.trained import LINE_POINTS, MOST_PANELS, TrainedColumn, TrainedFigures, block_name, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.analysis.stages import Opened

MAP_HEADS, MAP_CELLS = 4, 128
"""At most so many heads of a block in one figure, and cells of a map's side."""
DRAWN_POSITIONS = 2048
"""Positions up to which attention is drawn: a map has their square of numbers."""
SMALLEST, SYMBOL_LETTERS = 4.5, 10
"""Points of the smallest letters beside a map, and letters of the longest symbol there."""
MAP_WEIGHTS = 2**22
"""Weights of one head over all examples of its batch, about; long inputs get fewer examples, two at least."""


@dataclass(frozen=True)
class HeadMap:
    """One head as it is drawn: a map of at most MAP_CELLS x MAP_CELLS, mean distances and weight by distance.

    `length`: L, the positions that the map's side stands for. `first`: the distance at the start, `level` that of
    weighing all alike. `curve`, `first_curve`: (L,) mean weight by distance, learnt and at the start.
    """

    block: int
    mixer: str
    head: int
    length: int
    cells: np.ndarray
    distance: float
    first: float
    level: float
    curve: np.ndarray
    first_curve: np.ndarray


@dataclass(frozen=True)
class ExampleMap:
    """One example in the first layer of attention: (n, n) weights, mean over its heads, learnt and at the start.

    symbols: of its n positions, none where they cannot be written.
    """

    block: int
    heads: int
    symbols: tuple[str, ...]
    weights: np.ndarray
    first: np.ndarray


@dataclass(frozen=True)
class HeadLine:
    """All heads of one stage, in the colour of an arm by its `index` in the study."""

    label: str
    index: int
    heads: Sequence[HeadMap]

    def mean(self, value: Callable[[HeadMap], float]) -> float:
        """Over all heads."""
        return float(np.mean([value(head) for head in self.heads]))


def attention_drawings(column: TrainedColumn) -> list[Drawing]:
    """Per arm the maps of its heads and one example in its first layer, then all arms' mean attended distances."""
    out, lines = [], []
    for trained in column.stages("Attention", parent=False):
        arms, stage = words.listed(trained.arms), trained.stage
        length = stage.task.signature.length
        if length > DRAWN_POSITIONS:
            column.leave_out(
                "Attention", arms, f"{length:,} positions are more than the {DRAWN_POSITIONS:,} that fit a map"
            )
            continue
        heads, count = _heads(stage)
        if not heads:
            column.leave_out("Attention", arms, "no block of it has full or local attention")
        elif not all(np.isfinite([h.distance, h.first]).all() for h in heads):
            column.leave_out("Attention", arms, "its weights hold numbers that are not finite")
        else:
            lines.append(HeadLine(trained.label, trained.index, heads))
            caption = (
                f"Where each head of {arms} looks after {stage.name}: a row is a position and its weights on all "
                f"positions, mean over {words.many(count, 'val example')}, each map on its own scale (square root); "
                f"seed {trained.seed}. Numbers are the mean attended distance in positions; weighing all alike would "
                f"give {far(heads[0].level)}. Right: mean weight by distance, a colour per head; dashed: the heads' "
                "mean at the start."
            )
            title = f"Attention of {trained.label}"
            out.append(column.drawing("attention", title, caption, partial(attention_figure, heads), trained.arms[0]))
            out.append(_example_drawing(column, trained, arms))
    return [*out, *([_distances(column, lines)] if lines else [])]


def _heads(stage: Opened) -> tuple[list[HeadMap], int]:
    """The heads of a stage, and over how many examples they are averaged. One map is in memory at a time."""
    from headstart.analysis.attention import attention_maps
    from headstart.analysis.stages import LOOKED_EXAMPLES, first_batch

    batch = first_batch(stage, max(2, min(LOOKED_EXAMPLES, MAP_WEIGHTS // stage.task.signature.length**2)))
    heads = [
        HeadMap(
            now.block,
            now.mixer,
            now.head,
            len(now.weights),
            pooled(now.weights),
            now.distance,
            first.distance,
            now.level,
            now.by_distance,
            first.by_distance,
        )
        for now, first in zip(attention_maps(stage.model, batch), attention_maps(stage.start, batch), strict=True)
    ]
    return heads, len(batch)


def _example_drawing(column: TrainedColumn, trained: TrainedFigures, arms: str) -> Drawing:
    from headstart.analysis.attention import first_layer_map
    from headstart.analysis.stages import first_batch

    stage = trained.stage
    batch = first_batch(stage, 1)
    block, heads, weights = first_layer_map(stage.model, batch)
    read, inputs = stage.task.text, batch.inputs[0].numpy()[: len(weights)]
    symbols = () if read is None else tuple(read(inputs[i : i + 1]) for i in range(len(inputs)))
    example = ExampleMap(block, heads, symbols, weights, first_layer_map(stage.start, batch)[2])
    what = "its symbols stand beside the maps where they have room" if symbols else "numbers are positions"
    caption = (
        f"One val example in block {block} of {arms}, after {stage.name} and at the start: mean over "
        f"{words.many(heads, 'head')}. A row is a position and its weights on all positions, each map on its own scale "
        f"(square root); {what}; seed {trained.seed}."
    )
    title = f"One example in the first attention of {trained.label}"
    return column.drawing("attention-example", title, caption, partial(example_figure, example), trained.arms[0])


def _distances(column: TrainedColumn, lines: Sequence[HeadLine]) -> Drawing:
    means = [
        f"{line.label} {far(line.mean(lambda h: h.distance))} ({far(line.mean(lambda h: h.first))})" for line in lines
    ]
    caption = (
        "Mean distance in positions between a position and what it attends to: marks are heads, lines their mean, "
        f"dashed at the start, dotted where all is weighed alike. Over all heads, at the start in brackets: "
        f"{words.listed(means)}."
    )
    return column.drawing("distances", "How far heads look", caption, partial(distance_figure, lines))


def pooled(weights: np.ndarray, most: int = MAP_CELLS) -> np.ndarray:
    """A square map as one of at most so many cells a side, each the mean of the numbers in it (NaN: of none)."""
    step = math.ceil(len(weights) / most)
    if step == 1:
        return weights
    firsts = np.arange(0, len(weights), step)
    total, count = np.where(np.isnan(weights), 0.0, weights), (~np.isnan(weights)).astype(float)
    for axis in (0, 1):
        total, count = (np.add.reduceat(x, firsts, axis=axis) for x in (total, count))
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def attention_figure(heads: Sequence[HeadMap], dark: bool = False) -> Figure:
    """One stage's maps, a row per block and a column per head; beside them each head's weight by distance."""
    mixers = some(dict.fromkeys((h.block, h.mixer) for h in heads), MOST_PANELS)
    every = [[h for h in heads if (h.block, h.mixer) == mixer] for mixer in mixers]
    most = min(MAP_HEADS, max(map(len, every)))
    with canvas(dark, 1.75 * most + 2.9, 2.15 * len(every) + 0.3) as (figure, look):
        columns = max(1, min(most, int(figure.get_figwidth() - 1.9)))
        rows = [some(group, columns) for group in every]
        grid = figure.add_gridspec(len(rows), columns + 1, width_ratios=[*[1.0] * columns, 1.35])
        for row, (mixer, group) in enumerate(zip(mixers, rows, strict=True)):
            for column, head in enumerate(group):
                axes = figure.add_subplot(grid[row, column])
                _map(axes, head, look)
                if column == 0:
                    axes.set_ylabel(f"{block_name(*mixer)}\nposition")
                if row == len(rows) - 1:
                    axes.set_xlabel("attends to")
            axes = figure.add_subplot(grid[row, columns])
            _curves(axes, group, look)
            if row == 0:
                axes.set_title("weight by distance", fontsize="medium")
            if row == len(rows) - 1:
                axes.set_xlabel("distance in positions")
    return figure


def example_figure(example: ExampleMap, dark: bool = False) -> Figure:
    """The mean over heads for one example, after training and at the start, with the example's symbols on both axes."""
    with canvas(dark, 7.2, 3.5) as (figure, look):
        number = across(figure, 2, 3.0)
        side = 72 * (figure.get_figwidth() / number - 0.9)
        for panel, (title, weights) in enumerate(
            (("after training", example.weights), ("at the start", example.first))
        ):
            axes = figure.add_subplot(2 // number, number, panel + 1)
            _shade(axes, pooled(weights), len(weights), look)
            axes.set_title(title, fontsize="medium", fontweight="normal")
            points = min(8.0, side / (1.5 * len(weights)))
            if example.symbols and points >= SMALLEST:
                names = [
                    plain(symbol if len(symbol) <= SYMBOL_LETTERS else f"{symbol[: SYMBOL_LETTERS - 1]}…")
                    for symbol in example.symbols
                ]
                upright: dict[str, Any] = {"rotation": 90} if max(map(len, names)) > 1 else {}
                axes.set_xticks(range(len(names)), names, fontsize=points, **upright)
                axes.set_yticks(range(len(names)), names, fontsize=points)
            if panel % number == 0:
                axes.set_ylabel(f"block {example.block}\nposition")
            if panel >= 2 - number:
                axes.set_xlabel("attends to")
    return figure


def _map(axes: Axes, head: HeadMap, look: Look) -> None:
    _shade(axes, head.cells, head.length, look)
    title = f"head {head.head}: {far(head.distance)}\nat the start {far(head.first)}"
    axes.set_title(title, fontsize="medium", fontweight="normal")


def _shade(axes: Axes, cells: np.ndarray, length: int, look: Look) -> None:
    """A map of `length` positions a side, dark where the weight is large."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    shades = LinearSegmentedColormap.from_list("weights", [look.paper, look.colour(0), look.ink])
    end = length - 1
    axes.imshow(
        cells,
        cmap=shades.with_extremes(bad=look.rule),
        norm=PowerNorm(0.5, 0.0, float(np.nanmax(cells)) or 1.0),
        interpolation="nearest",
        extent=(-0.5, end + 0.5, end + 0.5, -0.5),
    )
    axes.set_xticks([0, end])
    axes.set_yticks([0, end])
    axes.grid(False)


def _curves(axes: Axes, heads: Sequence[HeadMap], look: Look) -> None:
    """Weight by distance: one colour a head; the start, dashed, is the mean over the heads."""
    from matplotlib.ticker import NullFormatter

    first = np.mean([head.first_curve for head in heads], axis=0)
    step = math.ceil(len(first) / LINE_POINTS)
    x = np.arange(0, len(first), step)
    for head in heads:
        axes.plot(x, head.curve[::step], color=look.colour(head.head), linewidth=1.3)
    axes.plot(x, first[::step], color=look.quiet, linestyle=DASHES, linewidth=1.2)
    values = np.concatenate([*(head.curve for head in heads), first])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    # Less than a power of ten has too few ticks on a logarithmic scale.
    if low > 0 and high > 20 * low:
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], high * 1e-4))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        from_zero(axes)


def far(distance: float) -> str:
    """A distance in positions: `0.42`, `13.2`, `412`."""
    return f"{distance:.2f}" if distance < 1 else (f"{distance:.1f}" if distance < 100 else f"{distance:.0f}")


def distance_figure(lines: Sequence[HeadLine], dark: bool = False) -> Figure:
    """Mean attended distance by block: a mark per head, a line through the means; dashed at the start."""
    with canvas(dark, 6.2, 3.3) as (figure, look):
        axes = figure.add_subplot()
        for number, line in enumerate(lines):
            how = {**look.marked(line.index), "markersize": 4.5}
            shift = 0.06 * (number - (len(lines) - 1) / 2)
            x = [h.block + shift for h in line.heads]
            axes.plot(x, [h.distance for h in line.heads], linestyle="none", alpha=0.6, **how)
            _means(axes, line, shift, lambda h: h.distance, color=how["color"])
            _means(axes, line, shift, lambda h: h.first, color=how["color"], linestyle=DASHES, linewidth=1.2)
        _means(axes, lines[0], 0.0, lambda h: h.level, color=look.quiet, linestyle=":", linewidth=1.2)
        axes.set_xticks(sorted({h.block for line in lines for h in line.heads}))
        axes.set_xlabel("block")
        axes.set_ylabel("mean attended distance")
        from_zero(axes)
        handles = [entry(line.label, **look.marked(line.index)) for line in lines]
        legend(figure, [*handles, dashed(look, "at the start"), dashed(look, "weighing all alike", DOTS)])
    return figure


def _means(axes: Axes, line: HeadLine, shift: float, value: Callable[[HeadMap], float], **how: Any) -> None:
    """Means over the heads of each block."""
    blocks = sorted({h.block for h in line.heads})
    means = [np.mean([value(h) for h in line.heads if h.block == block]) for block in blocks]
    axes.plot([block + shift for block in blocks], means, **how)
