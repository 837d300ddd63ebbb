"""A network by itself: built from its spec, compared before that with what a file says of it, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from headstart.checkpoints.folder import CONFIG_FILE, TENSOR_TYPES, Header
from headstart.checkpoints.model_folder import NETWORK_PREFIX
from headstart.errors import BadInput
from headstart.models.encoders import there
from headstart.models.exporting import exportable_network
from headstart.models.heads import SequenceHead, pooled
from headstart.models.model import ModelSpec, Network
from headstart.models.outline import without_numbers
from headstart.models.own import OwnModel, OwnModelSpec
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Batch, Examples, Signature
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


class NetworkParts(Protocol):
    """What a network is built from, as `saved.NetworkSpec` has it: a model, an objective, and its longest sequence."""

    @property
    def model(self) -> Any:
        """Its `ModelKind`."""

    @property
    def objective(self) -> Any:
        """Its `ObjectiveSpec`."""

    @property
    def length(self) -> int:
        """Positions."""


def build(spec: NetworkParts, signature: Signature) -> Network:
    """A fresh network in float32. Raises: BadInput where the parts of its spec do not fit."""
    network: Network = spec.model.network(signature, spec.objective.output(signature), 0)
    return network.float()


def restored(spec: NetworkParts, signature: Signature, arrays: Mapping[str, np.ndarray]) -> Network:
    """The network with these weights, by its own names, in evaluation."""
    network = build(spec, signature)
    network.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
    return network.eval()


def header_of(spec: NetworkParts, signature: Signature, patch: int, header: Header, path: Path) -> Header:
    """Types and shapes of the network's tensors as its spec implies them, by their names in a model folder.

    header: what the file at `path` says that it holds. patch: positions that stand as one in `signature`.

    Nothing of their size is allocated: it is built without memory, after what the file's own header does not vouch for
    is known to be small. Raises: BadInput where that is large, or the config contradicts itself.
    """
    _check_small(header, spec, patch, path)
    try:
        with without_numbers():
            model = build(spec, signature)
    except BadInput as error:
        raise BadInput(f"{path.with_name('config.json')}: network.{error}") from None
    except (NotImplementedError, RuntimeError):
        if isinstance(spec.model, ModelSpec):
            raise
        model = build(spec, signature)  # a module of a person's own that looks at its numbers
    saved = model.state_dict()
    beside = sum(x.numel() * x.element_size() for name, x in model.named_buffers() if name not in saved)
    if beside > MOST_BESIDE:
        raise BadInput(
            f"{path.with_name('config.json')}: the network asks for {beside:,} bytes of constants, at most "
            f"{MOST_BESIDE:,} are made; lower its length"
        )
    types = {name: TENSOR_TYPES[str(x.dtype).removeprefix("torch.")] for name, x in saved.items()}
    return {f"{NETWORK_PREFIX}{name}": (types[name], tuple(x.shape)) for name, x in saved.items()}


def _check_small(header: Header, spec: NetworkParts, patch: int, path: Path) -> None:
    """Raises: BadInput where building the network could cost far more than its file is large."""
    model, source = spec.model, path.with_name(CONFIG_FILE)
    if isinstance(model, ModelSpec):
        _check_blocks(header, model, path)
        _check_states(model, source)
    sizes = {"length": spec.length, "patch": patch, "model": model.model_dump()}
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
                each.flops(model.width, spec.length, model.causal) for each in (mixer, type(mixer)(kind=mixer.kind))
            )
            if work > max(LEAST_WORK, MOST_TIMES * usual, _much(model.width, spec.length)):
                raise BadInput(
                    f"{source}: network.model.mixer: {mixer.describe()} takes {work:.1e} FLOPs of a sequence of "
                    f"{spec.length:,} positions, which is more than is read of a model of this size; lower "
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
    blocks = len({name.split(".")[2] for name in header if name.startswith(f"{NETWORK_PREFIX}blocks.")})
    output = f"{NETWORK_PREFIX}head.output.weight"
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
        if str(value.dtype).removeprefix("torch.") not in TENSOR_TYPES:
            raise BadInput(
                f"model.kind: {model.kind!r}: {name.removeprefix('net.')!r} is of type {value.dtype}, which a model "
                "folder does not hold; keep it in float32 or int64"
            )


class Predictor:
    """A network that answers examples, which are prepared and patched, on the CPU. Letters: n examples, K classes, D
    the width of what its head looks at."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @property
    def vector_size(self) -> int:
        """D. Raises: BadInput for a model of one's own that gives its outputs itself."""
        return self._looking.output.in_features

    @property
    def _looking(self) -> SequenceHead:
        if self._head is None:
            raise BadInput(
                "model: it gives its outputs itself (head = False) and has no vector; use a model with a head"
            )
        return self._head

    @property
    def _head(self) -> SequenceHead | None:
        head = self.network.head
        assert head is None or isinstance(head, SequenceHead)
        return head

    def scores(self, x: Examples) -> np.ndarray:
        """(n, K), or (n,) of one output, float64: what the network itself says, before softmax."""
        network, head = self.network, self._head
        size = network.size if isinstance(network, OwnModel) and head is None else head and head.output.out_features
        assert isinstance(size, int)
        scores = _each(network, x, size).astype(np.float64)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def vectors(self, x: Examples) -> np.ndarray:
        """(n, D) float32: what the head looks at. Raises: BadInput as `vector_size`."""
        network, head = self.network, self._looking

        def vector(batch: Batch) -> torch.Tensor:
            return pooled(network.embed(batch), there(batch, network.patch), head.pool)

        return _each(vector, x, self.vector_size)

    def exportable(self, length: int) -> torch.nn.Module:
        """A copy that a graph of ONNX can state, for at most `length` positions of a `valid` that is given.

        Raises: BadInput where one of its mixers refuses.
        """
        return exportable_network(self.network, length)


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
