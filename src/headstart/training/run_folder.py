"""A training of `headstart.train` in a folder: told apart by all that can change it, gone on with, kept at its end."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headstart import disk
from headstart.errors import BadInput
from headstart.models.norms import Tensors
from headstart.normal import normal_form
from headstart.plugins.cells import PLAIN_TYPES, cell_identity
from headstart.sequence import Examples
from headstart.spec import digest
from headstart.store import ClaimedStage, Store
from headstart.training.batches import Batches

ANSWERS = 64
"""Numbers of a network's first outputs that a folder keeps."""

DEEPEST_VALUE = 10
"""Values within one another that are looked into."""


@dataclass(frozen=True)
class RunContent:
    """What a folder holds of a training: where it may be written, the state to go on from, or the result."""

    stage: ClaimedStage | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    state: tuple[Tensors, dict[str, Any]] | None = None
    result: Mapping[str, Any] | None = None
    weights: Tensors = field(default_factory=dict)


@contextlib.contextmanager
def claimed_folder(
    folder: str | os.PathLike[str] | None,
    network: nn.Module,
    settings: Mapping[str, Any],
    sets: Mapping[str, Examples],
    val: Batches,
) -> Iterator[RunContent]:
    """The folder of this training, for one process alone; nothing is kept without a folder.

    val: what the network gives for its first batch at its starting weights shows whether the folder's run was of this
    network.
    Raises: BadInput where the folder cannot be used, holds the same run from other starting weights or of a module that
    computes something else, or another process has it.
    """
    if folder is None:
        yield RunContent()
        return
    try:
        disk.make_folder(Path(folder))
    except OSError as error:
        raise BadInput(f"folder: {os.fspath(folder)!r} cannot be used: {error.strerror}; name another one") from None
    store = Store(folder)
    shapes = {name: [str(value.dtype), *value.shape] for name, value in network.state_dict().items()}
    classes = {type(module) for module in network.modules() if not type(module).__module__.startswith("torch.")}
    data = {name: _content(examples) for name, examples in sets.items()}
    learn = [name for name, weight in network.named_parameters() if weight.requires_grad]
    module = [repr(network), shapes, learn, sorted(map(_source, classes)), attributes_of(network, "folder")]
    constant = {name: x for name, x in network.named_buffers() if name not in shapes}
    if constant:  # Buffers that no state holds, such as a table or a scale.
        contents = {name: _digest([f"{x.dtype}{tuple(x.shape)}".encode(), _bytes(x)]) for name, x in constant.items()}
        module.append(contents)
    identity = digest({**settings, "module": module, "data": data})
    start = _digest(map(_bytes, network.state_dict().values()))
    before = store.stage(identity)
    if before is not None and before["start"] != start:
        raise BadInput(
            f"folder: {os.fspath(folder)!r} holds this training from other starting weights; seed torch before the "
            "module is built (torch.manual_seed), so that it can be gone on with, or name another folder"
        )
    with torch.no_grad():
        answer = network(next(val.in_order())).detach().double().cpu().numpy().reshape(-1)[:ANSWERS]
    if before is not None and not np.allclose(
        answer, before.get("answer", answer), rtol=1e-3, atol=1e-4, equal_nan=True
    ):
        raise BadInput(
            f"folder: {os.fspath(folder)!r} holds this training of a module that gave other outputs from the same "
            "weights: a function, global, hook or class that it uses has changed; name another folder"
        )
    document = {"name": "train", "spec": settings, "parent": None, "start": start, "answer": answer.tolist()}
    with store.claim(identity, document) as claimed:
        if claimed is None:
            raise BadInput(f"folder: {os.fspath(folder)!r}: another process is training there; wait for it")
        result = claimed.finished()
        state = claimed.begin() if result is None else None
        weights = {} if result is None else store.weights(identity, "best")
        yield RunContent(claimed, store.records(identity), state, result, weights)


_OF_TORCH = frozenset(vars(nn.Module()))


def attributes_of(network: nn.Module, option: str = "") -> dict[str, str]:
    """What its modules hold beside weights, buffers and modules (sizes, functions, switches), by name, as digests.

    option: names the caller in a refusal of what cannot be read; without it, such a value counts as the object it is.
    """
    out = {}
    for path, module in network.named_modules():
        for name, value in vars(module).items():
            if name in _OF_TORCH or (
                type(module).__module__.startswith("torch.") and not isinstance(value, PLAIN_TYPES)
            ):
                continue
            label = f"{path}.{name}".removeprefix("net.").strip(".")
            parts = list(_parts_of(value))
            if None in parts and option:
                raise BadInput(
                    f"{option}: {label!r} of the module is a {type(value).__name__}, which cannot be read, so that "
                    "this training could not be told from another; make it in forward, or train without a folder"
                )
            out[label] = f"object {id(value)}" if None in parts else digest(parts)
    return out


def _parts_of(value: Any, depth: int = 0) -> Iterator[str | None]:
    """What a value is, as texts: data by content, objects by their class and attributes, functions by their source;
    None where something in it cannot be read.
    """
    cls = type(value)
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        yield f"{value.dtype} {tuple(value.shape)} {_digest([_bytes(value)])}"
    elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape} {_digest([value.tobytes()])}"
    elif isinstance(value, (*PLAIN_TYPES, range, slice, Path, torch.dtype, torch.device, np.dtype)):
        yield f"{cls.__name__} {value!r}"
    elif isinstance(value, (type, types.FunctionType)):
        closure = () if isinstance(value, type) else value.__closure__ or ()
        yield f"{_source(value)} {value.__module__}.{value.__qualname__}"
        for cell in closure:
            yield from _parts_of(cell.cell_contents, depth + 1)
    elif isinstance(value, types.ModuleType) or (
        isinstance(value, types.BuiltinFunctionType)
        and isinstance(value.__self__, (types.ModuleType, type, type(None)))
    ):
        yield f"{getattr(value, '__module__', '')} {value.__name__}"
    elif depth > DEEPEST_VALUE:
        yield None
    elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
        items = value.items() if isinstance(value, Mapping) else value
        yield f"{cls.__name__} {len(value)}"
        for item in sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items:
            yield from _parts_of(item, depth + 1)
    elif cls is types.SimpleNamespace or (
        hasattr(value, "__dict__") and vars(object)["__new__"] is getattr(cls, "__new__", None)
    ):
        yield from _parts_of(cls, depth + 1)
        yield from _parts_of(vars(value), depth + 1)
    else:
        yield None


def _bytes(x: torch.Tensor) -> bytes:
    return bytes(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())


def _content(examples: Examples) -> str:
    arrays = (examples.values, examples.offsets, examples.target, examples.observed, examples.index)
    more = (examples.scale, examples.shift, examples.paired, examples.per_position)
    return _digest(
        [repr(more).encode(), *(b"" if x is None else f"{x.dtype}{x.shape}".encode() + x.tobytes() for x in arrays)]
    )


def _source(item: type | types.FunctionType) -> str:
    """The text of a function, or of a class and its bases, as its identity takes it; of those without source, the name.

    Raises: BadInput for one of a notebook or script that uses what cannot be hashed.
    """
    if item.__module__ == "__main__":
        return cell_identity(item, "folder", "import it from there").digest
    texts = []
    for base in item.__mro__ if isinstance(item, type) else (item,):
        if not base.__module__.startswith(("torch.", "builtins")):
            try:
                texts.append(normal_form(textwrap.dedent(inspect.getsource(base))))
            except (OSError, TypeError, SyntaxError):
                texts.append(base.__qualname__)
    return "\n".join(texts)


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
