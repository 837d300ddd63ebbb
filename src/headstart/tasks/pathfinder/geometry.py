"""What Pathfinder images are made of: recipes per size, and stencils of paddles and discs to stamp and paint.

All geometry is done once, in integer tables; whatever runs per image reads tables and adds integers, so an
image has the same bits in any company and on any machine. Positions are (y, x), integers in 1/16 pixel,
counted from the corner of an apron around the image that is wide enough for every position that is asked
about. Directions are 72 steps of 5 degrees, clockwise from the right, y downwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

UNIT = 16
DIRECTIONS = 72
HALF = DIRECTIONS // 2
"""A paddle looks the same turned round: stencils exist for half the directions."""
PHASES = 4
"""Places within a pixel, per axis, that a stencil is painted at."""
CELLS_PER_PIXEL = 2
"""Cells per pixel, per axis, of the maps of what is taken."""
FULL = 1000
"""Brightness of a disc, before the image is rescaled."""


@dataclass(frozen=True)
class Recipe:
    """How images of one size are made; lengths in pixels, contour and distractor in paddles.

    `margins` are the gaps between paddles, one drawn per image. `contrast` is the brightness of a paddle,
    where a disc has 1 (the product of snake and paddle contrast of the table). The first seed keeps twice
    `apart` from the border, the second stands `apart` from it.
    """

    size: int
    padding: int
    length: int
    thickness: float
    margins: tuple[int, ...]
    radius: float
    apart: int
    continuity: float
    contrast: float
    contour: int
    distractor: int
    distractors: int
    antialias: int = 2

    @property
    def paddles(self) -> int:
        """Places for paddles per image: two contours and the distractors."""
        return 2 * self.contour + self.distractors * self.distractor

    @property
    def apron(self) -> int:
        """Pixels around the image: a paddle and a disc beyond the border, and two for rounding."""
        return math.ceil(self.length + max(self.margins) + self.radius) + 2


# size: padding, length, thickness, margins, radius, apart, continuity, contrast, paddles of all distractors
_TABLE: dict[int, tuple[int, int, float, tuple[int, ...], float, int, float, float, int]] = {
    16: (1, 2, 0.5, (1,), 1.25, 3, 1.0, 2 * 0.75, 8),
    32: (1, 2, 0.5, (1,), 1.5, 7, 1.0, 2 * 0.75, 20),
    64: (1, 5, 1.0, (1,), 2.5, 12, 1.8, 0.8, 22),
    128: (1, 5, 1.5, (2, 3), 3.0, 20, 1.8, 0.9, 35),
    256: (22, 5, 2.0, (3,), 5.0, 27, 1.8, 1.0, 30),
}


def recipe(size: int, contour: int) -> Recipe:
    """The recipe of a size and a contour length. Distractors are a third as long as the contours, and as many
    as their paddles allow (5, 5, 8 and 7 of length 4 beside contours of 14).

    Source: Linsley et al. 2018 with the settings of Long Range Arena (Tay et al. 2020); 16 is our own, with room for
    contours of 6 only (one attempt in sixteen grows them).
    """
    padding, length, thickness, margins, radius, apart, continuity, contrast, total = _TABLE[size]
    short = contour // 3
    return Recipe(
        size, padding, length, thickness, margins, radius, apart, continuity, contrast, contour, short, total // short
    )


def circle(distance: float) -> np.ndarray:
    """(72, 2) int32: the step (y, x) of `distance` pixels in each direction, in units."""
    angles = [2 * math.pi * d / DIRECTIONS for d in range(DIRECTIONS)]
    steps = [(round(UNIT * distance * math.sin(a)), round(UNIT * distance * math.cos(a))) for a in angles]
    return np.array(steps, dtype=np.int32)


def _inside(y: np.ndarray, x: np.ndarray, direction: int, length: float, across: float, rounded: bool) -> np.ndarray:
    """Which points lie within `across` of the axis of a paddle centred at 0 (flat ends unless `rounded`)."""
    angle = 2 * math.pi * direction / DIRECTIONS
    along = x * math.cos(angle) + y * math.sin(angle)
    aside = y * math.cos(angle) - x * math.sin(angle)
    over = np.maximum(np.abs(along) - length / 2, 0)
    # The tiny allowance keeps points that lie exactly on an edge from depending on the last bit of a cosine.
    if rounded:
        return np.asarray(over**2 + aside**2 <= across**2 + 1e-9)
    return np.asarray((over <= 1e-9) & (np.abs(aside) <= across + 1e-9))


def _square(half: int, per_pixel: int, centre_y: float, centre_x: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the cells of a square, in pixels from a point of its middle cell."""
    line = (np.arange(-half * per_pixel, (half + 1) * per_pixel) + 0.5) / per_pixel
    return (line - centre_y)[:, None], (line - centre_x)[None, :]


