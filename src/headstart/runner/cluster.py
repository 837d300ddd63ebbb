"""Stages as tasks of a Ray cluster: the driver has the one store, claims every stage and takes in what nodes send.

Nothing of ours crosses as a pickle: requests and replies are `store.transfer` messages, weights and arrays safetensors.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from headstart.errors import BadInput, Damaged
from headstart.runner import events, node
from headstart.runner.connection import Room, connect, last_line
from headstart.runner.events import Event
from headstart.runner.job import Job, Runtime, check_unchanged, training
from headstart.runner.local import WorkerDied, WorkerDone, WorkerMessage, WorkerReport
from headstart.runner.worker import explain, perform_one
from headstart.store import RESULT, ClaimedStage, LostLock, Store, read_json, seal
from headstart.store.transfer import partial_files, unpack

_WEIGHTS_KEPT = 8  # parents whose weights are held ready for further children
_HEAD = {"node:__internal_head__": 0.001}  # a resource that Ray gives to the head node alone


class Mailbox:
    """What nodes have sent and the driver has not taken yet; an actor on the cluster's head node."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, bytes]] = []
        self._reason = ""

    async def put(self, key: str, message: bytes) -> str:
        """Leave a message; the answer is why all should stop, or empty."""
        self._messages.append((key, message))
        return self._reason

    async def take(self, seconds: float) -> list[tuple[str, bytes]]:
        """All messages; waits at most so long for the first."""
        end = time.monotonic() + seconds
        while not self._messages and time.monotonic() < end:
            await asyncio.sleep(0.02)
        messages, self._messages = self._messages, []
        return messages

    async def stop(self, reason: str) -> None:
        """Answer every message with this from now on."""
        self._reason = reason


class ClusterPool:
    """Slots of a cluster, as `Pool`. The job of `start` is (Job, root of the store, Runtime, Engine).

    Raises: BadInput as `connect` and `Room` do.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._connection = connect(runtime.on)
        self._ray = ray = self._connection.ray
        try:
            self._room = Room(self._connection, runtime)
        except BaseException:
            self._connection.close()
            raise
        self._mailbox = ray.remote(num_cpus=0, resources=_HEAD)(Mailbox).remote()
        resources = {"num_cpus": self._room.cpus, "num_gpus": self._room.gpus}
        self._serve = ray.remote(max_retries=0, **resources)(node.serve)
        self._attempts: dict[str, _Attempt] = {}
        self._count = 0
        self._ready: list[WorkerReport] = []
        self._weights: dict[tuple[str, str, str], Any] = {}
        self._tasks: dict[str, tuple[dict[str, Any], Any]] = {}

    @property
    def free(self) -> int:
        """As `Pool`."""
        return max(0, self._room.slots - self.busy)

    @property
    def busy(self) -> int:
        """As `Pool`; what has ended counts until it is reported."""
        return len(self._attempts) + sum(isinstance(report, WorkerDone) for report in self._ready)

    def start(self, key: str, job: Any) -> None:
        """Claim the stage and hand it to Ray. One that reads a checkpoint, which is on this machine, is done here."""
        stage, root, runtime, engine = job
        store = Store(root)
        if stage.spec.model.way == "read":
            self._ready += [WorkerMessage(key, event) for event in perform_one(stage, store, runtime, engine)]
            self._ready.append(WorkerDone(key))
            return
        self._count += 1
        attempt = _Attempt(f"{key}/{self._count}", stage, store)
        self._attempts[attempt.key] = attempt
        try:
            event = attempt.begin()
            if event is None:
                attempt.reference = self._submit(attempt, runtime)
                return
        except Exception as error:
            event = attempt.fail(error)
        self._ready += [*self._end(attempt, [event]), WorkerDone(key)]

    def wait(self, timeout: float) -> list[WorkerReport]:
        """As `Pool`. Raises: BadInput where the cluster is gone."""
        reports, self._ready = self._ready, []
        try:
            running = {attempt.reference: attempt for attempt in self._attempts.values()}
            ended = self._ray.wait(list(running), num_returns=len(running), timeout=0)[0] if running else []
            messages = self._ray.get(self._mailbox.take.remote(0.0 if reports or ended else timeout))
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise BadInput(
                f"--on: the cluster has gone ({last_line(error)}); what it sent is in the store: give the same "
                "command again, with --on for another cluster or without it"
            ) from None
        for key, message in messages:
            if (attempt := self._attempts.get(key)) is not None:  # else of one that was given up
                reports += self._read(attempt, message)
        for reference in ended:
            if (attempt := running[reference]).key in self._attempts:
                reports += [*self._end(attempt, []), self._outcome(attempt)]
        return reports

    def stop(self, reason: str) -> None:
        """Ask all work to save and stop; what waits in Ray's queue is taken back."""
        self._mailbox.stop.remote(reason)
        for attempt in list(self._attempts.values()):
            if not attempt.has_begun:
                self._ray.cancel(attempt.reference, force=True)
                event = events.Stopped(attempt.job.identity, attempt.job.name, reason)  # type: ignore[arg-type]
                self._ready += [*self._end(attempt, [event]), WorkerDone(attempt.job.identity)]

    def close(self) -> None:
        """End all work at once and leave the cluster."""
        with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):
            for attempt in self._attempts.values():
                self._ray.cancel(attempt.reference, force=True)
            self._ray.kill(self._mailbox)
        for attempt in list(self._attempts.values()):
            self._end(attempt, [])
        self._connection.close()

    def _submit(self, attempt: _Attempt, runtime: Runtime) -> Any:
        """The reference of the task."""
        job, store, spec = attempt.job, attempt.store, attempt.job.spec
        weights, task, digest = None, None, ""
        if job.parent is not None:
            weights, digest = self._parent(store, job.parent, spec.weights)
        if spec.task is not None and not spec.task.generated:
            facts, task = self._task(job, runtime.data)
        head = {
            "weights": getattr(spec, "weights", ""),
            "weights_digest": digest,
            "task": facts if task is not None else None,
        }
        own = Runtime(runtime.data, self._room.device, 0, runtime.threads, runtime.save_every, runtime.limit)
        message = node.request(job, own, head, partial_files(attempt.folder.path))
        return self._serve.remote(self._mailbox, attempt.key, message, [weights, task])

    def _parent(self, store: Store, identity: str, which: Any) -> tuple[Any, str]:
        """The reference of a parent's weights, as `best.safetensors` of a stage that shares nothing would be, and what
        tells them from others."""
        key = (identity, which, store.weights_digest(identity, which))
        if key not in self._weights:
            while len(self._weights) >= _WEIGHTS_KEPT:
                del self._weights[next(iter(self._weights))]
            content = seal(store.weights(identity, which), {"identity": identity, "weights": which})
            self._weights[key] = self._ray.put(content)
        return self._weights[key], key[-1]

    def _task(self, job: Job, data: Path) -> tuple[dict[str, Any], Any]:
        """Facts, with the digest of the content, and the reference of the arrays of a stage's loaded task."""
        from headstart.tasks.portable import packed
        from headstart.tasks.task import WHOLE_DATA

        spec = job.spec.task
        key = json.dumps(spec.model_copy(update=WHOLE_DATA).document(), sort_keys=True)
        if key not in self._tasks:
            facts, arrays = packed(spec, data)
            check_unchanged(job.spec, data, training(), job.identity)
            total = hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + arrays)
            self._tasks[key] = ({**facts, "digest": total.hexdigest()}, self._ray.put(arrays))
        return self._tasks[key]

    def _read(self, attempt: _Attempt, message: bytes) -> list[WorkerReport]:
        """Take in what a node has sent. What does not fit its digests is not taken, and the stage is done again."""
        identity = attempt.job.identity
        if attempt.has_ended:
            return []
        try:
            return [WorkerMessage(identity, event) for event in attempt.receive(message)]
        except LostLock:
            lasting: Event = events.Waiting(identity, attempt.job.name)
        except (Damaged, LookupError, TypeError, ValueError) as error:
            self._ray.cancel(attempt.reference, force=True)
            return [*self._end(attempt, []), WorkerDied(identity, f"sent what cannot be used ({error})", "")]
        except OSError as error:
            lasting = attempt.fail(error)
        self._ray.cancel(attempt.reference, force=True)
        return [*self._end(attempt, [lasting]), WorkerDone(identity)]

    def _outcome(self, attempt: _Attempt) -> WorkerReport:
        """How the task of a stage ended."""
        identity, exceptions = attempt.job.identity, self._ray.exceptions
        try:
            self._ray.get(attempt.reference)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, exceptions.RayError):  # the node's own way to the cluster is cut
                return WorkerDied(identity, f"was cut off ({last_line(error.cause)})", "", lost=True)
            return WorkerDone(identity, str(error))
        except exceptions.NodeDiedError:
            return WorkerDied(identity, "was lost with its node", "", lost=True)
        except exceptions.RayError as error:
            return WorkerDied(identity, f"ended ({type(error).__name__})", str(error))
        return WorkerDone(identity)

    def _end(self, attempt: _Attempt, last: list[Event]) -> list[WorkerReport]:
        """Let go of a stage; its last events as reports."""
        del self._attempts[attempt.key]
        attempt.close()
        return [WorkerMessage(attempt.job.identity, event) for event in last]


