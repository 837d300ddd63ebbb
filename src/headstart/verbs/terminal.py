"""The terminal, and the folders that a command writes to. Foreign text is escaped by being Text, never markup."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from headstart import disk
from headstart.atomic import check_place, disk_full, refused
from headstart.errors import (
    LINE_ENDS,
    NO_MEMORY,
    NO_PROCESSES,
    BadInput,
    Damaged,
    DiskFull,
    first_line,
    lacks_memory,
    lacks_processes,
)
from headstart.store.files import IDENTITY
from headstart.text import broken, column_widths, escaped, listed

if TYPE_CHECKING:
    from headstart.api import Study
    from headstart.tasks.task import TaskSpec


class _Door(Console):
    """A console to which no character of a text comes that a terminal would act on: it is shown as an escape."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders it, with what it draws itself (colours, the cursor of a live display) as it is; without the
        blanks at the end of lines, which a terminal that is made narrower shows as lines of their own."""
        blanks: list[Segment] = []
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
                continue
            text = escaped(segment.text)
            if rest := text.rstrip(" "):
                yield from () if rest.startswith("\n") else blanks
                blanks = []
                yield segment._replace(text=rest)
            blanks.append(segment._replace(text=text[len(rest) :]))


def console(*, stderr: bool = False) -> Console:
    """Standard output (or error); lines are not wrapped where it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 200
    return _Door(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


AnyText = TypeVar("AnyText", str, Text)
PEEKED = 2**16
"""Bytes at either end of a file that are looked at before it is replaced."""
FRAMED_ROWS = 100
"""Rows above which a table is aligned lines without a frame: rich takes more than half a millisecond for each."""
LONGEST_CELL = 500
"""Characters of a cell or of an item of a list: a name of a stranger's file may have a million."""


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()) -> RenderableType:
    """A table for the terminal's width; columns whose number is in `right` are aligned right.

    Words stay whole: where the terminal is too narrow for that, the last columns are left out, and a note names them.
    """
    heads = [_cut(head) for head in heads]
    cells = [[_cut(cell) if isinstance(cell, Text) else _cut(str(cell)) for cell in row] for row in rows]
    texts = [[cell.plain if isinstance(cell, Text) else cell for cell in row] for row in cells]
    room = console().width
    widths = column_widths([[head, *(row[i] for row in texts)] for i, head in enumerate(heads)], room)
    absent = list(heads[len(widths) :])
    note = f"Left out in {room} columns: {listed(absent)}." if absent else ""
    if len(texts) > FRAMED_ROWS:
        form = " ".join(f"{{:{'>' if i in right else '<'}{width}}} " for i, width in enumerate(widths))
        lines = [form.format(*(" ".join(cell.split()) for cell in row)).rstrip() for row in [heads, *texts]]
        return Segments(Segment(f" {line}\n") for line in [*lines, *filter(None, [note])])
    out = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=Text(note) if note else None, caption_justify="left")
    for i, (head, width) in enumerate(zip(heads, widths, strict=False)):
        out.add_column(Text(head), justify="right" if i in right else "left", overflow="fold", width=width)
    for row in cells:
        shown = zip(row, widths, strict=False)
        out.add_row(*(Text(broken(cell, width)) if isinstance(cell, str) else cell for cell, width in shown))
    return out


def hanging(item: object, mark: str = "  - ") -> Table:
    """An item of a list, whose further lines stand under its first."""
    grid = Table.grid()
    grid.add_row(Text(mark), Text(_cut(str(item), sum(LINE_ENDS))))
    return grid


def _cut(text: AnyText, most: int = LONGEST_CELL) -> AnyText:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def writable_file(option: str, name: str) -> Path:
    """The file that an option names. Raises: BadInput where it cannot be written, before anything is done for it."""
    path = Path(name)
    if not name or os.path.isdir(path) or not os.path.isdir(path.absolute().parent):
        raise BadInput(f"{option}: {name!r} is not a file in an existing folder")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BadInput(f"{option}: {str(path.absolute().parent)!r} cannot be written; name another folder")
    check_place(path)
    return path


def check_replaceable(
    option: str, path: Path, words: Sequence[str], files: Iterable[Path] = (), store: Path | None = None
) -> None:
    """Look at the file that an option names, before it is written.

    words: are all in the beginning or the end of each such file that headstart wrote. files: that are read. store: in
    whose folders of stages nothing may be written.
    Raises: BadInput where it is one of these files, would be in a stage's folder, or is there and not of headstart.
    """
    check_place(path)
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
        if (task := planned.spec.task) is not None and task not in tasks:
            tasks.append(task)
    for task in tasks:
        with suppress(BadInput, OSError):
            yield from () if task.generated else task.files(study.data)


def writable_folder(option: str, name: str | Path) -> Path:
    """The folder, made where it is not there. Raises: BadInput naming the option where it cannot be used."""
    folder = Path(name)
    try:
        disk.make_folder(folder)
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
    lines = str(BadInput(message)).splitlines()  # not too long, whatever it quotes
    for line in lines or [""]:  # a command to paste stands alone
        sys.stderr.write(f"{'' if line.startswith('  headstart ') else 'headstart: '}{escaped(line)}\n")
    machine = disk_full(error) or lacks_memory(error) or message == NO_PROCESSES
    return 1 if machine else int(getattr(error, "exit_code", 2))


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
        return str(DiskFull(getattr(error, "filename", None) or ""))
    if isinstance(error, OSError) and error.filename is not None:
        return refused(error)
    if lacks_processes(str(error)):
        return NO_PROCESSES
    if lacks_memory(error):
        return f"{NO_MEMORY} ({first_line(error, typed=True)})"
    if not hasattr(error, "format_message"):
        return None
    text = str(error.format_message())  # a word of the command line is off, and typer says which
    faults = getattr(error.__cause__, "errors", None)  # of pydantic, whose text lacks the value
    return text.replace("Input should", f"{faults()[0]['input']!r} should") if faults else text