def _taken(length: float, across: float, side: int) -> np.ndarray:
    """(36, K) int32: cells within `across` pixels of a paddle's axis, as steps from the paddle's centre in a
    flat map with sides of `side` cells. Directions with fewer cells repeat their first one."""
    half = math.ceil((length / 2 + across) * CELLS_PER_PIXEL)
    line = np.arange(-half, half + 1)
    flat = line[:, None] * side + line[None, :]
    y, x = line[:, None] / CELLS_PER_PIXEL, line[None, :] / CELLS_PER_PIXEL
    cells = [flat[_inside(y, x, d, length, across, rounded=True)] for d in range(HALF)]
    most = max(len(c) for c in cells)
    return np.stack([np.concatenate([c, np.full(most - len(c), c[0])]) for c in cells]).astype(np.int32)


def _looks(points: np.ndarray, turns: np.ndarray, side: int) -> np.ndarray:
    """Cells of the points (M, 72, P, 2) after each turn, as steps in a flat map from the cell they are seen
    from: (rows, P, T) int32, one row per margin, direction and place within that cell."""
    inner = UNIT // CELLS_PER_PIXEL
    turned = (np.arange(DIRECTIONS)[:, None] + turns) % DIRECTIONS
    within = np.arange(inner)
    seen = points[:, turned].transpose(0, 1, 3, 2, 4)[:, :, None, None]  # (M, 72, 1, 1, P, T, 2)
    y = (seen[..., 0] + within[:, None, None, None]) // inner
    x = (seen[..., 1] + within[:, None, None]) // inner
    steps = (y * side + x).astype(np.int32)
    return steps.reshape(-1, points.shape[2], len(turns))


def _painted(length: float, across: float, antialias: int, directions: int) -> np.ndarray:
    """(directions, 4, 4, W, W) uint16: samples of each pixel, of antialias ** 2, that a paddle covers."""
    half = math.ceil(length / 2 + across)
    out = []
    for d in range(directions):
        for phase in np.ndindex(PHASES, PHASES):
            centre = [p / PHASES for p in phase]
            y, x = _square(half, antialias, centre[0], centre[1])
            lit = _inside(y, x, d, length, across, rounded=length == 0)
            out.append(lit.reshape(2 * half + 1, antialias, 2 * half + 1, antialias).sum((1, 3)))
    side = 2 * half + 1
    return np.stack(out).reshape(directions, PHASES, PHASES, side, side).astype(np.uint16)


@dataclass(frozen=True)
class Tables:
    """A recipe's geometry as integer tables (M margins, T turns, P points along a paddle).

    side: cells of a map's side.
    turns (T,), weights (T,): directions relative to the last paddle's, and cos^2 of each in 1/65536.
    step (M, 72, 2): from the end of the last paddle to the end of the next.
    middle (72, 2): from a paddle's end back to its centre.
    looks: cells that the next paddle needs, as `_looks` says; final_looks: with those of a disc at its end.
    taken, kept_free: per margin, cells around a paddle or a disc in which no other may have its axis.
    paddle, disc: stencils for painting.
    """

    recipe: Recipe
    side: int
    turns: np.ndarray
    weights: np.ndarray
    step: np.ndarray
    middle: np.ndarray
    looks: np.ndarray
    final_looks: np.ndarray
    taken: list[np.ndarray]
    kept_free: list[np.ndarray]
    paddle: np.ndarray
    disc: np.ndarray


