"""HDF5 files, and those of MATLAB 7.3, which are such files: data sets by name. Nothing outside of the file is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.apart import arrays_apart
from headstart.data.arrays import together
from headstart.data.extras import check_size, library, whole
from headstart.data.layout import LayoutSpec
from headstart.data.named import Named, ragged
from headstart.data.named_recordings import recordings_of
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes

MOST_SETS, MOST_SET_CELLS, DEEPEST_GROUP = 30_000, 1_000_000, 8
"""Data sets of a file, cells of one of them, and groups that may stand in each other."""


def read_hdf5(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The data sets of a file as the arrays of an .npz file; `group/name` is one in a group. A group for each recording
    is a row for each."""
    library("h5py", path, "a file of HDF5")
    named = arrays_apart("headstart.data.hdf5:sets_of", path, "file of HDF5")
    recordings = recordings_of(named, spec)
    return together(named.arrays_for(spec), path, spec, named.notes) if recordings is None else recordings


def sets_of(path: Path) -> Named:
    """The data sets of a file. Raises: BadInput as `members_of`."""
    return members_of(path, "a file of HDF5")


def turned_sets_of(path: Path) -> Named:
    """The variables of a file of MATLAB 7.3. Raises: BadInput as `members_of`."""
    return members_of(path, "a file of MATLAB 7.3", turned=True)


def members_of(path: Path, what: str, turned: bool = False) -> Named:
    """The data sets. turned: as MATLAB keeps them, the last dimension first, cells as references, texts as numbers.

    Raises: BadInput where the library is absent, the file damaged, or too large once it is unpacked.
    """
    h5py = library("h5py", path, what)
    named = Named(path)
    with whole(path, what.removeprefix("a ")), h5py.File(path, "r") as file:
        for count, (name, member) in enumerate(_members(h5py, file, named, turned)):
            if count >= MOST_SETS:
                raise BadInput(f"{path}: holds more than {MOST_SETS:,} data sets; give it in parts")
            _add(h5py, file, named, name, member, turned)
    return named


def _members(h5py: Any, group: Any, named: Named, turned: bool, start: str = "", depth: int = 0) -> Iterator[Any]:
    """(name, data set) of a group and of those in it; what a link leads to elsewhere is left."""
    if not turned:
        _note_attributes(named, start.rstrip("/"), group)
    for key in group:
        name = f"{start}{key}"
        if turned and key.startswith("#"):  # what references lead to
            continue
        link = group.get(key, getlink=True)
        if not isinstance(link, h5py.HardLink):
            named.leave(name, "a link")
            continue
        member = group[key]
        if isinstance(member, h5py.Dataset):
            if not turned:
                _note_attributes(named, name, member)
            yield name, member
        elif isinstance(member, h5py.Group) and depth < DEEPEST_GROUP:
            yield from _members(h5py, member, named, turned, f"{name}{'.' if turned else '/'}", depth + 1)


def _note_attributes(named: Named, name: str, member: Any) -> None:
    """Keep attributes that are one text or one number. Raises: BadInput for a frame that pandas wrote, whose columns
    are not in data sets of their own."""
    if "pandas_type" in member.attrs:
        raise BadInput(f"{named.path}: holds frames of pandas ({name!r}); save one with to_parquet, and give that")
    for key in member.attrs:
        try:
            array = np.asarray(member.attrs[key])
        except (TypeError, OSError, ValueError):  # of a type that h5py does not know
            continue
        if array.size == 1 and array.dtype.kind in "biufSUO":
            item = array.reshape(-1)[0]
            number = array.dtype.kind in "biuf"
            if number or isinstance(item, (str, bytes)):
                named.attributes.setdefault(name, {})[key] = item.item() if number else _text(item)


def _add(h5py: Any, file: Any, named: Named, name: str, data: Any, turned: bool) -> None:
    """Put one data set among the arrays."""
    if data.is_virtual or data.external:
        named.leave(name, "data of another file")
    elif data.shape is None or not data.size or "MATLAB_empty" in data.attrs:
        return
    elif h5py.check_ref_dtype(data.dtype) is not None:
        if turned:
            named.add_cells(name, _cells(file, named, name, data))
        else:
            named.add(name, None)
    elif h5py.check_string_dtype(data.dtype) is not None:
        _check(named, name, data)
        texts = np.asarray(data[()], dtype=object).reshape(-1)
        named.add(name, np.array([_text(item) for item in texts]).reshape(data.shape))
    elif h5py.check_vlen_dtype(data.dtype) is not None:
        _check(named, name, data)
        cells = [np.asarray(data[()])] if data.shape == () else [np.asarray(item) for item in data[()].reshape(-1)]
        named.add(name, cells[0] if data.shape == () else ragged(cells, named.path, name))
    elif data.dtype.names is not None:
        _check(named, name, data)
        for field in data.dtype.names:
            part = data[field]
            if part.dtype.kind == "O":
                part = np.array([_text(item) for item in part.reshape(-1)]) if len(part) else part
            named.add(f"{name}.{field}", part)
    else:
        _check(named, name, data)
        named.add(name, _matrix(data, turned))


def _matrix(data: Any, turned: bool) -> np.ndarray:
    """The numbers of a data set; a text where it is one of MATLAB."""
    values = np.asarray(data[()])
    if not turned:
        return values
    values = values.T
    if _class(data) == "char":
        rows = values.reshape(len(values) if values.ndim == 2 else 1, -1)
        return np.array(["".join(map(chr, row.tolist())) for row in rows])
    return values


def _cells(file: Any, named: Named, name: str, data: Any) -> list[np.ndarray | str | None]:
    """What the references of a cell array lead to, column by column, as MATLAB counts."""
    if data.size > MOST_SET_CELLS:
        raise BadInput(f"{named.path}: {name!r} has {data.size:,} cells, at most {MOST_SET_CELLS:,} are read")
    out: list[np.ndarray | str | None] = []
    size = 0
    for reference in data[()].reshape(-1):
        cell = file[reference] if reference else None
        if (
            cell is None
            or not hasattr(cell, "shape")
            or cell.dtype.kind not in "biuf"
            or cell.external
            or cell.is_virtual
        ):
            out.append(None)
            continue
        size += cell.nbytes
        check_size(named.path, size, f"the cells of {name!r}")
        if "MATLAB_empty" in cell.attrs:
            out.append("" if _class(cell) == "char" else np.zeros(0))
            continue
        values = _matrix(cell, True)
        out.append("".join(values.tolist()) if values.dtype.kind == "U" else values)
    return out


def _check(named: Named, name: str, data: Any) -> None:
    check_size(named.path, data.nbytes, f"the data set {name!r}")


def _class(data: Any) -> str:
    name = data.attrs.get("MATLAB_class", b"")
    return name.decode() if isinstance(name, bytes) else str(name)


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
