"""A checkpoint as the backbone, frozen under a trained head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.core import StepTime
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.basis import Basis
from headstart.fit.settings import FitSettings

BACKBONE = "backbone"
"""Its stage, too, that reads the weights."""


class BackboneArm(Arm):
    """Wanted where `--backbone` names a checkpoint of blocks, for half of the time at most."""

    names = (BACKBONE,)
    servable = True
    option = "backbone"
    reads = "backbone"
    foreign = True
    helps: Mapping[str, str] = {BACKBONE: "the frozen checkpoint"}
    apart = BACKBONE
    share = 0.5

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 7.0

    def seconds(self, spent: Spent) -> float:
        basis, steps = spent.basis, spent.amount.apart[BACKBONE]
        if basis.backbone is not None and basis.backbone.own_vectors:
            # Nothing below the head trains: each sequence passes the layers once.
            return spent.time(BACKBONE).unit * (basis.labelled + basis.val + basis.test) + StepTime.LEAST * steps
        return spent.of(spent.time(BACKBONE), steps)

    def title(self, basis: Basis) -> str:
        return "" if basis.backbone is None else f", beside layers of {basis.backbone.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        return tables(frame, BACKBONE)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        backbone = frame.basis.backbone
        assert backbone is not None, "it is wanted"
        steps = frame.amount.apart[BACKBONE]
        mine = f"{BACKBONE}: {backbone.text()}, {steps:,} steps"
        return [*backbone.texts(), mine, *frame.alone_text(backbone.name)]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if basis.backbone is None else {BACKBONE: basis.backbone.text()}


def tables(frame: Frame, name: str, *, tuned: bool = False) -> dict[str, Any]:
    """The arm of this name over the checkpoint's layers, with steps of its own."""
    backbone = frame.basis.backbone
    assert backbone is not None, "it is wanted"
    return {name: {**frame.alone, **backbone.arm(BACKBONE, frame.budget(frame.amount.apart[name]), tuned=tuned)}}
