"""Data as people hold them in Python, on their way to `read_sequences`: what is an array, a list, or a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.data.table import is_number
from headstart.errors import BadInput, nearest

KINDS = ("auto", "numbers", "text", "dna", "protein", "tokens")


@dataclass(frozen=True)
class InputData:
    """data: as `read_sequences` takes it. width: columns of rows (n, L), channels of (n, L, F), or None where rows are
    uneven or hold no numbers. names: of a table's columns. whole: it came as one array, not as a list of sequences.
    """

    data: Any
    name: str
    width: int | None = None
    names: tuple[str, ...] = ()
    whole: bool = False

    @property
    def is_array(self) -> bool:
        """Whether these are numbers of one shape, (n, L) or (n, L, F)."""
        return isinstance(self.data, np.ndarray) and self.data.dtype.kind in "biuf"


def as_inputs(data: Any, name: str = "X", channels_first: bool = False) -> InputData:
    """Look at data in memory. Numbers of one shape become an array, of any other shape a list.

    Raises: BadInput, or what scikit-learn raises, for sparse, complex, infinite, empty and one-dimensional data.
    """
    if isinstance(data, (str, bytes, os.PathLike, Sequences)):
        raise BadInput(
            f"{name}: is {type(data).__name__}, no data in memory; give an array, a list of sequences or a table "
            "(`headstart fit FILE` reads a file)"
        )
    if issparse(data):
        raise BadInput(f"{name}: is a sparse matrix, and sequences are dense; give X.toarray()")
    if isinstance(data, Mapping) or (hasattr(data, "columns") and hasattr(data, "__getitem__")):
        names = _names(data)
        return InputData(data, name, len(names), names)
    if not isinstance(data, np.ndarray) and hasattr(data, "to_list"):  # a pandas or polars series
        data = data.to_list()
    if not isinstance(data, np.ndarray) and hasattr(data, "to_pylist"):
        data = data.to_pylist()
    whole = not isinstance(data, (list, tuple))
    if whole and hasattr(data, "__array__"):
        data = np.asarray(data)
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OSU":
        data = list(data) if data.dtype.kind == "O" else data.tolist()
    if isinstance(data, (list, tuple)):
        data = _stacked(data)
    if isinstance(data, list) or (isinstance(data, np.ndarray) and data.dtype.kind in "SU"):
        return InputData(data, name)
    # Infinity is refused, NaN is a missing value; this also words what other estimators say of other input.
    array = check_array(
        data, dtype="numeric", ensure_all_finite="allow-nan", allow_nd=True, input_name=name, ensure_min_samples=1
    )
    if array.ndim > 3:
        raise BadInput(f"{name}: has shape {array.shape}; give (n, L), (n, L, F), or a list of sequences")
    width = array.shape[1] if channels_first else array.shape[-1]
    return InputData(array, name, int(width), whole=whole)


def read_inputs(inputs: InputData, layout: LayoutSpec, labels: Any = None, groups: Any = None) -> Sequences:
    """The sequences. Numbers stay numbers unless `layout.kind` says otherwise, however few values they have: what
    another fold holds must not depend on it. Raises: BadInput, naming the row.
    """
    asked = layout.kind
    if asked == "auto" and inputs.is_array:
        layout = layout.model_copy(update={"kind": "numbers"})
    sequences = read_sequences(inputs.data, layout, labels=labels, groups=groups, name=inputs.name)
    if asked == "auto" and sequences.kind == "tokens" and all(map(is_number, sequences.layout.symbols)):
        layout = layout.model_copy(update={"kind": "numbers"})
        sequences = read_sequences(inputs.data, layout, labels=labels, groups=groups, name=inputs.name)
    return sequences


def check_kind(kind: Any) -> None:
    """Raises: BadInput where there is no such kind of data."""
    if kind not in KINDS:
        raise BadInput(f"kind: {nearest(kind, KINDS)}")


def served_layout(inputs: InputData, sequences: Sequences) -> LayoutSpec:
    """How others are read alike. Arrays and lists have no columns, so that a file with whatever columns will do."""
    fixed = sequences.layout.fixed()
    if inputs.names:
        return fixed
    free = {"shape": "auto", "values": (), "target": None, "id": None, "time": None, "group": None, "header": None}
    return fixed.model_copy(update=free)


def _names(table: Any) -> tuple[str, ...]:
    names = table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns)
    return tuple(map(str, names))


def _stacked(rows: Sequence[Any]) -> Any:
    """One array where all rows are numbers of one shape, else the rows as a list, whose faults their reader names."""
    if not rows or any(isinstance(row, (str, bytes)) for row in rows):
        return list(rows)
    try:
        parts = [np.asarray(row) for row in rows]
    except ValueError:  # a row that is ragged itself
        return list(rows)
    alike = len({part.shape for part in parts}) == 1 and all(part.dtype.kind in "biufcO" for part in parts)
    return np.stack(parts) if alike else list(rows)
