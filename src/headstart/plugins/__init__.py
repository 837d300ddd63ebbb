"""Code of a person's own: mixers, tasks, models and objectives, whose identity is their source.

`identity.plugin_identity` says what code is; `load_plugins` runs it, from the very bytes that were hashed;
`register_mixer` and its siblings are what a plugin calls.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from headstart.plugins.load import (
    load_class,
    load_copy,
    load_plugins,
    own_kinds,
    own_networks,
    place_of,
    plugins_of,
    ready_plugin,
    register,
    require_plugins,
)
from headstart.plugins.modules import Plugin

__all__ = [
    "Plugin",
    "load_class",
    "load_copy",
    "load_plugins",
    "own_kinds",
    "own_networks",
    "place_of",
    "plugin_options",
    "plugins_of",
    "ready_plugin",
    "register_mixer",
    "register_model",
    "register_objective",
    "register_task",
    "require_plugins",
    "with_kinds",
    "word_with_kinds",
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


def plugin_options(value: Any, folder: str | os.PathLike[str]) -> str:
    """` --plugin FOLDER/my_mixer.py` for each plugin of a spec, whose sources lie in that folder."""
    return "".join(f" --plugin {folder}/{plugin.word}" for plugin in plugins_of(value))


def with_kinds(settings: Any) -> Any:
    """A study's table in which each `kind = "module:Class"` is registered and stands by its own kind.

    So a person names code in Python, and on the command line (`word_with_kinds`), never in a file.
    Raises: BadInput where a class cannot be had.
    """
    if isinstance(settings, Mapping):
        return {
            key: load_class(value, "kind") if key == "kind" and ":" in str(value) else with_kinds(value)
            for key, value in settings.items()
        }
    return [with_kinds(item) for item in settings] if isinstance(settings, list) else settings


def word_with_kinds(word: str) -> str:
    """The same for a `name=value` word of the command line."""
    path, equals, value = word.partition("=")
    before = "" if path.strip().split(".")[-1] == "kind" else r"""kind["']?\s*=\s*"""
    pattern = rf"""({before})["']?([\w./-]+:[^\W\d]\w*)["']?"""
    return path + equals + re.sub(pattern, lambda hit: hit[1] + json.dumps(load_class(hit[2], path.strip())), value)
