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
from headstart.baselines.embedding import EmbeddingSpec, size_of
from headstart.core import Store, Task, find_checkpoint, find_network
from headstart.data import SOUNDS
from headstart.errors import BadInput
from headstart.fit.settings import FitSettings
from headstart.sequence import Examples, Signature, rows_of_symbols
from headstart.spec import read

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
    fields: Any
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
        spec = self.fields.spec
        lines = [
            f"checkpoint {self.name}: {self.fields.summary}, {words.many(spec.blocks, 'block')}, width {spec.width}; "
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
        way = "leave it out, or compare models of your own by `headstart run`"
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
    fields: Any
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
        size = size_of(self.fields.series, channels)
        mean = ", the mean over channels" if size < self.fields.series.size * channels else ""
        lines = [
            f"checkpoint {self.name}: {self.fields.summary}, {words.many(self.fields.spec.blocks, 'block')}, width "
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
    weights = find_checkpoint(source, "backbone")
    content, licence, fields = weights.content, weights.licence, weights.fields
    if not weights.of_series:
        return Backbone(weights.source, weights.name, content, licence, fields, kind, tuple(symbols))
    if kind != "numbers":
        raise BadInput(
            f"backbone: {weights.name!r} reads series of numbers, and the sequences are {SOUNDS[kind]}; leave it out, "
            "or take a checkpoint that has vectors of such symbols"
        )
    return SeriesModel(weights.source, weights.name, content, licence, fields)


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


@dataclass(frozen=True)
class Start:
    """Weights to start from.

    source: the folder that they are read from. name: as a person named it, without the folder that it is in. content:
    their digest.
    """

    source: str
    name: str
    content: str
    fields: Any

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

    def line(self, arm: Mapping[str, Any], spec: Any) -> str:
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
    weights = find_network(source, store, data, "start")
    if not weights.of_headstart:
        family = weights.fields.family
        raise BadInput(f"start: {source!r} is a checkpoint of family {family!r}; give it as --backbone {source}")
    return Start(weights.source, weights.name, weights.content, weights.fields)
