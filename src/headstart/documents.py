"""JSON and TOML that others may have written: how deep they are, and the forms that they have.

A form says of a document which keys it has and of which type each value is. It is data: a `Leaf`; `[form]`, a list of
such values; `{"key": form, "key?": form, ANY: form}`, a table that has the first key, may have the second, and whose
other keys are of the last form (without it they are not looked at); `(form, None)`, a value that may be null.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headstart.errors import BadInput

DEEPEST_DOCUMENT = 100
"""Tables and lists inside each other; Python reads some hundred more before its stack ends."""
LARGEST_SQUARED = 1e150
"""Numbers beyond it, and whole ones, have squares that cannot be computed with."""
SHOWN_LETTERS = 40
"""Characters of a wrong value that a message shows."""
ANY = "*"
"""The key of a form that stands for all others."""

Form = Any


@dataclass(frozen=True)
class Leaf:
    """A value that holds no other: what it should be in words, and whether it is."""

    noun: str
    fits: Callable[[Any], bool]


def _is_number(value: Any, largest: float = LARGEST_SQUARED) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -largest <= value <= largest


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


NUMBER = Leaf(f"a number of at most {LARGEST_SQUARED:g}", _is_number)
SHARE = Leaf("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
LARGE_NUMBER = Leaf("a number of at most 1e302", lambda value: _is_number(value, 1e302))
WHOLE_NUMBER = Leaf("a whole number", lambda value: type(value) is int and -(2**63) <= value < 2**63)
COUNT = Leaf("a whole number of 0 or more", lambda value: type(value) is int and 0 <= value < 2**63)
TRUTH = Leaf("true or false", lambda value: isinstance(value, bool))
TEXT = Leaf("a text", _is_text)
INSTANT = Leaf("a time as 2026-11-28T10:18:44+00:00", _is_time)
NAME = Leaf("a name that can be printed", lambda value: isinstance(value, str) and value.isprintable() and value != "")
ANY_TABLE: Form = {}


def of_words(*words: str) -> Leaf:
    """One of these words."""
    return Leaf(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def from_json(text: str | bytes) -> Any:
    """What JSON says. Raises: ValueError where it is none, or is nested too deep."""
    return _shallow(json.loads, text)


def from_toml(text: str) -> dict[str, Any]:
    """What TOML says. Raises: ValueError where it is none, or is nested too deep."""
    if _LONG_KEY.search(text):  # tomllib would take minutes to read it
        raise ValueError(f"a key in it has more than {DEEPEST_DOCUMENT} parts")
    document: dict[str, Any] = _shallow(tomllib.loads, text)
    return document


def _shallow(read: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        document = read(text)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a number in it has too many digits") from None
        raise
    level = [document]
    for _ in range(DEEPEST_DOCUMENT):
        level = [inner for value in level if isinstance(value, (dict, list)) for inner in _inner(value)]
        if not level:
            return document
    raise ValueError(_DEEP)


_LONG_KEY = re.compile(
    rf"""(?:^|[\[{{,])[ \t]*(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{DEEPEST_DOCUMENT}}}""", re.MULTILINE
)
_DEEP = f"its brackets are nested more than {DEEPEST_DOCUMENT} deep"


def _inner(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def misfits(value: Any, form: Form, key: str = "") -> Iterator[str]:
    """What is wrong with a document of this form, each with its key: `scores.best.epoch: 'x' should be a number`."""
    if isinstance(form, tuple):
        if value is not None:
            yield from misfits(value, form[0], key)
    elif isinstance(form, Leaf):
        if not form.fits(value):
            yield _wrong(key, value, form.noun)
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield _wrong(key, value, "a list")
            return
        for number, item in enumerate(value):
            yield from misfits(item, form[0], f"{key}[{number}]")
    elif not isinstance(value, Mapping):
        yield _wrong(key, value, "a table")
    else:
        yield from _of_table(value, form, key)


def _of_table(table: Mapping[str, Any], form: Mapping[str, Form], key: str) -> Iterator[str]:
    head = f"{key}." if key else ""
    for name in form:
        if name != ANY and not name.endswith("?") and name not in table:
            yield f"{head}{name}: is missing"
    for name, value in table.items():
        inner = next((form[key] for key in (name, f"{name}?", ANY) if key in form), None)
        if inner is not None:
            if not TEXT.fits(name):
                yield _wrong(f"{head}{name}", name, "a text")
            yield from misfits(value, inner, f"{head}{name}")


def _wrong(key: str, value: Any, noun: str) -> str:
    try:
        shown = repr(value)
    except ValueError:  # a number of more digits than Python writes
        shown = "a number of many digits"
    shown = shown if len(shown) <= SHOWN_LETTERS else f"{shown[:SHOWN_LETTERS]}..."
    return f"{key}: {shown} should be {noun}" if key else f"{shown} should be {noun}"


def as_json(value: Any) -> Any:
    """JSON material: keys as text, tuples as lists, numbers that JSON does not have (NaN, inf) as null."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def canonical(document: Any) -> bytes:
    """Sorted JSON without spaces: equal documents have equal bytes."""
    return sorted_json(as_json(document))


def sorted_json(document: Any) -> bytes:
    """Of JSON material. Raises: ValueError for a number that JSON does not have."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def parse_override(word: str) -> tuple[str, Any]:
    """`a.b=value` as (path, value); the value is TOML, and a bare word is text."""
    path, equals, text = (part.strip() for part in word.partition("="))
    if not equals or not all(name.strip() for name in path.split(".")):
        wrong = "lacks a name beside a dot" if equals and path else "is not name=value"
        if os.path.isfile(word):
            raise BadInput(
                f"override: {word!r} is one more file; name it with its option, such as --test, or leave it out"
            )
        raise BadInput(f"override: {word!r} {wrong} (for example finetune.optim.lr=[1e-4,3e-4])")
    try:
        return path, from_toml(f"value = {text}")["value"]
    except ValueError:
        if re.fullmatch(r"\.{0,2}/?[A-Za-z_][A-Za-z0-9_+\-()./]*", text):
            return path, text
        raise BadInput(f"override: {path}: {text!r} is not a TOML value; text needs quotes, a list brackets") from None


def as_tuples(value: Any) -> Any:
    """Lists of TOML and JSON, and those in them, as tuples; anything else as it is."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value
