"""The terminal, and the folders that a command writes to. Foreign text is escaped by being Text, never markup."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headstart.errors import BadInput


def console(*, stderr: bool = False) -> Console:
    """Standard output (or error); lines are not wrapped where it is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 200
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", right: Sequence[int] = ()) -> Table:
    """A plain table; columns whose number is in `right` are aligned right."""
    out = Table(box=SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False)
    for i, head in enumerate(heads):
        # An id is there to be copied: it stays whole in a narrow terminal.
        out.add_column(Text(head), justify="right" if i in right else "left", overflow="fold", no_wrap=head == "id")
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return out


def writable_folder(option: str, name: str | Path) -> Path:
    """The folder, made where it is not there. Raises: BadInput naming the option where it cannot be used."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{option}: {str(folder)!r} cannot be made ({error.strerror}); name another folder") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"{option}: {str(folder)!r} cannot be written; name another folder")
    return folder
