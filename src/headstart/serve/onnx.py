"""The network of a model folder as an ONNX file, which is run beside torch before it is kept."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headstart.data.letters import ALPHABETS
from headstart.errors import BadInput
from headstart.serve.config import NETWORK
from headstart.serve.model import Served
from headstart.serve.onnx_check import Runs, answers_of, compared, feeds, first_line, made_up
from headstart.serve.whole import Whole
from headstart.store import disk_full, publish

EXTRA = ("onnx", "onnxscript", "onnxruntime")
"""Packages of the extra [onnx]."""
OPSET = 18
"""Version of ONNX's operators: the newest that torch 2.11 and 2.13 both write without converting."""
CLOSE = 1e-4
"""Largest difference to torch that is taken: of a probability, of a number as a share of the range of train."""
LARGEST = 2**31 - 2**20
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
    if not difference <= CLOSE:  # NaN is no small difference
        raise BadInput(
            f"{path}: the file's answers would differ from torch's by up to {difference:.1e} (at most {CLOSE:g} is "
            "taken); nothing is written. Other versions of onnxscript and onnxruntime may do better; `headstart "
            "predict` serves the model as it is"
        )
    try:
        publish(path, data)
    except OSError as error:
        why = "there is no room" if disk_full(error) else error.strerror or str(error)
        raise BadInput(
            f"{path}: cannot be written ({why}); make room or give access there, or name another file"
        ) from None
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
    given = feeds(whole.known, made_up(served, 2, whole.limit))
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    with _silence():
        try:
            program = torch.onnx.export(
                whole,
                tuple(torch.from_numpy(given[name]) for name in whole.inputs),
                dynamo=True,
                verbose=False,
                input_names=list(whole.inputs),
                output_names=[whole.output[0]],
                opset_version=OPSET,
                dynamic_shapes=tuple({0: batch, 1: length} for _ in whole.inputs),
            )
        except torch.onnx.OnnxExporterError as error:
            raise BadInput(
                f"export: torch {torch.__version__} cannot state this network as a graph ({first_line(error)}); "
                "`headstart predict` serves it"
            ) from error
        assert program is not None
        proto: Any = program.model_proto
    _forget_places(proto)
    for name, value in _notes(served).items():
        proto.metadata_props.add(key=name, value=value)
    if proto.ByteSize() > LARGEST:
        raise BadInput(
            f"export: the graph takes {proto.ByteSize() / 2**30:.1f} GB, and one ONNX file holds 2; fit a "
            "smaller network"
        )
    return bytes(proto.SerializeToString(deterministic=True))


def _notes(served: Served) -> dict[str, str]:
    """What a program must know besides: texts, and lists as JSON."""
    known = served.config.preparation
    symbols = known.symbols or tuple(ALPHABETS.get(known.kind, ""))
    lists = {"classes": known.classes, "channels": known.channels, "symbols": symbols}
    notes = {name: json.dumps(value, ensure_ascii=False) for name, value in lists.items() if value}
    return {"kind": known.kind, **notes, "longest": str(served.limit(NETWORK)), "made_by": served.config.made_by}


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
    for one in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        one.ClearField("metadata_props")


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
