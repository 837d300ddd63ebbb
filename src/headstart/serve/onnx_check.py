"""An ONNX file beside torch: what it answers to made-up sequences of several numbers and lengths."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from headstart.data.layout import Channel, Layout, LayoutSpec
from headstart.data.sequences import Sequences
from headstart.data.table import Places
from headstart.errors import BadInput
from headstart.seeds import below, normal, uniform
from headstart.sequence import ragged
from headstart.serve.config import NETWORK, Preparation
from headstart.serve.model import Served
from headstart.serve.whole import Whole

Feeds = Mapping[str, np.ndarray]
Runs = tuple[tuple[int, int], ...]
"""Numbers of sequences, and the length of the longest of them."""


def answers_of(data: bytes) -> Callable[[Feeds], np.ndarray]:
    """What answers feeds by onnxruntime, on one thread and in silence.

    Raises: BadInput where it cannot run the file, at once or later.
    """
    runtime: Any = importlib.import_module("onnxruntime")
    state: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    wrong = tuple(x for x in vars(state).values() if isinstance(x, type) and issubclass(x, Exception))
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4

    def guarded(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except wrong as error:
            raise BadInput(
                f"export: onnxruntime {runtime.__version__} cannot run what torch {torch.__version__} wrote "
                f"({first_line(error)}); nothing is written. Try other versions of either"
            ) from error

    session = guarded(lambda: runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"]))
    return lambda given: np.asarray(guarded(lambda: session.run(None, dict(given)))[0])


def compared(whole: Whole, served: Served, answers: Callable[[Feeds], np.ndarray]) -> tuple[float, Runs]:
    """Largest difference between answers and `Served.predict`: of probabilities, or of numbers as a share of the range
    of train. NaN where any answer is.

    Lengths: one position, patches with and without room left, all that the network takes, and more than that.
    """
    known, limit = whole.known, whole.limit
    lengths = sorted({1, min(2, limit), min(known.patch + 1, limit), limit // 2 + 1, limit, limit + known.patch + 2})
    runs = tuple((rows, length) for length in lengths for rows in ((1, 2, 5) if length <= 256 else (1, 2)))
    unit = None if known.low is None or known.high is None else known.high - known.low
    largest = []
    for rows, length in runs:
        sequences = made_up(served, rows, length)
        told, said = served.predict(sequences, NETWORK), answers(feeds(known, sequences))
        scale = 1.0 if known.classes else np.maximum(1.0, np.abs(told)) if unit is None else unit
        largest.append(np.max(np.abs(said.reshape(told.shape) - told) / scale))
    return float(np.max(largest)), runs


def feeds(known: Preparation, s: Sequences) -> Feeds:
    """Sequences as the file takes them, padded to the longest; what stands behind them is not 0, on purpose."""
    valid = np.arange(s.lengths.max())[None] < s.lengths[:, None]
    values = np.full((*valid.shape, *s.values.shape[1:]), 7, dtype=np.float32 if s.kind == "numbers" else np.int64)
    values[valid] = s.values
    observed = np.ones(values.shape, dtype=bool)
    if s.observed is not None:
        observed[valid] = s.observed
    if known.missing:
        return {"values": values, "valid": valid, "observed": observed}
    return {"values": values if s.observed is None else np.where(observed, values, np.float32(np.nan)), "valid": valid}


def made_up(served: Served, rows: int, length: int) -> Sequences:
    """Random sequences in the units of train, the first `length` long and the others at most; of numbers a tenth is
    missing."""
    known = served.config.preparation
    sizes = [length, *(1 + int(below(0, "onnx/length", length, row, length)) for row in range(1, rows))]
    place, offsets = ragged([row * 2**32 + np.arange(size) for row, size in enumerate(sizes)])
    layout = Layout(
        "made up",
        "wide",
        tuple(Channel(name, ()) for name in known.channels),
        LayoutSpec(),
        kind=known.kind,
        symbols=known.symbols,
    )
    values, observed = below(0, "onnx/tokens", known.width, place), None
    if known.kind == "numbers":
        channel = np.arange(known.width)
        values = normal(0, "onnx/values", place[:, None], channel)
        if known.mean:
            values = values * np.array(known.deviation) + np.array(known.mean)
        observed = uniform(0, "onnx/observed", place[:, None], channel) > 0.1
        values = np.where(observed, values, 0).astype(np.float32)
    return Sequences(values, offsets, observed, (None,) * rows, None, None, known.channels, layout, Places("made up"))


def first_line(error: Exception) -> str:
    """The first line of what an error says; of torch's long ones, of the summary in them. Without colours."""
    text = str(error)
    lines = (text.partition("## Exception summary")[2] or text).strip().splitlines()
    return re.sub(r"\x1b\[[0-9;]*m", "", next(iter(lines), type(error).__name__))