@cache
def tables(recipe: Recipe) -> Tables:
    """The tables of a recipe (a few hundredths of a second, once)."""
    length, thickness = recipe.length, recipe.thickness
    side = (recipe.size + 2 * recipe.apron) * CELLS_PER_PIXEL
    angle = 360 / DIRECTIONS * recipe.continuity
    turns = np.array([t for t in range(-HALF + 1, HALF) if abs(t) * angle < 90 - 1e-9], dtype=np.int32)
    step = np.stack([circle(m + length) for m in recipe.margins])
    along = np.stack([np.stack([circle(m + i) for i in range(length + 1)], 1) for m in recipe.margins])
    ring = step[:, :, None] + circle(recipe.radius)[:: DIRECTIONS // 8]
    # A paddle's outline keeps one margin from every other outline: axes keep a margin and a thickness. Half a
    # cell more pays for rounding to cells.
    clear = [m + thickness + 0.5 / CELLS_PER_PIXEL for m in recipe.margins]
    peak = recipe.antialias**2
    paddle = _painted(length, thickness / 2, recipe.antialias, HALF)
    disc = _painted(0, recipe.radius, recipe.antialias, 1)[0]
    return Tables(
        recipe,
        side,
        turns,
        weights=np.array([round(65536 * math.cos(math.radians(t * angle)) ** 2) for t in turns.tolist()]),
        step=step,
        middle=-circle(length / 2),
        looks=_looks(along, turns, side),
        final_looks=_looks(np.concatenate([along, ring], 2), turns, side),
        taken=[_taken(length, c, side) for c in clear],
        kept_free=[_taken(0, c - thickness / 2 + recipe.radius, side)[:1] for c in clear],
        paddle=(paddle * round(FULL * recipe.contrast) // peak).astype(np.uint16),
        disc=(disc * FULL // peak).astype(np.uint16),
    )


def paint(tables: Tables, centres: np.ndarray, directions: np.ndarray, discs: np.ndarray) -> np.ndarray:
    """Images of paddles and discs, darkest rescaled to 0 and brightest to 255.

    centres (n, paddles, 2) in units, directions (n, paddles) with -1 where there is no paddle, discs
    (n, 2, 2) -> (n, size, size) uint8.
    """
    recipe, n, apron = tables.recipe, len(centres), tables.recipe.apron
    side = recipe.size + 2 * apron
    canvas = np.zeros(n * side * side, dtype=np.uint16)
    for j in range(centres.shape[1]):
        rows = np.flatnonzero(directions[:, j] >= 0)
        _lay(canvas, side, rows, centres[rows, j], tables.paddle, directions[rows, j] % HALF)
    everyone = np.arange(n)
    for j in range(discs.shape[1]):
        _lay(canvas, side, everyone, discs[:, j], tables.disc[None], np.zeros(n, dtype=np.int64))
    inner = canvas.reshape(n, side, side)[:, apron:-apron, apron:-apron].astype(np.uint32)
    peak = inner.max((1, 2), keepdims=True)
    images: np.ndarray = ((inner * 510 + peak) // (2 * peak)).astype(np.uint8)
    return images


def _lay(
    canvas: np.ndarray, side: int, rows: np.ndarray, at: np.ndarray, stencils: np.ndarray, which: np.ndarray
) -> None:
    """Paint one stencil into each of these rows' images where it is brighter."""
    quarter = (at + UNIT // PHASES // 2) // (UNIT // PHASES)
    pixel, phase = quarter // PHASES, quarter % PHASES
    half = stencils.shape[-1] // 2
    line = np.arange(-half, half + 1)
    square = (line[:, None] * side + line[None, :]).reshape(-1)
    corner = rows * side * side + pixel[:, 0].astype(np.int64) * side + pixel[:, 1]
    where = corner[:, None] + square
    ink = stencils.reshape(*stencils.shape[:3], -1)[which, phase[:, 0], phase[:, 1]]
    canvas[where] = np.maximum(canvas.take(where), ink)
