"""Pools of slots in which work is done: this process, or persistent workers, each watched by itself over its own pipe.

A worker is a fresh interpreter, as with multiprocessing's `spawn`, but it never runs the caller's main module
again: a script without an `if __name__ == "__main__"` and a notebook work as well. What crosses the pipes is
pickled by one of our own processes for another; no file is ever read that way.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Any, Protocol

from headstart.limits import oom_kills
from headstart.runner.machine import interpreter, keep_freed_memory

Stop = Callable[[], str | None]
"""Asked by the work now and then: why it should save and stop, or None to go on."""

Work = Callable[[Any, Stop], Generator[Any, None, None]]
"""What is done with a job; yields messages. A function of a module, so that a worker can import it."""


@dataclass(frozen=True)
class WorkerMessage:
    """The work on the job `key` yielded `message`."""

    key: str
    message: Any


@dataclass(frozen=True)
class WorkerDone:
    """The work on the job `key` is over. `error`: the traceback of what it raised, or empty."""

    key: str
    error: str = ""


@dataclass(frozen=True)
class WorkerDied:
    """The worker at the job `key` is gone: `why` (a signal or an exit code) and its last words.

    lost: its whole machine is, which says nothing against the job.
    """

    key: str
    why: str
    tail: str
    lost: bool = False


WorkerReport = WorkerMessage | WorkerDone | WorkerDied


class Pool(Protocol):
    """Slots that do one job each; of local processes, or of a cluster."""

    @property
    def free(self) -> int:
        """Slots that have nothing to do."""

    @property
    def busy(self) -> int:
        """Slots that have a job."""

    def start(self, key: str, job: Any) -> None:
        """Give a free slot a job."""

    def wait(self, timeout: float) -> list[WorkerReport]:
        """What has come since the last call; waits at most so many seconds for the first."""

    def stop(self, reason: str) -> None:
        """Ask all work to save and stop."""

    def close(self) -> None:
        """End all work at once, whatever it does."""


FOR_MEMORY = "was killed by the system, as memory ran out (SIGKILL)"
"""Why a worker is gone that the kernel has killed to free memory, as the count of its control group says."""
_CODE = "from headstart.runner.local import serve; serve(*map(int, sys.argv[1:]))"
_JOB, _STOP = b"job:", b"stop:"  # heads of what the driver sends
_WATCH = 0.25  # seconds between looks at the driver; it may take at most 2 s to notice that it is gone
_TAIL = 2000  # bytes of a dead worker's last words that are kept
_BLOCKED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # a terminal or a scheduler sends these to the workers too


@contextlib.contextmanager
def signals_kept() -> Iterator[Iterable[int]]:
    """SIGINT, SIGTERM and SIGHUP, whose handlers are put back in the end; outside the main thread none: they cannot
    change. SIGHUP is not among them where it is ignored, as `nohup` asks.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _BLOCKED if main}
    if before.get(signal.SIGHUP) == signal.SIG_IGN:
        del before[signal.SIGHUP]
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Inline:
    """One slot in this process. `stop` is asked by the work itself.

    Raises: whatever the work raises.
    """

    def __init__(self, work: Work, stop: Stop) -> None:
        self._work, self._stop = work, stop
        self._key = ""
        self._running: Generator[Any, None, None] | None = None

    @property
    def free(self) -> int:
        """As `Pool`."""
        return int(self._running is None)

    @property
    def busy(self) -> int:
        """As `Pool`."""
        return 1 - self.free

    def start(self, key: str, job: Any) -> None:
        """Give the free slot a job."""
        self._key, self._running = key, self._work(job, self._stop)

    def wait(self, timeout: float) -> list[WorkerReport]:
        """Work until the next message, however long it takes."""
        if self._running is None:
            return []
        for message in self._running:
            return [WorkerMessage(self._key, message)]
        self._running = None
        return [WorkerDone(self._key)]

    def stop(self, reason: str) -> None:
        """Nothing to do: the work asks."""

    def close(self) -> None:
        """Leave the work where it is."""
        if self._running is not None:
            self._running.close()
            self._running = None


