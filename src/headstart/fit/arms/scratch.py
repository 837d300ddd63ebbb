"""The network from random weights: what every other one is held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit.arms.arm import Arm, Frame, Spent
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings


class Scratch(Arm):
    """Wanted wherever networks are."""

    names = ("scratch",)
    rank = 2

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {"scratch": frame.usual}

    def seconds(self, spent: Spent) -> float:
        return spent.training()

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {"scratch": "network, from random weights"}
