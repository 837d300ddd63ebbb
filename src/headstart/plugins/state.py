"""What loaded code holds now: whether anything was set since, and what else a plugin changed while it was loaded."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.cells import BOXES, Contents, data_text

DEEPEST = 5
"""Classes and functions within one another that are looked into."""


def live_state(modules: Iterable[types.ModuleType]) -> dict[str, str]:
    """What modules, their classes and functions hold, by name: data and objects of theirs by content, all else by which
    object it is.
    """
    out: dict[str, str] = {}
    for module in modules:
        _note(out, (module.__name__,), module, module.__name__, Contents("plugin"))
    return out


def _note(out: dict[str, str], path: tuple[str, ...], value: Any, module: str, contents: Contents) -> None:
    """Note what a value is under its path, and what is inside of it under paths of their own."""
    key = ".".join(path)
    out[key], _held[id(value)] = f"object {id(value)}", value
    data = vars(value) if isinstance(value, types.SimpleNamespace) else value
    with suppress(BadInput):
        if type(value).__module__ == module or type(data) in BOXES or data_text(data) is not None:
            out[key] = contents.digest(data, key, key)
    for name, inner in _inside(value, module) if len(path) <= DEEPEST else ():
        _note(out, (*path, name), inner, module, contents)


def _inside(value: Any, module: str) -> Iterator[tuple[str, Any]]:
    """What the module, or a class or function that it defines, holds beside its text."""
    if isinstance(value, types.FunctionType) and value.__module__ == module:
        yield from ((f"default {i}", x) for i, x in enumerate(value.__defaults__ or ()))
        yield from (value.__kwdefaults__ or {}).items()
        yield from vars(value).items()
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((name, cell.cell_contents) for name, cell in cells if cell != types.CellType())
    elif isinstance(value, (types.ModuleType, type)) and vars(value).get("__module__", value.__name__) == module:
        for name, x in list(vars(value).items()):
            if isinstance(x, types.FunctionType) or not re.fullmatch("__.*__|_abc_impl|source_digest", name):
                yield name, x


_held: dict[int, Any] = {}  # an id is that of one object as long as the object lives


def surroundings() -> dict[str, Any]:
    """What other code rests on: settings of torch, and the functions and classes of headstart and torch, by name."""
    import torch

    from headstart.models.model import torch_settings

    out = torch_settings()
    names = [name for name in list(sys.modules) if name.startswith("headstart.")]
    owners: list[Any] = [sys.modules[name] for name in (*names, "torch", "torch.nn.functional")]
    owners += [x for owner in owners for x in vars(owner).values() if isinstance(x, type) and _is_core(x)]
    for owner in (*owners, torch.Tensor, torch.nn.Module):
        label = owner.__name__ if isinstance(owner, types.ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
        for name, value in list(vars(owner).items()):
            if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
                out[f"{label}.{name}"] = id(value)
    return out


def _is_core(cls: type) -> bool:
    return str(cls.__module__).startswith("headstart.")
