"""A study written back as TOML, overrides included: the file that a page's command reproduces it from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FIRST = ("name", "title", "paper", "scale", "scale_note")
OPENED = ("stages", "columns", "arms")
"""Tables whose members get a heading each; deeper ones are written inline, where a person can read them."""


def to_toml(document: Mapping[str, Any]) -> str:
    """TOML of a study's plain values (dict, list, text, numbers, booleans). None is left out, as in TOML."""
    lines = [f"{name} = {_value(document[name])}" for name in FIRST if document.get(name)]
    for name, value in document.items():
        if name in FIRST or not isinstance(value, Mapping):
            continue
        if name in OPENED:
            for member, settings in value.items():
                lines += ["", f"[{name}.{_key(member)}]", *_pairs(settings)]
        elif _pairs(value):
            lines += ["", f"[{name}]", *_pairs(value)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(k)} = {_value(v)}" for k, v in table.items() if v is not None]


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)


def _text(value: str) -> str:
    # JSON's escapes of text are TOML's too, except for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return text if any(c in text for c in ".en") else f"{text}.0"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pairs(value)) + " }" if _pairs(value) else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value if v is not None) + "]"
    raise TypeError(f"study: {type(value).__name__} has no form in TOML")
