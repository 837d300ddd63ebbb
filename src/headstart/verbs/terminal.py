"""The terminal, and the folders that a command writes to. Foreign text is escaped by being Text, never markup."""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from headstart.errors import BadInput, DiskFull
from headstart.store import Damaged, disk_full
from headstart.store.files import IDENTITY
from headstart.text import broken, column_widths, escaped, listed

if TYPE_CHECKING:
    from headstart.api import Study
    from headstart.tasks.task import TaskSpec


class _Door(Console):
    """A console to which no character of a text comes that a terminal would act on: it is shown as an escape."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders it, with what it draws itself (colours, the cursor of a live display) as it is."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def console(*, stderr: bool = False) -> Console:
    """Standard output (or error); lines are not wrapped where it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 200
    return _Door(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


PEEKED = 2**16
"""Bytes at either end of a file that are looked at before it is replaced."""
MANY = 200
"""Rows from which on those that are plain are laid out here: rich takes a millisecond for each."""


@dataclass(frozen=True)
class PlainTable:
    """A table as rich prints it, laid out for the width that it is given.

    Words stay whole: where the terminal is too narrow for that, the last columns are left out, and a note names them.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Text]]
    right: Sequence[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [[cell if isinstance(cell, str) else cell.plain for cell in row] for row in self.rows]
        widths = column_widths(
            [[head, *(row[i] for row in texts)] for i, head in enumerate(self.heads)], options.max_width
        )
        if len(texts) < MANY or not all(self._fits(row, widths) for row in self.rows):
            yield self._rich(widths, self.rows, options.max_width)
            return
        empty, first = (
            console.render_lines(self._rich(widths, self.rows[:count], options.max_width), options, pad=False)
            for count in (0, 1)
        )
        head = next(i for i, lines in enumerate(zip(empty, first, strict=False)) if lines[0] != lines[1])
        form = " ".join(f"{{:{'>' if i in self.right else '<'}{width}}} " for i, width in enumerate(widths))
        for line in empty[:head]:
            yield from (*line, Segment.line())
        for row in texts:
            yield Segment(f" {form.format(*row)} \n")
        for line in empty[head:]:
            yield from (*line, Segment.line())

    def _fits(self, row: Sequence[str | Text], widths: Sequence[int]) -> bool:
        """Whether each cell is one line of plain letters that its column has room for."""
        cells = zip(row, widths, strict=False)
        return all(isinstance(c, str) and len(c) <= width and c.isascii() and c.isprintable() for c, width in cells)

    def _rich(self, widths: Sequence[int], rows: Sequence[Sequence[str | Text]], room: int) -> Table:
        absent = list(self.heads[len(widths) :])
        out = Table(
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption=Text(f"Left out in {room} columns: {listed(absent)}.") if absent else None,
            caption_justify="left",
        )
        for i, (head, wide) in enumerate(zip(self.heads, widths, strict=False)):
            out.add_column(Text(head), justify="right" if i in self.right else "left", overflow="fold", width=wide)
        for row in rows:
            cells = zip(row, widths, strict=False)
            out.add_row(*(Text(broken(cell, wide)) if isinstance(cell, str) else cell for cell, wide in cells))
        return out


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()) -> PlainTable:
    """A plain table; columns whose number is in `right` are aligned right."""
    return PlainTable(heads, [[cell if isinstance(cell, Text) else str(cell) for cell in row] for row in rows], right)


def hanging(item: object, mark: str = "  - ") -> Table:
    """An item of a list, whose further lines stand under its first."""
    grid = Table.grid()
    grid.add_row(Text(mark), Text(str(item)))
    return grid


def writable_file(option: str, name: str) -> Path:
    """The file that an option names. Raises: BadInput where it cannot be written, before anything is done for it."""
    path = Path(name)
    if not name or os.path.isdir(path) or not os.path.isdir(path.absolute().parent):
        raise BadInput(f"{option}: {name!r} is not a file in an existing folder")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BadInput(f"{option}: {str(path.absolute().parent)!r} cannot be written; name another folder")
    return path


def check_replaceable(
    option: str, path: Path, words: Sequence[str], files: Iterable[Path] = (), store: Path | None = None
) -> None:
    """Look at the file that an option names, before it is written.

    words: are all in the beginning or the end of each such file that headstart wrote. files: that are read. store: in
    whose folders of stages nothing may be written.
    Raises: BadInput where it is one of these files, would be in a stage's folder, or is there and not of headstart.
    """
    inside = path.absolute().parent.resolve()
    if store is not None and inside.parent == store.absolute().resolve() and IDENTITY.fullmatch(inside.name):
        raise BadInput(f"{option}: {str(path)!r} would be written into the folder of a stage; name another file")
    if not path.is_file():
        return
    if any(file.is_file() and path.samefile(file) for file in files):
        raise BadInput(f"{option}: {str(path)!r} is a file that is read; name another one")
    if path.stat().st_size <= len("[]\n"):
        return
    with (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rb") as file, suppress(OSError, EOFError):
        text = file.read(PEEKED)
        text += b"" if isinstance(file, gzip.GzipFile) else file.read()[-PEEKED:]
        if all(word.encode() in text for word in words):
            return
    raise BadInput(f"{option}: {str(path)!r} is there, and headstart did not write it; name another file, or remove it")


def study_files(study: Study) -> Iterator[Path]:
    """The files that a study reads: its own, and those of its tasks that are at hand."""
    yield Path(study.source or ".")
    tasks: list[TaskSpec] = []  # a list: a task with a list of settings has no hash
    for planned in study.plan.every_stage.values():
        if planned.spec.uses("task") and (task := planned.spec.task) not in tasks:
            tasks.append(task)
    for task in tasks:
        with suppress(BadInput, OSError):
            yield from () if task.generated else task.files(study.data)


def writable_folder(option: str, name: str | Path) -> Path:
    """The folder, made where it is not there. Raises: BadInput naming the option where it cannot be used."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if disk_full(error):
            raise DiskFull(folder) from None
        raise BadInput(f"{option}: {str(folder)!r} cannot be made ({error.strerror}); name another folder") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"{option}: {str(folder)!r} cannot be written; name another folder")
    return folder


def print_error(error: Exception) -> int | None:
    """Say on standard error what is wrong and what to do: the exit code; None where headstart itself is at fault."""
    if type(error).__name__ == "NoArgsIsHelpError":  # no verb: its message is the help
        sys.stderr.write(f"{error}\n")
        return 2
    if (message := _message(error)) is None:
        return None
    sys.stderr.write("".join(f"headstart: {escaped(line)}\n" for line in message.splitlines() or [""]))
    return 1 if disk_full(error) else int(getattr(error, "exit_code", 2))


def _message(error: Exception) -> str | None:
    """What is wrong and what to do about it; None where headstart itself is at fault."""
    if isinstance(error, BadInput):
        return str(error)
    if isinstance(error, Damaged):
        return f"{error}; `headstart run` of its study does a damaged stage anew"
    loaded = sys.modules.get("headstart.plugins")  # imported here it would cost verbs that need no plugin their time
    if loaded is not None and (at := loaded.place_of(error)):
        return f"{at}{type(error).__name__}: {error}"
    if disk_full(error):
        return str(DiskFull())
    if isinstance(error, OSError) and error.filename is not None:
        name = re.sub(
            r"\.([^/]+)\.[0-9a-f]{16}\.tmp$", r"\1", str(error.filename)
        )  # a file is written beside its place first
        return f"{name}: {error.strerror}; give access there, or name another folder"
    # A word of the command line is off: typer's own message says which.
    return error.format_message() if hasattr(error, "format_message") else None
