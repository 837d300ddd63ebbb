"""Weights made elsewhere that a stage can read: a checkpoint, by its name or folder; a model folder; a stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from headstart import disk
from headstart.atomic import publish
from headstart.checkpoints.encoder import EncoderFields
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.folder import CONFIG_FILE, MODEL_FOLDER, WEIGHTS_FILE
from headstart.checkpoints.like import config_of
from headstart.checkpoints.model_folder import NETWORK_PREFIX, OwnFields
from headstart.checkpoints.series import SeriesFields
from headstart.checkpoints.source import absent, find_folder
from headstart.checkpoints.spec import CheckpointSpec, ModelSource
from headstart.data.alphabets import ALPHABETS
from headstart.errors import BadInput
from headstart.limits import check_memory
from headstart.models.model import ModelSpec
from headstart.spec import read
from headstart.stage import read_stage
from headstart.stage.finished import open_stage
from headstart.store import Store, publish_json, seal
from headstart.tasks import data_folder

BYTES = 256
"""Token ids of a text."""
READ_BYTES = 12.0
"""Of memory for each number of a checkpoint, at the peak: as it is read, as it is kept and in the model, float32."""


@dataclass(frozen=True)
class WeightsElsewhere:
    """Weights at hand, known by what is in them."""

    source: str
    """Where they are, as a stage that reads them says it."""
    name: str
    """What they are called, without their place."""
    content: str
    """Their digest."""
    licence: str
    """As they declare it; empty where they do not."""
    fields: Fields
    """The model that holds them: sizes, symbols, family."""

    @property
    def of_series(self) -> bool:
        """Whether they are of a model of series, of which frozen features are read."""
        return isinstance(self.fields, SeriesFields)

    @property
    def of_texts(self) -> bool:
        """Whether they are of an encoder of texts with its tokeniser, of which frozen features are read."""
        return isinstance(self.fields, EncoderFields)

    @property
    def of_headstart(self) -> bool:
        """Whether they are of a network of headstart's own."""
        return isinstance(self.fields, OwnFields)


def bytes_of(fields: Fields) -> float:
    """Of memory that a process takes which reads a checkpoint of these fields."""
    return READ_BYTES * sum(math.prod(shape) for shape in fields.shapes().values())


def find_checkpoint(source: str, option: str, *, whole: bool = False) -> WeightsElsewhere:
    """The checkpoint of this name, or in this folder. option: of messages. whole: with the tokeniser of an encoder of
    texts, and its vectors.

    Raises: BadInput where it is not on this machine or cannot be read.
    """
    folder = find_folder(source) if source else None
    if folder is None:
        raise BadInput(f"{option}: {absent(source)}")
    own = folder == Path(source)
    kind = ModelSource if whole else CheckpointSpec
    spec = read(kind, {"source": str(folder.absolute()) if own else source}, option)
    checkpoint, name = spec.opened(), folder.absolute().name if own else source
    wanted = bytes_of(checkpoint.fields)
    check_memory(f"{option}: reading {name!r}", wanted, "allow it more, or name a smaller checkpoint")
    spec = spec.settled()
    content, licence, fields = spec.content or "", checkpoint.licence or "", checkpoint.fields
    if not isinstance(fields, SeriesFields) and "chronos_config" in config_of(folder)[0].table:
        raise BadInput(
            f"{option}: {name!r} is a Chronos that reads numbers as tokens of its own, which are not read here; "
            "take Chronos-Bolt, such as chronos-bolt-small"
        )
    return WeightsElsewhere(spec.source, name, content, licence, fields)


def find_network(source: str, store: Store, data: Path, option: str) -> WeightsElsewhere:
    """The model in this folder, or the stage of this id in the store, whose weights are laid down in it as a folder.

    data: of the tasks of the store's own. option: of messages.
    Raises: BadInput where there is neither, or it has no network of built-in mixers.
    """
    path = Path(source)
    if path.is_dir():
        if not (path / CONFIG_FILE).is_file():
            raise BadInput(
                f"{option}: {source!r} holds no {CONFIG_FILE}; name a folder that `headstart fit` wrote, or a stage's "
                "id"
            )
        folder, name = path.absolute(), path.absolute().name
    else:
        folder, name = _of_stage(source, store, data, option)
    spec = read(CheckpointSpec, {"source": str(folder)}, option).settled()
    fields = spec.opened().fields
    return WeightsElsewhere(spec.source, name, spec.content or "", "", fields)


def _of_stage(identity: str, store: Store, data: Path, option: str) -> tuple[Path, str]:
    """A folder in the store with the weights of a stage as those of a model folder, and the stage in words."""
    try:
        identity = store.find(identity)
    except BadInput as error:
        raise BadInput(f"{option}: there is no folder {identity!r}, and no such stage: {error}") from None
    document = store.stage(identity) or {}
    if not isinstance(read_stage(document["spec"]).model, ModelSpec):
        raise BadInput(f"{option}: stage {identity} is no network of built-in mixers; name another")
    own = document["spec"]["task"].get("kind") == "own"
    stage = open_stage(store, identity, data if own else data_folder(None))
    signature, symbols = stage.task.signature, stage.task.symbols
    kind = "numbers"
    if signature.input == "tokens":
        of_letters = {tuple(letters): kind for kind, letters in ALPHABETS.items()}
        kind = of_letters.get(tuple(symbols), "text" if signature.width == BYTES else "tokens")
    preparation = {
        "kind": kind,
        "symbols": list(symbols) if kind == "tokens" else [],
        "channels": [str(number) for number in range(signature.width if kind == "numbers" else 1)],
        "patch": 1,
        "missing": signature.missing,
    }
    folder = store.root / "starts" / identity
    tensors = {f"{NETWORK_PREFIX}{name}": x for name, x in store.weights(identity, "best").items()}
    disk.make_folder(folder)
    publish(folder / WEIGHTS_FILE, seal(tensors, {"identity": identity}))
    network = {"model": document["spec"]["model"], "length": signature.length}
    publish_json(folder / CONFIG_FILE, {"kind": MODEL_FOLDER, "network": network, "preparation": preparation})
    return folder, f"stage {identity} ({stage.name})"