class _Attempt:
    """One stage under way: claimed here, done on a node."""

    folder: ClaimedStage

    def __init__(self, key: str, job: Job, store: Store) -> None:
        self.key, self.job, self.store = key, job, store
        self.has_begun = self.has_ended = False
        self.reference: Any = None
        self._open = contextlib.ExitStack()
        self._notices: list[Event] = []

    def begin(self) -> Event | None:
        """Claim the stage; an event where there is nothing to do."""
        identity, name = self.job.identity, self.job.name
        folder = self._open.enter_context(self.store.claim(identity, self.job.document))
        if folder is None:
            return events.Waiting(identity, name)
        self.folder = folder
        if (result := folder.finished()) is not None:
            return events.Skipped(identity, name, result)
        self._notices = [events.Notice(identity, name, text) for text in folder.notices]
        return None

    def receive(self, message: bytes) -> list[Event]:
        """Publish the files of a message; its event. Raises: Damaged, LostLock, OSError, or others where it is none."""
        head, files = unpack(message)
        self.folder.receive(files, head["names"])
        result = read_json(self.folder.path / RESULT) if RESULT in files else None
        event = node.event_of(head["event"], result)
        if event.identity != self.job.identity:
            raise Damaged(f"{event.identity}: is not the stage that was asked for")
        self.has_begun, self.has_ended = True, isinstance(event, events.ENDS)
        notices, self._notices = self._notices, []
        return [*notices, event]

    def fail(self, error: Exception) -> Event:
        """The stage cannot be done because of something on this machine."""
        folder = getattr(self, "folder", None)
        message = explain(error, self.store.root if folder is None else folder.path)
        if folder is not None:
            folder.fail(message, "")
        return events.Failed(self.job.identity, self.job.name, message)

    def close(self) -> None:
        """Let others have the stage."""
        self._open.close()
