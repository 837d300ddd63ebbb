"""A second network from random weights, of another mixer, between which and the first validation chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings

SECOND = "inception"


class Second(Arm):
    """Wanted where the kind of data has another mixer (`defaults.Kind.second`), a person names none, and both networks
    have half of their steps (`defaults.WORTH`)."""

    names = (SECOND,)
    rank = 3

    def tables(self, frame: Frame) -> dict[str, Any]:
        mixer = {"mixer": dict(defaults.KINDS[frame.known.kind].second)}
        return {SECOND: {**frame.task, "model": {**mixer, **frame.model}}} if frame.amount.second else {}

    def seconds(self, spent: Spent) -> float:
        return spent.training() if spent.amount.second else 0.0

    def beside(self, frame: Frame, networks: Networks) -> list[str]:
        models = [spec.model for stage, spec in networks if SECOND in stage.arms]
        if models:
            mixers = " and ".join(dict.fromkeys(mixer.kind for mixer in models[0].mixers))
            return [f"a second network, from random weights, is of {mixers}; validation chooses between them"]
        wanted = defaults.KINDS[frame.known.kind].second and frame.settings.leaves_mixer
        return [f"the time leaves too few steps for a second network, of {SECOND}"] if wanted else []

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {SECOND: "network of convolutions, from random weights"}
