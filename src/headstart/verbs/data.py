"""A person's own data on the command line: how a file is to be read, and its data card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headstart.errors import BadInput
from headstart.verbs.options import LayoutOptions, option_name

if TYPE_CHECKING:
    from headstart.data import Card, LayoutSpec


def layout_of(flags: LayoutOptions, settings: Sequence[str] = ()) -> LayoutSpec:
    """The layout that options and `name=value` settings describe; what is None was not given.

    Raises: BadInput naming the setting that is wrong.
    """
    from headstart.data import LayoutSpec
    from headstart.spec import read
    from headstart.study.language.scales import parse_override

    options = {name: value for name, value in vars(flags).items() if value is not None}
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
            text = re.sub(rf"^layout\.{name}\b", option_name(LayoutOptions, name), text, flags=re.MULTILINE)
        raise BadInput(text) from None


def show_file(path: str, flags: LayoutOptions, settings: Sequence[str]) -> None:
    """`headstart show FILE`: the data card."""
    from headstart.data import data_card, read_sequences

    print_card(data_card(read_sequences(Path(path), layout_of(flags, settings))))


def print_card(card: Card) -> None:
    """A data card. Its texts come from files of others: none is markup, and control characters are spelt out."""
    from rich.table import Table
    from rich.text import Text

    from headstart.verbs.terminal import console, hanging, table

    out = console()
    grid = Table.grid(padding=(0, 2))
    for name, text in card.head:
        grid.add_row(Text(name), Text(text))
    out.print(grid)
    for heads, rows in card.tables:
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
