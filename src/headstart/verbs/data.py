"""A person's own data on the command line: the options that say how a file is to be read, and its data card."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headstart.errors import BadInput

if TYPE_CHECKING:
    from headstart.data import LayoutSpec
    from headstart.data.card import Card

OPTIONS = {
    "target": ("--target", "NAME", "Column of the target: its name, or its position in a file without a header."),
    "id": ("--id", "NAME", "Column of the ids."),
    "time": ("--time-column", "NAME", "Column of the time: of each position of a long table, else of each sequence."),
    "group": ("--group", "NAME", "Column of the subject that several rows may share."),
    "values": ("--values", "NAME", "A column of the sequence, or a run such as 't*' (repeatable)."),
    "shape": ("--layout", "SHAPE", "wide, text, list or long."),
    "kind": ("--kind", "KIND", "numbers, text, dna, protein or tokens."),
    "target_kind": ("--target-kind", "KIND", "Whether the target is a class or a number."),
    "na": ("--na", "WORD", "A word for a missing value (repeatable)."),
    "delimiter": ("--delimiter", "MARK", "The character that separates cells."),
    "decimal": ("--decimal", "MARK", "Of numbers: '.' or ','."),
    "quote": ("--quote", "MARK", "The character that quotes cells; '' for none."),
    "encoding": ("--encoding", "NAME", "Of a text file (utf-8)."),
}
"""Field of `LayoutSpec` -> option, metavar and help. The spec is slow to import, and `--help` answers at once."""
REPEATED = ("values", "na")


def layout_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `layout` of a verb, a mapping from field to value, by one option per field."""
    fields = {f"layout_{name}": name for name in OPTIONS}

    @functools.wraps(verb)
    def wrapper(**values: Any) -> None:
        layout = {name: values.pop(parameter) for parameter, name in fields.items()}
        verb(layout=layout, **values)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        if parameter.name != "layout":
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        for own, name in fields.items():
            option, metavar, text = OPTIONS[name]
            kind: Any = list[str] | None if name in REPEATED else str | None
            annotation = Annotated[kind, typer.Option(option, metavar=metavar, help=text)]
            parameters.append(
                inspect.Parameter(own, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            )
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def layout_of(flags: Mapping[str, Any], settings: Sequence[str] = ()) -> LayoutSpec:
    """The layout that options and `name=value` settings describe; what is None was not given.

    Raises: BadInput naming the setting that is wrong.
    """
    from headstart.data import LayoutSpec
    from headstart.spec import read
    from headstart.study.language.scales import parse_override

    options = {name: value for name, value in flags.items() if value is not None}
    fields = dict(options)
    for word in settings:
        name, value = parse_override(word)
        fields[name.removeprefix("layout.")] = value
        options.pop(name.removeprefix("layout."), None)
    try:
        return read(LayoutSpec, fields, name="layout")
    except BadInput as error:  # what was typed as an option is named as it was typed
        text = str(error)
        for name in options:
            text = re.sub(rf"^layout\.{name}\b", OPTIONS[name][0], text, flags=re.MULTILINE)
        raise BadInput(text) from None


def show_file(path: str, flags: Mapping[str, Any], settings: Sequence[str]) -> None:
    """`headstart show FILE`: the data card."""
    from headstart.data import read_sequences
    from headstart.data.card import data_card

    print_card(data_card(read_sequences(Path(path), layout_of(flags, settings))))


def print_card(card: Card) -> None:
    """A data card. Its texts come from files of others: none is markup, and control characters are spelt out."""
    from rich.table import Table
    from rich.text import Text

    from headstart.data.card import CHANNELS, CLASSES
    from headstart.verbs.terminal import console, hanging, table

    out = console()
    grid = Table.grid(padding=(0, 2))
    for name, text in card.head:
        grid.add_row(Text(name), Text(text))
    out.print(grid)
    for heads, rows in ((CLASSES, card.classes), (CHANNELS, card.channels)):
        if rows:
            out.print(table(heads, rows, right=range(1, len(heads))))
    out.print(Text("worth a look:" if card.findings else "\nnothing looks wrong"))
    for finding in card.findings:
        out.print(hanging(finding, "- "))


def show_cache(task: str | None, listed: bool, clear: bool) -> None:
    """`headstart prepare --list` and `--clear`: what the cache of prepared data holds, or held until now."""
    from rich.text import Text

    from headstart.data.prepared import cache_entries, cache_folder, clear_cache
    from headstart.verbs.terminal import console, table

    if task is not None or (listed and clear):
        raise BadInput("prepare: give one of a task, --list and --clear")
    folder, entries, out = cache_folder(), clear_cache() if clear else cache_entries(), console()
    total = _megabytes(sum(entry.size for entry in entries))
    if listed and entries:
        rows = [
            (entry.name, _megabytes(entry.size), f"{datetime.fromtimestamp(entry.time):%Y-%m-%d}") for entry in entries
        ]
        out.print(table(("prepared data", "size", "built on"), rows, right=[1]))
    verb = "removed" if clear else "in all"
    out.print(Text(f"{folder}: {len(entries):,} prepared data set{'' if len(entries) == 1 else 's'}, {total} {verb}"))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
