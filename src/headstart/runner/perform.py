"""Perform stages: parents first, skip what is complete, resume what is partial, go on past failures.

Which stage goes first is decided in `job.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import FrameType
from typing import Any

from headstart.errors import NO_PROCESSES, BadInput, Damaged, lacks_processes
from headstart.plugins import plugins_of, ready_plugin
from headstart.runner import events
from headstart.runner.events import Event, StepTime, StopReason
from headstart.runner.job import Agenda, Engine, Job, Probe, Runtime, training
from headstart.runner.local import (
    FOR_MEMORY,
    Inline,
    Pool,
    Stop,
    WorkerDied,
    WorkerMessage,
    WorkerReport,
    Workers,
    signals_kept,
)
from headstart.runner.machine import gpus
from headstart.runner.ranks import RankProcesses, check_ranks, follows, take_part_as_launched
from headstart.runner.stacks import Stacks, too_large
from headstart.runner.worker import never, perform_one, perform_stack, time_one
from headstart.store import Store
from headstart.store.files import tidy
from headstart.training.distributed import joined

_LOOK = 0.2  # seconds between two looks at signals and the clock
_LOOK_AGAIN = 0.5  # seconds until a stage that another process has claimed is looked at again
_GRACE = 10.0  # seconds that workers have to save after the first Ctrl-C
_ECHO = 1.0  # seconds in which torchrun passes on the Ctrl-C that the terminal has sent us too
_TRIES = 2  # times that a stage is given to a worker, where a signal kills it
_MACHINES = 5  # times that a stage is given to a machine, where each is lost under it


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP came; what ran has been saved, and the same command goes on. Exit code 130."""


def perform(
    stages: Iterable[Any],
    store: Store,
    runtime: Runtime,
    engine: Engine | None = None,
    probes: Mapping[str, Any] | None = None,
) -> Iterator[Event]:
    """Do all stages (each with `name`, `spec`, `identity`; in the plan's order) and report how it goes.

    A stage that fails or diverges does not end the run; those that start from it are not tried, and reported as such.
    A stage that another process is at is waited for. probes: kind -> spec, of which steps are timed first, but not on
    a cluster, whose machines may differ. Where torchrun has started this process as another than rank 0, it takes part
    in what that one does, and yields nothing.
    Raises: BadInput where the runtime cannot be had, the store leads elsewhere (`Store.check`), or a stack does not fit
    into memory; Interrupted after Ctrl-C, when all is saved.
    """
    devices = [] if runtime.on else gpus(runtime.device)
    engine = engine or training()
    jobs = _jobs(stages, engine, runtime.data)
    store.check(job.identity for job in jobs)
    check_ranks(runtime, jobs)
    if follows(runtime):
        return take_part_as_launched(runtime)
    devices = [] if runtime.ranks > 1 else devices  # each rank takes its own
    cells = [plugin.name for job in jobs for plugin in job.plugins if plugin.top is None]
    if (runtime.workers or runtime.on or runtime.ranks > 1) and cells:
        option = "--on" if runtime.on else "--ranks" if runtime.ranks > 1 else "--workers"
        raise BadInput(
            f"{option}: {cells[0]} is defined in a notebook or script, which other processes cannot read; take "
            "workers=0, one rank and no cluster, or save it as a file and name that with plugins=[...]"
        )
    if not (runtime.workers or runtime.on or runtime.ranks > 1):
        for plugin in {plugin.digest: plugin for job in jobs for plugin in job.plugins}.values():
            with contextlib.suppress(BadInput):  # a stage whose plugin has changed says so itself
                ready_plugin(plugin, afresh=True)
    if runtime.launched:
        joined()  # at once: the other ranks wait for it
    agenda = Agenda(jobs, store)
    with _signals(_ECHO if runtime.launched else 0.0) as interruption:
        run = _Run(agenda, store, runtime, engine, interruption, devices)
        try:
            yield from _timed(run.pool, {} if runtime.on else probes or {}, runtime, engine, run.reason, devices)
            yield from run.stacks.notices()
            yield from run.stacks.choose(store, run.seconds_of, run.reason)
            yield from run.events()
        finally:
            run.pool.close()
            if runtime.launched:
                joined().end()
    if interruption.count and agenda.left:
        raise Interrupted(f"interrupted; {agenda.left} of {len(agenda.jobs)} stages are left")


