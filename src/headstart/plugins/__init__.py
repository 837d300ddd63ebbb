"""Code of a person's own: mixers, tasks, models and objectives, whose identity is their source.

`identity.plugin_identity` says what code is; `load_plugins` runs it, from the very bytes that were hashed;
`register_mixer` and its siblings are what a plugin calls.
"""

from __future__ import annotations

from typing import Any

from headstart.plugins.identity import Plugin
from headstart.plugins.load import (
    kinds_allowed,
    load_class,
    load_copy,
    load_networks,
    load_plugins,
    own_kinds,
    own_networks,
    place_of,
    plugins_of,
    ready_plugin,
    register,
    require_plugins,
)

__all__ = [
    "Plugin",
    "kinds_allowed",
    "load_class",
    "load_copy",
    "load_networks",
    "load_plugins",
    "own_kinds",
    "own_networks",
    "place_of",
    "plugins_of",
    "ready_plugin",
    "register_mixer",
    "register_model",
    "register_objective",
    "register_optimizer",
    "register_schedule",
    "register_task",
    "require_plugins",
]


def register_mixer(name: str, spec: type[Any]) -> None:
    """Make a subclass of `headstart.models.mixers.mixer.MixerSpec` the mixer `name`."""
    register("mixer", name, spec)


def register_task(name: str, spec: type[Any]) -> None:
    """Make a subclass of `headstart.tasks.TaskSpec` the task `name`."""
    register("task", name, spec)


def register_model(name: str, spec: type[Any]) -> None:
    """Make a spec of a whole model the model `name`."""
    register("model", name, spec)


def register_objective(name: str, spec: type[Any]) -> None:
    """Make a subclass of `headstart.objectives.ObjectiveSpec` the objective `name`."""
    register("objective", name, spec)


def register_optimizer(name: str, spec: type[Any]) -> None:
    """Make a subclass of `headstart.training.optim.OwnOptimSpec` the optimiser `name`."""
    register("optimizer", name, spec)


def register_schedule(name: str, spec: type[Any]) -> None:
    """Make a subclass of `headstart.training.schedules.ScheduleSpec` the schedule `name`."""
    register("schedule", name, spec)
