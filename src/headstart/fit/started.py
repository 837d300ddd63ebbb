"""Another model's weights as the start of one arm more: of a folder that `headstart fit` wrote, or of a stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.checkpoints.folder import CONFIG, MODEL_FOLDER, WEIGHTS
from headstart.checkpoints.own import BEFORE, OwnFields
from headstart.checkpoints.spec import CheckpointSpec
from headstart.data.layout import SOUNDS
from headstart.data.letters import ALPHABETS
from headstart.errors import BadInput
from headstart.models.model import ModelSpec
from headstart.sequence import Signature
from headstart.spec import read
from headstart.stage import read_stage
from headstart.stage.finished import open_stage
from headstart.store import Store, publish, publish_json, seal
from headstart.study.results import words
from headstart.tasks import data_folder

BYTES = 256
"""Token ids of a text."""


@dataclass(frozen=True)
class Start:
    """Weights to start from.

    source: the folder that they are read from. name: as a person named it, without the folder that it is in. content:
    their digest.
    """

    source: str
    name: str
    content: str
    fields: OwnFields

    def arm(self, parent: str, signature: Signature) -> dict[str, Any]:
        """What its arm adds to a network's: the other model, and what is taken. parent: the stage that reads it."""
        start = ['take(backbone+position, rows="prefix")']
        start += [f"take(encoder{self._rows})"] if self.takes_inputs(signature) else []
        return {
            "model": {"kind": "sequence", **self.fields.model},
            "finetune": {"parent": parent, "start": start},
        }

    @property
    def _rows(self) -> str:
        return ', rows="symbols"' if self.fields.symbols else ""

    def takes_inputs(self, signature: Signature) -> bool:
        """Whether its input layer fits: of numbers as many channels, of letters always."""
        theirs = self.fields.signature
        alike = (theirs.width, theirs.missing) == (signature.width, signature.missing)
        return bool(self.fields.symbols) or (theirs.input == signature.input and alike)

    def text(self, arm: Mapping[str, Any]) -> str:
        """The arm in words."""
        new = "" if any("encoder" in entry for entry in arm["finetune"]["start"]) else " under a new input layer"
        return f"weights of {self.name}{new}; all of it trains"

    def line(self, arm: Mapping[str, Any], spec: ModelSpec) -> str:
        """What was decided, in words; spec: of the arm's network, as overrides leave it."""
        size = f"{words.many(spec.blocks, 'block')}, width {spec.width}; content {self.content[:16]}"
        return f"{self.text(arm)} ({size})"

    def check(self, kind: str, vocabulary: Collection[str]) -> None:
        """Raises: BadInput where the other model was made for sequences of another kind.

        vocabulary: of the sequences, where they hold symbols.
        """
        if kind != self.fields.kind:
            raise BadInput(
                f"start: {self.name!r} was fitted to {SOUNDS[self.fields.kind]}, and these sequences are "
                f"{SOUNDS[kind]}; take a model of the same kind, or leave --start out"
            )
        if self.fields.symbols and not set(vocabulary) & set(self.fields.symbols):
            raise BadInput(
                f"start: {self.name!r} knows none of the {len(set(vocabulary)):,} symbols of these sequences; take a "
                "model of the same symbols, or leave --start out"
            )


def find_start(source: str, store: Store, data: Path) -> Start:
    """The model in this folder, or the stage of this id in the store.

    Raises: BadInput where there is neither, or it has no network of built-in mixers.
    """
    path = Path(source)
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise BadInput(
                f"start: {source!r} holds no {CONFIG}; name a folder that `headstart fit` wrote, or a stage's id"
            )
        folder, name = path.absolute(), path.absolute().name
    else:
        folder, name = _of_stage(source, store, data)
    spec = read(CheckpointSpec, {"source": str(folder)}, "start").settled()
    fields = spec.opened().fields
    if not isinstance(fields, OwnFields):
        raise BadInput(f"start: {source!r} is a checkpoint of family {fields.family!r}; give it as --backbone {source}")
    return Start(spec.source, name, spec.content or "", fields)


def _of_stage(identity: str, store: Store, data: Path) -> tuple[Path, str]:
    """A folder in the store with the weights of a stage as those of a model folder, and the stage in words."""
    try:
        identity = store.find(identity)
    except BadInput as error:
        raise BadInput(f"start: there is no folder {identity!r}, and no such stage: {error}") from None
    document = store.stage(identity) or {}
    if not isinstance(read_stage(document["spec"]).model, ModelSpec):
        raise BadInput(f"start: stage {identity} is no network of built-in mixers; name another")
    own = document["spec"]["task"].get("kind") == "own"
    stage = open_stage(store, identity, data if own else data_folder(None))
    signature, symbols = stage.task.signature, stage.task.symbols
    kind = "numbers"
    if signature.input == "tokens":
        of_letters = {tuple(letters): kind for kind, letters in ALPHABETS.items()}
        kind = of_letters.get(tuple(symbols), "text" if signature.width == BYTES else "tokens")
    known = {
        "kind": kind,
        "symbols": list(symbols) if kind == "tokens" else [],
        "channels": [str(number) for number in range(signature.width if kind == "numbers" else 1)],
        "patch": 1,
        "missing": signature.missing,
    }
    folder = store.root / "starts" / identity
    tensors = {f"{BEFORE}{name}": x for name, x in store.weights(identity, "best").items()}
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder / WEIGHTS, seal(tensors, {"identity": identity}))
    network = {"model": document["spec"]["model"], "length": signature.length}
    publish_json(folder / CONFIG, {"kind": MODEL_FOLDER, "network": network, "preparation": known})
    return folder, f"stage {identity} ({stage.name})"
