"""A model as a folder: `config.json`, `model.safetensors` and whatever a person reads beside them.

Nothing in it can name code: weights are numbers in a known layout; mixers come with headstart, or from a plugin that a
person has loaded and that the folder knows by its digest. The copy of its source in `source/` is never run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.baselines import from_arrays, shapes
from headstart.data.archives import reading
from headstart.errors import BadInput, nearest
from headstart.models.checkpoints.folder import Header, read_header
from headstart.models.kind import DEFAULT
from headstart.models.mixers import MIXERS
from headstart.models.model import ModelSpec, Network
from headstart.models.outline import without_numbers
from headstart.plugins import own_kinds, plugins_of, require_plugins
from headstart.serve.config import NETWORK, ModelConfig
from headstart.serve.model import TYPES, Served
from headstart.spec import read
from headstart.store import Damaged, publish, seal, unseal
from headstart.store.files import canonical, writing

CONFIG, WEIGHTS, SOURCE = "config.json", "model.safetensors", "source"
NEWEST = 1
"""Format of a config."""
PICKLED = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack")
"""Endings of weights that are never read: opening most of them can run code that they hold."""
FOREIGN = ("model_type", "architectures", "transformers_version", "auto_map", "library_name")
"""Keys of configs that other libraries write."""
MOST_CONFIG = 2**24
"""Bytes of a config; 65,536 symbols take a tenth of it."""
SAVED = "the folder that `headstart fit` or save_pretrained wrote"


def save_model(served: Served, folder: str | os.PathLike[str], more: Mapping[str, bytes] | None = None) -> None:
    """Write the folder, making it where it is not there: weights, then `more` files by name, the config last.

    Each file is whole or absent, and a config does not go with other weights than those it was saved with. The source
    of plugins goes into `source/`, to be looked at.
    Raises: BadInput where there is no room or no right to write, or where a model or a mixer is neither headstart's own
    nor from a plugin that the config names.
    """
    path = Path(folder)
    document = served.config.model_dump(mode="json")
    _check_kinds(document, path / CONFIG)
    for name in more or {}:
        if name in ("", ".", "..", CONFIG, WEIGHTS) or Path(name).name != name:
            raise BadInput(f"{name!r}: is not a name for a file beside {CONFIG} and {WEIGHTS}; give another")
    with_config = {"config": _digest(document)}
    with writing(path, "the model ", "folder"):
        path.mkdir(parents=True, exist_ok=True)
        publish(path / WEIGHTS, seal(_tensors(served), with_config))
        sources = [item for plugin in plugins_of(served.config) for item in plugin.sources.items()]
        for name, content in [*((f"{SOURCE}/{name}", content) for name, content in sources), *(more or {}).items()]:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            publish(path / name, content)
        publish(path / CONFIG, _json(document))


def load_model(folder: str | os.PathLike[str]) -> Served:
    """The models of a folder.

    Raises: BadInput where the folder is none of `save_model`: each time with what is wrong and a way out. Names, types
    and shapes of the weights are compared with the config before anything of their size is allocated.
    """
    path = Path(folder)
    _check_folder(path)
    document = _document(_inside(path, CONFIG))
    config = _config(document, path / CONFIG)
    weights = _inside(path, WEIGHTS)
    try:
        check_header(read_header(weights), config, weights)
        with reading(weights):
            tensors, meta = unseal(weights)
    except Damaged as error:
        raise BadInput(f"{error}; save or download the model again") from None
    if meta.get("config") != _digest(document):
        raise BadInput(
            f"{path}: {CONFIG} was changed, or comes from another model than {WEIGHTS}; take both from one "
            "save (another model of the folder is chosen with --use, not in the file)"
        )
    _check_finite(tensors, weights)
    classics = {
        name: from_arrays(facts.model_dump(mode="json"), arrays_of(tensors, name))
        for name, facts in config.classics.items()
    }
    return Served(config, _network(config, tensors), classics)


def _tensors(served: Served) -> dict[str, torch.Tensor]:
    """All that is saved, by name. Raises: BadInput where config and models do not name the same."""
    there = (*((NETWORK,) if served.config.network is not None else ()), *served.config.classics)
    if set(there) != set(served.choices):
        raise BadInput(f"model: its config names {', '.join(there)}, there are {', '.join(served.choices)}")
    out: dict[str, torch.Tensor] = {}
    if served.network is not None:
        out |= {f"{NETWORK}.{name}": tensor for name, tensor in served.network.state_dict().items()}
    for name, fitted in served.classics.items():
        out |= tensors_of(fitted.arrays(), name)
    return out


def _network(config: ModelConfig, tensors: Mapping[str, torch.Tensor]) -> Network | None:
    if config.network is None:
        return None
    network = build(config)
    start = f"{NETWORK}."
    network.load_state_dict({name.removeprefix(start): x for name, x in tensors.items() if name.startswith(start)})
    return network.eval()


def _check_finite(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise BadInput(f"{path}: {name!r} holds a number that is not finite; fit the model again")


def _check_folder(path: Path) -> None:
    """Raises: BadInput where a look at the names shows that this is not a model folder."""
    with reading(path):
        if not path.exists():
            raise BadInput(f"{path}: is not there; give {SAVED}")
        if not path.is_dir():
            raise BadInput(f"{path}: is not a folder; give {SAVED}")
        names = sorted(os.listdir(path))
    pickled = [name for name in names if name.lower().endswith(PICKLED)]
    if pickled and WEIGHTS not in names:
        raise BadInput(
            f"{path}: holds its weights as {pickled[0]!r}, which is never opened, since such a file can run "
            f"code; give {SAVED}, with {WEIGHTS}"
        )
    for name in (CONFIG, WEIGHTS):
        if name not in names:
            raise BadInput(f"{path}: holds no {name}; give {SAVED}")


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder. Raises: BadInput for a link that leads out of it, or for no file."""
    path = folder / name
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise BadInput(f"{path}: is a link that leads out of the folder, which is not followed; copy the file there")
    if not real.is_file():
        raise BadInput(f"{path}: is not a file; give {SAVED}")
    return path


