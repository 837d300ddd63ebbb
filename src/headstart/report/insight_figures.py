"""Drawings of what training made of weights: kernels, and distances from the start. See `insight`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headstart.report.plots import MARKS, Look, fitting, plain, style
from headstart.study import words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.analysis.deviations import Deviation
    from headstart.analysis.kernels import Kernel

PANELS, POINTS = 6, 256
"""At most so many blocks in one figure, and points of a line: a kernel swings, and what is looked for is its height."""
DASHES = (0, (3, 2))

T = TypeVar("T")


@dataclass(frozen=True)
class KernelLine:
    """Kernels of one stage, learnt and at the start, in the colour of an arm's `place` in the study."""

    label: str
    place: int
    learnt: Sequence[Kernel]
    start: Sequence[Kernel]


@dataclass(frozen=True)
class DeviationLine:
    """Distances of one stage from its start, and the spread of activations after each block, learnt and before."""

    label: str
    place: int
    found: Sequence[Deviation]
    spread: Sequence[float]
    first: Sequence[float]


def some(items: Iterable[T], most: int) -> list[T]:
    """At most so many of them, the first and the last among these, at even steps."""
    held = list(items)
    if len(held) <= most:
        return held
    return [held[round(i * (len(held) - 1) / (most - 1))] for i in range(most)]


def kernel_figure(lines: Sequence[KernelLine], row: int = 0, dark: bool = False) -> Figure:
    """Largest absolute kernel by distance, one panel a block; learnt solid, at the start dashed.

    Of more than POINTS positions each point is the largest of several.
    row: positions of one row of an image (0: of no image); rows become grid lines.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = some(dict.fromkeys((k.block, k.place) for line in lines for k in line.learnt), PANELS)
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    one_start = _same([[k.largest for k in line.start] for line in lines])
    with style(dark) as look:
        figure = Figure(figsize=(max(3.1 * across + 0.3, 5.6), 2.3 * down + 0.7))
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(down, across, number, sharey=figure.axes[0] if figure.axes else None)
            axes.set_title(block_name(*panel))
            if number % across == 1 or across == 1:
                axes.set_ylabel("largest |K|")
            for place, line in enumerate(lines):
                colour = look.colour(line.place)
                if not one_start or place == 0:
                    _kernel(axes, line.start, panel, look.quiet if one_start else colour, DASHES)
                _kernel(axes, line.learnt, panel, colour, "solid")
            if number > len(panels) - across:
                axes.set_xlabel("distance in positions")
            _rows_of_an_image(axes, max(len(k.largest) for line in lines for k in line.learnt), row)
        _kernel_scale(figure.axes[0], lines)
        handles = [Line2D([], [], color=look.colour(line.place), label=plain(line.label)) for line in lines]
        handles.append(Line2D([], [], color=look.quiet, linestyle=DASHES, linewidth=1.2, label="at the start"))
        legend(figure, handles)
    return figure


def _same(starts: Sequence[Sequence[np.ndarray]]) -> bool:
    """All stages started with the same kernels."""
    return all(
        len(one) == len(starts[0]) and all(np.array_equal(a, b) for a, b in zip(one, starts[0], strict=True))
        for one in starts
    )


def _kernel(axes: Axes, found: Sequence[Kernel], panel: tuple[int, str], colour: str, dash: Any) -> None:
    for kernel in found:
        if (kernel.block, kernel.place) == panel:
            step = math.ceil(len(kernel.largest) / POINTS)
            firsts = np.arange(0, len(kernel.largest), step)
            axes.plot(
                firsts,
                np.maximum.reduceat(kernel.largest, firsts),
                color=colour,
                linestyle=dash,
                linewidth=1.5 if dash == "solid" else 1.2,
            )


def _kernel_scale(axes: Axes, lines: Sequence[KernelLine]) -> None:
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


def block_name(block: int, place: str) -> str:
    """`block 0`, or `block 0, mixer 1` of mixers side by side (both as in `backbone[0]` and `mixers`)."""
    inner = place.removeprefix("mixer").strip(".").removeprefix("mixers.")
    return f"block {block}, mixer {inner}" if inner else f"block {block}"


def deviation_figure(lines: Sequence[DeviationLine], dark: bool = False) -> Figure:
    """Above: how far each part moved from its start, by block. Below: its root mean square, dashed at the start.

    What is in no block has a panel of its own; the last one below is the spread of activations after each block.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    inside = list(dict.fromkeys(d.leaf for line in lines for d in line.found if d.block is not None))
    outside = list(dict.fromkeys(d.leaf for line in lines for d in line.found if d.block is None))
    across = len(inside) + 2
    with style(dark) as look:
        figure = Figure(figsize=(1.95 * across + 0.5, 4.6))
        for column, leaf in enumerate([*inside, ""]):
            for row in (0, 1):
                axes = figure.add_subplot(2, across, row * across + column + 1)
                for line in lines:
                    _deviation(axes, line, leaf, outside, row == 0, look)
                if row == 0:
                    axes.set_title(leaf.replace("_", " ") if leaf else "in no block")
                from_zero(axes)
                if leaf:
                    _blocks(axes, lines)
                else:
                    axes.set_xticks(range(len(outside)), outside, rotation=30, ha="right", fontsize=8)
                    axes.margins(x=0.2)
                if column == 0:
                    axes.set_ylabel("relative distance\nfrom the start" if row == 0 else "root mean square\nof weights")
        axes = figure.add_subplot(2, across, 2 * across)
        for line in lines:
            _with_start(axes, range(len(line.spread)), line.spread, line.first, look.colour(line.place), line.place)
        axes.set_title("activations")
        from_zero(axes)
        _blocks(axes, lines)
        handles = [
            Line2D(
                [],
                [],
                color=look.colour(line.place),
                marker=MARKS[line.place % len(MARKS)],
                markersize=4.5,
                label=plain(line.label),
            )
            for line in lines
        ]
        handles.append(Line2D([], [], color=look.quiet, linestyle=DASHES, linewidth=1.2, label="at the start"))
        legend(figure, handles)
    return figure


