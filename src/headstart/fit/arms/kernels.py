"""Models without gradients that every fit has: kernels or n-grams, summaries, and the majority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings

WORDS = {
    True: {
        "kernels": "random and competing convolution kernels with ridge",
        "summary": "a linear model of summary features",
        "majority": "shares of the classes, or the mean",
    },
    False: {
        "kernels": "a linear model of n-grams",
        "summary": "a linear model of single symbols and pairs",
        "majority": "shares of the classes, or the mean",
    },
}
"""Each in words, for numbers or for symbols."""


class Kernels(Arm):
    """Always wanted: they take seconds, and are fitted before the time is planned."""

    names = ("majority", "summary", "kernels")
    network = False
    servable = True
    rank = 0

    def tables(self, frame: Frame) -> dict[str, Any]:
        known, time = frame.known, frame.settings.time
        more = known.kind, known.lengths, known.signature.width, time
        return {name: {"model": defaults.classic_table(name, *more)} for name in reversed(self.names)}

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return WORDS[known.kind == "numbers"]
