"""How far training moved the weights from their start, and the spread of activations and weights, by part and block."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    name_ticks,
)
from headstart.report.figures.trained import TrainedColumn, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.analysis.weights import Deviation, Spread

GPT2_DEVIATION = 0.02
"""Standard deviation of every weight at GPT-2's start, where every bias is 0 (Radford et al. 2019)."""


@dataclass(frozen=True)
class DeviationLine:
    """Distances of one stage from its start, and the spread of activations after each block, learnt and before."""

    label: str
    index: int
    deviations: Sequence[Deviation]
    spread: Sequence[float]
    first: Sequence[float]


def deviation_drawings(column: TrainedColumn) -> list[Drawing]:
    """One figure of all arms, of the reported stage."""
    from headstart.analysis.stages import first_batch
    from headstart.analysis.weights import activations, deviations, moved

    lines, distances, seed = [], [], 0
    for trained in column.stages("Deviations", parent=False):
        stage = trained.stage
        changes = deviations(stage.model, stage.start)
        batch = first_batch(stage)
        spread, first = (activations(model, batch) for model in (stage.model, stage.start))
        if not np.isfinite([*spread, *first, *(d.size for d in changes)]).all():
            why = "its weights or activations hold numbers that are not finite"
            column.leave_out("Deviations", words.listed(trained.arms), why)
            continue
        lines.append(DeviationLine(trained.label, trained.index, changes, spread, first))
        distances.append(f"{trained.label} {moved(changes):.2g}")
        seed = trained.seed
    if not lines:
        return []
    caption = (
        "How far the reported stage moved from the weights that it started with (the parent's where it has one), "
        "|W − W0| / |W0| by part and block, above; root mean square of the weights, and standard deviation of the "
        f"activations after each block, below; dashed or hollow: at the start; seed {seed}. All weights together "
        f"moved by {words.listed(distances)}."
    )
    draw = partial(deviation_figure, lines)
    return [column.drawing("deviations", "How far training moved the weights", caption, draw)]


BESIDE = 0.06
"""Steps of the horizontal axis between the points of two arms that have one point each."""


