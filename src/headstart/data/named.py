"""Arrays by name, out of files that hold more than arrays: what is no array of numbers or texts is named and left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headstart.data.extras import check_size
from headstart.data.layout import LayoutSpec
from headstart.errors import BadInput
from headstart.text import first_few


class Named:
    """The arrays of a file, and why other members are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: dict[str, np.ndarray] = {}
        self.left: dict[str, str] = {}
        self.sideways: list[str] = []
        self.attributes: dict[str, dict[str, str | float]] = {}
        """Texts and numbers beside an array, or beside a group of them, by its name."""

    def add(self, name: str, array: np.ndarray | None) -> None:
        """Take an array of numbers or texts; a row or a column is a vector (n,)."""
        if array is None or array.dtype.kind not in "biufUS":
            self.leave(name, "objects" if array is None else f"values of type {array.dtype}")
        elif array.size:
            flat = array.ndim == 2 and 1 in array.shape
            self.arrays[name] = array.reshape(-1) if flat else array

    def leave(self, name: str, what: str) -> None:
        """Note a member that is not read."""
        self.left[name] = what

    @property
    def shapes(self) -> str:
        """The arrays and their shapes, in words."""
        return first_few([f"{name!r} {_shape(array)}" for name, array in self.arrays.items()], 8)

    @property
    def notes(self) -> list[str]:
        """What is said of members that are left."""
        some = first_few([f"{name!r} ({what})" for name, what in self.left.items()], 5)
        turned = first_few([repr(name) for name in self.sideways], 5)
        out = [f"cells of {turned} are channels by positions, as their second sizes alone differ"]
        return out * bool(self.sideways) + [f"not read: {some}"] * bool(self.left)

    def add_cells(self, name: str, cells: Sequence[np.ndarray | str | None]) -> None:
        """Take cells of texts, of numbers or of sequences; matrices whose second sizes alone differ are (F, L)."""
        there = [cell for cell in cells if isinstance(cell, np.ndarray) and cell.ndim == 2]
        sizes = [{cell.shape[k] for cell in there} for k in (0, 1)]
        if len(there) == len(cells) and len(sizes[0]) == 1 < min(len(sizes[1]), *sizes[0]):
            self.sideways.append(name)
            cells = [cell.T for cell in there]
        self.add(name, ragged(cells, self.path, name))

    def arrays_for(self, spec: LayoutSpec) -> dict[str, np.ndarray]:
        """The arrays. Raises: BadInput where there is none, or where one that the layout names is left out."""
        asked = [*spec.values, *(name for name in (spec.target, spec.id, spec.group) if name)]
        for name in asked:
            if name in self.left:
                raise BadInput(
                    f"{self.path}: {name!r} holds {self.left[name]}, which are never read; save numbers or texts, "
                    "one array for each channel"
                )
        if not self.arrays:
            some = "; ".join(self.notes) or "it is empty"
            raise BadInput(f"{self.path}: holds no array of numbers or texts ({some}); save one")
        return self.arrays


def ragged(cells: Sequence[np.ndarray | str | None], path: Path, name: str) -> np.ndarray | None:
    """Texts (n,), numbers (n,), or sequences (n, L) or (n, L, F) filled up with NaN; None where cells hold anything
    else, or unlike things."""
    if cells and all(isinstance(cell, str) for cell in cells):
        return np.array(cells, dtype=np.str_)
    arrays = [cell for cell in cells if isinstance(cell, np.ndarray) and cell.ndim < 3]
    if not cells or len(arrays) < len(cells):
        return None
    flat = all(array.ndim < 2 or 1 in array.shape or not array.size for array in arrays)
    arrays = [array.reshape(-1) if flat else np.atleast_2d(array) for array in arrays]
    rest = {array.shape[1:] for array in arrays}
    if len(rest) > 1:
        return None
    longest = max(map(len, arrays))
    shape = (len(arrays), longest, *rest.pop())
    check_size(path, 8 * int(np.prod(shape, dtype=np.float64)), f"the sequences of {name!r}")
    out = np.full(shape, np.nan)
    for row, array in enumerate(arrays):
        out[row, : len(array)] = array
    return out


def _shape(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape))
