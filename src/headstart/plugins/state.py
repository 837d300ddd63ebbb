"""What loaded code holds now: whether anything was set since, and what else a plugin changed while it was loaded."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.cells import BOXES, Contents, data_text


def live_state(modules: Iterable[types.ModuleType]) -> dict[str, str]:
    """What modules and their classes hold, by name: data by their content, all else by which object it is."""
    contents, out = Contents("plugin"), {}
    for module in modules:
        own = [x for x in vars(module).values() if isinstance(x, type) and x.__module__ == module.__name__]
        for owner in (module, *own):
            for name, value in list(vars(owner).items()):
                if re.fullmatch("__.*__|_abc_impl|source_digest", name) and not isinstance(value, types.FunctionType):
                    continue
                key = f"{module.__name__}.{getattr(owner, '__qualname__', '')}.{name}"
                try:
                    is_data = type(value) in BOXES or data_text(value) is not None
                    out[key] = contents.digest(value, key, name) if is_data else f"object {id(value)}"
                except BadInput:
                    out[key] = f"object {id(value)}"
                _held[id(value)] = value
    return out


_held: dict[int, Any] = {}  # an id is that of one object as long as the object lives


def surroundings() -> dict[str, Any]:
    """What other code rests on: settings of torch, and the functions and classes of headstart and torch, by name."""
    import torch

    out: dict[str, Any] = {
        "torch's default type of numbers": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "torch's precision of matrix products": torch.get_float32_matmul_precision(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch's number of threads": torch.get_num_threads(),
    }
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
