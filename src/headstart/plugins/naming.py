"""`kind = "module:Class"` where a person says it: on the command line and in Python, never in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headstart.plugins.load import load_class

_CLASS = r"""["']?([\w./-]+:[^\W\d]\w*)["']?"""
_KIND = re.compile(rf"""(?<=kind)(["']?\s*=\s*){_CLASS}""")


def with_kinds(given: Any) -> Any:
    """A study's table, or a `name=value` word, in which classes have been registered and stand by their kinds.

    Raises: BadInput where a class cannot be had.
    """
    if isinstance(given, str):
        return _word(given)
    if isinstance(given, Mapping):
        return {key: _kind(key, value) for key, value in given.items()}
    return [with_kinds(item) if isinstance(item, (Mapping, list)) else item for item in given]


def _kind(key: Any, value: Any) -> Any:
    if key == "kind" and isinstance(value, str) and ":" in value:
        return load_class(value, "kind")
    return with_kinds(value) if isinstance(value, (Mapping, list)) else value


def _word(word: str) -> str:
    path, equals, value = word.partition("=")
    if path.strip().split(".")[-1] == "kind":
        return path + equals + re.sub(_CLASS, lambda hit: json.dumps(load_class(hit[1], path.strip())), value)
    return path + equals + _KIND.sub(lambda hit: hit[1] + json.dumps(load_class(hit[2], path.strip())), value)
