"""The figures of a fit's page: reliability, predicted against true numbers, where the model looks, what it fills in.

Each can be drawn for a light or a dark page. Nothing in them is foreign text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from headstart.baselines.measures import Reliability
from headstart.fit.outcome import Occlusion
from headstart.report.figures.reconstruction import Filled
from headstart.report.figures.style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 2_000
"""Points of a scatter at most."""


def reliable(after: Reliability, before: Reliability | None, dark: bool) -> Figure:
    """How often the model is right, by how sure it is; below, how many sequences it is that sure of."""
    from matplotlib.figure import Figure

    with style(dark) as look:
        figure = Figure(figsize=(5.2, 4.6))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        upper.plot([0, 1], [0, 1], color=look.quiet, linestyle=(0, (2, 3)), linewidth=1.2, label="ideal")
        if before is not None:
            _confidence(upper, before, look.colour(1), "s", "before calibration")
        _confidence(upper, after, look.colour(0), "o", "as served" if before is None else "as served, calibrated")
        upper.set(ylabel="share that was correct", xlim=(0, 1.02), ylim=(-0.04, 1.05))
        lower.bar(
            after.edges[:-1],
            after.count,
            width=np.diff(after.edges),
            align="edge",
            color=look.colour(0),
            alpha=0.55,
            edgecolor=look.paper,
            linewidth=0.6,
        )
        lower.set(xlabel="probability of the predicted class", ylabel="sequences")
        handles, labels = upper.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
    return figure


def _confidence(axes: Axes, curve: Reliability, colour: str, mark: str, label: str) -> None:
    """A point per bin with examples, its area by how many there are."""
    known = curve.count > 0
    sizes = 14 + 110 * curve.count[known] / curve.count.max()
    axes.scatter(
        curve.confidence[known],
        curve.accuracy[known],
        s=sizes,
        color=colour,
        marker=mark,
        alpha=0.85,
        linewidths=0,
        label=label,
        zorder=3,
    )


def numbers(target: np.ndarray, predicted: np.ndarray, dark: bool) -> Figure:
    """Predicted numbers against true ones, and how the errors are distributed."""
    from matplotlib.figure import Figure

    # Evenly through the order of the rows: no draw, and the same points every time.
    keep = np.unique(np.linspace(0, len(target) - 1, min(POINTS, len(target))).round().astype(int))
    with style(dark) as look:
        figure = Figure(figsize=(8.4, 3.7))
        left, right = figure.subplots(1, 2)
        ends = [float(min(target.min(), predicted.min())), float(max(target.max(), predicted.max()))]
        left.plot(ends, ends, color=look.quiet, linestyle=(0, (2, 3)), linewidth=1.2)
        left.scatter(target[keep], predicted[keep], s=16, color=look.colour(0), alpha=0.55, linewidths=0)
        left.set(title="predicted against true", xlabel="true number", ylabel="predicted number")
        error = predicted - target
        right.hist(
            error,
            bins=min(40, max(8, round(len(error) ** 0.5))),
            color=look.colour(0),
            alpha=0.7,
            edgecolor=look.paper,
            linewidth=0.6,
        )
        right.axvline(0, color=look.quiet, linestyle=(0, (2, 3)), linewidth=1.2)
        right.set(title="errors", xlabel="predicted number minus true number", ylabel="sequences")
    return figure


def looks(occlusion: Occlusion, classes: bool, dark: bool) -> Figure:
    """What each window of a sequence is worth to the model."""
    from matplotlib.figure import Figure

    windows = len(occlusion.drop)
    edges = np.linspace(0, 100, windows + 1)
    with style(dark) as look:
        figure = Figure(figsize=(7.6, 2.9))
        axes = figure.add_subplot()
        axes.bar(
            edges[:-1],
            occlusion.drop,
            width=100 / windows,
            align="edge",
            color=look.colour(0),
            alpha=0.7,
            edgecolor=look.paper,
            linewidth=0.8,
        )
        known = np.isfinite(occlusion.error)
        middle = (edges[:-1] + edges[1:]) / 2
        axes.errorbar(
            middle[known],
            occlusion.drop[known],
            yerr=occlusion.error[known],
            fmt="none",
            ecolor=look.ink,
            elinewidth=1.0,
            capsize=2,
        )
        axes.axhline(0, color=look.quiet, linewidth=0.8)
        axes.set(
            xlabel="place in the sequence (0 % its start, 100 % its end)",
            xlim=(0, 100),
            ylabel=_wrapped(f"{'fall' if classes else 'growth'} of the {occlusion.what}"),
        )
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f} %")
    return figure


def _wrapped(text: str) -> str:
    """A label of an axis in lines that fit a low figure."""
    from textwrap import fill

    return fill(text, 24)


def single(filled: Filled, patch: int) -> Filled:
    """Examples whose patches are positions again: (n, L, patch x F) -> (n, L x patch, F)."""
    if patch == 1 or filled.inputs.ndim == 2:
        return filled
    n, length, size = filled.inputs.shape
    shape = (n, length * patch, size // patch)
    return replace(
        filled,
        inputs=filled.inputs.reshape(shape),
        filled=filled.filled.reshape(shape),
        masked=filled.masked.repeat(patch, axis=1),
        valid=filled.valid.repeat(patch, axis=1),
    )
