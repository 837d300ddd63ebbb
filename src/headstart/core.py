"""The door to the research core: what `fit`, `serve` and `estimator` ask of studies, stages and networks, and no more.

A name is imported from its home when it is first asked for, so that what needs one does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headstart.checkpoints.folder import Folder
    from headstart.models.model import Network
    from headstart.plugins import kinds_allowed, load_plugins, own_networks, plugins_of
    from headstart.training.answers import Predictor
    from headstart.training.saved import NetworkSpec

__all__ = [
    "Folder",
    "Network",
    "NetworkSpec",
    "Predictor",
    "kinds_allowed",
    "load_plugins",
    "own_networks",
    "plugins_of",
]

_HOMES = {
    "Folder": "checkpoints.folder",
    "Network": "models.model",
    "NetworkSpec": "training.saved",
    "Predictor": "training.answers",
    "kinds_allowed": "plugins",
    "load_plugins": "plugins",
    "own_networks": "plugins",
    "plugins_of": "plugins",
}


def __getattr__(name: str) -> Any:
    """The name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headstart.core' has no attribute {name!r}")
    return getattr(import_module(f"headstart.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Names that are imported late are there, too."""
    return sorted({*globals(), *__all__})
