"""What a machine of a cluster does: one stage in a store of its own, whose news go to the driver as they come."""

from __future__ import annotations

import dataclasses
import importlib
import json
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from headstart import disk
from headstart.atomic import publish
from headstart.documents import COUNT, TEXT, TRUTH, Form, as_json, misfits, of_words
from headstart.errors import BadInput
from headstart.plugins import load_copy
from headstart.runner import events
from headstart.runner.events import Event
from headstart.runner.job import Engine, Job, Runtime, training
from headstart.runner.machine import keep_freed_memory, version
from headstart.runner.worker import perform_one
from headstart.store import RESULT, Store, publish_json
from headstart.store.forms import RECORD_FORM
from headstart.store.transfer import News, pack, unpack

SOURCES = "source/"
"""Before the names of a plugin's files in a request."""
_EVENT: Form = {
    **dict.fromkeys(("kind", "identity", "name"), TEXT),
    **dict.fromkeys(("step?", "steps?", "attempt?", "models?"), COUNT),
    **dict.fromkeys(("message?", "text?"), TEXT),
    "record?": (RECORD_FORM, None),
    "tried?": TRUTH,
    "reason?": of_words(*get_args(events.StopReason)),
}
_SHOW_EVERY = 1.0  # seconds between two signs of progress that bring nothing else


def versions() -> dict[str, str]:
    """What must agree between the machines of a run: Python's minor version, ray and headstart."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: version(name) for name in ("ray", "headstart")}}


def introduce() -> str:
    """`versions` of this machine as JSON; what a cluster's nodes are asked first."""
    return json.dumps(versions())


def request(job: Job, runtime: Runtime, more: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """A job as a message. more: of `serve`. files: of the stage, as far as it is."""
    plugins = [
        {"name": plugin.name, "digest": plugin.digest, "classes": list(plugin.classes)} for plugin in job.plugins
    ]
    sources = {
        f"{SOURCES}{plugin.digest}/{name}": content
        for plugin in job.plugins
        for name, content in plugin.sources.items()
    }
    settings = {name: getattr(runtime, name) for name in ("device", "threads", "save_every", "limit")}
    head = {"versions": versions(), "identity": job.identity, **job.document, "plugins": plugins, "runtime": settings}
    return pack({**head, "data": str(runtime.data), **more}, {**files, **sources})


def serve(mailbox: Any, key: str, message: bytes, references: Sequence[Any]) -> None:
    """Do the stage of a request, and put into the mailbox, under `key`, every event with the files that are new.

    references: of objects that the stage needs: its parent's weights and its task's arrays, None where it has none.
    The request says of them: `weights`, which of the parent's, and their `weights_digest`; `task`, the facts and the
    digest of its data.
    Raises: BadInput where this machine has other versions than the driver.
    """
    head, files = unpack(message)
    if head["versions"] != versions():
        raise BadInput(f"this node has {versions()}, and the driver {head['versions']}; install the same on both")
    ray = importlib.import_module("ray")
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="headstart-") as name:
        root = Path(name)
        for file, content in files.items():
            path = root / (file if file.startswith(SOURCES) else Path("runs", head["identity"], file))
            disk.make_folder(path.parent)
            disk.write_file(path, content)
        store = Store(root / "runs")
        disk.make_folder(store.folder(head["identity"]))
        weights, arrays = references
        if weights is not None:
            _place_parent(store.folder(head["parent"]), head["weights"], ray.get(weights), head["weights_digest"])
        # A task that was sent is known by its content, which stands where its folder would.
        data = head["task"]["digest"] if head["task"] else head["data"]
        runtime = Runtime(data=Path(data), **head["runtime"])
        job, engine = _job(head, root), _engine(head, lambda: ray.get(arrays))
        post = _Post(ray, mailbox, key, News(store.folder(job.identity)))
        for event in perform_one(job, store, runtime, engine, post.reason):
            post.send(event)


def _job(head: Mapping[str, Any], root: Path) -> Job:
    """The job of a request, its plugins loaded from the sources that came with it."""
    from headstart.stage import read_stage

    plugins = tuple(
        load_copy(root / SOURCES / plugin["digest"], plugin["name"], plugin["digest"], plugin["classes"])
        for plugin in head["plugins"]
    )
    spec = read_stage(head["spec"])
    return Job(head["name"], head["identity"], spec, head["parent"], plugins, tuple(head.get("arms", ())))


def _engine(head: Mapping[str, Any], fetch: Any) -> Engine:
    """That of every run, but data that were sent are opened from this machine's cache."""
    from headstart.tasks.portable import unpacked
    from headstart.tasks.task import narrowed

    sent, own = head["task"], training()

    def open_task(spec: Any, data: Path) -> Any:
        return own.open_task(spec, data) if sent is None else narrowed(spec, unpacked(sent, fetch))

    # Code and data have been compared by their digests, and the files that an identity is made of are not here.
    return dataclasses.replace(own, identity=lambda *_: str(head["identity"]), open_task=open_task)


def _place_parent(folder: Path, which: str, weights: bytes, digest: str) -> None:
    """As much of a finished stage as its child asks the store for. digest: of the weights, where they come from."""
    disk.make_folder(folder)
    publish(folder / f"{which}.safetensors", weights)
    publish_json(folder / RESULT, {"identity": folder.name, "status": "complete", "digests": {which: digest}})


class _Post:
    """The way of a stage's events to the driver, and of the word to stop back with the answer."""

    def __init__(self, ray: Any, mailbox: Any, key: str, news: News) -> None:
        self._ray, self._mailbox, self._key, self._news = ray, mailbox, key, news
        self._reason, self._sent = "", 0.0

    def reason(self) -> str | None:
        """Why the stage should save and stop, as of the last answer, or None."""
        return self._reason or None

    def send(self, event: Event) -> None:
        """Send it, unless it only shows progress and another did so just now."""
        files, now = self._news.files(), time.monotonic()
        idle = isinstance(event, events.StageProgress) and event.record is None and not files
        if idle and now - self._sent < _SHOW_EVERY:
            return
        self._sent = now
        message = pack({"event": document(event), "names": self._news.names()}, files)
        self._reason = self._ray.get(self._mailbox.put.remote(self._key, message))


def document(event: Event) -> dict[str, Any]:
    """An event as JSON; a result goes as the file that it is."""
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event) if field.name != "result"}
    return {"kind": type(event).__name__, **values}


def event_of(values: Mapping[str, Any], result: Mapping[str, Any] | None) -> Event:
    """The event of a `document`, with the result that came beside it.

    Raises: LookupError, TypeError, ValueError where it is none, or has another type of value.
    """
    if wrong := next(misfits(as_json(values), _EVENT), None):
        raise ValueError(f"an event of which {wrong}")
    kinds: dict[str, Any] = {kind.__name__: kind for kind in Event.__subclasses__()}
    own = {name: value for name, value in values.items() if name != "kind"}
    event: Event = kinds[values["kind"]](**own, **({} if result is None else {"result": result}))
    return event
