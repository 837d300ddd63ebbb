"""What pretraining learnt to fill in: masked inputs beside their reconstruction and the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headstart.report.plots import Look, plain, style
from headstart.study import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.sequence import Signature

Picture = Callable[[np.ndarray], np.ndarray]
"""Inputs of one example, (L,) or (L, F), -> image (rows, columns[, 3]) in [0, 1], as `Task.picture`."""

IMAGES, CURVES, STRIPS = 8, 3, 6
"""How many examples are shown."""

SHOWN = 96
"""Positions of a token strip at most."""

ROWS = ("original", "masked", "reconstruction")


@dataclass(frozen=True)
class Filled:
    """Examples before and after: `inputs` and `filled` (n, L[, F]), `masked` and `valid` (n, L) bool.

    `filled` holds the output at masked positions and the input elsewhere.
    """

    inputs: np.ndarray
    filled: np.ndarray
    masked: np.ndarray
    valid: np.ndarray


def read_predictions(predictions: Mapping[str, np.ndarray], signature: Signature | None = None) -> Filled | None:
    """The examples of a masked stage's predictions, or None where they are not of one.

    val/inputs (n, L[, F]), val/masked and val/valid (n, L), val/output (n, L, size): size is F for values,
    V for tokens, and F times `signature.levels` for levels.
    """
    names = ("val/inputs", "val/masked", "val/valid", "val/output")
    if any(name not in predictions for name in names):
        return None
    inputs, masked, valid, output = (np.asarray(predictions[name]) for name in names)
    if not len(inputs):
        return None
    said = _values(inputs, output, signature)
    if said is None:
        return None
    there = masked.astype(bool)
    where = there if inputs.ndim == 2 else there[..., None]
    return Filled(inputs, np.where(where, said, inputs), there, valid.astype(bool))


def _values(inputs: np.ndarray, output: np.ndarray, signature: Signature | None) -> np.ndarray | None:
    """Outputs in the inputs' own form."""
    if inputs.ndim == 2:
        return np.asarray(output.argmax(-1))
    if output.shape == inputs.shape:
        return output
    if signature is None or not signature.levels or output.shape[-1] != inputs.shape[-1] * signature.levels:
        return None
    level = output.reshape(*inputs.shape, signature.levels).argmax(-1)
    return np.asarray((level - signature.level_shift) / signature.level_scale)


def reconstruction(found: Filled, picture: Picture | None = None, dark: bool = False) -> Figure:
    """One figure: images where the task has pictures, curves of floats, strips of tokens."""
    with style(dark) as look:
        if found.inputs.ndim == 2:
            return _strips(found, look)
        return _curves(found, look) if picture is None else _images(found, picture, look)


def caption(found: Filled, pictured: bool) -> str:
    """What the figure shows, in words."""
    share = found.masked.sum() / max(found.valid.sum(), 1)
    what = "tokens" if found.inputs.ndim == 2 else ("images" if pictured else "curves")
    return (
        f"Validation {what} that pretraining never trained on, {words.percent(share)} of their positions masked, "
        "and what the pretrained model fills in (at masked positions; the rest is the input)."
    )


def _images(found: Filled, picture: Picture, look: Look) -> Figure:
    from matplotlib.figure import Figure

    number = min(IMAGES, len(found.inputs))
    figure = Figure(figsize=(0.95 * number + 1.2, 3.2))
    for place in range(number):
        images = _three(found, picture, place, look)
        for row, image in enumerate(images):
            axes = figure.add_subplot(3, number, row * number + place + 1)
            axes.imshow(image, vmin=0.0, vmax=1.0, cmap="gray", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
            axes.spines[:].set_visible(False)
            if place == 0:
                axes.set_ylabel(ROWS[row], rotation=0, ha="right", va="center")
    return figure


def _three(found: Filled, picture: Picture, place: int, look: Look) -> list[np.ndarray]:
    """The original, the masked (hidden pixels in colour) and the filled image of one example."""
    from matplotlib.colors import to_rgb

    length = int(found.valid[place].sum())
    inputs, filled = found.inputs[place, :length], found.filled[place, :length]
    hidden = found.masked[place, :length]
    original = picture(inputs)
    # Which pixels a masked position stands for only `picture` knows: they are those that its value moves.
    low, high = inputs.copy(), inputs.copy()
    low[hidden], high[hidden] = found.inputs.min(), found.inputs.max()
    moved = picture(low) != picture(high)
    moved = moved if moved.ndim == 2 else moved.any(-1)
    colour = original if original.ndim == 3 else np.repeat(original[..., None], 3, axis=-1)
    masked = np.where(moved[..., None], np.array(to_rgb(look.colour(0))), colour)
    return [original, masked, picture(filled)]


def _curves(found: Filled, look: Look) -> Figure:
    from matplotlib.figure import Figure

    number = min(CURVES, len(found.inputs))
    figure = Figure(figsize=(7.6, 1.7 * number + 0.4))
    for place in range(number):
        length = int(found.valid[place].sum())
        axes = figure.add_subplot(number, 1, place + 1)
        hidden = found.masked[place, :length]
        position = np.arange(length)
        axes.bar(
            position[hidden],
            1,
            width=1,
            color=look.rule,
            alpha=0.6,
            linewidth=0,
            transform=axes.get_xaxis_transform(),
            label="masked",
        )
        axes.plot(position, found.inputs[place, :length, 0], color=look.quiet, linewidth=1.2, label="original")
        filled = np.where(hidden, found.filled[place, :length, 0], np.nan)
        axes.plot(
            position, filled, color=look.colour(1), marker=".", markersize=3, linewidth=1.4, label="reconstruction"
        )
        axes.set_xlim(-0.5, max(length - 0.5, 0.5))
    axes.set_xlabel("position")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3)
    return figure


def _strips(found: Filled, look: Look) -> Figure:
    """Tokens as coloured cells, three lines an example; masked cells are hatched, wrong ones crossed."""
    from matplotlib.figure import Figure

    number = min(STRIPS, len(found.inputs))
    figure = Figure(figsize=(7.6, 0.72 * number + 0.5))
    for place in range(number):
        length = min(int(found.valid[place].sum()), SHOWN)
        axes = figure.add_subplot(number, 1, place + 1)
        hidden = found.masked[place, :length]
        original, filled = found.inputs[place, :length], found.filled[place, :length]
        lines = np.stack([original, np.where(hidden, -1, original), filled]).astype(float)
        lines[lines < 0] = np.nan
        axes.imshow(
            lines,
            aspect="auto",
            cmap="tab20",
            interpolation="nearest",
            vmin=0,
            vmax=max(float(found.inputs.max()), 1.0),
        )
        wrong = np.flatnonzero(hidden & (original != filled))
        axes.plot(wrong, np.full(len(wrong), 2), linestyle="none", marker="x", color=look.ink, markersize=4)
        axes.set_yticks(range(3), [plain(r) for r in ROWS], fontsize=7)
        axes.set_xticks([])
        axes.grid(False)
        axes.spines[:].set_visible(False)
    return figure
