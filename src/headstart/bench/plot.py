"""The picture of a survey of mixers: time of a step against length, both on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headstart.bench.mixers import Cell
from headstart.report.figures.style import MARKS, plain, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.report.figures.style import Look

LABEL = 0.047
"""Least distance of two labels, as a share of the height of the axes."""


def spread(places: Sequence[float], least: float) -> list[float]:
    """Rising places moved apart to at least `least`, each as near to where it was as its neighbours allow."""
    groups: list[tuple[float, int]] = []  # (sum of the first places that members ask for, members)
    for number, place in enumerate(places):
        total, members = place - number * least, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / members:
            before, more = groups.pop()
            total, members = total + before, members + more
        groups.append((total, members))
    firsts = [total / members for total, members in groups for _ in range(members)]
    return [first + number * least for number, first in enumerate(firsts)]


def times(cells: Sequence[Cell], dark: bool = False) -> Figure | None:
    """One panel per device, one line per mixer with its name at its end. None where nothing was timed."""
    from matplotlib.figure import Figure

    devices = list(dict.fromkeys(cell.device for cell in cells if cell.seconds is not None))
    if not devices:
        return None
    with style(dark) as look:
        figure = Figure(figsize=(7.2 * len(devices), 5.6))
        for number, device in enumerate(devices, start=1):
            axes = figure.add_subplot(1, len(devices), number)
            axes.set_title(f"Forward + backward of one layer, {'CPU' if device == 'cpu' else 'GPU'}")
            _panel(axes, [c for c in cells if c.device == device and c.seconds is not None], look)
    return figure


def _panel(axes: Axes, cells: Sequence[Cell], look: Look) -> None:
    names = list(dict.fromkeys(cell.mixer for cell in cells))
    lengths = sorted({cell.length for cell in cells})
    ends: list[tuple[float, str, float, str]] = []
    for place, name in enumerate(names):
        line = sorted((c.length, c.seconds or 0.0) for c in cells if c.mixer == name)
        turn = place // len(look.colours) % 2
        axes.plot(
            *zip(*line, strict=True),
            color=look.colour(place),
            marker=MARKS[place % len(MARKS)],
            markersize=4,
            linewidth=1.4,
            linestyle="--" if turn else "-",
            fillstyle="none" if turn else "full",
        )
        ends.append((line[-1][1], name, line[-1][0], look.colour(place)))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("length L")
    axes.set_ylabel("seconds")
    axes.minorticks_off()
    axes.set_xlim(lengths[0] * 0.85, lengths[-1] * 1.18)
    _name_lines(axes, sorted(ends), lengths[-1])


def _name_lines(axes: Axes, ends: Sequence[tuple[float, str, float, str]], longest: int) -> None:
    """Names right of the axes at the heights of their ends, moved apart, with a thin line to where they belong."""
    low, high = (math.log10(edge) for edge in axes.get_ylim())
    share = [(math.log10(seconds) - low) / (high - low) for seconds, *_ in ends]
    for height, (seconds, name, length, colour) in zip(spread(share, LABEL), ends, strict=True):
        text = plain(name) if length == longest else f"{plain(name)} (to {length:,.0f})"
        axes.annotate(
            text,
            xy=(length, seconds),
            xytext=(1.04, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.7, "shrinkA": 1, "shrinkB": 4},
        )
