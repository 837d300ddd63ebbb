"""A model as a folder: `config.json`, `model.safetensors` and whatever a person reads beside them.

Nothing in it can name code: weights are numbers in a known layout; mixers come with headstart, or from a plugin that a
person has loaded and that the folder knows by its digest. The copy of its source in `source/` is never run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart import disk
from headstart.atomic import publish, writing
from headstart.baselines import from_arrays, shapes
from headstart.core import Folder, kinds_allowed, plugins_of
from headstart.documents import canonical
from headstart.errors import BadInput, Damaged, nearest
from headstart.limits import check_memory
from headstart.serve.config import ENSEMBLE, NETWORK, ModelConfig
from headstart.serve.model import Served
from headstart.spec import read

if TYPE_CHECKING:
    from headstart.core import Network

CONFIG_FILE, WEIGHTS_FILE = Folder.FILES
ModelTensors = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a tensor -> its type, in the words of safetensors, and its shape."""
SOURCE_FOLDER = "source"
NEWEST = 1
"""Format of a config."""
FOREIGN = ("model_type", "architectures", "transformers_version", "auto_map", "library_name")
"""Keys of configs that other libraries write."""
LOADED_BYTES = 8.0
"""Of memory for each number of a model, at the peak: as it is read, and in the model, float32."""
LESS = "allow it more, or fit a model that takes less (without a backbone)"
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
    _check_kinds(document, path / CONFIG_FILE)
    for name in more or {}:
        if name in ("", ".", "..", CONFIG_FILE, WEIGHTS_FILE) or Path(name).name != name:
            raise BadInput(f"{name!r}: is not a name for a file beside {CONFIG_FILE} and {WEIGHTS_FILE}; give another")
    with_config = {"config": _digest(document)}
    with writing(path, "the model ", "folder"):
        disk.make_folder(path)
        Folder(path).save_weights(_tensors(served), with_config)
        sources = [item for plugin in plugins_of(served.config) for item in plugin.sources.items()]
        for name, content in [
            *((f"{SOURCE_FOLDER}/{name}", content) for name, content in sources),
            *(more or {}).items(),
        ]:
            disk.make_folder((path / name).parent)
            publish(path / name, content)
        publish(path / CONFIG_FILE, _json(document))


def load_model(folder: str | os.PathLike[str], use: str | None = None, *, others: bool = True) -> Served:
    """The models of a folder.

    others=False: a network or an encoder of series that does not answer, since `use` (default: what serves) is another
    model, is left out, and torch is not imported.
    Raises: BadInput where the folder is none of `save_model`: each time with what is wrong and a way out. Names, types
    and shapes of the weights are compared with the config before anything of their size is allocated.
    """
    path = Path(folder)
    files = Folder(path)
    document = _document(files)
    served = document if others else _without_idle(document, use)
    config = _config(served, path / CONFIG_FILE)
    weights = files.weights()
    try:
        header = files.header()
        idle = {NETWORK, *document.get("classics", ())} - {*config.classics, NETWORK if config.network else ""}
        if served is not document:
            header = {name: tensor for name, tensor in header.items() if name.partition(".")[0] not in idle}
        check_header(header, config, weights)
        size = sum(math.prod(shape) for _, shape in header.values())
        check_memory(f"{path}: loading its model", LOADED_BYTES * size, LESS)
        arrays, meta = files.arrays()
    except Damaged as error:
        raise BadInput(f"{error}; save or download the model again") from None
    if meta.get("config") != _digest(document):
        raise BadInput(
            f"{path}: {CONFIG_FILE} was changed, or comes from another model than {WEIGHTS_FILE}; take both from one "
            "save (another model of the folder is chosen with --use, not in the file)"
        )
    _check_finite(arrays, weights)
    classics = {
        name: from_arrays(facts.model_dump(mode="json"), _arrays_of(arrays, name))
        for name, facts in config.classics.items()
    }
    return Served(config, _network(config, arrays), classics)


