"""Values and lists in words: what specs say of themselves, and every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def plain(value: Any) -> str:
    """A setting's value in words: numbers short, tables by their `kind`."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        rest = [f"{k}={plain(v)}" for k, v in value.items() if k not in ("kind", "version")]
        head = str(value.get("kind", ""))
        return f"{head}({', '.join(rest)})" if rest else head
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(plain(v) for v in value) + "]"
    return str(value)


def listed(items: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def percent(share: float) -> str:
    """`50 %`."""
    return f"{100 * share:.0f} %"


def many(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
