"""The checkpoint of the backbone once more: its norms and the input layer train, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms import backbone
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer, Spent
from headstart.fit.basis import Basis
from headstart.fit.settings import FitSettings

TUNED = "backbone_tuned"


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
        return basis.backbone is not None

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 1.0

    def lacks(self, offer: Offer) -> bool:
        return not offer.fits or offer.amount.apart[TUNED] < min(defaults.LEAST_STEPS, offer.whole.steps)

    def left_out(self, offer: Offer) -> list[str]:
        return [f"{TUNED}, with norms and input layer trained, is left out: there is no time for it"]

    def seconds(self, spent: Spent) -> float:
        return spent.of(spent.time(TUNED), spent.amount.apart[TUNED])

    def tables(self, frame: Frame) -> dict[str, Any]:
        return backbone.tables(frame, TUNED, tuned=True)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        words = self.texts(frame.basis, frame.settings, {})[TUNED]
        return [f"{TUNED}: {words}, {frame.amount.apart[TUNED]:,} steps"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if basis.backbone is None else {TUNED: basis.backbone.text(tuned=True)}
