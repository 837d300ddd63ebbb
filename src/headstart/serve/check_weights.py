"""What a file of weights says that it holds, against what its config says, before a single number is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from headstart.baselines import shapes
from headstart.data.text import reading
from headstart.errors import BadInput
from headstart.models.model import SequenceModel, build_model
from headstart.serve.config import NETWORK, ModelConfig

Header = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a tensor -> its type, in the words of the format, and its shape."""

MOST_BESIDE = 2**28
"""Bytes of constants that a network makes for itself, which no file of weights vouches for."""
MOST_SIZE = 2**28
"""Of every whole number of a network's config; those of its mixers are smaller."""
MOST_STATE = 4_096
"""States of a channel: some mixers solve for the eigenvectors of a matrix of this size."""
MOST_OTHER = 65_536
"""Of every other whole number of a mixer's spec."""
TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
"""Types of numpy and torch in the words of the format."""


def read_header(path: Path) -> Header:
    """Types and shapes of the tensors in a safetensors file; no number of them is read.

    Raises: BadInput where the file is cut short, or is no safetensors file.
    """
    with reading(path):
        try:
            with safe_open(path, framework="numpy") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
        except SafetensorError as error:
            raise BadInput(
                f"{path}: is cut short, damaged or not a safetensors file ({error}); save or download the model again"
            ) from None


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
        try:
            arrays = shapes(facts.model_dump(mode="json"))
        except BadInput as error:
            raise BadInput(f"{path.with_name('config.json')}: classics.{name}: {error}") from None
        wanted |= {f"{name}.{array}": (TYPES[dtype], shape) for array, (dtype, shape) in arrays.items()}
    for name in sorted(set(header) | set(wanted)):
        if name not in wanted:
            raise BadInput(f"{path}: holds {name!r}, the model of config.json does not; save the model again")
        if name not in header:
            raise BadInput(f"{path}: lacks {name!r}, the model of config.json has it; save the model again")
        if header[name] != wanted[name]:
            raise BadInput(
                f"{path}: {name!r} is {_text(header[name])}, by config.json it is {_text(wanted[name])}; "
                "save the model again"
            )


def build(config: ModelConfig) -> SequenceModel:
    """A fresh network. Raises: BadInput where the parts of its spec do not fit."""
    assert config.network is not None
    signature = config.signature
    return build_model(config.network.model, signature, config.network.objective.output(signature), 0)


def _of_network(config: ModelConfig, path: Path) -> Header:
    try:
        with torch.device("meta"):  # shapes alone, but for small constants
            model = build(config)
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
    model, source = config.network.model, path.with_name("config.json")
    blocks = len({name.split(".")[2] for name in header if name.startswith(f"{NETWORK}.blocks.")})
    _, shape = header.get(f"{NETWORK}.head.output.weight", ("", ()))
    if (blocks, shape[1:]) != (model.blocks, (model.width,)):
        size = f"{blocks} blocks of width {shape[1] if len(shape) == 2 else 'unknown'}"
        raise BadInput(
            f"{path}: holds a network of {size}, by {source.name} it has {model.blocks} of width "
            f"{model.width}; save the model again"
        )
    sizes = {"length": config.network.length, "patch": config.preparation.patch, "model": model.model_dump()}
    for where, value in _whole_numbers(sizes):
        most = MOST_SIZE
        if where.startswith("model.mixer"):
            most = MOST_STATE if where.endswith(".state") else MOST_OTHER
        if not where.endswith("seed") and value > most:
            raise BadInput(f"{source}: network.{where}: {value:,} is more than is read, at most {most:,}; lower it")


def _whole_numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """(dotted name, value) of each whole number in tables and lists."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _whole_numbers(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _whole_numbers(item, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


def _text(entry: tuple[str, tuple[int, ...]]) -> str:
    return f"{entry[0]} {list(entry[1])}"


def tensors_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    """Arrays as tensors under `prefix.name`."""
    return {f"{prefix}.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def arrays_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, np.ndarray]:
    """The arrays among tensors that stand under `prefix.`."""
    start = f"{prefix}."
    return {name.removeprefix(start): x.numpy() for name, x in tensors.items() if name.startswith(start)}
