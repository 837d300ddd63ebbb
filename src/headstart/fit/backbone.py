"""A checkpoint as the backbone of a fit: what it is, which sequences it can read, and what its arms take and train."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.data.layout import SOUNDS
from headstart.errors import BadInput
from headstart.fit.settings import BACKBONE, TUNED
from headstart.initial import rows_of_symbols
from headstart.models.checkpoints import FAMILIES
from headstart.models.checkpoints.fields import Fields
from headstart.models.checkpoints.source import absent, find_folder
from headstart.models.checkpoints.spec import CheckpointSpec
from headstart.spec import read
from headstart.study import words

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

    def arm(self, name: str, steps: int) -> dict[str, Any]:
        """What `BACKBONE` or `TUNED` adds to a network's arm: the checkpoint's model, its start, and what trains."""
        encoder: dict[str, Any] = {"masked": "zero"}
        if self.kind == "numbers":
            encoder["init"] = "orthogonal"
        start = ['take(backbone+position, rows="prefix")']
        start += ['take(encoder, rows="symbols")'] if self.own_vectors else []
        return {
            "model": {"kind": "sequence", "pool": "mean", "encoder": encoder, **self.fields.model},
            "finetune": {
                "parent": BACKBONE,
                "start": start,
                "trainable": self.trainable(name),
                "budget": {"steps": steps, "evaluate_every": max(1, steps / 10)},
            },
        }

    def trainable(self, name: str) -> str:
        """The parts that learn."""
        if name == TUNED:
            return "encoder+position+norm+head"
        return "head" if self.own_vectors else "encoder+head"

    def text(self, name: str) -> str:
        """An arm in words."""
        if name == TUNED:
            positions = ", positions" if self.fields.model["position"]["kind"] in ("learned", "relative") else ""
            return f"layers of {self.name}, frozen but for their norms; input layer{positions} and head are trained too"
        what = "the head is trained" if self.own_vectors else "a new input layer and the head are trained"
        return f"layers of {self.name}, frozen; {what}"

    def texts(self, steps: int, tuned: int) -> list[str]:
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
        lines.append(f"{BACKBONE}: {self.text(BACKBONE)}, {steps:,} steps")
        lines.append(
            f"{TUNED}: {self.text(TUNED)}, {tuned:,} steps"
            if tuned
            else f"{TUNED}, with norms and input layer trained, is left out: there is no time for it"
        )
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


def find_backbone(source: str, kind: str, symbols: Sequence[str] = ()) -> Backbone:
    """The checkpoint of this name or in this folder. Raises: BadInput where it is not here or cannot be read."""
    folder = find_folder(source) if source else None
    if folder is None:
        raise BadInput(f"backbone: {absent(source)}")
    own = folder == Path(source)
    spec = read(CheckpointSpec, {"source": str(folder.absolute()) if own else source}, "backbone").settled()
    checkpoint = spec.opened()
    return Backbone(
        spec.source,
        folder.absolute().name if own else source,
        spec.content or "",
        checkpoint.licence or "",
        checkpoint.fields,
        kind,
        tuple(symbols),
    )
