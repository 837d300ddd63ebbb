"""What people hand to an estimator: data in memory, labels of any type, and parameters as the settings of a fit."""

from __future__ import annotations

import numbers
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state

from headstart.data import LayoutSpec, Profile, Sequences, label_names, read_sequences
from headstart.errors import BadInput, reworded

if TYPE_CHECKING:
    from headstart.fitted.outcome import Outcome
    from headstart.request.settings import FitSettings
    from headstart.serve.config import ModelConfig
    from headstart.serve.model import Served


_ARGUMENTS = {
    "val_share": "validation_fraction",
    "test_share": "test_fraction",
    "split_seed": "random_state",
    "rates": "learning_rates",
    "labels": "y",
}
OWN = ("kind", "window", "step", "channels_first")
_OWN = re.compile(r"layout=\{'(kind|window|step|channels_first)': ([^{},]+)\}")
"""Fields of a layout that the estimators have as arguments, which win over those of `layout`."""
_FIELD = re.compile(r"\b(?:task(?:\.|: ))?(val_share|test_share|split_seed)\b|^(rates|labels)(?=:)")


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
    frames = list(data.values()) if isinstance(data, Mapping) else data
    if isinstance(frames, (list, tuple)) and frames and all(map(_is_table, frames)):
        return InputData(data, name)
    lone = [key for key, column in data.items() if not hasattr(column, "__len__")] if isinstance(data, Mapping) else []
    if lone:
        raise BadInput(f"{name}: is a dict whose {lone[0]!r} is no column; give a list or an array for each name")
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
    if isinstance(data, (set, frozenset)) or not (hasattr(data, "__len__") or hasattr(data, "__array__")):
        raise BadInput(f"{name}: is of type {type(data).__name__}; give an array, a list of sequences or a table")
    if isinstance(data, np.ndarray) and data.dtype.kind == "c":
        raise BadInput(
            f"{name}: Complex data not supported; give two channels: np.stack([{name}.real, {name}.imag], axis=-1)"
        )
    if isinstance(data, np.ndarray) and data.ndim < 2 and data.size:
        raise BadInput(
            f"{name}: Expected 2D array, got {data.ndim}D array instead. Reshape your data: {name}.reshape(1, -1) "
            f"where it is one sequence, {name}.reshape(-1, 1) where each number is one"
        )
    if isinstance(data, np.ndarray) and data.dtype.kind == "f" and (infinite := np.isinf(data)).any():
        row = int(infinite.reshape(len(data), -1).any(1).argmax())
        raise BadInput(f"{name}, row {row + 1:,}: contains infinity; give NaN where a value is missing")
    # NaN is a missing value; this also words what other estimators say of other input.
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
    if asked == "auto" and sequences.spelled_numbers:
        layout = layout.model_copy(update={"kind": "numbers"})
        sequences = read_sequences(inputs.data, layout, labels=labels, groups=groups, name=inputs.name)
    return sequences


def warn_of_axes(sequences: Sequences) -> None:
    """Warn where sizes alone told that arrays are (n, F, L)."""
    for note in sequences.axes_doubts:
        warnings.warn(f"{sequences.layout.source}: {note}", UserWarning, stacklevel=4)


def refuse_labels_in(sequences: Sequences) -> None:
    """Raise BadInput where a channel holds the labels: one value in each sequence, which is its label."""
    rows = np.flatnonzero(sequences.labelled)
    if sequences.kind != "numbers" or sequences.per_position or not sequences.lengths.all() or not len(rows):
        return
    try:
        labels = np.array([sequences.labels[row] for row in rows], dtype=np.float64)
    except ValueError:
        return
    for name, values in zip(sequences.channels, sequences.values.T, strict=True):
        least, most = (reduce.reduceat(values, sequences.offsets[:-1])[rows] for reduce in (np.minimum, np.maximum))
        if np.ptp(labels) > 0 and np.array_equal(least, most) and np.array_equal(least, labels.astype(least.dtype)):
            raise BadInput(
                f"X: column {name!r} holds y, the label of each sequence; leave it out (X.drop(columns={name!r}))"
            )


