"""Perform stages: parents first, skip what is complete, resume what is partial, go on past failures.

Which stage goes first is told in `agenda.py`.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from headstart.runner.agenda import Agenda
from headstart.runner.events import (
    Event,
    Failed,
    Finished,
    Held,
    Notice,
    Progress,
    Skipped,
    Started,
    Stopped,
    StopReason,
)
from headstart.runner.job import Engine, Job, Runtime, training
from headstart.runner.local import Died, Inline, Report, Said, Stop, Workers
from headstart.runner.machine import choose_device
from headstart.runner.worker import perform_one
from headstart.store.files import Damaged
from headstart.store.stages import Store

__all__ = [
    "Engine",
    "Event",
    "Failed",
    "Finished",
    "Held",
    "Interrupted",
    "Notice",
    "Progress",
    "Runtime",
    "Skipped",
    "Started",
    "Stopped",
    "perform",
]

_LOOK = 0.2  # seconds between two looks at signals and the clock
_HELD_AGAIN = 0.5  # seconds until a stage that another process holds is looked at again
_GRACE = 10.0  # seconds that workers have to save after the first Ctrl-C
_TRIES = 2  # times that a stage is given to a worker, where a signal kills it


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came; what ran has been saved, and the same command goes on. Exit code 130."""


def perform(stages: Iterable[Any], store: Store, runtime: Runtime, engine: Engine | None = None) -> Iterator[Event]:
    """Do all stages (each with `name`, `spec`, `identity`; in the plan's order) and say how it goes.

    A stage that fails or diverges does not end the run; those that start from it are not tried, and said so.
    A stage that another process is at is waited for.
    Raises: BadInput where the runtime cannot be had; Interrupted after Ctrl-C, when all is saved.
    """
    choose_device(runtime.device)
    engine = engine or training()
    agenda = Agenda(_jobs(stages, engine, runtime.data), store)
    with _signals() as interruption:
        run = _Run(agenda, store, runtime, engine, interruption)
        try:
            yield from run.events()
        finally:
            run.pool.close()
    if interruption.count and agenda.left:
        raise Interrupted(f"interrupted; {agenda.left} of {len(agenda.jobs)} stages are left")


def _jobs(stages: Iterable[Any], engine: Engine, data: Path) -> list[Job]:
    out: dict[str, Job] = {}
    for stage in stages:
        parent = stage.spec.parent
        source = None if parent is None else engine.identity(parent, data)
        out.setdefault(stage.identity, Job(stage.name, stage.identity, stage.spec, source))
    return list(out.values())


def work(job: tuple[Job, Path, Runtime, Engine], stop: Stop) -> Generator[Event, None, None]:
    """What a worker does with what it is given: `perform_one`, with the store by its folder."""
    stage, root, runtime, engine = job
    return perform_one(stage, Store(root), runtime, engine, stop)


