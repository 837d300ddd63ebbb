"""A person's own data on the command line: the options that say how a file is to be read, and its data card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headstart.errors import BadInput

if TYPE_CHECKING:
    from headstart.data import LayoutSpec, Sequences

TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="Column of the target (its number without a header).")
]
IdOption = Annotated[str | None, typer.Option("--id", metavar="NAME", help="Column of the ids.")]
TimeOption = Annotated[
    str | None, typer.Option("--time-column", metavar="NAME", help="Column of the time, of a long table.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="Column of the subject that several rows may share.")
]
ValuesOption = Annotated[
    list[str] | None,
    typer.Option("--values", metavar="NAME", help="A column of the sequence, or a run such as 't*' (repeatable)."),
]
LayoutOption = Annotated[str | None, typer.Option("--layout", metavar="SHAPE", help="wide, text, list or long.")]
KindOption = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="numbers, text, dna, protein or tokens.")
]
NaOption = Annotated[
    list[str] | None, typer.Option("--na", metavar="WORD", help="A word for a missing value (repeatable).")
]
DelimiterOption = Annotated[str | None, typer.Option("--delimiter", metavar="MARK", help="What separates cells.")]
QuoteOption = Annotated[str | None, typer.Option("--quote", metavar="MARK", help="What quotes cells; '' for nothing.")]
EncodingOption = Annotated[str | None, typer.Option("--encoding", metavar="NAME", help="Of a text file (utf-8).")]


def layout_of(flags: Mapping[str, Any], settings: Sequence[str] = ()) -> LayoutSpec:
    """The layout that options and `name=value` settings describe; what is None was not given.

    Raises: BadInput naming the setting that is wrong.
    """
    from headstart.data import LayoutSpec
    from headstart.spec import read
    from headstart.study.spec import parse_override

    given = {name: value for name, value in flags.items() if value is not None}
    for word in settings:
        name, value = parse_override(word)
        given[name.removeprefix("layout.")] = value
    return read(LayoutSpec, given, place="layout")


def show_file(path: str, flags: Mapping[str, Any], settings: Sequence[str]) -> None:
    """`headstart show FILE`: the data card."""
    from headstart.data import read_sequences

    print_card(read_sequences(Path(path), layout_of(flags, settings)))


def print_card(sequences: Sequences) -> None:
    """A data card. Its texts come from files of others: none is markup, and control characters are spelt out."""
    from rich.table import Table
    from rich.text import Text

    from headstart.data.card import CHANNELS, CLASSES, data_card
    from headstart.verbs.terminal import console, table

    card, out = data_card(sequences), console()
    grid = Table.grid(padding=(0, 2))
    for name, text in card.head:
        grid.add_row(Text(name), Text(text))
    out.print(grid)
    for heads, rows in ((CLASSES, card.classes), (CHANNELS, card.channels)):
        if rows:
            out.print(table(heads, rows, right=range(1, len(heads))))
    out.print(Text("worth a look:" if card.findings else "\nnothing looks wrong"))
    for finding in card.findings:
        out.print(Text(f"- {finding}"))


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
