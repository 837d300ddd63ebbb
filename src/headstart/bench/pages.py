"""Measurements as tables (rows of text), Markdown pages and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headstart.bench.mixers import BenchCell
from headstart.report.figures.style import MARKERS, plain, style
from headstart.words import NONE, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.report.figures.style import Look

PageTable = tuple[list[str], list[list[str]]]
"""Heads and rows."""


def seconds(value: float | None) -> str:
    """`940 ms`, `12.3 s`, `4,400 s`: three digits at least."""
    if value is None:
        return NONE
    if value >= 1000:
        return f"{value:,.0f} s"
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def megabytes(value: int | None) -> str:
    """`12 MB`, `1,230 MB`, with a digit after the point below 10."""
    if value is None:
        return NONE
    size = value / 1e6
    return f"{size:,.0f} MB" if size >= 10 else f"{size:.1f} MB"


def mixer_table(cells: Sequence[BenchCell]) -> PageTable:
    """One row per mixer and device: parameters, then time, memory and forward FLOPs at each length."""
    lengths = sorted({cell.length for cell in cells})
    heads = ["mixer", "parameters", *(f"L {length:,}" for length in lengths)]
    several = len({cell.device for cell in cells}) > 1
    rows = []
    for device, name in dict.fromkeys((cell.device, cell.mixer) for cell in cells):
        of = {cell.length: cell for cell in cells if (cell.device, cell.mixer) == (device, name)}
        built = [cell.parameters for cell in of.values() if cell.parameters]
        # Some mixers have weights for every place: theirs are those at the longest length.
        rows.append(
            [
                f"{name}, {device}" if several else name,
                f"{max(built):,}" if built else NONE,
                *(_cell(of[length]) if length in of else NONE for length in lengths),
            ]
        )
    return heads, rows


def _cell(cell: BenchCell) -> str:
    if cell.failed is not None:
        return cell.failed
    return f"{seconds(cell.seconds)}, {megabytes(cell.memory)}, {count(cell.flops)}FLOP"


def markdown(table: PageTable) -> str:
    """A table for a Markdown page; bars in foreign names are escaped."""
    heads, rows = table
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


MIXERS_TEXT = (
    "Forward + backward of one layer, gradients of weights and inputs, with each mixer's default settings. In a cell: "
    "the median time of a step after a warm one, the largest memory beyond what the process (or the GPU) held before, "
    "and the closed-form FLOPs of one forward over one sequence. Each cell is a process of its own; one that runs out "
    "of memory or time says so."
)
LABEL_DISTANCE = 0.23
"""Least distance of two labels, in inches."""


def spread(places: Sequence[float], least: float) -> list[float]:
    """Rising places moved apart to at least `least`, each as near to where it was as its neighbours allow."""
    groups: list[tuple[float, int]] = []  # (sum of the first places that members ask for, members)
    for number, height in enumerate(places):
        total, members = height - number * least, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / members:
            before, more = groups.pop()
            total, members = total + before, members + more
        groups.append((total, members))
    firsts = [total / members for total, members in groups for _ in range(members)]
    return [first + number * least for number, first in enumerate(firsts)]


def times(cells: Sequence[BenchCell], dark: bool = False) -> Figure | None:
    """One panel per device, one line per mixer with its name at its end. None where nothing was timed."""
    devices = list(dict.fromkeys(cell.device for cell in cells if cell.seconds is not None))
    if not devices:
        return None
    height = max(5.6, LABEL_DISTANCE * len({cell.mixer for cell in cells}) + 0.9)
    with style(dark) as look:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2 * len(devices), height))
        for number, device in enumerate(devices, start=1):
            axes = figure.add_subplot(1, len(devices), number)
            axes.set_title(f"Forward + backward of one layer, {'CPU' if device == 'cpu' else 'GPU'}")
            timed = [cell for cell in cells if cell.device == device and cell.seconds is not None]
            _panel(axes, timed, look, LABEL_DISTANCE / (height - 0.9))
    return figure


def _panel(axes: Axes, cells: Sequence[BenchCell], look: Look, least: float) -> None:
    names = list(dict.fromkeys(cell.mixer for cell in cells))
    lengths = sorted({cell.length for cell in cells})
    ends: list[tuple[float, str, float, str]] = []
    for index, name in enumerate(names):
        line = sorted((c.length, c.seconds or 0.0) for c in cells if c.mixer == name)
        turn = index // len(look.colours) % 2
        axes.plot(
            *zip(*line, strict=True),
            color=look.colour(index),
            marker=MARKERS[index % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            linestyle="--" if turn else "-",
            fillstyle="none" if turn else "full",
        )
        ends.append((line[-1][1], name, line[-1][0], look.colour(index)))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("length L")
    axes.set_ylabel("seconds")
    axes.minorticks_off()
    axes.set_xlim(lengths[0] * 0.85, lengths[-1] * 1.18)
    _name_lines(axes, sorted(ends), lengths[-1], least)


def _name_lines(axes: Axes, ends: Sequence[tuple[float, str, float, str]], longest: int, least: float) -> None:
    """Names right of the axes at the heights of their ends, moved apart, with a thin line to where they belong.

    least: distance of two names, as a share of the height of the axes.
    """
    low, high = (math.log10(edge) for edge in axes.get_ylim())
    share = [(math.log10(seconds) - low) / (high - low) for seconds, *_ in ends]
    # Each leaves room for those below and above it, so that all stand beside the axes.
    share = [max(least * i, min(value, 1 - least * (len(ends) - 1 - i))) for i, value in enumerate(share)]
    for height, (seconds, name, length, colour) in zip(spread(share, least), ends, strict=True):
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
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),
                "color": colour,
                "linewidth": 0.5,
                "alpha": 0.7,
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )
