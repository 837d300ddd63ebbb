"""Arrays: .npy and .npz files, arrays in memory, and lists of arrays of any length. Nothing is ever unpickled."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from headstart.data.archives import SMALL_FILE, most_unpacked, reading
from headstart.data.axes import axis_of_all
from headstart.data.layout import LayoutSpec
from headstart.data.rows import array_of, column_of, list_column
from headstart.data.table import Column, Table, arrow_lists
from headstart.errors import BadInput, Mistakes, Places, nearest, one_line
from headstart.sequence import IGNORE, one_hot
from headstart.text import first_few, many
from headstart.ways import field_name, option

GAP_BYTES, ROWS_BYTES = 1 << 16, 1 << 22
"""Bytes between two rows of a file that are read with them, and bytes that are read at once, about."""
CHANGED = "changed while it was read; give it again when nothing else writes it"
MOST_ARRAYS = 10_000
"""Members that an .npz file may have."""
MOST_AXES = 32
"""Axes that an array may have, as in numpy 1."""
ARRAY_NAMES = {
    "values": ("x", "values", "data", "sequences", "x_train", "series", "inputs", "arr_0"),
    "target": ("y", "labels", "label", "target", "targets", "y_train", "classes", "arr_1"),
    "id": ("id", "ids"),
    "group": ("group", "groups", "subject", "subjects", "patient", "patients", "subject_train"),
}
"""Names that arrays of an .npz file have."""
PICKLED_TEXT = (
    "holds Python objects, which are never unpickled; save numbers or texts (one array per channel, short "
    "sequences filled up with nan), or give .jsonl or Parquet"
)


def read_npy(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """One array (n, L) or (n, L, F). Raises: BadInput for objects, a file that is cut short, or another shape."""
    name = spec.values[0] if spec.optional and len(spec.values) == 1 else "values"
    return array_table(npy_array(path), str(path), spec, "an array", name)


def npy_array(path: Path) -> np.ndarray:
    """The array of a file. Raises: BadInput for objects, or a file that is cut short."""
    with reading(path), path.open("rb") as file:
        return _read(file, path.stat().st_size, str(path))


def read_npz(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """Arrays by name: the sequences (or one array for each channel), and perhaps labels, ids and groups."""
    return together(npz_arrays(path), path, spec)


def npz_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name. Raises: BadInput where one is no array of numbers or texts, or the file is not
    whole."""
    arrays = {}
    with reading(path):
        try:
            with zipfile.ZipFile(path) as archive:
                infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
                total = sum(info.file_size for info in infos)
                if len(infos) > MOST_ARRAYS or total > (most := most_unpacked(path, 8 * SMALL_FILE)):
                    raise BadInput(
                        f"{path}: unpacks to {len(infos):,} arrays of {total:,} bytes, at most "
                        f"{MOST_ARRAYS:,} of {most:,} are read; give it in parts"
                    )
                for info in infos:
                    with archive.open(info) as file:
                        name = info.filename.removesuffix(".npy")
                        arrays[name] = _read(file, info.file_size, f"{path}, array {name!r}")
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise BadInput(f"{path}: is not a whole .npz file ({one_line(error, 120)}); write it again") from None
    if not arrays:
        raise BadInput(f"{path}: holds no array; write it with numpy.savez")
    return arrays


