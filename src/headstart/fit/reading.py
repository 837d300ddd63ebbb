"""What a fit reads from elsewhere: a checkpoint as its backbone, a model of series, and weights to start from.

A model of series is another thing than a checkpoint of blocks: its features are computed once, and its arm is fitted
without gradients.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart import words
from headstart.atomic import publish
from headstart.baselines.embedding import EmbeddingSpec, size_of
from headstart.checkpoints import FAMILIES, SERIES
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.folder import CONFIG_FILE, MODEL_FOLDER, WEIGHTS_FILE
from headstart.checkpoints.like import config_of
from headstart.checkpoints.own import NETWORK_PREFIX, OwnFields
from headstart.checkpoints.series import SeriesFields
from headstart.checkpoints.source import absent, find_folder
from headstart.checkpoints.spec import CheckpointSpec
from headstart.data.layout import SOUNDS
from headstart.data.letters import ALPHABETS
from headstart.errors import BadInput
from headstart.fit.settings import FitSettings
from headstart.initial import rows_of_symbols
from headstart.models.model import ModelSpec
from headstart.sequence import Examples, Signature
from headstart.spec import read
from headstart.stage import read_stage
from headstart.stage.finished import open_stage
from headstart.store import Store, publish_json, seal
from headstart.tasks import data_folder
from headstart.tasks.task import Task

TIMED = 3
"""Sequences on which a model of series is timed."""
BY_SYMBOL = ("protein", "tokens")
"""Kinds of sequences whose symbols may be those of a checkpoint's own vectors."""


