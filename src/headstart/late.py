"""Names of a module that are imported from their homes when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module; homes: name -> its module, without `headstart.`.

    So `headstart --help` need not wait for torch, and names that were not asked for yet are completed in a notebook.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(f"headstart.{homes[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return load, names