def _header(file: IO[bytes], size: int, source: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis runs fastest, and type. Raises: BadInput where the file does not hold as much."""
    form: Any = np.lib.format
    try:
        version = form.read_magic(file)
        header = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}.get(version)
        if header is None:  # version 3 has names of fields that are not Latin, and plain arrays have none
            raise ValueError(f"version {version} of the format")
        shape, fortran, dtype = header(file)
    except (ValueError, EOFError, SyntaxError, TokenError, UserWarning) as error:
        raise BadInput(
            f"{source}: is not an array of numpy ({one_line(error, 120)}); write it with numpy.save"
        ) from None
    check_dtype(dtype, source)
    shape = tuple(map(int, shape))  # a header may say True
    if len(shape) > MOST_AXES:
        raise BadInput(f"{source}: has {len(shape)} axes; give (n, L), (n, L, F), or one array (L,) of labels")
    count = math.prod(shape)
    if count < 0 or count * dtype.itemsize > size:
        raise BadInput(
            f"{source}: is cut short: its header says {count * dtype.itemsize:,} bytes, it has {size:,}; write it again"
        )
    return shape, fortran, dtype


def _read(file: IO[bytes], size: int, source: str) -> np.ndarray:
    """An array whose header is true: nothing is allocated that the file does not hold."""
    shape, fortran, dtype = _header(file, size, source)
    wanted = math.prod(shape) * dtype.itemsize
    content = file.read(wanted)
    if len(content) < wanted:
        raise BadInput(f"{source}: is cut short: {len(content):,} of {wanted:,} bytes; write it again")
    flat = np.frombuffer(content, dtype=dtype)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


@dataclass(frozen=True)
class FileArray:
    """An array in a file, of which rows are read as they are asked for: it may be larger than memory, and is no map,
    since another program that cuts a mapped file ends this process. begin: bytes before its first number. stamp: what
    the file was like when its header was read."""

    path: Path
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    begin: int
    stamp: tuple[int, int, int]

    @property
    def nbytes(self) -> int:
        """As of an array in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def whole(self) -> np.ndarray:
        """All of it. Raises: as `rows`."""
        flat = self._records([(self.begin, self.nbytes)], np.arange(1))[0]
        return flat.reshape(self.shape[::-1]).transpose() if self.fortran else flat.reshape(self.shape)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """(k, ...) those of these numbers (k,), which rise. Raises: BadInput where the file is not as it was."""
        each = self.shape[1:]
        if not self.fortran:
            row = math.prod(each) * self.dtype.itemsize
            return self._records([(self.begin, row)], numbers)[0].reshape(len(numbers), *each)
        size, length = self.dtype.itemsize, self.shape[0] * self.dtype.itemsize
        columns = [(self.begin + i * length, size) for i in range(math.prod(each))]
        parts = self._records(columns, numbers)
        return np.concatenate(parts).reshape(*each[::-1], len(numbers)).transpose()

    def _records(self, places: Sequence[tuple[int, int]], numbers: np.ndarray) -> list[np.ndarray]:
        """Of each place (where records begin, and bytes of one) the values of the records of these numbers."""
        parts = []
        with reading(self.path), self.path.open("rb") as file:
            if _stamp(file) != self.stamp:
                raise BadInput(f"{self.path}: {CHANGED}")
            for begin, size in places:
                out = np.empty((len(numbers), size), np.uint8)
                apart = np.diff(numbers) * size > GAP_BYTES
                apart |= np.diff(numbers * size // ROWS_BYTES) > 0
                ends = [0, *(np.flatnonzero(apart) + 1).tolist(), len(numbers)]
                for low, high in pairwise(ends if len(numbers) else []):
                    first, count = numbers[low], int(numbers[high - 1] - numbers[low]) + 1
                    file.seek(begin + int(first) * size)
                    every = high - low == count  # these go to their place at once: it may be an array of gigabytes
                    data = out[low:high] if every else np.empty((count, size), np.uint8)
                    if file.readinto(data.reshape(-1).data) < count * size:
                        raise BadInput(f"{self.path}: {CHANGED}")
                    if not every:
                        out[low:high] = data[numbers[low:high] - first]
                parts.append(out.reshape(-1).view(self.dtype))
        return parts


def _stamp(file: IO[bytes]) -> tuple[int, int, int]:
    facts = os.fstat(file.fileno())
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def file_arrays(path: Path) -> dict[str, FileArray | np.ndarray]:
    """The arrays of a file by name; of those that are not packed the headers alone are read. Raises: BadInput where one
    cannot be read."""
    with reading(path), path.open("rb") as file:
        if path.suffix.lower() == ".npy":
            return {"values": _file_array(path, file, path.stat().st_size)}
        try:
            with zipfile.ZipFile(file) as archive:
                arrays: dict[str, FileArray | np.ndarray] = {}
                for info in (info for info in archive.infolist() if info.filename.endswith(".npy")):
                    name = info.filename.removesuffix(".npy")
                    if info.compress_type == zipfile.ZIP_STORED:
                        file.seek(info.header_offset + 26)  # lengths of its name and of more, which come before it
                        file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
                        arrays[name] = _file_array(path, file, info.file_size)
                    elif info.file_size <= most_unpacked(path, 8 * SMALL_FILE):
                        with archive.open(info) as member:
                            arrays[name] = _read(member, info.file_size, str(path))
                return arrays
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, struct.error) as error:
            raise BadInput(f"{path}: is not a whole .npz file ({one_line(error, 120)}); write it again") from None


def _file_array(path: Path, file: IO[bytes], size: int) -> FileArray:
    return FileArray(path, *_header(file, size, str(path)), file.tell(), _stamp(file))


def check_dtype(dtype: np.dtype[Any], source: str) -> None:
    """Raises: BadInput where an array holds anything but numbers or texts."""
    if dtype.hasobject:
        raise BadInput(f"{source}: {PICKLED_TEXT}")
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise BadInput(f"{source}: holds values of type {dtype}; give numbers or texts")


def together(arrays: dict[str, np.ndarray], path: Path, spec: LayoutSpec, notes: Sequence[str] = ()) -> Table:
    """The arrays of a file as one table: those that are named, else those whose names are known.

    Vectors that are named as values are the channels of one recording. notes: what is to be said besides.
    """
    arrays = dict(sorted(arrays.items(), key=lambda item: "train" not in item[0].lower()))  # before those of a test
    asked = {"target": spec.target, "id": spec.id, "group": spec.group}
    for setting, name in asked.items():
        if name and name not in arrays and not spec.optional:
            raise BadInput(f"{path}: {setting}: {nearest(name, arrays)}")
    for name in spec.values:
        if name not in arrays:
            raise BadInput(f"{path}: {field_name('values')}: {nearest(name, arrays)}")
    roles, axes = {}, _axes(arrays)
    axes = [] if spec.values or not {*asked.values()}.isdisjoint(axes) else axes
    for role, name in asked.items():
        usual = (n for n in arrays if last_part(n) in ARRAY_NAMES[role] and n not in axes)
        name = name if name is not None else next(usual, "")
        if name in arrays:
            roles[role] = name
    rest = [name for name in arrays if name not in roles.values()]
    tables = [name for name in rest if arrays[name].ndim > 1 or arrays[name].dtype.kind in "US"]
    values = list(spec.values) or axes or [name for name in tables if last_part(name) in ARRAY_NAMES["values"]][:1]
    values = values or [name for name in tables if arrays[name].ndim > 1 or len(rest) == 1]
    if not values:
        unread = "".join(f"; {note}" for note in notes)
        ways = f"name it with {option('values')}, or, where vectors are the channels of one recording, name these"
        if notes:
            ways += "; sequences of unequal lengths are read from a cell of numeric matrices (L, F) of one F"
        raise BadInput(
            f"{path}: none of the arrays {_shapes(arrays, arrays)} is known to hold sequences (n, L){unread}; {ways}"
        )
    single = all(arrays[name].shape == (1,) for name in roles.values())
    if spec.values and single and all(arrays[name].ndim == 1 and arrays[name].size for name in values):
        table = _one_recording({name: arrays[name] for name in rest}, values, path, notes)
        table.columns |= {name: _flat_column(name, arrays[name], path, None) for name in roles.values()}
        table.roles |= roles
        return table
    count = len(arrays[values[0]]) if arrays[values[0]].ndim else 0
    table = array_table(arrays[values[0]], str(path), spec, "arrays", name=values[0])
    for name in [*values[1:], *roles.values()]:
        if arrays[name].shape[:1] != (count,):
            raise BadInput(
                f"{path}: array {name!r} has shape {arrays[name].shape}, {values[0]!r} has "
                f"{arrays[values[0]].shape}; give a row of each for every sequence"
            )
        table.columns |= (
            array_table(arrays[name], str(path), spec, "", name=name).columns
            if name in values
            else {name: _flat_column(name, arrays[name], path, spec if name == roles.get("target") else None)}
        )
    table.roles |= roles
    left = [name for name in rest if name not in values]
    if left:
        table.notes.append(f"arrays {_shapes(arrays, left)} are not used")
    table.notes += notes
    return table


def _axes(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """The arrays x, y and z of one shape (n, L): the axes of a sensor, of which y is no label."""
    names = sorted((name for name in arrays if last_part(name) in ("x", "y", "z")), key=last_part)
    shapes = {arrays[name].shape for name in names}
    return names if len(names) == 3 and len(shapes) == 1 and len(next(iter(shapes))) > 1 else []


def last_part(name: str) -> str:
    """The last part of a name such as `data.X` or `train/labels`, in small letters."""
    return name.lower().replace("/", ".").rpartition(".")[2]


def _shapes(arrays: Mapping[str, np.ndarray], names: Iterable[str]) -> str:
    """Arrays with their shapes, in words."""
    return first_few([f"{name!r} {arrays[name].shape}" for name in names], 8)


def _one_recording(arrays: dict[str, np.ndarray], values: list[str], path: Path, notes: Sequence[str]) -> Table:
    """Vectors (L,) as the channels of one sequence."""
    places = Places(str(path), names=[str(path)])
    table = Table({}, 1, places, "a recording", shape="list", notes=list(notes))
    for name in values:
        check_dtype(arrays[name].dtype, f"{path}, array {name!r}")
        table.columns[name] = list_column(name, [arrays[name]], places)
    left = [name for name in arrays if name not in values]
    if left:
        table.notes.append(f"arrays {_shapes(arrays, left)} are not used")
    return table


def _flat_column(name: str, array: np.ndarray, path: Path, target: LayoutSpec | None) -> Column:
    """target: the layout, of the array of targets."""
    if target is not None and target.per_position and array.ndim == 2:
        # Torch's mark of a position where nothing is asked.
        if array.dtype.kind == "i" and target.target_kind != "number" and (array == IGNORE).any():
            array = np.where(array == IGNORE, np.nan, array)
        return list_column(name, list(array), Places(str(path)))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if one_hot(array):
        raise BadInput(
            f"{path}: array {name!r} is one-hot, a column for each class; save the classes, such as "
            "numpy.argmax(y, axis=1)"
        )
    if array.ndim != 1:
        raise BadInput(
            f"{path}: array {name!r} has shape {array.shape}; give one value for every sequence"
            + (", or set per_position = true where every position has one" if target is not None else "")
        )
    return column_of(name, array.tolist(), Places(str(path)))


def array_table(array: np.ndarray, source: str, spec: LayoutSpec, written: str, name: str = "values") -> Table:
    """An array (n, L) or (n, L, F) of numbers, or (n,) of texts; a target in (n, L) is a column's number, from 1."""
    check_dtype(array.dtype, source)
    places = Places(source)
    if array.ndim == 1 and array.dtype.kind in "US" and len(array):
        return Table({name: column_of(name, array.tolist(), places)}, len(array), places, written, shape="text")
    if array.ndim not in (2, 3) or not array.size:
        raise BadInput(f"{source}: has shape {array.shape}; give (n, L), (n, L, F), or a list of sequences")
    if array.dtype.kind in "US":
        column = list_column(name, list(array.astype(np.str_)), places)
        return Table({name: column}, len(array), places, written, shape="list")
    table = Table({}, len(array), places, f"{written} of shape {array.shape}".strip(), shape="list")
    if array.ndim == 2 and spec.target and spec.target.isdecimal() and 0 < int(spec.target) <= array.shape[1]:
        number = int(spec.target) - 1
        table.columns[spec.target] = column_of(spec.target, array[:, number].tolist(), places)
        table.roles["target"] = spec.target
        array = np.delete(array, number, axis=1)
    array = _turned(array, spec, table)
    offsets = np.arange(len(array) + 1) * array.shape[1]
    table.columns[name] = Column(name, "list", arrow_lists(array.reshape(-1, *array.shape[2:]), offsets))
    return table


def _turned(array: np.ndarray, spec: LayoutSpec, table: Table) -> np.ndarray:
    """(n, L) or (n, L, F), whatever comes first in the array."""
    if array.ndim < 3:
        return array
    table.time_axis, notes = axis_of_all([array.shape[1:]], table.places.source, spec)
    table.notes += notes
    return array.swapaxes(1, 2) if table.time_axis == "second" else array


def list_table(items: Sequence[Any], source: str, spec: LayoutSpec) -> Table:
    """A list of sequences: texts, arrays or lists, (L,) or (L, F) each. Raises: BadInput naming those that are none."""
    if not len(items):
        raise BadInput(f"{source}: is empty; give at least one sequence")
    mistakes, places = Mistakes(), Places(source)
    if all(isinstance(item, (str, bytes)) for item in items):
        column = column_of("values", items, places)
        return Table({"values": column}, len(items), places, "a list of texts", shape="text")
    if any(texts := [isinstance(item, (str, bytes)) for item in items]):
        row = texts.index(False)
        raise BadInput(
            f"{places.of(row)}: is {_kind(items[row])}, and {sum(texts):,} of {many(len(texts), 'row')} are texts; "
            "give a text for each, or leave the others out"
        )
    arrays = []
    for i, item in enumerate(items):
        arrays.append(_sequence(item, places.of(i)))
        if arrays[-1] is None:
            mistakes.add(
                places.of(i), f"is {_kind(item)}, no sequence of numbers (L,) or (L, F); give an array or a list"
            )
    mistakes.check()
    table = Table({}, len(arrays), places, "a list of sequences", shape="list")
    matrices = [array.shape for array in arrays if array is not None and array.ndim == 2]
    if matrices:
        table.time_axis, table.notes = axis_of_all(matrices, source, spec)
        if table.time_axis == "second":
            arrays = [array.T if array is not None and array.ndim == 2 else array for array in arrays]
    table.columns["values"] = list_column("values", arrays, places)
    return table


def unmasked(values: Any) -> np.ndarray:
    """What has an array, as one; a masked number is NaN. Raises: BadInput for masked texts."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        if values.dtype.kind not in "biuf":
            raise BadInput("a masked array of texts is not read; give a list with None where a text is missing")
        plain = np.array(values.data, dtype=np.result_type(values.dtype, np.float32))
        plain[values.mask] = np.nan
        return plain
    return np.asarray(values)


def _sequence(item: Any, row: str) -> np.ndarray | None:
    if isinstance(item, (list, tuple)):
        array = array_of(item)
    elif hasattr(item, "__array__"):
        array = unmasked(item)
        check_dtype(array.dtype, row)
    else:
        return None
    if array is None or array.ndim not in (1, 2):
        return None
    return array


def _kind(item: Any) -> str:
    shape = getattr(item, "shape", None)
    return f"of type {type(item).__name__}" + (f" and shape {tuple(shape)}" if isinstance(shape, tuple) else "")