class Workers:
    """`count` worker processes, each started when there is a job for it; a dead one is replaced then too, but after one
    that was killed for memory there are half as many.

    environment: variables that they have besides this process's own.
    """

    def __init__(self, count: int, work: Work, threads: int, environment: Mapping[str, str] | None = None) -> None:
        self._count, self._slots = count, list[_Slot]()
        self._work = pickle.dumps(work)
        self._environment = {"OMP_NUM_THREADS": str(threads), **(environment or {})}

    @property
    def free(self) -> int:
        """As `Pool`."""
        return max(0, self._count - self.busy)

    @property
    def busy(self) -> int:
        """As `Pool`."""
        return sum(bool(slot.key) for slot in self._slots)

    def start(self, key: str, job: Any) -> None:
        """Give a free slot a job. A living worker is preferred: it has loaded the libraries and the task."""
        data = _JOB + pickle.dumps((key, job))
        for slot in [slot for slot in self._slots if not slot.key]:
            if slot.send(data):
                slot.key = key
                return
            self._drop(slot)
        slot = _Slot(self._work, self._environment)
        self._slots.append(slot)
        slot.key = key
        slot.send(data)  # if it has died already, `wait` says so

    def wait(self, timeout: float) -> list[WorkerReport]:
        """What workers have said since the last call; waits at most so many seconds for the first."""
        if not self._slots:
            time.sleep(timeout)
            return []
        ready = wait([slot.connection for slot in self._slots], timeout)
        out: list[WorkerReport] = []
        for slot in [slot for slot in self._slots if slot.connection in ready]:
            if slot in self._slots and not slot.receive(out):
                why, tail = self._drop(slot)
                if why == FOR_MEMORY:
                    self._halve()
                out += [WorkerDied(slot.key, why, tail)] if slot.key else []
        return out

    def _halve(self) -> None:
        """From here on half as many workers as were at work; those that wait keep memory, and end."""
        self._count = max(1, (self.busy + 1) // 2)
        for slot in [slot for slot in self._slots if not slot.key]:
            slot.process.kill()
            self._drop(slot)

    def stop(self, reason: str) -> None:
        """Ask all workers to save and stop."""
        for slot in self._slots:
            slot.send(_STOP + reason.encode())

    def close(self) -> None:
        """End all workers at once, whatever they do."""
        for slot in self._slots:
            slot.process.kill()
        for slot in list(self._slots):
            self._drop(slot)

    def _drop(self, slot: _Slot) -> tuple[str, str]:
        self._slots.remove(slot)
        return slot.reap()


class _Slot:
    """One worker process and the driver's end of its pipe; `key` is its job, or empty."""

    def __init__(self, work: bytes, environment: Mapping[str, str]) -> None:
        self.key, self._kills = "", oom_kills()
        self.connection, theirs = Pipe()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `reap`
        command = interpreter(_CODE, str(theirs.fileno()), str(os.getpid()))
        # Blocked over the start, so that no Ctrl-C falls between the birth of a worker and its `serve`.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **environment},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self.send(_JOB + work)

    def send(self, data: bytes) -> bool:
        """False if the worker is gone."""
        try:
            self.connection.send_bytes(data)
        except OSError:
            return False
        return True

    def receive(self, out: list[WorkerReport]) -> bool:
        """Read all that has come; False if the worker is gone."""
        try:
            while self.connection.poll():
                report = pickle.loads(self.connection.recv_bytes())  # noqa: S301 - from our own process
                out.append(report)
                if isinstance(report, WorkerDone):
                    self.key = ""
        except (EOFError, OSError):
            return False
        return True

    def reap(self) -> tuple[str, str]:
        """Wait for the end of a worker that is ending (or end it); why, and its last words."""
        self.connection.close()
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL))
        tail = self._log.read().decode("utf-8", errors="replace").strip()
        self._log.close()
        if code >= 0:
            return f"ended with exit code {code}", tail
        kills = oom_kills()
        if code == -signal.SIGKILL and self._kills is not None and kills is not None and kills > self._kills:
            return FOR_MEMORY, tail
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}", tail
        return f"was killed by signal {-code}", tail


def serve(file: int, driver: int) -> None:
    """The main function of a worker: does jobs until the driver closes the pipe or dies."""
    for number in _BLOCKED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
    _die_with(driver)
    keep_freed_memory()
    faulthandler.enable()
    connection: Connection[Any, Any] = Connection(file)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reason: list[str] = []
    threading.Thread(target=_listen, args=(connection, inbox, reason), daemon=True).start()
    work: Work = pickle.loads(inbox.get())  # noqa: S301 - from the driver
    while True:
        key, job = pickle.loads(inbox.get())  # noqa: S301 - from the driver
        try:
            for message in work(job, lambda: reason[0] if reason else None):
                _send(connection, WorkerMessage(key, message))
            _send(connection, WorkerDone(key))
        except Exception:
            _send(connection, WorkerDone(key, traceback.format_exc()))


def _send(connection: Connection[Any, Any], report: WorkerReport) -> None:
    try:
        connection.send_bytes(pickle.dumps(report))
    except OSError:
        os._exit(1)  # the driver is gone


def _listen(connection: Connection[Any, Any], inbox: queue.SimpleQueue[bytes], reason: list[str]) -> None:
    """Take what the driver sends. Jobs are unpickled elsewhere: that imports libraries for seconds."""
    try:
        while True:
            data = connection.recv_bytes()
            if data.startswith(_STOP):
                reason.append(data.removeprefix(_STOP).decode())
            else:
                inbox.put(data.removeprefix(_JOB))
    except (EOFError, OSError):
        os._exit(1)


def _die_with(driver: int) -> None:
    """End this process when the driver is gone, even in the midst of a long operation."""
    if sys.platform == "linux":
        # The kernel's own watch, for a library that holds the interpreter's lock for seconds. (It follows the
        # thread that started us; where that one ends before its process, the worker counts as lost.)
        pdeathsig = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(pdeathsig, int(signal.SIGKILL))

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
