"""A folder with a file of arrays for each recording (.npy, .npz, .mat, .h5), or for each part of a data set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from headstart.data.apart import all_apart
from headstart.data.archives import check_link
from headstart.data.arrays import ARRAY_NAMES, array_table, last_part, npy_array, npz_arrays, together
from headstart.data.axes import time_axis
from headstart.data.class_folders import split_stems
from headstart.data.folder_tables import FEWEST_POSITIONS, read_table
from headstart.data.layout import SPLIT_WORDS, LayoutSpec, by_role
from headstart.data.named import Named
from headstart.data.named_recordings import ALL, ID, arrays_table, signals_of
from headstart.data.recordings import MOST_VALUES
from headstart.data.sensor_files import sensors_of
from headstart.data.table import Column, Table, arrow_texts
from headstart.errors import BadInput, Mistakes, Places, nearest
from headstart.text import counted, first_few, many
from headstart.ways import argument, asked, field_name, option

ARRAYS = (".npy", ".npz", ".mat", ".h5", ".hdf5")
_Level = dict[tuple[str, ...], dict[str, np.ndarray]]
_TEXTS = (".txt", ".csv", ".dat")
_SPLIT_END = re.compile(r"_(train|test|val)$", re.IGNORECASE)
ABOUT = frozenset(("readme", "read_me", "license", "licence", "citation", "about", "info"))
"""Names of texts about a data set."""
_APART = {
    ".mat": ("headstart.data.matlab:of_any_version", "file of MATLAB"),
    ".h5": ("headstart.data.hdf5:sets_of", "file of HDF5"),
    ".hdf5": ("headstart.data.hdf5:sets_of", "file of HDF5"),
}
"""What reads files in a process of its own, by endings."""
CLASS_FILE = "file"
"""The column of the classes, where each has a file."""
_ROLES = frozenset(name for names in ARRAY_NAMES.values() for name in names)
_MANY = "; where a file holds all sequences of a class, put all into one: numpy.savez('all.npz', X=X, y=y)"


def is_array_file(name: str) -> bool:
    """Whether a file holds arrays, by its name."""
    return name.lower().endswith(ARRAYS)


def parts_of_one(path: Path, names: Sequence[str], spec: LayoutSpec) -> Table | None:
    """The sequences of a folder with an array of them and one of labels (`X.npy`, `y.npy`; `X_train.txt`,
    `y_train.txt`), as those of an .npz file; None of another folder."""
    own = [name for name in names if name.lower().endswith(".npy")] or [n for n in names if n.lower().endswith(_TEXTS)]
    own = [name for name in own if PurePosixPath(name).stem.lower() not in ABOUT]
    deeper = [name for name in own if "/" in name]
    own = [name for name in own if "/" not in name]
    ends = {match[0].lower() if (match := _SPLIT_END.search(PurePosixPath(name).stem)) else "" for name in own}
    # X_test and y_test of one split have the names of those that a model was fitted to.
    stems = {PurePosixPath(name).stem: name for name in own}
    if len(ends) == 1 and not {*spec.values, spec.target, spec.group, spec.id} & set(stems):
        stems = {_SPLIT_END.sub("", stem): name for stem, name in stems.items()}
    roles = {role: [stem for stem in stems if stem.lower() in ARRAY_NAMES[role]] for role in ("values", "target")}
    if len(stems) != len(own) or not all(roles.values()) or (deeper and not all(ends)):
        splits = [
            folder
            for folder in sorted({name.split("/")[0] for name in deeper})
            if folder.lower() in SPLIT_WORDS
            and {f"{folder}/x_{folder}".lower(), f"{folder}/y_{folder}".lower()}
            <= {name.lower().rpartition(".")[0] for name in deeper}
        ]
        if splits and not spec.optional:
            raise BadInput(
                f"{path}: holds a data set for each split ({first_few(list(map(repr, splits)), 3)}); give one of them, "
                f"such as {shlex.quote(str(path / splits[-1]))}, and another with {argument('test')}"
            )
        return None
    for name in own:
        check_link(path, path / name)
    arrays = {
        stem: npy_array(path / name) if name.lower().endswith(".npy") else _cells(path / name)
        for stem, name in stems.items()
    }
    numbers = {stem: array for stem, array in arrays.items() if array is not None}
    texts = [stem for stem in roles["values"] if stems[stem].lower().endswith(_TEXTS)]
    if len(numbers) < len(arrays) or any(numbers[stem].dtype.kind == "U" for stem in texts):
        return None
    table = together(numbers, path, spec)
    if deeper:
        below = counted(len(deeper), "file in folders below is", "files in folders below are")
        table.notes.append(f"{below} not read")
    return table


def axes_by_file(path: Path, names: Sequence[str], spec: LayoutSpec) -> Table | None:
    """The sequences of a folder with a text of numbers (n, L) for each axis of its sensors (`body_acc_x_train.txt`),
    labelled by the folder around it (`y_train.txt`, `subject_train.txt`); None of another folder."""
    stems = {_SPLIT_END.sub("", PurePosixPath(name).stem): name for name in names if name.lower().endswith(_TEXTS)}
    axes = {stem[-2:].lower() for stem in stems}
    if len(stems) < len(names) or "/" in "".join(names) or axes != {"_x", "_y", "_z"} or spec.label_from:
        return None
    files = {_SPLIT_END.sub("", file.stem): file for file in sorted(path.resolve().parent.iterdir())}
    roles = {*ARRAY_NAMES["target"], *ARRAY_NAMES["group"]}
    beside = {stem: file for stem, file in files.items() if stem.lower() in roles and file.suffix.lower() in _TEXTS}
    if not spec.optional and not {stem.lower() for stem in beside} & {*ARRAY_NAMES["target"]}:
        return None
    for file in [*(path / name for name in names), *beside.values()]:
        check_link(path, file)
    arrays = {stem: _cells(path / name) for stem, name in stems.items()}
    arrays |= {stem: _cells(file) for stem, file in beside.items()}
    there = {stem: array for stem, array in arrays.items() if array is not None}
    if len(there) < len(arrays) or len({there[stem].shape for stem in stems}) > 1:
        return None
    values = spec.values or tuple(sorted(stems))
    table = together(there, path, spec.model_copy(update={"values": values}))
    table.notes.append(f"files such as {stems[values[0]]!r} are channels, whose labels are in the folder around them")
    return table


def classes_by_file(path: Path, names: Sequence[str], spec: LayoutSpec) -> Table | None:
    """The sequences of a folder with an array (n, L) or (n, L, F) of them for each class, whose file is named by it;
    None of another folder.

    Raises: BadInput with the settings where matrices (n, L) may be a recording each.
    """
    stems = [PurePosixPath(name).stem for name in names]
    words = len(set(stems)) > 1 and not any(re.search(r"[/\d]", name.partition(".")[0]) for name in names)
    others = split_stems(stems) or {stem.lower() for stem in stems} & _ROLES or sensors_of(path, names)
    if (
        not words
        or others
        or spec.label_from
        or spec.target not in (None, "", CLASS_FILE)
        or spec.time_axis == "second"
    ):
        return None
    arrays = []
    for name in names:
        check_link(path, path / name)
        if is_array_file(name):
            own = {ALL: npy_array(path / name)} if name.lower().endswith(".npy") else npz_arrays(path / name)
            arrays += list(own.values())
        elif name.lower().endswith(_TEXTS) and (cells := _cells(path / name, bare=True)) is not None:
            arrays.append(cells)
        else:
            return None
    kinds = {(array.ndim, array.shape[1:]) for array in arrays}
    if len(arrays) != len(names) or len(kinds) > 1 or arrays[0].ndim not in (2, 3):
        return None
    if any(array.dtype.kind not in "biuf" or not array.size for array in arrays):
        return None
    even = arrays[0].ndim == 3 and len({*map(len, arrays)}) == 1
    if even and (spec.target == "" or (spec.optional and spec.target is None)):
        return array_table(np.concatenate(arrays, 2), str(path), spec, "a folder of arrays, a file for each sensor")
    if spec.target == "":
        return None
    if even and spec.target is None:
        some = first_few(list(map(repr, names)), 3)
        question = f"{path}: each file ({some}) may hold the sequences of a class, or a sensor of the same sequences"
        raise BadInput(asked(question, {"target": CLASS_FILE}, {"target": ""}))
    if arrays[0].ndim == 2 and spec.target != CLASS_FILE:
        if spec.time_axis or spec.optional or spec.channels_first or arrays[0].shape[1] < FEWEST_POSITIONS:
            return None
        some = first_few(
            [f"{name!r} {' x '.join(map(str, a.shape))}" for name, a in zip(names, arrays, strict=True)], 3
        )
        question = f"{path}: each file may hold the sequences of a class, a row each, or be one recording ({some})"
        alike = len({len(array) for array in arrays}) == 1
        recordings = [{"time_axis": "first"}, *([{"time_axis": "second"}] if alike and is_array_file(names[0]) else [])]
        raise BadInput(asked(question, {"target": CLASS_FILE}, *recordings))
    table = array_table(np.concatenate(arrays), str(path), spec, "a folder of arrays, a file for each class")
    labels = [stem for stem, array in zip(stems, arrays, strict=True) for _ in range(len(array))]
    table.columns[CLASS_FILE] = Column(CLASS_FILE, "text", arrow_texts(labels))
    table.roles["target"] = CLASS_FILE
    table.notes.append(f"labels are the names of the files, {first_few(list(map(repr, stems)), 3)}")
    return table


def _cells(file: Path, bare: bool = False) -> np.ndarray | None:
    """(n, L) of the rows of a text file of numbers, (n,) of one column of numbers or words; None of other files.

    A first column of row numbers without a name, as pandas writes it, is no part of them. bare: a header makes it
    another file.
    """
    table = read_table(file, LayoutSpec(), mistakes := Mistakes())
    mistakes.check()
    if bare and table.header:
        return None
    columns = list(table.columns.values())
    if len(columns) > 1 and table.header and columns[0].name == "column 1" and columns[0].type == "number":
        columns = columns[np.array_equal(columns[0].floats, np.arange(table.rows)) :]
    if len(columns) == 1 and columns[0].type == "text":
        return np.array([word or "" for word in columns[0].words])
    if any(column.type != "number" for column in columns):
        return None
    array = np.stack([column.floats for column in columns], 1)
    return array[:, 0] if array.shape[1] == 1 else array


def folder_of_arrays(path: Path, names: Sequence[str], spec: LayoutSpec) -> tuple[Table, list[str]]:
    """A table of a row for each file, whose cells are its arrays (L,) or (L, F), and the names of the files.

    Raises: BadInput naming a file that cannot be read, leads out of the folder, or lacks an array of the others, and
    where nothing tells which axis is time, or files are the splits of a data set.
    """
    if len(names) > 1 and all(PurePosixPath(name).stem.lower() in SPLIT_WORDS for name in names):
        raise BadInput(
            f"{path}: its files are named as splits are ({first_few([repr(name) for name in names], 3)}); give one of "
            f"them, and another with {argument('test')}"
        )
    whole, values = Named(path), 0
    level: _Level = {}
    for name, named in _read(path, names):
        values += sum(array.size for array in named.arrays.values())
        if values > MOST_VALUES:
            raise BadInput(f"{path}: holds more than {MOST_VALUES:,} values; give fewer or shorter recordings")
        level[tuple(name.split("/"))] = named.arrays
        whole.attributes[name] = {key: value for own in named.attributes.values() for key, value in own.items()}
        whole.left |= named.left
    if all(len(arrays) == 1 for arrays in level.values()) and len({key for own in level.values() for key in own}) > 1:
        level = {key: {"": next(iter(arrays.values()))} for key, arrays in level.items()}  # named as their files are
    level = _without_numbers(level, spec)
    signals = _signals(path, level, spec)
    if not signals:
        first, arrays = next(iter(level.items()))
        shapes = first_few([f"{key or ALL!r} {array.shape}" for key, array in arrays.items()], 4)
        raise BadInput(
            f"{path / '/'.join(first)}: its arrays ({shapes}) are no recording (L,) or (L, F) that most files have; "
            "write one recording a file, or all into one file: numpy.savez('all.npz', X=X, labels=labels) with X "
            "(n, L) or (n, L, F)"
        )
    axis = spec.time_axis or ("second" if spec.channels_first else _axis(path, level, signals))
    table = arrays_table(level, signals, whole, spec.model_copy(update={"time_axis": axis}))
    table.time_axis, table.written = axis, "a folder of arrays"
    if any(own[name].ndim == 2 for own in level.values() for name in signals if name in own):
        shape = next(own[name].shape for own in level.values() for name in signals if own[name].ndim == 2)
        table.notes.append(
            f"arrays such as {' x '.join(map(str, shape))} are read as "
            f"{'positions by channels' if axis == 'first' else 'channels by positions'}, one recording a file"
            f"{'' if any(re.search('[0-9]', name) for name in names) else _MANY}"
        )
    table.notes += whole.notes
    files = [str(word) for word in table.columns.pop(ID).words]
    return replace(table, places=Places(str(path), names=[str(path / name) for name in files])), files


def _without_numbers(level: _Level, spec: LayoutSpec) -> _Level:
    """The arrays by names without digits, where each file has others that are the same without them: `X097_DE_time` of
    97.mat."""
    bare = {key: {re.sub(r"\d+", "", name): array for name, array in own.items()} for key, own in level.items()}
    whole = all(len(bare[key]) == len(own) for key, own in level.items()) and len({*map(frozenset, bare.values())}) == 1
    own = {name for arrays in level.values() for name in arrays}
    differ = len(own) == sum(map(len, level.values())) and (
        len(level) > 1 or bool(spec.values and not {*spec.values} & own)
    )
    return bare if whole and differ else level


def _signals(path: Path, level: _Level, spec: LayoutSpec) -> list[str]:
    """The names of the arrays that are sequences: those that were named, else all of numbers that most files have.

    Raises: BadInput where one is not there, or holds a label for each row of another.
    """
    signals = signals_of(level)
    columns = {name or ALL: name for name in signals}
    wanted = [value if value in columns else value.rpartition(" ")[0] for value in spec.values]  # acc 1 is of acc
    for value, array in zip(spec.values, wanted, strict=True):
        if array not in columns:
            raise BadInput(f"{path}: {field_name('values')}: no array {nearest(value, columns).removeprefix('no ')}")
    vectors = {name for arrays in level.values() for name, array in arrays.items() if array.ndim == 1 < array.size}
    labels = [name for name in by_role("target", vectors) if any(len(arrays) > 1 for arrays in level.values())]
    labels += [name for name in vectors if last_part(name) in ARRAY_NAMES["target"] and name not in labels]
    if labels and spec.window is None and not spec.per_position and not spec.optional:
        name = next("/".join(key) for key, arrays in level.items() if labels[0] in arrays)
        raise BadInput(
            f"{path / name}: {labels[0]!r} has a label for each row; where rows are sequences, put all files into one "
            "(numpy.savez('all.npz', X=X, y=y, groups=files)); where they are positions of a recording, "
            f"{option('window', '100')} cuts windows that they label"
        )
    return [columns[array] for array in dict.fromkeys(wanted)] or [name for name in signals if name not in labels]


def _axis(path: Path, level: _Level, signals: Sequence[str]) -> Literal["first", "second"]:
    """Which axis of matrices is time. Raises: BadInput with both commands where their sizes do not tell."""
    axes: set[Literal["", "first", "second"]] = set()
    for name in signals:
        shapes = [arrays[name].shape for arrays in level.values() if name in arrays and arrays[name].ndim == 2]
        axes |= {time_axis(shapes)} if shapes else set()
    if axes <= {"", "first"} and axes != {""}:
        return "first"
    if axes <= {"", "second"} and axes != {""}:
        return "second"
    sizes = {arrays[name].shape for arrays in level.values() for name in signals if arrays[name].ndim == 2}
    some = first_few([" x ".join(map(str, shape)) for shape in sorted(sizes)], 3)
    raise BadInput(
        asked(
            f"{path}: {many(len(level), 'file')} of arrays, each a recording, in shapes that do not tell which axis is "
            f"time ({some})",
            {"time_axis": "first"},
            {"time_axis": "second"},
        )
    )


def _read(path: Path, names: Sequence[str]) -> Iterator[tuple[str, Named]]:
    """The arrays of each file; matrices of one row or column are vectors."""
    for name in names:
        check_link(path, path / name)
    kinds = {PurePosixPath(name).suffix.lower() for name in names}
    for kind in sorted(kinds):
        own = [name for name in names if PurePosixPath(name).suffix.lower() == kind]
        if kind in _APART:
            yield from zip(own, all_apart(_APART[kind][0], [path / name for name in own], _APART[kind][1]), strict=True)
            continue
        for name in own:
            named = Named(path / name)
            arrays = {ALL: npy_array(path / name)} if kind == ".npy" else npz_arrays(path / name)
            for key, array in arrays.items():
                named.add(key, array)
            yield name, named
