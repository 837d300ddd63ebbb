"""Growing the snakes of Pathfinder: many images in lockstep, one paddle of each at a time.

Every random number is keyed by (seed, stream, number of the image, attempt, what it decides), and images
never look at each other: an image is the same whichever others are grown beside it.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import numpy as np

from headstart.seeds import below, bits
from headstart.tasks.pathfinder.geometry import CELLS_PER_PIXEL, DIRECTIONS, HALF, UNIT, Tables, circle, paint

_CELL = (UNIT // CELLS_PER_PIXEL).bit_length() - 1
"""Places to shift a position by, to have its cell."""
_TRIES = 12
"""Attempts at each distractor before it is left out, and places looked at per attempt."""
_ABREAST = 16
"""Attempts at one image made at once, at most."""


@dataclass
class Flock:
    """n images that grow together: who they are, and maps of what is taken.

    `maps` (2, n * side * side) uint8 counts stencils over each cell: map s is what contour s must keep off.
    They differ in one thing: a contour's own last paddle, beside which its next one begins, comes late.
    """

    tables: Tables
    seed: int
    stream: str
    index: np.ndarray
    attempt: np.ndarray
    margin: np.ndarray
    maps: np.ndarray
    blank: InitVar[np.ndarray]

    def __post_init__(self, blank: np.ndarray) -> None:
        self.maps = self.maps[:, : len(self.index) * blank.size]
        self.maps.reshape(2, len(self.index), -1)[:] = blank

    def draw(self, rows: np.ndarray, limit: int, *what: int) -> np.ndarray:
        """Uniform integers below `limit`, one per row."""
        return np.asarray(below(self.seed, self.stream, limit, self.index[rows], self.attempt[rows], *what))

    def cells(self, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        """(rows, ...) int64 places in a flat map of positions (rows, ..., 2) in units."""
        side = self.tables.side
        first = (rows * (side * side)).reshape(-1, *[1] * (at.ndim - 2))
        return np.asarray(first + ((at[..., 0] >> _CELL) * side + (at[..., 1] >> _CELL)))

    def taken(self, which: int, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        """(rows, ...) bool: positions (rows, ..., 2) that lie in something."""
        return np.asarray(self.maps[which].take(self.cells(rows, at)) != 0)

    def stamp(
        self,
        which: int,
        rows: np.ndarray,
        at: np.ndarray,
        stencils: list[np.ndarray],
        direction: np.ndarray,
        change: int,
    ) -> None:
        """Count one stencil per row in a map (`change` 1), or take it out again (-1)."""
        grid = self.maps[which]
        for m, stencil in enumerate(stencils):
            mine = np.flatnonzero(self.margin[rows] == m) if len(stencils) > 1 else slice(None)
            steps = stencil.take(direction[mine] % len(stencil), axis=0)
            where = self.cells(rows[mine], at[mine])[:, None] + steps
            # Cells that a stencil repeats are written twice with the same count.
            grid[where] = grid.take(where) + np.uint8(change % 256)

    def stamp_paddle(self, which: int, rows: np.ndarray, grown: Paddles, slot: int, change: int = 1) -> None:
        """Count the paddle in a slot of each row in a map (`change` -1 takes it out again)."""
        self.stamp(which, rows, grown.centre[rows, slot], self.tables.taken, grown.direction[rows, slot], change)


@dataclass
class Paddles:
    """The paddles of n images: `centre` and `head` (n, paddles, 2) in units, `direction` (n, paddles) or -1,
    and `ends` (n, 2, 2, 2): where contour s begins and ends."""

    centre: np.ndarray
    head: np.ndarray
    direction: np.ndarray
    ends: np.ndarray

    @staticmethod
    def none(n: int, paddles: int) -> Paddles:
        """No paddles yet."""

        def zeros(*shape: int) -> np.ndarray:
            return np.zeros((n, *shape), dtype=np.int32)

        return Paddles(zeros(paddles, 2), zeros(paddles, 2), zeros(paddles) - 1, zeros(2, 2, 2))

    def put(self, rows: np.ndarray, other: Paddles, theirs: np.ndarray) -> None:
        """Take over rows of others."""
        for name in ("centre", "head", "direction", "ends"):
            getattr(self, name)[rows] = getattr(other, name)[theirs]


def images(tables: Tables, seed: int, stream: str, first: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images `first` to `first + count` of a stream, grown together.

    Returns (count, size, size) uint8 images, (count,) uint8 labels (1: the discs end one snake) and
    (count, 2, 2) discs as (y, x) in pixels. Label, and which contour begins with a disc, are fair coins that
    no paddle depends on.
    """
    index = np.arange(first, first + count)
    label = (bits(seed, f"{stream}/label", index) & 1).astype(np.uint8)
    start = bits(seed, f"{stream}/start", index) & 1
    paddles = grow(tables, seed, stream, index)
    stop = np.where(label == 1, start, 1 - start)
    everyone = np.arange(count)
    discs = np.stack([paddles.ends[everyone, start, 0], paddles.ends[everyone, stop, 1]], 1)
    pictures = paint(tables, paddles.centre, paddles.direction, discs)
    return pictures, label, discs / UNIT - tables.recipe.apron


