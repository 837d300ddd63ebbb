"""A command in a fork of this process, with the k-th operation on the disk disturbed."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KILLED = 137
FAULTS: dict[str, int | None] = {
    "killed before": None,
    "killed after": None,
    "cut short": None,
    "ENOSPC": errno.ENOSPC,
    "EIO": errno.EIO,
    "EACCES": errno.EACCES,
    "EMFILE": errno.EMFILE,
}
"""What happens to an operation, and the number of the error by which it is refused. Cut short: half of the bytes are
written, or half of the files deleted, and the process is killed."""


@dataclass(frozen=True)
class Point:
    """The operation of this number, from 0, and what happens to it."""

    number: int
    fault: str


@dataclass
class Attempt:
    """How a command ended: its exit code, what it printed, and what the watch of its operations wrote down."""

    code: int
    text: str
    lines: list[str] = field(default_factory=list)

    @property
    def operations(self) -> list[tuple[str, str, bool]]:
        """Kind, file, and whether it can be cut, as `Disturbance` writes them."""
        rows = [line.split("\t") for line in self.lines]
        return [(kind, name, cut == "1") for kind, name, cut in rows]


class Disturbance:
    """Counts the operations, writes each down, and disturbs the one that is wanted."""

    def __init__(self, log: int, point: Point | None) -> None:
        self.log, self.point, self.number, self.owner = log, point, 0, os.getpid()

    def __call__(self, operation: Any, act: Callable[[], Any], part: Callable[[], Any] | None) -> Any:
        if os.getpid() != self.owner:  # a process of the command's own
            return act()
        number, self.number = self.number, self.number + 1
        file = operation.file
        name = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.path.abspath(file)
        os.write(self.log, f"{operation.kind}\t{name}\t{int(part is not None)}\n".encode())
        if self.point is None or number != self.point.number:
            return act()
        fault = self.point.fault
        if fault == "cut short" and part is not None:
            part()
        elif fault == "killed after":
            act()
        elif (refusal := FAULTS[fault]) is not None:
            raise OSError(refusal, os.strerror(refusal), *([] if isinstance(file, int) else [name]))
        os._exit(KILLED)


@functools.cache
def made_ready() -> None:
    """Import what commands need, once, and leave out what takes long and writes nothing: drawing (a report has one
    figure, always the same), and building the command line anew. A fit has steps of one time, however busy the machine:
    its plan follows from that."""
    import typer.main

    from headstart import cli
    from headstart.fit import budget
    from headstart.report import page
    from headstart.report.figures.style import Drawing
    from headstart.runner.events import StepTime
    from headstart.store import saving

    drawings = vars(page)["drawings"]
    vars(page)["drawings"] = lambda *words: (drawings(*words)[0][:1], [])
    Drawing.figure = lambda *_, **__: object()  # type: ignore[assignment, method-assign]
    Drawing.files = _files  # type: ignore[assignment, method-assign]
    Drawing.on_page = lambda *_: None  # type: ignore[method-assign]
    measured = vars(budget)["step_times"]
    vars(budget)["step_times"] = lambda *words: [(planned, StepTime(0.01, 0.001)) for planned, _ in measured(*words)]
    whole = typer.main.get_command(cli.app)
    typer.main.get_command = lambda _: whole  # type: ignore[assignment]
    saving.SaveTimes.due = lambda *_: True  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()


def _files(drawing: Any, *_: Any, formats: Sequence[str] = ("png", "svg", "pdf")) -> dict[str, bytes]:
    """Of a figure, without drawing it."""
    return {f"{drawing.name}.{form}": form.encode() for form in formats}


def warmed(folder: Path, words: Sequence[str]) -> None:
    """Take the command once in this process, so that what is imported late is there in each fork."""
    before, streams = Path.cwd(), (sys.stdout, sys.stderr)
    cache = os.environ.get("HEADSTART_CACHE")
    try:
        os.chdir(folder)
        os.environ["HEADSTART_CACHE"] = str(folder / "cache")
        sys.stdout = sys.stderr = io.StringIO()
        from headstart import cli

        with contextlib.suppress(SystemExit):
            cli.main(list(words))
    finally:
        os.chdir(before)
        sys.stdout, sys.stderr = streams
        if cache is not None:
            os.environ["HEADSTART_CACHE"] = cache


def attempt(
    folder: Path,
    words: Sequence[str],
    point: Point | None = None,
    watch: Callable[[int], Any] | None = None,
    seconds: int = 60,
) -> Attempt:
    """`headstart WORDS` in a folder, in a fork; its operations are written down by a watch, which is made of the
    descriptor of its log."""
    made_ready()
    watch = functools.partial(Disturbance, point=point) if watch is None else watch
    log, printed = folder.parent / "operations", folder.parent / "printed"
    for file in (log, printed):
        file.write_bytes(b"")
    child = os.fork()
    if not child:
        _become(folder, words, watch, log, printed, seconds)
    status = os.waitpid(child, 0)[1]
    lines = log.read_text("utf-8", "replace").splitlines()
    return Attempt(os.waitstatus_to_exitcode(status), printed.read_text("utf-8", "replace"), lines)


def _become(
    folder: Path, words: Sequence[str], watch: Callable[[int], Any], log: Path, printed: Path, seconds: int
) -> None:
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        file = os.open(printed, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(n, "w", closefd=False), write_through=True) for n in (1, 2)
        )
        os.chdir(folder)
        os.environ |= {"HEADSTART_CACHE": str(folder / "cache"), "HEADSTART_WEIGHTS": str(folder / "weights")}
        from headstart import cli, disk

        with disk.watched(watch(os.open(log, os.O_WRONLY | os.O_APPEND))):
            cli.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


UNCHANGING = ("sync", "lock")
"""Kinds of operations after which the files are as before: where the machine goes on, a kill before and after are alike."""


def points_of(operations: Sequence[tuple[str, str, bool]]) -> Iterator[Point]:
    """Every operation with every fault that it can have."""
    for number, (_, _, divisible) in enumerate(operations):
        for fault in FAULTS:
            if fault != "cut short" or divisible:
                yield Point(number, fault)


def alike(point: Point, operations: Sequence[tuple[str, str, bool]]) -> bool:
    """Whether a kill leaves the files as another one does, before or after an operation that is earlier or later."""
    last = point.number == len(operations) - 1
    if point.fault == "killed after":
        return not last or operations[point.number][0] in UNCHANGING
    before = operations[point.number - 1][0] if point.number else ""
    return point.fault == "killed before" and before in UNCHANGING
