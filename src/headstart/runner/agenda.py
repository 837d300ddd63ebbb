"""What is to be done, in which order, and what has become of it.

Order: half of the slots (rounded down) work for those that wait. They take parents, the longest chain below
them first, then the most stages below them. The others take stages that nobody waits for, in the order of the
plan, so that whole rows of a table appear early. A slot that finds none of its sort takes one of the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from headstart.runner.job import Job
from headstart.store import Store


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
        now = time.monotonic()
        ready = [job for job in self._waiting.values() if self._not_before.get(job.identity, 0.0) <= now]
        ready = [job for job in ready if self._ready(job)]
        if not ready:
            return None
        sought = sum(job.identity in self._children for job in self._running.values()) < parents
        job = min(ready, key=lambda job: self._rank(job, sought))
        self._running[job.identity] = self._waiting.pop(job.identity)
        return job

    def _rank(self, job: Job, parents: bool) -> tuple[Any, ...]:
        is_parent = job.identity in self._children
        chain, count = self._below[job.identity]
        return (is_parent != parents, -chain, -count, self._order[job.identity])

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

    def put_back(self, identity: str, pause: float = 0.0) -> None:
        """A running stage has to wait, or to be done again."""
        self._waiting[identity] = self._running.pop(identity)
        self._not_before[identity] = time.monotonic() + pause

    def hopeless(self) -> Iterator[tuple[Job, str]]:
        """Stages whose parent will not come, and why; they end as failed."""
        again = True
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
