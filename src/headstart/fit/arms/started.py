"""A network that starts from another model's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.basis import Basis
from headstart.fit.settings import FitSettings

STARTED = "started"
"""Its stage, too, that reads the weights."""


class StartedArm(Arm):
    """Wanted where `--start` names a model; it takes as many steps as the network from random weights."""

    names = (STARTED,)
    servable = True
    option = "start"
    reads = "start"
    foreign = True
    helps: Mapping[str, str] = {STARTED: "starting from the other model"}

    def seconds(self, spent: Spent) -> float:
        return spent.of(spent.time(STARTED, "finetune"), spent.amount.steps)

    def title(self, basis: Basis) -> str:
        return "" if basis.start is None else f", and from the weights of {basis.start.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        start = frame.basis.start
        assert start is not None, "it is wanted"
        most = frame.shape.alone and frame.shape.alone * start.fields.spec.encoder.patch
        return {STARTED: {**frame.shape.task(most), **start.arm(STARTED, frame.signature)}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        start = frame.basis.start
        assert start is not None, "it is wanted"
        spec = next(spec.model for stage, spec in networks if STARTED in stage.arms and stage.name == "finetune")
        return [f"{STARTED}: {start.line(start.arm(STARTED, frame.signature), spec)}"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if basis.start is None else {STARTED: basis.start.text(arms[STARTED])}
