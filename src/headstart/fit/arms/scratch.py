"""The network from random weights: what every other one is held against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Offer, Spent
from headstart.fit.basis import Amount, Basis
from headstart.request.settings import FitSettings
from headstart.words import duration


class ScratchArm(Arm):
    """Wanted wherever networks are. Of symbols it takes part where it has a thousand steps, or a network is asked for;
    of numbers in any time."""

    names = ("scratch",)
    base = True
    rank = 2

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 6.0

    def lacks(self, offer: Offer) -> bool:
        asked = offer.basis.kind == "numbers" or offer.settings.asks_for_network
        return not asked and self._least_time(offer) > (offer.settings.time or math.inf)

    def _least_time(self, offer: Offer) -> float:
        """Seconds of a fit with the fewest steps that beat n-grams, at one rate."""
        least = Amount(defaults.ONE_RATE, defaults.wanted_steps(offer.basis.kind), arms=offer.amount.arms)
        return offer.time_for(least)

    def left_out(self, offer: Offer) -> list[str]:
        enough = self._least_time(offer)
        time = f"{math.ceil(enough)}s" if enough < 100 else f"{math.ceil(enough / 60)}m"
        return [
            f"no network is trained: the time of {duration(offer.settings.time)} is too little for "
            f"{defaults.wanted_steps(offer.basis.kind):,} steps of training, and with fewer a network loses to "
            f"n-grams; --time {time} would do, and --serve network or --pretrain trains one in any case"
        ]

    def seconds(self, spent: Spent) -> float:
        return spent.training()

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {"scratch": frame.usual}

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {"scratch": "network, from random weights"}
