"""Drawings of where heads look: a map of each, weight by distance, and how far they look on the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.report.insight_figures import DASHES, PANELS, POINTS, block_name, from_zero, legend, some
from headstart.report.plots import MARKS, Look, plain, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADS, CELLS = 4, 128
"""At most so many heads of a block in one figure, and cells of a map's side."""


@dataclass(frozen=True)
class HeadMap:
    """One head as it is drawn: a map of at most CELLS x CELLS, mean distances and weight by distance.

    `length`: L, the positions that the map's side stands for. `first`: the distance at the start, `level` that of
    weighing all alike. `curve`, `first_curve`: (L,) mean weight by distance, learnt and at the start.
    """

    block: int
    where: str
    head: int
    length: int
    cells: np.ndarray
    distance: float
    first: float
    level: float
    curve: np.ndarray
    first_curve: np.ndarray


@dataclass(frozen=True)
class HeadLine:
    """All heads of one stage."""

    label: str
    place: int
    heads: Sequence[HeadMap]


def pooled(weights: np.ndarray, most: int = CELLS) -> np.ndarray:
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
    from matplotlib.figure import Figure

    rows = some(dict.fromkeys((h.block, h.where) for h in heads), PANELS)
    shown = {at: some([h for h in heads if (h.block, h.where) == at], HEADS) for at in rows}
    across = max(len(found) for found in shown.values())
    with style(dark) as look:
        figure = Figure(figsize=(1.75 * across + 2.9, 2.15 * len(rows) + 0.3))
        grid = figure.add_gridspec(len(rows), across + 1, width_ratios=[*[1.0] * across, 1.35])
        for row, (at, found) in enumerate(shown.items()):
            for column, head in enumerate(found):
                axes = figure.add_subplot(grid[row, column])
                _map(axes, head, look)
                if column == 0:
                    axes.set_ylabel(f"{block_name(*at)}\nposition")
                if row == len(rows) - 1:
                    axes.set_xlabel("attends to")
            axes = figure.add_subplot(grid[row, across])
            _curves(axes, found, look)
            if row == 0:
                axes.set_title("weight by distance", fontsize=9)
            if row == len(rows) - 1:
                axes.set_xlabel("distance in positions")
    return figure


def _map(axes: Axes, head: HeadMap, look: Look) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    shades = LinearSegmentedColormap.from_list("weights", [look.paper, look.colour(0), look.ink])
    top = float(np.nanmax(head.cells))
    axes.imshow(
        head.cells,
        cmap=shades.with_extremes(bad=look.rule),
        norm=PowerNorm(0.5, 0.0, top or 1.0),
        interpolation="nearest",
        extent=(-0.5, head.length - 0.5, head.length - 0.5, -0.5),
    )
    axes.set_xticks([0, head.length - 1])
    axes.set_yticks([0, head.length - 1])
    axes.grid(False)
    axes.set_title(
        f"head {head.head}: {far(head.distance)}\nat the start {far(head.first)}", fontsize=9, fontweight="normal"
    )


def _curves(axes: Axes, heads: Sequence[HeadMap], look: Look) -> None:
    """Weight by distance: one colour a head; the start, dashed, is the mean over the heads."""
    from matplotlib.ticker import NullFormatter

    for head in heads:
        axes.plot(*_thinned(head.curve), color=look.colour(head.head), linewidth=1.3)
    first = np.mean([head.first_curve for head in heads], axis=0)
    axes.plot(*_thinned(first), color=look.quiet, linestyle=DASHES, linewidth=1.2)
    values = np.concatenate([*(head.curve for head in heads), first])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    # Less than a power of ten has too few ticks on a logarithmic scale.
    if low > 0 and high > 20 * low:
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], high * 1e-4))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        from_zero(axes)


def _thinned(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    step = math.ceil(len(curve) / POINTS)
    return np.arange(0, len(curve), step), curve[::step]


def far(distance: float) -> str:
    """A distance in positions: `0.42`, `13.2`, `412`."""
    return f"{distance:.2f}" if distance < 1 else (f"{distance:.1f}" if distance < 100 else f"{distance:.0f}")


def distance_figure(lines: Sequence[HeadLine], dark: bool = False) -> Figure:
    """Mean attended distance by block: a mark per head, a line through the means; dashed at the start."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with style(dark) as look:
        figure = Figure(figsize=(6.2, 3.3))
        axes = figure.add_subplot()
        handles: list[Any] = []
        for place, line in enumerate(lines):
            colour, mark = look.colour(line.place), MARKS[line.place % len(MARKS)]
            shift = 0.06 * (place - (len(lines) - 1) / 2)
            axes.plot(
                [h.block + shift for h in line.heads],
                [h.distance for h in line.heads],
                linestyle="none",
                marker=mark,
                markersize=4.5,
                color=colour,
                alpha=0.6,
            )
            _means(axes, line, shift, lambda h: h.distance, color=colour)
            _means(axes, line, shift, lambda h: h.first, color=colour, linestyle=DASHES, linewidth=1.2)
            handles.append(Line2D([], [], color=colour, marker=mark, markersize=4.5, label=plain(line.label)))
        _means(axes, lines[0], 0.0, lambda h: h.level, color=look.quiet, linestyle=":", linewidth=1.2)
        handles += [
            Line2D([], [], color=look.quiet, linestyle=DASHES, linewidth=1.2, label="at the start"),
            Line2D([], [], color=look.quiet, linestyle=":", linewidth=1.2, label="weighing all alike"),
        ]
        axes.set_xticks(sorted({h.block for line in lines for h in line.heads}))
        axes.set_xlabel("block")
        axes.set_ylabel("mean attended distance")
        from_zero(axes)
        legend(figure, handles)
    return figure


def _means(axes: Axes, line: HeadLine, shift: float, of: Callable[[HeadMap], float], **how: Any) -> None:
    """Means over the heads of each block."""
    blocks = sorted({h.block for h in line.heads})
    values = [np.mean([of(h) for h in line.heads if h.block == block]) for block in blocks]
    axes.plot([block + shift for block in blocks], values, **how)
