"""Jobs: what is performed, how, and in which order.

Order: half of the slots (rounded down) work for those that wait. They take parents, the longest chain below
them first, then the most stages below them. The others take stages that nobody waits for, in the order of the
plan, so that whole rows of a table appear early. A slot that finds none of its sort takes one of the other.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headstart.errors import BadInput
from headstart.plugins import Plugin, ready_plugin
from headstart.runner.machine import choose_device, default_workers, processes_worth, release, version
from headstart.store import Store

if TYPE_CHECKING:
    from headstart.checkpoints.fields import Fields

StackChoice = int | Literal["auto", "off"]
"""How many stages that differ in numbers alone train as one stack."""


@dataclass(frozen=True)
class Runtime:
    """How stages are performed. Never part of an identity.

    device: `auto` (CUDA where there is one, else CPU), `cpu`, `cuda` (each worker takes a
    GPU of its own) or `cuda:N`. workers: processes (0: in this one).
    threads: of each stage. save_every: seconds between states, at most 60, or more where saving would take
    over 5% of the time (0: a state after each step). limit: seconds for the whole run. stack: how many stages that
    differ in numbers alone train as one stack, `off`, or `auto`: off on a CPU, on a GPU as many as are fastest, timed
    once and kept in the file `stacks`.
    on: empty for this machine; `ray` for the cluster that this machine belongs to; `ray://HOST:PORT` for another, which
    is reached by its client port. There `workers` is how many stages are under way at most (0: as many as the nodes
    have room for), and gpus_per_stage is what each takes of a GPU, or how many (None: 1 where there are GPUs and
    the device is not `cpu`).
    ranks: processes that train each stage together. launched: torchrun has started them, and this one is among them.
    sparing: examples are not held in memory as they are computed with, but made so batch by batch; bits are equal.
    """

    data: Path = Path("data")
    device: str = "auto"
    workers: int = 0
    threads: int = 1
    save_every: float = 20.0
    limit: float | None = None
    stack: StackChoice = "off"
    stacks: Path | None = None
    on: str = ""
    gpus_per_stage: float | None = None
    ranks: int = 1
    launched: bool = False
    sparing: bool = False

    @staticmethod
    def slots(device: str, reads: Iterable[Fields] = ()) -> int:
        """As many processes as this machine has room for; 0 where it is one: this process. reads: of the checkpoints
        that each of them reads."""
        from headstart.stage.elsewhere import bytes_of

        return default_workers(device, each=sum(map(bytes_of, reads)))

    @staticmethod
    def processes_worth(slots: int) -> float:
        """How many processes' worth of work this machine does with so many of them: 1 to `slots`."""
        return processes_worth(slots)

    @staticmethod
    def version(package: str) -> str:
        """The installed version of a package; `release` is that of headstart, with its commit."""
        return release() if package == "release" else version(package)


@dataclass(frozen=True)
class Engine:
    """What training is done with; a test may put small stand-ins here. All are functions of a module.

    stack_key: as `stage.stack_key`; None where nothing can be stacked. stack: makes an empty stack. seconds: of a step
    of some runs as a stack, or of one.
    """

    begin: Callable[..., Any]
    identity: Callable[[Any, Path], str]
    open_task: Callable[[Any, Path], Any]
    probe_task: Callable[[Any, Path, int, int], Any] | None = None
    stack_key: Callable[[Any], tuple[str, str]] | None = None
    stack: Callable[[], Any] | None = None
    seconds: Callable[[Any], float] | None = None


