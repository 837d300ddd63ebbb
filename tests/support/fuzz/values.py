"""Other values in a document that stays one: what damage of bytes seldom reaches, behind its parser and its digest."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

HUGE = int("9" * 400)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**63, HUGE, -HUGE, 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan")),
    *(
        "",
        " ",
        "nan",
        "../../etc",
        "/dev/zero",
        "a\0b",
        "\x1b[2J",
        "\u202egnp",
        "=1+1",
        "{0.__class__}",
        "<b>&amp;",
        "x" * 10_000,
    ),
    *([], {}, [[]], [None], {"": None}, {"kind": "os:system"}, list(range(1000))),
)
"""What stands for a value. A document of JSON may hold any number."""


DEEP = "lists in 5000 lists"
"""Is written as them."""


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value."""
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def changed_value(document: Any, random: Random) -> Any:
    """A copy in which one to three values are others, lack, stand twice, or have another name."""
    out = json.loads(json.dumps(document))
    for _ in range(random.randint(1, 3)):
        ways = list(places(out))
        if not ways:
            break
        # As often near the root as deep in a long list.
        depth = random.randint(1, max(map(len, ways)))
        *above, key = random.choice([way for way in ways if len(way) == depth])
        owner = out
        for part in above:
            owner = owner[part]
        how = random.randrange(8)
        if how == 0:
            del owner[key]
        elif how == 1 and isinstance(owner, dict):
            owner[str(random.choice(ODD))[:50]] = owner.pop(key)
        elif how == 2 and isinstance(owner, list):
            owner.insert(0, owner[key])
        elif how == 3:
            owner[key] = DEEP
        elif how == 4 and isinstance(owner[key], (int, float)) and not isinstance(owner[key], bool):
            owner[key] = owner[key] * random.choice((-1, 10, 10**6, 10**12)) + random.choice((0, 1, 0.5))
        else:
            owner[key] = copy.deepcopy(random.choice(ODD))  # a shared list could come into itself
    return out


def text_of(document: Any, dumped: Callable[[Any], str] = json.dumps) -> bytes:
    """As JSON, or as `dumped` writes it."""
    return dumped(document).replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000).encode()
