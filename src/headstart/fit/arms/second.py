"""A second network from random weights, of another mixer, between which and the first validation chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer, Spent
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings

SECOND = "inception"
SECOND_MIXERS: Mapping[str, Mapping[str, Any]] = {"numbers": {"kind": "inception"}}
"""Its mixer, by kind of data; `defaults.INPUT_KINDS` says why."""


class SecondArm(Arm):
    """Wanted where the kind of data has another mixer and a person names none; it takes part where both networks have
    half of their steps."""

    names = (SECOND,)
    rank = 3

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        return basis.kind in SECOND_MIXERS and settings.leaves_mixer

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 3.0

    def lacks(self, offer: Offer) -> bool:
        return not offer.fits or offer.amount.steps < defaults.WORTH * offer.whole.steps

    def left_out(self, offer: Offer) -> list[str]:
        return [f"the time leaves too few steps for a second network, of {SECOND}"]

    def seconds(self, spent: Spent) -> float:
        return spent.training()

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {SECOND: {**frame.task, "model": {"mixer": dict(SECOND_MIXERS[frame.basis.kind]), **frame.model}}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        mixers = (spec.model.mixers for stage, spec in networks if SECOND in stage.arms)
        kinds = " and ".join(dict.fromkeys(mixer.kind for mixer in next(mixers)))
        return [f"a second network, from random weights, is of {kinds}; validation chooses between them"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {SECOND: "network of convolutions, from random weights"}
