"""A checkpoint as the backbone: frozen under a trained head, and its twin whose norms and input layer train too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings

if TYPE_CHECKING:
    from headstart.fit.reading import Backbone

BACKBONE, TUNED = "backbone", "backbone_tuned"
"""With a trained head alone, which is its stage too, and with norms and input layer trained."""


class Frozen(Arm):
    """Wanted where `--backbone` names a checkpoint of blocks; the twin where it has `defaults.LEAST_STEPS`."""

    names = (BACKBONE, TUNED)
    servable = True
    option = "backbone"
    foreign = True
    helps: Mapping[str, str] = {BACKBONE: "the frozen checkpoint", TUNED: "the checkpoint with trained norms"}

    def weights(self, known: Known) -> Backbone | None:
        return known.backbone

    def title(self, known: Known) -> str:
        return "" if known.backbone is None else f", beside layers of {known.backbone.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        backbone = frame.known.backbone
        if backbone is None:
            return {}
        steps = {BACKBONE: frame.amount.backbone_steps, TUNED: frame.amount.tuned_steps}
        return {
            name: {**frame.alone, **backbone.arm(BACKBONE, frame.budget(number), tuned=name == TUNED)}
            for name, number in steps.items()
            if number
        }

    def seconds(self, spent: Spent) -> float:
        from headstart.study.language.costs import STEP_SECONDS

        known, frozen, total = spent.known, spent.amount.backbone_steps, 0.0
        if known.backbone is None:
            return 0.0
        if frozen and known.backbone.own_vectors:
            # Nothing below the head trains: each sequence passes the layers once.
            total += spent.time(BACKBONE).unit * (known.labelled + known.val + known.test) + STEP_SECONDS * frozen
        elif frozen:
            total += spent.of(spent.time(BACKBONE), frozen)
        return total + (spent.of(spent.time(TUNED), spent.amount.tuned_steps) if spent.amount.tuned_steps else 0.0)

    def singly(self, frame: Frame) -> list[str]:
        return [] if frame.known.backbone is None else [frame.known.backbone.name]

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        backbone, amount = frame.known.backbone, frame.amount
        if backbone is None:
            return []
        left_out = f"{TUNED}, with norms and input layer trained, is left out: there is no time for it"
        tuned = (
            f"{TUNED}: {backbone.text(tuned=True)}, {amount.tuned_steps:,} steps" if amount.tuned_steps else left_out
        )
        return [*backbone.texts(), f"{BACKBONE}: {backbone.text()}, {amount.backbone_steps:,} steps", tuned]

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        backbone = known.backbone
        return {} if backbone is None else {BACKBONE: backbone.text(), TUNED: backbone.text(tuned=True)}