@dataclass(frozen=True)
class Job:
    """One stage to be done. parent: the identity of the stage whose weights it starts from, or None.

    arms: those of the study that it is part of, for listings.

    plugins: the code of a person's own that its kinds come from. A job with some crosses to a worker as plain values,
    since a class would be imported there before anybody could compare its source: `ready` reads it back.
    """

    name: str
    identity: str
    spec: Any
    parent: str | None
    plugins: tuple[Plugin, ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """What `stage.json` says of it."""
        plugins = {"plugins": {plugin.name: plugin.digest for plugin in self.plugins}} if self.plugins else {}
        arms = {"arms": list(self.arms)} if self.arms else {}
        return {"name": self.name, "spec": self._values(), "parent": self.parent, **plugins, **arms}

    def ready(self, identity: Callable[[Any, Path], str], data: Path) -> Job:
        """The job with its plugins loaded. Raises: BadInput where their code is no longer what the identity holds."""
        if not self.plugins:
            return self
        from headstart.stage import read_stage

        plugins = tuple(ready_plugin(plugin) for plugin in self.plugins)
        spec = read_stage(self._values())  # of the classes as they are loaded now
        if identity(spec, data) != self.identity:
            names = ", ".join(plugin.file for plugin in plugins)
            raise BadInput(
                f"{names}: the code, or the data that it gives, has changed since this run began; give the "
                "command again"
            )
        return replace(self, spec=spec, plugins=plugins)

    def _values(self) -> Any:
        return self.spec if isinstance(self.spec, Mapping) else self.spec.model_dump(mode="json")

    def __reduce__(self) -> tuple[Any, ...]:
        spec = self._values() if self.plugins else self.spec
        return Job, (self.name, self.identity, spec, self.parent, self.plugins, self.arms)


@dataclass(frozen=True)
class Probe:
    """A stage of which a few steps are timed; nothing of it is kept. kind: equal for stages of equal steps.

    models: as a stack of so many, or, of 1, alone but timed in the same way; 0: with the time of scoring, as estimates
    take it.
    """

    kind: str
    spec: Any
    models: int = 0


def training() -> Engine:
    """The engine of every real run."""
    from headstart.stage import begin, identity, stack_key
    from headstart.stage.trained import seconds_together
    from headstart.tasks import open_task
    from headstart.tasks.outline import probe_task
    from headstart.training.stack import Stack

    return Engine(begin, identity, open_task, probe_task, stack_key, Stack, seconds_together)


class Agenda:
    """What is to be done, in which order, and what has become of it."""

    def __init__(self, jobs: list[Job], store: Store) -> None:
        self.jobs = {job.identity: job for job in jobs}
        self._store = store
        self._order = {job.identity: number for number, job in enumerate(jobs)}
        self._children: dict[str, list[str]] = {}
        for job in jobs:
            if job.parent is not None:
                self._children.setdefault(job.parent, []).append(job.identity)
        self._below: dict[str, tuple[int, int]] = {}
        for job in jobs:
            self._measure(job.identity)
        self._waiting = dict(self.jobs)
        # Parents and others, the next one last, some taken already: thousands of stages are not searched each time.
        self._ranked: dict[bool, list[Job]] = {True: [], False: []}
        for job in sorted(jobs, key=self._rank, reverse=True):
            self._ranked[job.identity in self._children].append(job)
        self._outside = [job for job in self.jobs.values() if job.parent is not None and job.parent not in self.jobs]
        self._fallen = False  # a stage has ended that is no parent any more
        self._ended: dict[str, str] = {}  # identity -> complete, diverged or failed
        self._running: dict[str, Job] = {}
        self._not_before: dict[str, float] = {}  # identity -> when to look again

    @property
    def left(self) -> int:
        """Stages that have not ended."""
        return len(self._waiting) + len(self._running)

    def is_running(self, identity: str) -> bool:
        """Whether it was taken and has neither ended nor been put back."""
        return identity in self._running

    def take(self, parents: int) -> Job | None:
        """The next stage for a free slot, where `parents` slots are to work on parents; or None.

        It counts as running until `end` or `put_back`.
        """
        sought = sum(job.identity in self._children for job in self._running.values()) < parents
        job = self._next(sought) or self._next(not sought)
        if job is not None:
            self._running[job.identity] = self._waiting.pop(job.identity)
        return job

    def _next(self, parents: bool) -> Job | None:
        """The first of the parents, or of the others, that can be taken now."""
        now, ranked = time.monotonic(), self._ranked[parents]
        while ranked and ranked[-1].identity not in self._waiting:
            ranked.pop()
        for job in reversed(ranked):
            free = job.identity in self._waiting and self._not_before.get(job.identity, 0.0) <= now
            if free and self._ready(job):
                return job
        return None

    def take_alike(self, alike: Callable[[Job], bool], most: int) -> list[Job]:
        """Up to so many more stages that can go with one that was taken, in the order of the plan."""
        now = time.monotonic()
        ready = [job for job in self._waiting.values() if self._not_before.get(job.identity, 0.0) <= now]
        jobs = sorted((job for job in ready if alike(job) and self._ready(job)), key=lambda j: self._order[j.identity])
        for job in jobs[:most]:
            self._running[job.identity] = self._waiting.pop(job.identity)
        return jobs[:most]

    def waiting(self, alike: Callable[[Job], bool]) -> int:
        """How many stages of a kind could be taken now."""
        return sum(alike(job) and self._ready(job) for job in self._waiting.values())

    def _rank(self, job: Job) -> tuple[int, int, int]:
        chain, count = self._below[job.identity]
        return (-chain, -count, self._order[job.identity])

    def _measure(self, identity: str) -> tuple[int, int]:
        """(stages on the longest chain below, all stages below)."""
        if identity not in self._below:
            below = [self._measure(child) for child in self._children.get(identity, ())]
            chain = max((1 + chain for chain, _ in below), default=0)
            self._below[identity] = (chain, sum(1 + count for _, count in below))
        return self._below[identity]

    def _ready(self, job: Job) -> bool:
        if job.parent is None or self._ended.get(job.parent) == "complete":
            return True
        return job.parent not in self.jobs and self._store.status(job.parent) == "complete"

    def end(self, identity: str, status: str) -> None:
        """A running stage is over: complete, diverged or failed."""
        self._running.pop(identity)
        self._ended[identity] = status
        self._fallen |= status != "complete"

    def put_back(self, identity: str, pause: float = 0.0) -> None:
        """A running stage has to wait, or to be done again."""
        job = self._waiting[identity] = self._running.pop(identity)
        self._not_before[identity] = time.monotonic() + pause
        ranked = self._ranked[identity in self._children]
        if job not in ranked[-1:]:
            ranked.append(job)
            ranked.sort(key=self._rank, reverse=True)

    def hopeless(self) -> Iterator[tuple[Job, str]]:
        """Stages whose parent will not come, and why; they end as failed."""
        again = self._fallen or any(self._missing_parent(job) for job in self._outside if job.identity in self._waiting)
        self._fallen = False
        while again:  # the end of one may be the end of those below it
            again = False
            for job in list(self._waiting.values()):
                if why := self._missing_parent(job):
                    again = True
                    del self._waiting[job.identity]
                    self._ended[job.identity] = "failed"
                    yield job, why

    def _missing_parent(self, job: Job) -> str:
        if job.parent is None:
            return ""
        if job.parent in self.jobs:
            ended, name = self._ended.get(job.parent, "complete"), self.jobs[job.parent].name
            return "" if ended == "complete" else f"its parent {name} {job.parent} {ended}"
        status = self._store.status(job.parent)
        return "" if status in ("complete", "running") else f"its parent {job.parent} is {status}"


TASKS_KEPT = 4
"""Loaded tasks that a process keeps; a study rarely has more at once."""
_tasks: dict[tuple[str, str], Any] = {}


def loaded_task(stage: Any, data: Path, engine: Engine, identity: str) -> Any:
    """The loaded task of a stage, None of one that has none; a process keeps the last few.

    identity: of the stage, as it was planned.

    Raises: BadInput where what was read is not what the identity holds: a file has changed since.
    """
    spec = stage.task
    if spec is None:
        return None
    key = (json.dumps(spec.document(), sort_keys=True), os.path.abspath(data))
    if key not in _tasks:
        while len(_tasks) >= TASKS_KEPT:
            del _tasks[next(iter(_tasks))]
        task = engine.open_task(spec, data)
        check_unchanged(stage, data, engine, identity)
        _tasks[key] = task
    return _tasks[key]


def check_unchanged(stage: Any, data: Path, engine: Engine, identity: str) -> None:
    """Raises: BadInput where the data of a stage are not those that its identity, as it was planned, holds."""
    from headstart.stage import look_again

    if not getattr(stage.task, "generated", True):
        look_again()
    if engine.identity(stage, data) != identity:
        raise BadInput(
            f"the data of task {stage.task.kind!r} have changed since this run began, and nothing was trained on them; "
            "give the command again"
        )


def close_tasks() -> None:
    """Forget the loaded tasks: their files may have changed since."""
    _tasks.clear()


def begin(root: Path, device: str) -> tuple[Store, str]:
    """The store in a folder, and the device that is meant, for a run in a process that may live long: what it remembers
    of data and tasks is forgotten. Raises: BadInput where either cannot be had.
    """
    from headstart.stage import look_again

    store = Store(root)
    store.check()
    chosen = choose_device(device)
    look_again()
    close_tasks()
    return store, chosen