@dataclass(frozen=True)
class Backbone:
    """A checkpoint at hand, for sequences of one kind.

    source: where it is. name: what it is called, without its place. symbols: of the sequences; those that occur there.
    """

    source: str
    name: str
    content: str
    licence: str
    fields: Fields
    kind: str
    symbols: tuple[str, ...] = ()

    @property
    def own_vectors(self) -> bool:
        """Whether the sequences' symbols meet vectors of the checkpoint's own; else their input layer is new."""
        return bool(self.fields.symbols) and self.kind in BY_SYMBOL

    @property
    def fresh_positions(self) -> bool:
        """Whether the checkpoint's blocks know no positions of a sequence (ViT), so that learned ones are new."""
        return bool(self.fields.model["position"]["kind"] == "none")

    def arm(self, parent: str, budget: Mapping[str, Any], *, tuned: bool = False) -> dict[str, Any]:
        """What its arm adds to a network's: the checkpoint's model, its start, and what trains. parent: the stage that
        reads it. tuned: norms and input layer train, too."""
        encoder: dict[str, Any] = {"masked": "zero"}
        if self.kind == "numbers":
            encoder["init"] = "orthogonal"
        positions = {"position": {"kind": "learned"}} if self.fresh_positions else {}
        start = ["take(backbone)"] if self.fresh_positions else ['take(backbone+position, rows="prefix")']
        start += ['take(encoder, rows="symbols")'] if self.own_vectors else []
        return {
            "model": {"kind": "sequence", "pool": "mean", "encoder": encoder, **self.fields.model, **positions},
            "finetune": {
                "parent": parent,
                "start": start,
                "trainable": self.trainable(tuned),
                "budget": dict(budget),
            },
        }

    def trainable(self, tuned: bool) -> str:
        """The parts that learn."""
        if tuned:
            return "encoder+position+norm+head"
        parts = "head" if self.own_vectors else "encoder+head"
        return f"position+{parts}" if self.fresh_positions else parts

    def text(self, *, tuned: bool = False) -> str:
        """An arm in words."""
        if tuned:
            learned = self.fresh_positions or self.fields.model["position"]["kind"] in ("learned", "relative")
            positions = f", {'new ' * self.fresh_positions}positions" * learned
            return f"layers of {self.name}, frozen but for their norms; input layer{positions} and head are trained too"
        new = "a new input layer, new positions" if self.fresh_positions else "a new input layer"
        what = "the head is trained" if self.own_vectors else f"{new} and the head are trained"
        return f"layers of {self.name}, frozen; {what}"

    def texts(self) -> list[str]:
        """What was decided, in words."""
        spec, family = self.fields.spec, FAMILIES[self.fields.family]
        lines = [
            f"checkpoint {self.name}: {family.summary}, {words.many(spec.blocks, 'block')}, width {spec.width}; "
            f"content {self.content[:16]}, licence {self.licence or 'not declared'}"
        ]
        if self.own_vectors:
            lost = [symbol for symbol in self.symbols if symbol not in self.fields.symbols]
            text = f"{len(self.symbols) - len(lost)} of {words.many(len(self.symbols), 'symbol')} of the sequences"
            text += " has a vector" if len(self.symbols) - len(lost) == 1 else " have vectors"
            unknown = f"; {words.listed([repr(symbol) for symbol in lost[:8]])}"
            unknown += f" and {len(lost) - 8} more" if len(lost) > 8 else ""
            lines.append(f"{text} of their own in {self.name}{f'{unknown} are read as unknown' if lost else ''}")
        return lines

    def check(self, positions: int, vocabulary: Collection[str]) -> None:
        """Raises: BadInput where the checkpoint cannot read such sequences.

        positions: that a network reads of the longest. vocabulary: of the sequences, where they hold symbols.
        """
        way = "leave it out, or compare arms of your own by `headstart run`"
        if self.kind == "text":
            raise BadInput(
                f"backbone: {self.name!r} would read a text byte by byte through new vectors, and know none of the "
                f"words that it was trained on, whose own vectors are not read; {way}"
            )
        if self.fields.vocabulary and self.kind == "dna":
            raise BadInput(
                f"backbone: {self.name!r} has vectors of amino acids, and the sequences are {SOUNDS[self.kind]}; {way}"
            )
        if self.fields.vocabulary and self.kind in BY_SYMBOL:
            self._check_symbols(vocabulary, way)
        most = self.fields.length
        if most is not None and positions > most:
            raise BadInput(
                f"backbone: {self.name!r} has learned vectors for {most:,} positions, and networks read up to "
                f"{positions:,} of a sequence here; take a checkpoint with more, or give shorter sequences"
            )

    def _check_symbols(self, vocabulary: Collection[str], way: str) -> None:
        if not self.fields.symbols:
            raise BadInput(
                f"backbone: {self.name!r} has no vocab.txt, which says what its vectors stand for; put it beside the "
                "weights"
            )
        if not set(vocabulary) & set(self.fields.symbols):
            few = ", ".join(map(repr, sorted(vocabulary)[:5]))
            raise BadInput(f"backbone: {self.name!r} has a vector for no symbol of the sequences ({few}); {way}")
        lost = None in rows_of_symbols(vocabulary, self.fields.symbols)
        if lost:
            raise BadInput(
                f"backbone: {self.name!r} lacks vectors for some symbols of the sequences, and one for unknown ones "
                f"(<unk>); {way}"
            )