class _Run:
    """One call of `perform`: gives jobs to the pool and turns what comes back into events."""

    def __init__(
        self, agenda: Agenda, store: Store, runtime: Runtime, engine: Engine, interruption: _Interruption
    ) -> None:
        self._agenda, self._store, self._runtime, self._engine = agenda, store, runtime, engine
        self._interruption = interruption
        self._end = None if runtime.limit is None else time.monotonic() + runtime.limit
        self._deaths: dict[str, int] = {}
        self._said_held: set[str] = set()
        self._slots = max(1, runtime.workers)
        self.pool: Inline | Workers = (
            Workers(runtime.workers, work, runtime.threads) if runtime.workers else Inline(work, self.reason)
        )

    def reason(self) -> StopReason | None:
        """Why all should save and stop now, or None."""
        if self._interruption.count:
            return "interrupted"
        return "limit" if self._end is not None and time.monotonic() >= self._end else None

    def events(self) -> Iterator[Event]:
        """To the end, or until `reason`."""
        while self._agenda.left:
            if reason := self.reason():
                yield from self._wind_down(reason)
                return
            for job, why in self._agenda.hopeless():
                yield Failed(job.identity, job.name, f"not tried: {why}", tried=False)
            yield from self._fill()
            if self.pool.busy:
                for report in self.pool.wait(_LOOK):
                    yield from self._take(report)
            elif self._agenda.left:
                time.sleep(_LOOK / 2)

    def _fill(self) -> Iterator[Event]:
        """Give every free slot a stage; what is complete already is passed over at once."""
        while self.pool.free and (job := self._agenda.take(self._slots // 2)) is not None:
            result = self._complete(job)
            if result is not None:
                self._agenda.end(job.identity, result["status"])
                yield Skipped(job.identity, job.name, result)
            elif self._store.status(job.identity) == "running":
                yield from self._hold(job)
            else:
                self.pool.start(job.identity, (job, self._store.root, self._runtime, self._engine))

    def _complete(self, job: Job) -> dict[str, Any] | None:
        """The result of a stage that is done and sound; a damaged one is left to who claims it."""
        try:
            result = self._store.result(job.identity)
        except Damaged:
            return None
        if result is None or self._store.problem(job.identity) is not None:
            return None
        self._store.tidy(job.identity)
        return result

    def _hold(self, job: Job) -> Iterator[Event]:
        self._agenda.put_back(job.identity, _HELD_AGAIN)
        if job.identity not in self._said_held:
            self._said_held.add(job.identity)
            yield Held(job.identity, job.name)

    def _take(self, report: Report) -> Iterator[Event]:
        job = self._agenda.jobs[report.key]
        if isinstance(report, Said):
            event = report.message
            if isinstance(event, Held):
                yield from self._hold(job)
                return
            if isinstance(event, (Finished, Skipped)):
                self._agenda.end(job.identity, event.result["status"])
            elif isinstance(event, Failed):
                self._agenda.end(job.identity, "failed")
            elif isinstance(event, Stopped):
                self._agenda.put_back(job.identity)
            yield event
        elif isinstance(report, Died):
            if self._agenda.is_running(job.identity):
                yield from self._died(job, report)
        elif self._agenda.is_running(job.identity):
            error = report.error or "the work ended without a result"
            yield self._give_up(job, error.strip().splitlines()[-1], error)

    def _died(self, job: Job, report: Died) -> Iterator[Event]:
        """The first time the stage is tried again, in a new worker; the second time it has failed."""
        deaths = self._deaths[job.identity] = self._deaths.get(job.identity, 0) + 1
        message = f"its worker {report.why}"
        if "SIGKILL" in report.why:
            message += " (by the system if memory ran out: fewer --workers then)"
        if self.reason():
            self._agenda.put_back(job.identity)
        elif deaths < _TRIES:
            self._agenda.put_back(job.identity)
            yield Notice(job.identity, job.name, f"{message}; it is tried once more")
        else:
            yield self._give_up(job, f"{message}, twice", report.tail)

    def _give_up(self, job: Job, message: str, details: str) -> Event:
        with self._store.claim(job.identity, job.document) as folder:
            if folder is not None:
                folder.fail(message, details)
        self._agenda.end(job.identity, "failed")
        return Failed(job.identity, job.name, message)

    def _wind_down(self, reason: StopReason) -> Iterator[Event]:
        """Let what runs save; what has not after the time of grace is ended and keeps its last state."""
        self.pool.stop(reason)
        end = time.monotonic() + _GRACE
        while self.pool.busy and time.monotonic() < end:
            for report in self.pool.wait(_LOOK):
                yield from self._take(report)


class _Interruption:
    """How often Ctrl-C or SIGTERM came."""

    count = 0


@contextlib.contextmanager
def _signals() -> Iterator[_Interruption]:
    """The first Ctrl-C or SIGTERM is counted, the second raises KeyboardInterrupt at once.

    Outside the main thread signals cannot be taken over; they keep their meaning there.
    """
    interruption = _Interruption()

    def count(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a handler
        interruption.count += 1
        if interruption.count > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