def _without_idle(document: dict[str, Any], use: str | None) -> dict[str, Any]:
    """A config without network, ensemble and the models with an encoder, where others of it answer."""
    name, classics, averaged = use or document.get("serve"), document.get("classics"), document.get("ensemble")
    members = averaged if name == ENSEMBLE and isinstance(averaged, list) else [name]
    if not (isinstance(classics, Mapping) and all(isinstance(each, str) and each in classics for each in members)):
        return document
    few = {k: x for k, x in classics.items() if k in members or not (isinstance(x, Mapping) and x.get("encoder"))}
    rest = document if name == ENSEMBLE else {**document, "ensemble": [], "shares": []}
    return {**rest, "network": None, "serve": name, "classics": few}


def _tensors(served: Served) -> dict[str, Any]:
    """All that is saved, by name. Raises: BadInput where config and models do not name the same."""
    there = (*((NETWORK,) if served.config.network is not None else ()), *served.config.classics)
    if set(there) != {*served.choices} - {ENSEMBLE}:
        raise BadInput(f"model: its config names {', '.join(there)}, there are {', '.join(served.choices)}")
    import torch

    out: dict[str, Any] = {}
    if served.network is not None:
        out |= {f"{NETWORK}.{name}": tensor for name, tensor in served.network.state_dict().items()}
    for name, fitted in served.classics.items():
        arrays = {key: torch.from_numpy(np.ascontiguousarray(x)) for key, x in fitted.arrays().items()}
        out |= {f"{name}.{key}": tensor for key, tensor in arrays.items()}
    return out


def _arrays_of(arrays: Mapping[str, np.ndarray], model: str) -> dict[str, np.ndarray]:
    """Those of one model, under their own names."""
    return {name.removeprefix(f"{model}."): x for name, x in arrays.items() if name.startswith(f"{model}.")}


def _network(config: ModelConfig, arrays: Mapping[str, np.ndarray]) -> Network | None:
    if config.network is None:
        return None
    return config.network.restored(config.signature, _arrays_of(arrays, NETWORK))


def _check_finite(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    for name, x in arrays.items():
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise BadInput(f"{path}: {name!r} holds a number that is not finite; fit the model again")


def _document(files: Folder) -> dict[str, Any]:
    """The config. Raises: BadInput where it is of another library, or newer."""
    document, path = files.config(), files.path / CONFIG_FILE
    if document.get("kind") != Folder.OWN:
        foreign = [key for key in FOREIGN if key in document]
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
    kinds = kinds_allowed(needed if isinstance(needed, Mapping) else {}, str(path), document)
    network = document.get("network")
    model = network.get("model") if isinstance(network, Mapping) else None
    if not isinstance(model, Mapping):
        return
    if model.get("kind", kinds["model"][0]) not in kinds["model"]:
        raise _unknown_kind(f"{path}: network.model.kind", model["kind"], kinds["model"])
    waiting = [model.get("mixer")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if "kind" in value and str(value["kind"]) not in kinds["mixer"]:
                raise _unknown_kind(f"{path}: network.model.mixer.kind", value["kind"], kinds["mixer"])
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def _unknown_kind(where: str, kind: Any, kinds: Collection[str]) -> BadInput:
    return BadInput(
        f"{where}: {nearest(kind, kinds)}; a model folder names no code, and serves models and mixers that come with "
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


def check_header(header: ModelTensors, config: ModelConfig, path: Path) -> None:
    """Raises: BadInput unless names, types and shapes are those that the config implies.

    Nothing of their size is allocated: a network is built without memory, after what the header does not vouch for
    is known to be small.
    """
    wanted: ModelTensors = {}
    if config.network is not None:
        wanted |= config.network.header(config.signature, config.preparation.patch, header, path)
    for name, facts in config.classics.items():
        try:
            arrays = shapes(facts.model_dump(mode="json"))
        except BadInput as error:
            raise BadInput(f"{path.with_name('config.json')}: classics.{name}: {error}") from None
        wanted |= {f"{name}.{array}": (Folder.TYPES[dtype], shape) for array, (dtype, shape) in arrays.items()}
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


def _text(tensor: tuple[str, tuple[int, ...]]) -> str:
    return f"{tensor[0]} {list(tensor[1])}"
