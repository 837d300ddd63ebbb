"""The network of a model folder as an ONNX file, which is run beside torch before it is kept."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.atomic import publish, writing
from headstart.core import Predictor
from headstart.data import Preparation, Sequences, sequences_of
from headstart.errors import BadInput
from headstart.seeds import below, normal, uniform
from headstart.sequence import Batch, ragged
from headstart.serve.config import NETWORK
from headstart.serve.model import Served


class Whole(nn.Module):
    """Cutting, standardising, patches, the network, temperature and the target's own unit, without reading.

    Shapes: values (B, L, F) float32 in the person's own units, or (B, L) int64 ids; valid (B, L) bool, true where the
    sequence is and false behind it; observed (B, L, F) bool, only where the model knows missing values -> (B, K)
    float32 probabilities, or (B,) float64 numbers. NaN among the values counts as missing. What stands at padded and
    at missing places may be anything. Positions beyond `limit` are cut off.
    Raises: BadInput where there is no network, or a mixer refuses to be exported.
    """

    mean: Tensor
    rest: Tensor
    deviation: Tensor

    def __init__(self, served: Served) -> None:
        super().__init__()
        preparation, config = served.config.preparation, served.config.network
        if served.network is None or config is None:
            raise BadInput(
                f"export: there is no network here, only {', '.join(served.choices)}, and classic models have no ONNX "
                "form; fit one with a network"
            )
        if served.config.layout.double:
            raise BadInput(
                "export: the fit had numbers that single precision cannot hold (a small signal on a large offset), and "
                "the file would take those; subtract the offset from the data, and fit again"
            )
        self.preparation, self.temperature = preparation, config.temperature
        self.limit: int = served.limit(NETWORK) or config.length
        self.network = Predictor(served.network).exportable(config.length)
        for name, part in zip(("mean", "rest", "deviation"), preparation.moments, strict=True):
            self.register_buffer(name, torch.from_numpy(part))

    @property
    def inputs(self) -> dict[str, str]:
        """Name -> type and shape in words, in their order."""
        if self.preparation.kind != "numbers":
            return {"values": "int64 (batch, length)", "valid": "bool (batch, length)"}
        shape = f"(batch, length, {self.preparation.width})"
        out = {"values": f"float32 {shape}", "valid": "bool (batch, length)"}
        return {**out, "observed": f"bool {shape}"} if self.preparation.missing else out

    @property
    def output(self) -> tuple[str, str]:
        """Name, type and shape in words."""
        count = len(self.preparation.classes)
        return ("probabilities", f"float32 (batch, {count})") if count else ("number", "float64 (batch)")

    def forward(self, values: Tensor, valid: Tensor, observed: Tensor | None = None) -> Tensor:
        # Picked and not sliced: of a slice torch 2.11 does not know how long it is while it makes the graph.
        positions = torch.arange(torch.sym_min(values.shape[1], self.limit))  # type: ignore[no-untyped-call]
        values, valid = values[:, positions], valid[:, positions]
        if self.preparation.kind == "numbers":
            there = valid[:, :, None] & ~values.isnan()
            batch = self._numbers(values, valid, there if observed is None else there & observed[:, positions])
        else:
            batch = Batch(torch.where(valid, values, 0), valid, valid)
        scores: Tensor = self.network(batch)
        if self.preparation.classes:
            return (scores / self.temperature).softmax(-1)
        low, high, numbers = self.preparation.low, self.preparation.high, scores[:, 0].double()
        return numbers if low is None or high is None else (numbers + 1) / 2 * (high - low) + low

    def _numbers(self, values: Tensor, valid: Tensor, there: Tensor) -> Batch:
        """Numbers as the network sees them; `there` (B, L, F) where there is one."""
        if self.preparation.mean:
            values = (values - self.mean - self.rest) / self.deviation
        values, patch = torch.where(there, values, 0.0), self.preparation.patch
        if patch > 1:
            more = -values.shape[1] % patch
            values, there = (
                torch.unflatten(pad(x, (0, 0, 0, more)), 1, (-1, patch)).flatten(2) for x in (values, there)
            )
            valid = torch.unflatten(pad(valid, (0, more)), 1, (-1, patch))[:, :, 0]
        return Batch(values, valid, valid, observed=there if self.preparation.missing else None)


EXTRA = ("onnx", "onnxscript", "onnxruntime")
"""Packages of the extra [onnx]."""
OPSET = 18
"""Version of ONNX's operators: the newest that torch 2.11 and 2.13 both write without converting."""
TORCH_TOLERANCE = 1e-4
"""Largest difference to torch that is taken: of a probability, of a number as a share of the range of train."""
LARGEST_GRAPH = 2**31 - 2**20
"""Bytes that a graph can have as one file, less some room."""


