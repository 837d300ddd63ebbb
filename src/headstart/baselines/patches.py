"""Random patches of small images, as features of a sequence that is a square image, row by row.

After Coates and Ng 2012: patches drawn from train images, each less its mean over its deviation, whitened, are filters
of unit length; of each filter what an output is above a bound, and what it is below the negative bound, is summed over
equal parts of the image. What is drawn is a function of the seed.
Letters: F channels, S pixels of a side, W pixels of a patch's side, K filters, n sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headstart.baselines.features import FeatureTable, Tabled, filled, moments
from headstart.baselines.fitting import FittedFacts, Shapes, pieces
from headstart.errors import BadInput
from headstart.seeds import bits, permutation
from headstart.sequence import Examples

LEAST_SIDE = 8
"""Shorter sequences may be images, but are far more often something else."""
PATCH_FILTERS, OVER, IMAGE_PARTS = 500, 0.5, 3
"""Filters; the bound; equal parts to a side, over which what is beyond it is summed.
Chosen on scikit-learn's digits."""
EACH_PART = 2 * PATCH_FILTERS
PATCHES = EACH_PART * IMAGE_PARTS**2
"""Features of an image."""
PATCH_SIDE, SMALL_PATCH, SMALL_IMAGE = 6, 3, 16
"""Pixels of a patch's side, and those where an image has fewer than so many to a side."""
DRAWN_PATCHES, DRAWN_IMAGES = 10_000, 1_000
"""Patches whose covariance whitens all, and train images that they are drawn from at most."""
FLAT, EDGE = 0.01, 0.1
"""Added to the variance of a patch, and to that of each axis of all patches."""
PATCH_SECONDS = 2.0
"""Processor seconds per million pixels (2-core AMD EPYC)."""
IMAGES_LOOKED_AT, LEAST_LIKE, LIKER, FADING = 200, 0.3, 0.2, 0.6
"""Train sequences that tell whether all are images; how alike neighbours of a column must be, by how much more than
pixels half a row apart, and of which share of it those of a quarter of the image apart must stay below."""
PATCHED_AT_ONCE = 32


@dataclass(frozen=True)
class Patches(Tabled):
    """What is fitted: filters (W W, K) float32 and offset (K,) float32, by which patches are whitened and compared;
    mean, spread (F,) float64 of the channels, by which they are standardised. Colours are read in grey."""

    filters: np.ndarray
    offset: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    side: int
    kind: str = "patches"

    @property
    def size(self) -> int:
        return PATCHES

    @property
    def sizes(self) -> dict[str, int]:
        """S."""
        return {"side": self.side}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        side = facts.sizes.get("side", 0)
        facts.check(LEAST_SIDE <= side < 1 << 16, "side")
        facts.check(facts.size == PATCHES, "size")
        return {
            "filters": ("float32", (patch_side(side) ** 2, PATCH_FILTERS)),
            "offset": ("float32", (PATCH_FILTERS,)),
            "mean": ("float64", (facts.width,)),
            "spread": ("float64", (facts.width,)),
        }

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Patches:
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        filters, offset, mean, spread = (arrays[name] for name in ("filters", "offset", "mean", "spread"))
        return cls(filters, offset, mean, spread, facts.sizes["side"])

    @property
    def held(self) -> int:
        """Those of few sequences at a time, however many there are."""
        return 1

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        """A sequence's row does not depend on the sequences beside it.

        Raises: BadInput where one is no image of this size.
        """
        other = examples.lengths[examples.lengths != self.side**2]
        if len(other):
            raise BadInput(
                f"model.features: images of {self.side} x {self.side} pixels were read in training, and a sequence has "
                f"{other[0]:,} positions; give sequences of {self.side**2:,}"
            )
        each = self.side - patch_side(self.side) + 1
        parts = [round(i * each / IMAGE_PARTS) for i in range(IMAGE_PARTS)]
        for units in pieces(examples, PATCHED_AT_ONCE, PATCHED_AT_ONCE * self.side**2):
            images = grey(examples.take(units), self.mean, self.spread, self.side)
            yield units, 0, np.stack([self._row(image, parts) for image in images])

    def _row(self, image: np.ndarray, parts: Sequence[int]) -> np.ndarray:
        """(P,) of one image (S, S); parts: where each begins."""
        each = self.side - patch_side(self.side) + 1
        outputs = cut(image, patch_side(self.side)) @ self.filters - self.offset
        both = np.concatenate([np.maximum(outputs - OVER, 0), np.maximum(-outputs - OVER, 0)], axis=1)
        summed = np.add.reduceat(both.reshape(each, each, EACH_PART), parts, axis=0)
        return np.asarray(np.add.reduceat(summed, parts, axis=1).reshape(-1))


