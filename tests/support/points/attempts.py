"""A command in a fork of this process, with the k-th operation on the disk disturbed."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import io
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from support.points.trackers import stand_in

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
    process: int = 0
    """Among whose operations it is counted: the command's own, or those of its first worker, its second and so on."""


class Change(NamedTuple):
    """An operation as a watch wrote it down: its kind, the file, whether it can be cut, and which process did it."""

    kind: str
    file: str
    divisible: bool
    process: int = 0


@dataclass
class Attempt:
    """How a command ended: its exit code, what it printed, and what the watch of its operations wrote down."""

    code: int
    text: str
    lines: list[str] = field(default_factory=list)

    @property
    def operations(self) -> list[Change]:
        """As `Disturbance` writes them; those of each process together."""
        rows = [line.split("\t") for line in self.lines]
        changes = [Change(kind, name, cut == "1", int(process)) for kind, name, cut, process in rows]
        return sorted(changes, key=lambda change: change.process)


class Disturbance:
    """Counts the operations, writes each down, and disturbs the one that is wanted."""

    def __init__(self, log: int, point: Point | None, process: int = 0) -> None:
        self.log, self.point, self.number, self.owner = log, point, 0, os.getpid()
        self.process = process

    def __call__(self, operation: Any, act: Callable[[], Any], part: Callable[[], Any] | None) -> Any:
        if os.getpid() != self.owner:  # a process of the command's own
            return act()
        number, self.number = self.number, self.number + 1
        file = operation.file
        name = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.path.abspath(file)
        name = name.removesuffix(" (deleted)")  # and put back since
        os.write(self.log, f"{operation.kind}\t{name}\t{int(part is not None)}\t{self.process}\n".encode())
        if self.point is None or (self.process, number) != (self.point.process, self.point.number):
            return act()
        fault = self.point.fault
        if fault == "cut short" and part is not None:
            part()
        elif fault == "killed after":
            act()
        elif (refusal := FAULTS[fault]) is not None:
            raise OSError(refusal, os.strerror(refusal), *([] if isinstance(file, int) else [name]))
        if self.process:
            os.kill(self.owner, signal.SIGKILL)
        os._exit(KILLED)

    def close(self) -> None:
        """The command has ended."""


class Worker:
    """A worker as `subprocess.Popen` starts one, but a fork, which has imported everything; its operations are counted
    apart."""

    watch: Disturbance
    """Of the command."""
    count = 0

    def __init__(
        self, command: Sequence[str], *, stdout: Any, pass_fds: Sequence[int], env: Mapping[str, str], **_: Any
    ) -> None:
        del command
        Worker.count += 1
        self.pid = os.fork()
        if self.pid:
            return
        try:
            from headstart import disk
            from headstart.runner.local import serve

            os.dup2(stdout.fileno(), 1)
            os.dup2(stdout.fileno(), 2)
            os.environ |= env
            with disk.watched(Disturbance(self.watch.log, self.watch.point, Worker.count)):
                serve(pass_fds[0], os.getppid())
        finally:
            os._exit(70)

    def kill(self) -> None:
        """As of `subprocess.Popen`."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """As of `subprocess.Popen`; how long it takes is the command's limit of time."""
        del timeout
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Notes:
    """A tracker whose files need no library: a line for each thing that it is told."""

    def __init__(self, folder: Path, study: str) -> None:
        self.folder, self.study = folder, study

    def _note(self, *words: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "notes.jsonl").open("a") as file:
            file.write(json.dumps(words) + "\n")

    def begin(self, stage: Any, step: int) -> None:
        self._note("begin", stage.identity, step)

    def record(self, identity: str, step: int, values: Mapping[str, float]) -> None:
        self._note("record", identity, step, values)

    def end(self, identity: str, status: str, values: Mapping[str, float]) -> None:
        self._note("end", identity, status, values)

    def close(self) -> None:
        pass


TRACKER = "tracker's "
"""Of the kinds of operations: what a tracker is asked for. Its library writes files as it likes meanwhile."""


