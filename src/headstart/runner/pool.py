"""A pool of slots, in which work is done: what the runner asks of one, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

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
    """The worker at the job `key` is gone: `why` (a signal or an exit code) and its last words."""

    key: str
    why: str
    tail: str


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
