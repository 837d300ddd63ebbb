"""A checkpoint as the backbone, frozen under a trained head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.core import StepTime
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.known import Known
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

    def worth(self, known: Known, settings: FitSettings) -> float:
        return 7.0

    def seconds(self, spent: Spent) -> float:
        known, steps = spent.known, spent.amount.apart[BACKBONE]
        if known.backbone is not None and known.backbone.own_vectors:
            # Nothing below the head trains: each sequence passes the layers once.
            return spent.time(BACKBONE).unit * (known.labelled + known.val + known.test) + StepTime.LEAST * steps
        return spent.of(spent.time(BACKBONE), steps)

    def title(self, known: Known) -> str:
        return "" if known.backbone is None else f", beside layers of {known.backbone.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        return tables(frame, BACKBONE)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        backbone = frame.known.backbone
        assert backbone is not None, "it is wanted"
        steps = frame.amount.apart[BACKBONE]
        mine = f"{BACKBONE}: {backbone.text()}, {steps:,} steps"
        return [*backbone.texts(), mine, *frame.alone_text(backbone.name)]

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if known.backbone is None else {BACKBONE: known.backbone.text()}


def tables(frame: Frame, name: str, *, tuned: bool = False) -> dict[str, Any]:
    """The arm of this name over the checkpoint's layers, with steps of its own."""
    backbone = frame.known.backbone
    assert backbone is not None, "it is wanted"
    return {name: {**frame.alone, **backbone.arm(BACKBONE, frame.budget(frame.amount.apart[name]), tuned=tuned)}}
