"""MATLAB files: matrices by name, texts, and cells of texts or of sequences. Objects and functions are not read."""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from headstart.data.apart import arrays_apart
from headstart.data.archives import SMALL_FILE, most_unpacked
from headstart.data.arrays import together
from headstart.data.extras import check_size, library, whole
from headstart.data.hdf5 import turned_sets_of
from headstart.data.layout import LayoutSpec
from headstart.data.named import Named
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes

HDF5 = b"\x89HDF\r\n\x1a\n"
COMPRESSED = 15
"""Type of a packed variable."""
COPIES = 3
"""Of what a file may unpack to, that its reader may hold at a time: an element of 1 GiB in 300 bytes asks for more."""
DEEPEST_STRUCT = 4
"""Structs that may stand in each other."""


def read_mat(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The variables of a file, of version 4 to 7.3, as the arrays of an .npz file: a vector is one value a sequence, a
    struct's field is `struct.field`."""
    if _is_hdf5(path):
        library("h5py", path, "a file of MATLAB 7.3")
    named = arrays_apart("headstart.data.matlab:of_any_version", path, "file of MATLAB")
    if named.sideways:  # these are turned already
        spec = spec.model_copy(update={"time_axis": "first"})
    return together(named.arrays_for(spec), path, spec, named.notes)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(516)
    return HDF5 in (head[:8], head[512:]) or head.startswith(b"MATLAB 7.3")


def of_any_version(path: Path) -> Named:
    """The variables of a file. Raises: BadInput where it is damaged, or its library is absent."""
    if _is_hdf5(path):
        return turned_sets_of(path)
    with whole(path, "file of MATLAB"), path.open("rb") as file:
        check_size(path, sum(_unpacked(file)), "its variables")
    with suppress(ImportError, OSError):  # elsewhere an element may ask for what it says that it has
        resource, statm = importlib.import_module("resource"), Path("/proc/self/statm")
        most = int(statm.read_text().split()[5]) * resource.getpagesize() + COPIES * most_unpacked(path, 8 * SMALL_FILE)
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    return variables_of(path)


def variables_of(path: Path) -> Named:
    """The variables of a file of version 4 to 7. Raises: BadInput where it is damaged."""
    from scipy.io import loadmat

    with whole(path, "file of MATLAB"):
        variables = None
        with suppress(MemoryError):  # of the limit above
            variables = loadmat(path)
        if variables is None:
            raise BadInput(f"{path}: takes more memory than a file of its size may; write it again")
    named = Named(path)
    for name, value in variables.items():
        if not name.startswith("__"):
            _add(named, name, value, 0)
    return named


def _unpacked(file: IO[bytes]) -> Iterator[int]:
    """Bytes of each packed variable, counted without holding them. What is not of the format is left to scipy."""
    head = file.read(128)
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    while order and len(tag := file.read(8)) == 8:
        kind, size = struct.unpack(f"{order}II", tag)
        if kind != COMPRESSED:
            file.seek(size, 1)
            continue
        packed, left = zlib.decompressobj(), size
        while left > 0 and (part := file.read(min(left, 2**16))):
            left -= len(part)
            while part:
                yield len(packed.decompress(part, 2**20))
                part = packed.unconsumed_tail


def _add(named: Named, name: str, value: Any, depth: int) -> None:
    """Put a variable among the arrays; of a struct its fields."""
    if hasattr(value, "toarray"):  # a sparse matrix
        rows, columns = value.shape
        check_size(named.path, 8 * rows * columns, f"the sparse matrix {name!r}")
        value = value.toarray()
    if not isinstance(value, np.ndarray) or type(value).__name__ in ("MatlabOpaque", "MatlabFunction"):
        named.leave(name, "an object of MATLAB")
    elif value.dtype.names is not None:
        if depth == DEEPEST_STRUCT:
            named.leave(name, "a struct in structs")
            return
        for field in value.dtype.names:
            cells = value[field].reshape(-1)
            _add(named, f"{name}.{field}", cells[0] if len(cells) == 1 else value[field], depth + 1)
    elif value.dtype.kind == "O":
        named.add_cells(name, [_cell(cell) for cell in value.reshape(-1, order="F")])
    else:
        named.add(name, value)


def _cell(cell: Any) -> np.ndarray | str | None:
    """A text, or the numbers of a cell; None for anything else."""
    if not isinstance(cell, np.ndarray) or cell.dtype.names is not None:
        return None
    if cell.dtype.kind == "U":
        return "".join(cell.reshape(-1).tolist())
    return cell if cell.dtype.kind in "biuf" else None
