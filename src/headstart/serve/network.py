"""The network of a model folder: built from its config, its header told before that, and what it answers.

What serves a model without a network does not import this module, and so not torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.checkpoints.folder import CONFIG_FILE, Header
from headstart.errors import BadInput
from headstart.models.encoders import there
from headstart.models.heads import SequenceHead, pooled
from headstart.models.model import ModelSpec, Network
from headstart.models.outline import without_numbers
from headstart.models.own import OwnModel, OwnModelSpec
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Batch, Examples
from headstart.serve.config import NETWORK, TYPES, ModelConfig
from headstart.tasks.task import Task
from headstart.training.batches import Batches

MOST_BESIDE = 2**28
"""Bytes of constants that a network makes for itself, which no file of weights vouches for."""
MOST_SIZE = 2**28
"""Of every whole number of a network's config; those of its mixers are smaller."""
MOST_STATE = 4_096
"""States of a channel."""
MOST_SOLVED, SOLVED = 1_024, ("s4", "s4d")
"""The same of mixers that solve for the eigenvectors of a matrix of this size."""
LEAST_WORK, MOST_WORK, MOST_TIMES = 1e7, 100, 8
"""FLOPs that every mixer may take of a sequence, and how often those of full attention, or of a mixer of its kind with
its defaults, where that is more."""
MOST_OTHER = 65_536
"""Of every other whole number of a mixer's spec."""


def build(config: ModelConfig) -> Network:
    """A fresh network in float32. Raises: BadInput where the parts of its spec do not fit."""
    assert config.network is not None
    signature = config.signature
    network: Network = config.network.model.network(signature, config.network.objective.output(signature), 0)
    return network.float()


def restored(config: ModelConfig, arrays: Mapping[str, np.ndarray]) -> Network:
    """The network with these weights, by its own names."""
    network = build(config)
    network.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
    return network.eval()


def header_of(config: ModelConfig, header: Header, path: Path) -> Header:
    """Types and shapes of the network's tensors as its config implies them, by their names in the folder.

    Nothing of their size is allocated: it is built without memory, after what the file's own header does not vouch for
    is known to be small. Raises: BadInput where that is large, or the config contradicts itself.
    """
    _check_small(header, config, path)
    assert config.network is not None
    try:
        with without_numbers():
            model = build(config)
    except BadInput as error:
        raise BadInput(f"{path.with_name('config.json')}: network.{error}") from None
    except (NotImplementedError, RuntimeError):
        if isinstance(config.network.model, ModelSpec):
            raise
        model = build(config)  # a module of a person's own that looks at its numbers
    saved = model.state_dict()
    beside = sum(x.numel() * x.element_size() for name, x in model.named_buffers() if name not in saved)
    if beside > MOST_BESIDE:
        raise BadInput(
            f"{path.with_name('config.json')}: the network asks for {beside:,} bytes of constants, at most "
            f"{MOST_BESIDE:,} are made; lower its length"
        )
    types = {name: TYPES[str(x.dtype).removeprefix("torch.")] for name, x in saved.items()}
    return {f"{NETWORK}.{name}": (types[name], tuple(x.shape)) for name, x in saved.items()}


def _check_small(header: Header, config: ModelConfig, path: Path) -> None:
    """Raises: BadInput where building the network could cost far more than its file is large."""
    assert config.network is not None
    model, source = config.network.model, path.with_name("config.json")
    if isinstance(model, ModelSpec):
        _check_blocks(header, model, path)
        _check_states(model, source)
    sizes = {"length": config.network.length, "patch": config.preparation.patch, "model": model.model_dump()}
    for where, value in _whole_numbers(sizes):
        most = MOST_SIZE
        if where.startswith("model.mixer"):
            most = MOST_STATE if where.endswith(".state") else MOST_OTHER
        if not where.endswith("seed") and value > most:
            raise BadInput(f"{source}: network.{where}: {value:,} is more than is read, at most {most:,}; lower it")
    if isinstance(model, ModelSpec):
        for mixer in model.mixers:
            if not type(mixer).__module__.startswith("headstart."):
                continue  # of a person's own
            work, usual = (
                each.flops(model.width, config.network.length, model.causal)
                for each in (mixer, type(mixer)(kind=mixer.kind))
            )
            if work > max(LEAST_WORK, MOST_TIMES * usual, _much(model.width, config.network.length)):
                raise BadInput(
                    f"{source}: network.model.mixer: {mixer.describe()} takes {work:.1e} FLOPs of a sequence of "
                    f"{config.network.length:,} positions, which is more than is read of a model of this size; lower "
                    "its numbers"
                )


