"""Which positions of a sequence make which pixels, where a task's examples are pictures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headstart.tasks.task import Task


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
    tops = (int(pixels_of(task.picture, x, place).any(1).argmax()) for place in range(len(x)))
    first = next(tops, 0)
    return next((place for place, top in enumerate(tops, start=1) if top > first), 0)
