"""The table of arms: what a fit can train; a new one is one file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstart.errors import BadInput, nearest
from headstart.request.settings import FitSettings
from headstart.serve.config import ENSEMBLE, NETWORK
from headstart.spec import Entry
from headstart.ways import argument, field_name

if TYPE_CHECKING:
    from headstart.fit.arms.arm import Arm
    from headstart.fit.basis import Basis


def _arm(path: str, summary: str) -> Entry:
    return Entry(f"headstart.fit.arms.{path}", summary)


ARMS: dict[str, Entry] = {
    "scratch": _arm("scratch:ScratchArm", "the network from random weights, which others are held against"),
    "self_pretrained": _arm("self_pretrained:SelfPretrainedArm", "the same network, self-pretrained on the sequences"),
    "second": _arm("second:SecondArm", "a second network, of another mixer"),
    "own": _arm("own:OwnArm", "whole models of a person's own, from --plugin"),
    "backbone": _arm("backbone:BackboneArm", "the frozen layers of a checkpoint (--backbone) under a trained head"),
    "tuned": _arm("backbone:TunedArm", "the same layers, whose norms and input layer train too"),
    "started": _arm("started:StartedArm", "a network from another model's weights (--start)"),
    "kernels": _arm("kernels:KernelsArm", "models without gradients: kernels or n-grams, summaries, the majority"),
    "embedding": _arm("embedding:EmbeddingArm", "frozen features of a model of series (--backbone), without gradients"),
}
"""In the order of the study's table."""


def arms() -> dict[str, Arm]:
    """Each arm, by its name in the table."""
    return {name: line.load()() for name, line in ARMS.items()}


def without_gradients() -> list[str]:
    """Names of the models that are no networks."""
    return [name for arm in arms().values() if not arm.network for name in arm.names]


def foreign_arms() -> list[str]:
    """Names of the models whose blocks are from elsewhere, and may be of any size."""
    return [name for arm in arms().values() if arm.foreign for name in arm.names]


def constant_names() -> list[str]:
    """Names of the models that answer every sequence alike."""
    return [arm.constant for arm in arms().values() if arm.constant]


def ranks() -> dict[str, int]:
    """Name of a model -> its rank: of models with equal validation scores the lowest is taken."""
    ranked = sorted((arm for arm in arms().values() if arm.rank is not None), key=lambda arm: arm.rank or 0)
    return {name: rank for rank, name in enumerate(name for arm in ranked for name in arm.names)}


def check_names(settings: FitSettings) -> None:
    """Raises: BadInput for a model of a person's own with the name of an arm, and for what cannot be served."""
    table = arms().values()
    for kind in settings.models:
        if kind in ("auto", NETWORK, ENSEMBLE, *(name for arm in table for name in arm.names)):
            raise BadInput(f"plugin: a fit has a model {kind!r} of its own; register the model under another name")
    for arm in table:
        arm.check(settings)
    servable = [
        name
        for arm in table
        if arm.servable and (not arm.option or getattr(settings, arm.option) is not None)
        for name in arm.names_for(settings)
    ]
    if settings.serve not in ("auto", NETWORK, ENSEMBLE, *servable):
        raise BadInput(f"{field_name('serve')}: {nearest(settings.serve, ['auto', NETWORK, ENSEMBLE, *servable])}")


def check_served(settings: FitSettings, basis: Basis) -> None:
    """Raises: BadInput where an arm of a checkpoint is to be served that this one does not have."""
    from headstart.fit.arms.arm import Offer

    asked = next((arm for arm in arms().values() if arm.option and settings.serve in arm.names), None)
    if asked is None:
        return
    if not asked.wanted(basis, settings):
        others = [arm.names[0] for arm in arms().values() if arm.option == asked.option and arm.wanted(basis, settings)]
        source = getattr(settings, asked.option)
        raise BadInput(f"{field_name('serve')}: {settings.serve!r} is no model of {source}; it has {others[0]!r}")
    if not asked.network and asked.lacks(Offer(basis, settings)):
        way = f"give more {argument('time')}, or a smaller model"
        raise BadInput(f"{field_name('serve')}: there is no time for {settings.serve!r}; {way}")