def deviation_figure(lines: Sequence[DeviationLine], dark: bool = False) -> Figure:
    """Above: how far each part moved from its start, by block. Below: its root mean square, dashed at the start.

    What is in no block has a panel of its own; the last one below is the spread of activations after each block.
    """
    every = [d for line in lines for d in line.deviations]
    inside = list(dict.fromkeys(d.leaf for d in every if d.block is not None))
    outside = list(dict.fromkeys(d.leaf for d in every if d.block is None))
    panels = len(inside) + 2
    with canvas(dark, 1.95 * panels + 0.5, 4.6) as (figure, look):
        columns = across(figure, panels, 1.6)
        rows = 2 * math.ceil(panels / columns)
        for column, leaf in enumerate([*inside, ""]):
            for row in (0, 1):
                at = (2 * (column // columns) + row) * columns + column % columns + 1
                axes = figure.add_subplot(rows, columns, at)
                for number, line in enumerate(lines):
                    _plot(axes, line, leaf, outside, row == 0, look, BESIDE * (number - (len(lines) - 1) / 2))
                if row == 0:
                    axes.set_title(leaf.replace("_", " ") if leaf else "in no block")
                from_zero(axes)
                if leaf:
                    _blocks(axes, lines)
                else:
                    name_ticks(axes, range(len(outside)), outside)
                    axes.margins(x=0.2)
                if column % columns == 0:
                    axes.set_ylabel("relative distance\nfrom the start" if row == 0 else "root mean square\nof weights")
        axes = figure.add_subplot(rows, columns, (rows - 1) * columns + (panels - 1) % columns + 1)
        for line in lines:
            _with_start(axes, range(len(line.spread)), line.spread, line.first, look.marked(line.index))
        axes.set_title("activations")
        from_zero(axes)
        _blocks(axes, lines)
        handles = [entry(line.label, **look.marked(line.index)) for line in lines]
        legend(figure, [*handles, dashed(look, "at the start")])
    return figure


def _plot(
    axes: Axes, line: DeviationLine, leaf: str, outside: Sequence[str], distance: bool, look: Look, beside: float
) -> None:
    """One arm in one panel: the blocks of a leaf, or the leaves that are in no block.

    beside: how far single points stand aside, so that those of arms with equal weights do not hide each other.
    """
    drawn = [d for d in line.deviations if (d.leaf == leaf and d.block is not None if leaf else d.block is None)]
    x: list[float] = [(d.block or 0) if leaf else outside.index(d.leaf) for d in drawn]
    if not leaf or len(x) == 1:
        x = [at + beside for at in x]
    how = look.marked(line.index)
    if distance:
        moved = [d.moved if math.isfinite(d.moved) else np.nan for d in drawn]
        axes.plot(x, moved, markersize=4.5, linestyle="solid" if leaf else "none", **how)
    else:
        _with_start(axes, x, [d.size for d in drawn], [d.start for d in drawn], how, joined=bool(leaf))


def _with_start(
    axes: Axes,
    x: Sequence[float],
    now: Sequence[float],
    first: Sequence[float],
    how: dict[str, Any],
    joined: bool = True,
) -> None:
    axes.plot(x, now, markersize=4.5, linestyle="solid" if joined else "none", **how)
    if joined:
        axes.plot(x, first, color=how["color"], linestyle=DASHES, linewidth=1.2)
    else:
        axes.plot(x, first, markersize=4.5, markerfacecolor="none", linestyle="none", **how)


def _blocks(axes: Axes, lines: Sequence[DeviationLine]) -> None:
    count = max(len(line.spread) for line in lines)
    axes.set_xticks(some(range(count), 8))
    axes.set_xlim(-0.4, count - 0.6)
    axes.set_xlabel("block")


def spread_drawings(column: TrainedColumn) -> list[Drawing]:
    """One figure per arm, of the reported stage: its tensors, and those that it began with."""
    from headstart.analysis.weights import spreads

    out = []
    for trained in column.stages("Spreads", parent=False):
        arms, now, first = words.listed(trained.arms), spreads(trained.stage.model), spreads(trained.stage.start)
        if not np.isfinite([spread.deviation for spread in [*now, *first]]).all():
            column.leave_out("Spreads", arms, "its weights hold numbers that are not finite")
            continue
        middle = float(np.median([spread.deviation for spread in now if not spread.bias] or [0.0]))
        caption = (
            f"Standard deviation of the numbers of each weight and each bias of {arms} after {trained.stage.name}, by "
            f"block, norms apart; dashed: at the start; dotted: GPT-2's start, {GPT2_DEVIATION:g} for weights and 0 "
            f"for biases (figure 6 of Lu et al. 2021). The middle one of the weights has {middle:.2g}; seed "
            f"{trained.seed}."
        )
        draw = partial(spread_figure, now, first)
        out.append(column.drawing("spreads", f"Spreads of {trained.label}", caption, draw, trained.arms[0]))
    return out


def spread_figure(now: Sequence[Spread], first: Sequence[Spread], dark: bool = False) -> Figure:
    """Weights and biases side by side: a line per tensor over the blocks, dashed at the start."""
    layers = list(dict.fromkeys(spread.layer for spread in now))
    last = max(spread.block for spread in now)
    with canvas(dark, 6.6, 3.2) as (figure, look):
        columns = across(figure, 2, 2.2)
        for number, bias in enumerate((False, True)):
            axes = figure.add_subplot(2 // columns, columns, number + 1)
            for index, layer in enumerate(layers):
                how = look.marked(index)
                for spreads, line in ((now, how), (first, {"color": how["color"], "linestyle": DASHES})):
                    chosen = [s for s in spreads if s.layer == layer and s.bias == bias]
                    axes.plot([s.block for s in chosen], [s.deviation for s in chosen], markersize=4.5, **line)
            axes.plot([0, last], [0.0 if bias else GPT2_DEVIATION] * 2, color=look.quiet, linestyle=DOTS, linewidth=1.4)
            axes.set_title("biases" if bias else "weights")
            axes.set_xticks(some(range(last + 1), 6))
            axes.set_xlim(-0.4, last + 0.4)
            axes.set_xlabel("block")
            axes.set_ylabel("standard deviation")
            from_zero(axes)
        handles = [entry(layer.replace("_", " "), **look.marked(index)) for index, layer in enumerate(layers)]
        legend(figure, [*handles, dashed(look, "at the start"), dashed(look, "GPT-2's start", DOTS)])
    return figure
