"""What is performed and how: the job of one stage, a probe of its speed, the runtime, and the engine that trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.plugins import Plugin, ready_plugin


@dataclass(frozen=True)
class Runtime:
    """How stages are performed. Never part of an identity.

    device: `auto` (CUDA where there is one, else CPU), `cpu`, `cuda` (each worker takes a
    GPU of its own) or `cuda:N`. workers: processes (0: in this one).
    threads: of each stage. save_every: seconds between states, at most 60. limit: seconds for the whole run.
    """

    data: Path = Path("data")
    device: str = "auto"
    workers: int = 0
    threads: int = 1
    save_every: float = 20.0
    limit: float | None = None


@dataclass(frozen=True)
class Engine:
    """What training is done with; a test may put small stand-ins here. All are functions of a module."""

    begin: Callable[..., Any]
    identity: Callable[[Any, Path], str]
    open_task: Callable[[Any, Path], Any]
    probe_task: Callable[[Any, Path, int, int], Any] | None = None


@dataclass(frozen=True)
class Job:
    """One stage to be done. parent: the identity of the stage whose weights it starts from, or None.

    plugins: the code of a person's own that its kinds come from. A job with some crosses to a worker as plain values,
    since a class would be imported there before anybody could compare its source: `ready` reads it back.
    """

    name: str
    identity: str
    spec: Any
    parent: str | None
    plugins: tuple[Plugin, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """What `stage.json` says of it."""
        plugins = {"plugins": {plugin.name: plugin.digest for plugin in self.plugins}} if self.plugins else {}
        return {"name": self.name, "spec": self._values(), "parent": self.parent, **plugins}

    def ready(self, identity: Callable[[Any, Path], str], data: Path) -> Job:
        """The job with its plugins loaded. Raises: BadInput where their code is no longer what the identity holds."""
        if not self.plugins:
            return self
        from headstart.stage import stage_from_json

        plugins = tuple(ready_plugin(plugin) for plugin in self.plugins)
        spec = stage_from_json(self.spec) if isinstance(self.spec, Mapping) else self.spec
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
        return Job, (self.name, self.identity, spec, self.parent, self.plugins)


@dataclass(frozen=True)
class Probe:
    """A stage of which a few steps are timed; nothing of it is kept. kind: equal for stages of equal steps."""

    kind: str
    spec: Any


def training() -> Engine:
    """The engine of every real run."""
    from headstart.stage import begin, identity
    from headstart.tasks import open_task
    from headstart.tasks.build import probe_task

    return Engine(begin, identity, open_task, probe_task)
