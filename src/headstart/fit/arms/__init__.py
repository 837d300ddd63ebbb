"""The table of arms: what a fit can train; a new one is one file and one line here."""

from __future__ import annotations

from headstart.errors import BadInput, nearest
from headstart.fit.arms.arm import LAST, Arm
from headstart.fit.arms.backbone import Frozen
from headstart.fit.arms.embedding import Features
from headstart.fit.arms.kernels import Kernels
from headstart.fit.arms.own import Own
from headstart.fit.arms.scratch import Scratch
from headstart.fit.arms.second import Second
from headstart.fit.arms.self_pretrained import SelfPretrained
from headstart.fit.arms.started import Started
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings
from headstart.serve.config import ENSEMBLE, NETWORK

ARMS: dict[str, Arm] = {
    "scratch": Scratch(),
    "self_pretrained": SelfPretrained(),
    "second": Second(),
    "own": Own(),
    "backbone": Frozen(),
    "started": Started(),
    "kernels": Kernels(),
    "embedding": Features(),
}
"""In the order of the study's table."""


def without_gradients() -> list[str]:
    """Names of the arms that are no networks."""
    return [name for arm in ARMS.values() if not arm.network for name in arm.names]


def foreign_arms() -> list[str]:
    """Names of the arms whose blocks are from elsewhere, and may be of any size."""
    return [name for arm in ARMS.values() if arm.foreign for name in arm.names]


def ranks() -> dict[str, int]:
    """Name of an arm -> its rank: of models with equal validation scores the lowest is taken."""
    order = sorted((arm for arm in ARMS.values() if arm.rank < LAST), key=lambda arm: arm.rank)
    return {name: rank for rank, name in enumerate(name for arm in order for name in arm.names)}


def check_names(settings: FitSettings) -> None:
    """Raises: BadInput for a model of a person's own with the name of an arm, and for what cannot be served."""
    names = ("auto", NETWORK, ENSEMBLE, *(name for arm in ARMS.values() for name in arm.names))
    for kind in settings.models:
        if kind in names:
            raise BadInput(f"plugin: a fit has an arm {kind!r} of its own; register the model under another name")
    arms = [
        arm for arm in ARMS.values() if arm.servable and (not arm.option or getattr(settings, arm.option) is not None)
    ]
    servable = ["auto", NETWORK, ENSEMBLE, *settings.own_arms, *(name for arm in arms for name in arm.names)]
    if settings.serve not in servable:
        raise BadInput(f"serve: {nearest(settings.serve, servable)}")


def check_served(settings: FitSettings, known: Known) -> None:
    """Raises: BadInput where an arm of a checkpoint is to be served that this one does not have."""
    asked = next((arm for arm in ARMS.values() if arm.option and settings.serve in arm.names), None)
    if asked is None:
        return
    if asked.weights(known) is None:
        others = [
            arm.names[0] for arm in ARMS.values() if arm.option == asked.option and arm.weights(known) is not None
        ]
        source = getattr(settings, asked.option)
        raise BadInput(f"serve: {settings.serve!r} is no arm of {source}; it has {others[0]!r}")
    if known.series is not None and not asked.network and not known.series.fits(settings.time):
        raise BadInput(f"serve: there is no time for {settings.serve!r}; give more --time, or a smaller model")