@dataclass(frozen=True)
class Exported:
    """What was written. inputs: name -> type and shape in words; output: the same as a pair.

    difference: the largest to torch over `runs`.
    """

    path: Path
    size: int
    inputs: Mapping[str, str]
    output: tuple[str, str]
    difference: float
    runs: Runs


def export_onnx(served: Served, path: Path) -> Exported:
    """Write the network as one file for any number of sequences of any length; see `Whole` for what goes in and out.

    Raises: BadInput where the extra [onnx] or the network is not there, where a mixer has no form, where what the file
    says differs from torch (nothing is written then), and where the file cannot be written.
    """
    check_place(path)
    check_extra()
    whole = Whole(served).eval()
    data = graph_of(whole, served)
    difference, runs = compared(whole, served, answers_of(data))
    if not difference <= TORCH_TOLERANCE:  # NaN is not a small difference
        raise BadInput(
            f"{path}: the file's answers would differ from torch's by up to {difference:.1e} (at most "
            f"{TORCH_TOLERANCE:g} is taken); nothing is written. Other versions of onnxscript and onnxruntime may do "
            "better; `headstart predict` serves the model as it is"
        )
    with writing(path):
        publish(path, data)
    return Exported(path, len(data), whole.inputs, whole.output, difference, runs)


def check_place(path: Path) -> None:
    """Raises: BadInput where a file of this name cannot be."""
    if path.is_dir():
        raise BadInput(f"--onnx: {str(path)!r} is a folder; name a file in it, such as {str(path / 'model.onnx')!r}")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"--onnx: there is no folder {str(path.parent)!r}; make it, or name another file")


def check_extra() -> None:
    """Raises: BadInput naming the packages that are missing."""
    absent = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        raise BadInput(f"export: {' and '.join(absent)} {verb} not installed; pip install 'headstart[onnx]'")


def graph_of(whole: Whole, served: Served) -> bytes:
    """The file's bytes. Raises: BadInput where torch cannot state the graph, or it is larger than a file may be."""
    arrays = feeds(whole.preparation, made_up(served, 2, whole.limit))
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    with _silence():
        try:
            program = torch.onnx.export(
                whole,
                tuple(torch.from_numpy(arrays[name]) for name in whole.inputs),
                dynamo=True,
                verbose=False,
                input_names=list(whole.inputs),
                output_names=[whole.output[0]],
                opset_version=OPSET,
                dynamic_shapes=tuple({0: batch, 1: length} for _ in whole.inputs),
            )
        except torch.onnx.OnnxExporterError as error:
            raise BadInput(
                f"export: torch {torch.__version__} cannot state this network as a graph ({_summary(error)}); "
                "`headstart predict` serves it"
            ) from error
        assert program is not None
        proto: Any = program.model_proto
    _forget_places(proto)
    for name, value in _notes(served).items():
        proto.metadata_props.add(key=name, value=value)
    if proto.ByteSize() > LARGEST_GRAPH:
        raise BadInput(
            f"export: the graph takes {proto.ByteSize() / 2**30:.1f} GB, and one ONNX file holds 2; fit a "
            "smaller network"
        )
    return bytes(proto.SerializeToString(deterministic=True))


def _notes(served: Served) -> dict[str, str]:
    """What a program must know besides: texts, and lists as JSON."""
    preparation = served.config.preparation
    lists = {"classes": preparation.classes, "channels": preparation.channels, "symbols": preparation.letters}
    notes = {name: json.dumps(value, ensure_ascii=False) for name, value in lists.items() if value}
    return {"kind": preparation.kind, **notes, "longest": str(served.limit(NETWORK)), "made_by": served.config.made_by}


