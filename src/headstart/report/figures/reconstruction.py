"""What pretraining learnt to fill in: masked inputs beside their reconstruction and the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import words
from headstart.report.figures.style import Look, bare, canvas, legend, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.sequence import Signature

Picture = Callable[[np.ndarray], np.ndarray]
"""Inputs of one example, (L,) or (L, F), -> image (rows, columns[, 3]) in [0, 1], as `Task.picture`."""

Text = Callable[[np.ndarray], str]
"""Tokens (L,) -> how they are read, as `Task.text`."""

IMAGES, CURVES, STRIPS = 8, 3, 4
"""How many examples are shown."""

ROW_NAMES = ("original", "masked", "reconstruction")


@dataclass(frozen=True)
class Filled:
    """Examples before and after: `inputs` and `filled` (n, L[, F]), `masked` and `valid` (n, L) bool.

    `filled` holds the output at masked positions and the input elsewhere.
    """

    inputs: np.ndarray
    filled: np.ndarray
    masked: np.ndarray
    valid: np.ndarray

    def example(self, index: int, longest: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, filled and masked of one example at its valid positions."""
        length = slice(0, min(int(self.valid[index].sum()), longest or self.valid.shape[1]))
        return self.inputs[index, length], self.filled[index, length], self.masked[index, length]


def read_predictions(predictions: Mapping[str, np.ndarray], signature: Signature | None = None) -> Filled | None:
    """The examples of a masked stage's predictions, or None where they are not of one.

    val/inputs (n, L[, F]), val/masked and val/valid (n, L), val/output (n, L, size): size is F for values,
    V for tokens, and F times `signature.levels` for levels.
    """
    names = ("val/inputs", "val/masked", "val/valid", "val/output")
    if any(name not in predictions for name in names):
        return None
    inputs, masked, valid, output = (np.asarray(predictions[name]) for name in names)
    values = _values(inputs, output, signature) if len(inputs) else None
    if values is None:
        return None
    masked = masked.astype(bool)
    where = masked if inputs.ndim == 2 else masked[..., None]
    return Filled(inputs, np.where(where, values, inputs), masked, valid.astype(bool))


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


def reconstruction(
    examples: Filled, picture: Picture | None = None, dark: bool = False, text: Text | None = None
) -> Figure:
    """One figure: images where the task has pictures, curves of floats, tokens as text (as numbers without `text`)."""
    if examples.inputs.ndim == 2:
        return _tokens(examples, text or (lambda ids: str(ids[0])), dark)
    return _curves(examples, dark) if picture is None else _images(examples, picture, dark)


def caption(examples: Filled, pictured: bool) -> str:
    """What the figure shows, in words."""
    share = examples.masked.sum() / max(examples.valid.sum(), 1)
    what = "tokens" if examples.inputs.ndim == 2 else ("images" if pictured else "curves")
    return (
        f"Validation {what} that pretraining never trained on, {words.percent(share)} of their positions masked, "
        "and what the pretrained model fills in (at masked positions; the rest is the input)."
    )


def _images(examples: Filled, picture: Picture, dark: bool) -> Figure:
    most = min(IMAGES, len(examples.inputs))
    with canvas(dark, 0.95 * most + 1.2, 3.2) as (figure, look):
        number = max(1, min(most, int((figure.get_figwidth() - 1.2) / 0.6)))
        figure.set_figheight(min(3.2, 3 * (figure.get_figwidth() - 1.2) / number + 0.3))
        for index in range(number):
            for row, image in enumerate(_three(examples, picture, index, look)):
                axes = figure.add_subplot(3, number, row * number + index + 1)
                axes.imshow(image, vmin=0.0, vmax=1.0, cmap="gray", interpolation="nearest")
                bare(axes)
                if index == 0:
                    axes.set_ylabel(ROW_NAMES[row], rotation=0, ha="right", va="center")
    return figure


def _three(examples: Filled, picture: Picture, index: int, look: Look) -> list[np.ndarray]:
    """The original, the masked (hidden pixels in colour) and the filled image of one example."""
    from matplotlib.colors import to_rgb

    inputs, filled, hidden = examples.example(index)
    original = picture(inputs)
    # Which pixels a masked position stands for only `picture` knows: they are those that its value moves.
    low, high = inputs.copy(), inputs.copy()
    low[hidden], high[hidden] = examples.inputs.min(), examples.inputs.max()
    moved = picture(low) != picture(high)
    moved = moved if moved.ndim == 2 else moved.any(-1)
    colour = original if original.ndim == 3 else np.repeat(original[..., None], 3, axis=-1)
    masked = np.where(moved[..., None], np.array(to_rgb(look.colour(0))), colour)
    return [original, masked, picture(filled)]


def _curves(examples: Filled, dark: bool) -> Figure:
    number = min(CURVES, len(examples.inputs))
    with canvas(dark, 7.6, 1.7 * number + 0.4) as (figure, look):
        for index in range(number):
            inputs, filled, hidden = examples.example(index)
            axes = figure.add_subplot(number, 1, index + 1)
            position = np.arange(len(hidden))
            band: dict[str, Any] = {"color": look.rule, "alpha": 0.6, "linewidth": 0, "label": "masked"}
            axes.bar(position[hidden], 1, width=1, transform=axes.get_xaxis_transform(), **band)
            axes.plot(position, inputs[:, 0], color=look.quiet, linewidth=1.2, label="original")
            values = np.where(hidden, filled[:, 0], np.nan)
            line: dict[str, Any] = {"color": look.colour(1), "marker": ".", "markersize": 3, "linewidth": 1.4}
            axes.plot(position, values, label="reconstruction", **line)
            axes.set_xlim(-0.5, max(len(hidden) - 0.5, 0.5))
        axes.set_xlabel("position")
        legend(figure, axes.get_legend_handles_labels()[0])
    return figure


def _tokens(examples: Filled, text: Text, dark: bool) -> Figure:
    """Tokens as text, three lines an example: masked ones are boxes, wrong ones stand in colour and are underlined."""
    number = min(STRIPS, len(examples.inputs))
    names = {token: " ".join(text(np.array([token])).split()) or "␣" for token in np.unique(examples.inputs).tolist()}
    names |= {token: str(token) for token in np.unique(examples.filled).tolist() if token not in names}
    cell = 0.075 * max(map(len, names.values())) + 0.05
    with canvas(dark, 7.6, 0.72 * number + 0.3) as (figure, look):
        longest = max(4, int((figure.get_figwidth() - 1.0) / cell))
        for index in range(number):
            original, filled, hidden = examples.example(index, longest)
            axes = figure.add_subplot(number, 1, index + 1)
            bare(axes)
            axes.set_xlim(-0.5, longest - 0.5)
            axes.set_ylim(2.5, -0.5)
            axes.set_yticks(range(3), [plain(name) for name in ROW_NAMES], fontsize=7)
            axes.tick_params(length=0)
            for x, (token, value, masked) in enumerate(zip(original.tolist(), filled.tolist(), hidden, strict=True)):
                wrong = masked and token != value
                for y, name in enumerate((names[token], "▁" if masked else names[token], names.get(value, str(value)))):
                    colour = look.colour(1) if wrong and y == 2 else look.ink if masked or y == 0 else look.quiet
                    font: dict[str, Any] = {"fontsize": 7, "family": "monospace", "ha": "center", "va": "center"}
                    axes.text(x, y, plain(name), color=colour, **font)
                if wrong:
                    axes.plot([x - 0.35, x + 0.35], [2.4, 2.4], color=look.colour(1), linewidth=1.0)
    return figure
