"""What makes a function a verb: its groups of options, streams that take all it prints, and no option given twice."""

from __future__ import annotations

import errno
import functools
import inspect
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer

from headstart.errors import BadInput

Verb = Callable[..., None]


def command(app: typer.Typer, name: str | None = None, *, lasting: bool = False) -> Callable[[Verb], Verb]:
    """A verb of the command line, whose parameters are its arguments, its options, and groups of options.

    A parameter whose type is a group (a dataclass of `options`) becomes an option per field, where it stands and in the
    order of the fields; the function gets them as one value. name: of the verb, where it is not the function's.
    lasting: does its work to the end, whether or not its output is read to the end.
    """

    def decorate(verb: Verb) -> Verb:
        app.command(name)(_with_groups(_lasting(verb) if lasting else verb))
        return verb

    return decorate


def _with_groups(verb: Verb) -> Verb:
    """The verb with a parameter for each field of its groups, as typer reads them."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            own = {"default": field.default, "annotation": hints[field.name]}
            name = f"{parameter.name}_{field.name}"
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **own))

    @functools.wraps(verb)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(f"{name}_{field.name}") for field in fields(group)})
        verb(**values)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _lasting(verb: Verb) -> Verb:
    """The verb, which goes on where nobody reads its output any more."""

    @functools.wraps(verb)
    def whole(**values: Any) -> None:
        output, errors = _Outlasting(sys.stdout), _Outlasting(sys.stderr)
        with redirect_stdout(output), redirect_stderr(errors):
            try:
                verb(**values)
            finally:
                output.flush()
                errors.flush()

    return whole


class _Outlasting:
    """A stream to which writing goes on when nobody reads it any more, as after `| head`; it goes nowhere then."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text))
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error)

    def _discard(self, error: OSError) -> None:
        """What is buffered, and all that comes, is written to the null device. Raises: an error of another cause."""
        if error.errno not in (errno.EPIPE, errno.EIO):  # the second: of a terminal that has been closed
            raise error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def open_streams() -> None:
    """Make the standard streams take whatever is printed: one that is closed loses it, as /dev/null does, and one that
    has no sign for a letter gets an escape for it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # it gets the lowest free number, this one, which no other file may have
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not what a test has put there
            stream.reconfigure(errors="backslashreplace")


def refuse_repeats(command: Any) -> Any:
    """The same command, which refuses an option of one value that is given twice: the last one would win unseen."""
    for inner in getattr(command, "commands", {}).values():
        refuse_repeats(inner)
    options = [p for p in command.params if p.param_type_name == "option"]
    single = [p for p in options if p.nargs == 1 and not p.multiple and not p.is_flag]
    parse = command.parse_args

    def checked(ctx: Any, args: list[str]) -> Any:
        words = [word.partition("=")[0] for word in args]
        for option in single:
            count = sum(words.count(name) for name in option.opts if name.startswith("-"))
            if count > 1:
                raise BadInput(f"{option.opts[0]}: is given {count} times; give it once")
        return parse(ctx, args)

    command.parse_args = checked
    return command