def warn_of_shift(sequences: Sequences, profile: Profile | None) -> None:
    """Warn where sequences look unlike those of the fit: by their values, lengths, gaps, or the step of their clock."""
    if profile is None:
        return
    drift = profile.drift()
    drift.add(sequences)
    if text := drift.sentence():
        warnings.warn(f"{sequences.layout.source}: {text}", UserWarning, stacklevel=5)


def warn_of_leaks(outcome: Outcome) -> None:
    """Warn of what makes the scores of a fit too good."""
    for text in outcome.gravest:
        warnings.warn(text, UserWarning, stacklevel=5)


def labels_like(y: Any, labels: list[Any]) -> Any:
    """Labels in the order of y, with its ids (of a mapping, or of an index of pandas), by which a long table finds
    them."""
    if isinstance(y, Mapping):
        return dict(zip(y, labels, strict=True))
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(y, (pandas.Series, pandas.DataFrame)):
        return pandas.Series(labels, index=y.index, dtype=object)
    return labels


def served_layout(inputs: InputData, sequences: Sequences) -> LayoutSpec:
    """How others are read alike. Arrays and lists have no columns, so that a file with whatever columns will do."""
    fixed = sequences.layout.fixed()
    if inputs.names:
        return fixed
    free = {"shape": "auto", "values": (), "target": None, "id": None, "time": None, "group": None, "header": None}
    return fixed.model_copy(update=free)


def _is_table(item: Any) -> bool:
    return hasattr(item, "__arrow_c_stream__") and hasattr(item, "columns")


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


LabelType = Literal["text", "integer", "number", "boolean"]


def label_type(classes: np.ndarray) -> LabelType:
    """What the labels are in Python."""
    kinds: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    return kinds.get(classes.dtype.kind, "text")


def reach_of(served: Served, confidence: float) -> float | tuple[float, ...]:
    """The error that so many of new sequences stay within, of each class. Raises: BadInput where too few were held
    out."""
    if not isinstance(confidence, (int, float, np.integer, np.floating)):
        raise BadInput(f"confidence: {confidence!r} is not a number; give a coverage such as 0.9")
    held_out, name = served.config.held_out.get(served.config.serve), served.config.serve
    if held_out is None:
        raise BadInput(f"confidence: the model holds no errors of {name} on held-out sequences; fit it again")
    reach = held_out.reach(confidence)
    if warning := held_out.warning(confidence, served.config.preparation.classes):
        warnings.warn(warning, stacklevel=3)
    return reach


def labels_of(config: ModelConfig) -> np.ndarray:
    """(K,) labels in the order of a model's numbers, of the type that they had in the fit."""
    names = config.preparation.classes
    labels: Sequence[Any] = names
    if config.label_type == "integer":
        labels = [int(name) for name in names]
    elif config.label_type == "number":
        labels = [float(name) for name in names]
    elif config.label_type == "boolean":
        labels = [name == "True" for name in names]
    return np.array(labels)


def with_labels(config: ModelConfig, classes: np.ndarray) -> ModelConfig:
    """The config of a fit on the names of `label_names`, with the labels' own names and type in it."""
    texts, names = label_names(classes)
    text_of = dict(zip(names, texts, strict=True))
    named = tuple(text_of[name] for name in config.preparation.classes)
    preparation = config.preparation.model_copy(update={"classes": named})
    return config.model_copy(update={"preparation": preparation, "label_type": label_type(classes)})


