"""A network that starts from another model's weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headstart import words
from headstart.data import SOUNDS
from headstart.errors import BadInput
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.basis import Basis, WeightsRead
from headstart.request.settings import FitSettings
from headstart.sequence import Signature

STARTED = "started"
"""Its stage, too, that reads the weights."""


@dataclass(frozen=True)
class Start(WeightsRead):
    """Weights to start from."""

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

    def check(self, basis: Basis, vocabulary: Collection[str]) -> None:
        if basis.kind != self.fields.kind:
            raise BadInput(
                f"start: {self.name!r} was fitted to {SOUNDS[self.fields.kind]}, and these sequences are "
                f"{SOUNDS[basis.kind]}; take a model of the same kind, or leave --start out"
            )
        if self.fields.symbols and not set(vocabulary) & set(self.fields.symbols):
            raise BadInput(
                f"start: {self.name!r} knows none of the {len(set(vocabulary)):,} symbols of these sequences; take a "
                "model of the same symbols, or leave --start out"
            )


class StartedArm(Arm):
    """Wanted where `--start` names a model; it takes as many steps as the network from random weights."""

    names = (STARTED,)
    servable = True
    option = "start"
    reads = Start
    foreign = True
    helps: Mapping[str, str] = {STARTED: "starting from the other model"}

    def seconds(self, spent: Spent) -> float:
        return spent.of(spent.time(STARTED, "finetune"), spent.amount.steps)

    def title(self, basis: Basis) -> str:
        return f", and from the weights of {basis.weights(Start).name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        start = frame.basis.weights(Start)
        most = frame.shape.alone and frame.shape.alone * start.fields.spec.encoder.patch
        return {STARTED: {**frame.shape.task(most), **start.arm(STARTED, frame.signature)}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        start = frame.basis.weights(Start)
        spec = next(spec.model for stage, spec in networks if STARTED in stage.arms and stage.name == "finetune")
        return [f"{STARTED}: {start.line(start.arm(STARTED, frame.signature), spec)}"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {STARTED: basis.weights(Start).text(arms[STARTED])}
