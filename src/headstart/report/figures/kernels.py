"""Kernels of trained convolutions, before fine-tuning, beside those that they started from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.report.figures.style import APART, DASHES, Drawing, across, canvas, dashed, entry, legend
from headstart.report.figures.trained import LINE_POINTS, MOST_PANELS, TrainedColumn, block_name, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.analysis.weights import Kernel


@dataclass(frozen=True)
class KernelLine:
    """Kernels of one stage, learnt and at the start, in the colour of an arm by its `index` in the study."""

    label: str
    index: int
    learnt: Sequence[Kernel]
    start: Sequence[Kernel]


def kernel_drawings(column: TrainedColumn) -> list[Drawing]:
    """As in figure 4 of Amos et al. 2023: before fine-tuning, learnt against the start."""
    from headstart.analysis.weights import kernels
    from headstart.tasks.images import positions_of_a_row

    lines, halves, row, seed, step = [], [], 0, 0, 1
    for trained in column.stages("Kernels", parent=True):
        stage, arms = trained.stage, words.listed(trained.arms)
        length = stage.task.signature.length
        learnt, start = (kernels(model, length) for model in (stage.model, stage.start))
        if not learnt:
            column.leave_out("Kernels", arms, "no block of it has a convolution")
        elif not all(np.isfinite(k.largest).all() for k in (*learnt, *start)):
            column.leave_out("Kernels", arms, "they hold numbers that are not finite")
        else:
            label = f"{trained.label} after {stage.name}"
            lines.append(KernelLine(label, trained.index, learnt, start))
            row, seed, step = positions_of_a_row(stage.task), trained.seed, -(-length // LINE_POINTS)
            moves = [
                f"{now.half} ({first.half}) in {block_name(now.block, now.mixer)}"
                for now, first in zip(learnt, start, strict=True)
            ]
            halves.append(f"{label}: {words.listed(moves)}")
    notes = [
        f"seed {seed}",
        *([f"grid lines are rows of the image, {row} positions each"] if row else []),
        *([f"each point is the largest of {step} positions"] if step > 1 else []),
    ]
    out = []
    for number, first in enumerate(range(0, len(lines), APART)):
        group = slice(first, first + APART)
        caption = (
            "Largest absolute value of each block's kernel over channels and directions, by distance; solid as learnt, "
            f"dashed as it started; {'; '.join(notes)}. Positions that hold half of the sum, and in brackets at the "
            f"start: {'; '.join(halves[group])}."
        )
        draw = partial(kernel_figure, lines[group], row)
        out.append(column.drawing("kernels", "Kernels", caption, draw, str(number + 1) if number else ""))
    return out


def kernel_figure(lines: Sequence[KernelLine], row: int = 0, dark: bool = False) -> Figure:
    """Largest absolute kernel by distance, one panel a block; learnt solid, at the start dashed.

    Of more than LINE_POINTS positions each point is the largest of several.
    row: positions of one row of an image (0: of no image); rows become grid lines.
    """
    panels = some(dict.fromkeys((k.block, k.mixer) for line in lines for k in line.learnt), MOST_PANELS)
    most = min(3, len(panels))
    one_start = _same([[k.largest for k in line.start] for line in lines])
    with canvas(dark, max(3.1 * most + 0.3, 5.6), 2.5) as (figure, look):
        columns = min(most, across(figure, len(panels), max(2.2, figure.get_figwidth() / (most + 0.9))))
        down = math.ceil(len(panels) / columns)
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(down, columns, number, sharey=figure.axes[0] if figure.axes else None)
            axes.set_title(block_name(*panel))
            if number % columns == 1 or columns == 1:
                axes.set_ylabel("largest |K|")
            for index, line in enumerate(lines):
                colour = look.colour(line.index)
                if not one_start or index == 0:
                    _plot(axes, line.start, panel, color=look.quiet if one_start else colour, linestyle=DASHES)
                _plot(axes, line.learnt, panel, color=colour, linewidth=1.5)
            if number > len(panels) - columns:
                axes.set_xlabel("distance in positions")
            _rows_of_an_image(axes, max(len(k.largest) for line in lines for k in line.learnt), row)
        _scale(figure.axes[0], lines)
        handles = [entry(line.label, color=look.colour(line.index)) for line in lines]
        legend(figure, [*handles, dashed(look, "at the start")])
    return figure


def _same(starts: Sequence[Sequence[np.ndarray]]) -> bool:
    """All stages started with the same kernels."""
    first = starts[0]
    return all(len(start) == len(first) and all(map(np.array_equal, start, first)) for start in starts)


def _plot(axes: Axes, kernels: Sequence[Kernel], panel: tuple[int, str], **line: Any) -> None:
    for kernel in kernels:
        if (kernel.block, kernel.mixer) == panel:
            firsts = np.arange(0, len(kernel.largest), math.ceil(len(kernel.largest) / LINE_POINTS))
            axes.plot(firsts, np.maximum.reduceat(kernel.largest, firsts), **{"linewidth": 1.2, **line})


def _scale(axes: Axes, lines: Sequence[KernelLine]) -> None:
    """Logarithmic where most of some kernel would lie on the axis else; four powers of ten at most."""
    values = [k.largest for line in lines for k in (*line.learnt, *line.start)]
    top = max(float(x.max()) for x in values)
    if top > 20 * min(float(np.median(x)) for x in values) > 0:
        least = min(float(x[x > 0].min()) for x in values)
        axes.set_yscale("log")
        axes.set_ylim(max(least, top * 1e-4) / 1.3, top * 1.5)
    else:
        axes.set_ylim(0, 1.05 * top if top > 0 else 1.0)


def _rows_of_an_image(axes: Axes, length: int, row: int) -> None:
    axes.set_xlim(0, max(length - 1, 1))
    if not row:
        return
    rows = length // row
    axes.set_xticks(range(0, length, row * math.ceil(rows / 6)))
    if rows <= 32:
        axes.set_xticks(range(0, length, row), minor=True)
    axes.grid(True, axis="x", which="both", linewidth=0.4)
