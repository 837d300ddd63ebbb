"""Augmented images: shifted, turned and mirrored anew each epoch, the same for the same example and epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from headstart.seeds import below, uniform
from headstart.sequence import Examples

SHIFT = 4
"""Pixels that a crop of the image, padded by as many, moves at most."""
DEGREES = 20.0
"""Largest angle, to either side."""
AT_ONCE = 1000
"""Images at a time: their sampling grids stay small."""


def augmented(images: np.ndarray, index: np.ndarray, epoch: int, seed: int, mirror: bool) -> np.ndarray:
    """Images (n, H, W, C) uint8, each turned, shifted and, if `mirror`, mirrored by chance; black where nothing was.

    `index` (n,) keys an image's numbers, never its place. Sampled bilinearly, once for all three changes.
    Source: what the code of Lu et al. 2021 does besides the paper (PROTOCOLS: crop, flip and 20-degree rotation).
    """
    out = np.empty_like(images)
    for first in range(0, len(images), AT_ONCE):
        cut = slice(first, first + AT_ONCE)
        out[cut] = _sampled(images[cut], *_places(images.shape[1:3], index[cut], epoch, seed, mirror))
    return out


def _places(shape: tuple[int, ...], index: np.ndarray, epoch: int, seed: int, mirror: bool) -> tuple[np.ndarray, ...]:
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
    """Bilinear values at (n, H, W) places; black outside."""
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


def augmenter(
    to_images: Callable[[np.ndarray], np.ndarray], to_rows: Callable[[np.ndarray], np.ndarray], seed: int, mirror: bool
) -> Callable[[Examples, int], Examples]:
    """`Task.augment` for images that lie in `values` as bytes.

    to_images: (n, L, F) -> (n, H, W, C); to_rows: the inverse.
    """

    def change(examples: Examples, epoch: int) -> Examples:
        length = int(examples.lengths[0])
        images = to_images(np.asarray(examples.values).reshape(len(examples), length, -1))
        changed = to_rows(augmented(images, examples.index, epoch, seed, mirror))
        return replace(examples, values=changed.reshape(examples.values.shape))

    return change