def _much(width: int, length: int) -> float:
    """FLOPs that are many for a mixer: of what it makes on the way no weight says how large it is."""
    return MOST_WORK * (8.0 * length * width**2 + 4.0 * length**2 * width)


def _check_states(model: ModelSpec, source: Path) -> None:
    for mixer in model.mixers:
        for part in (mixer, *getattr(mixer, "mixers", ())):
            if part.kind in SOLVED and part.state > MOST_SOLVED:
                raise BadInput(
                    f"{source}: network.model.mixer.state: {part.state:,} is more than is read, at most "
                    f"{MOST_SOLVED:,}; lower it"
                )


def _check_blocks(header: Header, model: ModelSpec, path: Path) -> None:
    """Raises: BadInput where the file holds another number of blocks, or another width, than its config says."""
    blocks = len({name.split(".")[2] for name in header if name.startswith(f"{NETWORK}.blocks.")})
    output = f"{NETWORK}.head.output.weight"
    if output not in header:
        raise BadInput(f"{path}: lacks {output!r}, the model of {CONFIG_FILE} has it; save the model again")
    _, shape = header[output]
    if (blocks, shape[1:]) != (model.blocks, (model.width,)):
        size = f"{blocks} blocks of width {shape[1] if len(shape) == 2 else 'unknown'}"
        raise BadInput(
            f"{path}: holds a network of {size}, by {CONFIG_FILE} it has {model.blocks} of width {model.width}; save "
            "the model again"
        )


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


def check_servable(model: OwnModelSpec, objective: ObjectiveSpec, task: Task) -> None:
    """Raises: BadInput where a whole model of a person's own does not answer this task, or could not be saved."""
    network = model.network(task.signature, objective.output(task.signature), 0).float().eval()
    few = Batches(task.train, np.arange(min(2, task.train.units)), torch.device("cpu"), torch.float32)
    with torch.no_grad():
        network(next(few.in_order()))
    for name, value in network.state_dict().items():
        if str(value.dtype).removeprefix("torch.") not in TYPES:
            raise BadInput(
                f"model.kind: {model.kind!r}: {name.removeprefix('net.')!r} is of type {value.dtype}, which a model "
                "folder does not hold; keep it in float32 or int64"
            )


def head_of(network: Network) -> SequenceHead | None:
    """The head of a network that answers once per sequence; None where a model of one's own gives outputs itself."""
    head = network.head
    assert head is None or isinstance(head, SequenceHead)
    return head


def scores_of(network: Network, x: Examples) -> np.ndarray:
    """(n, K), or (n,) of one output, float64 scores of prepared and patched examples."""
    head = head_of(network)
    size = network.size if isinstance(network, OwnModel) and head is None else head and head.output.out_features
    assert isinstance(size, int)
    scores = _each(network, x, size).astype(np.float64)
    return scores[:, 0] if scores.shape[1] == 1 else scores


def vectors_of(network: Network, x: Examples, size: int) -> np.ndarray:
    """(n, size) float32: what the head looks at, of prepared and patched examples."""
    head = head_of(network)
    assert head is not None

    def vector(batch: Batch) -> torch.Tensor:
        return pooled(network.embed(batch), there(batch, network.patch), head.pool)

    return _each(vector, x, size)


def _each(answer: Callable[[Batch], torch.Tensor], x: Examples, size: int) -> np.ndarray:
    """(n, size) float32 answers in the order of the examples, made in batches of like length."""
    order = np.argsort(x.lengths, kind="stable")
    out = np.empty((len(x), size), dtype=np.float32)
    first = 0
    with torch.no_grad():
        for batch in Batches(x, order, torch.device("cpu"), torch.float32).in_order():
            out[order[first : first + len(batch)]] = answer(batch).numpy()
            first += len(batch)
    return out