def fit_settings(estimator: Any, layout: LayoutSpec, models: tuple[str, ...] = ()) -> FitSettings:
    """The parameters of an estimator as a fit has them; models: kinds of whole models of a person's own.

    Raises: BadInput for one that cannot be.
    """
    from headstart.request.settings import FitSettings
    from headstart.words import read_time

    start, count, balanced = _seed(estimator.random_state), estimator.seeds, getattr(estimator, "class_weight", None)
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
        raise BadInput(f"seeds: {count!r} is not a number of networks; give 1 or more")
    if balanced not in (None, "balanced"):
        raise BadInput(f"class_weight: {balanced!r} is neither None nor 'balanced'")
    for name, low in (("validation_fraction", 1e-9), ("test_fraction", 0.0)):
        value = getattr(estimator, name)
        if not isinstance(value, (int, float)) or not low <= value < 1:
            raise BadInput(f"{name}: {value!r} is not a share of the rows; give a number between 0 and 1")
    rates = _rates(estimator.learning_rates)
    if estimator.pretrain not in (None, True, False):
        raise BadInput(f"pretrain: {estimator.pretrain!r} is none of True, False and None; give one of them")
    for name in ("epochs", "pretrain_epochs"):
        _check_number(name, getattr(estimator, name))
    if not isinstance(estimator.time, str):
        _check_number("time", estimator.time)
    return FitSettings(
        layout=layout,
        time=read_time(estimator.time) if isinstance(estimator.time, str) else estimator.time,
        seeds=tuple(int(start) * int(count) + i for i in range(int(count))),
        split_seed=start,
        rates=rates,
        epochs=estimator.epochs,
        pretrain_epochs=estimator.pretrain_epochs,
        balanced=balanced is not None,
        serve=estimator.serve,
        pretrain=None if estimator.pretrain is None else bool(estimator.pretrain),
        val_share=float(estimator.validation_fraction),
        test_share=float(estimator.test_fraction),
        models=models,
        backbone=None if estimator.backbone is None else os.fspath(estimator.backbone),
        start=None if estimator.start is None else os.fspath(estimator.start),
    )


def by_parameter(error: BadInput, names: Sequence[str]) -> BadInput:
    """A mistake in one of these fields of a layout as one in the parameter of this name."""
    return reworded(error, re.sub(rf"\blayout\.(?=({'|'.join(names)}): )", "", str(error)) if names else str(error))


@contextmanager
def in_arguments() -> Iterator[None]:
    """Name what the estimators have: `validation_fraction`, where an error names the field of the task."""
    try:
        yield
    except BadInput as error:
        text = _FIELD.sub(lambda match: _ARGUMENTS[match[1] or match[2]], str(error)).replace(
            "by_group=false", "no groups"
        )
        raise reworded(error, _OWN.sub(r"\1=\2", text)) from None


def _seed(random_state: Any) -> int:
    if random_state is None or isinstance(random_state, numbers.Integral):
        if (random_state or 0) < 0:
            raise BadInput(f"random_state: {random_state} is below 0; give 0 or more, or None")
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _rates(rates: Any) -> tuple[float, ...] | None:
    if rates is None:
        return None
    values = np.atleast_1d(np.asarray(rates, dtype=object)).tolist()
    for value in values:
        _check_number("learning_rates", value, needed=True)
    return tuple(map(float, values))


def _check_number(name: str, value: Any, needed: bool = False) -> None:
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if numeric or (value is None and not needed):
        return
    raise BadInput(f"{name}: {value!r} is not a number; give one" + ("" if needed else ", or None"))


def workers_of(n_jobs: Any) -> int | None:
    """Processes besides this one, 0 where this one trains; None for -1: as many as cores and memory have room for."""
    from headstart.limits import cores

    if n_jobs is not None and not isinstance(n_jobs, numbers.Integral):
        raise BadInput(f"n_jobs: {n_jobs!r} is not a number of processes; give None, -1 or a whole number")
    if n_jobs == -1:
        return None
    count = 1 if n_jobs is None else int(n_jobs)
    count = count if count >= 0 else max(1, cores() + 1 + count)
    return count if count > 1 else 0