def _watched(tracker: type[Any]) -> None:
    """Make each call of a tracker an operation."""
    from headstart import disk

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *words: Any) -> Any:
            return disk._perform(f"{TRACKER}{method.__name__}", self.folder, lambda: method(self, *words))

        return call

    for name in ("begin", "record", "end", "close"):
        setattr(tracker, name, counted(getattr(tracker, name)))


@functools.cache
def made_ready() -> None:
    """Import what commands need, once, and leave out what takes long and writes nothing: drawing (a report has one
    figure, always the same), an ONNX graph and its comparison (the extra is not needed), and building the command line anew. A fit has steps of one time, however busy the machine:
    its plan follows from that."""
    import typer.main

    from headstart import cli
    from headstart.fit import budget
    from headstart.report import page
    from headstart.report.figures.style import Drawing
    from headstart.runner.events import StepTime
    from headstart.serve import onnx
    from headstart.stage import fitted, read, trained
    from headstart.store import claim, saving
    from headstart.study.language import estimate
    from headstart.tracking import TRACKERS
    from headstart.verbs.pulse import Pulse

    drawings = vars(page)["drawings"]
    vars(page)["drawings"] = lambda *words: (drawings(*words)[0][:1], [])
    Drawing.figure = lambda *_, **__: object()  # type: ignore[assignment, method-assign]
    Drawing.files = _files  # type: ignore[assignment, method-assign]
    Drawing.on_page = lambda *_: None  # type: ignore[method-assign]
    vars(estimate)["measure"] = lambda costs, _, speed, *__: (list(costs), speed)
    measured = vars(budget)["step_times"]
    vars(budget)["step_times"] = lambda *words: [(planned, StepTime(0.01, 0.001)) for planned, _ in measured(*words)]
    ready = {"check_extra": None, "graph_of": b"graph", "answers_of": None, "compared": (0.0, ((1, 1),))}
    vars(onnx).update({name: lambda *_, value=value: value for name, value in ready.items()})
    TRACKERS["notes"] = Notes
    stand_in()
    for tracker in TRACKERS.values():
        _watched(tracker)
    whole = typer.main.get_command(cli.app)
    typer.main.get_command = lambda _: whole  # type: ignore[assignment]
    saving.SaveTimes.due = lambda *_: True  # type: ignore[method-assign]
    for module in (fitted, read, trained):  # what a process took before, it cannot help
        vars(module)["peak_memory"] = lambda _: 1
    vars(claim)["datetime"] = SimpleNamespace(now=lambda zone: datetime(2026, 1, 1, tzinfo=zone))
    Pulse._beat = lambda *_: None  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    gc.disable()


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
    seconds: int = 180,
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
    code, watching = 70, None
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
        from headstart.runner import local

        watching = watch(os.open(log, os.O_WRONLY | os.O_APPEND))
        if isinstance(watching, Disturbance):
            Worker.watch = watching
            vars(local)["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": Worker})
        with disk.watched(watching):
            cli.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        if isinstance(watching, Disturbance) and watching.owner == os.getpid():
            watching.close()
        os._exit(code)


UNCHANGING = ("sync", "lock")
"""Kinds of operations after which the files are as before: where the machine goes on, a kill before and after are alike."""


def of_process(operations: Sequence[Change], process: int) -> list[Change]:
    """Those of the command itself, or of a worker."""
    return [change for change in operations if change.process == process]


def points_of(operations: Sequence[Change]) -> Iterator[Point]:
    """Every operation with every fault that it can have."""
    for process in sorted({change.process for change in operations}):
        for number, change in enumerate(of_process(operations, process)):
            for fault in FAULTS:
                if fault != "cut short" or change.divisible:
                    yield Point(number, fault, process)


def alike(point: Point, operations: Sequence[Change]) -> bool:
    """Whether a kill leaves the files as another one does, before or after an operation that is earlier or later."""
    own = of_process(operations, point.process)
    last = point.number == len(own) - 1
    if point.fault == "killed after":
        return not last or own[point.number].kind in UNCHANGING
    before = own[point.number - 1].kind if point.number else ""
    return point.fault == "killed before" and before in UNCHANGING