def _deviation(axes: Axes, line: DeviationLine, leaf: str, outside: Sequence[str], distance: bool, look: Look) -> None:
    """One arm in one panel: the blocks of a leaf, or the leaves that are in no block."""
    if leaf:
        found = [d for d in line.found if d.leaf == leaf and d.block is not None]
        x = [d.block or 0 for d in found]
    else:
        found = [d for d in line.found if d.block is None]
        x = [outside.index(d.leaf) for d in found]
    if distance:
        axes.plot(
            x,
            [d.moved if math.isfinite(d.moved) else np.nan for d in found],
            color=look.colour(line.place),
            marker=MARKS[line.place % len(MARKS)],
            markersize=4.5,
            linestyle="solid" if leaf else "none",
        )
    else:
        _with_start(
            axes,
            x,
            [d.size for d in found],
            [d.start for d in found],
            look.colour(line.place),
            line.place,
            joined=bool(leaf),
        )


def _with_start(
    axes: Axes,
    x: Sequence[int],
    now: Sequence[float],
    first: Sequence[float],
    colour: str,
    place: int,
    joined: bool = True,
) -> None:
    mark = MARKS[place % len(MARKS)]
    axes.plot(x, now, color=colour, marker=mark, markersize=4.5, linestyle="solid" if joined else "none")
    if joined:
        axes.plot(x, first, color=colour, linestyle=DASHES, linewidth=1.2)
    else:
        axes.plot(x, first, color=colour, marker=mark, markersize=4.5, markerfacecolor="none", linestyle="none")


def _blocks(axes: Axes, lines: Sequence[DeviationLine]) -> None:
    count = max(len(line.spread) for line in lines)
    axes.set_xticks(some(range(count), 8))
    axes.set_xlim(-0.4, count - 0.6)
    axes.set_xlabel("block")


def from_zero(axes: Axes) -> None:
    """The axis begins at 0 and ends a little above the highest mark."""
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    top = max((float(np.nanmax(y)) for y in drawn if np.isfinite(y).any()), default=0.0)
    axes.set_ylim(0, 1.08 * top if top > 0 else 1.0)


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    figure.legend(handles=handles, loc="outside upper left", ncols=fitting(handles, figure.get_figwidth()), fontsize=9)


def told(names: Sequence[str]) -> str:
    """Arms that share a stage, as a label: `a`, `a and b`, `a, b and 3 more`."""
    return words.listed(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"
