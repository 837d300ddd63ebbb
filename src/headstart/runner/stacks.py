"""Which stages train as one stack, and how many at a time: as asked for, or as timed once and kept beside the study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headstart import disk
from headstart.errors import BadInput, Damaged
from headstart.runner import events
from headstart.runner.events import Event
from headstart.runner.job import Engine, Job, Runtime, StackChoice
from headstart.runner.local import Stop
from headstart.store import Store
from headstart.store.files import optional_json, publish_json

Timer = Callable[[Any, int], float | None]
"""(stage, models) -> seconds of a step of so many models of it together; None where they exceed the memory."""


def read_stack(text: str) -> StackChoice:
    """What `--stack` says. Raises: BadInput unless it is auto, off or a number of models."""
    if text == "auto":
        return "auto"
    if text in ("off", "1"):
        return "off"
    if text.isascii() and text.isdigit() and int(text) > 1:
        return int(text)
    raise BadInput(f"--stack: {text!r} is none of auto, off or a number of models from 2 on")


class Stacks:
    """How many stages of each sort train together. sizes: by what they have in common; 0: each alone."""

    def __init__(self, jobs: Iterable[Job], runtime: Runtime, engine: Engine, devices: list[str]) -> None:
        self.runtime, self.sizes = runtime, dict[str, int]()
        self._jobs: dict[str, list[Job]] = {}
        self._keys: dict[str, str] = {}
        self._alone: dict[str, Job] = {}  # why -> the first stage that it holds for
        self._retried: set[str] = set()
        auto = runtime.stack == "auto"
        if runtime.stack == "off" or engine.stack_key is None or (auto and not devices):
            return
        for job in jobs:
            key, reason = engine.stack_key(job.spec)
            if key:
                self._keys[job.identity] = key
                self._jobs.setdefault(key, []).append(job)
            elif reason:
                self._alone.setdefault(reason, job)
        if not auto:
            self.sizes = dict.fromkeys(self._jobs, int(runtime.stack))

    def notices(self) -> Iterator[Event]:
        """Which stages train alone, and why."""
        for reason, job in self._alone.items():
            yield events.Notice(job.identity, job.name, f"trains alone: {reason}")

    def choose(self, store: Store, timer: Timer, stop: Stop) -> Iterator[Event]:
        """Time both ways for each sort of stages that has no size yet; what was kept is taken as it is."""
        file = self.runtime.stacks
        choices = _read(file)
        for key, jobs in self._jobs.items():
            left = [job for job in jobs if store.result(job.identity) is None]
            if key in self.sizes or key in choices or len(left) < 2:
                continue
            choice = fastest(left[0].spec, len(left), timer)
            if stop():
                return
            if choice is None:
                continue
            choices[key] = choice
            if file is not None:
                disk.make_folder(file.parent)
                publish_json(file, {"stacks": choices})
            yield events.Notice(left[0].identity, left[0].name, _text(choice, len(left), file))
        self.sizes = {key: choice["models"] for key, choice in choices.items()} | self.sizes

    def size(self, job: Job) -> int:
        """How many stages at a time train together with this one, itself included."""
        return 1 if job.identity in self._retried else max(self.sizes.get(self._keys.get(job.identity, ""), 0), 1)

    def alike(self, job: Job) -> Callable[[Job], bool]:
        """Tells stages that can train with this one."""
        key = self._keys[job.identity]
        return lambda other: self._keys.get(other.identity) == key and other.identity not in self._retried

    def separate(self, jobs: Iterable[Job]) -> None:
        """These train alone from now on: a stack of them has brought its worker down."""
        self._retried.update(job.identity for job in jobs)


def fastest(spec: Any, most: int, timer: Timer) -> dict[str, Any] | None:
    """The size at which a step of one model takes least: as many as fit into the memory, or 0, alone.

    {"models", "alone", "stacked"}: seconds of a step of one model. None where the time alone cannot be had.
    """
    alone = timer(spec, 1)
    if alone is None:
        return None
    models = most
    while models > 1:
        stacked = timer(spec, models)
        if stacked is not None:
            each = stacked / models
            return {"models": models if each < alone else 0, "alone": alone, "stacked": each}
        models //= 2
    return {"models": 0, "alone": alone, "stacked": None}


def too_large(models: int, device: str) -> BadInput:
    """What is raised where a stack does not fit."""
    way = f"--stack {models // 2}, or --stack off" if models > 3 else "--stack off"
    return BadInput(
        f"--stack: {models} models at a time do not fit into the memory of {device}; give {way}. What was saved is "
        "kept, and the same study goes on from there"
    )


def _read(file: Path | None) -> dict[str, dict[str, Any]]:
    if file is None:
        return {}
    try:
        document: Mapping[str, Any] = optional_json(file, follow=True) or {}
    except Damaged:
        return {}  # it is timed and written anew
    return dict(document.get("stacks", {}))


def _text(choice: Mapping[str, Any], stages: int, file: Path | None) -> str:
    where = f"; kept in {file}" if file is not None else ""
    alone = f"{1e3 * choice['alone']:.3g} ms alone"
    if choice["stacked"] is None:
        return f"{stages} stages of this sort train one by one: a stack of two exceeds the memory{where}"
    each = f"{1e3 * choice['stacked']:.3g} ms in a stack and {alone}, for each step of a stage"
    if not choice["models"]:
        return f"{stages} stages of this sort train one by one: {each}{where}"
    return f"{stages} stages of this sort train as a stack, {choice['models']} at a time: {each}{where}"
