"""What a file of weights says that it holds, against what its config says, before a single number is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.baselines import shapes
from headstart.data.opened import reading
from headstart.errors import BadInput
from headstart.models.model import SequenceModel, build_model
from headstart.serve.config import NETWORK, ModelConfig

Header = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a tensor -> its type, in the words of the format, and its shape."""

MOST_HEADER = 2**24
"""Bytes of a header: a hundred each for more tensors than any model here has."""
MOST_BESIDE = 2**28
"""Bytes of constants that a network makes for itself, which no file of weights vouches for."""
MOST_SIZE = 2**28
"""Of every whole number of a network's config; those of its mixers are smaller."""
MOST_STATE = 4_096
"""States of a channel: some mixers solve for the eigenvectors of a matrix of this size."""
MOST_OTHER = 65_536
"""Of every other whole number of a mixer's spec."""
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Bytes per number."""
TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
"""Types of numpy and torch in the words of the format."""


def read_header(path: Path) -> Header:
    """The header of a safetensors file: 8 bytes of length, JSON; the rest of the file must be what it says.

    Raises: BadInput where the file is cut short, or no such file.
    """
    with reading(path), path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise BadInput(f"{path}: is cut short, or no safetensors file; save or download it again")
        if length > MOST_HEADER:
            raise BadInput(f"{path}: has a header of {length:,} bytes, at most {MOST_HEADER:,} are read; save it again")
        content = file.read(length)
    try:
        document = json.loads(content)
        document.pop("__metadata__", None)
        entries = [(name, *_entry(entry)) for name, entry in document.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput(f"{path}: has no header of a safetensors file; save or download it again") from None
    end = 0
    for name, dtype, shape, begin, last in sorted(entries, key=lambda entry: entry[3:]):
        count = SIZES[dtype]
        for one in shape:
            count *= one
        if begin != end or last - begin != count:
            raise BadInput(f"{path}: the header gives {name!r} other bytes than its shape needs; save it again")
        end = last
    if size != 8 + length + end:
        raise BadInput(
            f"{path}: is cut short or too long: its header says {8 + length + end:,} bytes, it has "
            f"{size:,}; save or download it again"
        )
    return {name: (dtype, shape) for name, dtype, shape, _, _ in entries}


def _entry(entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """(type, shape, first byte, last byte). Raises: ValueError, KeyError or TypeError for anything else."""
    shape, (begin, last) = tuple(entry["shape"]), entry["data_offsets"]
    if entry["dtype"] not in SIZES or not all(type(n) is int and n >= 0 for n in (*shape, begin, last)):
        raise ValueError
    return entry["dtype"], shape, begin, last


def check_header(header: Header, config: ModelConfig, path: Path) -> None:
    """Raises: BadInput unless names, types and shapes are those that the config implies.

    Nothing of their size is allocated: a network is built without memory, after what the header does not vouch for
    is known to be small.
    """
    wanted: Header = {}
    if config.network is not None:
        _check_small(header, config, path)
        wanted |= {f"{NETWORK}.{name}": what for name, what in _of_network(config, path).items()}
    for name, facts in config.classics.items():
        for array, (dtype, shape) in shapes(facts.model_dump(mode="json")).items():
            wanted[f"{name}.{array}"] = (TYPES[dtype], shape)
    for name in sorted(set(header) | set(wanted)):
        if name not in wanted:
            raise BadInput(f"{path}: holds {name!r}, the model of config.json does not; save the model again")
        if name not in header:
            raise BadInput(f"{path}: lacks {name!r}, the model of config.json has it; save the model again")
        if header[name] != wanted[name]:
            raise BadInput(
                f"{path}: {name!r} is {_said(header[name])}, by config.json it is {_said(wanted[name])}; "
                "save the model again"
            )


def skeleton(config: ModelConfig) -> SequenceModel:
    """The network without memory: its tensors have shapes alone, but for small constants."""
    with torch.device("meta"):
        return build(config)


def build(config: ModelConfig) -> SequenceModel:
    """A fresh network. Raises: BadInput where the parts of its spec do not fit."""
    assert config.network is not None
    signature = config.signature
    return build_model(config.network.model, signature, config.network.objective.output(signature), 0)


def _of_network(config: ModelConfig, path: Path) -> Header:
    try:
        model = skeleton(config)
    except BadInput as error:
        raise BadInput(f"{path.with_name('config.json')}: network.{error}") from None
    saved = model.state_dict()
    beside = sum(x.numel() * x.element_size() for name, x in model.named_buffers() if name not in saved)
    if beside > MOST_BESIDE:
        raise BadInput(
            f"{path.with_name('config.json')}: the network asks for {beside:,} bytes of constants, at most "
            f"{MOST_BESIDE:,} are made; lower its length"
        )
    return {name: (TYPES[str(x.dtype).removeprefix("torch.")], tuple(x.shape)) for name, x in saved.items()}


def _check_small(header: Header, config: ModelConfig, path: Path) -> None:
    """Raises: BadInput where building the network could cost far more than its file is large."""
    assert config.network is not None
    model, place = config.network.model, path.with_name("config.json")
    blocks = len({name.split(".")[2] for name in header if name.startswith(f"{NETWORK}.blocks.")})
    _, shape = header.get(f"{NETWORK}.head.output.weight", ("", ()))
    if (blocks, shape[1:]) != (model.blocks, (model.width,)):
        there = f"{blocks} blocks of width {shape[1] if len(shape) == 2 else 'unknown'}"
        raise BadInput(
            f"{path}: holds a network of {there}, by {place.name} it has {model.blocks} of width "
            f"{model.width}; save the model again"
        )
    sizes = {"length": config.network.length, "patch": config.preparation.patch, "model": model.model_dump()}
    for where, value in _whole_numbers(sizes):
        most = MOST_SIZE
        if where.startswith("model.mixer"):
            most = MOST_STATE if where.endswith(".state") else MOST_OTHER
        if not where.endswith("seed") and value > most:
            raise BadInput(f"{place}: network.{where}: {value:,} is more than is read, at most {most:,}; lower it")


def _whole_numbers(given: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """(dotted name, value) of each whole number in tables and lists."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from _whole_numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(given, (list, tuple)):
        for value in given:
            yield from _whole_numbers(value, name)
    elif isinstance(given, int) and not isinstance(given, bool):
        yield name, given


def _said(what: tuple[str, tuple[int, ...]]) -> str:
    return f"{what[0]} {list(what[1])}"


def tensors_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    """Arrays as tensors under `prefix.name`."""
    return {f"{prefix}.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def arrays_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, np.ndarray]:
    """The arrays among tensors that stand under `prefix.`."""
    start = f"{prefix}."
    return {name.removeprefix(start): x.numpy() for name, x in tensors.items() if name.startswith(start)}
