"""How widely the numbers of each tensor are spread, block by block, beside GPT-2's start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headstart.report.figures.style import DASHES, DOTS, Drawing, across, canvas, dashed, entry, from_zero, legend
from headstart.report.figures.trained import TrainedColumn, some
from headstart.study import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.analysis.weights import Spread

GPT2 = 0.02
"""Standard deviation of every weight at GPT-2's start, where every bias is 0 (Radford et al. 2019)."""


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
            f"block, norms apart; dashed: at the start; dotted: GPT-2's start, {GPT2:g} for weights and 0 for biases "
            f"(figure 6 of Lu et al. 2021). The middle one of the weights has {middle:.2g}; seed {trained.seed}."
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
            axes.plot([0, last], [0.0 if bias else GPT2] * 2, color=look.quiet, linestyle=DOTS, linewidth=1.4)
            axes.set_title("biases" if bias else "weights")
            axes.set_xticks(some(range(last + 1), 6))
            axes.set_xlim(-0.4, last + 0.4)
            axes.set_xlabel("block")
            axes.set_ylabel("standard deviation")
            from_zero(axes)
        handles = [entry(layer.replace("_", " "), **look.marked(index)) for index, layer in enumerate(layers)]
        legend(figure, [*handles, dashed(look, "at the start"), dashed(look, "GPT-2's start", DOTS)])
    return figure
