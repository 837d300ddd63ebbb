"""A model as a folder: `config.json`, `model.safetensors` and whatever a person reads beside them.

Nothing in it can name code: weights are numbers in a known layout, mixers are those that come with headstart.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headstart.baselines import from_arrays
from headstart.data.text import reading
from headstart.errors import BadInput, nearest
from headstart.models.mixers import MIXERS
from headstart.models.model import SequenceModel
from headstart.serve.check_weights import arrays_of, build, check_header, read_header, tensors_of
from headstart.serve.config import NETWORK, ModelConfig
from headstart.serve.model import Served
from headstart.spec import read
from headstart.store import Damaged, disk_full, publish, seal, unseal
from headstart.store.files import canonical

CONFIG, WEIGHTS = "config.json", "model.safetensors"
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

    Each file is whole or absent, and a config does not go with other weights than those it was saved with.
    Raises: BadInput where there is no room or no right to write, or where a mixer is not headstart's own.
    """
    path = Path(folder)
    document = served.config.model_dump(mode="json")
    _check_mixers(document, path / CONFIG)
    for name in more or {}:
        if name in ("", ".", "..", CONFIG, WEIGHTS) or Path(name).name != name:
            raise BadInput(f"{name!r}: is no name for a file beside {CONFIG} and {WEIGHTS}; give another")
    with_config = {"config": _digest(document)}
    try:
        path.mkdir(parents=True, exist_ok=True)
        publish(path / WEIGHTS, seal(_tensors(served), with_config))
        for name, content in (more or {}).items():
            publish(path / name, content)
        publish(path / CONFIG, _json(document))
    except OSError as error:
        why = "there is no room" if disk_full(error) else error.strerror or str(error)
        raise BadInput(
            f"{path}: the model cannot be written ({why}); make room or give access there, or name another folder"
        ) from None


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


def _network(config: ModelConfig, tensors: Mapping[str, torch.Tensor]) -> SequenceModel | None:
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
    """Raises: BadInput where a look at the names shows that this is no model folder."""
    with reading(path):
        if not path.exists():
            raise BadInput(f"{path}: is not there; give {SAVED}")
        if not path.is_dir():
            raise BadInput(f"{path}: is no folder; give {SAVED}")
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
        raise BadInput(f"{path}: is no file; give {SAVED}")
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
            else ("no config of a headstart model")
        )
        raise BadInput(f"{path}: is {what}; give {SAVED}")
    written = document.get("format")
    if isinstance(written, int) and written > NEWEST:
        raise BadInput(f"{path}: format {written} is newer than this headstart reads ({NEWEST}); install a newer one")
    return document


def _config(document: dict[str, Any], path: Path) -> ModelConfig:
    _check_mixers(document, path)
    try:
        return read(ModelConfig, document)
    except BadInput as error:
        raise BadInput("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def _check_mixers(document: Mapping[str, Any], path: Path) -> None:
    """Raises: BadInput for a mixer that does not come with headstart, even where this process has adopted it."""
    own = {kind for kind, line in MIXERS.items() if line.path.startswith("headstart.")}

    network = document.get("network")
    model = network.get("model") if isinstance(network, Mapping) else None
    waiting = [model.get("mixer") if isinstance(model, Mapping) else None]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if "kind" in value and str(value["kind"]) not in own:
                raise BadInput(
                    f"{path}: network.model.mixer.kind: {nearest(value['kind'], own)}; a model folder names "
                    "no code, and serves mixers that come with headstart alone"
                )
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def _digest(document: Mapping[str, Any]) -> str:
    """Of a config as JSON means it: spaces, order and escapes do not count."""
    return hashlib.sha256(canonical(document)).hexdigest()


def _json(document: Mapping[str, Any]) -> bytes:
    """Readable, in the letters of the names."""
    try:
        return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # half a letter, out of a file's name: escaped it can be written
        return (json.dumps(document, indent=2) + "\n").encode()
