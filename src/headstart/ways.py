"""Ways out, as messages name them: options to somebody at a command line, arguments to somebody in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

OPTIONS = {"shape": "--layout", "time": "--time-column"}
"""Options of fields of a layout, where they are not `--` and the field's name."""
LISTS = ("values", "na")
"""Fields of a layout that hold several words."""
SETTINGS = ("channels_first", "ends", "header", "per_position", "symbols", "time_axis")
"""Fields of a layout without an option: on the command line they are set as `name=value`."""
WORDS_WAY = "write words that are symbols in a row each (id, position, word), or as a list a row in .jsonl"

_typed: ContextVar[tuple[str, ...] | None] = ContextVar("typed", default=None)
_python: ContextVar[bool] = ContextVar("python", default=False)
_labels: ContextVar[str] = ContextVar("labels", default="labels")


@contextmanager
def typed(words: Sequence[str]) -> Iterator[None]:
    """Within it questions complete these words of the command line."""
    token = _typed.set(tuple(words))
    try:
        yield
    finally:
        _typed.reset(token)


@contextmanager
def in_python(yes: bool = True, labels: str = "") -> Iterator[None]:
    """Within it messages name arguments of Python; labels: the one that holds these."""
    token, name = _python.set(yes or _python.get()), _labels.set(labels or _labels.get())
    try:
        yield
    finally:
        _python.reset(token)
        _labels.reset(name)


def labels_argument() -> str:
    """The argument that holds labels: `labels`, of an estimator `y`."""
    return _labels.get()


def argument(name: str) -> str:
    """How a setting of a fit is named: `--serve`, in Python `serve`."""
    return name if _python.get() else f"--{name.replace('_', '-')}"


def again(more: str = "") -> str:
    """How a fit goes on that was cut short; more: what to give more of."""
    whole = "fit again (where `store` names a folder, it goes on)" if _python.get() else "give the same command again"
    return f"{whole}, with more {more}" if more else whole


def option(field: str, *values: str) -> str:
    """How a field of a layout is set: `--na n/a`, in Python `layout={'na': ['n/a']}`; its name alone without values."""
    if _python.get():
        return _argument({field: values}) if values else f"layout={{{field!r}: ...}}"
    if field in SETTINGS:
        return f"{field}={values[0]}" if values else field
    name = OPTIONS.get(field, f"--{field.replace('_', '-')}")
    return " ".join(f"{name} {_quoted(value)}" for value in values) or name


def field_name(field: str) -> str:
    """How a mistake in a field or setting is begun: `--target` of a command that was typed, else `target`."""
    return field if _typed.get() is None or _python.get() else option(field)


def settings(fields: Mapping[str, str | Sequence[str]]) -> str:
    """How several fields are set together: `--id a --time-column t`, in Python `layout={'id': 'a', 'time': 't'}`."""
    values = {field: (value,) if isinstance(value, str) else tuple(value) for field, value in fields.items()}
    return _argument(values) if _python.get() else " ".join(option(field, *words) for field, words in values.items())


def asked(question: str, *ways: Mapping[str, str | Sequence[str]]) -> str:
    """A question, and below it each answer: the whole command, ready to paste, or the argument of Python."""
    words = _typed.get()
    begun = "" if _python.get() else f"headstart {shlex.join(words)} " if words else "headstart fit FILE "
    return "\n".join([f"{question}; give one of these:", *(f"  {begun}{settings(way)}" for way in ways)])


def typed_again(source: object, other: object) -> str:
    """The command that was typed, of another source."""
    words = [str(other) if word == str(source) else word for word in _typed.get() or ("fit", str(source))]
    return f"headstart {shlex.join(words)}"


def _quoted(value: str) -> str:
    """As a shell takes it; a mark alone stands in quotes, so that it is seen."""
    return shlex.quote(value) if value.strip(".,:-") else f"'{value}'"


def _argument(fields: Mapping[str, Sequence[str]]) -> str:
    values = {field: list(words) if field in LISTS else _plain(words[0]) for field, words in fields.items()}
    return f"layout={values!r}"


def _plain(word: str) -> str | bool | int:
    return int(word) if word.isdecimal() and word.isascii() else {"true": True, "false": False}.get(word, word)
