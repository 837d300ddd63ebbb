"""Examples that are images: decoded, cut into tiles and put together again, augmented, drawn."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from headstart.seeds import below, uniform
from headstart.sequence import Examples, Signature
from headstart.tasks.task import SplitExamples, Task

SHIFT = 4
"""Pixels that a crop of the image, padded by as many, moves at most."""
DEGREES = 20.0
"""Largest angle of augmentation, to either side."""
IMAGES_AT_ONCE = 1000
"""Images augmented at a time: their sampling grids stay small."""


def decode(content: bytes, side: int, formats: tuple[str, ...], mode: str) -> tuple[np.ndarray, str]:
    """An image file as ((side, side[, 3]) uint8, its format). RGB takes any mode, L (8-bit grey) only its own.

    Raises: ValueError saying what is wrong with the file, as the rest of a sentence that begins with its name.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=formats) as image:
            if image.size != (side, side):  # known from the header: nothing large is ever decoded
                problem = f"has {image.size[0]} x {image.size[1]} pixels, not {side} x {side}"
            elif mode == "L" and image.mode != mode:
                problem = f"has mode {image.mode}, not 8-bit grey"
            else:
                pixels = image if image.mode == mode else image.convert(mode)
                return np.asarray(pixels, dtype=np.uint8), str(image.format)
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them to
        problem = f"is cut short or not an image ({type(error).__name__}); replace the file"
    raise ValueError(problem)


def pixel_task(
    splits: SplitExamples,
    labels: tuple[str, ...],
    side: int,
    levels: int,
    mean: float,
    deviation: float,
    features: int = 1,
    tile: int = 1,
) -> Task:
    """The task of square images of whole levels 0 to levels - 1, seen as (level - mean) / deviation, in tiles.

    Its `picture` turns the inputs of one example back into an image (side, side) or (side, side, 3) in [0, 1].
    """

    def picture(x: np.ndarray) -> np.ndarray:
        image = untiled(np.asarray(x, dtype=np.float64)[None], side, features, tile)[0]
        grey_or_colour = image[..., 0] if features == 1 else image
        return np.asarray(np.clip((grey_or_colour * deviation + mean) / (levels - 1), 0.0, 1.0))

    positions, width = (side // tile) ** 2, features * tile * tile
    seen: dict[str, Any] = {"levels": levels, "level_scale": deviation, "level_shift": mean}
    signature = Signature("floats", width, positions, positions, "class", len(labels), **seen)
    return Task(signature, **splits, labels=labels, picture=picture)


def pixel_examples(pixels: np.ndarray, target: np.ndarray, index: np.ndarray, scale: float, shift: float) -> Examples:
    """Sequences (n, L, F) of bytes as examples, seen as byte * scale + shift (bytes until a batch is made)."""
    n, length, width = pixels.shape
    offsets = np.arange(n + 1, dtype=np.int64) * length
    return Examples(pixels.reshape(-1, width), offsets, target.astype(np.int64), index, scale=scale, shift=shift)


def tiled(images: np.ndarray, tile: int) -> np.ndarray:
    """Images (n, S, S, C) -> (n, (S / tile)^2, tile^2 C): tiles row by row, in each its pixels row by row."""
    n, side, _, features = images.shape
    count = side // tile
    cut = images.reshape(n, count, tile, count, tile, features).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(n, count * count, tile * tile * features)


def untiled(x: np.ndarray, side: int, features: int, tile: int) -> np.ndarray:
    """Sequences (n, L, F) -> images (n, side, side, C): the inverse of `tiled`."""
    count = side // tile
    cut = x.reshape(len(x), count, count, tile, tile, features).transpose(0, 1, 3, 2, 4, 5)
    return np.asarray(cut.reshape(len(x), side, side, features))


def augmented(images: np.ndarray, index: np.ndarray, epoch: int, seed: int, mirror: bool) -> np.ndarray:
    """Images (n, H, W, C) uint8, each turned, shifted and, if `mirror`, mirrored by chance; black where nothing was.

    `index` (n,) keys an image's numbers, never its position in a batch. Sampled bilinearly, once for all three changes.
    Source: what the code of Lu et al. 2021 does besides the paper (crop, flip and 20-degree rotation).
    """
    out = np.empty_like(images)
    for first in range(0, len(images), IMAGES_AT_ONCE):
        cut = slice(first, first + IMAGES_AT_ONCE)
        out[cut] = _sampled(images[cut], *_sources(images.shape[1:3], index[cut], epoch, seed, mirror))
    return out


def _sources(shape: tuple[int, ...], index: np.ndarray, epoch: int, seed: int, mirror: bool) -> tuple[np.ndarray, ...]:
    """(n, H, W) row and column of the old image that each pixel of the new one shows."""
    height, width = shape
    angle = np.deg2rad(DEGREES) * (2 * uniform(seed, "augment/angle", epoch, index).astype(np.float64) - 1)
    down, right = (
        below(seed, f"augment/{name}", 2 * SHIFT + 1, epoch, index).astype(np.float64) - SHIFT
        for name in ("down", "right")
    )
    side = np.where(mirror & (below(seed, "augment/mirror", 2, epoch, index) == 1), -1.0, 1.0)
    y = np.arange(height)[None, :, None] - (height - 1) / 2 - down[:, None, None]
    x = (np.arange(width)[None, None, :] - (width - 1) / 2 - right[:, None, None]) * side[:, None, None]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return cos * y - sin * x + (height - 1) / 2, sin * y + cos * x + (width - 1) / 2


def _sampled(images: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Bilinear values at (n, H, W) rows and columns; black outside."""
    height, width = images.shape[1:3]
    top, left = np.floor(row).astype(np.int64), np.floor(column).astype(np.int64)
    total = np.zeros(images.shape, dtype=np.float64)
    number = np.arange(len(images))[:, None, None]
    for down in (0, 1):
        for right in (0, 1):
            r, c = top + down, left + right
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            weight = (1 - np.abs(row - r)) * (1 - np.abs(column - c)) * inside
            total += weight[..., None] * images[number, r.clip(0, height - 1), c.clip(0, width - 1)]
    return np.rint(total).clip(0, 255).astype(np.uint8)


def augmenter(side: int, features: int, tile: int, seed: int, mirror: bool) -> Callable[[Examples, int], Examples]:
    """`Task.augment` for images that lie in `values` as bytes, in tiles."""

    def augment(examples: Examples, epoch: int) -> Examples:
        x = np.asarray(examples.values).reshape(len(examples), -1, features * tile * tile)
        images = augmented(untiled(x, side, features, tile), examples.index, epoch, seed, mirror)
        return replace(examples, values=tiled(images, tile).reshape(examples.values.shape))

    return augment


def pixels_of(picture: Callable[[np.ndarray], np.ndarray], x: np.ndarray, positions: np.ndarray | int) -> np.ndarray:
    """Which pixels (H, W) of an example's picture the inputs at some positions make."""
    low, high = x.astype(float), x.astype(float)
    low[positions], high[positions] = -1e6, 1e6
    moved = np.asarray(picture(low)) != np.asarray(picture(high))
    return np.asarray(moved.any(-1) if moved.ndim == 3 else moved)


def positions_of_a_row(task: Task) -> int:
    """How many positions come before the next line of a task's pictures; 0 where it has none."""
    if task.picture is None or not task.val.units:
        return 0
    x = task.val.inputs(0)
    tops = (int(pixels_of(task.picture, x, position).any(1).argmax()) for position in range(len(x)))
    first = next(tops, 0)
    return next((position for position, top in enumerate(tops, start=1) if top > first), 0)