@dataclass(frozen=True)
class SeriesModel:
    """A model of series at hand. source: where it is. name: what it is called, without its place. seconds: that its
    features of all sequences take here, about."""

    source: str
    name: str
    content: str
    licence: str
    fields: SeriesFields
    seconds: float = 0.0

    @property
    def model(self) -> dict[str, Any]:
        """The model of its arm, without its place."""
        return {"kind": EmbeddingSpec.model_fields["kind"].default, "content": self.content}

    def fits(self, time: float | None) -> bool:
        """Whether its features take at most half of so many seconds."""
        return time is None or self.seconds <= time / 2

    def text(self, classes: bool) -> str:
        """Its arm in words."""
        return f"frozen features of {self.name} with {'logistic' if classes else 'ridge'} regression"

    def texts(self, arm: str, channels: int, classes: bool, fits: bool) -> list[str]:
        """What was decided, in words."""
        size, entry = size_of(self.fields.series, channels), SERIES[self.fields.family]
        mean = ", the mean over channels" if size < self.fields.series.size * channels else ""
        lines = [
            f"checkpoint {self.name}: {entry.summary}, {words.many(self.fields.spec.blocks, 'block')}, width "
            f"{self.fields.spec.width}; content {self.content[:16]}, licence {self.licence or 'not declared'}",
            f"{arm}: {self.text(classes)}, {size:,} of each sequence{mean}",
        ]
        if not fits:
            lines[1] = (
                f"{arm}: {self.text(classes)}, is left out: to compute them takes some "
                f"{words.duration(self.seconds)}, more than half of the time"
            )
        return lines

    def timed(self, train: Examples, count: int) -> SeriesModel:
        """With the seconds of `count` sequences, measured on a few of middle length."""
        some = train.take(np.argsort(train.lengths, kind="stable")[len(train) // 2 :][:TIMED])
        features = read(EmbeddingSpec, {**self.model, "source": self.source}, "backbone").features(some.values.shape[1])
        features.transform(some.take(np.arange(1)))
        begun = time.perf_counter()
        features.transform(some.take(np.arange(1, len(some))))
        return replace(self, seconds=(time.perf_counter() - begun) / max(1, len(some) - 1) * count)


def find_backbone(source: str, kind: str, symbols: Sequence[str] = ()) -> Backbone | SeriesModel:
    """The checkpoint of this name or in this folder. Raises: BadInput where it is not here or cannot be read, or is a
    model of series and the sequences are of symbols."""
    folder = find_folder(source) if source else None
    if folder is None:
        raise BadInput(f"backbone: {absent(source)}")
    own = folder == Path(source)
    spec = read(CheckpointSpec, {"source": str(folder.absolute()) if own else source}, "backbone").settled()
    checkpoint, name = spec.opened(), folder.absolute().name if own else source
    content, licence, fields = spec.content or "", checkpoint.licence or "", checkpoint.fields
    if not isinstance(fields, SeriesFields):
        if "chronos_config" in config_of(folder)[0].table:
            raise BadInput(
                f"backbone: {name!r} is a Chronos that reads numbers as tokens of its own, which are not read here; "
                "take Chronos-Bolt, such as chronos-bolt-small"
            )
        return Backbone(spec.source, name, content, licence, fields, kind, tuple(symbols))
    if kind != "numbers":
        raise BadInput(
            f"backbone: {name!r} reads series of numbers, and the sequences are {SOUNDS[kind]}; leave it out, or take "
            "a checkpoint that has vectors of such symbols"
        )
    return SeriesModel(spec.source, name, content, licence, fields)


def asked_backbone(settings: FitSettings, task: Task, kind: str) -> Backbone | SeriesModel | None:
    """The checkpoint that a fit is asked for, and which symbols it meets, or what its features take."""
    if settings.backbone is None:
        return None
    splits = [task.split(name) for name in ("train", "val", "test")]
    there = np.unique(np.concatenate([np.unique(x.values) for x in splits])).tolist() if task.symbols else []
    backbone = find_backbone(settings.backbone, kind, [task.symbols[token] for token in there])
    if isinstance(backbone, Backbone) or settings.time is None:
        return backbone
    return backbone.timed(task.train, sum(map(len, splits)))


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
        if not (path / CONFIG_FILE).is_file():
            raise BadInput(
                f"start: {source!r} holds no {CONFIG_FILE}; name a folder that `headstart fit` wrote, or a stage's id"
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
    tensors = {f"{NETWORK_PREFIX}{name}": x for name, x in store.weights(identity, "best").items()}
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder / WEIGHTS_FILE, seal(tensors, {"identity": identity}))
    network = {"model": document["spec"]["model"], "length": signature.length}
    publish_json(folder / CONFIG_FILE, {"kind": MODEL_FOLDER, "network": network, "preparation": known})
    return folder, f"stage {identity} ({stage.name})"
