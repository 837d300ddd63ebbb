"""As much of Ray as the runner asks of it, in this process: a task runs when it is submitted, in one go.

It says what real Ray does in the cases that a real cluster shows too seldom: lost nodes, damaged messages, other versions.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class RayError(Exception):
    """What Ray's own exceptions derive from."""


class RayTaskError(RayError):
    """A task raised something: its `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause


class NodeDiedError(RayError):
    """The node of a task is gone."""


class WorkerCrashedError(RayError):
    """The process of a task is gone."""


class GetTimeoutError(RayError, TimeoutError):
    """Nothing came in time."""


class TaskUnschedulableError(RayError):
    """The node that a task was bound to has gone."""


class Reference:
    """What has become of a task, or an object."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value, self.error = value, error


@dataclass(frozen=True)
class Affinity:
    """Where a task runs."""

    node_id: str
    soft: bool


class FakeRay(ModuleType):
    """A cluster whose nodes have these `resources`.

    before: called with the number of a stage's task before it runs; what it raises is what becomes of the task. altered:
    what the driver gets of a message. running: whether tasks run at all, or wait in the queue.
    """

    def __init__(self, *resources: dict[str, float]) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.resources = list(resources)
        self.before: Callable[[int], None] = lambda _: None
        self.altered: Callable[[bytes], bytes] = lambda message: message
        self.running = True
        self.tasks: list[dict[str, Any]] = []
        self.cancelled: list[Reference] = []
        names = (RayError, RayTaskError, NodeDiedError, WorkerCrashedError, GetTimeoutError, TaskUnschedulableError)
        self.exceptions = SimpleNamespace(**{name.__name__: name for name in names})
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=Affinity)
        self.util = SimpleNamespace(scheduling_strategies=strategies)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it what `import ray` gives."""
        monkeypatch.setitem(sys.modules, "ray", self)
        for name in ("grpc", "ray.util", "ray.util.scheduling_strategies"):
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, module)

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": str(i), "Alive": True, "NodeManagerAddress": f"10.0.0.{i}", "Resources": resources}
            for i, resources in enumerate(self.resources, start=1)
        ]

    def put(self, value: Any) -> Reference:
        return Reference(value)

    def get(self, reference: Any, timeout: float | None = None) -> Any:
        if not isinstance(reference, Reference):
            return reference
        if reference.error is not None:
            raise reference.error
        return reference.value

    def wait(
        self, references: list[Reference], num_returns: int, timeout: float
    ) -> tuple[list[Reference], list[Reference]]:
        return (references, []) if self.running else ([], references)

    def cancel(self, reference: Reference, force: bool) -> None:
        self.cancelled.append(reference)

    def kill(self, actor: Any) -> None: ...

    def remote(self, **options: Any) -> Callable[[Any], Any]:
        return lambda target: _Class(self, target) if inspect.isclass(target) else _Task(self, target, options)


class _Class:
    def __init__(self, ray: FakeRay, target: type) -> None:
        self.ray, self.target = ray, target

    def remote(self) -> Any:
        return _Actor(self.ray, self.target())


class _Actor:
    def __init__(self, ray: FakeRay, target: Any) -> None:
        self.ray, self.target = ray, target

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            if name == "put":
                key, message = args
                args = (key, self.ray.altered(message))
            return asyncio.run(getattr(self.target, name)(*args))

        return SimpleNamespace(remote=call)


class _Task:
    def __init__(self, ray: FakeRay, target: Any, options: dict[str, Any]) -> None:
        self.ray, self.target, self.settings = ray, target, options

    def options(self, **options: Any) -> _Task:
        return _Task(self.ray, self.target, {**self.settings, **options})

    def remote(self, *args: Any) -> Reference:
        is_stage = "scheduling_strategy" not in self.settings
        if is_stage:
            self.ray.tasks.append({**self.settings, "args": args})
            if not self.ray.running:
                return Reference()
        try:
            if is_stage:
                self.ray.before(len(self.ray.tasks))
            return Reference(self.target(*args))
        except RayError as error:
            return Reference(error=error)
        except Exception as error:
            return Reference(error=RayTaskError(error))