def _forget_places(proto: Any) -> None:
    """Take out in whose folders each node was made, and torch's notes of inner shapes, which are not always right."""
    graphs = [proto.graph, *proto.functions]
    proto.graph.ClearField("value_info")
    for graph in graphs:
        graph.ClearField("metadata_props")
        graph.ClearField("doc_string")
        for node in graph.node:
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    for item in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        item.ClearField("metadata_props")


@contextmanager
def _silence() -> Iterator[None]:
    """Keep torch's exporter off the console: its notes are for those who work on it."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


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
                f"({_summary(error)}); nothing is written. Try other versions of either"
            ) from error

    session = guarded(lambda: runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"]))
    return lambda arrays: np.asarray(guarded(lambda: session.run(None, dict(arrays)))[0])


def compared(whole: Whole, served: Served, answers: Callable[[Feeds], np.ndarray]) -> tuple[float, Runs]:
    """Largest difference between answers and `Served.predict`: of probabilities, or of numbers as a share of the range
    of train. NaN where any answer is.

    Lengths: one position, patches with and without room left, all that the network takes, and more than that.
    """
    preparation, limit = whole.preparation, whole.limit
    patch = preparation.patch
    lengths = sorted({1, min(2, limit), min(patch + 1, limit), limit // 2 + 1, limit, limit + patch + 2})
    runs = tuple((rows, length) for length in lengths for rows in ((1, 2, 5) if length <= 256 else (1, 2)))
    unit = None if preparation.low is None or preparation.high is None else preparation.high - preparation.low
    largest = []
    for rows, length in runs:
        sequences = made_up(served, rows, length)
        expected, actual = served.predict(sequences, NETWORK), answers(feeds(preparation, sequences))
        scale = 1.0 if preparation.classes else np.maximum(1.0, np.abs(expected)) if unit is None else unit
        largest.append(np.max(np.abs(actual.reshape(expected.shape) - expected) / scale))
    return float(np.max(largest)), runs


def feeds(preparation: Preparation, s: Sequences) -> Feeds:
    """Sequences as the file takes them, padded to the longest; what stands behind them is not 0, on purpose."""
    valid = np.arange(s.lengths.max())[None] < s.lengths[:, None]
    values = np.full((*valid.shape, *s.values.shape[1:]), 7, dtype=np.float32 if s.kind == "numbers" else np.int64)
    values[valid] = s.values
    observed = np.ones(values.shape, dtype=bool)
    if s.observed is not None:
        observed[valid] = s.observed
    if preparation.missing:
        return {"values": values, "valid": valid, "observed": observed}
    return {"values": values if s.observed is None else np.where(observed, values, np.float32(np.nan)), "valid": valid}


def made_up(served: Served, rows: int, length: int) -> Sequences:
    """Random sequences in the units of train, the first `length` long and the others at most; of numbers a tenth is
    missing."""
    preparation = served.config.preparation
    sizes = [length, *(1 + int(below(0, "onnx/length", length, row, length)) for row in range(1, rows))]
    position, offsets = ragged([row * 2**32 + np.arange(size) for row, size in enumerate(sizes)])
    values, observed = below(0, "onnx/tokens", preparation.width, position), None
    if preparation.kind == "numbers":
        channel = np.arange(preparation.width)
        values = normal(0, "onnx/values", position[:, None], channel)
        if preparation.mean:
            values = values * np.array(preparation.deviation) + np.array(preparation.mean)
        observed = uniform(0, "onnx/observed", position[:, None], channel) > 0.1
        values = np.where(observed, values, 0).astype(np.float32)
    return sequences_of(values, offsets, observed, preparation)


def _summary(error: Exception) -> str:
    """The first line of what an error says; of torch's long ones, of the summary in them. Without colours."""
    text = str(error)
    lines = (text.partition("## Exception summary")[2] or text).strip().splitlines()
    return re.sub(r"\x1b\[[0-9;]*m", "", next(iter(lines), type(error).__name__))
