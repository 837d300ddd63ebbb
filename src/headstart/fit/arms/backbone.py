"""A checkpoint as the backbone, frozen under a trained head; and once more, where norms and input layer train too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headstart import words
from headstart.core import StepTime
from headstart.data import SOUNDS
from headstart.errors import BadInput
from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer, Spent
from headstart.fit.basis import Basis, WeightsRead
from headstart.request.settings import FitSettings
from headstart.sequence import rows_of_symbols

BACKBONE, TUNED = "backbone", "backbone_tuned"
"""The first is the stage, too, that reads the weights."""
BY_SYMBOL = ("protein", "tokens")
"""Kinds of sequences whose symbols may be those of a checkpoint's own vectors."""


@dataclass(frozen=True)
class Backbone(WeightsRead):
    """A checkpoint for sequences of one kind. symbols: of the sequences; those that occur there."""

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
        lines = [self.summary()]
        if self.own_vectors:
            lost = [symbol for symbol in self.symbols if symbol not in self.fields.symbols]
            text = f"{len(self.symbols) - len(lost)} of {words.many(len(self.symbols), 'symbol')} of the sequences"
            text += " has a vector" if len(self.symbols) - len(lost) == 1 else " have vectors"
            unknown = f"; {words.listed([repr(symbol) for symbol in lost[:8]])}"
            unknown += f" and {len(lost) - 8} more" if len(lost) > 8 else ""
            lines.append(f"{text} of their own in {self.name}{f'{unknown} are read as unknown' if lost else ''}")
        return lines

    def check(self, basis: Basis, vocabulary: Collection[str]) -> None:
        shape = defaults.shape_of(basis.kind, basis.lengths)
        positions = -(-(shape.alone or int(basis.lengths.max())) // shape.patch)
        way = "leave it out, or compare models in a study of your own (`headstart run`)"
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


class BackboneArm(Arm):
    """Wanted where `--backbone` names a checkpoint of blocks, for half of the time at most."""

    names = (BACKBONE,)
    servable = True
    option = "backbone"
    reads = Backbone
    foreign = True
    helps: Mapping[str, str] = {BACKBONE: "the frozen checkpoint"}
    apart = BACKBONE
    share = 0.5

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 7.0

    def seconds(self, spent: Spent) -> float:
        basis, steps = spent.basis, spent.amount.apart[BACKBONE]
        if basis.weights(Backbone).own_vectors:
            # Nothing below the head trains: each sequence passes the layers once.
            return spent.time(BACKBONE).unit * (basis.labelled + basis.val + basis.test) + StepTime.LEAST * steps
        return spent.of(spent.time(BACKBONE), steps)

    def title(self, basis: Basis) -> str:
        return f", beside layers of {basis.weights(Backbone).name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        return _tables(frame, BACKBONE)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        backbone = frame.basis.weights(Backbone)
        mine = f"{BACKBONE}: {backbone.text()}, {frame.amount.apart[BACKBONE]:,} steps"
        return [*backbone.texts(), mine, *frame.alone_text(backbone.name)]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {BACKBONE: basis.weights(Backbone).text()}


class TunedArm(Arm):
    """Wanted beside the frozen one; it takes part where all others leave it enough steps to learn something."""

    names = (TUNED,)
    servable = True
    option = "backbone"
    foreign = True
    helps: Mapping[str, str] = {TUNED: "the checkpoint with trained norms"}
    apart = TUNED
    spare = True

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        return basis.holds(Backbone)

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 1.0

    def lacks(self, offer: Offer) -> bool:
        return not offer.fits or offer.amount.apart[TUNED] < min(defaults.LEAST_STEPS, offer.whole.steps)

    def left_out(self, offer: Offer) -> list[str]:
        return [f"{TUNED}, with norms and input layer trained, is left out: there is no time for it"]

    def seconds(self, spent: Spent) -> float:
        return spent.of(spent.time(TUNED), spent.amount.apart[TUNED])

    def tables(self, frame: Frame) -> dict[str, Any]:
        return _tables(frame, TUNED, tuned=True)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        return [f"{TUNED}: {frame.basis.weights(Backbone).text(tuned=True)}, {frame.amount.apart[TUNED]:,} steps"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {TUNED: basis.weights(Backbone).text(tuned=True)}


def _tables(frame: Frame, name: str, *, tuned: bool = False) -> dict[str, Any]:
    """The arm of this name over the checkpoint's layers, with steps of its own."""
    budget = frame.budget(frame.amount.apart[name])
    return {name: {**frame.alone, **frame.basis.weights(Backbone).arm(BACKBONE, budget, tuned=tuned)}}