def grow(tables: Tables, seed: int, stream: str, index: np.ndarray) -> Paddles:
    """Both contours and the distractors of every image."""
    n, recipe = len(index), tables.recipe
    margin = below(seed, f"{stream}/margin", len(recipe.margins), index)
    blank = _blank(tables)
    maps = np.empty((2, n * blank.size), dtype=np.uint8)
    out, todo, tried = Paddles.none(n, recipe.paddles), np.arange(n), 0
    while len(todo):
        # A contour that is stuck starts its image anew. Where few images are left, several attempts of each
        # are made at once and the first that succeeds is kept: the same image, without idle lanes.
        again = min(n // len(todo), _ABREAST)
        who, attempt = np.repeat(todo, again), np.tile(tried + np.arange(again), len(todo))
        flock = Flock(tables, seed, stream, index[who], attempt, margin[who], maps, blank)
        grown = Paddles.none(len(who), recipe.paddles)
        alive = _contours(flock, grown)
        done, earliest = np.unique(who[alive], return_index=True)
        out.put(done, grown, alive[earliest])
        todo = np.setdiff1d(todo, done, assume_unique=True)
        tried += again
    _distractors(Flock(tables, seed, stream, index, np.zeros(n, dtype=np.int64), margin, maps, blank), out)
    return out


def _blank(tables: Tables) -> np.ndarray:
    """(side * side,) uint8: the map of an empty image, its apron and padding taken."""
    edge = (tables.recipe.apron + tables.recipe.padding) * CELLS_PER_PIXEL
    blank = np.ones((tables.side, tables.side), dtype=np.uint8)
    blank[edge:-edge, edge:-edge] = 0
    return blank.reshape(-1)


def _contours(flock: Flock, grown: Paddles) -> np.ndarray:
    """Grow both contours, a paddle of each in turn. Returns the rows where both are whole."""
    recipe = flock.tables.recipe
    rows, final = _two_seeds(flock, grown), recipe.contour - 1
    for j in range(1, recipe.contour):
        for s in (0, 1):
            slot = s * recipe.contour + j
            rows = _extend(flock, s, grown, rows, slot, last=j == final)
            flock.stamp_paddle(1 - s, rows, grown, slot)
            flock.stamp_paddle(s, rows, grown, slot - 1)
            if j == 1:  # from here on its own beginning is out of bounds too
                _keep_free(flock, s, rows, grown.ends[rows, s, 0])
            if j == final:
                grown.ends[rows, s, 1] = grown.head[rows, slot]
                _keep_free(flock, 1 - s, rows, grown.ends[rows, s, 1])
    return rows


def _keep_free(flock: Flock, which: int, rows: np.ndarray, at: np.ndarray) -> None:
    """Take the surroundings of a disc: all four ends are kept free, whichever two get one."""
    flock.stamp(which, rows, at, flock.tables.kept_free, np.zeros(len(rows), dtype=np.int32), change=1)


def _two_seeds(flock: Flock, grown: Paddles) -> np.ndarray:
    """First paddles of both contours. Returns the rows where the second has room."""
    recipe, everyone = flock.tables.recipe, np.arange(len(flock.index))
    room = (recipe.size - 4 * recipe.apart) * UNIT
    first = np.stack([flock.draw(everyone, room, 0, axis) for axis in (0, 1)], 1)
    first += (2 * recipe.apart + recipe.apron) * UNIT
    second = first + circle(recipe.apart)[flock.draw(everyone, DIRECTIONS, 0, 2)]
    for s, start in enumerate((first, second)):
        direction = flock.draw(everyone, DIRECTIONS, 0, 3 + s)
        _place(flock, grown, everyone, s * recipe.contour, start, direction)
        grown.ends[:, s, 0] = start
    rows = everyone
    for s in (0, 1):
        slot = s * recipe.contour
        _keep_free(flock, 1 - s, rows, grown.ends[rows, s, 0])
        flock.stamp_paddle(1 - s, rows, grown, slot)
    for s in (0, 1):
        slot = s * recipe.contour
        points = np.stack([grown.ends[rows, s, 0], grown.centre[rows, slot], grown.head[rows, slot]], 1)
        rows = rows[~flock.taken(s, rows, points).any(1)]
    return rows


def _place(flock: Flock, grown: Paddles, rows: np.ndarray, slot: int, start: np.ndarray, direction: np.ndarray) -> None:
    """Write down a paddle that begins at `start` (rows, 2)."""
    grown.head[rows, slot] = start - 2 * flock.tables.middle[direction]
    grown.centre[rows, slot] = start - flock.tables.middle[direction]
    grown.direction[rows, slot] = direction


def _extend(
    flock: Flock, which: int, grown: Paddles, rows: np.ndarray, slot: int, last: bool = False, trial: int = 0
) -> np.ndarray:
    """Add a paddle to the snake of the slot before. Returns the rows where there was room for one."""
    tables, looks = flock.tables, flock.tables.final_looks if last else flock.tables.looks
    margin, tip, back = flock.margin[rows], grown.head[rows, slot - 1], grown.direction[rows, slot - 1]
    inner = tip & (1 << _CELL) - 1
    view = (((margin * DIRECTIONS + back) << _CELL) + inner[:, 0] << _CELL) + inner[:, 1]
    seen = flock.maps[which].take(looks.take(view, axis=0) + flock.cells(rows, tip)[:, None, None])
    blocked = np.bitwise_or.reduce(seen, 1)
    sums = np.cumsum(np.where(blocked, 0, tables.weights), 1)
    free = np.flatnonzero(sums[:, -1])
    rows, sums = rows[free], sums[free]
    noise = bits(flock.seed, flock.stream + "/turn", flock.index[rows], flock.attempt[rows], slot, trial)
    chosen = (sums <= ((noise * sums[:, -1]) >> 32)[:, None]).sum(1)
    direction = (back[free] + tables.turns[chosen]) % DIRECTIONS
    head = tip[free] + tables.step[margin[free], direction]
    grown.head[rows, slot] = head
    grown.centre[rows, slot] = head + tables.middle[direction]
    grown.direction[rows, slot] = direction
    return rows


def _distractors(flock: Flock, grown: Paddles) -> None:
    """Grow short snakes one after another where there is room; one that finds none is left out."""
    recipe, everyone = flock.tables.recipe, np.arange(len(flock.index))
    for j in range(2 * recipe.contour):
        flock.stamp_paddle(0, everyone, grown, j)
    for end in np.ndindex(2, 2):
        _keep_free(flock, 0, everyone, grown.ends[:, *end])
    for d in range(recipe.distractors):
        slot, without = 2 * recipe.contour + d * recipe.distractor, everyone
        for trial in range(_TRIES):
            if len(without):
                done = _distractor(flock, grown, without, slot, trial)
                without = np.setdiff1d(without, done, assume_unique=True)
        grown.direction[without, slot : slot + recipe.distractor] = -1


def _distractor(flock: Flock, grown: Paddles, rows: np.ndarray, slot: int, trial: int) -> np.ndarray:
    """One short snake in each row. Returns the rows that have it; what the others began is taken out."""
    length = flock.tables.recipe.distractor
    began = rows = _free_place(flock, grown, rows, slot, trial)
    reached = np.ones(len(flock.index), dtype=np.int64)
    for j in range(1, length):
        rows = _extend(flock, 0, grown, rows, slot + j, trial=trial)
        flock.stamp_paddle(0, rows, grown, slot + j - 1)
        reached[rows] = j + 1
    flock.stamp_paddle(0, rows, grown, slot + length - 1)
    for j in range(length - 1):
        stuck = began[(reached[began] < length) & (reached[began] > j + 1)]
        flock.stamp_paddle(0, stuck, grown, slot + j, change=-1)
    return rows


def _free_place(flock: Flock, grown: Paddles, rows: np.ndarray, slot: int, trial: int) -> np.ndarray:
    """A first paddle at the first free one of a few places drawn over the image. Returns the rows that have
    one."""
    tables, recipe = flock.tables, flock.tables.recipe
    room = (recipe.size - 2 * recipe.padding) * UNIT
    stream, keys = f"{flock.stream}/place", (flock.index[rows, None], flock.attempt[rows, None], slot, trial)
    limits = enumerate((room, room, DIRECTIONS))
    drawn = [below(flock.seed, stream, limit, *keys, axis, np.arange(_TRIES)) for axis, limit in limits]
    centre = np.stack(drawn[:2], -1) + (recipe.padding + recipe.apron) * UNIT
    taken = flock.taken(0, rows, centre)
    for toward in (drawn[2], (drawn[2] + HALF) % DIRECTIONS):
        taken |= flock.taken(0, rows, centre - tables.middle[toward])
    free = np.flatnonzero(~taken.all(1))
    chosen = taken[free].argmin(1)
    direction = drawn[2][free, chosen]
    _place(flock, grown, rows[free], slot, centre[free, chosen] + tables.middle[direction], direction)
    return rows[free]
