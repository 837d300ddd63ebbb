"""The files of a checkpoint's folder: config.json and safetensors, whole or in shards; nothing in them is run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from safetensors import SafetensorError, safe_open

from headstart.atomic import publish
from headstart.data.archives import reading
from headstart.documents import from_json
from headstart.errors import BadInput
from headstart.store.files import seal, unseal_arrays
from headstart.store.plain import leads_out

if TYPE_CHECKING:
    import numpy as np
    import torch

TENSOR_TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
"""Types of numpy and torch that a model folder holds, in the words of safetensors."""
Header = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a tensor -> its type, in the words of the format, and its shape."""
CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, VOCABULARY_FILE, CARD_FILE = (
    *("config.json", "model.safetensors", "model.safetensors.index.json", "vocab.txt", "README.md"),
)
PICKLED_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".h5", ".msgpack")
"""Endings of weights that are never read: opening most of them can run code that they hold."""
SMALLER = "take a smaller model"
"""How weights take less memory."""
MODEL_FOLDER = "headstart model"
"""What a config says of itself that `headstart fit` and `save_pretrained` wrote."""
TEXT_BYTES = 2**24
"""Bytes of a text file that are read; the index of a model of 100 shards, or 65,536 symbols, take a tenth of it."""


def read_header(path: Path) -> Header:
    """Types and shapes of the tensors in a safetensors file; no number of them is read.

    Raises: BadInput where the file is cut short, or is not a safetensors file.
    """
    with reading(path, SMALLER):
        try:
            with safe_open(path, framework="numpy") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
        except SafetensorError as error:
            raise BadInput(
                f"{path}: is cut short, damaged or not a safetensors file ({error}); save or download the model again"
            ) from None


@dataclass(frozen=True)
class Stored:
    """Where a tensor is stored: its name there, the file, its type in the words of the format and its shape."""

    name: str
    path: Path
    dtype: str
    shape: tuple[int, ...]


class Folder:
    """A folder with a checkpoint: `FILES`, its config and weights, and texts beside them. OWN: what a config says of
    itself that is headstart's. Links lead to files within it, or to the blobs beside a snapshot in the hub's cache.

    Raises: BadInput, naming the file and the way out, where a file is absent, cannot be read or is elsewhere.
    """

    FILES: ClassVar[tuple[str, str]] = (CONFIG_FILE, WEIGHTS_FILE)
    OWN: ClassVar = MODEL_FOLDER
    TYPES: ClassVar = TENSOR_TYPES

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path):
            if not path.is_dir():
                raise BadInput(f"{path}: there is no such folder; name one that holds {CONFIG_FILE} and {WEIGHTS_FILE}")
            self._names = sorted(os.listdir(path))
        self._roots = [path.resolve()]
        if path.resolve().parent.name == "snapshots":
            self._roots.append(path.resolve().parents[1] / "blobs")

    def file(self, name: str) -> Path | None:
        """The path of a file of the folder, or None where it is absent."""
        path = self.path / name
        try:
            target, there = leads_out(path, self._roots), path.is_file()
        except (OSError, ValueError) as error:  # a NUL, half a character, a name that is too long
            raise BadInput(
                f"{self.path}: no file can be called {name[:80]!r} ({error}); download its index again"
            ) from None
        if target is not None:
            raise BadInput(f"{path}: leads out of its folder, to {target}; put a copy of the file in its place")
        return path if there else None

    def text(self, name: str) -> str | None:
        """The text of a file, or None where it is absent."""
        path = self.file(name)
        if path is None:
            return None
        with reading(path):
            size = path.stat().st_size
            if size > TEXT_BYTES:
                raise BadInput(
                    f"{path}: has {size:,} bytes, at most {TEXT_BYTES:,} are read; save or download it again"
                )
            return path.read_text("utf-8-sig", errors="replace")

    def table(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file, or None where the file is absent."""
        text, path = self.text(name), self.path / name
        if text is None:
            return None
        try:
            table = from_json(text)
        except ValueError as error:
            raise BadInput(f"{path}: is not JSON ({error}); save or download it again") from None
        if not isinstance(table, dict):
            raise BadInput(f"{path}: holds no JSON object but {type(table).__name__}; save or download it again")
        return table

    def config(self) -> dict[str, Any]:
        """What config.json holds."""
        table = self.table(CONFIG_FILE)
        if table is None:
            raise BadInput(
                f"{self.path}: holds no {CONFIG_FILE}; name the folder that the model was saved to, as a whole"
            )
        return table

    @property
    def weighted(self) -> bool:
        """The folder has weights of a form that is read, and not the config alone."""
        return self.file(WEIGHTS_FILE) is not None or self.file(INDEX_FILE) is not None

    def weights(self) -> Path:
        """The one file of weights."""
        return self.file(WEIGHTS_FILE) or self._no_weights()

    def header(self) -> Header:
        """Types and shapes of what the one file of weights holds."""
        return read_header(self.weights())

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All tensors of the one file of weights and what was sealed with them. Raises: Damaged, besides."""
        weights = self.weights()
        with reading(weights, SMALLER):
            return unseal_arrays(weights, follow=True)

    def save_weights(self, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> None:
        """Write the one file of weights, sealed with `meta`: whole, or not at all. Raises: OSError."""
        publish(self.path / WEIGHTS_FILE, seal(tensors, meta))

    def stored(self) -> dict[str, Stored]:
        """Every tensor of the folder, by its name; only headers are read."""
        index = None if self.file(WEIGHTS_FILE) else self.table(INDEX_FILE)
        if index is None:
            return self._headers([self.weights().name])
        shards = index.get("weight_map")
        path = self.path / INDEX_FILE
        if not isinstance(shards, Mapping) or not all(isinstance(file, str) for file in shards.values()):
            raise BadInput(f"{path}: weight_map is not a table of file names; download it again")
        for name, file in shards.items():
            if Path(file).name != file or "\\" in file or not file.endswith(".safetensors"):
                raise BadInput(
                    f"{path}: weight_map: {name!r} points to {file!r}, which is not a safetensors file of this folder; "
                    "take the checkpoint from a source that you trust"
                )
        stored = self._headers(sorted(set(shards.values())))
        for name, file in shards.items():
            if name not in stored or stored[name].path.name != file:
                raise BadInput(
                    f"{self.path / file}: lacks {name!r}, which {INDEX_FILE} says it holds; download it again"
                )
        return stored

    def _headers(self, files: Iterable[str]) -> dict[str, Stored]:
        stored: dict[str, Stored] = {}
        for file in files:
            path = self.file(file)
            if path is None:
                raise BadInput(f"{self.path / file}: is not there, and {INDEX_FILE} names it; download all shards")
            for name, (dtype, shape) in read_header(path).items():
                if name in stored:
                    raise BadInput(f"{path}: holds {name!r}, and so does {stored[name].path.name}; download both again")
                stored[name] = Stored(name, path, dtype, shape)
        return stored

    def _no_weights(self) -> NoReturn:
        pickled = [name for name in self._names if name.lower().endswith(PICKLED_ENDINGS)]
        if pickled:
            raise BadInput(
                f"{self.path / pickled[0]}: pickled weights are not read, since opening them can run code; take a "
                f"version of the model with {WEIGHTS_FILE}, or convert it where you trust it: "
                "from_pretrained(...).save_pretrained(FOLDER) of transformers"
            )
        raise BadInput(
            f"{self.path}: holds neither {WEIGHTS_FILE} nor {INDEX_FILE}; save or download the model as a whole"
        )
