"""A person's own data on the command line: how a file is to be read, and its data card."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.errors import BadInput
from headstart.verbs.options import LayoutOptions, option_name

if TYPE_CHECKING:
    from headstart.data import Card, LayoutSpec
    from headstart.data.layout import Decision


def layout_of(flags: LayoutOptions, settings: Sequence[str] = ()) -> LayoutSpec:
    """The layout that options and `name=value` settings describe; what is None was not given.

    Raises: BadInput naming the setting that is wrong.
    """
    from headstart.data import LayoutSpec
    from headstart.documents import parse_override
    from headstart.spec import read

    options = {name: value for name, value in vars(flags).items() if value is not None}
    if isinstance(options.get("rate"), float) and options["rate"].is_integer():
        options["rate"] = int(options["rate"])
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


COLUMNS = ("column", "taken for", "confidence", "why", "could also be", "set with")


SHAPES = {
    "wide": "a row per sequence",
    "text": "a text per sequence",
    "list": "a cell per sequence",
    "long": "a row per position",
}


def show_file(path: str, flags: LayoutOptions, settings: Sequence[str], json: bool = False) -> None:
    """`headstart show FILE`: the data card and what each column is taken for; json: the same to programs."""
    from headstart.data import data_card
    from headstart.data.sources import explained_sequences

    sequences, decisions = explained_sequences(Path(path), layout_of(flags, settings))
    card = data_card(sequences)
    if not json:
        return print_card(card, sequences.layout.shape, decisions)
    columns = [{**asdict(decision), "option": decision.option} for decision in decisions]
    document: dict[str, Any] = {
        "head": {name: text for name, text in card.head if name != "note"},
        "notes": [text for name, text in card.head if name == "note"],
        "shape": sequences.layout.shape,
        "columns": columns,
    }
    document |= {"findings": list(card.findings), "facts": card.facts}
    sys.stdout.write(dumps(document, indent=2) + "\n")


def _column_rows(shape: str, decisions: Sequence[Decision]) -> list[list[str]]:
    from headstart.data.text import printable

    rows = []
    for decision in decisions:
        column = printable(decision.column or "(the table)")
        if decision.last is not None:
            column += f" to {printable(decision.last)} ({decision.count:,})"
        role = f"{shape}: {SHAPES[shape]}" if decision.role == "shape" else decision.role or "not used"
        rows.append(
            [column, role, decision.confidence, printable(decision.why), ", ".join(decision.otherwise), decision.option]
        )
    return rows


def print_card(card: Card, shape: str = "", decisions: Sequence[Decision] = ()) -> None:
    """A data card, and what each column is taken for.

    Its texts come from files of others: none is markup, and control characters are spelt out.
    """
    from rich.table import Table
    from rich.text import Text

    from headstart.verbs.terminal import console, hanging, table

    out = console()
    grid = Table.grid(padding=(0, 2))
    for name, text in card.head:
        grid.add_row(Text(name), Text(text))
    out.print(grid)
    if decisions:
        out.print(table(COLUMNS, _column_rows(shape, decisions)))
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
