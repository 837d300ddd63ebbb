"""ARFF, the format of Weka: attributes of numbers and of names, the last of names being the class."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.extras import whole
from headstart.data.layout import LayoutSpec, by_role, check_names
from headstart.data.rows import list_column
from headstart.data.sizes import check_columns
from headstart.data.table import Column, Table, arrow_numbers, arrow_texts
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes, Places


def read_arff(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The rows of a file. A series of several channels (an attribute of attributes) is a column of sequences."""
    from scipy.io import arff

    lines = list(text_lines(path, spec.encoding, mistakes))
    mistakes.check()
    begins = _data_lines(lines)
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    with whole(path, "file of ARFF"):
        data, meta = arff.loadarff(io.StringIO(text))
    if not len(data):
        raise BadInput(f"{path}: has no row below @data; give one with rows")
    if not meta.names():
        raise BadInput(f"{path}: has no @attribute; give one with columns")
    check_columns(path, len(meta.names()))
    places = Places(str(path), lines=np.array(begins)) if len(begins) == len(data) else Places(str(path))
    names = check_names(meta.names(), str(path))
    table = Table({name: _column(name, data[name], places) for name in names}, len(data), places, "ARFF", header=True)
    table.time_axis = "first"  # records are channels, by the format
    classes = [name for name in names if meta[name][0] == "nominal"]
    if classes and classes[-1] == names[-1] and not by_role("target", names):
        table.roles["target"] = names[-1]
    return table


def _data_lines(lines: list[str]) -> list[int]:
    """Numbers of the lines of the rows, from 1."""
    begin = next((i for i, line in enumerate(lines) if line.strip().lower() == "@data"), len(lines))
    return [i + 1 for i in range(begin + 1, len(lines)) if lines[i].strip() and not lines[i].startswith("%")]


def _column(name: str, values: Any, places: Places) -> Column:
    if values.dtype.kind == "O":  # records (F,) of L values each
        parts = [np.stack([np.asarray(row.tolist(), dtype=np.float64) for row in value]).T for value in values]
        return list_column(name, parts, places)
    if values.dtype.kind in "SU":
        words = [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
        return Column(name, "text", arrow_texts([None if word == "?" else word for word in words]))
    if values.dtype.kind == "M":
        return Column(name, "time", arrow_texts([None if np.isnat(value) else str(value) for value in values]))
    return Column(name, "number", arrow_numbers(np.asarray(values, dtype=np.float64)))