def patch_side(side: int) -> int:
    """W, for images of this side."""
    return PATCH_SIDE if side >= SMALL_IMAGE else SMALL_PATCH


def grey(examples: Examples, mean: np.ndarray, spread: np.ndarray, side: int) -> np.ndarray:
    """(n, S, S) float32 standardised images, the mean over their channels."""
    return np.asarray(filled(examples, mean, spread).mean(axis=1).reshape(-1, side, side))


def cut(image: np.ndarray, patch: int) -> np.ndarray:
    """(places, W W) float32: each patch of an image, row by row, less its mean over its deviation."""
    out = np.lib.stride_tricks.sliding_window_view(image, (patch, patch)).reshape(-1, patch**2)
    out = out - out.mean(axis=1, keepdims=True)
    return np.asarray(out / np.sqrt(out.var(axis=1, keepdims=True) + np.float32(FLAT)))


def square_side(lengths: np.ndarray, channels: Sequence[int]) -> int:
    """S where sequences of these lengths (n,) may be square images, row by row, else 0.

    channels: [1], or [3] in colour, of numbers; [] of symbols.
    """
    side = math.isqrt(int(lengths[0])) if len(lengths) else 0
    right = list(channels) in ([1], [3]) and side >= LEAST_SIDE and bool((lengths == side**2).all())
    return side if right else 0


def image_side(examples: Examples, lengths: np.ndarray) -> int:
    """S where sequences are square images by these lengths (n,) of all, and the examples look so, else 0.

    Pixels below each other, S positions apart, must be alike, and clearly more so than pixels half a row apart: in
    smooth series what is farther apart is less alike. In series of a season of S positions it is not: so without the
    means of rows, and of columns of all, pixels a quarter of the image apart must be far less alike.
    """
    side = square_side(lengths, examples.values.shape[1:])
    if not side or not len(examples):
        return 0
    rows = np.unique(np.linspace(0, len(examples) - 1, min(len(examples), IMAGES_LOOKED_AT)).astype(int))
    some = examples.take(rows)
    images = filled(some, *moments(some)).mean(axis=1).reshape(len(rows), side, side).astype(np.float64)
    plain, seasons = images - images.mean(axis=(1, 2), keepdims=True), images - images.mean(axis=2, keepdims=True)
    seasons = seasons - seasons.mean(axis=(0, 1))
    below, apart = (likeness(plain, lag) for lag in (side, side // 2))
    near, far = (likeness(seasons, lag * side) for lag in (1, max(3, side // 4)))
    return side if below >= max(LEAST_LIKE, apart + LIKER) and far < FADING * near else 0


def likeness(images: np.ndarray, lag: int) -> float:
    """Correlation of values `lag` positions apart of images (n, S, S) without their mean, read row by row."""
    x = images.reshape(len(images), -1)
    size = float((x**2).sum())
    return float((x[:, lag:] * x[:, :-lag]).sum()) / size if size else 0.0


def fit_patches(examples: Examples, seed: int) -> Patches:
    """Patches drawn by the seed from images drawn by the seed; labels are not looked at.

    Raises: BadInput where sequences are no square images.
    """
    mean, spread = moments(examples)
    side = square_side(examples.lengths, examples.values.shape[1:])
    if not side:
        raise BadInput(
            f"classic.kernels.also: 'patches' are of square images, row by row, with {LEAST_SIDE} pixels to a side or "
            "more, in one channel or three; leave it out"
        )
    patch, units = patch_side(side), permutation(seed, "patches/images", len(examples))[:DRAWN_IMAGES]
    several = min(-(-DRAWN_PATCHES // len(units)), (side - patch + 1) ** 2)
    drawn = []
    for unit in units.tolist():
        image = grey(examples.take(np.array([unit])), mean, spread, side)[0]
        places = np.argsort(bits(seed, f"patches/places/{unit}", np.arange((side - patch + 1) ** 2)), kind="stable")
        drawn.append(cut(image, patch)[places[:several]])
    some = np.concatenate(drawn).astype(np.float64)
    centre = some.mean(axis=0)
    values, axes = np.linalg.eigh((some - centre).T @ (some - centre) / max(len(some) - 1, 1))
    whitening = axes @ np.diag((np.maximum(values, 0) + EDGE) ** -0.5) @ axes.T
    order = permutation(seed, "patches/filters", len(some))
    chosen = (some[np.resize(order, PATCH_FILTERS)] - centre) @ whitening
    chosen /= np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-12)
    filters = whitening @ chosen.T
    return Patches(filters.astype(np.float32), (centre @ filters).astype(np.float32), mean, spread, side)