def _document(path: Path) -> dict[str, Any]:
    """The JSON of a config. Raises: BadInput where it is none, or of another library, or newer."""
    with reading(path):
        if path.stat().st_size > MOST_CONFIG:
            raise BadInput(f"{path}: has {path.stat().st_size:,} bytes, at most {MOST_CONFIG:,} are read; give {SAVED}")
        content = path.read_bytes()
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is not readable as JSON ({error}); save or download the model again") from None
    if not isinstance(document, dict) or document.get("kind") != "headstart model":
        foreign = [key for key in FOREIGN if isinstance(document, dict) and key in document]
        what = (
            f"the config of a model of another library ({foreign[0]} {document[foreign[0]]!r})"
            if foreign
            else ("not a config of a headstart model")
        )
        raise BadInput(f"{path}: is {what}; give {SAVED}")
    written = document.get("format")
    if isinstance(written, int) and written > NEWEST:
        raise BadInput(f"{path}: format {written} is newer than this headstart reads ({NEWEST}); install a newer one")
    return document


def _config(document: dict[str, Any], path: Path) -> ModelConfig:
    _check_kinds(document, path)
    try:
        config = read(ModelConfig, document)
    except BadInput as error:
        raise BadInput("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    for plugin in plugins_of(config):
        if plugin.digest not in config.plugins.values():
            raise BadInput(f"{path}: network.model: holds code of {plugin.file}, whose digest is not in `plugins`")
    return config


def _check_kinds(document: Mapping[str, Any], path: Path) -> None:
    """Raises: BadInput for a model or a mixer that comes neither with headstart nor from a plugin that the document
    names, and for such a plugin that is not loaded as it was."""
    needed = document.get("plugins")
    plugins = require_plugins(needed, str(path), document) if isinstance(needed, Mapping) else ()
    network = document.get("network")
    model = network.get("model") if isinstance(network, Mapping) else None
    if not isinstance(model, Mapping):
        return
    models = [DEFAULT, *own_kinds(plugins, "model")]
    mixers = [kind for kind, line in MIXERS.items() if line.path.startswith("headstart.")]
    mixers += own_kinds(plugins, "mixer")
    if model.get("kind", DEFAULT) not in models:
        raise _unknown_kind(f"{path}: network.model.kind", model["kind"], models)
    waiting = [model.get("mixer")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if "kind" in value and str(value["kind"]) not in mixers:
                raise _unknown_kind(f"{path}: network.model.mixer.kind", value["kind"], mixers)
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def _unknown_kind(where: str, kind: Any, known: Collection[str]) -> BadInput:
    return BadInput(
        f"{where}: {nearest(kind, known)}; a model folder names no code, and serves models and mixers that come with "
        "headstart, or from a plugin whose digest it holds"
    )


def _digest(document: Mapping[str, Any]) -> str:
    """Of a config as JSON means it: spaces, order and escapes do not count."""
    return hashlib.sha256(canonical(document)).hexdigest()


def _json(document: Mapping[str, Any]) -> bytes:
    """Readable, in the letters of the names."""
    try:
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # half a letter, out of a file's name: escaped it can be written
        return (json.dumps(document, indent=2) + "\n").encode()


MOST_BESIDE = 2**28
"""Bytes of constants that a network makes for itself, which no file of weights vouches for."""
MOST_SIZE = 2**28
"""Of every whole number of a network's config; those of its mixers are smaller."""
MOST_STATE = 4_096
"""States of a channel: some mixers solve for the eigenvectors of a matrix of this size."""
MOST_OTHER = 65_536
"""Of every other whole number of a mixer's spec."""


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


def build(config: ModelConfig) -> Network:
    """A fresh network in float32. Raises: BadInput where the parts of its spec do not fit."""
    assert config.network is not None
    signature = config.signature
    network: Network = config.network.model.network(signature, config.network.objective.output(signature), 0)
    return network.float()


def _of_network(config: ModelConfig, path: Path) -> Header:
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
    return {name: (TYPES[str(x.dtype).removeprefix("torch.")], tuple(x.shape)) for name, x in saved.items()}


def _check_small(header: Header, config: ModelConfig, path: Path) -> None:
    """Raises: BadInput where building the network could cost far more than its file is large."""
    assert config.network is not None
    model, source = config.network.model, path.with_name("config.json")
    if isinstance(model, ModelSpec):
        _check_blocks(header, model, path)
    sizes = {"length": config.network.length, "patch": config.preparation.patch, "model": model.model_dump()}
    for where, value in _whole_numbers(sizes):
        most = MOST_SIZE
        if where.startswith("model.mixer"):
            most = MOST_STATE if where.endswith(".state") else MOST_OTHER
        if not where.endswith("seed") and value > most:
            raise BadInput(f"{source}: network.{where}: {value:,} is more than is read, at most {most:,}; lower it")


def _check_blocks(header: Header, model: ModelSpec, path: Path) -> None:
    """Raises: BadInput where the file holds another number of blocks, or another width, than its config says."""
    blocks = len({name.split(".")[2] for name in header if name.startswith(f"{NETWORK}.blocks.")})
    _, shape = header.get(f"{NETWORK}.head.output.weight", ("", ()))
    if (blocks, shape[1:]) != (model.blocks, (model.width,)):
        size = f"{blocks} blocks of width {shape[1] if len(shape) == 2 else 'unknown'}"
        raise BadInput(
            f"{path}: holds a network of {size}, by {CONFIG} it has {model.blocks} of width {model.width}; save the "
            "model again"
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


def _text(entry: tuple[str, tuple[int, ...]]) -> str:
    return f"{entry[0]} {list(entry[1])}"


def tensors_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    """Arrays as tensors under `prefix.name`."""
    return {f"{prefix}.{name}": torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def arrays_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, np.ndarray]:
    """The arrays among tensors that stand under `prefix.`."""
    start = f"{prefix}."
    return {name.removeprefix(start): x.numpy() for name, x in tensors.items() if name.startswith(start)}