def time_steps(probes: Mapping[str, Any], runtime: Runtime, engine: Engine | None = None) -> dict[str, StepTime]:
    """Kind -> what its steps take here, in as many workers at a time as a run has. A kind that fails is left out."""
    pool: Pool = Workers(runtime.workers, work, runtime.threads) if runtime.workers else Inline(work, never)
    times: dict[str, list[StepTime]] = defaultdict(list)
    try:
        for event in _timed(pool, probes, runtime, engine or training(), never, gpus(runtime.device)):
            times[event.identity].append(event.time)
    finally:
        pool.close()
    return {kind: StepTime(mean(t.step for t in some), mean(t.unit for t in some)) for kind, some in times.items()}


def _timed(
    pool: Pool, probes: Mapping[str, Any], runtime: Runtime, engine: Engine, stop: Stop, devices: list[str]
) -> Iterator[events.Timed]:
    """Time steps of each kind, in all slots at a time: the last ones of a round are filled with kinds timed before.

    devices: GPUs, taken in turn; none where there are none.
    """
    slots, kinds = pool.free, list(probes)
    queue = [kinds[i % len(kinds)] for i in range(-(-len(kinds) // slots) * slots)]
    turns = itertools.cycle(devices or [runtime.device])
    while (queue or pool.busy) and not stop():
        while queue and pool.free:
            kind, at = queue.pop(0), replace(runtime, device=next(turns))
            pool.start(kind, (Probe(kind, probes[kind]), None, at, engine))
        for report in pool.wait(_LOOK):
            if isinstance(report, WorkerMessage):
                yield report.message


def _jobs(stages: Iterable[Any], engine: Engine, data: Path) -> list[Job]:
    out: dict[str, Job] = {}
    for stage in stages:
        parent = stage.spec.parent
        source = None if parent is None else engine.identity(parent, data)
        plugins, arms = plugins_of(stage.spec), getattr(stage, "arms", ())
        out.setdefault(stage.identity, Job(stage.name, stage.identity, stage.spec, source, plugins, arms))
    return list(out.values())


def work(item: tuple[Any, Path, Runtime, Engine], stop: Stop) -> Generator[Event, None, None]:
    """What a worker does with what it is given: a stage, with the store by its folder, some as a stack, or a probe."""
    job, root, runtime, engine = item
    if isinstance(job, Probe):
        return time_one(job, runtime, engine)
    if isinstance(job, tuple):
        jobs, size = job
        return perform_stack(jobs, size, Store(root), runtime, engine, stop)
    return perform_one(job, Store(root), runtime, engine, stop)


def _pool(runtime: Runtime, stop: Stop, jobs: Iterable[Job]) -> Pool:
    """Slots of a cluster, of local processes, or the one of this process, or of ranks that do a job together."""
    if runtime.on:
        from headstart.runner.cluster import ClusterPool

        return ClusterPool(runtime)
    if runtime.ranks > 1 and not runtime.launched:
        plugins = {plugin.name: plugin for job in jobs for plugin in job.plugins}
        return RankProcesses(runtime.ranks, work, runtime, tuple(plugins.values()))
    return Workers(runtime.workers, work, runtime.threads) if runtime.workers else Inline(work, stop)


class _Run:
    """One call of `perform`: gives jobs to the pool and turns what comes back into events."""

    def __init__(
        self,
        agenda: Agenda,
        store: Store,
        runtime: Runtime,
        engine: Engine,
        interruption: _Interruption,
        devices: list[str],
    ) -> None:
        self._agenda, self._store, self._runtime, self._engine = agenda, store, runtime, engine
        self._interruption = interruption
        self._end = None if runtime.limit is None else time.monotonic() + runtime.limit
        self._devices, self._device_of = devices, dict[str, str]()
        self._deaths: dict[tuple[str, bool], int] = defaultdict(int)
        self._sparing: set[str] = set()  # stages whose worker was killed for memory
        self._announced: set[str] = set()
        self._at_work: dict[str, dict[str, Job]] = {}  # key of a slot's work -> the stages of it that have not ended
        self._refusal: BadInput | None = None
        self.stacks = Stacks(agenda.jobs.values(), runtime, engine, devices)
        self.pool = _pool(runtime, self.reason, agenda.jobs.values())

    def reason(self) -> StopReason | None:
        """Why all should save and stop now, or None."""
        if self._interruption.count or self._refusal is not None:
            return "interrupted"
        return "limit" if self._end is not None and time.monotonic() >= self._end else None

    def events(self) -> Iterator[Event]:
        """To the end, or until `reason`."""
        while self._agenda.left:
            if reason := self.reason():
                yield from self._wind_down(reason)
                if self._refusal is not None:
                    raise self._refusal
                return
            for job, why in self._agenda.hopeless():
                yield events.Failed(job.identity, job.name, f"not tried: {why}", tried=False)
            yield from self._fill()
            if self.pool.busy:
                for report in self.pool.wait(_LOOK):
                    yield from self._take(report)
            elif self._agenda.left:
                time.sleep(_LOOK / 2)

    def _fill(self) -> Iterator[Event]:
        """Give every free slot a stage; what is complete already is passed over at once."""
        while (free := self.pool.free) and (job := self._agenda.take((free + self.pool.busy) // 2)) is not None:
            jobs = yield from self._left_of([job])
            size = self.stacks.size(job)
            if jobs and size > 1:
                alike = self.stacks.alike(job)
                # Divided among the free slots, of which those of one GPU count once; what is more than a stack holds
                # takes the places that get free.
                slots = min(free, len(self._devices) or free)
                share = max(2, -(-(1 + self._agenda.waiting(alike)) // slots))
                jobs += yield from self._left_of(self._agenda.take_alike(alike, share - 1))
            if jobs:
                runtime = replace(self._on_free_device(job.identity), sparing=job.identity in self._sparing)
                self._at_work[job.identity] = {each.identity: each for each in jobs}
                item: Any = jobs[0] if len(jobs) == 1 else (tuple(jobs), size)
                self.pool.start(job.identity, (item, self._store.root, runtime, self._engine))

    def _left_of(self, jobs: Iterable[Job]) -> Generator[Event, None, list[Job]]:
        """Those of the stages that have to be done here and now."""
        left = []
        for job in jobs:
            result = self._complete(job)
            if result is not None:
                self._agenda.end(job.identity, result["status"])
                yield events.Skipped(job.identity, job.name, result)
            elif self._store.status(job.identity) == "running":
                yield from self._wait_for(job)
            else:
                left.append(job)
        return left

    def seconds_of(self, spec: Any, models: int) -> float | None:
        """Seconds of a step of so many models of a stage, measured in a slot; None where memory lacks, or at a stop."""
        if self.reason():
            return None
        probe, seconds = Probe("stack", spec, models), None
        self.pool.start(probe.kind, (probe, None, self._runtime_of_probe(), self._engine))
        while self.pool.busy and not self.reason():
            for report in self.pool.wait(_LOOK):
                if isinstance(report, WorkerMessage) and isinstance(report.message, events.Timed):
                    seconds = report.message.time.step
        return seconds

    def _runtime_of_probe(self) -> Runtime:
        return replace(self._runtime, device=self._devices[0]) if self._devices else self._runtime

    def _on_free_device(self, identity: str) -> Runtime:
        """The runtime with the GPU that has the fewest stages now; as it is where there are none."""
        if not self._devices:
            return self._runtime
        self._device_of.pop(identity, None)
        used = [device for other, device in self._device_of.items() if self._agenda.is_running(other)]
        self._device_of[identity] = device = min(self._devices, key=used.count)
        return replace(self._runtime, device=device)

    def _complete(self, job: Job) -> dict[str, Any] | None:
        """The result of a stage that is done and sound; a damaged one is left to who claims it."""
        try:
            result = self._store.result(job.identity)
            sound = result is not None and self._store.problem(job.identity) is None
        except (Damaged, OSError):  # whoever claims it says what is wrong
            return None
        if not sound:
            return None
        tidy(self._store.folder(job.identity))
        return result

    def _wait_for(self, job: Job) -> Iterator[Event]:
        self._agenda.put_back(job.identity, _LOOK_AGAIN)
        if job.identity not in self._announced:
            self._announced.add(job.identity)
            yield events.Waiting(job.identity, job.name)

    def _take(self, report: WorkerReport) -> Iterator[Event]:
        jobs = self._at_work.get(report.key)
        if jobs is None:
            return  # a probe that was interrupted
        if isinstance(report, WorkerMessage):
            yield from self._pass_on(self._agenda.jobs[report.message.identity], report.message)
            if isinstance(report.message, events.ENDS):
                jobs.pop(report.message.identity, None)
            return
        del self._at_work[report.key]
        left = list(jobs.values())
        if isinstance(report, WorkerDied):
            yield from self._died(left, report)
        elif self._refusal is not None:
            for job in left:
                self._agenda.put_back(job.identity)
        else:
            error = report.error or "the work ended without a result"
            for job in left:
                yield self._give_up(job, error.strip().splitlines()[-1], error)

    def _pass_on(self, job: Job, event: Event) -> Iterator[Event]:
        if isinstance(event, events.TooLarge):
            self._refusal = too_large(event.models, self._runtime.device)
            return
        if isinstance(event, events.Waiting):
            yield from self._wait_for(job)
            return
        if isinstance(event, (events.Finished, events.Skipped)):
            self._agenda.end(job.identity, event.result["status"])
        elif isinstance(event, events.Failed):
            self._agenda.end(job.identity, "failed")
        elif isinstance(event, events.Stopped):
            self._agenda.put_back(job.identity)
        yield event

    def _died(self, jobs: list[Job], report: WorkerDied) -> Iterator[Event]:
        """The first time a stage is tried again, in a new worker, and alone; the second time it has failed."""
        message, out, again = f"its worker {report.why}", "", list[Job]()
        fewer = "models to --stack" if len(jobs) > 1 else "--ranks" if self._runtime.ranks > 1 else "--workers"
        for_memory = FOR_MEMORY in report.why
        if for_memory:
            self._sparing.update(job.identity for job in jobs)
            out = f"; give fewer {fewer}, a smaller optim.batch_size, or allow more memory"
        elif lacks_processes(report.tail):
            out = f": {NO_PROCESSES}"
        elif "SIGKILL" in report.why:
            message += f" (by the system if memory ran out; give fewer {fewer} then)"
        tries, times = (_MACHINES, f"{_MACHINES} times") if report.lost else (_TRIES, "twice")
        for job in jobs:
            self._deaths[job.identity, report.lost] += 1
            if self.reason() or self._deaths[job.identity, report.lost] < tries:
                self._agenda.put_back(job.identity)
                again.append(job)
            else:
                yield self._give_up(job, f"{message}, {times}{out}", report.tail)
        if again and not self.reason():
            self.stacks.separate(again)
            whole = "the stage is" if len(again) == 1 else f"the {len(again)} stages of its stack are, each alone,"
            way = "the stage goes on elsewhere" if report.lost else f"{whole} tried once more"
            if for_memory and not report.lost:
                half = ", and from here on half as many stages run at a time" if self._runtime.workers > 1 else ""
                way += f", with less in memory: its examples are read batch by batch{half}"
            yield events.Notice(again[0].identity, again[0].name, f"{message}{out}; {way}")

    def _give_up(self, job: Job, message: str, details: str) -> Event:
        with self._store.claim(job.identity, job.document) as folder:
            if folder is not None:
                folder.fail(message, details)
        self._agenda.end(job.identity, "failed")
        return events.Failed(job.identity, job.name, message)

    def _wind_down(self, reason: StopReason) -> Iterator[Event]:
        """Let what runs save; what has not after the time of grace is ended and keeps its last state."""
        self.pool.stop(reason)
        end = time.monotonic() + _GRACE
        while self.pool.busy and time.monotonic() < end:
            for report in self.pool.wait(_LOOK):
                yield from self._take(report)


class _Interruption:
    """How often Ctrl-C, SIGTERM or SIGHUP came, and when first."""

    count = 0
    first = 0.0


@contextlib.contextmanager
def _signals(echo: float = 0.0) -> Iterator[_Interruption]:
    """The first Ctrl-C, SIGTERM or SIGHUP is counted, the second raises KeyboardInterrupt at once.

    echo: seconds after the first in which another one counts as the same. Outside the main thread signals cannot be
    taken over; they keep their meaning there.
    """
    interruption = _Interruption()

    def count(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a handler
        if interruption.count and time.monotonic() - interruption.first < echo:
            return
        interruption.first = interruption.first or time.monotonic()
        interruption.count += 1
        if interruption.count > 1:
            raise KeyboardInterrupt

    with signals_kept() as numbers:
        for number in numbers:
            signal.signal(number, count)
        yield interruption
